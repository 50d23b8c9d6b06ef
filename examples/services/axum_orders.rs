//! An axum service whose handlers are critical sections: one request at a time for each order,
//! on all instances of the service. A request that finds its order locked is answered 409 and
//! when to come back; without a majority of lock servers the answer is 503.
//!
//! ```sh
//! cargo run --release --example axum_orders      # needs no server; REDLOCK_NODES=... for real ones
//!
//! curl -i http://127.0.0.1:3000/orders/7/items --json '{"sku": "lamp", "cents": 1999}'
//! curl -i -X POST http://127.0.0.1:3000/orders/7/pay & curl -i -X POST http://127.0.0.1:3000/orders/7/pay
//! curl -i http://127.0.0.1:3000/customers/ann/statement
//! ```

#[path = "../shared/embedded.rs"]
mod embedded;
#[path = "../shared/stop_signal.rs"]
mod stop_signal;

use std::{
    collections::HashMap,
    env,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use redlock_runtime::{LockError, LockLayer, Redlock, redis_lock};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{net::TcpListener, select, time::sleep};

use embedded::warn_if_embedded;
use stop_signal::stop_signal;

/// For requests that are being answered when the service is to stop. Kubernetes sends SIGKILL 30 s
/// after SIGTERM; no handler takes longer than its `wait` and its lease.
const GRACE: Duration = Duration::from_secs(20);

/// Does not wait: a client that pays twice at once should rather be told.
#[redis_lock(key = "order:{id}", expire = 10s)]
async fn pay(State(orders): State<Orders>, Path(id): Path<u64>) -> Result<Json<Order>, ApiError> {
    let mut order = orders.load(id).ok_or(ApiError::NoSuchOrder)?;
    if !order.paid {
        // A client that hangs up, or a lost lock, ends this handler here. So give a real payment
        // provider an idempotency key.
        sleep(Duration::from_secs(2)).await;
        order.paid = true;
        orders.save(id, &order);
    }
    Ok(Json(order))
}

/// The same key, so that nothing is added to an order while it is paid. Waits a little: two
/// items at once are no conflict.
#[redis_lock(key = "order:{id}", expire = 2s, wait = 500ms)]
async fn add_item(
    State(orders): State<Orders>,
    Path(id): Path<u64>,
    Json(item): Json<Item>,
) -> Result<Json<Order>, ApiError> {
    let mut order = orders.load(id).unwrap_or_default();
    if order.paid {
        return Err(ApiError::AlreadyPaid);
    }
    order.items.push(item);
    orders.save(id, &order);
    Ok(Json(order))
}

/// Says nothing about locks. [`main`] puts a layer around it.
async fn statement(Path(customer): Path<String>) -> String {
    sleep(Duration::from_secs(1)).await;
    format!("the statement of {customer}")
}

enum ApiError {
    NoSuchOrder,
    AlreadyPaid,
    Lock(LockError),
}

/// All that an annotated handler asks of its error type.
impl From<LockError> for ApiError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let answer = |status: StatusCode, error: &str| {
            (status, Json(json!({ "error": error }))).into_response()
        };
        match self {
            Self::NoSuchOrder => answer(StatusCode::NOT_FOUND, "there is no such order"),
            Self::AlreadyPaid => answer(StatusCode::UNPROCESSABLE_ENTITY, "the order is paid"),
            Self::Lock(error) => {
                if error.http_status() >= 500 {
                    // It names the lock servers: for the log, not for the client.
                    eprintln!("{error}");
                }
                error.into_response()
            }
        }
    }
}

#[derive(Clone, Default, Serialize)]
struct Order {
    items: Vec<Item>,
    paid: bool,
}

#[derive(Clone, Deserialize, Serialize)]
struct Item {
    sku: String,
    cents: u64,
}

/// Stands for the database. `load` and `save` are safe; what happens between them is what the
/// lock protects.
#[derive(Clone, Default)]
struct Orders(Arc<Mutex<HashMap<u64, Order>>>);

impl Orders {
    fn load(&self, id: u64) -> Option<Order> {
        self.0.lock().unwrap().get(&id).cloned()
    }

    fn save(&self, id: u64, order: &Order) {
        self.0.lock().unwrap().insert(id, order.clone());
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .install()
        .await?;
    warn_if_embedded(&redlock);

    // One request at a time for each path; another one waits for up to two seconds.
    let locks = redlock.clone();
    let one_at_a_time = LockLayer::new(move |request: &Request| {
        let lock = locks.lock(request.uri().path());
        Some(lock.wait(Duration::from_secs(2)))
    });
    let statements = get(statement).layer(one_at_a_time);
    let app = Router::new()
        .route("/customers/{customer}/statement", statements)
        .route("/orders/{id}/pay", post(pay))
        .route("/orders/{id}/items", post(add_item))
        .with_state(Orders::default());
    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    // Takes no more connections after the signal, and returns when all requests are answered.
    let served = axum::serve(listener, app).with_graceful_shutdown(stop_signal());
    let out_of_time = async {
        stop_signal().await;
        sleep(GRACE).await;
    };
    select! {
        result = served => result?,
        () = out_of_time => eprintln!("warning: some clients are still connected"),
    }

    // Leave no key behind that others would have to wait out.
    if let Err(left) = redlock.shutdown(Duration::from_secs(2)).await {
        eprintln!("warning: {left}");
    }
    println!("shut down");
    Ok(())
}
