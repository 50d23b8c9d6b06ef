//! Who reads what servers reply: the application's runtime, so that its callers wait for no other thread, and the
//! library's thread where that runtime does not.

mod common;

use std::{fs, sync::mpsc, thread, time::Duration};

use common::{
    certificates::{Authority, localhost},
    connect, unhurried,
};
use redlock_runtime::{Redlock, Release, Tls};
use redlock_tests::{Cluster, PATIENCE};
use tokio::{runtime::Runtime, sync::Mutex};

/// Threads are counted for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

const CYCLES: u64 = 300;

/// Is there to run out, or to be renewed in time on a busy machine.
const BRIEF: Duration = Duration::from_millis(900);

async fn cycles(redlock: &Redlock, count: u64) {
    cycles_of("key", redlock, count).await;
}

async fn cycles_of(name: &str, redlock: &Redlock, count: u64) {
    for number in 0..count {
        let lock = redlock.lock(format!("{name}:{number}"));
        let guard = lock.acquire().await.unwrap();
        assert_eq!(guard.release().await, Release::Released);
    }
}

/// How often the library's thread, of which there is one, has waited for something.
fn waits() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let status = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let mut statuses = status.filter(|status| status.starts_with("Name:\tredlock\n"));
    let status = statuses.next().expect("a node set");
    assert_eq!(statuses.next(), None, "of one test at a time");
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

fn current_thread() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// Ends its thread, so that the next test can count another's.
fn end(runtime: &Runtime, redlock: &Redlock) {
    runtime.block_on(redlock.shutdown(PATIENCE)).unwrap();
    let is_there = || {
        let mut tasks = fs::read_dir("/proc/self/task").unwrap();
        tasks.any(|task| {
            let name = fs::read_to_string(task.unwrap().path().join("comm"));
            name.is_ok_and(|name| name == "redlock\n")
        })
    };
    while is_there() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn callers_in_a_runtime_wake_no_other_thread_and_nothing_wakes_when_idle() {
    let _alone = ONE_AT_A_TIME.blocking_lock();
    let cluster = Cluster::start(3);
    for runtime in [current_thread(), Runtime::new().unwrap()] {
        let redlock = runtime.block_on(connect(&cluster));
        let caller = redlock.clone();
        let counted = runtime.block_on(runtime.spawn(async move {
            let mut least = u64::MAX;
            // On a busy machine the thread takes over now and then, and is right to.
            for _ in 0..50 {
                let before = waits();
                cycles(&caller, CYCLES).await;
                least = least.min(waits() - before);
                if least < CYCLES {
                    break;
                }
            }
            least
        }));
        // Each cycle has replies to two rounds.
        let counted = counted.unwrap();
        assert!(counted < CYCLES, "{counted} waits for {CYCLES} cycles");

        let idle = runtime.block_on(async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let before = waits();
            tokio::time::sleep(Duration::from_secs(1)).await;
            waits() - before
        });
        assert!(idle < 50, "{idle} waits for nothing");
        end(&runtime, &redlock);
    }
}

#[test]
fn the_thread_reads_while_the_runtime_stands_still_and_after_it_has_gone() {
    let _alone = ONE_AT_A_TIME.blocking_lock();
    let cluster = Cluster::start(3);
    let runtime = current_thread();
    let builder = unhurried(cluster.urls()).expire(BRIEF);
    let redlock = runtime.block_on(builder.build()).unwrap();
    let guard = runtime.block_on(async {
        let guard = redlock.lock("held").renew().acquire().await.unwrap();
        for _ in 0..3 {
            cycles(&redlock, 10).await;
            // With replies on their way to it.
            let asked = tokio::time::timeout(Duration::ZERO, redlock.lock("asked").acquire());
            drop(asked.await);
            thread::sleep(2 * BRIEF);
        }
        cycles(&redlock, 10).await;
        guard
    });
    assert!(guard.is_held(), "its lease was extended on time");
    // Nobody drives the runtime here, and others have their locks.
    let other = current_thread();
    other.block_on(cycles(&redlock, 10));
    drop(runtime);
    other.block_on(cycles(&redlock, 10));
    redlock.lock("blocking").hold_blocking(|_| ()).unwrap();
    assert!(guard.is_held());
    drop(guard);
    end(&other, &redlock);
}

#[test]
fn callers_in_several_runtimes_and_outside_of_them_do_not_wait_for_each_other() {
    let _alone = ONE_AT_A_TIME.blocking_lock();
    let cluster = Cluster::start(3);
    let runtime = current_thread();
    let redlock = runtime.block_on(connect(&cluster));
    let (stops, stopped) = mpsc::channel::<()>();
    let caller = redlock.clone();
    // It calls, and stands still in between for as long as the others need.
    let busy = thread::spawn(move || {
        runtime.block_on(async {
            cycles(&caller, 10).await;
            stopped.recv().unwrap_err();
            cycles(&caller, 10).await;
        });
        runtime
    });
    let others: Vec<_> = (0..2)
        .map(|number| {
            let redlock = redlock.clone();
            thread::spawn(move || match number {
                0 => current_thread().block_on(cycles_of("other", &redlock, CYCLES)),
                _ => (0..CYCLES).for_each(|number| {
                    let lock = redlock.lock(format!("outside:{number}"));
                    lock.hold_blocking(|_| ()).unwrap();
                }),
            })
        })
        .collect();
    others.into_iter().for_each(|other| other.join().unwrap());
    drop(stops);
    let runtime = busy.join().unwrap();
    end(&runtime, &redlock);
}

#[test]
fn a_runtime_without_io_leaves_reading_to_the_thread() {
    let _alone = ONE_AT_A_TIME.blocking_lock();
    let cluster = Cluster::start(3);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build().unwrap();
    let redlock = runtime.block_on(connect(&cluster));
    runtime.block_on(cycles(&redlock, 10));
    end(&runtime, &redlock);
}

#[test]
fn what_tls_holds_back_is_read() {
    let _alone = ONE_AT_A_TIME.blocking_lock();
    let authority = Authority::new();
    let node = authority.server(localhost(), "no");
    let runtime = current_thread();
    let tls = Tls::new().cacert_pem(authority.pem());
    let builder = unhurried([node.url("localhost", "")]).tls(tls);
    let redlock = runtime.block_on(builder.build()).unwrap();
    runtime.block_on(cycles(&redlock, CYCLES));
    let many = (0..CYCLES).map(|number| {
        let lock = redlock.lock(format!("many:{number}"));
        async move { lock.acquire().await.unwrap().release().await }
    });
    let released = runtime.block_on(futures_util::future::join_all(many));
    assert_eq!(released, vec![Release::Released; CYCLES as usize]);
    assert_eq!(node.server.count("hello"), 1, "on one connection");
    end(&runtime, &redlock);
}
