//! Key templates: fields, methods, format specs, braces; evaluated once and before the body.

use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Waker},
    thread,
};

use super::support::{assert_all_released, assert_held, install};
use redlock_runtime::{LockError, Redlock, redis_lock};

struct Request {
    user: User,
    sizes: (u32, (u32, u32)),
    r#type: &'static str,
}
struct User {
    name: String,
}
impl User {
    fn upper(&self) -> String {
        self.name.to_uppercase()
    }
}
const SHARD: &str = "eu:7";
struct Config {
    shard: u8,
}
static CONFIG: Config = Config { shard: 3 };

#[redis_lock(key = "{{braces}} {a}")]
async fn braces(a: u8) -> Result<(), LockError> {
    assert_held("{braces} 1").await;
    Ok(())
}

#[redis_lock(key = r#"raw "{a}" \ {b:>w$}:{b:03}:{b:?}"#)]
async fn specs(a: &str, b: u8, w: usize) -> Result<(), LockError> {
    assert_held("raw \"x\" \\   5:005:5").await;
    Ok(())
}

#[redis_lock(
    key = "{{{req.user.name}}}:{req.sizes.0}:{req.sizes.1.1:03}:{req.user.upper():>w$}:{req.type}:{n:?}:{SHARD}:{CONFIG.shard}"
)]
async fn dotted(req: &Request, n: Option<u8>, w: usize) -> Result<(), LockError> {
    assert_held("{ann}:1:003:  ANN:t:None:eu:7:3").await;
    Ok(())
}

#[redis_lock(key = "multi\nline \
    continued:{é}")]
async fn unicode(é: &str) -> Result<(), LockError> {
    assert_held("multi\nline continued:ü").await;
    Ok(())
}

#[redis_lock(key = "{req.user.upper().len()}:{req.user.name.as_str():?}")]
async fn chained(req: &Request) -> Result<(), LockError> {
    assert_held("3:\"ann\"").await;
    Ok(())
}

