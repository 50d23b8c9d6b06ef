//! What it costs: requests, and requests again.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

fn sent(world: &World) -> usize {
    world.sends(is_anything).len()
}

#[test]
fn an_idle_client_sends_nothing() {
    let mut world = World::new(3);
    world.lock(1, "k", params());
    world.end(1);
    world.run_for(Duration::from_secs(1));
    let before = world.log().len();
    world.run_for(Duration::from_secs(3_600));
    assert_eq!(world.log().len(), before);
    assert_eq!(world.next(), None, "it needs no timer");
}

#[test]
fn an_idle_client_asks_each_node_once_an_interval_whether_it_is_there() {
    let mut world = World::with_settings(3, &[pinging(Duration::from_secs(15))]);
    let before = sent(&world);
    world.run_for(Duration::from_secs(3_600));
    let sent = sent(&world) - before;
    assert!((3 * 235..=3 * 240).contains(&sent), "{sent} in an hour");
}

/// A waiter of another process is no cost for the holder.
#[test]
fn a_lock_that_is_held_costs_a_few_requests_for_each_renewal_and_nothing_else() {
    let minute = params_of(Duration::from_secs(60));
    // Renewed up to 42 times: an extension, and a read because an extension is a write.
    for (params, is_waited_for, most) in [
        (renewing(), false, 3 * 42 * 2),
        (minute, false, 0),
        (minute, true, 0),
    ] {
        let mut world = World::with_clients(3, 2);
        world.lock(1, "k", params);
        world.run_for(Duration::from_secs(1));
        let before = sent(&world);
        if is_waited_for {
            world.client(1).ask(1, "k", waiting(12 * LEASE));
        }
        world.run_for(Duration::from_secs(58));
        let requests = sent(&world) - before;
        assert!(requests <= most, "{requests} requests in a minute");
    }
}

/// Rounds that take longer are worth more sections, also if the first one of the turn was fast.
#[test]
fn awaited_releases_are_asked_about_less_often_while_rounds_take_longer() {
    let rounds = |lag| {
        let mut world = World::new(3);
        world.client(0).start_wall_clock();
        for section in 1..=400 {
            world.ask(section, "k", waiting(Duration::from_secs(60)));
        }
        world.granted(1);
        for node in 0..3 {
            world.client(0).set_lag(node, lag);
        }
        world.release(1);
        for section in 2..=400 {
            world.granted(section);
            world.run_for(HOP / 2);
            world.release(section);
        }
        world.sends(is_extend).len() / 3
    };
    let (fast, slow) = (rounds(Duration::ZERO), rounds(ROUND_TRIP));
    assert!(slow <= fast * 6 / 10, "{slow} rounds in place of {fast}");
}

#[test]
fn a_key_is_read_again_after_an_extension_only_where_it_was_written() {
    let mut world = World::new(3);
    world.ask(1, "k", params());
    // Who waits lets the key live for longer than was asked for, by a twentieth of the lease.
    world.ask(2, "k", waiting(Duration::from_secs(60)));
    world.granted(1);
    world.run_for(LEASE / 10);
    let mut reads = Vec::new();
    for _ in 0..2 {
        let before = world.sends(is_watch).len();
        world.extend(1);
        world.extended(1);
        world.run_for(2 * ROUND_TRIP);
        reads.push(world.sends(is_watch).len() - before);
    }
    assert_eq!(reads, [3, 0]);
    let deleted = world.now;
    world.delete_all("k");
    world.lost(1);
    world.assert_within(2 * ROUND_TRIP, deleted);
}

#[test]
fn news_of_a_key_is_read_once_at_a_time() {
    for key in [Some("k"), None] {
        let mut world = World::new(3);
        world.lock(1, "k", params());
        world.run_for(Duration::from_millis(100));
        let before = sent(&world);
        for _ in 0..10_000 {
            world.client(0).hear_of_change(0, key);
        }
        let at_once = sent(&world) - before;
        assert!(at_once <= 4, "{at_once} requests within an instant");
        world.run_for(Duration::from_millis(100));
        let requests = sent(&world) - before;
        assert!(requests <= 10, "{requests} requests");
        assert_eq!(world.answers(), []);
    }
}

#[test]
fn news_of_keys_that_nobody_here_wants_costs_nothing() {
    let mut world = World::new(3);
    let before = sent(&world);
    for number in 0..1_000 {
        let key = format!("key {number}");
        world.client(0).hear_of_change(0, Some(&key));
    }
    assert_eq!(sent(&world), before);
}

