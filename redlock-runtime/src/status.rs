//! What a section is, and what guards read of its lease without asking: the deadline, and whether it is
//! over. The engine writes it, and the holder when it lets go.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock, atomic::Ordering},
    task::{Context, Poll},
    thread,
    time::Duration,
};

#[cfg(shuttle)]
use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
#[cfg(not(shuttle))]
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use futures_util::task::AtomicWaker;
use redlock_protocol::{Cause, Instant, LockParams, Loss, Mode, Refusal, SectionId, Token};
use tokio::{sync::Notify, task};

use crate::keys::Keys;

/// The engine is gone: shut down, its runtime dropped, or left behind by a fork.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped;

/// One section and the state of its lease, shared by the engine, the guard and its views.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) section: SectionId,
    pub(crate) keys: Keys,
    /// Of the annotated function, if it is one.
    pub(crate) name: Option<&'static str>,
    /// When it was asked for.
    pub(crate) since: Instant,
    /// In nanoseconds: see [`Self::extends_to`].
    extends_to: u64,
    /// Whether others can have the lock at the same time.
    is_shared: AtomicBool,
    /// The task that asked for it, or the thread, by a hash.
    asked_by: u32,
    /// Nanoseconds on the engine's clock; zero before the lock is held.
    deadline: AtomicU64,
    token: AtomicU64,
    /// How often the nodes were asked before it was held or refused.
    attempts: AtomicU32,
    /// With how little left of the lease, in milliseconds, a renewal is late.
    late: AtomicU32,
    end: OnceLock<Box<End>>,
    /// The caller that waits for the lock.
    caller: AtomicWaker,
    released: AtomicBool,
    /// It has its lock in a guard, which may be anywhere.
    is_guard: AtomicBool,
    /// The end of its lease under its holder has been reported.
    is_over: AtomicBool,
    /// The caller has learnt that it has the lock.
    is_taken: AtomicBool,
    changed: Notify,
}

/// How it has ended, other than by its holder.
#[derive(Debug)]
enum End {
    /// It never had the lock.
    Refused(Refusal),
    Over(Loss),
}

impl Status {
    pub(crate) fn new(
        section: SectionId,
        keys: Keys,
        name: Option<&'static str>,
        since: Instant,
        extends_to: Duration,
        mode: Mode,
    ) -> Self {
        Self {
            section,
            keys,
            name,
            since,
            extends_to: u64::try_from(extends_to.as_nanos()).unwrap_or(u64::MAX),
            is_shared: AtomicBool::new(mode == Mode::Shared),
            asked_by: here(),
            deadline: AtomicU64::default(),
            token: AtomicU64::default(),
            attempts: AtomicU32::default(),
            late: AtomicU32::default(),
            end: OnceLock::new(),
            caller: AtomicWaker::new(),
            released: AtomicBool::default(),
            is_guard: AtomicBool::default(),
            is_over: AtomicBool::default(),
            is_taken: AtomicBool::default(),
            changed: Notify::new(),
        }
    }

    /// What errors name: the key, or all keys.
    pub(crate) fn key(&self) -> &Arc<str> {
        self.keys.text()
    }

    /// Its lock is asked for.
    pub(crate) fn ask(&self, params: &LockParams) {
        let slack = |every| params.lease.saturating_sub(every);
        // Half of what is usually left when a renewal is due.
        let late = params.renew.map_or(0, |every| slack(every).as_millis() / 2);
        let late = u32::try_from(late).unwrap_or(u32::MAX);
        self.late.store(late, Ordering::Relaxed);
    }

    /// What is left of the lease, if that is little for one that is renewed.
    pub(crate) fn late(&self, now: Instant) -> Option<Duration> {
        let left = self.deadline().since(now);
        let late = self.late.load(Ordering::Relaxed);
        (left < Duration::from_millis(late.into())).then_some(left)
    }

