//! An actix service whose handler is a critical section: an order is paid by one request at a time, on
//! all instances of the service. A second one is answered 409 and when to come back; without a majority of
//! lock servers the answer is 503.
//!
//! ```sh
//! # Needs no server; REDLOCK_NODES=... for real ones.
//! cargo run --release --package redlock-example-frameworks --example actix_orders
//!
//! curl -i -X POST http://127.0.0.1:3000/orders/7/pay & curl -i -X POST http://127.0.0.1:3000/orders/7/pay
//! ```

#[path = "../shared/embedded.rs"]
mod embedded;

use std::{collections::HashSet, env, net::Ipv4Addr, sync::Mutex, time::Duration};

use actix_web::{
    App, HttpResponse, HttpServer, ResponseError,
    http::{StatusCode, header::RETRY_AFTER},
    post, web,
};
use redlock_runtime::{LockError, Redlock, redis_lock};
use tokio::time::sleep;

use embedded::warn_if_embedded;

/// Stands for the database.
#[derive(Default)]
struct Paid(Mutex<HashSet<u64>>);

/// Does not wait: a client that pays twice at once should rather be told.
#[post("/orders/{id}/pay")]
#[redis_lock(key = "order:{id}", expire = 10s)]
async fn pay(id: web::Path<u64>, paid: web::Data<Paid>) -> Result<String, ApiError> {
    let before = paid.0.lock().unwrap().contains(&id);
    if !before {
        // A client that hangs up, or a lost lock, ends this handler here. So give a real payment
        // provider an idempotency key.
        sleep(Duration::from_secs(2)).await;
        paid.0.lock().unwrap().insert(*id);
    }
    Ok(format!("order {id} is paid\n"))
}

/// `?` makes it of a `LockError`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ApiError(#[from] LockError);

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.http_status()).unwrap()
    }

    /// The text of the error names the lock servers, so it is not for clients.
    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        if let Some(pause) = self.0.retry_pause() {
            response.insert_header((RETRY_AFTER, pause.as_secs()));
        }
        response.finish()
    }
}

#[actix_web::main]
async fn main() -> anyhow::Result<()> {
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .install()
        .await?;
    warn_if_embedded(&redlock);

    let paid = web::Data::new(Paid::default());
    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let server = HttpServer::new(move || App::new().app_data(paid.clone()).service(pay))
        .bind((Ipv4Addr::LOCALHOST, port))?;
    println!("listening on http://{}", server.addrs()[0]);
    // Returns after Ctrl-C or SIGTERM, when all requests are answered.
    server.run().await?;

    // Leave no key behind that others would have to wait out.
    if let Err(left) = redlock.shutdown(Duration::from_secs(2)).await {
        eprintln!("warning: {left}");
    }
    println!("shut down");
    Ok(())
}
