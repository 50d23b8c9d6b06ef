//! Where a server is, and how to get in.

use std::sync::{Arc, Mutex};

use redis::{ConnectionAddr, ConnectionInfo};

#[cfg(feature = "tls")]
use super::tls::TlsClient;
use super::{
    discovery::source::Discovery,
    login::{Credentials, Login},
};

use crate::limitation::Limitation;

/// Everything that a connection to one server needs. Checked before the engine starts.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: ConnectionAddr,
    /// How it is found out which server it is, if not the address says it.
    pub(crate) discovery: Option<Arc<Discovery>>,
    /// What all keys begin with: the hash tag of a node that is the owner of a slot.
    pub(crate) tag: Arc<str>,
    pub(crate) database: i64,
    pub(crate) login: Login,
    /// What the server refuses, for those who look after it.
    pub(crate) lacking: Arc<Mutex<Vec<Limitation>>>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsClient>,
}

impl Endpoint {
    /// The hosts that its URL names.
    #[cfg(feature = "tls")]
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        let seeds = self.discovery.iter().flat_map(|it| &it.seeds);
        let addresses = seeds.chain([&self.address]);
        addresses.filter_map(|address| match address {
            ConnectionAddr::Tcp(host, _) => Some(host.as_str()),
            _ => None,
        })
    }

    pub(super) const fn has_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// Without TLS.
impl From<ConnectionInfo> for Endpoint {
    fn from(info: ConnectionInfo) -> Self {
        let settings = info.redis_settings();
        let credentials = Credentials::of(settings.username(), settings.password());
        Self {
            address: info.addr().clone(),
            discovery: None,
            tag: "".into(),
            database: settings.db(),
            login: Login::Fixed(credentials),
            lacking: Arc::default(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}
