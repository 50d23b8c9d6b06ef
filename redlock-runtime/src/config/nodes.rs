//! The nodes of a set: what their URLs may be, and what is wrong with others.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use redis::{ConnectionAddr, IntoConnectionInfo, ProtocolVersion};
use url::Url;

use super::problem::ConfigProblem;
use crate::node::{Memory, Target, with_protocol};

/// More nodes do not make a lock safer, only slower; and a typo that names hundreds is caught.
const MOST_NODES: usize = 32;

/// A server's URL as it should be.
const SERVER: &str = "write it as `redis://host:6379`";

/// The same with an address of IP version 6.
const SERVER_IPV6: &str = "write it as `redis://[::1]:6379`";

/// The URL of a socket as it should be.
const SOCKET: &str = "write it as `unix:///run/redis.sock`, with three slashes";

/// The URL of a memory node as it should be.
const MEMORY: &str = "write it as `memory://a`";

/// One node of a set: where it is, and what it is called where passwords must not appear.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) address: Arc<str>,
    pub(crate) target: Target,
}

impl Node {
    /// True if it is a store in this process.
    pub(crate) const fn is_memory(&self) -> bool {
        !matches!(self.target, Target::Redis(_))
    }

    /// True if it is a store that fails on demand.
    #[cfg(feature = "test-util")]
    pub(crate) const fn is_faulty(&self) -> bool {
        matches!(self.target, Target::Faulty(_))
    }
}

/// Reads the URLs of a node set; every bad one is a problem of its own.
pub(crate) fn parse_nodes(urls: &[String], servers_only: bool) -> (Vec<Node>, Vec<ConfigProblem>) {
    let mut nodes = Vec::new();
    let mut problems = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (index, url) in urls.iter().enumerate() {
        match parse_node(url) {
            Ok(node) => {
                if let Some(&first) = known.get(&*node.address) {
                    problems.push(ConfigProblem::DuplicateNode {
                        first,
                        second: index,
                        address: node.address.to_string(),
                    });
                } else {
                    known.insert(node.address.to_string(), index);
                }
                nodes.push(node);
            }
            Err(reason) => problems.push(ConfigProblem::BadNode { index, reason }),
        }
    }
    let of_kind = |is_memory: bool| {
        let found = nodes.iter().find(|node| node.is_memory() == is_memory);
        found.map(|node| node.address.to_string())
    };
    match (of_kind(true), of_kind(false)) {
        (Some(memory), _) if servers_only => {
            problems.push(ConfigProblem::ServersRequired { memory });
        }
        (Some(memory), Some(server)) => {
            problems.push(ConfigProblem::MixedNodes { memory, server });
        }
        _ => {}
    }
    problems.extend(count_problem(urls.len()));
    (nodes, problems)
}

/// The problem with a number of nodes.
pub(crate) fn count_problem(count: usize) -> Option<ConfigProblem> {
    match count {
        0 => Some(ConfigProblem::NoNodes),
        _ if count > MOST_NODES => Some(ConfigProblem::TooManyNodes {
            count,
            most: MOST_NODES,
        }),
        _ => None,
    }
}

/// The reasons quote nothing of the URL but its scheme: what is malformed may well be the password.
fn parse_node(text: &str) -> Result<Node, String> {
    let url = Url::parse(text.trim()).map_err(|error| not_a_url(text, error))?;
    match url.scheme() {
        "memory" => memory_node(&url),
        "rediss" | "valkeys" if !cfg!(feature = "tls") => {
            Err(format!("`{}` needs the feature `tls`", url.scheme()))
        }
        "redis" | "rediss" | "valkey" | "valkeys" => tcp_node(&url),
        "unix" | "redis+unix" | "valkey+unix" => unix_node(&url),
        "redis-sentinel" | "sentinel" => Err(
            "Sentinels are not asked; name the servers that they watch, each with its own URL \
             `redis://host:6379`"
                .to_owned(),
        ),
        scheme => Err(format!(
            "unknown scheme `{scheme}`; the schemes are `redis`, `rediss` (over TLS), `unix` and \
             `memory`, as in `redis://host:6379`"
        )),
    }
}

