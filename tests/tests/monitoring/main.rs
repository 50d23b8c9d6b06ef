//! Everything that the page on monitoring documents is written, and nothing else is: over real servers
//! that are killed, restarted, frozen and misused.

#[path = "../common/mod.rs"]
mod common;
mod heard;
mod page;
mod recorded;
mod scenes;

use std::{collections::BTreeSet, pin::pin, time::Duration};

use heard::Heard;
use recorded::Recorded;
use redlock_runtime::{LockError, redis_lock};
use redlock_tests::Cluster;

#[tokio::test]
async fn everything_that_is_written_is_documented_and_everything_documented_is_written() {
    let heard = Heard::install();
    let recorded = Recorded::install();
    scenes::play_all(&heard).await;

    let mut documented = page::events();
    if cfg!(debug_assertions) {
        // In release builds only.
        documented.retain(|event| event.name != "redlock.start.embedded");
    }
    assert_eq!(heard.kinds(), documented);
    assert_eq!(heard.span_kinds(), page::spans());
    let known: BTreeSet<String> = page::outcomes();
    for (span, outcome) in heard.outcomes() {
        assert!(known.contains(&outcome), "{span}: {outcome}");
    }

    let metrics = recorded.kinds();
    let undescribed = metrics.iter().find(|kind| !recorded.is_described(kind));
    assert_eq!(undescribed, None);
    assert_eq!(metrics, page::metrics());
    assert_eq!(recorded.values_of("state"), page::list_of("state"));
    // It is the same with another server.
    let names = recorded.values_of("node_set");
    assert!(
        names.iter().all(|name| !name.contains("127.0.0.1")),
        "{names:?}"
    );
    let losses = recorded.total("redlock_losses_total", "");
    assert!(losses >= 3.0, "{losses}: lost, expired and stopped");
    assert!(recorded.total("redlock_renewals_total", "") > 0.0);
}

#[redis_lock(key = "item:{item}", via = redlock, expire = 5s, renew, name = "healthy.work")]
async fn work(redlock: &redlock_runtime::Redlock, item: u64) -> Result<(), LockError> {
    tracing::info!(target: "redlock_runtime::of_the_body", "in the body");
    tokio::task::yield_now().await;
    Ok(())
}

#[tokio::test]
async fn a_healthy_day_writes_spans_alone_and_the_body_is_in_its_span() {
    let heard = Heard::install();
    let cluster = Cluster::start(3);
    let redlock = common::connect(&cluster).await;
    common::await_up(&redlock).await;
    let set = heard.of(&cluster);
    // After the node set.
    let recorded = Recorded::install();

    work(&redlock, 1).await.unwrap();
    let guard = redlock.lock("item:2").acquire().await.unwrap();
    let refused = redlock.lock("item:2").acquire().await;
    assert!(matches!(refused, Err(LockError::Contended(_))));
    let waiting = redlock.lock("item:2").wait(common::NEVER).acquire();
    assert!(futures_util::FutureExt::now_or_never(waiting).is_none());
    guard.release().await;

    assert_eq!(set.events(), [""; 0]);
    assert_eq!(
        set.spans(),
        [
            "redlock.acquire item:1 granted",
            "redlock.hold item:1 released",
            "redlock.acquire item:2 granted",
            "redlock.hold item:2 released",
            "redlock.acquire item:2 contended",
            "redlock.acquire item:2 cancelled",
        ]
    );
    assert_eq!(heard.parent_of_the_body(), "redlock.hold item:1");
    let own = r#"section="healthy.work""#;
    assert_eq!(recorded.total("redlock_acquisitions_total", own), 1.0);
    assert_eq!(recorded.total("redlock_attempts_total", own), 1.0);
    assert_eq!(recorded.total("redlock_handovers_total", own), 0.0);
    assert_eq!(recorded.total("redlock_hold_seconds_count", own), 1.0);
    assert_eq!(recorded.total("redlock_wait_seconds_count", own), 1.0);
    for gauge in ["redlock_held", "redlock_waiting"] {
        assert_eq!(recorded.total(gauge, own), 0.0);
    }
    redlock.shutdown(common::NEVER).await.unwrap();
}

#[redis_lock(key = "never", via = redlock, name = "never.called")]
async fn never_called(redlock: &redlock_runtime::Redlock) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn a_function_that_was_never_called_has_its_metrics() {
    let recorded = Recorded::install();
    let _a_function = never_called;
    let cluster = Cluster::start(3);
    let _redlock = common::connect(&cluster).await;
    let own = r#"section="never.called""#;
    let has = |metric: &str| recorded.series(metric, own) > 0;
    common::await_state("its metrics", || has("redlock_losses_total")).await;
    for metric in ["acquisitions_total", "waiting", "held", "renewals_total"] {
        assert!(has(&format!("redlock_{metric}")), "{metric}");
    }
}

