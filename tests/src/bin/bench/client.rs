//! One worker's way to lock.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use redlock_runtime::{ConfigError, Redlock};
use rslock::LockManager;
use tokio::runtime::Handle;

use crate::{
    floor::{self, Floor},
    hold::Sections,
    subject::Way,
};

const EXPIRE: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(60);

const PERMITS: u32 = 3;

/// Shorter than the time until a worker comes back to a key.
const AT_LEAST: Duration = Duration::from_millis(10);

/// The pause of the classic client is a random one, at most so long.
const PAUSE: Duration = Duration::from_millis(200);

/// A pause as short as a section.
const SHORT_PAUSE: Duration = Duration::from_millis(8);

/// The connections of one process.
pub(crate) enum Clients {
    Floor(Floor),
    Rslock(LockManager),
    /// Each worker has one of them.
    Ours(Vec<Redlock>, Way),
}

/// What one worker locks with.
pub(crate) enum Client {
    Floor(Box<floor::Worker>),
    Rslock(LockManager),
    Ours(Redlock, Way),
}

/// How long a cycle took, and the wait that it began with.
#[derive(Clone, Copy)]
pub(crate) struct Cycle {
    pub(crate) wait: Duration,
    pub(crate) whole: Duration,
}

impl Clients {
    /// Within the runtime that the callers run on.
    pub(crate) async fn connect(way: Way, urls: &[String]) -> Result<Self, Box<dyn Error>> {
        Ok(match way {
            Way::Floor => Self::Floor(Floor::connect(urls, (Duration::ZERO, PAUSE)).await?),
            Way::FloorTuned => {
                let pauses = (Duration::from_millis(1), SHORT_PAUSE);
                Self::Floor(Floor::connect(urls, pauses).await?)
            }
            Way::Rslock => Self::Rslock(LockManager::new(urls.to_vec())),
            Way::RslockTuned => {
                let mut manager = LockManager::new(urls.to_vec());
                manager.set_retry(u32::MAX, SHORT_PAUSE);
                Self::Rslock(manager)
            }
            ours => {
                let mut engines = Vec::new();
                for _ in 0..ours.engines() {
                    engines.push(redlock(ours, urls).await?);
                }
                Self::Ours(engines, ours)
            }
        })
    }

    pub(crate) fn client(&self, name: String, worker: usize) -> Client {
        match self {
            Self::Floor(floor) => Client::Floor(Box::new(floor.worker(name))),
            Self::Rslock(manager) => Client::Rslock(manager.clone()),
            Self::Ours(engines, way) => Client::Ours(engines[worker % engines.len()].clone(), *way),
        }
    }

    /// Carries out what is left to release, so that it is not counted and not lost.
    pub(crate) async fn finish(self) {
        if let Self::Ours(engines, _) = self {
            for redlock in engines {
                let _ = redlock.shutdown(Duration::from_secs(1)).await;
            }
        }
    }
}

/// The defaults that users get, but servers that have just been started vote at once.
pub(crate) async fn redlock(way: Way, urls: &[String]) -> Result<Redlock, ConfigError> {
    let mut builder = Redlock::builder().nodes(urls).assume_fresh(true);
    if way.is_in_runtime() {
        builder = builder.runtime(Handle::current());
    }
    builder.build().await
}

impl Client {
    /// Acquires `key`, does a section if there is one to do, and releases.
    pub(crate) async fn cycle(
        &mut self,
        key: &str,
        sections: Option<&mut Sections>,
    ) -> Result<Cycle, Box<dyn Error + Send + Sync>> {
        let began = Instant::now();
        let wait = match self {
            Self::Floor(worker) => {
                let held = worker.acquire(key, EXPIRE).await;
                let wait = began.elapsed();
                section(sections).await?;
                worker.release(held).await;
                wait
            }
            Self::Rslock(manager) => {
                let guard = manager.acquire(key, EXPIRE).await?;
                let wait = began.elapsed();
                section(sections).await?;
                guard.release().await;
                wait
            }
            Self::Ours(redlock, way) => {
                let lock = match way {
                    Way::TwoKeys => redlock.lock_all([key, &format!("{key}:2")]),
                    Way::AtLeast => redlock.lock(key).at_least(AT_LEAST),
                    Way::Fair => redlock.lock(key).fair(),
                    Way::Shared => redlock.lock(key).shared(),
                    Way::Permits => redlock.lock(key).permits(PERMITS),
                    _ => redlock.lock(key),
                };
                let lock = lock.expire(EXPIRE).wait(WAIT);
                if way.is_closure() {
                    let body = |_| async move {
                        let wait = began.elapsed();
                        section(sections).await.map(|()| wait)
                    };
                    lock.hold(body).await??
                } else if *way == Way::Blocking {
                    let guard = lock.acquire_blocking()?;
                    let wait = began.elapsed();
                    Handle::current().block_on(guard.release());
                    wait
                } else {
                    let guard = lock.acquire().await?;
                    let wait = began.elapsed();
                    section(sections).await?;
                    guard.release().await;
                    wait
                }
            }
        };
        Ok(Cycle {
            wait,
            whole: began.elapsed(),
        })
    }
}

async fn section(sections: Option<&mut Sections>) -> std::io::Result<()> {
    match sections {
        Some(sections) => sections.section().await,
        None => Ok(()),
    }
}
