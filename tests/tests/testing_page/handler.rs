use axum::{
    Router,
    body::Body,
    extract::Path,
    http::{Request, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use redlock_runtime::{LockError, Redlock, redis_lock};
use std::time::Duration;
use tower::ServiceExt;

#[redis_lock(key = "order:{id}", expire = 10s)]
async fn pay(Path(id): Path<u64>) -> Result<StatusCode, Busy> {
    Ok(StatusCode::NO_CONTENT)
}

struct Busy(LockError);

impl From<LockError> for Busy {
    fn from(error: LockError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Busy {
    fn into_response(self) -> Response {
        match self.0 {
            LockError::Contended(report) => {
                let after = report.retry_after().unwrap_or(Duration::from_secs(1));
                let seconds = after.as_secs_f64().ceil();
                (StatusCode::CONFLICT, [(RETRY_AFTER, seconds.to_string())]).into_response()
            }
            _ => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    }
}

fn app() -> Router {
    Router::new().route("/orders/{id}/pay", post(pay))
}

async fn request(path: &str) -> Response {
    let request = Request::post(path).body(Body::empty()).unwrap();
    app().oneshot(request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_being_paid_is_a_conflict() {
    let redlock = Redlock::test();
    let _entered = redlock.enter();

    let lease = Duration::from_secs(10);
    let other = redlock.held_elsewhere("order:7").expires_in(lease);
    let response = request("/orders/7/pay").await;
    assert_eq!(response.status(), StatusCode::CONFLICT);
    assert_eq!(response.headers()[RETRY_AFTER], "10");
    assert_eq!(
        request("/orders/8/pay").await.status(),
        StatusCode::NO_CONTENT
    );

    drop(other);
    assert_eq!(
        request("/orders/7/pay").await.status(),
        StatusCode::NO_CONTENT
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_the_service_is_unavailable() {
    let redlock = Redlock::test();
    let _entered = redlock.enter();

    redlock.node(0).unreachable();
    assert_eq!(
        request("/orders/7/pay").await.status(),
        StatusCode::NO_CONTENT
    );
    redlock.node(1).unresponsive();
    assert_eq!(
        request("/orders/7/pay").await.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
}
