//! A server is replaced by one with another address, as the page on operating describes.

use std::time::Duration;

use crate::common::{await_state, await_up, found, load::Load, unhurried};
use redlock_runtime::{Builder, Redlock};
use redlock_tests::{Cluster, PATIENCE};

/// Quarantines that follow from this lease end in their test.
fn fleet(urls: Vec<String>) -> Builder {
    let lease = Duration::from_secs(1);
    unhurried(urls)
        .assume_fresh(false)
        .expire(lease)
        .guard_band(lease)
}

/// A process, with a list of nodes of its own.
async fn process(urls: &[String]) -> Redlock {
    let redlock = fleet(urls.to_vec()).build().await.unwrap();
    await_state("a majority", || redlock.health().has_quorum()).await;
    redlock
}

async fn all_go_on(processes: &[(Redlock, Load)]) {
    for (_, load) in processes {
        load.goes_on().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_is_replaced_while_processes_with_both_lists_lock() {
    let (old, new) = (Cluster::start(3), Cluster::start(3));
    found(&old, fleet).await;
    let mut urls = old.urls();
    let nobody = Load::start(&[], PATIENCE);
    let mut processes = Vec::new();
    for _ in 0..3 {
        let redlock = process(&urls).await;
        processes.push((redlock.clone(), nobody.beside(redlock)));
    }
    all_go_on(&processes).await;

    for server in 0..3 {
        old[server].kill();
        all_go_on(&processes).await;
        urls[server] = new[server].url();
        for process in &mut processes {
            let next = self::process(&urls).await;
            let next = (next.clone(), nobody.beside(next));
            let (former, load) = std::mem::replace(process, next);
            load.end().await;
            former.shutdown(PATIENCE).await.unwrap();
            process.1.goes_on().await;
        }
        all_go_on(&processes).await;
        for (redlock, _) in &processes {
            await_up(redlock).await;
        }
    }

    for (redlock, load) in processes {
        load.end().await;
        redlock.shutdown(PATIENCE).await.unwrap();
    }
    new.assert_free("load");
}