struct Counted(AtomicU32);
impl Counted {
    fn count(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[redis_lock(key = "once:{counted.count()}")]
async fn once(counted: &Counted) -> Result<u32, LockError> {
    assert_held("once:1").await;
    Ok(counted.0.load(Ordering::Relaxed))
}

#[redis_lock(key = "changed:{n}")]
async fn changed_by_body(n: &mut u8) -> Result<(), LockError> {
    *n += 1;
    assert_held("changed:1").await;
    Ok(())
}

#[tokio::test]
async fn every_template() {
    install().await;
    let name = || "ann".to_owned();
    let req = Request {
        user: User { name: name() },
        sizes: (1, (2, 3)),
        r#type: "t",
    };
    braces(1).await.unwrap();
    specs("x", 5, 3).await.unwrap();
    dotted(&req, None, 5).await.unwrap();
    unicode("ü").await.unwrap();
    chained(&req).await.unwrap();
    assert_eq!(once(&Counted(AtomicU32::new(0))).await.unwrap(), 1);
    let mut n = 1;
    changed_by_body(&mut n).await.unwrap();
    assert_eq!(n, 2);
    assert_all_released().await;
}

#[redis_lock(key = "{shop}:{item}", lease = lease)]
async fn item_of_shop(shop: &str, item: &str) -> Result<String, LockError> {
    Ok(lease.key().to_owned())
}

#[redis_lock(key = "{shop}-{item}/{shop}", lease = lease)]
async fn other_separators(shop: &str, item: &str) -> Result<String, LockError> {
    Ok(lease.key().to_owned())
}

#[tokio::test]
async fn different_arguments_have_different_keys() {
    install().await;
    let key = async |shop, item| item_of_shop(shop, item).await.unwrap();
    assert_eq!(key("a:b", "c").await, "a%3Ab:c");
    assert_eq!(key("a", "b:c").await, "a:b%3Ac");
    assert_eq!(key("a%3Ab", "c").await, "a%253Ab:c");
    assert_eq!(key("müsli", "ß/-_").await, "müsli:ß/-_");
    let key = other_separators("a-b", "c/d:e").await.unwrap();
    assert_eq!(key, "a%2Db-c%2Fd%3Ae/a%2Db");
}

#[redis_lock(key = "{path!raw}:{id}/{path!raw:>w$}", lease = lease)]
async fn raw(path: &str, id: &str, w: usize) -> Result<String, LockError> {
    Ok(lease.key().to_owned())
}

#[redis_lock(key = "{user.name!raw}{id}", lease = lease)]
async fn raw_neighbours(user: &User, id: u64) -> Result<String, LockError> {
    Ok(lease.key().to_owned())
}

#[tokio::test]
async fn raw_values_are_not_encoded() {
    install().await;
    assert_eq!(
        raw("a:b/%", "c:/", 7).await.unwrap(),
        "a:b/%:c%3A%2F/  a:b/%"
    );
    let name = "a:".to_owned();
    assert_eq!(raw_neighbours(&User { name }, 1).await.unwrap(), "a:1");
}

struct Nameless(&'static str);

impl fmt::Display for Nameless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Nameless {
    fn name(&self) -> &str {
        self.0
    }
}

#[redis_lock(key = "{tenant}:{user.name()}", on_error = |error| Err(error.to_string()))]
async fn nameless(tenant: &str, user: Nameless) -> Result<(), String> {
    Ok(())
}

#[redis_lock(key = "empty:{user!raw}", when_held = Ok(()))]
async fn nameless_raw(user: Nameless) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn an_empty_placeholder_is_refused_by_name() {
    install().await;
    let refused = nameless("t", Nameless("")).await.unwrap_err();
    assert!(
        refused.contains("placeholder `{user.name()}` is empty"),
        "{refused}"
    );
    let refused = nameless("", Nameless("")).await.unwrap_err();
    assert!(refused.contains("`{tenant}`"), "{refused}");
    assert!(matches!(
        nameless_raw(Nameless("")).await,
        Err(LockError::EmptyKey {
            placeholder: Some("user")
        })
    ));
    nameless("t", Nameless("u")).await.unwrap();
}

#[redis_lock(key = ["account:{from}", "account:{to.id}", "ledger"], lease = lease, renew, wait = 5s)]
async fn transfer(from: u64, to: &Account) -> Result<String, LockError> {
    for key in [
        &format!("account:{from}"),
        &format!("account:{}", to.id),
        "ledger",
    ] {
        assert_held(key).await;
    }
    Ok(lease.key().to_owned())
}

struct Account {
    id: u64,
}

#[redis_lock(key = ["one", "two:{name}"], via = redlock, when_held = Ok(None))]
async fn named(redlock: &Redlock, name: &str) -> Result<Option<()>, LockError> {
    Ok(Some(()))
}

const EXPORTS: u32 = 2;

#[redis_lock(
    key = ["order:{id}", shared("prices"), permits("exports", EXPORTS), permits("slots", slots, weight = 2)],
    via = redlock,
    when_held = Ok(false)
)]
async fn export(redlock: &Redlock, id: u64, slots: u32) -> Result<bool, LockError> {
    // Another task: this one would wait for itself.
    let others = tokio::spawn(what_others_get(redlock.clone(), id));
    others.await.expect("each kind excludes what it should");
    Ok(true)
}

async fn what_others_get(redlock: Redlock, id: u64) {
    let _reader = redlock.lock("prices").shared().acquire().await.unwrap();
    redlock.lock("prices").acquire().await.unwrap_err();
    let order = format!("order:{id}");
    redlock.lock(&order).acquire().await.unwrap_err();
    for (name, permits) in [("exports", 2), ("slots", 3)] {
        let of_all = redlock.lock(name).permits(permits);
        let _last = of_all.acquire().await.unwrap();
        of_all.acquire().await.unwrap_err();
    }
}

#[redis_lock(key = [shared("only")], via = redlock)]
async fn read(redlock: &Redlock) -> Result<(), LockError> {
    let other = redlock.clone();
    let others = tokio::spawn(async move {
        let lock = other.lock("only");
        let _reader = lock.clone().shared().acquire().await.unwrap();
        lock.acquire().await.unwrap_err();
    });
    others.await.expect("readers share it");
    Ok(())
}

#[tokio::test]
async fn the_only_key_of_a_list_can_be_shared() {
    read(&install().await).await.unwrap();
}

#[tokio::test]
async fn each_key_of_a_list_is_locked_in_its_own_way() {
    let redlock = install().await;
    assert!(export(&redlock, 7, 3).await.unwrap());
    let writer = redlock.lock("prices").acquire().await.unwrap();
    assert!(!export(&redlock, 7, 3).await.unwrap());
    let _ = writer.release().await;
    assert!(export(&redlock, 7, 3).await.unwrap());
    for slots in [0, 1, 1_025] {
        let refused = export(&redlock, 7, slots).await.unwrap_err();
        assert!(matches!(refused, LockError::Config(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_list_of_keys_is_locked_as_one() {
    let redlock = install().await;
    let keys = transfer(7, &Account { id: 9 }).await.unwrap();
    assert_eq!(keys, "account:7, account:9, ledger");
    let same = transfer(7, &Account { id: 7 }).await.unwrap();
    assert_eq!(same, "account:7, ledger");
    assert_all_released().await;

    let other = redlock.lock("two:a").acquire().await.unwrap();
    assert_eq!(named(&redlock, "a").await.unwrap(), None);
    assert_eq!(named(&redlock, "b").await.unwrap(), Some(()));
    drop(other);
    let refused = named(&redlock, "").await.unwrap_err();
    assert!(refused.to_string().contains("`{name}`"), "{refused}");
}

struct Unwritable;

impl fmt::Display for Unwritable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

#[redis_lock(key = "{id}")]
async fn unwritable(id: Unwritable) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "{id!raw}")]
async fn unwritable_raw(id: Unwritable) -> Result<(), LockError> {
    Ok(())
}

/// Not within the library, where nobody would look for it.
#[test]
fn a_value_that_cannot_be_written_panics_at_the_attribute() {
    let (files, this) = (Arc::new(Mutex::new(Vec::new())), thread::current().id());
    let (seen, others) = (Arc::clone(&files), panic::take_hook());
    panic::set_hook(Box::new(move |info| match thread::current().id() == this {
        true => seen
            .lock()
            .unwrap()
            .push(info.location().unwrap().file().to_owned()),
        false => others(info),
    }));
    let poll = |call: &mut dyn FnMut(&mut Context<'_>)| {
        let call = AssertUnwindSafe(|| call(&mut Context::from_waker(Waker::noop())));
        assert!(panic::catch_unwind(call).is_err());
    };
    poll(&mut |cx| drop(pin!(unwritable(Unwritable)).poll(cx)));
    poll(&mut |cx| drop(pin!(unwritable_raw(Unwritable)).poll(cx)));
    drop(panic::take_hook());
    assert_eq!(*files.lock().unwrap(), [file!(); 2]);
}
