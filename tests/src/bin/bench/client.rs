//! One worker's way to lock.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use distkit::{
    DistkitRedisKey,
    lock::{LockOptions, Mutex},
};
use redis::aio::ConnectionManager;
use redlock_runtime::{ConfigError, Redlock};
use rslock::LockManager;
use tokio::runtime::Handle;

use crate::{
    advisory::{self, Advisory},
    floor::{self, Floor},
    hold::Sections,
    subject::Subject,
};

const EXPIRE: Duration = Duration::from_secs(5);
const WAIT: Duration = Duration::from_secs(60);

const PERMITS: u32 = 3;

/// Shorter than the time until a worker comes back to a key.
const AT_LEAST: Duration = Duration::from_millis(10);

/// The pause of the classic client is a random one, at most so long.
const PAUSE: Duration = Duration::from_millis(200);

/// The connections of one process.
pub(crate) enum Clients {
    Floor(Floor),
    Rslock(LockManager),
    Distkit(ConnectionManager),
    Postgres(Advisory),
    Ours(Redlock, Subject),
}

/// What one worker locks with.
pub(crate) enum Client {
    Floor(Box<floor::Worker>),
    Rslock(LockManager),
    Distkit(ConnectionManager),
    Postgres(advisory::Session),
    Ours(Redlock, Subject),
}

impl Clients {
    /// Within the runtime that the callers run on.
    pub(crate) async fn connect(way: Subject, urls: &[String]) -> Result<Self, Box<dyn Error>> {
        Ok(match way {
            Subject::Floor => Self::Floor(Floor::connect(urls, PAUSE).await?),
            Subject::Rslock => Self::Rslock(LockManager::new(urls.to_vec())),
            Subject::Distkit => {
                let client = redis::Client::open(&*urls[0])?;
                Self::Distkit(client.get_connection_manager().await?)
            }
            Subject::Postgres => Self::Postgres(Advisory::new(&urls[0])),
            ours => Self::Ours(redlock(urls).await?, ours),
        })
    }

    pub(crate) async fn client(&self, name: String) -> Result<Client, Box<dyn Error>> {
        Ok(match self {
            Self::Floor(floor) => Client::Floor(Box::new(floor.worker(name))),
            Self::Rslock(manager) => Client::Rslock(manager.clone()),
            Self::Distkit(connection) => Client::Distkit(connection.clone()),
            Self::Postgres(advisory) => Client::Postgres(advisory.session().await?),
            Self::Ours(redlock, way) => Client::Ours(redlock.clone(), *way),
        })
    }

    /// Carries out what is left to release, so that it is not counted and not lost.
    pub(crate) async fn finish(self) {
        if let Self::Ours(redlock, _) = self {
            let _ = redlock.shutdown(Duration::from_secs(1)).await;
        }
    }
}

/// The defaults that users get, but servers that have just been started vote at once.
pub(crate) async fn redlock(urls: &[String]) -> Result<Redlock, ConfigError> {
    let builder = Redlock::builder().nodes(urls).assume_fresh(true);
    builder.build().await
}

impl Client {
    /// Acquires `key`, does a section if there is one to do, and releases. How long it waited for the lock.
    pub(crate) async fn cycle(
        &mut self,
        key: &str,
        sections: Option<&mut Sections>,
    ) -> Result<Duration, Box<dyn Error + Send + Sync>> {
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
            Self::Distkit(connection) => {
                // It takes no colons.
                let key = DistkitRedisKey::try_from(key.replace(':', "-"))?;
                let options = LockOptions::builder(key, connection.clone());
                let lock = Mutex::new(options.ttl(EXPIRE).max_wait(WAIT).build());
                let guard = lock.lock().await?;
                let wait = began.elapsed();
                section(sections).await?;
                guard.release().await?;
                wait
            }
            Self::Postgres(session) => {
                session.lock(key).await?;
                let wait = began.elapsed();
                section(sections).await?;
                session.unlock(key).await?;
                wait
            }
            Self::Ours(redlock, way) => {
                let lock = match way {
                    Subject::TwoKeys => redlock.lock_all([key, &format!("{key}:2")]),
                    Subject::AtLeast => redlock.lock(key).at_least(AT_LEAST),
                    Subject::Fair => redlock.lock(key).fair(),
                    Subject::Shared => redlock.lock(key).shared(),
                    Subject::Permits => redlock.lock(key).permits(PERMITS),
                    _ => redlock.lock(key),
                };
                let lock = lock.expire(EXPIRE).wait(WAIT);
                if way.is_closure() {
                    let body = |_| async move {
                        let wait = began.elapsed();
                        section(sections).await.map(|()| wait)
                    };
                    lock.hold(body).await??
                } else if *way == Subject::Blocking {
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
        Ok(wait)
    }
}

async fn section(sections: Option<&mut Sections>) -> std::io::Result<()> {
    match sections {
        Some(sections) => sections.section().await,
        None => Ok(()),
    }
}
