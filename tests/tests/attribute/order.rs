//! What happens while the lock is held: the key before, the body's values destroyed inside, on
//! return, `?`, panic, cancellation and loss.

use std::sync::{Arc, Mutex};

use super::support::{assert_held, assert_released, install, is_held};
use redlock_runtime::{LockError, Redlock, redis_lock};
use tokio::sync::Notify;

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down whether the lock was held when this value was destroyed.
struct Witness {
    name: &'static str,
    key: String,
    redlock: Redlock,
    log: Log,
}

impl Drop for Witness {
    fn drop(&mut self) {
        // A try_acquire that is polled once, on nodes in memory; a free lock is put back at once.
        let attempt = self.redlock.lock(self.key.clone()).try_acquire();
        let (name, log) = (self.name, Arc::clone(&self.log));
        let held = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async { matches!(attempt.await, Err(LockError::Contended(_))) })
        });
        let state = if held.join().unwrap() { "held" } else { "free" };
        log.lock().unwrap().push(format!("{name} {state}"));
    }
}

async fn witness(name: &'static str, key: &str, log: &Log) -> Witness {
    Witness {
        name,
        key: key.to_owned(),
        redlock: install().await,
        log: Arc::clone(log),
    }
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut log.lock().unwrap())
}

#[redis_lock(key = "{key!raw}")]
async fn locals(key: &str, log: &Log, argument: Witness, fail: bool) -> Result<(), LockError> {
    let _first = witness("first", key, log).await;
    let _second = witness("second", key, log).await;
    let _ = &argument;
    if fail {
        let error = install().await.lock(key).try_acquire().await.unwrap_err();
        Err(error)?;
    }
    Ok(())
}

#[tokio::test]
async fn locals_and_arguments_are_destroyed_under_the_lock() {
    for fail in [false, true] {
        let log = Log::default();
        let argument = witness("argument", "order:locals", &log).await;
        assert_eq!(
            locals("order:locals", &log, argument, fail).await.is_err(),
            fail
        );
        assert_eq!(taken(&log), ["second held", "first held", "argument held"]);
        assert_released("order:locals").await;
    }
}

/// Writes down its name when it is destroyed.
struct Part(&'static str, Log);

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.to_owned());
    }
}

struct Pair {
    bound: Part,
    #[allow(dead_code, reason = "its destruction is what counts")]
    unbound: Part,
}

impl Pair {
    fn new(bound: &'static str, unbound: &'static str, log: &Log) -> Self {
        Self {
            bound: Part(bound, Arc::clone(log)),
            unbound: Part(unbound, Arc::clone(log)),
        }
    }
}