fn not_a_url(text: &str, error: url::ParseError) -> String {
    use url::ParseError as Error;
    let what = match error {
        Error::EmptyHost => "the URL names no host",
        Error::InvalidPort => "the port must be a number up to 65535",
        Error::InvalidIpv6Address => return format!("not an IPv6 address; {SERVER_IPV6}"),
        Error::RelativeUrlWithoutBase => "not a URL, because the scheme is missing",
        error => return format!("not a URL ({error}); {SERVER}"),
    };
    // A password with one of these characters ends there, and what is before it is read as host and
    // port.
    let hint = match text.contains('@') {
        true => "; in a password, write `/` as `%2F`, `?` as `%3F` and `#` as `%23`",
        false => "",
    };
    format!("{what}; {SERVER}{hint}")
}

fn memory_node(url: &Url) -> Result<Node, String> {
    let name = url.host_str().unwrap_or_default();
    if name.is_empty() {
        return Err(format!("a memory node needs a name; {MEMORY}"));
    }
    // Two URLs that differ in these would be one store.
    let is_bare = matches!(url.path(), "" | "/")
        && url.username().is_empty()
        && url.password().is_none()
        && url.port().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_bare {
        return Err(format!(
            "a memory node has a name and nothing else; {MEMORY}"
        ));
    }
    Ok(Node {
        address: format!("memory://{name}").into(),
        target: Target::Memory(Memory::named(name)),
    })
}

fn tcp_node(url: &Url) -> Result<Node, String> {
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
    check_database(url.path().trim_matches('/').into())?;
    check_rest(url, &["protocol"])?;
    server_node(url)
}

fn unix_node(url: &Url) -> Result<Node, String> {
    // The host of `unix://run/redis.sock` would be lost.
    if url.has_host() || matches!(url.path(), "" | "/") || url.cannot_be_a_base() {
        return Err(format!("the URL names no path of a socket; {SOCKET}"));
    }
    let database = url.query_pairs().find(|(name, _)| name == "db");
    check_database(database.map_or_else(|| "".into(), |(_, database)| database))?;
    check_rest(url, &["db", "user", "pass", "protocol"])?;
    server_node(url)
}

