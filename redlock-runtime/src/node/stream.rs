//! A way to a server: TCP, TLS or a socket of the file system.

use std::io;

use futures_util::future::select_ok;
use redis::ConnectionAddr;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};

/// Whatever carries bytes to a server and back.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(super) async fn connect(address: &ConnectionAddr) -> io::Result<Box<dyn Stream>> {
    match address {
        ConnectionAddr::Tcp(host, port) => Ok(Box::new(tcp(host, *port).await?)),
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            ..
        } => Ok(Box::new(tls(host, *port).await?)),
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => Ok(Box::new(tokio::net::UnixStream::connect(path).await?)),
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kind of address is not supported here",
        )),
    }
}

/// Tries all addresses of a host at once: one that does not answer keeps nobody from the others.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses: Vec<_> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the host has no address",
        ));
    }
    let attempts = addresses.into_iter().map(TcpStream::connect).map(Box::pin);
    let (stream, _) = select_ok(attempts).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(feature = "tls")]
async fn tls(host: &str, port: u16) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    use std::sync::Arc;

    use rustls::{ClientConfig, RootCertStore, crypto, pki_types::ServerName};

    // First, so that a node that is down costs no reading of certificates at each attempt.
    let socket = tcp(host, port).await?;
    // Without a choice rustls panics where an application's other crates bring several providers or
    // none.
    if crypto::CryptoProvider::get_default().is_none() {
        // Somebody else has been faster, which is as good.
        let _ = crypto::ring::default_provider().install_default();
    }
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let mut roots = RootCertStore::empty();
    let mut found = rustls_native_certs::load_native_certs();
    if let Some(error) = found.errors.pop() {
        return Err(io::Error::other(error));
    }
    for certificate in found.certs {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, socket).await
}
