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

mod with_actix {
    use actix_web::{App, Result, error::ErrorConflict, get, put, test, web};
    use redlock_runtime::redis_lock;

    use super::{Mutex, assert_all_released, assert_held, install};

    #[derive(Default)]
    struct AppStateWithCounter {
        counter: Mutex<i32>,
    }

    #[get("/users/{user_id}/{friend}")]
    #[redis_lock(key = "actix:user:{path.0}", on_error = |error| Err(ErrorConflict(error)))]
    async fn index(
        path: web::Path<(u32, String)>,
        data: web::Data<AppStateWithCounter>,
    ) -> Result<String> {
        assert_held("actix:user:7").await;
        *data.counter.lock().unwrap() += 1;
        let (user_id, friend) = path.into_inner();
        Ok(format!("Welcome {friend}, user_id {user_id}!"))
    }

    #[redis_lock(key = "actix:put:{user_id}", on_error = |error| Err(ErrorConflict(error)))]
    #[put("/users/{user_id}")]
    async fn above(user_id: web::Path<u32>) -> Result<String> {
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
        assert_eq!(refused.status(), actix_web::http::StatusCode::CONFLICT);
        drop(other);
    }
}

mod with_tonic {
    use redlock_runtime::redis_lock;
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
        #[redis_lock(key = "tonic:{request.get_ref().name}", on_error = |error| Err(Status::aborted(error.to_string())))]
        async fn say_hello(
            &self,
            request: Request<HelloRequest>,
        ) -> Result<Response<HelloReply>, Status> {
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
        assert_eq!(call().await.err().unwrap().code(), Code::Aborted);
        drop(other);
    }
}
