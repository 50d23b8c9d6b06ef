//! Sections with several keys take turns with other processes, as those with one do.

use std::time::Duration;

use crate::world::*;

/// Asks for its keys again as soon as it has let go, or after a pause.
fn wish(keys: &[&str], pause: Duration) -> Wish {
    Wish::new(keys, waiting(100 * LEASE), 10 * HOP).again(pause)
}

#[test]
fn a_process_that_asks_for_several_keys_again_at_once_leaves_them_to_others() {
    for tasks in [1, 2, 3] {
        for pause in [0, 1, 2, 3] {
            let mut world = World::with_clients(3, 2);
            let mut crowd = Crowd::default();
            for task in 0..tasks {
                crowd.ask(&mut world, 0, 10 + task, wish(&["a", "b"], pause * HOP));
            }
            crowd.run_for(&mut world, HOP * 5);
            world.client(1).ask(1, "a", waiting(100 * LEASE));
            let asked = world.now;
            while world.client(1).answered(1).is_none() {
                crowd.run_for(&mut world, HOP);
                let waits = world.now.since(asked);
                assert!(waits < LEASE / 5, "{tasks} tasks, {pause} ms between them");
            }
        }
    }
}

/// Each process wants its keys for so long, on three nodes.
fn run(of: &[&[&str]], lasts: Duration) -> (World, Crowd) {
    let mut world = World::with_clients(3, of.len());
    let mut crowd = Crowd::default();
    for (client, keys) in of.iter().enumerate() {
        crowd.ask(&mut world, client, 10, wish(keys, Duration::ZERO));
    }
    crowd.run_for(&mut world, lasts);
    (world, crowd)
}

/// How often each process had its keys.
fn shares(of: &[&[&str]], lasts: Duration) -> Vec<usize> {
    let (_, mut crowd) = run(of, lasts);
    counts(&crowd.served(), of.len())
}

fn assert_alike(shares: &[usize]) {
    let (least, most) = (shares.iter().min(), shares.iter().max());
    let (least, most) = (least.copied().unwrap(), most.copied().unwrap());
    assert!(2 * least >= most, "{shares:?}");
}

#[test]
fn two_processes_that_ask_for_the_same_keys_again_at_once_take_turns() {
    let keys: &[&str] = &["a", "b"];
    assert_alike(&shares(&[keys, keys], 20_000 * HOP));
}

const PAIRS: [&[&str]; 3] = [&["a", "b"], &["b", "c"], &["a", "c"]];

/// None of them because of its names. Four processes for each pair.
#[test]
fn like_pairs_of_keys_get_like_shares() {
    assert_alike(&shares(&PAIRS.repeat(4), 20_000 * HOP));
}

#[test]
fn two_keys_cost_a_few_requests_however_many_processes_wait() {
    for processes in [12, 24, 39] {
        let (world, mut crowd) = run(&PAIRS.repeat(processes / 3), 3_000 * HOP);
        let (_, each) = crowd.served_and_requests(&world);
        // To acquire and to release both takes twelve.
        assert!(each <= 60, "{processes} processes: {each}");
    }
}
