//! What an address is called.

use redis::ConnectionAddr;

/// As it stands in a URL: the driver leaves out the brackets of an IPv6 address.
pub(crate) fn address_text(of: &ConnectionAddr) -> String {
    match of {
        ConnectionAddr::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        other => other.to_string(),
    }
}
