//! Other attributes above and below `#[redis_lock]`.

use super::support::{assert_all_released, assert_held, install};
use async_recursion::async_recursion;
use async_trait::async_trait;
use axum::Json;
use axum::extract::{Path, State};
use axum::response::IntoResponse;
use redlock_runtime::{LockError, redis_lock};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use tracing::instrument;
use tracing::span::{Attributes, Id, Record};

#[instrument(skip(secret), err)]
#[redis_lock(key = "instrument-above:{id}")]
async fn instrument_above(id: u64, secret: String) -> Result<usize, LockError> {
    assert_held("instrument-above:1").await;
    Ok(secret.len())
}

#[redis_lock(key = "instrument-below:{id}")]
#[instrument(skip(secret), err)]
async fn instrument_below(id: u64, secret: String) -> Result<usize, LockError> {
    assert_held("instrument-below:1").await;
    Ok(secret.len())
}

#[instrument]
#[redis_lock(key = "span", wait = 10s)]
async fn span_above() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "span", wait = 10s)]
#[instrument]
async fn span_below() -> Result<(), LockError> {
    Ok(())
}

/// Notes the names of the spans of this file.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<&'static str>>>);

impl tracing::Subscriber for Spans {
    fn enabled(&self, of: &tracing::Metadata<'_>) -> bool {
        of.is_span() && of.name().starts_with("span_")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.lock().unwrap().push(span.metadata().name());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// As the attribute's documentation says.
#[tokio::test]
async fn the_attribute_nearest_the_function_wraps_the_others() {
    type Waiting = Pin<Box<dyn Future<Output = Result<(), LockError>>>>;
    async fn waits(future: &mut Waiting) -> bool {
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }
    let other = install().await.lock("span").acquire();
    let other = tokio::spawn(other).await.unwrap().unwrap();
    let spans = Spans::default();
    let _recording = tracing::subscriber::set_default(spans.clone());
    let mut above: Waiting = Box::pin(span_above());
    let mut below: Waiting = Box::pin(span_below());
    assert!(waits(&mut above).await && waits(&mut below).await);
    assert_eq!(
        *spans.0.lock().unwrap(),
        ["span_below"],
        "the one with the wait"
    );
    drop((other, below));
    above.await.unwrap();
    assert_eq!(*spans.0.lock().unwrap(), ["span_below", "span_above"]);
}

struct Shop;

#[async_trait]
trait Pay {
    async fn above(&self, id: u64) -> Result<u64, LockError>;
    async fn below(&self, id: u64) -> Result<u64, LockError>;
}

#[async_trait]
impl Pay for Shop {
    #[instrument(skip(self))]
    #[redis_lock(key = "trait-instrument-above:{id}")]
    async fn above(&self, id: u64) -> Result<u64, LockError> {
        assert_held("trait-instrument-above:1").await;
        Ok(id)
    }

    #[redis_lock(key = "trait-instrument-below:{id}")]
    #[instrument(skip(self))]
    async fn below(&self, id: u64) -> Result<u64, LockError> {
        assert_held("trait-instrument-below:1").await;
        Ok(id)
    }
}

#[async_recursion]
#[redis_lock(key = "recursion-above:{n}")]
async fn recursion_above(n: u64) -> Result<u64, LockError> {
    assert_held(&format!("recursion-above:{n}")).await;
    if n == 0 {
        Ok(0)
    } else {
        Ok(recursion_above(n - 1).await? + n)
    }
}

#[redis_lock(key = "recursion-below:{n}")]
#[async_recursion]
async fn recursion_below(n: u64) -> Result<u64, LockError> {
    assert_held(&format!("recursion-below:{n}")).await;
    if n == 0 {
        Ok(0)
    } else {
        Ok(recursion_below(n - 1).await? + n)
    }
}

#[redis_lock(key = "inner-attribute")]
async fn inner_attribute(n: u64) -> Result<(), LockError> {
    #![allow(unused_variables)]
    //! An inner doc comment.
    assert_held("inner-attribute").await;
    Ok(())
}

/// Documented, and more.
#[allow(clippy::unused_async)]
#[must_use = "it may not be locked"]
#[redis_lock(key = "attributes")]
#[inline]
#[doc(hidden)]
pub(super) async fn attributes() -> Result<(), LockError> {
    assert_held("attributes").await;
    Ok(())
}

#[redis_lock(key = "main")]
#[tokio::main(flavor = "current_thread")]
async fn main_like() -> Result<(), LockError> {
    assert_held("main").await;
    Ok(())
}

#[derive(Debug)]
struct AppError;
impl From<LockError> for AppError {
    fn from(_: LockError) -> Self {
        Self
    }
}
impl IntoResponse for AppError {
    fn into_response(self) -> axum::response::Response {
        axum::http::StatusCode::CONFLICT.into_response()
    }
}

#[axum::debug_handler]
#[redis_lock(key = "handler-above:{id}")]
async fn handler_above(State(()): State<()>, Path(id): Path<u64>) -> Result<Json<u64>, AppError> {
    assert_held("handler-above:1").await;
    Ok(Json(id))
}

#[redis_lock(key = "handler-below:{id}")]
#[axum::debug_handler]
async fn handler_below(Path(id): Path<u64>, body: String) -> Result<Json<usize>, AppError> {
    assert_held("handler-below:1").await;
    let _ = id;
    Ok(Json(body.len()))
}

#[redis_lock(key = "into-response:{id}", on_error = |error| AppError::from(error).into_response())]
async fn into_response(Path(id): Path<u64>) -> impl IntoResponse {
    assert_held("into-response:1").await;
    Json(id).into_response()
}

#[redis_lock(key = "into-response-result")]
async fn into_response_result(body: String) -> Result<impl IntoResponse, AppError> {
    assert_held("into-response-result").await;
    Ok(Json(body))
}

#[redis_lock(key = "attribute-test", via = install().await)]
#[tokio::test]
async fn a_test_above() -> Result<(), LockError> {
    assert_held("attribute-test").await;
    Ok(())
}

#[tokio::test]
async fn every_attribute() {
    install().await;
    assert_eq!(instrument_above(1, "ab".to_owned()).await.unwrap(), 2);
    assert_eq!(instrument_below(1, "ab".to_owned()).await.unwrap(), 2);
    assert_eq!(Shop.above(1).await.unwrap(), 1);
    assert_eq!(Shop.below(1).await.unwrap(), 1);
    assert_eq!(recursion_above(3).await.unwrap(), 6);
    assert_eq!(recursion_below(3).await.unwrap(), 6);
    inner_attribute(1).await.unwrap();
    attributes().await.unwrap();
    tokio::task::spawn_blocking(main_like)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(handler_above(State(()), Path(1)).await.unwrap().0, 1);
    assert_eq!(handler_below(Path(1), "a".to_owned()).await.unwrap().0, 1);
    let _ = into_response(Path(1)).await.into_response();
    let _ = into_response_result(String::new())
        .await
        .unwrap()
        .into_response();
    let _: axum::Router = axum::Router::new()
        .route("/a/{id}", axum::routing::get(handler_above))
        .route("/b/{id}", axum::routing::post(handler_below))
        .route("/c/{id}", axum::routing::get(into_response))
        .route("/d", axum::routing::post(into_response_result))
        .with_state(());
    assert_all_released().await;
}