/// The same function twice, with the attribute and without.
macro_rules! with_arguments {
    ($($(#[$attribute:meta])* $name:ident)*) => {$(
        $(#[$attribute])*
        async fn $name(
            first: Part,
            (second, _third): (Part, Part),
            pair: Pair,
            _unmentioned: Part,
            last: Part,
        ) -> Result<(), LockError> {
            let _local = Part("local", Arc::clone(&first.1));
            // Neither the order of the arguments nor that of their parts counts.
            let _ = (format!("{last}"), &pair.bound, &second, &first);
            Ok(())
        }
    )*};
}

with_arguments! {
    #[redis_lock(key = "order:arguments")] locked
    plain
}

/// Calls with parts that write into the same log.
macro_rules! call {
    ($function:ident, $log:expr) => {{
        let part = |name| Part(name, Arc::clone($log));
        $function(
            part("first"),
            (part("second"), part("third")),
            Pair::new("fourth", "fifth", $log),
            part("sixth"),
            part("last"),
        )
    }};
}

#[tokio::test]
async fn arguments_are_destroyed_in_the_order_of_a_plain_function() {
    let redlock = install().await;
    let log = Log::default();
    call!(plain, &log).await.unwrap();
    let expected = taken(&log);
    assert_eq!(expected.len(), 8);
    call!(locked, &log).await.unwrap();
    assert_eq!(taken(&log), expected);
    let _other = redlock.lock("order:arguments").acquire().await.unwrap();
    assert!(call!(locked, &log).await.is_err());
    assert_eq!(taken(&log), expected[1..], "all but the local");
}

#[redis_lock(key = "order:unbound")]
async fn unbound(Halves { used, .. }: Halves, _: Witness) -> Result<(), LockError> {
    drop(used);
    Ok(())
}

/// As the attribute's documentation says.
#[tokio::test]
async fn what_the_body_cannot_reach_is_destroyed_after_the_release() {
    let log = Log::default();
    let used = witness("used", "order:unbound", &log).await;
    let unused = witness("unused", "order:unbound", &log).await;
    let unnamed = witness("unnamed", "order:unbound", &log).await;
    let result = unbound(Halves { used, unused }, unnamed).await;
    result.unwrap();
    let taken = taken(&log);
    assert_eq!(taken[0], "used held");
    let names = taken.iter().map(|line| line.split(' ').next().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["used", "unnamed", "unused"]);
}

struct Halves {
    used: Witness,
    #[allow(dead_code, reason = "its destruction is what counts")]
    unused: Witness,
}

#[redis_lock(key = "order:halves")]
async fn halves(halves: Halves) -> Result<(), LockError> {
    assert_held("order:halves").await;
    drop(halves.used);
    Ok(())
}

impl Halves {
    #[redis_lock(key = "order:halves")]
    async fn consume(self) -> Result<(), LockError> {
        assert_held("order:halves").await;
        drop(self.used);
        Ok(())
    }
}

#[tokio::test]
async fn a_partly_used_argument_or_self_stays_whole() {
    let log = Log::default();
    for is_self in [false, true] {
        let used = witness("used", "order:halves", &log).await;
        let unused = witness("unused", "order:halves", &log).await;
        let both = Halves { used, unused };
        let consumed = match is_self {
            true => both.consume().await,
            false => halves(both).await,
        };
        consumed.unwrap();
        let expected = ["used held", "unused held"];
        assert_eq!(taken(&log), expected, "self: {is_self}");
        assert_released("order:halves").await;
    }
}

#[tokio::test]
async fn a_lock_that_is_not_free_destroys_the_arguments_without_running_the_body() {
    let log = Log::default();
    let redlock = install().await;
    let other = redlock.lock("order:refused").acquire().await.unwrap();
    let argument = witness("argument", "order:refused", &log).await;
    let refused = locals("order:refused", &log, argument, false).await;
    assert!(matches!(refused, Err(LockError::Contended(_))));
    assert_eq!(taken(&log), ["argument held"]);
    drop(other);
    assert_released("order:refused").await;
}

#[redis_lock(key = "order:panic")]
async fn panics(log: &Log) -> Result<(), LockError> {
    let _local = witness("local", "order:panic", log).await;
    panic!("on purpose");
}

#[tokio::test]
async fn a_panic_releases() {
    install().await;
    let log = Log::default();
    let task = tokio::spawn({
        let log = Arc::clone(&log);
        async move { panics(&log).await }
    });
    let panic = task.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    assert_eq!(taken(&log), ["local held"]);
    assert_released("order:panic").await;
}

#[redis_lock(key = "order:cancelled")]
async fn waits(log: &Log, argument: Witness, entered: &Notify) -> Result<(), LockError> {
    let _local = witness("local", "order:cancelled", log).await;
    let _argument = argument;
    entered.notify_one();
    std::future::pending().await
}

#[tokio::test]
async fn cancellation_releases() {
    let log = Log::default();
    let argument = witness("argument", "order:cancelled", &log).await;
    let entered = Notify::new();
    tokio::select! {
        ended = waits(&log, argument, &entered) => panic!("the body never ends: {ended:?}"),
        () = entered.notified() => {}
    }
    assert_eq!(taken(&log), ["argument held", "local held"]);
    assert_released("order:cancelled").await;
}

#[redis_lock(key = "order:lazy")]
async fn lazy() -> Result<(), LockError> {
    assert_held("order:lazy").await;
    Ok(())
}

#[tokio::test]
async fn nothing_happens_before_the_first_poll() {
    install().await;
    let future = lazy();
    assert!(!is_held("order:lazy").await);
    future.await.unwrap();
}
