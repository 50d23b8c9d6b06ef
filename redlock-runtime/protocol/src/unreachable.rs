//! Why there is no connection to a node.

use std::{fmt, sync::Arc};

/// Why a node cannot be reached: the kind for programs, the text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// What kind of failure it is.
    pub kind: WhyKind,
    /// In the words of the server, the operating system or rustls.
    pub text: Arc<str>,
}

/// The kinds of failures that there is advice for.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyKind {
    /// The name of the host has no address.
    Lookup,
    /// Nothing listens there.
    Refused,
    /// The server closed the connection.
    Closed,
    /// No connection was made in time.
    TimedOut,
    /// What listens there does not speak the protocol.
    NotRedis,
    /// It is older than Redis 6.2, or a proxy without RESP3.
    TooOld,
    /// The user or the password is wrong, or the user lacks a right.
    Denied,
    /// There is no such database.
    Database,
    /// Sentinels or a cluster name another server than before, and others may still use that one.
    HandingOver,
    /// The issuer of the server's certificate is not known.
    TlsIssuer,
    /// The server's certificate is for another name.
    TlsName,
    /// The server's certificate is not valid at this time.
    TlsTime,
    /// The server wants a client certificate.
    TlsClientCertificate,
    /// The server refuses the client.
    TlsRefused,
    /// What listens there does not speak TLS.
    TlsHandshake,
    /// Another failure.
    Other,
}

impl Why {
    /// A failure of this kind.
    #[must_use]
    pub fn new(kind: WhyKind, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        Self { kind, text }
    }
}

impl<T: Into<Arc<str>>> From<T> for Why {
    fn from(text: T) -> Self {
        Self::new(WhyKind::Other, text)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
