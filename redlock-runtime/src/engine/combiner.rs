//! Lets one thread at a time work with the driver, for all: a caller's own thread, the pump's, or the engine's. Known
//! as *flat combining*.
//!
//! A caller that finds the driver free does at once what its command needs, and so waits for no other
//! thread: within a turn it has its lock before it would have to wait. A caller that finds the driver taken
//! leaves its command in the inbox and goes on, because the thread at work looks there again after it has put
//! the driver back. So no thread ever waits for the driver, and a thread that is paused while it works delays
//! the others for as long as it is paused, like the engine's own. Callers leave all commands to the engine
//! while the servers have much to answer, or if it runs in the runtime of a test; and always what needs the
//! engine's runtime: to connect, and to wait for timers.
//!
//! So it is with what comes from servers: who is told of it, the pump or the engine's thread, says so before it tries to
//! take the driver, and who has the driver looks for that after it has put it back.
//!
//! Wakers and destructors of others run only after the driver was put back, so they may come here again.

use std::{
    collections::VecDeque,
    future::poll_fn,
    mem,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    process,
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures_util::task::AtomicWaker;
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
    pump::{Pump, Standby, TICK},
    signal::Signal,
};
use crate::{
    clock::Clock,
    node::{Sockets, Watch},
    observe::Observer,
    status::Stopped,
};

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
    sockets: Option<Arc<Sockets>>,
    pump_task: AtomicWaker,
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
    /// `None` if there is none, or not any more.
    pump: Option<Pump>,
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
    are_many: bool,
    /// Replies have made something to do.
    is_unfinished: bool,
    /// The engine has something to do that is not for callers.
    is_for_engine: bool,
    /// There is something to send that nobody waits for.
    is_left: bool,
    is_drained: bool,
}

impl Combiner {
    pub(super) fn new(
        driver: Driver,
        clock: Clock,
        observer: Arc<Observer>,
        do_callers_work: bool,
        (sockets, pump): (Option<Arc<Sockets>>, Option<Pump>),
    ) -> Self {
        let inbox = Inbox {
            pump,
            ..Inbox::default()
        };
        Self {
            inbox: Mutex::new(inbox),
            driver: Mutex::new(Some(driver)),
            signal: Arc::default(),
            sockets,
            pump_task: AtomicWaker::new(),
            clock,
            observer,
            do_callers_work,
        }
    }

    /// Takes a command on, and carries it out if no other thread is at work. Never blocks.
    pub(super) fn tell(&self, command: Command) -> Result<(), Stopped> {
        let (is_left_to_engine, wakes_pump) = {
            let mut inbox = lock(&self.inbox);
            if inbox.is_closed {
                return Err(Stopped);
            }
            let wakes_pump = match (&command, &mut inbox.pump) {
                (Command::Acquire { caller, .. }, Some(pump)) => pump.ask(caller.0.since),
                _ => false,
            };
            // Into the inbox first: a thread that has the driver looks here after it has put it back.
            inbox.commands.push_back(command);
            (inbox.is_busy || !self.do_callers_work, wakes_pump)
        };
        if wakes_pump {
            self.pump_task.wake();
        }
        if is_left_to_engine || matches!(self.work(None), Outcome::Unfinished) {
            self.signal.wake_engine();
        }
        Ok(())
    }

    /// Something may have come. Who works meanwhile looks again.
    fn has_come(&self) {
        self.signal.come();
        drop(lock(&self.inbox));
    }

    /// True if something may have come to the sockets, for a task that is to wait for them; `cx` is woken by what comes
    /// next.
    fn wait(&self, watch: &mut Option<Watch>, is_to_wait: bool, cx: &mut Context<'_>) -> bool {
        let Some(sockets) = self.sockets.as_ref().filter(|_| is_to_wait) else {
            // What comes next may wake this task once more.
            *watch = None;
            return false;
        };
        if watch.is_none() {
            *watch = sockets.watch().ok();
        }
        // If there are too many descriptors, the thread looks now and then.
        watch.as_ref().is_none_or(|watch| watch.take(cx))
    }

    /// The task that reads what comes, in the application's runtime.
    pub(super) fn pump(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let (combiner, process) = (Arc::downgrade(self), process::id());
        let mut watch = None;
        poll_fn(move |cx| match combiner.upgrade() {
            // In a process that was forked, all of it belongs to the parent.
            Some(_) if process != process::id() => Poll::Pending,
            Some(combiner) => combiner.poll_pump(&mut watch, cx),
            None => Poll::Ready(()),
        })
    }

