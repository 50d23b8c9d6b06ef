//! A lock that is held: renewals, extensions on request, and keys that nodes are given back.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

/// Renewed for no longer than this.
fn renewing_for(most: Duration) -> LockParams {
    LockParams {
        max_hold: Some(most),
        ..renewing()
    }
}

#[test]
fn renewals_hold_a_lock_until_max_hold() {
    let mut world = World::new(3);
    let asked = world.now;
    let most = Duration::from_secs(12);
    world.lock(1, "k", renewing_for(most));
    let mut answer = world.answer(1);
    while let Answer::Extended { deadline } = answer {
        assert!(deadline <= asked.after(most));
        answer = world.answer(1);
    }
    assert!(matches!(answer, Answer::Over(Loss::Expired { .. })));
    assert_eq!(world.now.since(asked), most);
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.carriers("k"), []);
}

#[test]
fn a_renewed_lease_counts_from_before_its_requests() {
    let mut world = World::new(3);
    world.lock(1, "k", renewing());
    for _ in 0..5 {
        world.behave(0..3, Behavior::Delayed(40 * HOP));
        let deadline = world.extended(1);
        assert!(deadline <= world.now.after(LEASE - 41 * HOP));
        world.assert_lives_until(deadline.after(params().guard_band));
    }
}

#[test]
fn locks_that_were_acquired_at_once_are_not_renewed_at_once() {
    let mut world = World::new(1);
    let began = world.now;
    for section in 1..=100 {
        world.ask(section, &section.to_string(), renewing());
    }
    world.run_for(default_renewal(LEASE) + ROUND_TRIP);
    let mut times = world.sends_to(0, is_extend);
    assert!(times.len() >= 98, "{}", times.len());
    assert!(times[0].since(began) >= default_renewal(LEASE) * 3 / 4);
    // Some of them are, so that they cost less: those of the same twenty milliseconds.
    times.dedup();
    assert!((9..=12).contains(&times.len()), "{}", times.len());
}

/// The engine was stopped while the renewal failed. A node that had another owner's key cannot be reached.
#[test]
fn a_renewal_that_fails_while_the_engine_is_stopped_leaves_nothing_due() {
    let mut world = World::new(3);
    world.occupy(2, "k", OTHER, 2 * LEASE);
    let (deadline, _) = world.lock(1, "k", renewing());
    world.run_for(default_renewal(LEASE) / 2);
    world.behave(0..2, Behavior::Unresponsive);
    world.run_until(|world| !world.sends_to(0, is_extend).is_empty());
    world.behave([2], Behavior::Dead);
    world.run_for(2 * HOP);
    world.now = world.now.after(LEASE / 2);
    // What is due is looked at after each event.
    world.step();
    world.behave(0..2, Behavior::Healthy);
    assert!(world.extended(1) > deadline);
}

/// The round of a renewal takes a block for the next waiter as well, which can wait for longer.
#[test]
fn a_waiter_with_a_longer_node_timeout_does_not_keep_the_holder_from_trying_again() {
    let mut world = World::new(3);
    let lease = Duration::from_secs(1);
    let renewing = LockParams {
        renew: Some(default_renewal(lease)),
        ..params_of(lease)
    };
    world.lock(1, "k", renewing);
    let patient = LockParams {
        node_timeout: lease,
        wait: 20 * LEASE,
        ..params()
    };
    world.ask(2, "k", patient);
    world.run_for(Duration::from_millis(200));
    while world.client(0).answered(1).is_some() {}
    world.behave(0..3, Behavior::Unresponsive);
    world.run_for(Duration::from_millis(300));
    world.behave(0..3, Behavior::Healthy);
    world.extended(1);
}

#[test]
fn a_lease_that_cannot_be_renewed_ends_at_its_deadline_and_not_later() {
    for behavior in [
        Behavior::Unresponsive,
        Behavior::Refusing(Refuses::Everything),
    ] {
        let mut world = World::new(3);
        let asked = world.now;
        world.lock(1, "k", renewing());
        world.behave(0..3, behavior);
        world.expired(1);
        assert_eq!(world.now.since(asked), LEASE);
    }
}

#[test]
fn an_extension_on_request_takes_one_round_trip_and_counts_from_the_request() {
    let mut world = World::new(5);
    world.lock(1, "k", params());
    world.run_for(Duration::from_secs(4));
    let asked = world.now;
    world.extend(1);
    let deadline = asked.after(LEASE);
    assert_eq!(world.answer(1), Answer::Extended { deadline });
    assert_eq!(world.now.since(asked), ROUND_TRIP);
    world.expired(1);
    assert_eq!(world.now, deadline);
}

