//! Lets one thread at a time work with the driver, for all: a caller's own thread, or the engine's. Known as
//! *flat combining*.
//!
//! A caller that finds the driver free does at once what its command needs, and so waits for no other
//! thread: within a turn it has its lock before it would have to wait. A caller that finds the driver taken
//! leaves its command in the inbox and goes on, because the thread at work looks there again after it has put
//! the driver back. So no thread ever waits for the driver, and a thread that is paused while it works delays
//! the others for as long as it is paused, like the engine's own. Callers leave all commands to the engine
//! while the servers have much to answer, or if the application has chosen the engine's runtime; and always
//! what needs that runtime: to connect, and to wait for sockets and timers.
//!
//! Wakers and destructors of others run only after the driver was put back, so they may come here again.

use std::{
    collections::VecDeque,
    future::poll_fn,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use redlock_protocol::Instant;
#[cfg(shuttle)]
use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(shuttle))]
use std::sync::{Mutex, MutexGuard};
use tokio::time::Sleep;

use super::{
    command::Command,
    delivery::{self, Delivery},
    driver::Driver,
    signal::Signal,
};
use crate::{clock::Clock, observe::Observer, status::Stopped};

/// How many commands are taken from the inbox before what the protocol wants is sent.
const LARGEST_INTAKE: usize = 64;

/// How often one takes the driver again for what others have left: a caller has work of its own, and a
/// runtime has other tasks.
const MOST_PASSES: usize = 4;

/// The longest sleep. The runtime's timers stop while the machine sleeps and the clock does not,
/// so after a resume the clock is looked at this soon.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// By how much a timer of the runtime may come late, which counts in milliseconds. One that comes later
/// has stood still: the engine's clock goes on while the machine sleeps.
const LATE: Duration = Duration::from_millis(10);

/// The sleep of an engine that has nothing to wake for.
const FOREVER: Duration = Duration::from_secs(1 << 30);

pub(super) struct Combiner {
    // A thread that wants to work has held the inbox before it tries to take the driver, and a thread that has
    // worked holds it after the driver was put back: one of the two sees the other.
    inbox: Mutex<Inbox>,
    /// `None` once the engine has ended.
    driver: Mutex<Option<Driver>>,
    signal: Arc<Signal>,
    clock: Clock,
    observer: Arc<Observer>,
    /// Whether threads that are not the engine's may work.
    do_callers_work: bool,
}

#[derive(Default)]
struct Inbox {
    commands: VecDeque<Command>,
    /// When the engine looks by itself, at the latest; `None` for never.
    wakes_at: Option<Instant>,
    /// Servers have so much to answer that commands are left to the engine, which takes many at once.
    is_busy: bool,
    is_closed: bool,
}

/// What came of an attempt to work.
enum Outcome {
    /// Nothing is left to do before this moment.
    Idle(Option<Instant>),
    /// Something is, and it has been enough for once.
    Unfinished,
    /// Another thread is at work.
    Taken,
    Ended,
}

/// What one pass has left.
struct Pass {
    deliveries: Vec<Delivery>,
    next_wakeup: Option<Instant>,
    is_busy: bool,
    /// Replies have made something to do.
    is_unfinished: bool,
    /// The engine has something to do that is not for callers.
    is_for_engine: bool,
    is_drained: bool,
}

impl Combiner {
    pub(super) fn new(
        driver: Driver,
        clock: Clock,
        observer: Arc<Observer>,
        do_callers_work: bool,
    ) -> Self {
        Self {
            inbox: Mutex::default(),
            driver: Mutex::new(Some(driver)),
            signal: Arc::default(),
            clock,
            observer,
            do_callers_work,
        }
    }

    /// Takes a command on, and carries it out if no other thread is at work. Never blocks.
    pub(super) fn tell(&self, command: Command) -> Result<(), Stopped> {
        let is_left_to_engine = {
            let mut inbox = lock(&self.inbox);
            if inbox.is_closed {
                return Err(Stopped);
            }
            // Into the inbox first: a thread that has the driver looks here after it has put it back.
            inbox.commands.push_back(command);
            inbox.is_busy || !self.do_callers_work
        };
        if is_left_to_engine || matches!(self.work(None), Outcome::Unfinished) {
            self.signal.wake_engine();
        }
        Ok(())
    }

    /// The engine's own part, until it is shut down and everything that can be released is.
    async fn run(&self) {
        let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
        while poll_fn(|cx| self.poll(cx, sleep.as_mut()))
            .await
            .is_continue()
        {
            // Sockets become ready only while the thread is left to the runtime, and a node whose
            // answers are not read would be given up.
            tokio::task::yield_now().await;
        }
        let Some(mut driver) = lock(&self.driver).take() else {
            return;
        };
        // A release that was decided in the last step goes out, though its reply is not awaited any more.
        let write = poll_fn(|cx| {
            driver.poll_nodes(true, cx, None);
            Poll::Ready(())
        });
        // The task may have used up its budget, and the sockets would not write then.
        tokio::task::unconstrained(write).await;
        let (left, shutdowns) = driver.take_shutdowns();
        self.close(Some(driver));
        shutdowns.into_iter().for_each(|done| done(left));
    }

