//! Handlers as the documentations of web frameworks write them, with one line added.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::support::{assert_all_released, assert_held, install};

/// With the error type of axum's example `anyhow-error-response`.
mod with_axum {
    use axum::body::Body;
    use axum::extract::{Path, State};
    use axum::http::{Request, StatusCode, header::CONTENT_TYPE};
    use axum::response::{IntoResponse, Response};
    use axum::routing::put;
    use axum::{Json, Router};
    use redlock_runtime::redis_lock;
    use serde::{Deserialize, Serialize};
    use tower::ServiceExt;

    use super::{Arc, HashMap, Mutex, assert_all_released, assert_held, install};

    #[derive(Clone, Default)]
    struct AppState {
        users: Arc<Mutex<HashMap<u64, String>>>,
    }

    #[derive(Deserialize)]
    struct UpdateUser {
        username: String,
    }

    #[derive(Serialize)]
    struct User {
        id: u64,
        username: String,
    }

    struct AppError(anyhow::Error);

    impl IntoResponse for AppError {
        fn into_response(self) -> Response {
            let message = format!("Something went wrong: {}", self.0);
            (StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
        }
    }

    impl<E: Into<anyhow::Error>> From<E> for AppError {
        fn from(error: E) -> Self {
            Self(error.into())
        }
    }

    #[redis_lock(key = "axum:user:{user_id}")]
    async fn update_user(
        State(state): State<AppState>,
        Path(user_id): Path<u64>,
        Json(payload): Json<UpdateUser>,
    ) -> Result<Json<User>, AppError> {
        assert_held("axum:user:7").await;
        let username = payload.username;
        let mut users = state.users.lock().unwrap();
        users.insert(user_id, username.clone());
        Ok(Json(User {
            id: user_id,
            username,
        }))
    }

