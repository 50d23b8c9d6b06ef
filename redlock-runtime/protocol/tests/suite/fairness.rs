//! Processes with many waiters take turns, and keep their turns where nobody else wants the lock.

use std::time::Duration;

use redlock_protocol::Owner;

use crate::{world::*, *};

/// No turn lasts for longer while another process waits.
const LONGEST_TURN: Duration = Duration::from_millis(50);

/// Sections of this length.
fn queue(crowd: &mut Crowd, world: &mut World, client: usize, sections: u64, hold: Duration) {
    for section in 1..=sections {
        crowd.ask(world, client, section, wish("k", hold));
    }
}

fn wish(key: &str, hold: Duration) -> Wish {
    Wish::new(&[key], waiting(LONG), hold)
}

/// Each asks so long after the one before. How many sections each has had after this time.
fn sections(world: &mut World, wishes: &[Wish], apart: Duration, time: Duration) -> Vec<usize> {
    let mut crowd = Crowd::default();
    for (client, wish) in wishes.iter().enumerate() {
        crowd.ask(world, client, 1, wish.clone());
        crowd.run_for(world, apart);
    }
    crowd.run_for(world, time);
    counts(&crowd.served(), wishes.len())
}

fn share(sections: &[Served], client: usize) -> Duration {
    let of_client = sections.iter().filter(|section| section.client == client);
    of_client.map(|it| it.until.since(it.from)).sum()
}

/// The turns: who had the lock, from when to when.
fn turns(sections: &[Served]) -> Vec<Served> {
    let mut turns: Vec<Served> = Vec::new();
    for section in sections {
        match turns.last_mut() {
            Some(turn) if turn.client == section.client => turn.until = section.until,
            _ => turns.push(section.clone()),
        }
    }
    turns
}

#[test]
fn processes_with_queues_take_turns_of_the_same_length() {
    for (nodes, clients) in [(1, 2), (3, 2), (3, 3), (5, 5)] {
        for millis in [1, 5] {
            let mut world = World::with_clients(nodes, clients);
            let mut crowd = Crowd::default();
            for client in 0..clients {
                queue(&mut crowd, &mut world, client, 5_000, millis * HOP);
            }
            let time = Duration::from_secs(4);
            crowd.run_for(&mut world, time);
            let sections = crowd.served();
            let whole: Duration = (0..clients).map(|client| share(&sections, client)).sum();
            let case = format!("{clients} clients, {nodes} nodes, sections of {millis} ms");
            assert!(whole >= time * 7 / 10, "{case}: {whole:?} of {time:?} used");
            for client in 0..clients {
                let share = share(&sections, client);
                let fair = whole / clients as u32;
                assert!(share >= fair * 2 / 3, "{case}, {client}: {share:?}");
            }
            for turn in turns(&sections) {
                let took = turn.until.since(turn.from);
                assert!(took <= 3 * LONGEST_TURN, "{case}: {turn:?}");
            }
        }
    }
}

/// Processes with one caller each, which asks again as soon as its section is over. Their requests take
/// differently long to each node, so they hear of a free lock one after the other, and always in the
/// same order.
#[test]
fn a_process_that_is_told_last_gets_its_share() {
    for nodes in [3, 5] {
        for clients in [2, 3, 5, 8] {
            let mut world = World::with_clients(nodes, clients);
            for client in 0..clients {
                for node in 0..nodes {
                    let lag = Duration::from_micros((client as u64 * 7 + node as u64 * 13) % 5);
                    world.client(client).set_lag(node, 100 * lag);
                }
            }
            let wishes = vec![wish("k", HOP).again(Duration::ZERO); clients];
            let time = Duration::from_secs(8);
            let counts = sections(&mut world, &wishes, Duration::ZERO, time);
            let mean = counts.iter().sum::<usize>() / clients;
            let is_fair = |own: &usize| mean / 2 <= *own && *own <= 2 * mean;
            assert!(counts.iter().all(is_fair), "{nodes} nodes: {counts:?}");
        }
    }
}

/// Of many that ask at once, the first to win does so without the node that keeps the queue: another one has that.
#[test]
fn a_process_that_has_won_without_the_leader_lets_those_who_wait_go_first() {
    for (clients, hops) in [(10, 100), (20, 300)] {
        let mut world = World::with_clients(5, clients);
        let wishes = vec![wish("k", hops * HOP).again(3 * HOP); clients];
        let time = clients as u32 * hops * HOP;
        let counts = sections(&mut world, &wishes, Duration::ZERO, time);
        assert!(counts.iter().all(|count| *count <= 2), "{counts:?}");
    }
}