    /// Continues once other tasks have run.
    fn poll(&self, cx: &mut Context<'_>, mut sleep: Pin<&mut Sleep>) -> Poll<ControlFlow<()>> {
        // Registered before the look, so that what comes in between is not missed.
        self.signal.register(cx.waker());
        loop {
            let is_elapsed = sleep.is_elapsed();
            {
                let mut inbox = lock(&self.inbox);
                if is_elapsed {
                    // That timer is over: from here on, callers with something due wake the engine.
                    inbox.wakes_at = None;
                }
            }
            match self.work(Some(cx)) {
                Outcome::Idle(next) => self.sleep_until(next, is_elapsed, sleep.as_mut()),
                Outcome::Unfinished => return Poll::Ready(ControlFlow::Continue(())),
                // They wake this task if there is something to wait for.
                Outcome::Taken if is_elapsed => return Poll::Pending,
                Outcome::Taken => {}
                Outcome::Ended => return Poll::Ready(ControlFlow::Break(())),
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn sleep_until(&self, next: Option<Instant>, is_elapsed: bool, mut sleep: Pin<&mut Sleep>) {
        let now = self.clock.now();
        let rest = next.map_or(FOREVER, |at| at.since(now).min(LONGEST_SLEEP));
        let until = tokio::time::Instant::now() + rest;
        // A timer that is early wakes for nothing once; one that is never moved costs less.
        if until < sleep.deadline() || is_elapsed {
            sleep.as_mut().reset(until);
            lock(&self.inbox).wakes_at = next.map(|_| now.after(rest));
        }
    }

    /// Does what there is to do, unless another does. `engine` is what wakes the engine's task, where that
    /// works. The caller has held the inbox before.
    fn work(&self, mut engine: Option<&mut Context<'_>>) -> Outcome {
        for _ in 0..MOST_PASSES {
            // It is never poisoned: panics do not get that far.
            let Ok(mut held) = self.driver.try_lock() else {
                return Outcome::Taken;
            };
            let Some(driver) = &mut *held else {
                return Outcome::Ended;
            };
            let pass = AssertUnwindSafe(|| self.pass(driver, engine.as_deref_mut()));
            let Ok(pass) = catch_unwind(pass) else {
                // After a panic the protocol may be in any state, and must decide nothing more.
                let broken = held.take();
                drop(held);
                self.close(broken);
                self.signal.wake_engine();
                return Outcome::Ended;
            };
            drop(held);
            // Put back first: a waker may come here again on this very thread.
            delivery::deliver(pass.deliveries, &self.observer);
            let (is_more, is_due_sooner) = {
                let mut inbox = lock(&self.inbox);
                // For the next caller, which does not have to try the driver for it.
                inbox.is_busy = pass.is_busy;
                let now = self.clock.now();
                let wakes_at = inbox.wakes_at.filter(|at| now.since(*at) < LATE);
                let is_sooner = |at: Instant| wakes_at.is_none_or(|wakes_at| at < wakes_at);
                let is_due_sooner = pass.next_wakeup.is_some_and(is_sooner);
                (!inbox.commands.is_empty(), is_due_sooner)
            };
            if engine.is_none() && (pass.is_for_engine || is_due_sooner) {
                self.signal.wake_engine();
            }
            if pass.is_drained {
                return Outcome::Ended;
            }
            let is_unfinished = pass.is_unfinished || (engine.is_some() && pass.is_for_engine);
            if !is_more && !is_unfinished && !self.signal.is_given() {
                return Outcome::Idle(pass.next_wakeup);
            }
        }
        Outcome::Unfinished
    }

    fn pass(&self, driver: &mut Driver, engine: Option<&mut Context<'_>>) -> Pass {
        let mut is_left_to_engine = false;
        if driver.drained().is_none() {
            {
                let mut inbox = lock(&self.inbox);
                let length = inbox.commands.len().min(LARGEST_INTAKE);
                driver.intake.extend(inbox.commands.drain(..length));
                if inbox.commands.is_empty() {
                    // A hundred thousand callers at once would leave 20 MB behind.
                    inbox.commands.shrink_to(LARGEST_INTAKE);
                }
            }
            let are_ready = self.signal.take();
            // What a caller does not wait for goes out with what it asks next, if that is soon.
            is_left_to_engine = engine.is_none() && !are_ready && driver.is_nothing_awaited();
            driver.take_in();
            if !is_left_to_engine {
                let waker = Waker::from(Arc::clone(&self.signal));
                let mut sockets = Context::from_waker(&waker);
                driver.poll_nodes(are_ready, &mut sockets, engine);
                driver.take_in();
            }
        }
        let is_drained = driver.drained().is_some();
        let has_work = driver.has_work() && !is_drained;
        Pass {
            deliveries: driver.take_deliveries(),
            next_wakeup: driver.next_wakeup(),
            is_busy: driver.is_busy(),
            is_unfinished: has_work && !is_left_to_engine,
            is_for_engine: driver.has_work_of_engine()
                || is_drained
                || has_work && is_left_to_engine,
            is_drained,
        }
    }

    /// No caller gets an answer any more.
    fn close(&self, driver: Option<Driver>) {
        let unheard = {
            let mut inbox = lock(&self.inbox);
            inbox.is_closed = true;
            std::mem::take(&mut inbox.commands)
        };
        // Wakers of others run.
        let _ = catch_unwind(AssertUnwindSafe(|| drop((unheard, driver))));
    }
}

/// However the engine's task ends, also where it is dropped with its runtime, the engine ends.
pub(super) struct EndsWithTask(pub(super) Arc<Combiner>);

impl EndsWithTask {
    pub(super) async fn run(self) {
        self.0.run().await;
    }
}

impl Drop for EndsWithTask {
    fn drop(&mut self) {
        let driver = lock(&self.0.driver).take();
        self.0.close(driver);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
