//! What the URL of a server may be.

use redis::IntoConnectionInfo;
use url::Url;

use crate::node::Endpoint;

/// A server's URL as it should be.
pub(super) const SERVER: &str = "write it as `redis://host:6379`";

/// A server's URL as it should be, with an address of IP version 6.
pub(super) const SERVER_IPV6: &str = "write it as `redis://[::1]:6379`";

/// The parameters of a `rediss` URL, which are named for the options of `redis-cli`.
pub(super) const TLS_PARAMETERS: &[&str] = &["cacert", "cert", "key", "sni"];

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
    check_database(url.path().trim_matches('/'))
}

pub(super) fn check_database(database: &str) -> Result<(), String> {
    if database.is_empty() || database.parse::<u32>().is_ok() {
        return Ok(());
    }
    Err(
        "the database must be a number from 0, as in `redis://host:6379/0`, and several nodes are \
         several URLs"
            .to_owned(),
    )
}

/// Refuses what would be passed over: `known` are the parameters of such a URL beside those of all.
pub(super) fn check_rest(url: &Url, known: &[&str]) -> Result<(), String> {
    let has_tls = is_tls(url.scheme());
    let is_known = |fragment| has_tls && fragment == "insecure";
    if !url.fragment().is_none_or(is_known) {
        let hint = match has_tls {
            true => "nothing but `insecure` may follow a `#`; in a password, write it as `%23`",
            false => {
                "nothing may follow a `#`; in a password, write it as `%23`, and `#insecure` is for \
                 `rediss`"
            }
        };
        return Err(hint.to_owned());
    }
    let of_tls = if has_tls { TLS_PARAMETERS } else { &[] };
    let known = [known, &["protocol"], of_tls].concat();
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
    match parameter(url, "protocol").as_deref() {
        None | Some("3" | "resp3") => Ok(()),
        Some(_) => Err("`protocol` must be 3".to_owned()),
    }
}

pub(super) fn parameter(url: &Url, name: &str) -> Option<String> {
    let mut pairs = url.query_pairs();
    let found = pairs.find(|(known, _)| known == name);
    found.map(|(_, value)| value.into_owned())
}

/// Whether a URL of this scheme is for TLS.
pub(super) fn is_tls(scheme: &str) -> bool {
    let server = scheme.split('+').next().unwrap_or_default();
    ["rediss", "valkeys"]
        .iter()
        .any(|it| server.eq_ignore_ascii_case(it))
}

/// Where the server is, and user, password and database, without what is said of TLS.
pub(super) fn endpoint(url: &Url) -> Result<Endpoint, String> {
    let mut plain = url.clone();
    if url.has_host() {
        // The driver may not know of TLS, which is not its part here.
        let _ = plain.set_scheme("redis");
        plain.set_query(None);
        plain.set_fragment(None);
    }
    let info = plain.into_connection_info().map_err(|error| {
        // The detail may quote the URL; the kind of error does not.
        let what = error
            .detail()
            .map_or_else(|| error.to_string(), |_| format!("{:?}", error.kind()));
        format!("not the URL of a Redis server ({what}); {SERVER}")
    })?;
    Ok(info.into())
}
