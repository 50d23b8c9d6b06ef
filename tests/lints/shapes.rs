//! Functions of every shape, which are annotated with `#[redis_lock]` and
//! with an attribute of that name that does nothing. The test `lints` compares what is said of them.

use std::{fmt::Display, rc::Rc, sync::Mutex, time::Duration};

use attribute::redis_lock;
use redlock_runtime::{Lease, LockError, Redlock};

const LEASE: Duration = Duration::from_secs(2);

#[redis_lock(key = "one-line")]
pub async fn one_line() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "free:{id}", expire = 5s, wait = 500ms)]
pub async fn free(id: u64, amount: u64) -> Result<u64, LockError> {
    let sum = id + amount;
    step().await;
    Ok(sum)
}

#[redis_lock(key = "private:{id:>05}:{name:?}")]
async fn private(id: u32, name: &str) -> Result<usize, LockError> {
    fn local(name: &str) -> usize {
        name.len()
    }
    if id == 0 {
        return Ok(0);
    }
    let id = usize::try_from(id).unwrap_or_default();
    Ok(id + local(name))
}

#[redis_lock(key = "returned:{id}")]
pub async fn returned(id: u64) -> Result<u64, LockError> {
    free(id, 1).await?;
    return private(1, "name").await.map(|n| n as u64);
}

#[redis_lock(key = "unit", on_error = drop)]
pub async fn unit() {
    step().await;
}

#[redis_lock(key = "unit", on_error = |_| ())]
pub async fn explicit_unit() -> () {
    step().await
}

#[redis_lock(key = "unused:{named}")]
pub async fn unused(named: String, _: u64, _underscored: &str) -> Result<(), LockError> {
    let _ = &named;
    Ok(())
}

#[redis_lock(key = "owned:{name}:{items.len()}")]
pub async fn owned(name: String, mut items: Vec<u32>) -> Result<String, LockError> {
    items.push(1);
    step().await;
    Ok(format!("{}:{}", name, items.len()))
}

#[redis_lock(key = "patterns:{id}:{first}:{last}")]
pub async fn patterns(
    Order { id, .. }: Order,
    (first, ref last): (u64, String),
    &flag: &bool,
) -> Result<u64, LockError> {
    if flag {
        Ok(id)
    } else {
        Ok(first + last.len() as u64)
    }
}

#[redis_lock(key = "raw:{text!raw}:{type}:{number:.1}")]
pub async fn raw(text: &str, r#type: u8, number: f64) -> Result<f64, LockError> {
    Ok(number * f64::from(r#type) + text.len() as f64)
}

#[redis_lock(key = "generic:{id}:{N}")]
pub async fn generic<'a, T: Display, U, const N: usize>(
    id: &T,
    values: &'a [U; N],
) -> Result<&'a U, LockError>
where
    U: PartialEq,
{
    step().await;
    println!("{id}");
    Ok(&values[0])
}

#[redis_lock(key = "lifetimes:{text}")]
pub async fn lifetimes<'a>(text: &'a str, other: &str) -> Result<&'a str, LockError> {
    Ok(&text[other.len()..])
}

#[redis_lock(key = "impl:{id}")]
pub async fn impl_argument(id: impl Display, of: impl AsRef<str>) -> Result<usize, LockError> {
    println!("{id}");
    step().await;
    Ok(of.as_ref().len())
}

#[redis_lock(key = "impl:{count}", on_error = never)]
pub async fn impl_output<'a>(
    names: &'a [&'a str],
    count: usize,
) -> impl Iterator<Item = usize> + 'a {
    names.iter().map(move |name| name.len() + count)
}

#[redis_lock(key = "impl-in-result")]
pub async fn impl_in_result() -> Result<impl Iterator<Item = u8>, LockError> {
    Ok([1, 2].into_iter())
}

#[redis_lock(key = "guard:{id}", lease = lease)]
pub async fn guarded(id: u64) -> Result<Duration, LockError> {
    if lease.is_held() {
        let lease = lease.remaining();
        return Ok(lease);
    }
    Ok(Duration::from_secs(id))
}

#[redis_lock(key = "guard", lease = lease, renew = 500ms, expire = LEASE, max_hold = 1m)]
pub async fn guard_moves() -> Result<Lease, LockError> {
    let moved = lease;
    Ok(moved)
}

