//! Nodes that are away, or refuse what they are asked: what is sent while that lasts, and how soon
//! it is over.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

fn ask_for_many(world: &mut World, keys: u64) {
    for section in 1..=keys {
        world.ask(section, &section.to_string(), waiting(LONG));
    }
}

fn sent_since(world: &World, from: Instant, kind: fn(&Request) -> bool) -> usize {
    let sends = world.sends(kind);
    sends.iter().filter(|(at, _)| *at > from).count()
}

#[test]
fn without_a_majority_a_lock_is_refused_at_once_and_nothing_is_sent() {
    use Behavior::{Dead, Healthy};
    let mut world = World::starting(&[Dead, Dead, Dead, Healthy, Healthy]);
    let asked = world.now;
    let before = world.sends(is_anything).len();
    world.ask(1, "k", params());
    let refusal = world.refusal(1);
    assert_eq!(refusal.cause, Cause::NoQuorum);
    let unreachable = |verdict: &&Verdict| matches!(verdict, Verdict::Unreachable { .. });
    assert_eq!(refusal.verdicts.iter().filter(unreachable).count(), 3);
    assert_eq!(world.now, asked);
    assert_eq!(world.sends(is_anything).len(), before);
    // Who waits has told no node of it, and has nothing to give up.
    world.ask(2, "k", waiting(LEASE));
    assert_eq!(world.refused(2), Cause::NoQuorum);
    assert_eq!(world.sends(is_anything).len(), before);
}

#[test]
fn an_outage_or_quarantine_of_the_majority_is_no_load_on_the_nodes() {
    for spoil in [World::kill, World::restart_empty] {
        let mut world = World::new(3);
        spoil(&mut world, 0);
        spoil(&mut world, 1);
        world.run_for(Duration::from_secs(2));
        ask_for_many(&mut world, 100);
        let from = world.now;
        world.run_for(Duration::from_secs(10));
        assert_eq!(sent_since(&world, from, is_acquire), 0);
        assert_eq!(sent_since(&world, from, is_release), 0);
        assert!(sent_since(&world, from, is_anything) <= 20);
        assert_eq!(world.answers(), []);
    }
}

/// Each meets keys of the attempts of the other.
#[test]
fn beside_a_process_that_waits_a_silent_majority_is_no_contention() {
    let mut world = World::with_clients(5, 2);
    world.behave(0..3, Behavior::Unresponsive);
    world.client(1).ask(1, "k", waiting(LONG));
    for section in 2..40 {
        world.run_for(37 * HOP);
        world.ask(section, "k", params());
        let refusal = world.refusal(section);
        assert_eq!(refusal.cause, Cause::NoQuorum);
        let fails =
            |verdict: &Verdict| !matches!(verdict, Verdict::Ours | Verdict::HeldByAnother { .. });
        assert!(refusal.verdicts[..3].iter().all(fails), "{refusal:?}");
        assert!(
            !refusal.verdicts[..3].contains(&Verdict::NoAnswerYet),
            "{refusal:?}"
        );
    }
}

/// Two of three reply just before the node timeout, so one of the callers gets the lock.
#[test]
fn beside_the_one_that_gets_the_lock_late_nodes_are_no_outage() {
    for late in [150, 215, 225, 240] {
        let mut world = World::with_clients(3, 3);
        for &node in &world.order("k")[1..] {
            for client in 0..3 {
                world.client(client).set_lag(node, late * HOP);
            }
        }
        for client in 0..3 {
            world
                .client(client)
                .ask(1, "k", within(250 * HOP, params()));
        }
        world.run_for(Duration::from_secs(1));
        for client in 0..3 {
            let answer = world.client(client).answered(1);
            let refused = matches!(&answer, Some(Answer::Refused(refusal)) if refusal.cause == Cause::NoQuorum);
            assert!(!refused, "{late} ms late: {answer:?}");
        }
    }
}

