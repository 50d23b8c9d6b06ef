//! What the URL of a server may be.

use std::borrow::Cow;

use redis::IntoConnectionInfo;
use url::Url;

use crate::node::Endpoint;

/// A server's URL as it should be.
pub(super) const SERVER: &str = "write it as `redis://host:6379`";

/// The same with an address of IP version 6.
pub(super) const SERVER_IPV6: &str = "write it as `redis://[::1]:6379`";

pub(super) fn check_host(url: &Url) -> Result<(), String> {
    let host = url.host_str().unwrap_or_default();
    if host.is_empty() {
        return Err(format!("the URL names no host; {SERVER}"));
    }
    if matches!(host, "0.0.0.0" | "[::]") {
        return Err(format!(
            "`{host}` stands for all addresses of a machine and is none to connect to; name the \
             server, as in `redis://127.0.0.1:6379`"
        ));
    }
    let is_of_a_name =
        |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
    let is_address = host.starts_with('[');
    if !is_address && !host.chars().all(is_of_a_name) {
        return Err(format!(
            "the host contains characters that host names do not have; {SERVER}, one URL for each \
             node"
        ));
    }
    if url.port() == Some(0) {
        return Err(format!("no server has port 0; {SERVER}"));
    }
    check_database(url.path().trim_matches('/').into())
}

pub(super) fn check_database(database: Cow<'_, str>) -> Result<(), String> {
    if database.is_empty() || database.parse::<u32>().is_ok() {
        return Ok(());
    }
    Err(
        "the database must be a number from 0, as in `redis://host:6379/0`, and several nodes are \
         several URLs"
            .to_owned(),
    )
}

/// Refuses what would be passed over.
pub(super) fn check_rest(url: &Url, known: &[&str]) -> Result<(), String> {
    match url.fragment() {
        Some("insecure") if is_tls(url) => {}
        Some(_) if is_tls(url) => {
            return Err(
                "nothing but `insecure` may follow a `#`; in a password, write it as `%23`"
                    .to_owned(),
            );
        }
        Some(_) => {
            return Err(
                "nothing may follow a `#`; in a password, write it as `%23`, and `#insecure` is for \
                 `rediss`"
                    .to_owned(),
            );
        }
        None => {}
    }
    let mut given: Vec<_> = url.query_pairs().map(|(name, _)| name).collect();
    if given.iter().any(|name| !known.contains(&&**name)) {
        let known = known.join("`, `");
        return Err(format!(
            "unknown parameter; those of such a URL are `{known}`"
        ));
    }
    given.sort();
    if given.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("a parameter is given twice".to_owned());
    }
    let mut pairs = url.query_pairs();
    match pairs.find(|(name, _)| name == "protocol") {
        Some((_, protocol)) if !matches!(&*protocol, "3" | "resp3") => {
            Err("`protocol` must be 3".to_owned())
        }
        _ => Ok(()),
    }
}

fn is_tls(url: &Url) -> bool {
    matches!(url.scheme(), "rediss" | "valkeys")
}

/// Why a URL of this scheme is refused without the feature.
pub(super) fn needs_tls(scheme: &str) -> String {
    format!("`{scheme}` needs the feature `tls` of redlock-runtime")
}

pub(super) fn endpoint(url: &Url) -> Result<Endpoint, String> {
    let info = url.clone().into_connection_info().map_err(|error| {
        // The detail may quote the URL; the kind of error does not.
        let what = error
            .detail()
            .map_or_else(|| error.to_string(), |_| format!("{:?}", error.kind()));
        format!("not the URL of a Redis server ({what}); {SERVER}")
    })?;
    Ok(info.into())
}
