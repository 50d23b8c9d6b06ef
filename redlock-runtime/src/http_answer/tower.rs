use std::{
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::response::response;
use crate::lock::Lock;

/// Runs each request of a tower service, such as an axum router, under the lock that a closure derives from the
/// request.
///
/// The closure returns the lock with all its options, or `None` for a request that needs none. The lock is released
/// when the service has made its response: a body that it streams later is not protected.
///
/// A request that gets no lock, or whose lock is lost, gets the response [`http_status`](crate::LockError::http_status)
/// with `Retry-After` and an empty body. The [`LockError`](crate::LockError) is among the response's extensions: a
/// layer around this one can log it or write a body. A gRPC client cannot read this response: with tonic, annotate the
/// methods of the service.
///
/// ```
/// use http::{Request, Response};
/// use redlock_runtime::{LockLayer, Redlock};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let redlock = Redlock::builder().nodes(["memory://a"]).build().await?;
/// let one_at_a_time = LockLayer::new(move |request: &Request<String>| {
///     let account = request.headers().get("x-account")?.to_str().ok()?;
///     Some(redlock.lock(format!("account:{account}")))
/// });
/// let service = ServiceBuilder::new()
///     .layer(one_at_a_time)
///     .service(service_fn(async |request: Request<String>| {
///         Ok::<_, std::convert::Infallible>(Response::new(request.into_body()))
///     }));
/// let request = Request::builder().header("x-account", "7").body("hello".to_owned())?;
/// assert_eq!(service.oneshot(request).await?.body(), "hello");
/// # Ok(())
/// # }
/// ```
///
/// # Cancellation
/// The future of the service is cancel-safe as far as the inner one is: that is dropped first, then the
/// lock is released.
#[derive(Clone, Copy, Debug)]
pub struct LockLayer<F> {
    select: F,
}

impl<F> LockLayer<F> {
    /// Makes a layer that takes the lock which `select` returns for a request.
    pub const fn new<B>(select: F) -> Self
    where
        F: Fn(&Request<B>) -> Option<Lock>,
    {
        Self { select }
    }
}

impl<S, F: Clone> Layer<S> for LockLayer<F> {
    type Service = LockService<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService {
            inner,
            select: self.select.clone(),
        }
    }
}

/// What [`LockLayer`] makes of a service.
#[derive(Clone, Copy, Debug)]
pub struct LockService<S, F> {
    inner: S,
    select: F,
}

impl<S, F, B, R> Service<Request<B>> for LockService<S, F>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    F: Fn(&Request<B>) -> Option<Lock>,
    B: Send + 'static,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let lock = (self.select)(&request);
        // The one that is ready, and it is called under the lock: it may begin to work in `call`.
        let next = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, next);
        Box::pin(async move {
            let Some(lock) = lock else {
                return inner.call(request).await;
            };
            match lock.hold(|_| inner.call(request)).await {
                Ok(answer) => answer,
                Err(error) => Ok(response(error, R::default())),
            }
        })
    }
}