    #[tokio::test]
    async fn a_handler_with_extractors() {
        let redlock = install().await;
        let app = Router::new()
            .route("/users/{user_id}", put(update_user))
            .with_state(AppState::default());
        let call = || {
            let request = Request::put("/users/7").header(CONTENT_TYPE, "application/json");
            let request = request.body(Body::from(r#"{"username":"ann"}"#)).unwrap();
            app.clone().oneshot(request)
        };
        assert_eq!(call().await.unwrap().status(), StatusCode::OK);
        assert_all_released().await;
        let other = redlock.lock("axum:user:7").acquire().await.unwrap();
        let refused = call().await.unwrap().status();
        assert_eq!(refused, StatusCode::INTERNAL_SERVER_ERROR);
        drop(other);
    }
}

/// Handlers that return the error itself, and a layer around one that knows of no lock.
mod with_features {
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::extract::Path;
    use axum::http::{Request, StatusCode, header::RETRY_AFTER};
    use axum::response::Response;
    use axum::routing::{get, post};
    use redlock_runtime::{LockError, LockLayer, redis_lock};
    use tower::ServiceExt;

    use super::{assert_all_released, assert_held, install};

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
}

mod with_actix {
    use actix_web::http::{StatusCode, header::RETRY_AFTER};
    use actix_web::{App, HttpResponse, ResponseError, get, put, test, web};
    use redlock_runtime::{LockError, redis_lock};

    use super::{Mutex, assert_all_released, assert_held, install};

    #[derive(Default)]
    struct AppStateWithCounter {
        counter: Mutex<i32>,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct AppError(#[from] LockError);

    impl ResponseError for AppError {
        fn error_response(&self) -> HttpResponse {
            let status = StatusCode::from_u16(self.0.http_status()).unwrap();
            let pause = self.0.retry_pause().unwrap().as_secs();
            let mut response = HttpResponse::build(status);
            response.insert_header((RETRY_AFTER, pause)).finish()
        }
    }

    #[get("/users/{user_id}/{friend}")]
    #[redis_lock(key = "actix:user:{path.0}")]
    async fn index(
        path: web::Path<(u32, String)>,
        data: web::Data<AppStateWithCounter>,
    ) -> Result<String, AppError> {
        assert_held("actix:user:7").await;
        *data.counter.lock().unwrap() += 1;
        let (user_id, friend) = path.into_inner();
        Ok(format!("Welcome {friend}, user_id {user_id}!"))
    }

    #[redis_lock(key = "actix:put:{user_id}")]
    #[put("/users/{user_id}")]
    async fn above(user_id: web::Path<u32>) -> Result<String, AppError> {
        assert_held("actix:put:7").await;
        Ok(user_id.to_string())
    }

    #[actix_web::test]
    async fn a_handler_with_path_and_data() {
        let redlock = install().await;
        let data = web::Data::new(AppStateWithCounter::default());
        let app = App::new()
            .app_data(data.clone())
            .service(index)
            .service(above);
        let app = test::init_service(app).await;
        let get = || test::TestRequest::get().uri("/users/7/bob").to_request();
        let body = test::call_and_read_body(&app, get()).await;
        assert_eq!(body, "Welcome bob, user_id 7!");
        assert_eq!(*data.counter.lock().unwrap(), 1);
        let put = test::TestRequest::put().uri("/users/7").to_request();
        assert_eq!(test::call_and_read_body(&app, put).await, "7");
        assert_all_released().await;
        let other = redlock.lock("actix:user:7").acquire().await.unwrap();
        let refused = test::call_service(&app, get()).await;
        assert_eq!(refused.status(), StatusCode::CONFLICT);
        assert_eq!(refused.headers().get(RETRY_AFTER).unwrap(), "1");
        drop(other);
    }
}

mod with_tonic {
    use redlock_runtime::{LockError, redis_lock};
    use tonic::{Code, Request, Response, Status};

    use super::{assert_all_released, assert_held, install};

    /// What `tonic-build` makes of helloworld.proto, without the transport.
    mod hello_world {
        pub(super) struct HelloRequest {
            pub(super) name: String,
        }

        pub(super) struct HelloReply {
            pub(super) message: String,
        }

        pub(super) mod greeter_server {
            #[tonic::async_trait]
            pub(in super::super) trait Greeter: Send + Sync + 'static {
                async fn say_hello(
                    &self,
                    request: tonic::Request<super::HelloRequest>,
                ) -> Result<tonic::Response<super::HelloReply>, tonic::Status>;
            }
        }
    }

    use hello_world::greeter_server::Greeter;
    use hello_world::{HelloReply, HelloRequest};

    #[derive(Default)]
    struct MyGreeter;

    #[tonic::async_trait]
    impl Greeter for MyGreeter {
        async fn say_hello(
            &self,
            request: Request<HelloRequest>,
        ) -> Result<Response<HelloReply>, Status> {
            let greeted = self.greet(request).await;
            greeted.map_err(|error| Status::new(Code::Aborted, error.to_string()))
        }
    }

    impl MyGreeter {
        #[redis_lock(key = "tonic:{request.get_ref().name}")]
        async fn greet(
            &self,
            request: Request<HelloRequest>,
        ) -> Result<Response<HelloReply>, LockError> {
            assert_held("tonic:ann").await;
            let reply = HelloReply {
                message: format!("Hello {}!", request.into_inner().name),
            };
            Ok(Response::new(reply))
        }
    }

    #[tokio::test]
    async fn a_service_method() {
        let redlock = install().await;
        let service: Box<dyn Greeter> = Box::new(MyGreeter);
        let call = || {
            let name = "ann".to_owned();
            service.say_hello(Request::new(HelloRequest { name }))
        };
        let reply = call().await.unwrap().into_inner();
        assert_eq!(reply.message, "Hello ann!");
        assert_all_released().await;
        let other = redlock.lock("tonic:ann").acquire().await.unwrap();
        let refused = call().await.err().unwrap();
        assert_eq!(refused.code(), Code::Aborted);
        drop(other);
    }
}
