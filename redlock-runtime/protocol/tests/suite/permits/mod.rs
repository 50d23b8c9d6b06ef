//! Locks with permits: never more holders than permits, and no permit free while a caller waits.

mod load;
mod weights;

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

fn slots(permits: u32) -> Vec<String> {
    (0..permits)
        .map(|slot| slot_key("k", slot).to_string())
        .collect()
}

fn are_free(world: &World, permits: u32) -> bool {
    let slots = slots(permits);
    slots.iter().all(|slot| world.carriers(slot).is_empty())
}

/// Lets this client have so many of the permits.
fn hold(world: &mut World, client: usize, sections: std::ops::Range<u64>, permits: u32) {
    for section in sections {
        world.client(client).ask_permit(section, permits, params());
        world.client(client).granted(section);
    }
}

#[test]
fn as_many_as_there_are_permits_have_one_at_a_time() {
    for nodes in 1..=5 {
        for permits in [1, 2, 3, 7] {
            let mut world = World::with_clients(nodes, 3);
            let mut tokens = Vec::new();
            for section in 0..u64::from(permits) {
                let client = section as usize % 2;
                world.client(client).ask_permit(section, permits, params());
                tokens.push(world.client(client).granted(section).1);
            }
            tokens.sort_unstable();
            tokens.dedup();
            assert_eq!(tokens.len(), permits as usize, "no token is given twice");
            for client in 0..3 {
                world.client(client).ask_permit(99, permits, params());
                let after = world.client(client).contended(99).expect("it is known");
                assert!(after <= params().key_ttl());
            }
            world.assert_release(0, Release::Released);
            world.client(2).ask_permit(100, permits, params());
            world.client(2).granted(100);
        }
    }
}

#[test]
fn a_free_permit_takes_one_round() {
    let mut world = World::new(3);
    for section in 0..3 {
        let asked = world.now;
        world.client(0).ask_permit(section, 3, params());
        let (deadline, _) = world.granted(section);
        assert_eq!(world.now.since(asked), ROUND_TRIP, "{section}");
        assert_eq!(deadline, asked.after(LEASE));
    }
    // Several at once begin at different slots.
    let mut world = World::new(3);
    let asked = world.now;
    (0..3).for_each(|section| world.client(0).ask_permit(section, 3, params()));
    (0..3).for_each(|section| assert!(world.granted(section).1 > Token(0)));
    assert_eq!(world.now.since(asked), ROUND_TRIP);
    // Nodes that owe many replies are spared.
    assert!(world.sends(is_acquire).len() <= 9);
}

#[test]
fn who_does_not_wait_asks_for_a_slot_and_a_majority_which_one_is_free() {
    let mut world = World::with_clients(3, 2);
    hold(&mut world, 0, 0..8, 8);
    world.run_for(LEASE / 2);
    let asked = world.now;
    world.client(1).ask_permit(9, 8, params());
    world.client(1).refused(9);
    // Any slot; which one the leader knows; and which one another node knows, whose release the leader may have missed.
    assert_eq!(world.now.since(asked), 3 * ROUND_TRIP);
    let is_stand = |request: &Request| matches!(request, Request::Stand { .. });
    assert_eq!(world.client(1).sends(is_stand).len(), 2);
    assert_eq!(world.client(1).sends(is_acquire).len(), 3);
    // One permit is free, and it is found by asking the leader.
    world.client(0).end(5);
    world.run_for(ROUND_TRIP);
    world.client(1).ask_permit(10, 8, params());
    world.client(1).granted(10);
    // The process that has all of its own permits knows it.
    let mut world = World::new(3);
    hold(&mut world, 0, 0..3, 3);
    world.client(0).ask_permit(9, 3, params());
    let known = world.now;
    world.contended(9);
    assert_eq!(world.now, known);
}

#[test]
fn a_node_that_refuses_releases_is_not_asked_which_permit_is_free() {
    let mut world = World::with_clients(3, 2);
    let leader = world.leader(&line_key("k"));
    world.behave([leader], Behavior::Refusing(Refuses::Releases));
    hold(&mut world, 0, 0..1, 2);
    for section in 1..10 {
        let asked = world.now;
        world.client(1).ask_permit(section, 2, waiting(LEASE));
        world.client(1).granted(section);
        world.assert_within(LEASE / 20, asked);
        world.client(1).end(section);
        world.run_for(10 * HOP);
    }
}

