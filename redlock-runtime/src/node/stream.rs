//! A way to a server: TCP, TLS or a socket of the file system.

use futures_util::future::select_ok;
use redis::ConnectionAddr;
use redlock_protocol::{Why, WhyKind};
use tokio::net::{TcpStream, lookup_host};

use super::{
    carrier::Stream,
    endpoint::Endpoint,
    reason::{of_io, reason},
    sockets::Seat,
};

/// A way to a server at this address, over TLS if the endpoint has it; in a `seat` it belongs to no runtime.
pub(super) async fn to(
    #[cfg_attr(not(feature = "tls"), expect(unused_variables))] endpoint: &Endpoint,
    address: &ConnectionAddr,
    seat: Option<&Seat>,
) -> Result<Box<dyn Stream>, Why> {
    let socket = match address {
        ConnectionAddr::Tcp(host, port) => tcp(host, *port).await?.into_std(),
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await;
            let stream = stream.and_then(tokio::net::UnixStream::into_std);
            // It is used in the same ways.
            stream.map(|stream| std::os::fd::OwnedFd::from(stream).into())
        }
        _ => return Err("this kind of address is not supported here".into()),
    };
    let stream = socket.and_then(|socket| match seat {
        Some(seat) => seat.hold(socket),
        None => Ok(Box::new(TcpStream::from_std(socket)?)),
    });
    let stream = stream.map_err(|error| of_io(&error))?;
    #[cfg(feature = "tls")]
    if let (ConnectionAddr::Tcp(host, _), Some(tls)) = (address, &endpoint.tls) {
        return Ok(Box::new(tls.connect(host, stream).await?));
    }
    Ok(stream)
}

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
    stream.set_nodelay(true).map_err(|error| of_io(&error))?;
    Ok(stream)
}
