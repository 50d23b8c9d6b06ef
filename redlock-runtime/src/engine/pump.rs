//! Who waits for the sockets: the *pump*, a task in the application's runtime, so that callers there wait for no other
//! thread; or the engine's thread, which stands by while the pump is awake.

use std::{mem, time::Duration};

use redlock_protocol::Instant;
use tokio::runtime::{Handle, Id};

use crate::node::Watch;

/// Callers whose questions are further apart have no pump: to wake it, and the thread when it sleeps again, costs more
/// than it saves.
const PAUSE: Duration = Duration::from_millis(10);

/// How long the thread reads once it should.
const REST: Duration = Duration::from_millis(100);

/// How often the thread looks after a pump that is awake.
pub(super) const TICK: Duration = Duration::from_millis(5);

/// What all threads know of it.
#[derive(Debug)]
pub(super) struct Pump {
    runtime: Id,
    /// It waits for the sockets.
    pub(super) is_awake: bool,
    /// It was polled since the thread looked last.
    is_alive: bool,
    /// When a caller in its runtime asked last.
    asked_at: Instant,
    rests_until: Instant,
}

/// How the thread waits.
#[derive(Debug, Default)]
pub(super) struct Standby {
    /// While the pump is not awake.
    pub(super) watch: Option<Watch>,
    /// While it is: when to look after it.
    pub(super) ticks_at: Option<Instant>,
}

impl Pump {
    pub(super) const fn new(runtime: Id) -> Self {
        Self {
            runtime,
            is_awake: false,
            is_alive: false,
            asked_at: Instant::from_nanos(0),
            rests_until: Instant::from_nanos(0),
        }
    }

    /// A caller asks for a lock. True if that wakes it.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        if now < self.rests_until {
            return false;
        }
        if Handle::try_current().is_ok_and(|here| here.id() == self.runtime) {
            let before = mem::replace(&mut self.asked_at, now);
            return !self.is_awake && now.since(before) < PAUSE;
        }
        // Who gains nothing from it must not depend on its runtime.
        self.rest(now);
        false
    }

    /// A thread of its own takes more at once, and sooner, than a task between those who ask.
    pub(super) fn rest(&mut self, now: Instant) {
        self.rests_until = now.after(REST);
    }

    fn is_wanted(&self, now: Instant) -> bool {
        self.rests_until <= now && now.since(self.asked_at) < PAUSE
    }

    /// Its task is polled. True if it is to wait for the sockets.
    pub(super) fn on_poll(&mut self, now: Instant) -> bool {
        self.is_alive = true;
        self.is_awake |= self.is_wanted(now);
        self.is_awake
    }

    /// Whether the thread can leave the sockets to it. If the thread found, at its tick, what this should have read,
    /// it cannot.
    pub(super) fn is_awake_at(&mut self, is_tick: bool, has_come: bool, now: Instant) -> bool {
        if is_tick {
            let is_alive = mem::replace(&mut self.is_alive, false);
            if has_come && !is_alive {
                self.rest(now);
            }
            self.is_awake &= self.is_wanted(now);
        }
        self.is_awake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the thread leaves the sockets to it once it has looked.
    fn tick(pump: &mut Pump, has_come: bool, now: &mut Instant) -> bool {
        *now = now.after(TICK);
        pump.is_awake_at(true, has_come, *now)
    }

    /// One that is awake, and the time.
    fn awake() -> (Pump, Instant) {
        let mut now = Instant::from_nanos(1_000_000_000);
        let mut pump = Pump::new(Handle::current().id());
        assert!(
            !pump.ask(now) && !pump.on_poll(now.after(PAUSE)),
            "for one call"
        );
        now = now.after(2 * PAUSE);
        assert!(!pump.ask(now) && pump.ask(now), "after a pause");
        assert!(!pump.is_awake && pump.on_poll(now));
        assert!(tick(&mut pump, false, &mut now));
        (pump, now)
    }

    #[tokio::test]
    async fn a_pump_is_awake_while_there_are_callers_in_its_runtime() {
        let (mut pump, mut now) = awake();
        for _ in 0..5 {
            assert!(!pump.ask(now) && tick(&mut pump, false, &mut now));
        }
        while tick(&mut pump, false, &mut now) {}
        assert!(!pump.on_poll(now));
    }

    #[tokio::test]
    async fn the_thread_takes_over_from_a_pump_that_leaves_work_until_it_has_rested() {
        let (mut pump, mut now) = awake();
        for _ in 0..3 {
            pump.ask(now);
            assert!(
                pump.on_poll(now) && tick(&mut pump, true, &mut now),
                "it lives"
            );
        }
        pump.ask(now);
        assert!(!tick(&mut pump, true, &mut now));
        assert!(!pump.ask(now) && !pump.ask(now) && !pump.on_poll(now));
        now = now.after(REST);
        assert!(!pump.ask(now) && pump.ask(now));
        assert!(!pump.is_awake_at(false, true, now), "before it is polled");
        assert!(pump.on_poll(now) && pump.is_awake_at(false, true, now));
    }

    #[tokio::test]
    async fn callers_elsewhere_have_the_thread() {
        let (mut pump, mut now) = awake();
        let elsewhere = std::thread::spawn(move || {
            assert!(!pump.ask(now));
            pump
        });
        pump = elsewhere.join().unwrap();
        pump.ask(now);
        assert!(!tick(&mut pump, false, &mut now) && !pump.on_poll(now));
    }
}