#[test]
fn the_earliest_end_of_a_lease_is_named() {
    let mut world = World::with_clients(3, 2);
    let leases = [LEASE, LEASE / 5, LEASE / 2];
    for (section, lease) in (0..).zip(leases) {
        world.client(0).ask_permit(section, 3, params_of(lease));
        world.granted(section);
    }
    world.client(1).ask_permit(9, 3, params());
    let after = world.client(1).contended(9).expect("it is known");
    let shortest = params_of(LEASE / 5).key_ttl();
    assert_between(after, shortest / 2, shortest);
}

#[test]
fn callers_of_one_process_are_served_in_order_and_without_asking() {
    let mut world = World::new(3);
    let wait = waiting(4 * LEASE);
    (0..20).for_each(|section| world.client(0).ask_permit(section, 2, wait));
    (0..2).for_each(|section| assert!(world.granted(section).1 > Token(0)));
    world.run_for(20 * HOP);
    for next in 2..20 {
        assert_eq!(world.answers(), []);
        world.end(next - 2);
        // The turn of a long section is refreshed first.
        world.granted(next);
        assert!(world.answers().is_empty(), "only {next} was served");
    }
    // Short ones follow each other in the turn.
    let mut world = World::new(3);
    (0..200).for_each(|section| world.client(0).ask_permit(section, 2, wait));
    let mut last = world.now;
    for section in 0..200 {
        world.granted(section);
        world.end(section);
        last = world.now;
    }
    let took = last.since(world.log()[0].0);
    let asked = world.sends(is_anything).len();
    assert!(asked < 200, "{asked} requests for 200 sections in {took:?}");
}

#[test]
fn the_first_permit_that_is_given_back_anywhere_goes_to_a_waiter() {
    for returned in 0..4 {
        let mut world = World::with_clients(3, 3);
        hold(&mut world, 0, 0..2, 4);
        hold(&mut world, 1, 2..4, 4);
        for section in 10..12 {
            world.client(2).ask_permit(section, 4, waiting(2 * LEASE));
        }
        world.run_for(100 * HOP);
        world.client(returned / 2).end(returned as u64);
        let began = world.now;
        world.client(2).granted(10);
        let took = world.now.since(began);
        assert!(took <= 5 * ROUND_TRIP, "{returned}: {took:?}");
        assert_eq!(world.client(2).answers(), []);
        world.client(2).end(10);
        world.client(2).granted(11);
        world.client(2).end(11);
        world.run_for(Ticket::LASTS);
        let left = slots(4);
        let left = left.iter().filter(|slot| !world.carriers(slot).is_empty());
        assert_eq!(left.count(), 3, "what nobody needs is let go");
        assert!(world.client(2).is_idle());
    }
}

/// The key of the line lives for ten seconds, and who makes it again is told of nothing.
#[test]
fn who_has_waited_for_long_still_hears_of_a_release() {
    for permits in [1, 2] {
        let mut world = World::with_clients(1, 2);
        let all = 0..u64::from(permits);
        for section in all.clone() {
            let renewing = renewing();
            world.client(0).ask_permit(section, permits, renewing);
            world.client(0).granted(section);
        }
        let long = Duration::from_secs(60);
        world.client(1).ask_permit(9, permits, waiting(long));
        // Whenever the look was at which the key of the line had gone.
        world.run_for(Duration::from_secs(25));
        let began = world.now;
        world.client(0).end(0);
        world.client(1).granted(9);
        let took = world.now.since(began);
        assert!(took <= 5 * ROUND_TRIP, "{permits}: {took:?}");
    }
}

#[test]
fn a_caller_is_refused_when_it_has_waited_for_so_long() {
    let mut world = World::with_clients(3, 2);
    for section in 0..3 {
        world.client(0).ask_permit(section, 3, renewing());
        world.granted(section);
    }
    let began = world.now;
    // The second one stops waiting first.
    for (section, share) in [(1, 2), (2, 8), (3, 4)] {
        let wait = waiting(LEASE / share);
        world.client(1).ask_permit(section, 3, wait);
    }
    for (section, share) in [(2, 8), (3, 4), (1, 2)] {
        world.client(1).contended(section);
        let least = LEASE / share;
        let most = least + params().node_timeout;
        assert_between(world.now.since(began), least, most);
    }
    world.run_for(Ticket::LASTS);
    assert!(world.client(1).is_idle());
}

