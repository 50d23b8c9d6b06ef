//! Processes with many waiters take turns, and keep their turns where nobody else wants the lock.

use std::time::Duration;

use redlock_protocol::*;

use crate::{world::*, *};

/// No turn lasts for longer while another process waits.
const LONGEST_TURN: Duration = Duration::from_millis(50);

fn queue(world: &mut World, client: usize, key: &str, sections: u64) {
    let params = waiting(Duration::from_secs(600));
    for section in 1..=sections {
        world.client(client).ask(section, key, params);
    }
}

/// The sections of one client in the order of their beginnings: when each began and ended.
type Sections = Vec<(usize, Instant, Instant)>;

/// Sections that follow each other in several clients, each of which has a queue.
struct Run {
    /// The next section of each client.
    next: Vec<u64>,
    running: Option<(usize, u64, Instant)>,
    last: Token,
    /// Each client asks for one more section whenever one of its own is over.
    asks_again: bool,
}

impl Run {
    fn new(clients: usize) -> Self {
        Self {
            next: vec![1; clients],
            running: None,
            last: Token(0),
            asks_again: false,
        }
    }

    /// Runs sections of this length for so long. Fails if two of them overlap, or if a token is not
    /// above the one before.
    fn sections(&mut self, world: &mut World, length: Duration, time: Duration) -> Sections {
        let end = world.now.after(time);
        let mut sections = Sections::new();
        while world.now < end {
            if let Some((client, section, until)) = self.running
                && world.now >= until
            {
                world.client(client).end(section);
                self.running = None;
                if self.asks_again {
                    let params = waiting(Duration::from_secs(600));
                    world.client(client).ask(section + 1, "k", params);
                }
            }
            for (client, next) in self.next.iter_mut().enumerate() {
                match world.client(client).answered(*next) {
                    Some(Answer::Granted { token, .. }) => {
                        assert!(self.running.is_none(), "two sections at once");
                        assert!(token > self.last, "{token} after {}", self.last);
                        self.last = token;
                        let until = world.now.after(length);
                        sections.push((client, world.now, until));
                        self.running = Some((client, *next, until));
                        *next += 1;
                    }
                    Some(other) => panic!("{other:?}"),
                    None => {}
                }
            }
            let until = self.running.map_or(end, |(_, _, until)| until);
            match world.next().filter(|&next| next < until) {
                Some(_) => {
                    world.step();
                }
                None => world.now = until,
            }
        }
        sections
    }
}

fn run_sections(world: &mut World, clients: usize, length: Duration, time: Duration) -> Sections {
    Run::new(clients).sections(world, length, time)
}

fn share(sections: &Sections, client: usize) -> Duration {
    let of_client = sections.iter().filter(|section| section.0 == client);
    of_client.map(|&(_, from, until)| until.since(from)).sum()
}

/// The turns: who had the lock, from when to when.
fn turns(sections: &Sections) -> Sections {
    let mut turns = Sections::new();
    for &(client, from, until) in sections {
        match turns.last_mut() {
            Some(turn) if turn.0 == client => turn.2 = until,
            _ => turns.push((client, from, until)),
        }
    }
    turns
}

#[test]
fn processes_with_queues_take_turns_of_the_same_length() {
    for (nodes, clients) in [(1, 2), (3, 2), (3, 3), (5, 5)] {
        for millis in [1, 5] {
            let mut world = World::with_clients(nodes, clients);
            for client in 0..clients {
                queue(&mut world, client, "k", 5_000);
            }
            let time = Duration::from_secs(4);
            let sections = run_sections(&mut world, clients, millis * HOP, time);
            let whole: Duration = (0..clients).map(|client| share(&sections, client)).sum();
            let case = format!("{clients} clients, {nodes} nodes, sections of {millis} ms");
            assert!(whole >= time * 7 / 10, "{case}: {whole:?} of {time:?} used");
            for client in 0..clients {
                let share = share(&sections, client);
                let fair = whole / clients as u32;
                assert!(
                    share >= fair * 2 / 3,
                    "{case}, {client}: {share:?} instead of {fair:?}"
                );
            }
            for (client, from, until) in turns(&sections) {
                let took = until.since(from);
                assert!(
                    took <= 3 * LONGEST_TURN,
                    "{case}, {client}: a turn of {took:?}"
                );
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
                queue(&mut world, client, "k", 1);
            }
            let mut run = Run::new(clients);
            run.asks_again = true;
            let sections = run.sections(&mut world, HOP, Duration::from_secs(8));
            let mean = sections.len() / clients;
            for client in 0..clients {
                let own = sections.iter().filter(|section| section.0 == client);
                let own = own.count();
                assert!(
                    mean / 2 <= own && own <= 2 * mean,
                    "{nodes} nodes, {clients} clients: {client} has {own} sections, the mean is {mean}"
                );
            }
        }
    }
}

