//! Tests of one process do not disturb each other.

use std::sync::{Arc, Barrier};

use redlock_runtime::{LockError, Redlock, redis_lock};

#[redis_lock(key = "stock:{sku}")]
async fn reserve(sku: u64) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

fn is(redlock: &Redlock) -> bool {
    let addresses = |redlock: &Redlock| {
        let health = redlock.health();
        let nodes = health.nodes().iter();
        nodes
            .map(|node| node.address().to_owned())
            .collect::<Vec<_>>()
    };
    addresses(&Redlock::installed().unwrap()) == addresses(redlock)
}

/// Two tests of one process, at the same time, on the same key.
#[test]
fn each_thread_has_the_node_set_that_was_entered_on_it() {
    let together = Arc::new(Barrier::new(2));
    let test = || {
        let together = Arc::clone(&together);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let redlock = Redlock::test();
                let _entered = redlock.enter();
                let guard = redlock.lock("stock:7").acquire().await.unwrap();
                together.wait();
                // Held here, and free in the other test.
                assert!(matches!(reserve(7).await, Err(LockError::Contended(_))));
                drop(guard);
                tokio::spawn(reserve(7)).await.unwrap().unwrap();
                redlock.assert_lock_count("stock:7", 2);
                together.wait();
            });
        })
    };
    for test in [test(), test()] {
        test.join().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scope_goes_with_a_task_from_thread_to_thread() {
    let [a, b] = [Redlock::test(), Redlock::test()];
    let tasks = |redlock: &Redlock, first: u64| {
        let task = |sku| tokio::spawn(redlock.scope(reserve(sku)));
        (first..first + 20).map(task).collect::<Vec<_>>()
    };
    for task in tasks(&a, 0).into_iter().chain(tasks(&b, 100)) {
        task.await.unwrap().unwrap();
    }
    for (redlock, first) in [(&a, 0), (&b, 100)] {
        let mut locked = redlock.locked();
        let mut expected: Vec<String> = (first..first + 20)
            .map(|sku| format!("stock:{sku}"))
            .collect();
        locked.sort_unstable();
        expected.sort_unstable();
        assert_eq!(locked, expected);
    }
}

#[tokio::test]
async fn what_is_installed_counts_where_nothing_else_does() {
    let installed = Redlock::builder().nodes(["memory://scope-test"]);
    let installed = installed.install().await.unwrap();
    assert!(is(&installed));
    let redlock = Redlock::test();
    assert!(!is(&redlock), "they can be told apart");
    {
        let _entered = redlock.enter();
        assert!(is(&redlock));
        installed.scope(async { assert!(is(&installed)) }).await;
    }
    assert!(is(&installed));
    redlock.scope(async { assert!(is(&redlock)) }).await;

    // The installed one is the only one for `install`, whatever counts here.
    let _entered = redlock.enter();
    drop(installed);
    let again = Redlock::builder().nodes(["memory://scope-test"]);
    drop(again.install().await.unwrap());
}

#[tokio::test]
async fn node_sets_of_one_test_share_nothing() {
    let [a, b] = [Redlock::test(), Redlock::test()];
    let _held = a.lock("k").acquire().await.unwrap();
    drop(b.lock("k").acquire().await.unwrap());
}

#[test]
fn outside_of_a_runtime_it_says_what_to_do() {
    let message = crate::message_of(|| drop(Redlock::test()));
    assert!(message.contains("`#[tokio::test]`"), "{message}");
}