#[test]
fn an_outage_is_told_and_not_taken_for_contention() {
    let mut world = World::with_clients(3, 2);
    hold(&mut world, 0, 0..2, 8);
    world.behave([0, 1], Behavior::Unresponsive);
    let asked = world.now;
    world.client(1).ask_permit(9, 8, params());
    assert_eq!(world.client(1).refused(9), Cause::NoQuorum);
    // One round, and not eight.
    world.assert_within(params().node_timeout, asked);
    world.client(1).ask_permit(10, 8, waiting(LEASE));
    assert_eq!(world.client(1).refused(10), Cause::NoQuorum);
    world.client(1).ask_permit(11, 8, waiting(4 * LEASE));
    world.run_for(LEASE);
    world.behave([0, 1], Behavior::Healthy);
    world.client(1).granted(11);
}

#[test]
fn a_permit_is_lost_renewed_and_extended_by_itself() {
    let mut world = World::new(3);
    for section in 0..3 {
        world.client(0).ask_permit(section, 3, renewing());
        world.granted(section);
    }
    world.run_for(30 * HOP);
    world.delete_all(&slot_key("k", 1));
    world.run_for(20 * HOP);
    let [(SectionId(lost), _)] = *world.answers() else {
        panic!("{:?}", world.answers());
    };
    world.lost(lost);
    world.run_for(2 * LEASE);
    for section in (0..3).filter(|&section| section != lost) {
        let mut renewed = 0;
        while let Some(Answer::Extended { deadline }) = world.client(0).answered(section) {
            renewed += u32::from(deadline > world.now.before(LEASE));
        }
        assert!(renewed >= 2, "{section} was renewed {renewed} times");
        let asked = world.now;
        world.extend(section);
        let deadline = asked.after(LEASE);
        assert_eq!(world.answer(section), Answer::Extended { deadline });
        world.assert_release(section, Release::Released);
    }
    world.assert_release(lost, Release::AlreadyExpired);
    world.run_for(10 * HOP);
    assert!(are_free(&world, 3) && world.client(0).is_idle());
}

/// Processes that do not agree share the slots that they have in common.
#[test]
fn the_largest_number_of_permits_counts() {
    let mut world = World::with_clients(3, 2);
    hold(&mut world, 0, 0..2, 2);
    hold(&mut world, 1, 2..5, 5);
    world.client(1).ask_permit(9, 5, params());
    world.client(1).contended(9);
    world.client(1).end(2);
    world.run_for(10 * HOP);
    world.client(0).ask_permit(9, 2, params());
    world.client(0).contended(9);
}

#[test]
fn callers_with_other_options_compete_for_the_same_slots() {
    let mut world = World::new(3);
    hold(&mut world, 0, 0..2, 2);
    for section in 10..14 {
        let lease = LEASE * (1 + section as u32 % 2);
        let wait = waiting_for(2 * LEASE, params_of(lease));
        world.client(0).ask_permit(section, 2, wait);
    }
    world.run_for(10 * HOP);
    assert_eq!(world.answers(), []);
    (0..2).for_each(|section| world.end(section));
    for _ in 10..14 {
        world.run_until(|world| !world.answers().is_empty());
        let SectionId(section) = world.answers()[0].0;
        let lease = LEASE * (1 + section as u32 % 2);
        let (deadline, _) = world.granted(section);
        assert_between(deadline.since(world.now), lease * 9 / 10, lease);
        world.end(section);
    }
}

/// One of two nodes does not reply, and is asked no more.
#[test]
fn several_callers_who_meet_an_outage_ask_no_more_often_than_one() {
    let asked = |callers| {
        let mut world = World::new(2);
        world.behave([1], Behavior::Unresponsive);
        for section in 0..callers {
            world.client(0).ask_permit(section, 2, waiting(LONG));
        }
        world.run_for(Duration::from_secs(20));
        world.sends(is_acquire).len()
    };
    let (one, some) = (asked(1), asked(4));
    // In the end once a second or so.
    assert!(one <= 40, "{one}");
    assert!(some <= 2 * one + 8, "{one} and {some}");
}

