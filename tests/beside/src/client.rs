//! A client of one library: takes the lock, runs a body, and prints what became of it.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    time::{Duration, Instant},
};

use distributed_lock_core::traits::{DistributedLock, LockHandle, LockProvider};
use distributed_lock_redis::RedisLockProvider;
use redlock_runtime::{LockError, Redlock};
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};

pub(crate) const LEASE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Library {
    Rslock,
    Distkit,
    DistributedLock,
    Guard,
    Closure,
}

impl Library {
    pub(crate) const ALL: [Self; 5] = [
        Self::Rslock,
        Self::Distkit,
        Self::DistributedLock,
        Self::Guard,
        Self::Closure,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rslock => "rslock, `using`",
            Self::Distkit => "distkit, one server",
            Self::DistributedLock => "distributed-lock",
            Self::Guard => "redlock-runtime, guard",
            Self::Closure => "redlock-runtime, closure",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|library| library.name() == name);
        found.expect("a library")
    }

    pub(crate) fn has_one_server(self) -> bool {
        self == Self::Distkit
    }
}

pub(crate) struct Body {
    name: String,
    lines: File,
    hold: Duration,
}

impl Body {
    pub(crate) fn new(name: &str, lines: &str, hold: Duration) -> Self {
        let lines = OpenOptions::new().append(true).open(lines).expect("a file");
        Self {
            name: name.to_owned(),
            lines,
            hold,
        }
    }

    /// The client has connected, and waits for its sign.
    async fn ready(&self) {
        println!("ready");
        let sign = spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
        sign.await.expect("no panic").expect("a line");
    }

    /// Writes until the time is over, or until it is dropped.
    async fn run(&self) {
        let end = Instant::now() + self.hold;
        self.write();
        println!("begun");
        while Instant::now() < end {
            sleep(Duration::from_millis(5)).await;
            self.write();
        }
    }

    fn write(&self) {
        let line = format!("{} {}\n", self.name, crate::now());
        (&self.lines).write_all(line.as_bytes()).expect("a line");
    }
}

const KEY: &str = "order";

pub(crate) fn run(library: Library, urls: &str, wait: Duration, body: Body) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = runtime.expect("a runtime").block_on(async {
        let urls: Vec<&str> = urls.split(',').collect();
        let outcome = match library {
            Library::Rslock => rslock(&urls, &body).await,
            Library::Distkit => distkit(urls[0], wait, &body).await,
            Library::DistributedLock => distributed_lock(&urls, wait, &body).await,
            Library::Guard => ours(&urls, wait, &body, false).await,
            Library::Closure => ours(&urls, wait, &body, true).await,
        };
        outcome.unwrap_or_else(name)
    });
    println!("ended {outcome}");
}

/// The name of a variant, without what is in it.
fn name(value: impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    let text = text.trim_start_matches("LockError(");
    let end = text.find(['(', ')', ' ', '{']).unwrap_or(text.len());
    format!("`{}`", &text[..end])
}

/// What the call returned at its end.
type Outcome = Result<String, Box<dyn std::error::Error>>;

async fn rslock(urls: &[&str], body: &Body) -> Outcome {
    let manager = rslock::LockManager::new(urls.to_vec());
    body.ready().await;
    let section = manager.using(KEY.as_bytes(), LEASE, async || body.run().await);
    section.await?;
    Ok("`Ok`".to_owned())
}

async fn distkit(url: &str, wait: Duration, body: &Body) -> Outcome {
    let connection = redis::Client::open(url)?.get_connection_manager().await?;
    let key = distkit::DistkitRedisKey::try_from(KEY.to_owned())?;
    let options = distkit::lock::LockOptions::builder(key, connection);
    let options = options.ttl(LEASE).max_wait(wait).build();
    let lock = distkit::lock::Mutex::new(options);
    body.ready().await;
    let start = Instant::now();
    let guard = loop {
        match lock.lock().await {
            Ok(guard) => break guard,
            Err(error) if start.elapsed() >= wait => return Err(error.into()),
            // The connection of before the accident.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    };
    body.run().await;
    Ok(name(guard.release().await?))
}

/// It makes one attempt at a time, so this repeats it.
async fn distributed_lock(urls: &[&str], wait: Duration, body: &Body) -> Outcome {
    let builder = RedisLockProvider::builder().urls(urls).expiry(LEASE);
    let builder = builder.min_validity(LEASE * 9 / 10);
    let provider = builder.extension_cadence(LEASE / 3).build().await?;
    let lock = provider.create_lock(KEY);
    body.ready().await;
    let start = Instant::now();
    let handle = loop {
        match lock.acquire(Some(LEASE)).await {
            Ok(handle) => break handle,
            Err(error) if start.elapsed() >= wait => return Err(error.into()),
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    };
    body.run().await;
    let lost = *handle.lost_token().borrow();
    // A release may wait without limit for a server that is gone.
    let released = timeout(2 * LEASE, handle.release()).await;
    released.unwrap_or(Ok(()))?;
    Ok(if lost { "`Ok`, `lost_token`" } else { "`Ok`" }.to_owned())
}

async fn ours(urls: &[&str], wait: Duration, body: &Body, cuts_off: bool) -> Outcome {
    let redlock = Redlock::builder().nodes(urls.iter().copied()).build();
    let redlock = redlock.await?;
    body.ready().await;
    let lock = redlock.lock(KEY).expire(LEASE).renew().wait(wait);
    let failed = |error| match error {
        LockError::Contended(_) => "`Contended`",
        LockError::NoQuorum(_) => "`NoQuorum`",
        LockError::Quarantined(_) => "`Quarantined`",
        LockError::Lost(_) => "`Lost`",
        LockError::Expired(_) => "`Expired`",
        _ => "another error",
    };
    if cuts_off {
        let held = lock.hold(async |_lease| body.run().await).await;
        return Ok(held.map_or_else(failed, |()| "`Ok`").to_owned());
    }
    let guard = match lock.acquire().await {
        Ok(guard) => guard,
        Err(error) => return Ok(failed(error).to_owned()),
    };
    body.run().await;
    let held = guard.is_held();
    Ok(format!("{}, `is_held` {held}", name(guard.release().await)))
}
