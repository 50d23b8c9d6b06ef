//! Handlers that return the error itself, and a layer around one that knows of no lock. Frameworks as their own
//! documentations use them are in `examples`.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Path;
use axum::http::{Request, StatusCode, header::RETRY_AFTER};
use axum::response::Response;
use axum::routing::{get, post};
use redlock_runtime::{LockError, LockLayer, redis_lock};
use tower::ServiceExt;

use super::support::{assert_all_released, assert_held, install};

#[redis_lock(key = "axum:order:{id}")]
async fn pay(Path(id): Path<u64>) -> Result<String, LockError> {
    assert_held("axum:order:7").await;
    Ok(format!("{id} is paid"))
}

async fn statement() -> &'static str {
    assert_held("tower:/statement").await;
    "the statement"
}

async fn app() -> Router {
    let redlock = install().await;
    let by_path = LockLayer::new(move |request: &Request<Body>| {
        let path = request.uri().path();
        (path != "/free").then(|| redlock.lock(format!("tower:{path}")))
    });
    Router::new()
        .route("/statement", get(statement))
        .route("/free", get(async || "free"))
        .layer(by_path)
        .route("/orders/{id}", post(pay))
}

async fn answer(request: Request<Body>) -> (Response, String) {
    let mut answer = app().await.oneshot(request).await.unwrap();
    let body = std::mem::take(answer.body_mut());
    let text = to_bytes(body, 1000).await.unwrap().to_vec();
    (answer, String::from_utf8(text).unwrap())
}

/// How a refused request is answered, in both ways.
#[track_caller]
fn assert_contended(answer: &Response) {
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    // A guess, and not the whole lease.
    assert_eq!(answer.headers()[RETRY_AFTER], "1");
    let error = answer.extensions().get();
    assert!(matches!(error, Some(LockError::Contended(_))), "{error:?}");
}

#[tokio::test]
async fn an_error_that_is_a_response() {
    let request = || Request::post("/orders/7").body(Body::empty()).unwrap();
    assert_eq!(answer(request()).await.1, "7 is paid");
    assert_all_released().await;

    let other = install()
        .await
        .lock("axum:order:7")
        .acquire()
        .await
        .unwrap();
    let (refused, text) = answer(request()).await;
    assert_contended(&refused);
    // Neither key nor server.
    assert_eq!(text, "another request is being worked on; try again later");
    drop(other);
}

#[tokio::test]
async fn a_layer_that_locks_by_the_request() {
    let request = |path| Request::get(path).body(Body::empty()).unwrap();
    assert_eq!(answer(request("/statement")).await.1, "the statement");
    assert_all_released().await;

    let other = install().await.lock("tower:/statement");
    let other = other.acquire().await.unwrap();
    let (refused, text) = answer(request("/statement")).await;
    assert_contended(&refused);
    assert_eq!(text, "");
    assert_eq!(answer(request("/free")).await.1, "free");
    drop(other);
}
