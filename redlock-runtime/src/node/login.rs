//! Where user and password come from.

use std::{error::Error, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use redis::ConnectionAddr;
use redlock_protocol::Why;
use tokio::task::JoinSet;

use super::{address::address_text, reason::reason};

/// Where user and password come from.
#[derive(Clone, Debug)]
pub(crate) enum Login {
    Fixed(Option<Credentials>),
    Provided(Provider),
}

/// User and password for a server. `Debug` does not write the password.
///
/// ```
/// use redlock_runtime::Credentials;
///
/// let credentials = Credentials::new("locker", "secret");
/// assert!(!format!("{credentials:?}").contains("secret"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(super) user: Option<Arc<str>>,
    pub(super) password: Arc<str>,
}

/// Asks the application for user and password, with the address of the node.
#[derive(Clone)]
pub(crate) struct Provider(pub(crate) Arc<Provide>);

type Provide = dyn Fn(Arc<str>) -> BoxFuture<'static, Result<Credentials, Box<dyn Error + Send + Sync>>>
    + Send
    + Sync;

impl Credentials {
    /// Makes the credentials of a user in the server's access control list, with its password or token.
    #[must_use]
    pub fn new(user: impl Into<Arc<str>>, password: impl Into<Arc<str>>) -> Self {
        Self {
            user: Some(user.into()),
            password: password.into(),
        }
    }

    /// Makes the credentials of the user `default`, whose password `requirepass` sets.
    #[must_use]
    pub fn password_only(password: impl Into<Arc<str>>) -> Self {
        Self {
            user: None,
            password: password.into(),
        }
    }

    /// Makes the credentials that were given, if any were.
    #[doc(hidden)]
    #[must_use]
    pub fn of(user: Option<&str>, password: Option<&str>) -> Option<Self> {
        match user {
            // One that needs no password: to sign in as another would pass over what was written.
            Some(user) => Some(Self::new(user, password.unwrap_or_default())),
            None => password.map(Self::password_only),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Provider {
    /// In a task of its own: what the application does there, at its end, too, is done while nobody waits
    /// for the node set, and a panic of it is no panic of the engine.
    async fn provide(&self, address: Arc<str>) -> Result<Credentials, Why> {
        let provide = Arc::clone(&self.0);
        // Aborted with this future.
        let mut task = JoinSet::new();
        task.spawn(async move { provide(address).await });
        match task.join_next().await {
            Some(Ok(Ok(credentials))) => Ok(credentials),
            Some(Ok(Err(error))) => Err(reason(&format_args!("no credentials: {error}")).into()),
            Some(Err(error)) if error.is_panic() => {
                Err("no credentials: their provider has panicked".into())
            }
            _ => Err("no credentials: the runtime has ended".into()),
        }
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider")
    }
}

impl Login {
    pub(super) async fn credentials(
        &self,
        address: &ConnectionAddr,
    ) -> Result<Option<Credentials>, Why> {
        match self {
            Self::Fixed(credentials) => Ok(credentials.clone()),
            Self::Provided(provider) => {
                let address = address_text(address).into();
                provider.provide(address).await.map(Some)
            }
        }
    }
}