/// Than if all had turns of the same length, whatever befalls the node that keeps the queue.
#[test]
fn no_process_waits_for_much_longer_than_its_share() {
    use Behavior::{Dead, Delayed, Healthy, Refusing, Slow, Unresponsive};
    let mut seed = 0_u64;
    let mut draw = move |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for case in 0..100 {
        let clients = 2 + draw(9) as usize;
        let nodes = 3 + 2 * draw(2) as usize;
        let hold = [1, 5, 15, 25, 60, 150][draw(6) as usize] * HOP;
        let pause = draw(6) as u32 * HOP;
        let kind = draw(5);
        let trouble = [
            Healthy,
            Dead,
            Unresponsive,
            Slow(3 * HOP),
            Delayed(5 * HOP),
            Refusing(Refuses::Writes),
        ][draw(6) as usize];
        let mut world = World::with_clients(nodes, clients);
        let mut crowd = Crowd::default();
        for client in 0..clients {
            for node in 0..nodes {
                world
                    .client(client)
                    .set_lag(node, Duration::from_micros(draw(1_500)));
            }
            let params = match (kind, client % 2) {
                (1, _) => fair(LONG),
                (2, 1) => shared(waiting(LONG)),
                _ => waiting(LONG),
            };
            let keys = match (kind, client % 3) {
                (3, 0) => &["a", "k"][..],
                (3, 1) => &["a"],
                _ => &["k"],
            };
            crowd.ask(
                &mut world,
                client,
                1,
                Wish::new(keys, params, hold).again(pause),
            );
            crowd.run_for(&mut world, draw(5) as u32 * HOP);
        }
        let began = world.now;
        let share = (hold + 8 * HOP) * clients as u32;
        crowd.run_for(&mut world, 6 * share);
        world.behave([world.leader("k")], trouble);
        crowd.run_for(&mut world, 6 * share);
        let served = crowd.served();
        // A fair lock waits for a silent leader for half the node timeout.
        let most = 6 * share + params().round_timeout() / 2;
        for client in 0..clients {
            let own = served.iter().filter(|it| it.client == client);
            let begins = own.map(|it| it.from).chain([world.now]);
            let mut last = began;
            for begin in begins {
                let waited = begin.since(last);
                assert!(waited <= most, "{case}: {client} of {clients}, {waited:?}");
                last = begin;
            }
        }
    }
}

/// Such a node keeps no queue: the next one does.
#[test]
fn a_leader_that_begins_to_refuse_votes_costs_no_process_its_share() {
    const CLIENTS: usize = 8;
    for refuses in [Refuses::Writes, Refuses::Everything] {
        for params in [waiting(LONG), fair(LONG)] {
            let mut world = World::with_clients(5, CLIENTS);
            let mut crowd = Crowd::default();
            for client in 0..CLIENTS {
                let wish = Wish::new(&["k"], params, 25 * HOP).again(3 * HOP);
                crowd.ask(&mut world, client, 1, wish);
            }
            crowd.run_for(&mut world, 500 * HOP);
            crowd.served();
            world.behave([world.leader("k")], Behavior::Refusing(refuses));
            crowd.run_for(&mut world, 2_000 * HOP);
            let counts = counts(&crowd.served(), CLIENTS);
            assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
        }
    }
}

