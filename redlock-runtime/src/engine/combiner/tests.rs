//! A driver without an engine: what happens, callers do.

#[cfg(shuttle)]
mod interleaved;

use std::{
    sync::{
        OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::Wake,
};

use redlock_protocol::{
    Action, Cause, Env, LockParams, Loss, Mode, NodeId, Protocol, Refusal, SectionId, Settings,
};

use super::*;
use crate::{
    engine::{Acquisition, command::Caller},
    keys::Keys,
    node::{Memory, Target},
    status::Status,
};

/// So long that a pause of the thread on a busy machine ends neither a round nor a lease.
const LEASE: Duration = Duration::from_secs(600);

/// Of an engine that nobody runs: what happens, callers do.
fn combiner(node: &str, random: impl FnMut() -> u128 + Send + 'static) -> Arc<Combiner> {
    combiner_of(Target::Memory(Memory::named(node)), random)
}

fn combiner_of(node: Target, random: impl FnMut() -> u128 + Send + 'static) -> Arc<Combiner> {
    let settings = Settings {
        silence_limit: LEASE,
        assume_fresh: true,
        ..Settings::of(2 * LEASE, LEASE)
    };
    let env = Env {
        random: Box::new(random),
        wall_micros: Box::new(|| 1),
    };
    let protocol = Protocol::new(1, settings, env, Clock::System.now());
    let observer = Arc::new(Observer::new(&["node".into()], "tests", LEASE, false));
    let driver = Driver::new(
        protocol,
        Clock::System,
        (vec![node], "tests".into()),
        None,
        Arc::clone(&observer),
    );
    let combiner = Combiner::new(driver, Clock::System, observer, true, (None, None));
    Arc::new(combiner)
}

/// A server that nobody can reach.
fn redis() -> Target {
    let info = redis::IntoConnectionInfo::into_connection_info("redis://127.0.0.1:1");
    Target::Redis(Box::new(info.unwrap().into()))
}

fn random() -> impl FnMut() -> u128 + Send {
    let mut numbers = 1..;
    move || numbers.next().unwrap()
}

fn ask(combiner: &Combiner, section: u64, key: &str) -> (Arc<Status>, Acquisition) {
    let status = Arc::new(Status::new(
        SectionId(section),
        Keys::One(key.into()),
        None,
        Clock::System.now(),
        Duration::ZERO,
        Mode::Exclusive,
    ));
    let params = LockParams {
        node_timeout: LEASE / 20,
        wait: Duration::MAX,
        ..LockParams::of(LEASE)
    };
    let caller = Caller(Arc::clone(&status));
    let told = combiner.tell(Command::Acquire { params, caller });
    told.unwrap();
    (Arc::clone(&status), Acquisition(status))
}

fn end(combiner: &Combiner, section: u64) {
    let section = SectionId(section);
    let told = combiner.tell(Command::End {
        section,
        answer: None,
    });
    told.unwrap();
}

fn poll(answer: &mut Acquisition) -> Poll<Result<(), Box<Refusal>>> {
    Pin::new(answer).poll(&mut Context::from_waker(Waker::noop()))
}

fn is_granted(answer: &mut Acquisition) -> bool {
    matches!(poll(answer), Poll::Ready(Ok(())))
}

fn is_stopped(answer: &mut Acquisition) -> bool {
    matches!(poll(answer), Poll::Ready(Err(refusal)) if matches!(refusal.cause, Cause::Stopped))
}

/// Waits for an answer with this waker.
fn wait(answer: &mut Acquisition, waker: Arc<impl Wake + Send + Sync + 'static>) {
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
fn nothing_is_asked_for_a_caller_that_has_gone_before_its_turn() {
    let combiner = combiner("combiner-gone", random());
    let working = lock(&combiner.driver);
    ask(&combiner, 1, "key").0.release();
    let (_, mut second) = ask(&combiner, 2, "key");
    drop(working);
    end(&combiner, 3);
    assert!(is_granted(&mut second));
    end(&combiner, 1);
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
    assert!(is_stopped(&mut second));
    assert_eq!(status.loss(), Some(&Loss::Stopped));
    let section = SectionId(1);
    let told = combiner.tell(Command::End {
        section,
        answer: None,
    });
    assert!(told.is_err());
}

#[test]
fn callers_that_an_engine_has_not_heard_are_told_that_it_has_ended() {
    let combiner = combiner("combiner-unheard", random());
    let driver = lock(&combiner.driver).take();
    let (status, mut answer) = ask(&combiner, 1, "key");
    let woken = Arc::new(Counts::default());
    wait(&mut answer, Arc::clone(&woken));
    combiner.close(driver);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(is_stopped(&mut answer));
    drop(answer);
    assert_eq!(Arc::strong_count(&woken), 1, "no task is kept in memory");
    assert_eq!(status.loss(), Some(&Loss::Stopped));
}

#[test]
fn many_commands_at_once_leave_no_memory_behind() {
    let combiner = combiner("combiner-many", random());
    let working = lock(&combiner.driver);
    for section in 0..1_000 {
        end(&combiner, section);
    }
    drop(working);
    while !lock(&combiner.inbox).commands.is_empty() {
        end(&combiner, 0);
    }
    assert!(lock(&combiner.inbox).commands.capacity() <= 2 * LARGEST_INTAKE);
}

#[tokio::test]
async fn a_task_that_never_has_to_wait_lets_others_run() {
    let combiner = combiner("combiner-budget", random());
    let other = tokio::spawn(async {});
    for section in 0..1_000 {
        let (_, answer) = ask(&combiner, section, "key");
        assert!(answer.await.is_ok());
        end(&combiner, section);
    }
    assert!(other.is_finished());
}

#[test]
fn connections_are_made_by_the_engine_alone() {
    let combiner = combiner_of(redis(), random());
    let woken = Arc::new(Counts::default());
    for _ in 0..2 {
        combiner.signal.register(&Waker::from(Arc::clone(&woken)));
        Waker::from(Arc::clone(&combiner.signal)).wake();
        combiner.signal.register(&Waker::from(Arc::clone(&woken)));
        woken.0.store(0, Ordering::Relaxed);
        // There is no runtime here.
        end(&combiner, 1);
        assert!(!combiner.signal.is_given());
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn what_nobody_waits_for_is_sent_by_the_engine() {
    let combiner = combiner_of(redis(), random());
    let node = NodeId(0);
    let has_work = || lock(&combiner.driver).as_ref().unwrap().has_work();
    // The server has work, and not of a kind that is for the engine alone.
    let disconnect = Action::Disconnect { node };
    lock(&combiner.driver).as_mut().unwrap().act(disconnect);
    assert!(has_work());
    let woken = Arc::new(Counts::default());
    combiner.signal.register(&Waker::from(Arc::clone(&woken)));
    // Not for a timer.
    lock(&combiner.inbox).wakes_at = Some(Clock::System.now());
    end(&combiner, 1);
    assert!(has_work());
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    // It goes out with what somebody waits for.
    let _asked = ask(&combiner, 2, "key");
    assert!(!has_work());
}

#[tokio::test]
async fn the_pump_sends_what_nobody_waits_for_and_leaves_timers_to_the_engine() {
    let combiner = combiner_of(redis(), random());
    let disconnect = Action::Disconnect { node: NodeId(0) };
    lock(&combiner.driver).as_mut().unwrap().act(disconnect);
    let mut pump = Pump::new(tokio::runtime::Handle::current().id());
    let now = Clock::System.now();
    assert!(!pump.ask(now) && pump.ask(now) && pump.on_poll(now));
    lock(&combiner.inbox).pump = Some(pump);
    let (pump, engine) = (Arc::new(Counts::default()), Arc::new(Counts::default()));
    for (wakes_at, wakes_engine) in [(Some(now), 0), (None, 1)] {
        combiner.pump_task.register(&Waker::from(Arc::clone(&pump)));
        combiner.signal.register(&Waker::from(Arc::clone(&engine)));
        lock(&combiner.inbox).wakes_at = wakes_at;
        end(&combiner, 1);
        assert_eq!(pump.0.swap(0, Ordering::Relaxed), 1);
        assert_eq!(engine.0.swap(0, Ordering::Relaxed), wakes_engine);
    }
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
    let wakes = |wakes_at: fn(Instant) -> Option<Instant>| loop {
        let now = Clock::System.now();
        lock(&combiner.inbox).wakes_at = wakes_at(now);
        woken.0.store(0, Ordering::Relaxed);
        combiner.signal.register(&Waker::from(Arc::clone(&woken)));
        let (_status, mut answer) = ask(&combiner, 1, "key");
        assert!(is_granted(&mut answer));
        let wakes = woken.0.load(Ordering::Relaxed);
        end(&combiner, 1);
        // On a machine that stands still for longer, everything is late.
        if Clock::System.now().since(now) < LATE {
            return wakes;
        }
    };
    assert_eq!(wakes(|_| None), 1);
    assert_eq!(wakes(|now| Some(now.after(100 * LEASE))), 1);
    assert_eq!(wakes(Some), 0, "it is about to wake");
    assert_eq!(wakes(|now| Some(now.before(LEASE))), 1, "it should have");
}
