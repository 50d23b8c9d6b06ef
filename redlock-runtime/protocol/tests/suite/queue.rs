//! Waiters of one process: their order, and how long they wait.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

#[test]
fn ten_thousand_that_give_up_at_once_are_no_deeper_than_one() {
    let mut world = World::starting(&[Behavior::Dead; 3]);
    for section in 1..=10_000 {
        world.ask(section, "k", waiting(LEASE));
    }
    world.now = world.now.after(2 * LEASE);
    world.client(0).handle(Event::Wakeup);
    assert_eq!(world.answers().len(), 10_000);
}

#[test]
fn a_waiter_that_gives_up_is_passed_over() {
    let mut world = World::new(3);
    for section in 1..=5 {
        world.ask(section, "k", waiting(LEASE));
    }
    world.granted(1);
    world.end(4);
    world.end(2);
    world.end(1);
    world.granted(3);
    assert!(world.answers().is_empty());
    world.end(3);
    world.granted(5);
    world.end(5);
    world.run_for(10 * HOP);
    assert_eq!(world.carriers("k"), []);
}

#[test]
fn a_waiter_that_gives_up_when_its_turn_begins_leaves_nothing_behind() {
    for steps in 0..20 {
        let mut world = World::new(3);
        world.ask(1, "k", params());
        world.ask(2, "k", waiting(LEASE));
        world.granted(1);
        world.end(1);
        for _ in 0..steps {
            world.step();
        }
        world.end(2);
        world.run_for(10 * HOP);
        assert_eq!(world.carriers("k"), [], "after {steps} steps");
    }
}

#[test]
fn a_waiter_does_not_ask_the_nodes_while_a_task_of_its_process_holds_the_lock() {
    let mut world = World::new(3);
    world.lock(1, "k", renewing());
    world.ask(2, "k", waiting(Duration::from_secs(60)));
    world.run_for(Duration::from_secs(30));
    assert_eq!(world.sends(is_acquire).len(), 3);
    world.end(1);
    let ended = world.now;
    world.granted(2);
    world.assert_within(2 * ROUND_TRIP, ended);
}

/// An attempt that is under way when it lets go is followed by another one after a short pause.
#[test]
fn the_next_waiter_goes_on_as_soon_as_a_holder_whose_lease_is_over_lets_go() {
    for over_for in [1, 17, 301, 499] {
        let mut world = World::new(3);
        world.ask(1, "k", params());
        world.ask(2, "k", waiting(Duration::from_secs(60)));
        world.granted(1);
        world.expired(1);
        world.run_for(Duration::from_millis(over_for));
        // Its keys stand, and it may not have stopped.
        assert_eq!(world.answers(), []);
        world.end(1);
        let ended = world.now;
        world.granted(2);
        let took = world.now.since(ended);
        let most = if over_for < 4 { 5 } else { 2 };
        assert!(took <= most * ROUND_TRIP, "after {over_for} ms: {took:?}");
    }
}

/// Its attempt had met others that have no majority either.
#[test]
fn a_holder_that_lets_go_late_gives_no_waiter_more_time_than_it_has() {
    let mut world = World::new(3);
    world.lock(1, "k", params_of(Duration::from_secs(1)));
    assert!(matches!(world.answer(1), Answer::Over(_)));
    let order = world.order("k");
    for &node in &order[..2] {
        world.nodes[node].forget_key("k");
    }
    world.occupy(order[1], "k", OTHER, LEASE);
    let asked = world.now;
    world.ask(2, "k", params());
    world.run_for(params().round_timeout() - 20 * HOP);
    assert_eq!(world.answers(), []);
    world.behave([order[0]], Behavior::Unresponsive);
    world.end(1);
    world.contended(2);
    assert!(world.now <= asked.after(params().round_timeout()));
}

#[test]
fn an_answer_tells_how_often_the_nodes_were_asked() {
    let attempts = |answer: Answer| match answer {
        Answer::Granted { attempts, .. } => attempts,
        Answer::Refused(refusal) => refusal.attempts,
        other => panic!("{other:?}"),
    };
    let mut world = World::with_clients(3, 2);
    world.ask(1, "k", params());
    assert_eq!(attempts(world.answer(1)), 1);
    world.ask(2, "k", waiting(LEASE));
    world.ask(3, "k", params());
    assert_eq!(attempts(world.answer(3)), 0, "a section of this process");
    world.end(1);
    assert_eq!(attempts(world.answer(2)), 0, "handed over");

    world.client(1).ask(1, "k", params());
    assert_eq!(attempts(world.client(1).answer(1)), 1);
    world.client(1).ask(2, "k", waiting(Duration::from_secs(1)));
    assert!(attempts(world.client(1).answer(2)) > 1);
    world.client(1).ask(3, "k", waiting(LEASE));
    world.run_for(Duration::from_millis(100));
    world.end(2);
    assert!(attempts(world.client(1).answer(3)) > 1);

    world.ask_all(4, &["a", "b"], params());
    assert_eq!(attempts(world.answer(4)), 2);
}
