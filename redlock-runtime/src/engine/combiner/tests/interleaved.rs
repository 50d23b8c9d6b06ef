//! Threads that stop wherever they touch a mutex or an atomic of the combiner, of the signal, or of a status, in an
//! order that `shuttle` draws. A lost wake-up leaves all threads asleep, which `shuttle` reports.
//!
//! ```text
//! RUSTFLAGS='--cfg shuttle' cargo test -p redlock-runtime --lib interleaved
//! ```
//!
//! What `std`, `futures` and `tokio` make of one step is one step here: `Arc`, `OnceLock`, `AtomicWaker`, `Notify`.

use std::{env, sync::atomic::AtomicU64};

use shuttle::{Config, Runner, scheduler::RandomScheduler, sync::Condvar, thread};

use super::*;

/// Sleeps until it is woken.
#[derive(Default)]
struct Parker {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Parker {
    fn park(&self) {
        let mut is_woken = lock(&self.is_woken);
        while !*is_woken {
            is_woken = self.woken.wait(is_woken).unwrap();
        }
        *is_woken = false;
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        *lock(&self.is_woken) = true;
        self.woken.notify_one();
    }
}

/// The engine's task, without its timers: none of them is due here.
fn engine(combiner: &Combiner, parker: &Arc<Parker>, is_over: &AtomicBool) {
    let waker = Waker::from(Arc::clone(parker));
    let mut cx = Context::from_waker(&waker);
    while !is_over.load(Ordering::SeqCst) {
        combiner.signal.register(&waker);
        drop(lock(&combiner.inbox));
        match combiner.work(Some(&mut cx)) {
            Outcome::Unfinished => thread::yield_now(),
            Outcome::Idle(_) | Outcome::Taken => parker.park(),
            Outcome::Ended => panic!("it ends before all is over"),
        }
    }
}

/// Locks and unlocks some times. Nobody else has the lock meanwhile.
fn caller(combiner: &Combiner, number: u64, inside: &AtomicU32) {
    let parker = Arc::new(Parker::default());
    let waker = Waker::from(Arc::clone(&parker));
    for turn in 1..=2 {
        let section = number * 10 + turn;
        let (status, mut answer) = ask(combiner, section, "key");
        let mut cx = Context::from_waker(&waker);
        while Pin::new(&mut answer).poll(&mut cx).is_pending() {
            parker.park();
        }
        assert!(status.is_held(Clock::System.now()));
        assert_eq!(
            inside.fetch_add(1, Ordering::SeqCst),
            0,
            "two have the lock"
        );
        thread::yield_now();
        assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
        status.release();
        assert!(!status.is_held(Clock::System.now()));
        end(combiner, section);
    }
}

/// What comes meanwhile is looked at by the pump, or by who keeps it from that. Else this never ends.
fn pump(combiner: &Combiner) {
    for _ in 0..3 {
        combiner.has_come();
        while let Outcome::Unfinished = combiner.work(None) {}
        while combiner.signal.is_given() {
            thread::yield_now();
        }
    }
}

fn run(do_callers_work: bool) {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let node = format!("interleaved-{}", RUNS.fetch_add(1, Ordering::Relaxed));
    let mut made = Arc::into_inner(combiner(&node, random())).unwrap();
    made.do_callers_work = do_callers_work;
    let combiner = Arc::new(made);
    let (parker, is_over) = (
        Arc::new(Parker::default()),
        Arc::new(AtomicBool::new(false)),
    );
    let inside = Arc::new(AtomicU32::new(0));
    let engine = thread::spawn({
        let (combiner, parker, is_over) = (combiner.clone(), parker.clone(), is_over.clone());
        move || engine(&combiner, &parker, &is_over)
    });
    let callers: Vec<_> = (1..=3)
        .map(|number| {
            let (combiner, inside) = (combiner.clone(), inside.clone());
            thread::spawn(move || caller(&combiner, number, &inside))
        })
        .collect();
    let pumps = {
        let combiner = combiner.clone();
        thread::spawn(move || pump(&combiner))
    };
    for caller in callers.into_iter().chain([pumps]) {
        caller.join().unwrap();
    }
    is_over.store(true, Ordering::SeqCst);
    parker.wake();
    engine.join().unwrap();
}

fn interleave(do_callers_work: bool) {
    let runs = env::var("REDLOCK_INTERLEAVINGS").map_or(2_000, |runs| runs.parse().unwrap());
    let mut config = Config::new();
    // The driver is large.
    config.stack_size = 1 << 20;
    let scheduler = RandomScheduler::new(runs);
    Runner::new(scheduler, config).run(move || run(do_callers_work));
}

#[test]
fn nobody_waits_in_vain_and_no_two_hold_the_lock() {
    interleave(true);
}

#[test]
fn the_same_if_callers_leave_all_to_the_engine() {
    interleave(false);
}
