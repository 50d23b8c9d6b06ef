//! Charges each order once, whichever instance gets the request.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Result;
use axum::{Router, http::StatusCode, routing::get, routing::post};
use deadpool_postgres::{Manager, Pool, PoolError};
use redlock_runtime::{FencingToken, Redlock, RedlockConfig, redis_lock};
use tokio_postgres::{NoTls, Row};

#[redis_lock(key = "order:{id}", expire = 10s, wait = 500ms, lease = lease)]
async fn pay(State(db): State<Pool>, Path(id): Path<i64>) -> Result<StatusCode> {
    let token = lease.fencing_token()?;
    let paid: bool = fenced(&db, ENTER, id, token).await?.get("paid");
    if !paid {
        charge(id).await;
        fenced(&db, PAID, id, token).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Stands for a payment provider. A real one checks no token: give it an idempotency key.
async fn charge(_order: i64) {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn app(db: Pool) -> Router {
    Router::new()
        .route("/orders/{id}/pay", post(pay))
        .with_state(db)
}

const TABLE: &str = "CREATE TABLE IF NOT EXISTS payment (
    id bigint PRIMARY KEY, token bigint NOT NULL, paid boolean NOT NULL DEFAULT false)";

const ENTER: &str = "INSERT INTO payment (id, token) VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET token = $2 WHERE payment.token <= $2 RETURNING paid";

const PAID: &str = "UPDATE payment SET paid = true WHERE id = $1 AND token = $2 RETURNING paid";

async fn fenced(db: &Pool, sql: &str, id: i64, token: FencingToken) -> Result<Row> {
    let run = async {
        let row = db.get().await?;
        let row = row.query_opt(sql, &[&id, &i64::from(token)]).await?;
        Ok::<_, PoolError>(row)
    };
    match run.await {
        Ok(Some(row)) => Ok(row),
        // A later holder was here: this one has lost its lock, and must not try again.
        Ok(None) => Err(StatusCode::CONFLICT.into()),
        Err(error) => {
            eprintln!("database: {error}");
            Err(StatusCode::SERVICE_UNAVAILABLE.into())
        }
    }
}

fn database(url: &str) -> anyhow::Result<Pool> {
    let manager = Manager::new(url.parse()?, NoTls);
    Ok(Pool::builder(manager).build()?)
}

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

const BUCKETS: [f64; 8] = [0.0005, 0.002, 0.01, 0.05, 0.2, 1.0, 5.0, 10.0];

fn recorder() -> anyhow::Result<PrometheusHandle> {
    let of_times = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(of_times, &BUCKETS)?;
    Ok(builder.install_recorder()?)
}

fn operations(redlock: Redlock, metrics: PrometheusHandle) -> Router {
    let ready = async move || {
        let health = redlock.health();
        let status = match health.has_quorum() {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, health.to_string())
    };
    Router::new()
        .route("/livez", get(StatusCode::OK))
        .route("/readyz", get(ready))
        .route("/metrics", get(async move || metrics.render()))
}

use std::{env, net::Ipv4Addr};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let metrics = recorder()?;
    let redlock = RedlockConfig::from_env()?.into_builder().install().await?;
    let db = database(&env::var("DATABASE_URL").context("DATABASE_URL")?)?;
    let client = db.get().await.context("the database of DATABASE_URL");
    client?.batch_execute(TABLE).await?;

    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let app = app(db).merge(operations(redlock.clone(), metrics));
    let mut sigterm = signal(SignalKind::terminate())?;
    let stop = async move { _ = sigterm.recv().await };
    axum::serve(listener, app)
        .with_graceful_shutdown(stop)
        .await?;

    redlock.shutdown(Duration::from_secs(10)).await?;
    println!("shut down");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{body::Body, http::Request, http::header::RETRY_AFTER, response::Response};
    use tower::ServiceExt;

    async fn pay() -> Response {
        // A pool connects when it is used.
        let db = database("postgresql://nobody@127.0.0.1:1").unwrap();
        let request = Request::post("/orders/7/pay").body(Body::empty()).unwrap();
        app(db).oneshot(request).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_that_is_being_paid_is_a_conflict() {
        let redlock = Redlock::test();
        let _entered = redlock.enter();
        let _other = redlock.held_elsewhere("order:7");
        let response = pay().await;
        assert_eq!(response.status(), StatusCode::CONFLICT);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_majority_the_service_is_unavailable() {
        let redlock = Redlock::test();
        let _entered = redlock.enter();
        redlock.node(0).unreachable();
        redlock.node(1).unresponsive();
        assert_eq!(pay().await.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
