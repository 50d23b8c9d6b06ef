//! What operators read about a failure, and what kind of failure it is.

use std::{
    fmt::{self, Display, Write as _},
    io,
    sync::Arc,
};

use redis::ServerError;
use redlock_protocol::{Rejection, Why, WhyKind};
#[cfg(feature = "tls")]
use rustls::{AlertDescription, CertificateError, Error};

/// So many characters of what a server, the operating system or the application says.
const LONGEST_REASON: usize = 300;

/// How a server refuses a command within a script for want of rights: Redis 7.0, and later ones. The
/// scripts undo what they have done before it.
const NO_RIGHT: [&str; 2] = [
    "The user executing the script can't",
    "ACL failure in script",
];

/// On one line. No more of it is looked at than is shown: a server that lies may lie at length.
pub(crate) fn reason(error: &dyn Display) -> Arc<str> {
    let mut line = Line {
        text: String::new(),
        left: LONGEST_REASON,
    };
    // Fails only in order to stop.
    let _ = write!(line, "{error}");
    line.text.trim_end().into()
}

/// Keeps this number of characters, and then fails.
struct Line {
    text: String,
    left: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let is_space = character.is_whitespace();
            if is_space && (self.text.is_empty() || self.text.ends_with(' ')) {
                continue;
            }
            if self.left == 0 {
                self.text.push('…');
                return Err(fmt::Error);
            }
            self.left -= 1;
            self.text.push(if is_space { ' ' } else { character });
        }
        Ok(())
    }
}

/// Of an error of the operating system, or of rustls, which hands its own on in such a one.
pub(super) fn of_io(error: &io::Error) -> Why {
    use io::ErrorKind;
    #[cfg(feature = "tls")]
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return Why::new(of_tls(error), reason(error));
    }
    let kind = match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => WhyKind::Refused,
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => WhyKind::Closed,
        ErrorKind::TimedOut => WhyKind::TimedOut,
        _ => WhyKind::Other,
    };
    Why::new(kind, reason(error))
}

#[cfg(feature = "tls")]
const fn of_tls(error: &Error) -> WhyKind {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => WhyKind::TlsIssuer,
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => WhyKind::TlsName,
        Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => WhyKind::TlsTime,
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            WhyKind::TlsClientCertificate
        }
        Error::AlertReceived(_) => WhyKind::TlsRefused,
        Error::InvalidMessage(_) => WhyKind::TlsHandshake,
        _ => WhyKind::Other,
    }
}

/// Returns why a server is of no use that replies with this error.
pub fn of_server(error: &ServerError) -> Why {
    let kind = match rejection(error) {
        Rejection::NoPermission | Rejection::NotAuthenticated => WhyKind::Denied,
        _ if error.code() == "WRONGPASS" => WhyKind::Denied,
        _ => WhyKind::Other,
    };
    Why::new(kind, reason(error))
}

/// The code of an error, `ERR` if it has none, and its text. Redis 6.2 begins both with the place in the script: `ERR
/// Error running script (call to f_6b1b): @user_script:7: @user_script: 7: -OOM command not allowed`.
pub(super) fn parts(error: &ServerError) -> (&str, &str) {
    let (code, detail) = (error.code(), error.details().unwrap_or_default());
    let place = match code {
        "@user_script:" => Some(detail),
        _ => detail.rsplit_once("user_script:").map(|(_, it)| it),
    };
    let Some((_, said)) = place.and_then(|it| it.split_once(": ")) else {
        return (code, detail);
    };
    let said = said.trim_start_matches('-');
    let is_code = |word: &str| word.bytes().all(|it| it.is_ascii_uppercase());
    let coded = said.split_once(' ').filter(|(word, _)| is_code(word));
    coded.unwrap_or(("ERR", said))
}

/// Returns what is wrong, by the code of an error. Nothing was written, unless it is an unknown command of a script, or
/// another error.
pub fn rejection(error: &ServerError) -> Rejection {
    let (code, detail) = parts(error);
    match code {
        "OOM" => Rejection::OutOfMemory,
        "MASTERDOWN" | "READONLY" => Rejection::ReadOnly,
        "NOREPLICAS" => Rejection::TooFewReplicas,
        "MISCONF" => Rejection::CannotSave,
        "NOPERM" => Rejection::NoPermission,
        "NOAUTH" => Rejection::NotAuthenticated,
        "BUSY" => Rejection::Busy,
        "LOADING" => Rejection::Loading,
        "REDLOCK" => Rejection::Counter,
        "WRONGTYPE" => Rejection::Key,
        "ASK" | "CLUSTERDOWN" | "CROSSSLOT" | "MOVED" | "TRYAGAIN" => Rejection::InCluster,
        _ if NO_RIGHT.iter().any(|text| detail.starts_with(text)) => Rejection::NoPermission,
        _ if detail.starts_with("unknown command") || detail.starts_with("unknown subcommand") => {
            Rejection::UnknownCommand
        }
        _ => Rejection::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_short_line() {
        assert_eq!(&*reason(&"no\r\n way"), "no way");
        let long = reason(&"x".repeat(1 << 20));
        assert_eq!(long.chars().count(), LONGEST_REASON + 1);
    }
}
