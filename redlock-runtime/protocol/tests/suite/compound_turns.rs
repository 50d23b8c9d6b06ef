//! Sections with several keys take turns with other processes, as those with one do.

use std::time::Duration;

use redlock_protocol::*;

use crate::world::*;

/// Asks for its keys again as soon as it has let go, or after a pause.
struct Loop {
    client: usize,
    keys: &'static [&'static str],
    section: u64,
    state: State,
    /// How often it had them.
    sections: u32,
}

enum State {
    Asked,
    HeldUntil(Instant),
    PausesUntil(Instant),
}

impl Loop {
    fn new(world: &mut World, client: usize, keys: &'static [&'static str], section: u64) -> Self {
        world
            .client(client)
            .ask_all(section, keys, waiting(100 * LEASE));
        Self {
            client,
            keys,
            section,
            state: State::Asked,
            sections: 0,
        }
    }

    fn go_on(&mut self, world: &mut World, pause: Duration) {
        let now = world.now;
        match self.state {
            State::Asked => {
                let answer = world.client(self.client).answered(self.section);
                if let Some(answer) = answer {
                    assert!(matches!(answer, Answer::Granted { .. }), "{answer:?}");
                    self.state = State::HeldUntil(now.after(10 * HOP));
                    self.sections += 1;
                }
            }
            State::HeldUntil(end) if end <= now => {
                world.client(self.client).end(self.section);
                self.state = State::PausesUntil(now.after(pause));
                self.go_on(world, pause);
            }
            State::PausesUntil(end) if end <= now => {
                self.section += 1_000;
                let wait = waiting(100 * LEASE);
                world
                    .client(self.client)
                    .ask_all(self.section, self.keys, wait);
                self.state = State::Asked;
            }
            State::HeldUntil(_) | State::PausesUntil(_) => {}
        }
    }
}

#[test]
fn a_process_that_asks_for_several_keys_again_at_once_leaves_them_to_others() {
    for tasks in [1, 2, 3] {
        for pause in [0, 1, 2, 3] {
            let mut world = World::with_clients(3, 2);
            let mut loops: Vec<Loop> = (0..tasks)
                .map(|task| Loop::new(&mut world, 0, &["a", "b"], 10 + task))
                .collect();
            world.run_for(20 * HOP);
            world.client(1).ask(1, "a", waiting(100 * LEASE));
            let asked = world.now;
            while world.client(1).answered(1).is_none() {
                world.run_for(HOP);
                for one in &mut loops {
                    one.go_on(&mut world, pause * HOP);
                }
                let waits = world.now.since(asked);
                assert!(waits < LEASE / 5, "{tasks} tasks, {pause} ms between them");
            }
        }
    }
}

/// How often each had its keys after so long.
fn shares(clients: usize, of: &[(usize, &'static [&'static str])], lasts: Duration) -> Vec<u32> {
    let mut world = World::with_clients(3, clients);
    let mut loops: Vec<Loop> = (10..)
        .zip(of)
        .map(|(section, &(client, keys))| Loop::new(&mut world, client, keys, section))
        .collect();
    let end = world.now.after(lasts);
    while world.now < end {
        world.run_for(HOP);
        for one in &mut loops {
            one.go_on(&mut world, Duration::ZERO);
        }
    }
    loops.into_iter().map(|one| one.sections).collect()
}

fn assert_alike(shares: &[u32]) {
    let (least, most) = (shares.iter().min(), shares.iter().max());
    let (least, most) = (least.copied().unwrap(), most.copied().unwrap());
    assert!(2 * least >= most, "{shares:?}");
}

#[test]
fn two_processes_that_ask_for_the_same_keys_again_at_once_take_turns() {
    let keys: &[&str] = &["a", "b"];
    assert_alike(&shares(2, &[(0, keys), (1, keys)], 20_000 * HOP));
}

/// None of them because of its names. Four processes for each pair.
#[test]
fn like_pairs_of_keys_get_like_shares() {
    let pairs: [&[&str]; 3] = [&["a", "b"], &["b", "c"], &["a", "c"]];
    let of: Vec<(usize, &[&str])> = (0..12)
        .map(|process| (process, pairs[process % 3]))
        .collect();
    assert_alike(&shares(12, &of, 20_000 * HOP));
}