fn check_database(database: Cow<'_, str>) -> Result<(), String> {
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
fn check_rest(url: &Url, known: &[&str]) -> Result<(), String> {
    if url.fragment().is_some() {
        return Err(
            "nothing may follow a `#`; in a password, write it as `%23`, and certificates are always \
             verified"
                .to_owned(),
        );
    }
    if url.query_pairs().any(|(name, _)| !known.contains(&&*name)) {
        let known = known.join("`, `");
        return Err(format!(
            "unknown parameter; those of such a URL are `{known}`"
        ));
    }
    let mut pairs = url.query_pairs();
    match pairs.find(|(name, _)| name == "protocol") {
        Some((_, protocol)) if !matches!(&*protocol, "2" | "3" | "resp2" | "resp3") => {
            Err("`protocol` must be 2 or 3".to_owned())
        }
        _ => Ok(()),
    }
}

fn server_node(url: &Url) -> Result<Node, String> {
    let info = url.clone().into_connection_info().map_err(|error| {
        // The detail may quote the URL; the kind of error does not.
        let what = error
            .detail()
            .map_or_else(|| error.to_string(), |_| format!("{:?}", error.kind()));
        format!("not the URL of a Redis server ({what}); {SERVER}")
    })?;
    let says_protocol = url.query_pairs().any(|(name, _)| name == "protocol");
    let info = if says_protocol {
        info
    } else {
        with_protocol(info, ProtocolVersion::RESP3)
    };
    Ok(Node {
        address: address(info.addr()).into(),
        target: Target::Redis(Box::new(info)),
    })
}

/// As it stands in a URL: the driver leaves out the brackets of an IPv6 address.
fn address(of: &ConnectionAddr) -> String {
    match of {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. }
            if host.contains(':') =>
        {
            format!("[{host}]:{port}")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// URLs that are no nodes, and what the reason must say.
    const BAD: &[(&str, &str)] = &[
        ("", "the scheme is missing; write it as `redis://host:6379`"),
        ("10.0.0.1:6379", "the scheme is missing"),
        ("\"redis://host\"", "the scheme is missing"),
        ("localhost:6379", "unknown scheme `localhost`"),
        ("http://host:6379", "unknown scheme `http`"),
        ("redis+tls://host", "`rediss` (over TLS)"),
        (
            "redis-sentinel://host:26379",
            "name the servers that they watch",
        ),
        ("redis:/x", "names no host; write it as `redis://host:6379`"),
        ("redis:x", "names no host; write it as `redis://host:6379`"),
        ("redis://", "names no host; write it as `redis://host:6379`"),
        (
            "redis:///0",
            "names no host; write it as `redis://host:6379`",
        ),
        (
            "redis://:6379",
            "names no host; write it as `redis://host:6379`",
        ),
        ("redis://user:hunter2@", "names no host"),
        ("redis://:hun#ter2@host", "in a password, write"),
        ("redis://user:hun/ter2@host", "in a password, write"),
        ("redis://user:12?ter2@host", "unknown parameter"),
        ("redis://host:port", "the port must be a number"),
        ("redis://host:99999", "the port must be a number"),
        ("redis://host:0", "no server has port 0"),
        ("redis://[::1", "write it as `redis://[::1]:6379`"),
        ("redis://0.0.0.0", "stands for all addresses of a machine"),
        ("redis://[::]:6379", "stands for all addresses of a machine"),
        ("redis://a,redis://b", "one URL for each node"),
        ("redis://a,b", "one URL for each node"),
        ("redis://host;", "characters that host names do not have"),
        ("redis://${HOST}", "characters that host names do not have"),
        ("redis://ho st", "not a URL (invalid domain character)"),
        ("redis://host/abc", "the database must be a number"),
        ("redis://host/-1", "the database must be a number"),
        ("redis://host/0/1", "the database must be a number"),
        ("redis://host?db=1", "those of such a URL are `protocol`"),
        ("redis://host?protocol=9", "`protocol` must be 2 or 3"),
        ("redis://host/0#ter2", "in a password, write it as `%23`"),
        ("unix://", "write it as `unix:///run/redis.sock`"),
        ("unix://run/redis.sock", "with three slashes"),
        ("unix:///", "names no path of a socket"),
        (
            "unix:///run/redis.sock?db=x",
            "the database must be a number",
        ),
        (
            "unix:///run/redis.sock?password=x",
            "`db`, `user`, `pass`, `protocol`",
        ),
        ("memory://", "write it as `memory://a`"),
        ("memory:a", "write it as `memory://a`"),
        ("memory://a/b", "a name and nothing else"),
        ("memory://a:1", "a name and nothing else"),
    ];

    #[test]
    fn a_url_that_names_no_node_is_refused_in_words_that_help() {
        for (url, expected) in BAD {
            let reason = parse_node(url).map(|node| node.address).unwrap_err();
            assert!(reason.contains(expected), "{url}: {reason}");
            for word in ["Client", "InvalidClientConfig", "ter2", "hun"] {
                assert!(!reason.contains(word), "{url}: {reason}");
            }
        }
    }

    #[test]
    fn a_url_that_names_a_node_is_that_node() {
        for (url, address) in [
            ("redis://10.0.0.1", "10.0.0.1:6379"),
            (
                " Redis://cache_1.internal-zone.:6380/15 ",
                "cache_1.internal-zone.:6380",
            ),
            ("redis://[::1]:6380?protocol=resp2", "[::1]:6380"),
            ("valkey://user:a%2Fb@c@host", "host:6379"),
            (
                "unix:///run/redis.sock?db=1&user=u&pass=p",
                "/run/redis.sock",
            ),
            ("unix:/run/redis.sock", "/run/redis.sock"),
            ("memory://a", "memory://a"),
            ("memory://a/", "memory://a"),
        ] {
            let node = parse_node(url).unwrap();
            assert_eq!(&*node.address, address, "{url}");
        }
    }
}