/// Else they would keep two queues, and be in each other's way.
#[test]
fn who_is_far_from_the_leader_asks_it_all_the_same() {
    let mut world = World::with_clients(3, 2);
    let leader = world.leader(&line_key("k"));
    world.client(1).set_lag(leader, 40 * HOP);
    // It has to know how far.
    world.client(1).lock(99, "k", waiting(LEASE));
    world.client(1).end(99);
    world.run_for(100 * HOP);
    let known = world.now;
    for section in 0..8 {
        for client in 0..2 {
            let mut client = world.client(client);
            client.ask_permit(section, 2, waiting(20 * LEASE));
        }
    }
    for section in 0..8 {
        for client in 0..2 {
            world.client(client).granted(section);
            world.run_for(20 * HOP);
            world.client(client).end(section);
        }
    }
    let takes_a_place =
        |request: &Request| matches!(request, Request::Stand(stand) if stand.ticket.is_ordered);
    let asked = world.client(1).sends(takes_a_place);
    let other = |(at, node): &&(Instant, NodeId)| *at > known && node.0 != leader;
    assert_eq!(asked.iter().filter(other).count(), 0, "{asked:?}");
}

/// Two of five nodes have keys that nobody comes for, so both far ones are needed.
#[test]
fn a_slot_is_had_although_far_nodes_are_needed_for_it() {
    let mut world = World::new(5);
    let leader = world.leader(&line_key("k"));
    let others: Vec<usize> = (0..5).filter(|&node| node != leader).collect();
    for slot in slots(2) {
        for &node in &others[..2] {
            world.occupy(node, &slot, OTHER, 2 * LEASE);
        }
    }
    for &node in &others[2..] {
        world.client(0).set_lag(node, 15 * HOP);
    }
    world.client(0).ask_permit(0, 2, waiting(LEASE / 2));
    world.client(0).granted(0);
}

/// The leader says that a slot is free each time, and the others have keys that nobody comes for.
#[test]
fn callers_that_take_turns_at_asking_do_not_ask_as_fast_as_nodes_reply() {
    // Without the pauses, a thousand and nearly four hundred.
    for (nodes, permits, wait, most) in [(2, 3, 2 * LEASE, 950), (3, 2, Duration::ZERO, 200)] {
        let mut world = World::new(nodes);
        let leader = world.leader(&line_key("k"));
        for slot in slots(permits) {
            for node in (0..nodes).filter(|&node| node != leader) {
                world.occupy(node, &slot, OTHER, 2 * LEASE);
            }
        }
        for section in 0..3 {
            let mut client = world.client(0);
            client.ask_permit(section, permits, waiting(wait));
        }
        world.run_for(LEASE);
        let asked = world.sends(is_acquire).len();
        assert!(asked < most, "{nodes} nodes: {asked}");
    }
}

/// The leader has such a key of the slot that is free at the others, and lacks those that the others have.
#[test]
fn keys_that_nobody_comes_for_hide_no_free_slot_for_long() {
    for hidden in 0..2 {
        let mut world = World::with_clients(5, 2);
        hold(&mut world, 0, 0..2, 2);
        world.client(1).ask_permit(9, 2, waiting(LEASE));
        world.run_for(10 * HOP);
        let leader = world.leader(&line_key("k"));
        for slot in 0..2 {
            let key = slot_key("k", slot);
            world.delete_all(&key);
            let now = world.now;
            let strays = (0..5).filter(|&node| (node == leader) == (slot == hidden));
            for node in strays {
                world.nodes[node].occupy(&key, Owner(7), LEASE, now);
            }
        }
        let freed = world.now;
        for node in 0..5 {
            world.client(1).hear_of_change(node, Some(&*line_key("k")));
        }
        world.client(1).granted(9);
        world.assert_within(LEASE / 50, freed);
    }
}

#[test]
fn a_slot_that_only_other_nodes_call_free_is_had_at_the_second_look() {
    let mut world = World::with_clients(5, 2);
    hold(&mut world, 0, 0..3, 3);
    world.run_for(LEASE / 10);
    let leader = world.leader(&line_key("k"));
    world.behave([leader], Behavior::Refusing(Refuses::Releases));
    world.client(0).end(0);
    world.run_for(10 * HOP);
    world.behave([leader], Behavior::Healthy);
    world.client(1).ask_permit(9, 3, waiting(LEASE));
    world.run_for(10 * HOP);
    let told = world.now;
    world.delete(leader, &line_key("k"));
    world.client(1).granted(9);
    world.assert_within(10 * HOP, told);
}

