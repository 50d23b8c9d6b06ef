//! The driver in the hands of whoever has something for it: of a caller, on the caller's own thread, or
//! of the engine. Known as *flat combining*: one works at a time, for all.
//!
//! A caller that finds the driver free does at once what its command needs, and so waits for no other
//! thread: within a turn it has its lock before it would have to wait. One that finds it taken leaves its
//! command in the inbox and goes on, because whoever has taken the driver looks there again after having
//! put it back. So nobody ever waits for the driver, and a thread that is paused while it works delays
//! the others for as long as it is paused, like the engine's own. What needs the engine's runtime is left
//! to the engine: to connect, and to wait for sockets and timers.
//!
//! Wakers and destructors of others run only after the driver was put back, so they may come here again.

use std::{
    collections::VecDeque,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use redlock_protocol::Instant;
use tokio::time::Sleep;

use super::{
    clock::Clock,
    command::{Command, Stopped},
    delivery::{self, Delivery},
    driver::Driver,
    signal::Signal,
};

/// How many commands are taken from the inbox before what the protocol wants is sent.
const LARGEST_INTAKE: usize = 64;

/// How often one takes the driver again for what others have left: a caller has work of its own, and a
/// runtime has other tasks.
const MOST_PASSES: usize = 4;

/// The longest sleep. The runtime's timers stop while the machine sleeps and the clock does not,
/// so after a resume the clock is looked at this soon.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The sleep of an engine that has nothing to wake for.
const FOREVER: Duration = Duration::from_secs(1 << 30);

#[derive(Debug)]
pub(super) struct Combiner {
    // Whoever wants to work has held the inbox before it tries to take the driver, and whoever has worked
    // holds it after the driver was put back: one of the two sees the other.
    inbox: Mutex<Inbox>,
    /// `None` once the engine has ended.
    driver: Mutex<Option<Driver>>,
    signal: Arc<Signal>,
    clock: Clock,
    /// Whether threads that are not the engine's may work.
    do_callers_work: bool,
}

#[derive(Debug, Default)]
struct Inbox {
    commands: VecDeque<Command>,
    /// When the engine looks by itself, at the latest; `None` for never.
    wakes_at: Option<Instant>,
    /// A server has so much to answer that commands are left to the engine, which takes many at once.
    is_busy: bool,
    is_closed: bool,
}

/// What came of an attempt to work.
enum Outcome {
    /// Nothing is left to do before this moment.
    Idle(Option<Instant>),
    /// Something is, and it has been enough for once.
    Unfinished,
    /// Somebody else is at work.
    Taken,
    Ended,
}

/// What one pass has left.
struct Pass {
    deliveries: Vec<Delivery>,
    next_wakeup: Option<Instant>,
    is_busy: bool,
    /// The engine has something to do that is not for callers.
    is_for_engine: bool,
    is_drained: bool,
}

/// What the engine's task does after a poll.
enum Next {
    LetOthersRun,
    End,
}

impl Combiner {
    pub(super) fn new(driver: Driver, clock: Clock, do_callers_work: bool) -> Self {
        Self {
            inbox: Mutex::default(),
            driver: Mutex::new(Some(driver)),
            signal: Arc::default(),
            clock,
            do_callers_work,
        }
    }

    /// Takes a command on, and carries it out if nobody else is at work. Never blocks.
    pub(super) fn tell(&self, command: Command) -> Result<(), Stopped> {
        let is_left_to_engine = {
            let mut inbox = lock(&self.inbox);
            if inbox.is_closed {
                return Err(Stopped);
            }
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
        while let Next::LetOthersRun = poll_fn(|cx| self.poll(cx, sleep.as_mut())).await {
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
        tokio::task::unconstrained(write).await;
        let (left, shutdowns) = driver.take_shutdowns();
        self.close(Some(driver));
        shutdowns.into_iter().for_each(|done| done(left));
    }

    fn poll(&self, cx: &mut Context<'_>, mut sleep: Pin<&mut Sleep>) -> Poll<Next> {
        // Registered before the look, so that what comes in between is not missed.
        self.signal.register(cx.waker());
        loop {
            let is_elapsed = sleep.is_elapsed();
            {
                let mut inbox = lock(&self.inbox);
                if is_elapsed {
                    inbox.wakes_at = None;
                }
            }
            match self.work(Some(cx)) {
                Outcome::Idle(next) => self.sleep_until(next, is_elapsed, sleep.as_mut()),
                Outcome::Unfinished => return Poll::Ready(Next::LetOthersRun),
                // They wake this task if there is something to wait for.
                Outcome::Taken if is_elapsed => return Poll::Pending,
                Outcome::Taken => {}
                Outcome::Ended => return Poll::Ready(Next::End),
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
    /// works. Whoever calls this has held the inbox before.
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
                let broken = held.take();
                drop(held);
                self.close(broken);
                self.signal.wake_engine();
                return Outcome::Ended;
            };
            drop(held);
            delivery::deliver(pass.deliveries);
            let (is_more, is_due_sooner) = {
                let mut inbox = lock(&self.inbox);
                inbox.is_busy = pass.is_busy;
                let now = self.clock.now();
                // What should have woken it may come late: this clock goes on while the machine sleeps.
                let wakes_at = inbox.wakes_at.filter(|&wakes_at| wakes_at > now);
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
            let is_unfinished = engine.is_some() && pass.is_for_engine;
            if !is_more && !is_unfinished && !self.signal.is_given() {
                return Outcome::Idle(pass.next_wakeup);
            }
        }
        Outcome::Unfinished
    }

    fn pass(&self, driver: &mut Driver, mut engine: Option<&mut Context<'_>>) -> Pass {
        if driver.drained().is_none() {
            let waker = Waker::from(Arc::clone(&self.signal));
            let mut sockets = Context::from_waker(&waker);
            let are_ready = self.signal.take();
            driver.poll_nodes(are_ready, &mut sockets, engine.as_deref_mut());
            {
                let mut inbox = lock(&self.inbox);
                let length = inbox.commands.len().min(LARGEST_INTAKE);
                driver.intake.extend(inbox.commands.drain(..length));
            }
            driver.take_in();
            driver.poll_nodes(false, &mut sockets, engine);
            driver.take_in();
        }
        let is_drained = driver.drained().is_some();
        Pass {
            deliveries: driver.take_deliveries(),
            next_wakeup: driver.next_wakeup(),
            is_busy: driver.is_busy(),
            is_for_engine: driver.has_work() || is_drained,
            is_drained,
        }
    }

    /// Nobody gets an answer any more.
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
#[derive(Debug)]
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
mod tests {
    use std::{
        sync::{
            OnceLock, Weak,
            atomic::{AtomicBool, AtomicU32, Ordering},
        },
        task::Wake,
    };

    use redlock_protocol::{Env, LockParams, Loss, Protocol, Refusal, SectionId, Settings};
    use tokio::sync::{
        oneshot::{self, error::TryRecvError},
        watch,
    };

    use super::*;
    use crate::{
        engine::{command::Keys, status::Status},
        node::{Memory, Target},
    };

    const LEASE: Duration = Duration::from_secs(5);

    /// Of an engine that nobody runs: what happens, callers do.
    fn combiner(node: &str, random: impl FnMut() -> u128 + Send + 'static) -> Arc<Combiner> {
        let settings = Settings {
            silence_limit: LEASE,
            may_evict: false,
            max_ttl: 2 * LEASE,
            default_ttl: LEASE,
            assume_fresh: true,
            busy_from: redlock_protocol::BUSY_FROM,
            mixed_fleet: false,
        };
        let env = Env {
            random: Box::new(random),
            wall_micros: Box::new(|| 1),
        };
        let protocol = Protocol::new(1, settings, env, Clock::System.now());
        let nodes = vec![Target::Memory(Memory::named(node))];
        let (states, _) = watch::channel(vec![None]);
        let driver = Driver::new(protocol, Clock::System, nodes, states);
        Arc::new(Combiner::new(driver, Clock::System, true))
    }

    fn random() -> impl FnMut() -> u128 + Send {
        let mut numbers = 1..;
        move || numbers.next().unwrap()
    }

    type Answer = oneshot::Receiver<Result<(), Refusal>>;

    fn ask(combiner: &Combiner, section: u64, key: &str) -> (Arc<Status>, Answer) {
        let (answer, answered) = oneshot::channel();
        let status = Arc::<Status>::default();
        let told = combiner.tell(Command::Acquire {
            section: SectionId(section),
            keys: Keys::One(key.into()),
            params: LockParams {
                lease: LEASE,
                guard_band: LEASE / 10,
                node_timeout: LEASE / 20,
                min_validity: LEASE / 10,
                wait: Duration::MAX,
                renew: None,
                max_hold: None,
                at_least: Duration::ZERO,
            },
            status: Arc::clone(&status),
            answer,
        });
        told.unwrap();
        (status, answered)
    }

    fn end(combiner: &Combiner, section: u64) {
        let section = SectionId(section);
        let told = combiner.tell(Command::End {
            section,
            answer: None,
        });
        told.unwrap();
    }

    fn is_granted(answer: &mut Answer) -> bool {
        matches!(answer.try_recv(), Ok(Ok(())))
    }

    /// Waits for an answer with this waker.
    fn wait(answer: &mut Answer, waker: Arc<impl Wake + Send + Sync + 'static>) {
        let waker = Waker::from(waker);
        let polled = Pin::new(answer).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }

    #[test]
    fn what_a_caller_asks_is_done_when_it_has_asked() {
        let combiner = combiner("combiner-asks", random());
        let (_, mut first) = ask(&combiner, 1, "key");
        assert!(is_granted(&mut first));
        let (_, mut second) = ask(&combiner, 2, "key");
        assert!(!is_granted(&mut second));
        end(&combiner, 1);
        assert!(is_granted(&mut second));
    }

    #[test]
    fn nobody_waits_for_one_that_works() {
        let combiner = combiner("combiner-taken", random());
        let working = lock(&combiner.driver);
        let (_, mut answer) = ask(&combiner, 1, "key");
        assert!(!is_granted(&mut answer));
        drop(working);
        end(&combiner, 2);
        assert!(is_granted(&mut answer));
    }

    #[test]
    fn what_is_asked_while_one_works_is_done_by_that_one() {
        let asks: Arc<OnceLock<Weak<Combiner>>> = Arc::default();
        let asked = Arc::new(Mutex::new(None));
        let (asking, note, mut random) = (Arc::clone(&asks), Arc::clone(&asked), random());
        let combiner = combiner("combiner-meanwhile", move || {
            if let Some(combiner) = asking.get().and_then(Weak::upgrade) {
                lock(&note).get_or_insert_with(|| ask(&combiner, 2, "another").1);
            }
            random()
        });
        asks.set(Arc::downgrade(&combiner)).unwrap();
        let (_, mut first) = ask(&combiner, 1, "key");
        let mut second = lock(&asked).take().unwrap();
        assert!(is_granted(&mut first) && is_granted(&mut second));
    }

    struct EndsItsSection(Arc<Combiner>);

    impl Wake for EndsItsSection {
        fn wake(self: Arc<Self>) {
            assert!(self.0.driver.try_lock().is_ok());
            end(&self.0, 2);
        }
    }

    #[test]
    fn a_waker_may_ask_for_more() {
        let combiner = combiner("combiner-waker", random());
        let (_first, _) = ask(&combiner, 1, "key");
        let (_, mut second) = ask(&combiner, 2, "key");
        let (_, mut third) = ask(&combiner, 3, "key");
        wait(&mut second, Arc::new(EndsItsSection(Arc::clone(&combiner))));
        end(&combiner, 1);
        assert!(is_granted(&mut second) && is_granted(&mut third));
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of the application");
        }
    }

    #[test]
    fn a_waker_that_panics_harms_only_itself() {
        let combiner = combiner("combiner-panics", random());
        let (_first, _) = ask(&combiner, 1, "key");
        let (_, mut second) = ask(&combiner, 2, "key");
        let (_, mut third) = ask(&combiner, 3, "key");
        wait(&mut second, Arc::new(Panics));
        end(&combiner, 1);
        end(&combiner, 2);
        assert!(is_granted(&mut third));
    }

    #[test]
    fn an_engine_that_panics_stops_and_its_callers_go_on() {
        let is_broken = Arc::new(AtomicBool::new(false));
        let (breaks, mut random) = (Arc::clone(&is_broken), random());
        let combiner = combiner("combiner-broken", move || {
            assert!(!breaks.load(Ordering::Relaxed), "a mistake of ours");
            random()
        });
        let (status, _) = ask(&combiner, 1, "key");
        assert!(status.is_held(Clock::System.now()));
        is_broken.store(true, Ordering::Relaxed);
        let (_, mut second) = ask(&combiner, 2, "another");
        assert_eq!(second.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(status.loss(), Some(&Loss::Stopped));
        let section = SectionId(1);
        let told = combiner.tell(Command::End {
            section,
            answer: None,
        });
        assert!(told.is_err());
    }

    #[derive(Default)]
    struct Counts(AtomicU32);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_engine_is_woken_only_for_what_is_due_before_it_wakes_by_itself() {
        let combiner = combiner("combiner-wakes", random());
        let woken = Arc::new(Counts::default());
        let now = Clock::System.now();
        for (wakes_at, wakes) in [
            (None, 1),
            (Some(now.after(Duration::from_millis(1))), 0),
            (Some(now.after(100 * LEASE)), 1),
            // It should have been awake before.
            (Some(now), 1),
        ] {
            woken.0.store(0, Ordering::Relaxed);
            combiner.signal.register(&Waker::from(Arc::clone(&woken)));
            lock(&combiner.inbox).wakes_at = wakes_at;
            let (_status, mut answer) = ask(&combiner, 1, "key");
            assert!(is_granted(&mut answer));
            assert_eq!(woken.0.load(Ordering::Relaxed), wakes, "{wakes_at:?}");
            end(&combiner, 1);
        }
    }
}