#[redis_lock(key = "guard", lease = _lease, renew)]
pub async fn guard_unused() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "held:{id}", when_held = Ok(None), wait = LEASE)]
pub async fn when_held(id: u64) -> Result<Option<u64>, LockError> {
    let Some(next) = id.checked_add(1) else {
        return Ok(None);
    };
    step().await;
    Ok(Some(next))
}

#[redis_lock(key = "held:{id}", when_held = false, on_error = |_error| id == 0, renew)]
#[allow(
    clippy::implicit_return,
    reason = "of the closure, which only one of the two sees"
)]
pub async fn held_and_error(id: u64) -> bool {
    id == 1
}

#[redis_lock(key = "held", when_held = never_held(), on_error = never)]
pub async fn held_panics() -> u64 {
    step().await;
    7
}

#[redis_lock(key = "error", name = "lints.error", on_error = refuse)]
pub async fn on_error_path() -> Option<u64> {
    step().await;
    Some(1)
}

#[redis_lock(key = "boxed")]
pub async fn boxed_error(text: &str) -> Result<u64, Box<dyn std::error::Error>> {
    Ok(text.parse::<u64>()?)
}

#[redis_lock(key = "via", via = redlock)]
pub async fn via(redlock: &Redlock) -> Result<usize, LockError> {
    Ok(redlock.nodes().len())
}

#[redis_lock(key = "via", via = if first { &one } else { &other })]
pub async fn via_choice(one: Redlock, other: Redlock, first: bool) -> Result<(), LockError> {
    drop(if first { one } else { other });
    Ok(())
}

#[redis_lock(key = "not-send:{shared}")]
pub async fn not_send(shared: Rc<str>) -> Result<usize, LockError> {
    step().await;
    Ok(shared.len())
}

#[redis_lock(key = "not-send-inside")]
pub async fn not_send_inside() -> Result<u8, LockError> {
    let shared = Rc::new(1);
    step().await;
    Ok(*shared)
}

#[redis_lock(key = "mutex")]
pub async fn mutex(mutex: &Mutex<u64>) -> Result<u64, LockError> {
    let mut value = mutex.lock().unwrap();
    *value += 1;
    let copy = *value;
    println!("{copy}");
    Ok(copy)
}

#[redis_lock(key = "loops:{limit}")]
pub async fn loops(limit: usize) -> Result<usize, LockError> {
    let mut sum = 0;
    for n in 0..limit {
        match n % 3 {
            0 => continue,
            1 if sum > 10 => break,
            _ => sum += n,
        }
    }
    while sum > 100 {
        sum -= 1;
        step().await;
    }
    loop {
        if sum == 7 {
            return Err(refused().await);
        }
        if sum < 100 {
            break Ok(sum);
        }
        sum /= 2;
    }
}

#[redis_lock(key = "never")]
pub async fn never_falls_through(ready: bool) -> Result<(), LockError> {
    loop {
        if ready {
            return Ok(());
        }
        step().await;
    }
}

#[redis_lock(key = "unreachable")]
pub async fn unimplemented_yet() -> Result<u64, LockError> {
    assert!(LEASE > Duration::ZERO, "positive");
    unreachable!("for now")
}

/// As complex as `cognitive_complexity` allows.
#[rustfmt::skip]
#[redis_lock(key = "complex:{n}")]
pub async fn complex(n: u64) -> Result<u64, LockError> {
    if n == 1 { return Ok(2); }
    if n == 2 { return Ok(3); }
    if n == 3 { return Ok(4); }
    if n == 4 { return Ok(5); }
    if n == 5 { return Ok(6); }
    if n == 6 { return Ok(7); }
    if n == 7 { return Ok(8); }
    if n == 8 { return Ok(9); }
    if n == 9 { return Ok(10); }
    if n == 10 { return Ok(11); }
    if n == 11 { return Ok(12); }
    if n == 12 { return Ok(13); }
    Ok(n)
}

#[redis_lock(key = "attributes")]
#[allow(clippy::unused_async, reason = "nothing to wait for")]
#[inline]
#[must_use = "it may not be locked"]
pub async fn attributes() -> Result<u64, LockError> {
    Ok(1)
}

