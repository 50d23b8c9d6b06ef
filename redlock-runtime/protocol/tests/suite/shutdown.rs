//! The end of a node set: who is waited for, and who learns what.

use std::time::Duration;

use redlock_protocol::*;

use crate::world::*;

/// How much longer it lasts if a holder does not let go.
const LAST_RELEASES: Duration = Duration::from_secs(1);

fn runs_until_drained(world: &mut World) -> ShutdownError {
    world.run_until(|world| world.drained().is_some());
    world.drained().unwrap()
}

#[test]
fn a_shutdown_of_an_idle_node_set_is_over_at_once() {
    let mut world = World::new(3);
    let asked = world.now;
    world.shut_down(LEASE, false);
    assert_eq!(runs_until_drained(&mut world), ShutdownError::default());
    assert_eq!(world.now, asked);
}

/// What holders have, and what another one waits for.
type Case = (&'static [&'static [&'static str]], &'static [&'static str]);

#[test]
fn a_shutdown_waits_for_holders_and_releases_and_refuses_all_others() {
    let cases: [Case; 3] = [
        (&[&["k"]], &["k"]),
        (&[&["a", "b"]], &["b", "c"]),
        (&[&[POOL], &[POOL]], &[POOL]),
    ];
    for (holders, waiter) in cases {
        for timeout in [2 * LEASE, Duration::MAX] {
            let mut world = World::new(3);
            for (section, keys) in (1..).zip(holders) {
                world.ask_all(section, keys, waiting(LEASE));
                world.granted(section);
            }
            world.ask_all(7, waiter, waiting(LEASE));
            world.run_for(20 * HOP);
            world.shut_down(timeout, false);
            world.ask_all(8, waiter, params());
            world.ask(9, "other", params());
            for section in 7..=9 {
                assert_eq!(world.refused(section), Cause::Stopped, "{waiter:?}");
            }
            world.run_for(LEASE / 2);
            for (section, keys) in (1..).zip(holders) {
                assert_eq!(world.drained(), None, "{keys:?} are still held");
                world.end(section);
                world.run_for(2 * HOP);
            }
            assert_eq!(world.drained(), Some(ShutdownError::default()));
            for key in ["k", "a", "b", &slot_key(POOL, 0), &slot_key(POOL, 1)] {
                assert_eq!(world.carriers(key), [], "{key}");
            }
        }
    }
}

/// What they owe is counted as it is sent, answered and lost with a connection.
#[test]
fn a_shutdown_waits_for_what_connected_nodes_owe_and_for_nothing_else() {
    for is_lost in [false, true] {
        let mut world = World::new(3);
        world.kill(1);
        for section in 1..=200 {
            world.lock(section, &section.to_string(), params());
        }
        world.behave([0], Behavior::Unresponsive);
        for section in 1..=200 {
            world.end(section);
        }
        world.shut_down(Duration::from_secs(60), false);
        world.run_for(Duration::from_millis(100));
        assert_eq!(world.drained(), None);
        if is_lost {
            world.kill(0);
        } else {
            world.behave([0], Behavior::Healthy);
            world.break_connections(0);
        }
        world.run_for(Duration::from_millis(100));
        assert_eq!(world.drained(), Some(ShutdownError::default()));
    }
}

#[test]
fn a_shutdown_ends_in_time_and_counts_those_that_still_hold() {
    let mut world = World::new(3);
    world.lock(1, "k", renewing());
    let asked = world.now;
    let timeout = Duration::from_secs(30);
    world.shut_down(timeout, false);
    let left = runs_until_drained(&mut world);
    assert_eq!(world.now.since(asked), timeout + LAST_RELEASES);
    assert_eq!(left.held, 1);
    let stopped = (SectionId(1), Answer::Over(Loss::Stopped));
    assert!(world.answers().contains(&stopped));
}

/// It is not waited for, or only until the end, and counts as one that still held in the former case.
#[test]
fn a_holder_that_is_told_to_stop_and_lets_go_is_released() {
    let times = [
        (Duration::ZERO, false, 1),
        (LEASE / 5, false, 1),
        (LEASE, true, 0),
    ];
    for keys in [&["k"][..], &["a", "b"]] {
        for (timeout, is_told_at_once, held) in times {
            let mut world = World::new(3);
            world.ask_all(1, keys, renewing());
            world.granted(1);
            world.shut_down(timeout, is_told_at_once);
            assert_eq!(world.answer(1), Answer::Over(Loss::Stopped));
            assert_eq!(world.carriers(keys[0]).len(), 3, "it may not have stopped");
            assert_eq!(world.drained(), None);
            let asked = world.now;
            world.end(1);
            let left = runs_until_drained(&mut world);
            assert_eq!((left.held, left.unconfirmed), (held, 0));
            assert_eq!(world.carriers(keys[0]), []);
            world.assert_within(ROUND_TRIP, asked);
        }
    }
}

#[test]
fn a_renewed_lock_is_renewed_while_it_is_waited_for() {
    let mut world = World::new(3);
    world.lock(1, "k", renewing());
    world.shut_down(Duration::from_secs(60), false);
    world.run_for(4 * LEASE);
    assert!(!world.is_any_over());
    assert_eq!(world.carriers("k").len(), 3);
    world.end(1);
    world.run_for(2 * HOP);
    assert_eq!(world.drained(), Some(ShutdownError::default()));
}

#[test]
fn an_attempt_that_is_under_way_is_given_up_and_released() {
    for steps in 0..12 {
        let mut world = World::new(3);
        world.ask(1, "k", waiting(LEASE));
        for _ in 0..steps {
            world.step();
        }
        world.shut_down(LEASE, true);
        world.end(1);
        let left = runs_until_drained(&mut world);
        assert_eq!(left, ShutdownError::default(), "after {steps} steps");
        world.run_for(10 * HOP);
        assert_eq!(world.carriers("k"), [], "after {steps} steps");
    }
}

#[test]
fn releases_that_cannot_be_confirmed_are_counted() {
    let mut world = World::new(3);
    world.lock(1, "k", params());
    world.run_for(2 * HOP);
    world.behave([1], Behavior::Unresponsive);
    world.end(1);
    let timeout = Duration::from_millis(500);
    let asked = world.now;
    world.shut_down(timeout, false);
    let left = runs_until_drained(&mut world);
    assert_eq!((left.held, left.unconfirmed), (0, 1));
    assert_eq!(world.now.since(asked), timeout);
}

#[test]
fn a_second_shutdown_can_bring_the_end_forward_and_not_put_it_off() {
    for (first, second, ends) in [(1, 3, 1), (3, 1, 1)] {
        let mut world = World::new(3);
        world.lock(1, "k", renewing());
        let asked = world.now;
        world.shut_down(Duration::from_secs(first), false);
        world.shut_down(Duration::from_secs(second), false);
        runs_until_drained(&mut world);
        let ends = Duration::from_secs(ends) + LAST_RELEASES;
        assert_eq!(world.now.since(asked), ends);
    }
}

#[test]
fn what_is_asked_for_after_the_end_is_refused() {
    let mut world = World::new(3);
    world.shut_down(LEASE, false);
    runs_until_drained(&mut world);
    world.ask(1, "k", waiting(LEASE));
    assert_eq!(world.refused(1), Cause::Stopped);
    world.extend(1);
    world.release(1);
    assert_eq!(world.answer(1), Answer::Released(Release::Unknown));
}

#[test]
fn what_was_left_is_counted() {
    let left = |held, unconfirmed| ShutdownError { held, unconfirmed }.to_string();
    let one = "1 section still held and 0 releases not confirmed when the time was up";
    let some = "2 sections still held and 1 release not confirmed when the time was up";
    assert_eq!([left(1, 0), left(2, 1)], [one, some]);
}
