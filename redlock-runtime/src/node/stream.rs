//! A way to a server: TCP, TLS or a socket of the file system.

use std::io;

use futures_util::future::select_ok;
use redis::ConnectionAddr;
use redlock_protocol::{Why, WhyKind};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};

use super::{
    endpoint::Endpoint,
    reason::{of_io, reason},
};

/// Whatever carries bytes to a server and back.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A way to a server at this address, over TLS if the endpoint has it.
pub(super) async fn to(
    #[cfg_attr(not(feature = "tls"), expect(unused_variables))] endpoint: &Endpoint,
    address: &ConnectionAddr,
) -> Result<Box<dyn Stream>, Why> {
    #[cfg(feature = "tls")]
    if let (ConnectionAddr::Tcp(host, port), Some(tls)) = (address, &endpoint.tls) {
        let socket = tcp(host, *port).await?;
        return Ok(Box::new(tls.connect(host, socket).await?));
    }
    match address {
        ConnectionAddr::Tcp(host, port) => Ok(Box::new(tcp(host, *port).await?)),
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await;
            Ok(Box::new(stream.map_err(|error| of_io(&error))?))
        }
        _ => Err("this kind of address is not supported here".into()),
    }
}

/// Of each socket: how long it is idle before the kernel looks after the other end.
#[cfg(any(target_os = "linux", target_os = "android"))]
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(15);

/// Tries all addresses of a host at once: one that does not answer delays no connection to the others.
async fn tcp(host: &str, port: u16) -> Result<TcpStream, Why> {
    let found = lookup_host((host, port)).await;
    let found = found.map_err(|error| Why::new(WhyKind::Lookup, reason(&error)))?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() {
        return Err(Why::new(WhyKind::Lookup, "the host has no address"));
    }
    let attempts = addresses.into_iter().map(TcpStream::connect).map(Box::pin);
    let connected = select_ok(attempts).await;
    let (stream, _) = connected.map_err(|error| of_io(&error))?;
    set_options(&stream).map_err(|error| of_io(&error))?;
    Ok(stream)
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Requests in their interval tell more of a server; the kernel also keeps connections to Sentinels.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl};
        set_socket_keepalive(stream, true)?;
        set_tcp_keepidle(stream, KEEPALIVE)?;
        set_tcp_keepintvl(stream, KEEPALIVE)?;
    }
    Ok(())
}