#[redis_lock(key = "inner-attributes")]
pub async fn inner_attributes() -> Result<u64, LockError> {
    #![allow(clippy::no_effect)]
    1;
    Ok(1)
}

#[redis_lock(key = "unsafe:{id}")]
/// # Safety
/// It does nothing.
pub async unsafe fn dangerous(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

macro_rules! generated {
    ($name:ident($id:ident), $key:literal, $body:block) => {
        #[redis_lock(key = $key)]
        pub async fn $name($id: u64) -> Result<u64, LockError> $body
    };
}
generated!(from_a_macro(id), "macro:{id}", {
    step().await;
    Ok(id)
});

#[derive(Clone, Debug)]
pub struct Order {
    pub id: u64,
    pub note: String,
}

pub struct Shop {
    pub order: Order,
    pub redlock: Redlock,
}

impl Shop {
    #[redis_lock(key = "new", on_error = never)]
    pub async fn new(redlock: Redlock) -> Self {
        Self {
            order: Order {
                id: 1,
                note: String::new(),
            },
            redlock,
        }
    }

    #[redis_lock(key = "fields:{self.order.id:04}:{order.note.trim()}:{pair.0}", via = self.redlock)]
    pub async fn fields(&self, order: &Order, pair: (u8, u8)) -> Result<u64, LockError> {
        step().await;
        Ok(self.order.id + order.id + u64::from(pair.1))
    }

    #[redis_lock(key = "mutable:{self.id()}")]
    pub async fn mutable(&mut self, note: &str) -> Result<&mut Self, LockError> {
        self.order.note.push_str(note);
        step().await;
        Ok(self)
    }

    #[redis_lock(key = "consume:{self.id()}", expire = Self::LEASE)]
    pub async fn consume(self) -> Result<Order, LockError> {
        Ok(self.order)
    }

    #[redis_lock(key = "self-type:{self.order.id}")]
    pub async fn shared(self: Rc<Self>) -> Result<u64, LockError> {
        step().await;
        Ok(self.order.id)
    }

    #[redis_lock(key = "unused-self")]
    pub async fn unused_self(&self) -> Result<u64, LockError> {
        Ok(1)
    }

    #[redis_lock(key = "refuse:{id}", on_error = |error| self.refuse(id, &error))]
    #[allow(
        clippy::implicit_return,
        reason = "of the closure, which only one of the two sees"
    )]
    pub async fn refusing(&self, id: u64) -> String {
        format!("done {id}")
    }

    pub fn refuse(&self, id: u64, error: &LockError) -> String {
        format!("{id} {} {error}", self.order.id)
    }

    pub const LEASE: Duration = LEASE;

    pub fn id(&self) -> u64 {
        self.order.id
    }
}

pub struct Repository<S>(pub S);

impl<S: Display> Repository<S> {
    #[redis_lock(key = "repository:{self.0}:{id}")]
    pub async fn load<I: Display>(&self, id: I) -> Result<Option<&S>, LockError> {
        step().await;
        Ok((!id.to_string().is_empty()).then_some(&self.0))
    }
}

#[allow(async_fn_in_trait)]
pub trait Pay {
    async fn pay(&self, amount: u64) -> Result<u64, LockError>;

    #[redis_lock(key = "default:{amount}")]
    async fn pay_twice(&mut self, amount: u64) -> Result<u64, LockError> {
        self.pay(amount).await?;
        self.pay(amount).await
    }
}

impl Pay for Shop {
    #[redis_lock(key = "pay:{self.order.id}", expire = 1s)]
    async fn pay(&self, amount: u64) -> Result<u64, LockError> {
        step().await;
        Ok(self.order.id + amount)
    }
}

async fn step() {
    std::future::ready(()).await;
}

async fn refused() -> LockError {
    one_line().await.unwrap_err()
}

pub fn refuse(_: LockError) -> Option<u64> {
    None
}

pub fn never<T>(error: LockError) -> T {
    unreachable!("{error}")
}

pub fn never_held() -> u64 {
    unreachable!("held")
}

/// What the attribute that does nothing calls the lease.
pub fn lease() -> Lease {
    unreachable!("this is never run")
}