/// A server tells of it as of a flush of our database, and forgets what it was to tell of: each lock is read
/// again.
#[test]
fn a_flush_of_another_database_costs_one_question_and_a_read_of_each_lock() {
    let mut world = World::new(3);
    let minute = params_of(Duration::from_secs(60));
    for section in 1..=20 {
        world.lock(section, &section.to_string(), minute);
    }
    world.run_for(Duration::from_secs(1));
    let is_probe = |request: &Request| matches!(request, Request::Probe);
    let before = (sent(&world), world.sends(is_probe).len());
    world.client(0).hear_of_change(0, None);
    world.run_for(Duration::from_secs(1));
    let after = (sent(&world), world.sends(is_probe).len());
    assert_eq!(after, (before.0 + 1 + 20, before.1 + 1));
}

/// While nothing changes, however many wait and for whatever.
#[test]
fn each_process_that_waits_costs_a_few_requests_a_second() {
    const SECONDS: u32 = 20;
    let plain = waiting(12 * LEASE);
    let permits = |permits| LockParams { permits, ..plain };
    for (keys, params, most) in [
        (&["k"][..], plain, 4),
        (&["k"], fair(12 * LEASE), 4),
        (&["k"], shared(plain), 4),
        (&["k"], permits(8), 4),
        (&["k"], permits(64), 4),
        // The one that it has is kept.
        (&["a", "k"], plain, 12),
    ] {
        for waiting in [1, 2, 8] {
            let mut world = World::with_clients(5, 1 + waiting);
            for section in 0..params.permits.max(1) {
                world.ask_permit(section.into(), params.permits, params_of(12 * LEASE));
                world.granted(section.into());
            }
            for client in 1..=waiting {
                world.client(client).ask_all(100, keys, params);
            }
            world.run_for(Duration::from_secs(2));
            let rested = world.now;
            world.run_for(SECONDS * Duration::from_secs(1));
            for client in 1..=waiting {
                let sent = world.client(client).sends(is_anything).into_iter();
                let sent = sent.filter(|(at, _)| *at > rested).count();
                let case = format!("{waiting} wait for {keys:?}, {} permits", params.permits);
                assert!(sent <= most * SECONDS as usize, "{case}: {sent} requests");
            }
        }
    }
}

#[test]
fn a_process_that_no_node_notifies_costs_twenty_requests_a_second() {
    const SECONDS: u32 = 20;
    let mut world = World::without_notices(5, 2);
    world.lock(1, "k", params_of(Duration::from_secs(60)));
    world.client(1).ask(2, "k", waiting(12 * LEASE));
    world.run_for(Duration::from_secs(2));
    let before = world.client(1).sends(is_anything).len();
    world.run_for(SECONDS * Duration::from_secs(1));
    let sent = world.client(1).sends(is_anything).len() - before;
    assert!((300..=420).contains(&sent), "{sent} requests");
}

/// Each has one caller, which asks again once it has heard of its release.
#[test]
fn a_hand_over_costs_a_few_requests_however_many_processes_wait() {
    // To acquire and to release it takes ten, to watch for longer than a turn five.
    for (clients, hops, most) in [
        (2, 5, 15),
        (5, 5, 22),
        (20, 5, 28),
        (50, 5, 40),
        (2, 25, 22),
        (5, 25, 32),
        (20, 100, 56),
        (20, 300, 78),
        (50, 300, 110),
    ] {
        let mut world = World::with_clients(5, clients);
        let mut crowd = Crowd::default();
        for client in 0..clients {
            let wish = Wish::new(&["k"], waiting(60 * LEASE), hops * HOP);
            crowd.ask(&mut world, client, 1, wish.again(3 * HOP));
        }
        crowd.run_for(&mut world, Duration::from_secs(1) + 50 * hops * HOP);
        let (served, each) = crowd.served_and_requests(&world);
        let case = format!("{clients} processes, {hops} ms");
        assert!(each <= most, "{case}: {each} each, {served}");
    }
}

/// Sets of keys that overlap, for processes that seldom meet: an attempt asks for both at once.
#[test]
fn keys_that_others_want_seldom_cost_little_more_than_free_ones() {
    let sets = [["a", "b"], ["b", "c"], ["c", "d"], ["a", "d"]];
    let (mut sent, mut served) = (0, 0);
    for pause in [40, 45, 50, 55, 60] {
        let mut world = World::with_clients(3, 5);
        let mut crowd = Crowd::default();
        for client in 0..5 {
            world.client(client).start_wall_clock();
            let wish = Wish::new(&sets[client % 4], waiting(60 * LEASE), 5 * HOP);
            crowd.ask(&mut world, client, 1, wish.again(pause * HOP));
            crowd.run_for(&mut world, 3 * HOP);
        }
        // At first they all meet.
        crowd.run_for(&mut world, Duration::from_secs(1));
        crowd.served();
        let before = world.sent();
        crowd.run_for(&mut world, Duration::from_secs(3));
        sent += world.sent() - before;
        served += crowd.served().len();
    }
    // Twelve, if they never meet.
    assert!(
        sent <= 14 * served,
        "{} each, {served}",
        sent as f64 / served as f64
    );
}