/// Nodes that are connected and silent are asked, because they may answer.
#[test]
fn silent_nodes_are_asked_seldom() {
    let mut world = World::new(3);
    world.behave([1, 2], Behavior::Unresponsive);
    ask_for_many(&mut world, 100);
    let before = world.sends_to(0, is_anything).len();
    world.run_for(Duration::from_secs(10));
    let sent = world.sends_to(0, is_anything).len() - before;
    assert!(sent <= 100 * 10 * 4, "{sent} requests of 100 waiters");
}

/// No node is admitted when they reply in time again, so nothing ends the pause.
#[test]
fn nodes_that_were_too_slow_for_a_while_are_asked_soon_after() {
    for tenths in 50..60 {
        let mut world = World::new(3);
        world.behave(0..3, Behavior::Delayed(30 * HOP));
        let hasty = within(20 * HOP, waiting(Duration::from_secs(60)));
        world.ask(1, "k", hasty);
        world.run_for(tenths * 100 * HOP);
        assert_eq!(world.answers(), []);
        world.behave(0..3, Behavior::Healthy);
        let well = world.now;
        world.granted(1);
        world.assert_within(Duration::from_millis(120), well);
    }
}

#[test]
fn waiters_cost_few_wake_ups_while_nothing_can_be_done() {
    let mut world = World::starting(&[Behavior::Dead; 3]);
    ask_for_many(&mut world, 1_000);
    let mut wake_ups = 0;
    let end = world.now.after(Duration::from_secs(10));
    while world.next().is_some_and(|next| next < end) {
        world.step();
        wake_ups += 1;
    }
    assert!(wake_ups <= 1_000 * 40, "{wake_ups} in ten seconds");
}

#[test]
fn waiters_try_as_soon_as_a_majority_votes_again() {
    for waited in [100, 1_000, 10_000] {
        let mut world = World::with_clients(3, 1);
        world.kill(1);
        world.kill(2);
        world.run_for(ROUND_TRIP);
        ask_for_many(&mut world, 50);
        world.client(0).ask_permit(51, 3, waiting(LONG));
        world.run_for(waited * HOP);
        world.behave([1], Behavior::Healthy);
        world.await_vote(1);
        let back = world.now;
        for section in 1..=51 {
            world.granted(section);
        }
        let took = world.now.since(back);
        assert!(took <= 2 * ROUND_TRIP, "after {waited} ms: {took:?}");
    }
}

/// It stops waiting while the front asks for the next turn.
#[test]
fn an_outage_that_is_over_is_no_reason_for_the_next_refusal() {
    let mut world = World::with_clients(3, 1);
    world.kill(1);
    world.kill(2);
    world.run_for(ROUND_TRIP);
    world.client(0).ask(1, "k", fair(LONG));
    world.run_for(100 * HOP);
    world.behave([1], Behavior::Healthy);
    world.await_vote(1);
    world.granted(1);
    world.client(0).ask(2, "k", fair(LONG));
    world.client(0).set_lag(0, 20 * HOP);
    world.end(1);
    world.client(0).ask(3, "k", fair(5 * HOP));
    world.client(0).contended(3);
    world.granted(2);
}

#[test]
fn a_dead_node_is_tried_seldom() {
    let mut world = World::new(3);
    world.kill(1);
    let before = connects(&world);
    world.run_for(Duration::from_secs(60));
    let tries = connects(&world) - before;
    assert!((30..=140).contains(&tries), "{tries} in a minute");
}

fn count(world: &World, kind: impl Fn(&Action) -> bool) -> usize {
    let log = world.log().iter();
    log.filter(|(_, action)| kind(action)).count()
}

fn connects(world: &World) -> usize {
    count(world, |action| matches!(action, Action::Connect { .. }))
}

fn disconnects(world: &World) -> usize {
    count(world, |action| {
        matches!(action, Action::Disconnect { node: NodeId(0) })
    })
}

fn announcements(world: &World) -> usize {
    count(world, |action| matches!(action, Action::NodeChanged { .. }))
}