/// Its reply comes when the turn is over.
#[test]
fn a_leader_that_is_slower_than_sections_lets_all_have_the_lock() {
    let mut world = World::with_clients(3, 3);
    let leader = world.leader("k");
    world.behave([leader], Behavior::Slow(3 * HOP));
    let wait = waiting(LONG);
    let wishes = [wait, shared(wait), wait]
        .map(|params| Wish::new(&["k"], params, HOP).again(Duration::ZERO));
    let counts = sections(&mut world, &wishes, HOP / 2, 300 * HOP);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

/// The others take the lock without its leave, in the order that it knows.
#[test]
fn a_dead_key_on_the_leader_costs_no_process_its_share() {
    const CLIENTS: usize = 12;
    for pause in [0, 1, 3] {
        let mut world = World::with_clients(5, CLIENTS);
        let leader = world.leader("k");
        world.occupy(leader, "k", Owner(7), Duration::from_secs(600));
        let wishes = vec![wish("k", 60 * HOP).again(pause * HOP); CLIENTS];
        let counts = sections(&mut world, &wishes, HOP / 2, Duration::from_secs(10));
        assert!(counts.iter().all(|count| *count > 2), "{counts:?}");
    }
}

/// They ask one after the other, although nodes name 40 ms at most for all those ahead.
#[test]
fn a_dead_key_on_the_leader_leaves_a_crowd_in_order() {
    let mut world = World::with_clients(5, 80);
    let leader = world.leader("k");
    world.occupy(leader, "k", Owner(7), Duration::from_secs(600));
    let wishes = vec![wish("k", 5 * HOP).again(3 * HOP); 80];
    let counts = sections(&mut world, &wishes, HOP / 4, Duration::from_secs(6));
    let (least, most) = (counts.iter().min(), counts.iter().max());
    assert!(most <= least.map(|least| 2 * least).as_ref(), "{counts:?}");
}

#[test]
fn a_reader_gets_in_between_the_sections_of_a_writer() {
    for hops in [60, 150] {
        let mut world = World::with_clients(5, 2);
        let wishes = [waiting(LONG), shared(waiting(LONG))]
            .map(|params| Wish::new(&["k"], params, hops * HOP).again(3 * HOP));
        let counts = sections(&mut world, &wishes, 4 * HOP, 30 * hops * HOP);
        assert!(counts.iter().all(|count| *count > 8), "{counts:?}");
    }
}

/// The leader replied last when all nodes were asked. It tells of the release all the same.
#[test]
fn who_wants_one_of_two_keys_gets_its_share() {
    for pattern in 0..3 {
        let mut world = World::with_clients(3, 3);
        for client in 0..3 {
            for node in 0..3 {
                let lag = (client as u64 * 5 + node as u64 * 7 + pattern) * 11 % 15;
                let lag = Duration::from_micros(100 * lag);
                world.client(client).set_lag(node, lag);
            }
        }
        let wishes = [&["a", "k"][..], &["k"], &["a"]]
            .map(|keys| Wish::new(keys, waiting(LONG), 25 * HOP).again(Duration::ZERO));
        let counts = sections(&mut world, &wishes, HOP, 1_200 * HOP);
        assert!(counts.iter().all(|count| *count > 8), "{counts:?}");
    }
}

#[test]
fn a_process_is_not_stopped_by_its_own_place() {
    let mut world = World::with_clients(3, 2);
    let mut crowd = Crowd::default();
    world.client(0).start_wall_clock();
    world.client(1).lock(1, "k", params());
    // Refused, as often as it asks, for almost a second.
    queue(&mut crowd, &mut world, 0, 1_000, HOP);
    world.run_for(Duration::from_millis(900));
    world.client(1).end(1);
    let released = world.sends(is_release).len();
    crowd.run_for(&mut world, Duration::from_secs(1));
    let sections = crowd.served().len();
    assert!(sections >= 900, "{sections}");
    assert_eq!(world.sends(is_release).len(), released, "its turn goes on");
}

#[test]
fn nobody_makes_way_for_a_process_that_has_given_up() {
    let mut world = World::with_clients(3, 2);
    let mut crowd = Crowd::default();
    queue(&mut crowd, &mut world, 0, 5_000, HOP);
    crowd.run_for(&mut world, Duration::from_millis(10));
    world.client(1).ask(1, "k", waiting(LEASE));
    crowd.run_for(&mut world, Duration::from_millis(10));
    world.client(1).end(1);
    crowd.run_for(&mut world, Duration::from_millis(100));
    let released = world.sends(is_release).len();
    crowd.run_for(&mut world, Duration::from_secs(1));
    assert_eq!(world.sends(is_release).len(), released, "its turn goes on");
}

#[test]
fn after_its_turn_a_single_caller_lets_another_process_have_the_lock_that_it_wants_again() {
    let mut world = World::with_clients(3, 2);
    world.lock(1, "k", waiting(LEASE));
    world.client(1).ask(1, "k", waiting(LEASE));
    world.run_for(Duration::from_millis(200));
    world.extend(1);
    world.extended(1);
    world.end(1);
    let ended = world.now;
    world.ask(2, "k", waiting(LEASE));
    world.client(1).granted(1);
    world.assert_within(10 * ROUND_TRIP, ended);
    assert_eq!(world.answers(), []);
    world.client(1).end(1);
    world.granted(2);
}

#[test]
fn other_keys_of_a_process_that_stands_back_go_on() {
    let mut world = World::with_clients(3, 2);
    let mut crowd = Crowd::default();
    for client in 0..2 {
        queue(&mut crowd, &mut world, client, 5_000, HOP);
    }
    crowd.run_for(&mut world, Duration::from_secs(1));
    for section in 10_001..=10_050 {
        let asked = world.now;
        world.lock(section, "other", params());
        assert_eq!(world.now.since(asked), ROUND_TRIP);
        world.end(section);
        world.run_for(7 * HOP);
    }
}

#[test]
fn in_a_mixed_fleet_a_waiter_behind_a_long_section_costs_nothing() {
    let mut world = World::with_settings(3, &[mixed_fleet()]);
    for section in 1..=2 {
        world.ask(section, "k", waiting(LONG));
    }
    world.granted(1);
    world.run_for(Duration::from_millis(100));
    let before = world.sends(is_anything).len();
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.sends(is_anything).len(), before);
    world.end(1);
    world.granted(2);
}

#[test]
fn in_a_mixed_fleet_every_section_is_released() {
    let mut world = World::with_settings(3, &[mixed_fleet()]);
    let mut crowd = Crowd::default();
    queue(&mut crowd, &mut world, 0, 20, HOP);
    crowd.run(&mut world);
    world.run_for(10 * HOP);
    assert_eq!(world.sends(is_acquire).len(), 20 * 3);
    assert_eq!(world.sends(is_release).len(), 20 * 3);
}

/// Who is told of nothing looks every 70 ms at the latest, and those behind leave it the lock for so long.
#[test]
fn without_notices_processes_are_served_in_the_order_of_arrival() {
    for late in 1..40 {
        let mut world = World::without_notices(3, 3);
        world.lock(1, "k", params());
        world.client(1).ask(1, "k", waiting(LONG));
        world.run_for(late * 10 * HOP);
        world.client(2).ask(1, "k", waiting(LONG));
        world.run_for(200 * HOP);
        world.end(1);
        world.client(1).granted(1);
        assert_eq!(world.client(2).answered(1), None, "{late}");
    }
}