    /// Whether others can have the lock at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Acquire)
    }

    /// The holder shares the lock from now on.
    pub(crate) fn share(&self) {
        self.is_shared.store(true, Ordering::Release);
    }

    pub(crate) fn grant(&self, deadline: Instant, token: Token, attempts: u32) {
        self.token.store(token.0, Ordering::Release);
        self.attempts.store(attempts, Ordering::Relaxed);
        self.hold_until(deadline);
    }

    /// The section has not come to its lock.
    pub(crate) fn refuse(&self, refusal: Refusal) {
        self.attempts.store(refusal.attempts, Ordering::Relaxed);
        let _ = self.end.set(Box::new(End::Refused(refusal)));
    }

    /// Wakes the caller that waits for the lock.
    pub(crate) fn tell_caller(&self) {
        self.caller.wake();
    }

    /// What has come of the question for the lock. One caller at a time waits for that.
    pub(crate) fn poll_answer(&self, context: &Context<'_>) -> Poll<Result<(), Box<Refusal>>> {
        if !self.is_answered() {
            self.caller.register(context.waker());
            if !self.is_answered() {
                return Poll::Pending;
            }
        }
        Poll::Ready(match self.end.get().map(|end| &**end) {
            Some(End::Refused(refusal)) => Err(Box::new(refusal.clone())),
            // The engine is gone.
            Some(End::Over(_)) if !self.is_granted() => {
                Err(Box::new(Refusal::without_verdicts(Cause::Stopped)))
            }
            _ => {
                self.is_taken.store(true, Ordering::Relaxed);
                Ok(())
            }
        })
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Relaxed)
    }

    /// The waker would keep the caller's task in memory.
    pub(crate) fn stop_waiting(&self) {
        drop(self.caller.take());
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.is_granted() || self.end.get().is_some()
    }

    pub(crate) fn is_granted(&self) -> bool {
        self.deadline.load(Ordering::Acquire) > 0
    }

    /// What an extension makes of the lease; nothing if it is renewed anyway.
    pub(crate) const fn extends_to(&self) -> Duration {
        Duration::from_nanos(self.extends_to)
    }

    /// The fencing token; of use once the lock is held.
    pub(crate) fn token(&self) -> Token {
        Token(self.token.load(Ordering::Acquire))
    }

    /// How often the nodes were asked for the lock, once there is an answer.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// The lease runs until `deadline`; a later call never makes it shorter.
    pub(crate) fn hold_until(&self, deadline: Instant) {
        self.deadline
            .fetch_max(deadline.as_nanos(), Ordering::Release);
    }

    /// The lease is over. The first reason stands.
    pub(crate) fn end(&self, loss: Loss) {
        if self.end_untold(loss) {
            self.tell_end();
        }
    }

    /// The lease is over. True if those who wait for the end must still be [told](Self::tell_end).
    pub(crate) fn end_untold(&self, loss: Loss) -> bool {
        self.end.set(Box::new(End::Over(loss))).is_ok()
    }

    /// Wakes those who wait for the end.
    pub(crate) fn tell_end(&self) {
        self.changed.notify_waiters();
        self.tell_caller();
    }

    pub(crate) fn becomes_guard(&self) {
        self.is_guard.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_guard(&self) -> bool {
        self.is_guard.load(Ordering::Relaxed)
    }

    /// The task that has acquired this guard waits for its lock. It may have given the guard away, or release
    /// it in another branch meanwhile.
    pub(crate) fn is_waited_for_by(&self, other: &Self) -> bool {
        !other.is_answered() && other.asked_by == self.asked_by && other.keys.meet(&self.keys)
    }

    /// True for the first report of its end under its holder.
    pub(crate) fn is_over_now(&self) -> bool {
        !self.is_over.swap(true, Ordering::Relaxed)
    }

    /// The holder has let go.
    pub(crate) fn release(&self) {
        self.released.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    pub(crate) fn loss(&self) -> Option<&Loss> {
        match &**self.end.get()? {
            End::Over(loss) => Some(loss),
            End::Refused(_) => None,
        }
    }

    /// Held, not known to be lost, not released, and before its deadline.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        now < self.deadline() && self.loss().is_none() && !self.is_released()
    }

    /// How long it is held yet.
    pub(crate) fn remaining(&self, now: Instant) -> Duration {
        match self.is_held(now) {
            true => self.deadline().since(now),
            false => Duration::ZERO,
        }
    }

    /// Waits until the lease has ended under its holder, or the holder has let go.
    pub(crate) async fn over(&self) {
        let mut changed = std::pin::pin!(self.changed.notified());
        // Registered before the look, so that an end in between is not missed.
        changed.as_mut().enable();
        if self.loss().is_none() && !self.is_released() {
            changed.await;
        }
    }
}

/// The task that is polled on this thread, or the thread if none is.
fn here() -> u32 {
    let mut hasher = DefaultHasher::new();
    match task::try_id() {
        Some(task) => task.hash(&mut hasher),
        None => thread::current().id().hash(&mut hasher),
    }
    hasher.finish() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn fresh() -> Status {
        let keys = Keys::One("k".into());
        Status::new(
            SectionId(0),
            keys,
            None,
            at(0),
            Duration::ZERO,
            Mode::Exclusive,
        )
    }

    /// A process may have a hundred thousand, and with the counts of an `Arc` this is one of 184 bytes.
    #[test]
    fn a_section_is_small() {
        assert!(size_of::<Status>() <= 168, "{}", size_of::<Status>());
    }

    #[test]
    fn nothing_is_held_before_the_grant_after_the_deadline_or_after_the_end() {
        let status = fresh();
        assert!(!status.is_held(at(0)));
        status.hold_until(at(10));
        assert!(status.is_held(at(9)));
        assert!(!status.is_held(at(10)));
        status.end(Loss::Stopped);
        assert!(!status.is_held(at(9)));

        let released = fresh();
        released.hold_until(at(10));
        released.release();
        assert!(!released.is_held(at(9)));
    }
}