#[test]
fn a_node_is_down_if_a_new_connection_does_not_help() {
    let mut world = World::new(3);
    world.behave([0], Behavior::Unresponsive);
    world.lock(1, "k", params());
    world.run_for(Duration::from_millis(1_001));
    assert_eq!(disconnects(&world), 1);
    assert_eq!(world.state(0), NodeState::Up);
    world.run_for(Duration::from_millis(1_001));
    assert!(matches!(world.state(0), NodeState::Down { .. }));
}

#[test]
fn a_connection_that_ends_is_no_event_if_the_next_one_can_be_made() {
    let mut world = World::new(3);
    let before = announcements(&world);
    for node in 0..3 {
        world.break_connections(node);
    }
    let asked = world.now;
    world.lock(1, "k", params());
    // To connect, to read what the node remembers, and to ask for the lock.
    assert_eq!(world.now.since(asked), 3 * ROUND_TRIP);
    assert_eq!(announcements(&world), before);
}

#[test]
fn a_connection_that_was_dropped_without_a_word_while_idle_is_replaced_in_time() {
    let mut world = World::new(3);
    let before = announcements(&world);
    world.run_for(Duration::from_secs(60));
    for node in 0..3 {
        world.drop_connections(node);
    }
    let asked = world.now;
    world.lock(1, "k", waiting(Duration::from_millis(500)));
    world.assert_within(299 * HOP, asked);
    assert_eq!(announcements(&world), before);
}

/// It had queued requests when it was stopped, and had not read all replies.
#[test]
fn a_client_that_was_stopped_keeps_its_connections() {
    for stopped in [1_000, 1_700, 60_000] {
        let mut world = World::new(3);
        world.lock(1, "held", renewing());
        let before = announcements(&world);
        for section in 2..40 {
            world.ask(section, &format!("{section}"), params());
            world.client(0).stop_for(stopped * HOP);
            world.run_for((stopped + 500) * HOP);
            assert_eq!(disconnects(&world), 0, "after {stopped} ms");
            assert_eq!(announcements(&world), before);
            world.end(section);
            world.run_for(Duration::from_millis(37 * section));
        }
    }
}

/// It gets ten requests a second through, and is asked for a lock a thousand times a second.
#[test]
fn requests_do_not_pile_up_before_a_node_that_is_slower_than_its_clients() {
    let mut world = World::new(3);
    world.nodes[0].work = Duration::from_millis(100);
    let mut most = 0;
    for section in 1..=20_000 {
        world.lock(section, &format!("{section}"), params());
        world.end(section);
        world.run_for(HOP);
        most = most.max(world.under_way(0));
    }
    assert!(most <= 500, "{most} requests on their way");
    // Neither does what is remembered of them.
    let keys = world.client(0).keys();
    assert!(keys <= 500, "{keys} keys");
    world.client(0).shut_down(Duration::from_secs(60), false);
    world.run_for(Duration::from_secs(60));
    let all = Some(ShutdownError::default());
    assert_eq!(world.client(0).drained(), all, "it owes little");
}

/// Eight keys of a mebibyte each are as much as it may owe.
#[test]
fn no_more_bytes_are_asked_of_a_silent_node_than_it_can_reply_to() {
    let mut world = World::new(3);
    world.behave([2], Behavior::Unresponsive);
    for section in 1..=12 {
        let key = format!("{section}{}", "k".repeat(1 << 20));
        world.lock(section, &key, params());
    }
    assert_eq!(world.sends_to(2, is_acquire).len(), 8);
}

/// Whether a node votes is said by what it answers and not by its connection.
#[test]
fn a_node_that_refuses_votes_is_said_not_to_vote_until_it_answers_one() {
    let mut world = World::new(3);
    world.behave([0], Behavior::Refusing(Refuses::Writes));
    world.lock(1, "k", params());
    world.run_for(ROUND_TRIP);
    assert!(matches!(world.state(0), NodeState::Refuses { .. }));
    // However often it is asked, that is said once.
    let said = announcements(&world);
    for section in 2..200 {
        world.end(section - 1);
        world.lock(section, "k", params());
        world.run_for(100 * HOP);
    }
    assert_eq!(announcements(&world), said);
    world.behave([0], Behavior::Healthy);
    world.end(199);
    world.run_for(Duration::from_secs(2));
    assert!(matches!(world.state(0), NodeState::Refuses { .. }));
    world.lock(200, "k", params());
    world.run_for(ROUND_TRIP);
    assert_eq!(world.state(0), NodeState::Up);
}