/// Sections of a process follow each other in the permits that are its share. Its callers wait, too.
#[test]
fn sections_that_follow_each_other_cost_a_few_requests() {
    for (clients, callers, permits) in [(1, 8, 0), (1, 16, 8), (2, 8, 8), (4, 4, 8), (8, 2, 8)] {
        let mut world = World::with_clients(5, clients);
        let mut crowd = Crowd::default();
        let params = LockParams {
            permits,
            ..waiting(60 * LEASE)
        };
        for client in 0..clients {
            for caller in 0..callers {
                let wish = Wish::new(&["k"], params, 10 * ROUND_TRIP);
                crowd.ask(&mut world, client, caller, wish.again(Duration::ZERO));
            }
        }
        crowd.run_for(&mut world, Duration::from_secs(4));
        let (served, each) = crowd.served_and_requests(&world);
        assert!(each <= 7, "{clients} processes: {each} each, {served}");
    }
}

/// Only a leader that has nothing new to say is doubted.
#[test]
fn a_waiter_that_is_overtaken_asks_the_leader_alone() {
    let mut world = World::with_clients(5, 3);
    world.lock(1, "k", params());
    world.client(1).ask(2, "k", waiting(LONG));
    world.run_for(Duration::from_millis(100));
    let before = world.client(1).sends(is_acquire).len();
    world.release(1);
    world.run_for(HOP / 2);
    // Once the key is gone, and before the waiter hears of it.
    world.client(2).ask(3, "k", params());
    world.run_for(Duration::from_millis(100));
    let asked = world.client(1).sends(is_acquire).len() - before;
    assert_eq!(asked, 1);
    world.client(2).granted(3);
}

/// The other nodes, which are asked in its place then, do not know of the queue. An empty one they are not taken for.
#[test]
fn a_leader_that_does_not_delete_is_asked_no_more_often_than_the_queue_goes_on() {
    const SECONDS: u64 = 5;
    let clients = 12;
    let mut world = World::with_clients(5, clients);
    let leader = world.leader("k");
    world.behave([leader], Behavior::Refusing(Refuses::Releases));
    let mut crowd = Crowd::default();
    let params = waiting_for(60 * LEASE, params_of(Duration::from_millis(280)));
    for client in 0..clients {
        // The others reply to the same question before the leader does.
        world.client(client).set_lag(leader, 2 * HOP);
        let wish = Wish::new(&["k"], params, 5 * HOP);
        crowd.ask(&mut world, client, 1, wish.again(Duration::ZERO));
    }
    crowd.run_for(&mut world, Duration::from_secs(SECONDS));
    let to_leader = |client| world.client(client).sends_to(leader, is_acquire).len();
    let asked = (0..clients).map(to_leader).sum::<usize>();
    let counts = counts(&crowd.served(), clients);
    let served: usize = counts.iter().sum();
    assert!(asked <= 7 * served, "{asked} of {served}");
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}

#[test]
fn renewals_that_never_end_are_one_round_at_a_time() {
    let mut world = World::new(3);
    let renew = Some(Duration::from_nanos(1));
    world.lock(1, "k", LockParams { renew, ..params() });
    let before = sent(&world);
    world.run_for(Duration::from_secs(1));
    let requests = sent(&world) - before;
    assert!(requests <= 3 * 2 * 500, "{requests} requests in a second");
}

/// Where too few nodes are left for anybody, each who asks them leaves keys there for a moment, and the others are told.
#[test]
fn a_lock_that_nobody_can_have_is_asked_for_less_and_less_often() {
    const CLIENTS: usize = 20;
    const SECONDS: usize = 5;
    let mut world = World::with_clients(4, CLIENTS);
    for &node in &world.order("k")[..2] {
        world.occupy(node, "k", Owner(node as u128), Duration::from_secs(600));
    }
    for client in 0..CLIENTS {
        world.client(client).ask(1, "k", waiting(60 * LEASE));
    }
    world.run_for(Duration::from_secs(2));
    let before = world.sent();
    world.run_for(Duration::from_secs(SECONDS as u64));
    let each = (world.sent() - before) / CLIENTS / SECONDS;
    assert!(each <= 100, "{each} requests a second");
}