/// The node that is asked beside the leader calls this process's own slots free as well.
#[test]
fn a_node_that_has_lost_ones_own_slots_shows_the_free_one() {
    for other in 0..4 {
        let mut world = World::with_clients(3, 2);
        for section in 0..4 {
            let client = usize::from(section == other);
            hold(&mut world, client, section..section + 1, 4);
        }
        world.run_for(LEASE / 10);
        let order = world.order(&line_key("k"));
        world.behave([order[0]], Behavior::Refusing(Refuses::Releases));
        world.client(1).end(other);
        world.run_for(10 * HOP);
        for slot in slots(4) {
            world.nodes[order[1]].forget_key(&slot);
        }
        let asked = world.now;
        world.client(0).ask_permit(9, 4, waiting(LEASE));
        world.client(0).granted(9);
        world.assert_within(LEASE / 20, asked);
    }
}

/// The leader takes the free slot for taken, and calls one free that is not.
#[test]
fn a_slot_of_which_the_leader_is_wrong_is_found_beside_one_that_it_names() {
    for free in 0..3 {
        let mut world = World::with_clients(3, 2);
        hold(&mut world, 0, 0..3, 3);
        let leader = world.leader(&line_key("k"));
        world.client(0).set_lag(leader, LONG);
        world.client(0).end(free);
        world.run_for(10 * HOP);
        let left = |slot: &u32| world.carriers(&slot_key("k", *slot)).len() == 1;
        let named = ((0..3).find(left).unwrap() + 1) % 3;
        world.nodes[leader].forget_key(&slot_key("k", named));
        world.client(1).ask_permit(9, 3, waiting(LONG));
        let asked = world.now;
        world.client(1).granted(9);
        world.assert_within(LEASE / 10, asked);
    }
}

/// The leader has lost the key of the slot that another process has, and calls it free.
#[test]
fn who_has_lost_a_slot_asks_for_another_one_next() {
    let mut world = World::with_clients(3, 2);
    let leader = world.leader(&line_key("k"));
    for section in (0..40).step_by(2) {
        hold(&mut world, 0, section..section + 1, 2);
        for slot in slots(2) {
            world.nodes[leader].forget_key(&slot);
        }
        let before = world.client(1).sends(is_acquire).len();
        world.client(1).ask_permit(section + 1, 2, params());
        world.client(1).granted(section + 1);
        // For the one that is taken and for the one that is free.
        let asked = world.client(1).sends(is_acquire).len() - before;
        assert!(asked <= 6, "{asked}");
        world.client(0).end(section);
        world.client(1).end(section + 1);
        world.run_for(10 * HOP);
    }
}

/// No node tells a process of what it has deleted itself.
#[test]
fn a_permit_that_is_released_late_goes_to_the_next_caller_of_the_process() {
    let mut world = World::new(3);
    let second = params_of(Duration::from_secs(1));
    world.ask_permit(1, 1, second);
    world.granted(1);
    world.ask_permit(2, 1, waiting_for(LONG, second));
    world.expired(1);
    // Its keys outlive its lease by the guard band.
    world.run_for(10 * ROUND_TRIP);
    let released = world.now;
    world.end(1);
    world.granted(2);
    world.assert_within(4 * ROUND_TRIP, released);
}

/// Whichever slot is won first.
#[test]
fn callers_of_one_process_that_ask_for_several_slots_at_once_are_served_in_order() {
    const PERMITS: u32 = 8;
    let mut world = World::with_clients(5, 2);
    world.client(0).set_lag(1, HOP / 4);
    let mut crowd = Crowd::default();
    let permits = LockParams {
        permits: PERMITS,
        ..waiting(LONG)
    };
    let wish = Wish::new(&["k"], permits, 3 * HOP);
    for caller in 0..PERMITS.into() {
        crowd.ask(&mut world, 0, caller, wish.clone().again(Duration::ZERO));
        crowd.ask(&mut world, 1, caller, wish.clone().again(Duration::ZERO));
    }
    crowd.run_for(&mut world, Duration::from_secs(1));
    let served = crowd.served();
    for client in 0..2 {
        let own = served.iter().filter(|section| section.client == client);
        assert!(own.is_sorted_by_key(|section| section.section));
    }
    assert!(served.len() > 2_000, "{}", served.len());
}
