//! What a TLS connection to a server begins with.

use std::{fmt, io, sync::Arc};

use redlock_protocol::{Why, WhyKind};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::task::spawn_blocking;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{carrier::Stream, reason::of_io};

/// How TLS is spoken with a server.
#[derive(Clone)]
pub(crate) struct TlsClient {
    pub(crate) config: TlsConfig,
    /// What the certificate must be for, and what the server is told to whom the client wants to speak, in
    /// place of the host.
    pub(crate) name: Option<ServerName<'static>>,
    /// Any certificate is accepted.
    pub(crate) is_insecure: bool,
}

/// Certificates and keys as they are now: they may be renewed while the process runs. May read files.
type TlsConfig = Arc<dyn Fn() -> Result<ClientConfig, Arc<str>> + Send + Sync>;

impl TlsClient {
    pub(super) async fn connect(
        &self,
        host: &str,
        socket: Box<dyn Stream>,
    ) -> Result<TlsStream<Box<dyn Stream>>, Why> {
        let config = Arc::clone(&self.config);
        // Nothing is read from disk on the engine's thread.
        let config = spawn_blocking(move || config()).await;
        let config = config.map_err(|_| "the runtime has ended")??;
        let name = match &self.name {
            Some(name) => name.clone(),
            None => server_name(host).ok_or(NO_NAME)?,
        };
        let connector = TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, socket).await;
        stream.map_err(|error| in_handshake(&error))
    }
}

const NO_NAME: &str = "no certificate can be for the server's name";

/// What a certificate can be for.
pub(crate) fn server_name(host: &str) -> Option<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).ok()
}

/// A server without TLS often closes the connection, which by itself tells nothing of TLS.
fn in_handshake(error: &io::Error) -> Why {
    match of_io(error) {
        // By rustls, which says what is wrong.
        why if error.kind() == io::ErrorKind::InvalidData => why,
        why => Why::new(WhyKind::TlsHandshake, format!("TLS handshake: {why}")),
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
