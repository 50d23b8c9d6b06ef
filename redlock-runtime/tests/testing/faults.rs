//! Each fault, as an application sees it.

use redlock_runtime::{LockError, NodeState, QuarantineReason, Redlock, Verdict, testing::Outcome};
use tokio::time::{Instant, sleep, timeout};

use crate::{message_of, seconds};

#[tokio::test(start_paused = true)]
async fn one_of_three_may_be_unreachable_and_two_may_not() {
    let redlock = Redlock::test();
    let start = Instant::now();
    redlock.node(0).unreachable();
    drop(redlock.lock("k").acquire().await.unwrap());
    redlock.node(1).unreachable();
    let error = redlock.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    let said = &error.verdicts()[0];
    assert_eq!(&*said.node, redlock.node(0).address());
    assert!(
        matches!(said.verdict, Verdict::Unreachable { .. }),
        "{error}"
    );
    assert_eq!(start.elapsed(), seconds(0));

    redlock.node(1).healed().await;
    drop(redlock.lock("k").acquire().await.unwrap());
    assert!(!redlock.nodes()[0].is_up());
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_a_lease_is_joined_while_it_is_long_enough() {
    let redlock = Redlock::test();
    let outer = redlock.lock("k").hold(async |outer| {
        redlock.node(0).unreachable();
        redlock.node(1).unreachable();
        sleep(seconds(1)).await;
        let inner = |lease| redlock.lock("k").reentrant().expire(lease).acquire();
        let error = inner(seconds(5)).await.unwrap_err();
        assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
        assert!(outer.is_held() && inner(seconds(3)).await.is_ok());
    });
    outer.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unresponsive_nodes_cost_a_node_timeout() {
    let redlock = Redlock::test();
    redlock.node(0).unresponsive();
    redlock.node(1).unresponsive();
    let start = Instant::now();
    let error = redlock.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    assert_eq!(start.elapsed().as_millis(), 250);
    assert!(!redlock.node(0).has_key("k"));

    redlock.node(0).healed().await;
    drop(redlock.lock("k").acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_majority_of_slow_nodes_makes_a_lock_slow() {
    let redlock = Redlock::test();
    let late = seconds(1) / 10;
    redlock.node(0).slow(late);
    let start = Instant::now();
    drop(redlock.lock("k").acquire().await.unwrap());
    assert_eq!(start.elapsed(), seconds(0));
    redlock.node(1).slow(late);
    let guard = redlock.lock("l").acquire().await.unwrap();
    // Timers count in milliseconds.
    assert!(start.elapsed() - late <= seconds(1) / 1_000);
    assert!(guard.remaining() <= seconds(5) - late);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_leaves_a_key_that_is_released() {
    let redlock = Redlock::test();
    for node in redlock.each_node().take(2) {
        node.lose_replies(1);
    }
    let error = redlock.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error}");
    drop(redlock.lock("k").wait(seconds(1)).acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_restarted_node_is_quarantined_and_votes_again() {
    let redlock = Redlock::test();
    drop(redlock.lock("k").acquire().await.unwrap());
    redlock.node(2).restart();
    let is_quarantined = || {
        let restarted = QuarantineReason::Restarted;
        let nodes = redlock.nodes();
        matches!(nodes[2].state(), NodeState::Quarantined { reason, .. } if *reason == restarted)
    };
    let start = Instant::now();
    while !is_quarantined() {
        sleep(seconds(1) / 100).await;
        assert!(start.elapsed() < seconds(5));
    }
    drop(redlock.lock("k").acquire().await.unwrap());
    redlock.node(2).healed().await;
    // The longest key TTL that was granted: 5 s, drift and guard band.
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_lost_with_the_memory_of_a_majority() {
    let redlock = Redlock::test();
    let guard = redlock.lock("k").acquire().await.unwrap();
    redlock.node(0).flush();
    sleep(seconds(1)).await;
    assert!(guard.is_held());
    redlock.node(1).flush();
    let lost = timeout(seconds(1), guard.lost()).await.unwrap();
    assert!(matches!(lost, LockError::Lost(_)), "{lost}");
    let error = redlock.lock("l").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Quarantined(_)), "{error}");
    drop(redlock.lock("l").wait(seconds(70)).acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_body_is_cut_off_by_each_kind_of_end() {
    let redlock = Redlock::builder().key_prefix("app:").test(3).unwrap();
    let hold = || redlock.lock("k").hold(async |_| sleep(seconds(4)).await);

    let cut_off = async |strike: &mut dyn FnMut()| {
        let strike = async {
            redlock.until_locked("k").await;
            strike();
        };
        tokio::join!(hold(), strike).0.unwrap_err()
    };
    let error = cut_off(&mut || redlock.expire_lease("k")).await;
    assert!(matches!(error, LockError::Expired(_)), "{error}");
    let error = cut_off(&mut || redlock.delete_key("k")).await;
    assert!(matches!(error, LockError::Lost(_)), "{error}");
    let mut other = None;
    let error = cut_off(&mut || other = Some(redlock.held_elsewhere("k"))).await;
    assert!(matches!(error, LockError::Lost(_)), "{error}");
    assert!(matches!(hold().await, Err(LockError::Contended(_))));
    assert!(redlock.node(0).has_key("k"));
    drop(other);
    hold().await.unwrap();

    let outcomes = redlock.history();
    let outcomes: Vec<&Outcome> = outcomes.iter().map(|entry| &entry.outcome).collect();
    assert!(
        matches!(
            outcomes[..],
            [
                Outcome::Expired,
                Outcome::Lost,
                Outcome::Lost,
                Outcome::Failed { .. },
                Outcome::Released
            ]
        ),
        "{outcomes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_lock_as_soon_as_the_other_client_lets_go() {
    let redlock = Redlock::test();
    let other = redlock.held_elsewhere("k");
    let waits = tokio::spawn(redlock.lock("k").wait(seconds(60)).acquire());
    sleep(seconds(2)).await;
    assert!(!waits.is_finished());
    let start = Instant::now();
    drop(other);
    let guard = waits.await.unwrap().unwrap();
    assert!(guard.is_held());
    assert!(start.elapsed() < seconds(1), "{:?}", start.elapsed());
}

/// Nothing is asserted of a strike that hits nobody: it is a mistake of the test.
#[tokio::test]
async fn what_is_not_held_cannot_be_lost() {
    let redlock = Redlock::test();
    for message in [
        message_of(|| redlock.expire_lease("k")),
        message_of(|| redlock.delete_key("k")),
    ] {
        assert!(message.contains("`k` is not held"), "{message}");
    }
    let message = message_of(|| drop(redlock.node(3)));
    assert!(message.contains("the first of 3 is node 0"), "{message}");
}

#[tokio::test]
async fn a_client_lets_go_of_its_own_key_only() {
    let redlock = Redlock::test();
    let first = redlock.held_elsewhere("k");
    let second = redlock.held_elsewhere("k");
    drop(first);
    assert!(redlock.node(0).has_key("k"));
    drop(second);
    assert!(!redlock.node(0).has_key("k"));
}

/// A process that waits for itself is told apart from one that waits for another.
#[tokio::test(start_paused = true)]
async fn errors_tell_this_process_from_others_and_what_a_long_body_needs() {
    let redlock = Redlock::test();
    let lock = || redlock.lock("k");
    let other = redlock.held_elsewhere("k").expires_in(seconds(3));
    let text = lock().acquire().await.unwrap_err().to_string();
    assert!(text.contains(" is held by another owner"), "{text}");
    drop(other);

    let guard = lock().acquire().await.unwrap();
    let text = lock().acquire().await.unwrap_err().to_string();
    assert!(
        text.contains(" is held in this process, for at most"),
        "{text}"
    );
    drop(guard);

    let body = lock().hold(async |_| sleep(seconds(60)).await);
    let text = body.await.unwrap_err().to_string();
    assert!(
        text.contains("; to hold it for longer, use `renew`"),
        "{text}"
    );
}

/// Each has a key of its own.
#[tokio::test(start_paused = true)]
async fn all_permits_of_a_lock_are_lost_when_it_is_deleted() {
    let redlock = Redlock::test();
    let lock = redlock.lock("exports").permits(2);
    let one = lock.clone().acquire().await.unwrap();
    let two = lock.clone().acquire().await.unwrap();
    redlock.assert_lock_count("exports", 2);
    assert!(redlock.node(0).has_key("exports#__redlock:1"));
    redlock.delete_key("exports");
    for guard in [one, two] {
        assert!(matches!(guard.lost().await, LockError::Lost(_)));
    }
    redlock.assert_not_held("exports");
    let other = redlock.held_elsewhere("exports#__redlock:1");
    let one = lock.clone().acquire().await.unwrap();
    assert!(matches!(
        lock.clone().acquire().await,
        Err(LockError::Contended(_))
    ));
    drop(other);
    assert!(lock.acquire().await.unwrap().is_held() && one.is_held());
}
