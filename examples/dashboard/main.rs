//! A service whose locks can be watched. Workers contend for one key, lock many others, and build a report
//! under a renewed lease; `/metrics` is for Prometheus, and events of nodes and locks go to the log.
//!
//! ```sh
//! for port in 7001 7002 7003; do redis-server --port $port --save '' --daemonize yes; done
//! export REDLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003
//! cargo run --release -p redlock-example-dashboard --example dashboard
//! prometheus --config.file=examples/dashboard/prometheus.yml
//!
//! redis-cli -p 7001 shutdown nosave              # a node is down
//! redis-server --port 7001 --save ''             # quarantined for some seconds, then it votes again
//! ```
//!
//! Import `grafana.json` into Grafana for the dashboard. `prometheus.png` shows three of its queries in
//! Prometheus: a server is killed and restarted, and then the other two are. Without `REDLOCK_NODES` the service needs no server.
//! It listens on `PORT`, or on 9300, where `prometheus.yml` looks for it.

#[path = "../shared/embedded.rs"]
mod embedded;
#[path = "../shared/stop_signal.rs"]
mod stop_signal;

use std::{env, net::Ipv4Addr, time::Duration};

use axum::{Router, routing::get};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use redlock_runtime::{LockError, Redlock, redis_lock};
use tokio::{
    net::TcpListener,
    select,
    task::JoinSet,
    time::{interval, sleep},
};

use embedded::warn_if_embedded;
use stop_signal::stop_signal;

/// Upper ends of the buckets of histograms, in seconds.
const BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// So many want the same lamp. Together they need longer than each waits, so some are refused.
const BUYERS: u32 = 24;

#[redis_lock(key = "stock:{sku}", expire = 2s, wait = 300ms, name = "stock.reserve")]
async fn reserve(sku: &str) -> Result<(), LockError> {
    sleep(Duration::from_millis(20)).await;
    Ok(())
}

#[redis_lock(key = "order:{id}", expire = 2s, name = "order.pay")]
async fn pay(id: u64) -> Result<(), LockError> {
    sleep(Duration::from_millis(5)).await;
    Ok(())
}

/// Takes longer than its lease, which is renewed.
#[redis_lock(key = "report", expire = 6s, renew, max_hold = 1m, name = "report.build")]
async fn build_report() -> Result<(), LockError> {
    sleep(Duration::from_secs(8)).await;
    Ok(())
}

/// Errors are in the metrics. A service would answer its client.
async fn work() {
    let mut workers = JoinSet::new();
    for _ in 0..BUYERS {
        workers.spawn(async {
            loop {
                let _ = reserve("lamp").await;
                sleep(Duration::from_millis(100)).await;
            }
        });
    }
    workers.spawn(async {
        for id in 0.. {
            let _ = pay(id).await;
            sleep(Duration::from_millis(10)).await;
        }
    });
    workers.spawn(async {
        loop {
            let _ = build_report().await;
            sleep(Duration::from_secs(1)).await;
        }
    });
    workers.join_all().await;
}

fn recorder() -> anyhow::Result<PrometheusHandle> {
    let of_times = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(of_times, &BUCKETS)?;
    let handle = builder.install_recorder()?;
    let upkeep = handle.clone();
    tokio::spawn(async move {
        let mut ticks = interval(Duration::from_secs(5));
        loop {
            ticks.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // A day on which nothing goes wrong writes nothing.
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let metrics = recorder()?;
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .expire(Duration::from_secs(2))
        .install()
        .await?;
    warn_if_embedded(&redlock);

    let app = Router::new().route("/metrics", get(async move || metrics.render()));
    let port = env::var("PORT").map_or(Ok(9300), |port| port.parse())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    select! {
        result = axum::serve(listener, app) => result?,
        () = work() => {}
        () = stop_signal() => {}
    }

    // The workers are gone with the locks that they had; this waits until the nodes know.
    if let Err(left) = redlock.shutdown(Duration::from_secs(5)).await {
        eprintln!("warning: {left}");
    }
    println!("shut down");
    Ok(())
}
