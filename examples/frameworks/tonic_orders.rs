//! A gRPC service whose method is a critical section: an order is paid by one call at a time, on all
//! instances of the service. A second one gets `ABORTED` and when to come back; without a majority of lock
//! servers it gets `UNAVAILABLE`.
//!
//! ```sh
//! # Needs no server; REDLOCK_NODES=... for real ones.
//! cargo run --release --package redlock-example-frameworks --example tonic_orders
//!
//! # Its client: pays order 7.
//! cargo run --release --package redlock-example-frameworks --example tonic_orders -- pay 127.0.0.1:3000 7
//! ```

#[path = "../shared/embedded.rs"]
mod embedded;
#[path = "../shared/stop_signal.rs"]
mod stop_signal;

use std::{collections::HashSet, env, net::Ipv4Addr, sync::Mutex, time::Duration};

use anyhow::{Context, bail};
use redlock_runtime::{LockError, Redlock, redis_lock};
use tokio::{net::TcpListener, time::sleep};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Request, Response, Status, transport::Server};

use self::proto::{
    Order, Receipt,
    orders_client::OrdersClient,
    orders_server::{Orders, OrdersServer},
};

use embedded::warn_if_embedded;
use stop_signal::stop_signal;

/// Made of `orders.proto`.
#[allow(
    missing_docs,
    clippy::clone_on_ref_ptr,
    unreachable_pub,
    unused_qualifications,
    reason = "it is generated"
)]
mod proto {
    tonic::include_proto!("orders");
}

/// Stands for the database.
#[derive(Default)]
struct Paid(Mutex<HashSet<u64>>);

#[tonic::async_trait]
impl Orders for Paid {
    async fn pay(&self, request: Request<Order>) -> Result<Response<Receipt>, Status> {
        let Order { id } = request.into_inner();
        self.pay_order(id).await.map_err(|error| status(&error))?;
        Ok(Response::new(Receipt { id }))
    }
}

impl Paid {
    /// Does not wait: a client that pays twice at once should rather be told.
    #[redis_lock(key = "order:{id}", expire = 10s)]
    async fn pay_order(&self, id: u64) -> Result<(), LockError> {
        let before = self.0.lock().unwrap().contains(&id);
        if !before {
            // A client that hangs up, or a lost lock, ends this method here. So give a real payment
            // provider an idempotency key.
            sleep(Duration::from_secs(2)).await;
            self.0.lock().unwrap().insert(id);
        }
        Ok(())
    }
}

/// The text of the error names the lock servers, so it is not for clients.
fn status(error: &LockError) -> Status {
    let code = match error.http_status() {
        409 => Code::Aborted,
        503 => Code::Unavailable,
        _ => Code::Internal,
    };
    let mut status = Status::new(code, "the order is not paid");
    // -1: not to be tried again.
    let pause = error.retry_pause().map_or(-1, |it| it.as_millis() as i64);
    let metadata = status.metadata_mut();
    metadata.insert("grpc-retry-pushback-ms", pause.into());
    status
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve().await,
        ["pay", address, id] => pay(address, id.parse()?).await,
        _ => bail!("usage: tonic_orders [pay ADDRESS ORDER]"),
    }
}

async fn pay(address: &str, id: u64) -> anyhow::Result<()> {
    let mut client = OrdersClient::connect(format!("http://{address}")).await?;
    match client.pay(Order { id }).await {
        Ok(receipt) => println!("order {} is paid", receipt.into_inner().id),
        Err(status) => {
            let pause = status.metadata().get("grpc-retry-pushback-ms");
            println!("{:?}: {}, {pause:?}", status.code(), status.message());
        }
    }
    Ok(())
}

async fn serve() -> anyhow::Result<()> {
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .install()
        .await?;
    warn_if_embedded(&redlock);

    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Server::builder()
        .add_service(OrdersServer::new(Paid::default()))
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop_signal())
        .await
        .context("the server ended")?;

    // Leave no key behind that others would have to wait out.
    if let Err(left) = redlock.shutdown(Duration::from_secs(2)).await {
        eprintln!("warning: {left}");
    }
    println!("shut down");
    Ok(())
}
