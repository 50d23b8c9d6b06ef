//! How many keys an event has to do with, while there are many.

use std::time::Duration;

use crate::{self as redlock_protocol, LockParams, Settings, ShutdownError};

#[allow(dead_code, unused_imports, reason = "the suite uses all of it")]
#[path = "../../tests/suite/world/mod.rs"]
mod world;

use world::{Acts, World};

const LOCKS: usize = 1_000;
const LEASE: Duration = Duration::from_secs(600);

/// One client that holds many locks.
fn holder() -> World {
    let params = LockParams::of(LEASE);
    let settings = Settings {
        assume_fresh: true,
        busy_from: usize::MAX,
        ..Settings::of(params.key_ttl(), params.key_ttl())
    };
    let mut world = World::with_settings(3, &[settings]);
    for lock in 0..LOCKS {
        world.ask(lock as u64, &lock.to_string(), params);
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.answers().len(), LOCKS);
    world
}

fn looks(world: &World) -> usize {
    world.me().protocol.keys.looks.get()
}

#[test]
fn a_node_that_is_gone_is_looked_for_without_a_look_at_the_locks() {
    let mut world = holder();
    let before = looks(&world);
    world.kill(2);
    world.run_for(Duration::from_secs(100));
    let looks = looks(&world) - before;
    assert!(looks <= 2 * LOCKS, "{looks}");
}

#[test]
fn a_shutdown_looks_at_each_lock_a_few_times() {
    let mut world = holder();
    world.kill(2);
    world.run_for(Duration::from_secs(1));
    let before = looks(&world);
    let timeout = Duration::from_secs(60);
    world.shut_down(timeout, false);
    for lock in 0..LOCKS {
        world.end(lock as u64);
    }
    world.run_for(timeout / 2);
    assert_eq!(world.drained(), Some(ShutdownError::default()));
    let looks = looks(&world) - before;
    assert!(looks <= 10 * LOCKS, "{looks}");
}
