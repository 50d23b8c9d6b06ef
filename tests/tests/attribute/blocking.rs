//! The attribute on functions that are not async.

use std::{
    cell::RefCell,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
    thread,
    time::Duration,
};

use redlock_runtime::{FencingToken, LockError, Redlock, redis_lock};
use redlock_tests::PATIENCE;
use tokio::runtime::Runtime;

use super::support;

thread_local! {
    static LOG: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// On a runtime that is there for all tests, and that none of their threads drives.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

fn install() -> Redlock {
    runtime().block_on(support::install())
}

/// Asked from a thread of its own, which is in no section.
fn is_held(key: &str) -> bool {
    let attempt = install().lock(key);
    let attempt = thread::spawn(move || attempt.acquire_blocking());
    matches!(attempt.join().unwrap(), Err(LockError::Contended(_)))
}

fn assert_held(key: &str) {
    assert!(is_held(key), "{key} is not held");
}

fn assert_released(key: &str) {
    let other = install().lock(key).wait(PATIENCE).acquire_blocking();
    assert!(other.is_ok(), "{key} is still held: {other:?}");
}

struct Shop {
    id: u8,
    names: Vec<String>,
    redlock: Redlock,
    wait: Duration,
}

impl Shop {
    fn new() -> Self {
        Self {
            id: 7,
            names: vec!["seven".to_owned()],
            redlock: install(),
            wait: Duration::ZERO,
        }
    }

    #[redis_lock(key = "blocking:{self.id}", via = self.redlock, wait = self.wait)]
    fn name<'a>(&'a self, _other: &str) -> Result<&'a str, LockError> {
        assert_held("blocking:7");
        Ok(&self.names[0])
    }

    #[redis_lock(key = "blocking:{self.id}", via = &self.redlock)]
    fn name_mut(&mut self) -> Result<&mut String, LockError> {
        assert_held("blocking:7");
        self.names.push(String::new());
        Ok(&mut self.names[0])
    }

    #[redis_lock(key = "blocking:{self.id}")]
    fn into_names(mut self) -> Result<impl Iterator<Item = String>, LockError> {
        assert_held("blocking:7");
        self.names.push("eight".to_owned());
        Ok(self.names.into_iter())
    }
}

trait Runs {
    fn run(&self) -> Result<u8, String>;

    #[redis_lock(key = "blocking:default", on_error = |error| Err(error.to_string()))]
    fn run_by_default(&self) -> Result<u8, String> {
        assert_held("blocking:default");
        self.run()
    }
}

struct Job(u8);

impl Runs for Job {
    #[redis_lock(key = "blocking:trait:{self.0}", on_error = |error| Err(error.to_string()))]
    fn run(&self) -> Result<u8, String> {
        assert_held("blocking:trait:5");
        Ok(self.0)
    }
}

#[redis_lock(key = "blocking:generic:{id}", expire = 1s, renew = 300ms, max_hold = 1m, lease = lease)]
fn generic<T, const N: usize>(
    id: T,
    (mut first, _): (u8, u8),
    rest: [u8; N],
) -> Result<(String, FencingToken), Box<dyn std::error::Error + Send + Sync>>
where
    T: Clone + Display,
{
    #![allow(clippy::let_and_return)]
    assert_held("blocking:generic:1");
    first += 1;
    if rest.is_empty() {
        return Err("nothing".into());
    }
    let number: u8 = "12".parse()?;
    let text = format!("{} {first} {number}", id.clone());
    Ok((text, lease.fencing_token()?))
}

#[test]
fn functions_of_every_shape_lock() {
    let mut shop = Shop::new();
    assert_eq!(shop.name("").unwrap(), "seven");
    shop.name_mut().unwrap().push('!');
    let names: Vec<String> = shop.into_names().unwrap().collect();
    assert_eq!(names, ["seven!", "", "eight"]);
    assert_eq!(Job(5).run_by_default().unwrap(), 5);
    assert_eq!(generic(1, (2, 3), [4]).unwrap().0, "1 3 12");
    assert_eq!(generic(1, (2, 3), []).unwrap_err().to_string(), "nothing");
    for key in [
        "blocking:7",
        "blocking:default",
        "blocking:trait:5",
        "blocking:generic:1",
    ] {
        assert_released(key);
    }
}

/// Writes down whether the lock was held when this value was destroyed.
struct Witness;

impl Drop for Witness {
    fn drop(&mut self) {
        let held = is_held("blocking:order");
        LOG.with_borrow_mut(|log| log.push(if held { "held" } else { "free" }));
    }
}

#[redis_lock(key = "blocking:order")]
fn destroys(argument: Witness, panics: bool) -> Result<(), LockError> {
    let _local = Witness;
    let _ = &argument;
    assert!(!panics, "on purpose");
    Ok(())
}

#[test]
fn locals_and_arguments_are_destroyed_under_the_lock() {
    install();
    destroys(Witness, false).unwrap();
    assert_eq!(LOG.take(), ["held", "held"]);
    assert_released("blocking:order");
    let panicked = catch_unwind(AssertUnwindSafe(|| destroys(Witness, true)));
    assert!(panicked.is_err());
    assert_eq!(LOG.take(), ["held", "held"]);
    assert_released("blocking:order");
}

#[redis_lock(key = "blocking:taken", when_held = Ok("another has it"))]
fn skips() -> Result<&'static str, LockError> {
    Ok("done")
}

#[redis_lock(key = "blocking:{name}", reentrant)]
fn descend(name: &str, depth: u8) -> Result<u8, LockError> {
    match depth.checked_sub(1) {
        Some(depth) => Ok(1 + descend(name, depth)?),
        None => Ok(0),
    }
}

#[redis_lock(key = "blocking:nested")]
fn nested() -> Result<(), LockError> {
    nested()
}

#[test]
fn calls_that_find_the_lock_taken() {
    let redlock = install();
    assert_eq!(skips().unwrap(), "done");
    let other = redlock
        .lock("blocking:taken")
        .wait(PATIENCE)
        .acquire_blocking();
    assert_eq!(skips().unwrap(), "another has it");
    drop(other);
    assert_eq!(descend("recursion", 5).unwrap(), 5);
    let error = nested().unwrap_err();
    assert!(matches!(error, LockError::Nested(_)), "{error}");
}
