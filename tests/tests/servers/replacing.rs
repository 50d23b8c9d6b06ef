//! A server is replaced by one with another address, as the page on operating describes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::common::{await_state, await_up, found, unhurried};
use redlock_runtime::{Builder, FencingToken, Redlock};
use redlock_tests::{Cluster, Counter, PATIENCE, Server};
use tokio::task::JoinHandle;

/// Quarantines that follow from this lease end in their test.
fn fleet(urls: Vec<String>) -> Builder {
    let lease = Duration::from_secs(1);
    unhurried(urls)
        .assume_fresh(false)
        .expire(lease)
        .guard_band(lease)
}

/// What all processes protect.
struct Resource {
    counter: Counter,
    latest: Mutex<Option<FencingToken>>,
    /// Sections that came to their end.
    done: AtomicU64,
}

impl Resource {
    async fn section(&self, token: FencingToken) {
        let work = async {
            let mut latest = self.latest.lock().unwrap();
            assert!(*latest < Some(token), "{latest:?} and then {token:?}");
            *latest = Some(token);
        };
        self.counter.section_with(work).await;
        self.done.fetch_add(1, Ordering::SeqCst);
    }
}

/// A process that locks again and again, with a list of nodes of its own.
struct Process {
    redlock: Redlock,
    must_end: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    work: JoinHandle<()>,
}

impl Process {
    async fn start(urls: Vec<String>, resource: &Arc<Resource>) -> Self {
        let redlock = fleet(urls).build().await.unwrap();
        await_state("a majority", || redlock.health().has_quorum()).await;
        let (must_end, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let work = {
            let (redlock, resource) = (redlock.clone(), Arc::clone(resource));
            let (must_end, done) = (Arc::clone(&must_end), Arc::clone(&done));
            async move {
                while !must_end.load(Ordering::SeqCst) {
                    let lock = redlock.lock("k").renew().wait(PATIENCE);
                    let held = lock.hold(async |lease| {
                        resource.section(lease.fencing_token().unwrap()).await;
                    });
                    // On a busy machine a lease may end. It is to be exclusive then, too.
                    if held.await.is_ok() {
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        };
        Self {
            redlock,
            must_end,
            done,
            work: tokio::spawn(work),
        }
    }

    /// Waits until it has had the lock once more.
    async fn progress(&self) {
        let before = self.done.load(Ordering::SeqCst);
        // The second one has begun after the call.
        await_state("a section", || {
            self.done.load(Ordering::SeqCst) > before + 1
        })
        .await;
    }

    async fn end(self) {
        self.must_end.store(true, Ordering::SeqCst);
        self.work.await.unwrap();
        self.redlock.shutdown(PATIENCE).await.unwrap();
    }
}

async fn all_progress(processes: &[Process]) {
    for process in processes {
        process.progress().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_server_is_replaced_while_processes_with_both_lists_lock() {
    let (old, new) = (Cluster::start(3), Cluster::start(3));
    let store = Server::start();
    let resource = Arc::new(Resource {
        counter: Counter::on(&store, "replacing"),
        latest: Mutex::default(),
        done: AtomicU64::default(),
    });
    found(&old, fleet).await;
    let mut urls = old.urls();
    let mut processes = Vec::new();
    for _ in 0..3 {
        processes.push(Process::start(urls.clone(), &resource).await);
    }
    all_progress(&processes).await;

    for server in 0..3 {
        old[server].kill();
        all_progress(&processes).await;
        urls[server] = new[server].url();
        for process in &mut processes {
            let next = Process::start(urls.clone(), &resource).await;
            std::mem::replace(process, next).end().await;
            process.progress().await;
        }
        all_progress(&processes).await;
        for process in &processes {
            await_up(&process.redlock).await;
        }
    }

    all_progress(&processes).await;
    for process in processes {
        process.end().await;
    }
    let done = resource.done.load(Ordering::SeqCst);
    resource.counter.assert_exclusive(done);
    new.assert_free("k");
}