/// Two keys that share their counter.
fn same_stripe() -> (String, String) {
    let first = "key 0".to_string();
    let mut second = (1..).map(|number| format!("key {number}"));
    let second = second.find(|key| stripe(key) == stripe(&first));
    (first, second.expect("stripes are shared"))
}

#[test]
fn waiters_for_another_key_of_the_stripe_end_no_turn() {
    let (ours, others) = same_stripe();
    let mut world = World::with_clients(3, 3);
    // Client 2 waits for the other key all the time.
    world.client(1).lock(1, &others, renewing());
    world
        .client(2)
        .ask(1, &others, waiting(Duration::from_secs(600)));
    world.run_for(Duration::from_secs(1));
    queue(&mut world, 0, &ours, 1_000);
    run_sections(&mut world, 1, HOP, Duration::from_millis(1_100));
    assert_eq!(world.sends(is_acquire).len(), 3, "one turn");
}

#[test]
fn a_process_is_not_stopped_by_its_own_place() {
    let mut world = World::with_clients(3, 2);
    world.client(0).start_wall_clock();
    world.client(1).lock(1, "k", params());
    // Refused, as often as it asks, for almost a second.
    queue(&mut world, 0, "k", 1_000);
    world.run_for(Duration::from_millis(900));
    world.client(1).end(1);
    let released = world.sends(is_release).len();
    let sections = run_sections(&mut world, 1, HOP, Duration::from_secs(1));
    assert!(sections.len() >= 900, "{}", sections.len());
    assert_eq!(world.sends(is_release).len(), released, "its turn goes on");
}

#[test]
fn nobody_makes_way_for_a_process_that_has_given_up() {
    let mut world = World::with_clients(3, 2);
    queue(&mut world, 0, "k", 5_000);
    let mut run = Run::new(1);
    run.sections(&mut world, HOP, Duration::from_millis(10));
    world.client(1).ask(1, "k", waiting(LEASE));
    run.sections(&mut world, HOP, Duration::from_millis(10));
    world.client(1).end(1);
    run.sections(&mut world, HOP, Duration::from_millis(100));
    let released = world.sends(is_release).len();
    run.sections(&mut world, HOP, Duration::from_secs(1));
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
    assert!(world.now.since(ended) <= 10 * ROUND_TRIP);
    assert_eq!(world.answers(), []);
    world.client(1).end(1);
    world.granted(2);
}

#[test]
fn other_keys_of_a_process_that_stands_back_go_on() {
    let mut world = World::with_clients(3, 2);
    queue(&mut world, 0, "k", 5_000);
    queue(&mut world, 1, "k", 5_000);
    run_sections(&mut world, 2, HOP, Duration::from_secs(1));
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
    let mixed = Settings {
        mixed_fleet: true,
        ..settings()
    };
    let mut world = World::with_settings(3, &[mixed]);
    queue(&mut world, 0, "k", 2);
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
    let mixed = Settings {
        mixed_fleet: true,
        ..settings()
    };
    let mut world = World::with_settings(3, &[mixed]);
    queue(&mut world, 0, "k", 20);
    for section in 1..=20 {
        world.granted(section);
        world.run_for(HOP);
        world.end(section);
    }
    world.run_for(10 * HOP);
    assert_eq!(world.sends(is_acquire).len(), 20 * 3);
    assert_eq!(world.sends(is_release).len(), 20 * 3);
}