#[test]
fn an_alert_is_one_for_all_processes_that_see_the_same() {
    let alerts = include_str!("../../../examples/dashboard/alerts.yml");
    let queries = alerts.lines().filter_map(|line| line.split_once("expr: "));
    let labels = queries.map(|(_, query)| {
        let (_, rest) = query.split_once(" by (").expect(query);
        rest.split(')').next().unwrap()
    });
    let labels: Vec<&str> = labels.collect();
    assert!(
        labels.len() > 3 && !labels.concat().contains("instance"),
        "{labels:?}"
    );
}

/// A flush ends all locks of a fleet at once.
#[tokio::test]
async fn thousands_of_losses_are_counted_and_few_are_written() {
    const LOCKS: u32 = 1_000;
    let heard = Heard::install();
    let recorded = Recorded::install();
    let cluster = Cluster::start(3);
    let redlock = common::connect(&cluster).await;
    let lock = |number| redlock.lock(format!("k{number}")).name("flushed");
    let guards = (0..LOCKS).map(|number| lock(number).acquire());
    let guards = futures_util::future::try_join_all(guards).await.unwrap();
    redlock.shutdown(Duration::ZERO).await.unwrap_err();
    let own = r#"section="flushed",cause="stopped""#;
    let lost = || recorded.total("redlock_losses_total", own) == f64::from(LOCKS);
    common::await_state("the losses", lost).await;
    let events = heard.of(&cluster).events();
    let events = events.iter().filter(|name| *name == "redlock.stopped");
    let count = events.count();
    assert!((1..100).contains(&count), "{count}");
    drop(guards);
}

/// As an annotated function is.
#[tokio::test]
async fn a_lock_that_is_made_at_run_time_is_counted_by_its_name() {
    let recorded = Recorded::install();
    let cluster = Cluster::start(3);
    let redlock = common::connect(&cluster).await;
    let lock = redlock.lock("item:3").name("named.at_run_time");
    let guard = lock.clone().acquire().await.unwrap();
    let refused = lock.acquire().await.unwrap_err();
    assert!(
        refused.to_string().contains("`named.at_run_time`"),
        "{refused}"
    );
    guard.release().await;
    let acquisitions = |outcome: &str| {
        let labels = format!(r#"section="named.at_run_time",outcome="{outcome}""#);
        recorded.total("redlock_acquisitions_total", &labels)
    };
    assert_eq!(
        (acquisitions("granted"), acquisitions("contended")),
        (1.0, 1.0)
    );
}

#[tokio::test]
async fn what_is_held_waits_and_is_handed_over_is_counted() {
    let recorded = Recorded::install();
    let cluster = Cluster::start(3);
    let redlock = common::connect(&cluster).await;
    let own = r#"section="counted.work""#;
    let total = |metric: &str| recorded.total(metric, own);

    let holder = counted(&redlock);
    tokio::pin!(holder);
    let is_held = || total("redlock_held") == 1.0;
    futures_util::future::select(&mut holder, pin!(common::await_state("held", is_held))).await;
    let waiter = counted(&redlock);
    tokio::pin!(waiter);
    let is_waiting = || total("redlock_waiting") == 1.0;
    futures_util::future::select(
        &mut waiter,
        pin!(common::await_state("waiting", is_waiting)),
    )
    .await;
    OPEN.notify_waiters();
    holder.await.unwrap();
    let end = async {
        common::await_state("handed over", || total("redlock_held") == 1.0).await;
        OPEN.notify_waiters();
    };
    futures_util::future::join(waiter, end).await.0.unwrap();

    assert_eq!(total("redlock_acquisitions_total"), 2.0);
    assert_eq!(total("redlock_attempts_total"), 1.0);
    assert_eq!(total("redlock_handovers_total"), 1.0);
    assert_eq!(total("redlock_held"), 0.0);
    assert_eq!(total("redlock_waiting"), 0.0);
    redlock.shutdown(common::NEVER).await.unwrap();
}

static OPEN: tokio::sync::Notify = tokio::sync::Notify::const_new();

#[redis_lock(key = "counted", via = redlock, wait = 1h, expire = 10m, name = "counted.work")]
async fn counted(redlock: &redlock_runtime::Redlock) -> Result<(), LockError> {
    OPEN.notified().await;
    Ok(())
}