#[test]
fn an_extension_to_another_length_is_for_once_and_never_shorter() {
    let mut world = World::new(3);
    let long = 4 * LEASE;
    world.lock(1, "k", params());
    world.run_for(LEASE / 2);
    let asked = world.now;
    world.client(0).extend_to(1, long);
    let deadline = asked.after(long);
    assert_eq!(world.answer(1), Answer::Extended { deadline });
    world.assert_lives_until(deadline.after(default_guard_band(long)));

    for shorter in [None, Some(LEASE / 2)] {
        world.run_for(LEASE / 2);
        match shorter {
            None => world.extend(1),
            Some(length) => world.client(0).extend_to(1, length),
        }
        assert_eq!(world.answer(1), Answer::Extended { deadline });
    }
    world.expired(1);
    assert_eq!(world.now, deadline);
}

/// A node that gets the key by a later round keeps it as long as the holder trusts its lease.
#[test]
fn renewals_of_a_long_lease_ask_for_what_is_left_of_it() {
    let mut world = World::new(3);
    world.lock(1, "k", renewing());
    world.client(0).extend_to(1, 4 * LEASE);
    let deadline = world.extended(1);
    world.delete(0, "k");
    while world.now < deadline.before(LEASE) {
        let extended = world.extended(1);
        assert!(extended == deadline || world.now >= deadline.before(LEASE));
        world.run_for(2 * ROUND_TRIP);
        assert_eq!(world.carriers("k").len(), 3);
        world.assert_lives_until(deadline.after(HOP));
    }
    assert!(world.extended(1) > deadline, "renewals carry it on");
}

#[test]
fn a_round_under_way_does_not_serve_a_longer_extension() {
    let mut world = World::new(3);
    world.lock(1, "k", params());
    world.extend(1);
    let asked = world.now;
    world.client(0).extend_to(1, 4 * LEASE);
    let deadline = asked.after(ROUND_TRIP).after(4 * LEASE);
    assert_eq!(world.answer(1), Answer::Extended { deadline });
    world.assert_lives_until(deadline.after(default_guard_band(4 * LEASE)));
}

#[test]
fn a_short_extension_is_no_longer_than_asked_for_and_stops_at_max_hold() {
    let mut world = World::new(3);
    world.lock(1, "k", params());
    world.run_for(LEASE - Duration::from_millis(500));
    let asked = world.now;
    world.client(0).extend_to(1, LEASE / 2);
    let deadline = asked.after(LEASE / 2);
    assert_eq!(world.answer(1), Answer::Extended { deadline });

    let asked = world.now;
    world.lock(2, "other", renewing_for(2 * LEASE));
    world.client(0).extend_to(2, 4 * LEASE);
    let deadline = asked.after(2 * LEASE);
    assert_eq!(world.answer(2), Answer::Extended { deadline });
}

#[test]
fn an_extension_that_finds_no_majority_leaves_the_old_deadline() {
    let mut world = World::new(3);
    let (deadline, _) = world.lock(1, "k", params());
    world.run_for(Duration::from_secs(1));
    world.behave([0, 2], Behavior::Unresponsive);
    let asked = world.now;
    world.extend(1);
    let Answer::NotExtended { verdicts } = world.answer(1) else {
        panic!("no majority")
    };
    assert_eq!(verdicts.len(), 3);
    assert_eq!(world.now.since(asked), params().round_timeout());
    world.expired(1);
    assert_eq!(world.now, deadline);
}

#[test]
fn extensions_that_are_asked_for_together_are_all_answered() {
    let mut world = World::new(3);
    world.lock(1, "k", renewing());
    for _ in 0..10 {
        world.extend(1);
    }
    world.run_for(20 * HOP);
    assert!(!world.answers().is_empty());
    assert!(world.answers().iter().all(extended));
}

// ---- keys that are put back

#[test]
fn a_node_that_was_away_is_given_the_key_when_it_is_back() {
    let mut world = World::with_clients(3, 2);
    world.client(0).cut_off(2);
    world.lock(1, "k", renewing());
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.carriers("k"), [0, 1]);
    world.client(0).reconnect(2);
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.carriers("k"), [0, 1, 2]);
    assert!(world.answers().iter().all(extended));
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.carriers("k"), []);
}

/// After a new connection the key is set once more, in case it is gone.
#[test]
fn a_node_that_refuses_to_be_given_a_key_that_it_has_is_no_loss() {
    let mut world = World::new(3);
    world.kill(2);
    world.lock(1, "k", params());
    world.run_for(100 * HOP);
    world.behave([1], Behavior::Refusing(Refuses::Writes));
    world.break_connections(1);
    world.run_for(100 * HOP);
    assert_eq!(world.answers(), []);
    world.behave([1], Behavior::Healthy);
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.carriers("k"), []);
}

fn extended((_, answer): &(SectionId, Answer)) -> bool {
    matches!(answer, Answer::Extended { .. })
}

#[test]
fn a_lock_is_put_on_all_nodes_that_vote_shortly_after_it_was_granted() {
    let mut world = World::new(5);
    let slow = world.order("k")[3];
    world.behave([slow], Behavior::Refusing(Refuses::Writes));
    world.lock(1, "k", params());
    world.behave([slow], Behavior::Healthy);
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.carriers("k"), [0, 1, 2, 3, 4]);
}