    fn poll_pump(&self, watch: &mut Option<Watch>, cx: &mut Context<'_>) -> Poll<()> {
        // Registered before the look, so that what comes in between is not missed.
        self.pump_task.register(cx.waker());
        let now = self.clock.now();
        let is_awake = {
            let mut inbox = lock(&self.inbox);
            if inbox.is_closed {
                return Poll::Ready(());
            }
            inbox.pump.as_mut().is_some_and(|pump| pump.on_poll(now))
        };
        // Asked before the look: what comes after that wakes again.
        if self.wait(watch, is_awake, cx) {
            self.has_come();
        }
        if matches!(self.work(None), Outcome::Unfinished) {
            self.signal.come();
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// The engine waits for the sockets, or looks now and then if the pump does.
    fn stand_by(&self, standby: &mut Standby, is_elapsed: bool, cx: &mut Context<'_>) {
        let now = self.clock.now();
        let is_tick = standby.ticks_at.is_some_and(|at| at <= now);
        let sockets = self.sockets.as_ref();
        let mut has_come = is_tick && sockets.is_some_and(|sockets| sockets.look());
        let is_pump_awake = {
            let mut inbox = lock(&self.inbox);
            if is_elapsed {
                // That timer is over: from here on, callers with something due wake the engine.
                inbox.wakes_at = None;
            }
            let pump = inbox.pump.as_mut();
            pump.is_some_and(|pump| pump.is_awake_at(is_tick, has_come, now))
        };
        has_come |= self.wait(&mut standby.watch, !is_pump_awake, cx);
        if standby.watch.is_some() || sockets.is_none() {
            standby.ticks_at = None;
        } else if is_tick || standby.ticks_at.is_none() {
            standby.ticks_at = Some(now.after(TICK));
        }
        if has_come {
            self.has_come();
        }
    }

    /// The engine's own part, until it is shut down and everything that can be released is.
    async fn run(&self) {
        let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
        let mut standby = Standby::default();
        while poll_fn(|cx| self.poll(cx, sleep.as_mut(), &mut standby))
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
            driver.poll_nodes((true, true), cx, None);
            Poll::Ready(())
        });
        // The task may have used up its budget, and the sockets would not write then.
        tokio::task::unconstrained(write).await;
        let (left, shutdowns) = driver.take_shutdowns();
        self.close(Some(driver));
        shutdowns.into_iter().for_each(|done| done(left));
    }

    /// Continues once other tasks have run.
    fn poll(
        &self,
        cx: &mut Context<'_>,
        mut sleep: Pin<&mut Sleep>,
        standby: &mut Standby,
    ) -> Poll<ControlFlow<()>> {
        // Registered before the look, so that what comes in between is not missed.
        self.signal.register(cx.waker());
        loop {
            let is_elapsed = sleep.is_elapsed();
            self.stand_by(standby, is_elapsed, cx);
            let next = match self.work(Some(cx)) {
                Outcome::Idle(next) => next,
                Outcome::Unfinished => return Poll::Ready(ControlFlow::Continue(())),
                // They wake this task if there is something to wait for.
                Outcome::Taken => None,
                Outcome::Ended => return Poll::Ready(ControlFlow::Break(())),
            };
            let next = next.into_iter().chain(standby.ticks_at).min();
            self.sleep_until(next, is_elapsed, sleep.as_mut());
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
            let (is_more, is_due_sooner, is_for_pump) = {
                let mut inbox = lock(&self.inbox);
                // For the next caller, which does not have to try the driver for it.
                inbox.is_busy = pass.is_busy;
                let now = self.clock.now();
                if let Some(pump) = inbox.pump.as_mut().filter(|_| pass.are_many) {
                    pump.rest(now);
                }
                let wakes_at = inbox.wakes_at.filter(|at| now.since(*at) < LATE);
                let is_sooner = |at: Instant| wakes_at.is_none_or(|wakes_at| at < wakes_at);
                let is_due_sooner = pass.next_wakeup.is_some_and(is_sooner);
                let is_for_pump =
                    pass.is_left && inbox.pump.as_ref().is_some_and(|pump| pump.is_awake);
                (!inbox.commands.is_empty(), is_due_sooner, is_for_pump)
            };
            if is_for_pump {
                self.pump_task.wake();
            }
            let is_for_engine = pass.is_for_engine || pass.is_left && !is_for_pump;
            if engine.is_none() && (is_for_engine || is_due_sooner) {
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
        let mut is_left = false;
        if driver.drained.is_none() {
            {
                let mut inbox = lock(&self.inbox);
                let length = inbox.commands.len().min(LARGEST_INTAKE);
                driver.intake.extend(inbox.commands.drain(..length));
                if inbox.commands.is_empty() {
                    // A hundred thousand callers at once would leave 20 MB behind.
                    inbox.commands.shrink_to(LARGEST_INTAKE);
                }
            }
            let (are_ready, has_come) = self.signal.take();
            // What a caller does not wait for goes out with what it asks next, if that is soon.
            is_left = engine.is_none() && !are_ready && !has_come && driver.is_nothing_awaited();
            driver.take_in();
            if !is_left {
                let waker = Waker::from(Arc::clone(&self.signal));
                let mut sockets = Context::from_waker(&waker);
                driver.poll_nodes((are_ready, has_come), &mut sockets, engine);
                driver.take_in();
            }
        }
        let is_drained = driver.drained.is_some();
        let has_work = driver.has_work() && !is_drained;
        Pass {
            deliveries: mem::take(&mut driver.deliveries),
            next_wakeup: driver.next_wakeup(),
            is_busy: driver.is_busy(),
            are_many: driver.are_many(),
            is_unfinished: has_work && !is_left,
            is_for_engine: driver.has_work_of_engine() || is_drained,
            is_left: has_work && is_left,
            is_drained,
        }
    }

    /// No caller gets an answer any more.
    fn close(&self, driver: Option<Driver>) {
        let unheard = {
            let mut inbox = lock(&self.inbox);
            inbox.is_closed = true;
            mem::take(&mut inbox.commands)
        };
        self.pump_task.wake();
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
