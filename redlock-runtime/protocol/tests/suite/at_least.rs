//! Locks that are kept for a while although their holders have let go.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

const PERIOD: Duration = Duration::from_secs(3);

/// How much later than the period from the question a key may be gone: the round trip, the drift, and the way of the
/// release.
const LATE: Duration = Duration::from_millis(42);

fn kept() -> LockParams {
    kept_for(PERIOD, params())
}

fn kept_and_waiting() -> LockParams {
    waiting_for(2 * LEASE, kept())
}

/// Another process asks until it gets the lock. Returns when that was.
fn next_holder(world: &mut World) -> Instant {
    world.client(1).lock(90, "k", waiting(40 * LEASE));
    world.now
}

fn assert_within_period(at: Instant, acquired: Instant) {
    let since = at.since(acquired);
    assert!(since >= PERIOD, "free after {since:?}");
    assert!(since <= PERIOD + LATE, "kept for {since:?}");
}

#[test]
fn a_lock_is_kept_from_everybody_and_its_release_is_reported_at_once() {
    for nodes in 1..=5 {
        let mut world = World::with_clients(nodes, 2);
        let acquired = world.now;
        world.lock(1, "k", kept());
        world.run_for(20 * HOP);
        let ended = world.now;
        world.assert_release(1, Release::Released);
        assert_eq!(world.now.since(ended), ROUND_TRIP);
        assert_eq!(world.carriers("k").len(), nodes);
        world.run_for(HOP);
        assert!(world.client(0).is_idle(), "nothing has to be remembered");
        for client in 0..2 {
            world.client(client).ask(2, "k", params());
            let left = PERIOD - world.now.since(acquired);
            let after = world.client(client).contended(2).expect("it is known");
            assert!(after <= left + LATE && left <= after + LATE, "{after:?}");
        }
        assert_within_period(next_holder(&mut world), acquired);
    }
}

#[test]
fn who_waits_in_the_same_process_waits_for_the_end_of_the_period() {
    let mut world = World::new(3);
    let acquired = world.now;
    for section in 1..=3 {
        world.ask(section, "k", kept_and_waiting());
    }
    for section in 1..=3 {
        world.granted(section);
        let periods = u32::try_from(section - 1).unwrap();
        let since = world.now.since(acquired);
        assert!(since >= PERIOD * periods, "{section} after {since:?}");
        assert!(since <= (PERIOD + 2 * LATE) * periods + ROUND_TRIP);
        world.end(section);
    }
    // In two periods of three seconds.
    let asked = world.sends(|request| is_acquire(request) || is_extend(request));
    assert!(asked.len() < 30, "{} requests", asked.len());
}

#[test]
fn a_section_that_was_long_enough_is_over_when_it_ends() {
    let mut world = World::new(3);
    world.lock(1, "k", kept());
    world.run_for(PERIOD);
    world.assert_release(1, Release::Released);
    assert_eq!(world.carriers("k"), []);
}

#[test]
fn only_a_lock_that_was_had_is_kept() {
    let mut world = World::new(3);
    world.ask(1, "k", kept());
    world.run_for(HOP);
    world.end(1);
    world.run_for(4 * HOP);
    assert_eq!(world.carriers("k"), []);
    // An attempt that found no majority.
    world.occupy(0, "k", OTHER, LEASE);
    world.occupy(1, "k", OTHER, LEASE);
    world.ask(2, "k", kept());
    world.refused(2);
    world.run_for(4 * HOP);
    assert_eq!(world.carriers("k"), [0, 1]);
}

/// It is told what is left then, and to delete the key once nothing is.
#[test]
fn a_node_that_was_cut_off_is_told_later() {
    for away in [PERIOD / 3, PERIOD + LATE] {
        let mut world = World::with_clients(3, 2);
        let acquired = world.now;
        world.lock(1, "k", kept());
        world.run_for(4 * HOP);
        world.client(0).cut_off(0);
        world.end(1);
        world.run_for(away);
        world.client(0).reconnect(0);
        world.run_for(Duration::from_secs(2));
        let carriers = world.carriers("k");
        match away < PERIOD {
            true => {
                assert_eq!(carriers, [0, 1, 2]);
                let end = world.expiries("k").into_iter().max().unwrap();
                assert_within_period(end, acquired);
            }
            false => assert_eq!(carriers, []),
        }
    }
}

#[test]
fn a_node_that_carries_the_release_out_late_is_told_again() {
    let mut world = World::with_clients(3, 2);
    let acquired = world.now;
    world.lock(1, "k", kept());
    world.run_for(4 * HOP);
    world.behave([0], Behavior::Slow(PERIOD / 10));
    world.end(1);
    world.run_for(2 * HOP);
    world.behave([0], Behavior::Healthy);
    world.run_for(PERIOD / 2);
    assert_eq!(world.carriers("k"), [0, 1, 2]);
    let end = world.expiries("k").into_iter().max().unwrap();
    assert_within_period(end, acquired);
    let told = world.sends(is_release);
    assert_eq!(told.len(), 4, "once more for one node");
}

/// A node has kept the key for longer, because it could not be told. It is told before the key expires.
#[test]
fn a_waiter_of_the_same_process_comes_as_soon_as_a_node_is_told_late() {
    let mut world = World::new(3);
    let params = kept_for(LEASE / 10, params());
    world.lock(1, "k", params);
    // Those that have the key.
    let carriers = world.carriers("k");
    world.behave(carriers.clone(), Behavior::Refusing(Refuses::Releases));
    world.end(1);
    world.run_for(10 * HOP);
    world.ask(2, "k", waiting(2 * LEASE));
    world.run_for(LEASE / 2);
    world.behave(carriers, Behavior::Healthy);
    let able = world.now;
    world.granted(2);
    let took = world.now.since(able);
    assert!(took < 2 * LEASE / 5, "{took:?}");
}

#[test]
fn a_kept_lock_that_an_operator_deletes_is_seen_to_be_free() {
    for tells in [true, false] {
        for client in 0..2 {
            let mut world = World::with_clients(3, 2);
            if !tells {
                world.tell_nothing();
            }
            world.lock(1, "k", kept());
            world.end(1);
            world.run_for(20 * HOP);
            world.client(client).ask(2, "k", waiting(40 * LEASE));
            world.run_for(20 * HOP);
            world.delete_all("k");
            let deleted = world.now;
            world.client(client).granted(2);
            let since = world.now.since(deleted);
            assert!(since <= 100 * HOP, "{tells}, {client}: {since:?}");
        }
    }
}