/// Services that get no requests because no lock can be had would never find out otherwise.
#[test]
fn a_node_that_refused_votes_is_believed_to_vote_again_if_nothing_is_asked_of_it() {
    let mut world = World::with_settings(3, &[pinging(Duration::from_secs(15))]);
    world.behave(0..3, Behavior::Refusing(Refuses::Writes));
    world.ask(1, "k", params());
    assert_eq!(world.refused(1), Cause::NoQuorum);
    world.run_for(ROUND_TRIP);
    for node in 0..3 {
        assert!(matches!(world.state(node), NodeState::Refuses { .. }));
    }
    world.run_for(Duration::from_secs(40));
    world.assert_all_vote();
}

/// It answers, if only with errors: a new connection would not help.
#[test]
fn a_node_that_refuses_writes_keeps_its_connection() {
    for has_marker in [true, false] {
        let mut world = World::new(3);
        world.behave([0], Behavior::Refusing(Refuses::Writes));
        if !has_marker {
            world.restart_empty(0);
        }
        world.run_for(Duration::from_secs(2));
        let (from, connected) = (world.now, connects(&world));
        world.run_for(Duration::from_secs(60));
        assert_eq!(connects(&world), connected);
        let sent = sent_since(&world, from, is_anything);
        assert!(sent <= 60 * 3 * 2, "{sent} requests in a minute of idling");
        if !has_marker {
            let NodeState::Refuses { message, .. } = world.state(0) else {
                panic!("{:?}", world.state(0))
            };
            assert!(message.contains("REFUSED"), "its words: {message}");
        }
        for section in 1..=20 {
            let asked = world.now;
            world.lock(section, "k", params());
            assert_eq!(world.now.since(asked), ROUND_TRIP);
            world.end(section);
            world.run_for(ROUND_TRIP);
        }
        world.behave([0], Behavior::Healthy);
        world.run_for(settings().max_ttl);
        world.lock(21, "k", params());
        world.run_for(ROUND_TRIP);
        assert_eq!(world.state(0), NodeState::Up);
    }
}

#[test]
fn a_node_that_refuses_everything_keeps_its_connection_and_is_asked_seldom() {
    let mut world = World::new(3);
    world.behave([0], Behavior::Refusing(Refuses::Everything));
    world.break_connections(0);
    world.run_for(Duration::from_secs(2));
    let (connected, before) = (connects(&world), world.sends_to(0, is_anything).len());
    world.run_for(Duration::from_secs(60));
    assert_eq!(connects(&world), connected);
    assert!(matches!(world.state(0), NodeState::Refuses { .. }));
    let sent = world.sends_to(0, is_anything).len() - before;
    assert!((10..=150).contains(&sent), "{sent} requests in a minute");
    world.behave([0], Behavior::Healthy);
    let mended = world.now;
    world.await_votes(0);
    world.assert_within(Duration::from_secs(3), mended);
}

/// Another client has let the node in again before this one has heard of the loss.
#[test]
fn a_node_that_was_let_in_again_is_not_said_to_refuse() {
    let mut world = World::with_settings(1, &[assuming_fresh(), assuming_fresh()]);
    world.behave([0], Behavior::Refusing(Refuses::Writes));
    world.ask(1, "k", params());
    world.refused(1);
    assert!(matches!(world.state(0), NodeState::Refuses { .. }));
    world.behave([0], Behavior::Healthy);
    world.client(0).set_lag(0, 20 * HOP);
    world.flush(0);
    world.client(1).hear_of_change(0, None);
    world.run_for(10 * HOP);
    world.client(0).hear_of_change(0, None);
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.state(0), NodeState::Up);
}
