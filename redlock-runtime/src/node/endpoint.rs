//! Where a server is, and how to get in.

use std::{
    error::Error,
    fmt,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use redis::{ConnectionAddr, ConnectionInfo, ProtocolVersion};
use redlock_protocol::Instant;
use tokio::task::JoinHandle;

#[cfg(feature = "tls")]
use super::tls::TlsClient;
use super::{lacking::Lacking, reason::reason};

/// Everything that a connection to one server needs. Checked before the engine starts.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: ConnectionAddr,
    /// Who says which server it is, if not the address does.
    pub(crate) sentinels: Option<Arc<Sentinels>>,
    pub(crate) database: i64,
    pub(crate) has_resp3: bool,
    pub(crate) login: Login,
    /// What the server refuses, for those who look after it.
    pub(crate) lacking: Arc<Lacking>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsClient>,
}

/// The sentinels that decide which server is the node.
#[derive(Debug)]
pub(crate) struct Sentinels {
    pub(super) addresses: Vec<ConnectionAddr>,
    /// What they call the master.
    pub(super) name: String,
    pub(super) login: Option<Credentials>,
    /// The master that a majority named last, and since when.
    pub(super) named: Mutex<Option<(Master, Instant)>>,
}

/// A server in one term of office.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Master {
    pub(super) address: ConnectionAddr,
    pub(super) epoch: u64,
}

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
    user: Option<Arc<str>>,
    password: Arc<str>,
}

/// Asks the application for user and password, with the address of the node.
#[derive(Clone)]
pub(crate) struct Provider(Arc<Provide>);

type Provide = dyn Fn(Arc<str>) -> BoxFuture<'static, Result<Credentials, Box<dyn Error + Send + Sync>>>
    + Send
    + Sync;

impl Credentials {
    /// A user of the server's access control list, and the user's password or token.
    #[must_use]
    pub fn new(user: impl Into<Arc<str>>, password: impl Into<Arc<str>>) -> Self {
        Self {
            user: Some(user.into()),
            password: password.into(),
        }
    }

    /// The password of the user `default`, which is what `requirepass` sets.
    #[must_use]
    pub fn password_only(password: impl Into<Arc<str>>) -> Self {
        Self {
            user: None,
            password: password.into(),
        }
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(super) fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Sentinels {
    pub(crate) const fn new(
        addresses: Vec<ConnectionAddr>,
        name: String,
        login: Option<Credentials>,
    ) -> Self {
        Self {
            addresses,
            name,
            login,
            named: Mutex::new(None),
        }
    }
}

impl fmt::Display for Master {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&address_text(&self.address))
    }
}

impl Provider {
    pub(crate) fn new<F, R, E>(provide: F) -> Self
    where
        F: Fn(Arc<str>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move |address| {
            let provided = provide(address);
            Box::pin(async move { provided.await.map_err(Into::into) })
        }))
    }

    /// In a task of its own: what the application does there, at its end, too, is done while nobody waits
    /// for the node set, and a panic of it is no panic of the engine.
    async fn provide(&self, address: Arc<str>) -> Result<Credentials, Arc<str>> {
        let provide = Arc::clone(&self.0);
        let mut task = AbortOnDrop(tokio::spawn(async move { provide(address).await }));
        match (&mut task.0).await {
            Ok(Ok(credentials)) => Ok(credentials),
            Ok(Err(error)) => Err(reason(&format_args!("no credentials: {error}"))),
            Err(error) if error.is_panic() => {
                Err("no credentials: their provider has panicked".into())
            }
            Err(_) => Err("no credentials: the runtime has ended".into()),
        }
    }
}

pub(super) struct AbortOnDrop<T>(pub(super) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
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
    ) -> Result<Option<Credentials>, Arc<str>> {
        match self {
            Self::Fixed(credentials) => Ok(credentials.clone()),
            Self::Provided(provider) => {
                let address = address_text(address).into();
                provider.provide(address).await.map(Some)
            }
        }
    }
}

/// Without TLS.
impl From<ConnectionInfo> for Endpoint {
    fn from(info: ConnectionInfo) -> Self {
        let settings = info.redis_settings();
        let credentials = settings.password().map(|password| Credentials {
            user: settings.username().map(Arc::from),
            password: password.into(),
        });
        Self {
            address: info.addr().clone(),
            sentinels: None,
            database: settings.db(),
            has_resp3: settings.protocol() != ProtocolVersion::RESP2,
            login: Login::Fixed(credentials),
            lacking: Arc::default(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// As it stands in a URL: the driver leaves out the brackets of an IPv6 address.
pub(crate) fn address_text(of: &ConnectionAddr) -> String {
    match of {
        ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        other => other.to_string(),
    }
}
