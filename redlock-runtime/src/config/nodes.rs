//! The nodes of a set: what their URLs may be, and what is wrong with others.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use redis::IntoConnectionInfo;
use url::Url;

use super::problem::ConfigProblem;
#[cfg(feature = "tls")]
use super::{
    tls::Tls,
    tls_nodes::{Clients, TLS_PARAMETERS},
};
use crate::node::{Endpoint, Login, Memory, Target, address_text};

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
    fn server(endpoint: Endpoint) -> Self {
        Self {
            address: address_text(&endpoint.address).into(),
            target: Target::Redis(Box::new(endpoint)),
        }
    }

    /// True if it is a store in this process.
    pub(crate) const fn is_memory(&self) -> bool {
        !matches!(self.target, Target::Redis(_))
    }

    /// True if any certificate is accepted from it.
    pub(crate) fn is_insecure(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Target::Redis(endpoint) = &self.target {
            return endpoint.tls.as_ref().is_some_and(|tls| tls.is_insecure);
        }
        false
    }

    /// True if it is a store that fails on demand.
    #[cfg(feature = "test-util")]
    pub(crate) const fn is_faulty(&self) -> bool {
        matches!(self.target, Target::Faulty(_))
    }
}

/// How to get into the nodes whose URLs do not say it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    #[cfg(feature = "tls")]
    pub(crate) tls: Tls,
    pub(crate) login: Option<Login>,
}

/// Reads the URLs of a node set, and the files that they name; every mistake is a problem of its own.
pub(crate) fn parse_nodes(
    urls: &[String],
    servers_only: bool,
    access: &Access,
) -> (Vec<Node>, Vec<ConfigProblem>) {
    let mut nodes = Vec::new();
    let mut problems = Vec::new();
    let mut parser = Parser::new(access);
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (index, url) in urls.iter().enumerate() {
        match parser.node(url) {
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
    problems.extend(parser.into_problems());
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

/// Reads URLs one by one. The reasons quote nothing of a URL but its scheme: what is malformed may well
/// be the password.
struct Parser<'a> {
    login: &'a Option<Login>,
    #[cfg(feature = "tls")]
    clients: Clients<'a>,
}

impl<'a> Parser<'a> {
    const fn new(access: &'a Access) -> Self {
        Self {
            login: &access.login,
            #[cfg(feature = "tls")]
            clients: Clients::new(&access.tls),
        }
    }

    /// The mistakes in what URLs name.
    fn into_problems(self) -> Vec<ConfigProblem> {
        #[cfg(feature = "tls")]
        return self.clients.into_problems();
        #[cfg(not(feature = "tls"))]
        Vec::new()
    }

    fn node(&mut self, text: &str) -> Result<Node, String> {
        let url = Url::parse(text.trim()).map_err(|error| not_a_url(text, error))?;
        match url.scheme() {
            "memory" => return memory_node(&url),
            "redis-sentinel" | "sentinel" => {
                return Err(
                    "Sentinels are not asked; name the servers that they watch, each with its own \
                     URL `redis://host:6379`"
                        .to_owned(),
                );
            }
            _ => {}
        }
        let mut endpoint = match url.scheme() {
            "redis" | "valkey" => {
                check_host(&url)?;
                check_rest(&url, &["protocol"])?;
                endpoint(&url)?
            }
            "rediss" | "valkeys" => self.tls_endpoint(&url)?,
            "unix" | "redis+unix" | "valkey+unix" => unix_endpoint(&url)?,
            scheme => {
                return Err(format!(
                    "unknown scheme `{scheme}`; the schemes are `redis`, `rediss` (over TLS), `unix` \
                     and `memory`, as in `redis://host:6379`"
                ));
            }
        };
        if let (Login::Fixed(None), Some(login)) = (&endpoint.login, self.login) {
            endpoint.login = login.clone();
        }
        Ok(Node::server(endpoint))
    }

    #[cfg(feature = "tls")]
    fn tls_endpoint(&mut self, url: &Url) -> Result<Endpoint, String> {
        check_host(url)?;
        check_rest(url, &[&["protocol"], TLS_PARAMETERS].concat())?;
        let tls = self.clients.client(url)?;
        // The driver knows as much of the URL without TLS, which is not its part here.
        let mut plain = url.clone();
        let _ = plain.set_scheme("redis");
        Ok(Endpoint {
            tls,
            ..endpoint(&plain)?
        })
    }

    #[cfg(not(feature = "tls"))]
    fn tls_endpoint(&mut self, url: &Url) -> Result<Endpoint, String> {
        Err(format!("`{}` needs the feature `tls`", url.scheme()))
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

fn check_host(url: &Url) -> Result<(), String> {
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

fn unix_endpoint(url: &Url) -> Result<Endpoint, String> {
    // The host of `unix://run/redis.sock` would be lost.
    if url.has_host() || matches!(url.path(), "" | "/") || url.cannot_be_a_base() {
        return Err(format!("the URL names no path of a socket; {SOCKET}"));
    }
    let database = url.query_pairs().find(|(name, _)| name == "db");
    check_database(database.map_or_else(|| "".into(), |(_, database)| database))?;
    check_rest(url, &["db", "user", "pass", "protocol"])?;
    endpoint(url)
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
        Some((_, protocol)) if !matches!(&*protocol, "2" | "3" | "resp2" | "resp3") => {
            Err("`protocol` must be 2 or 3".to_owned())
        }
        _ => Ok(()),
    }
}

fn is_tls(url: &Url) -> bool {
    matches!(url.scheme(), "rediss" | "valkeys")
}

fn endpoint(url: &Url) -> Result<Endpoint, String> {
    let info = url.clone().into_connection_info().map_err(|error| {
        // The detail may quote the URL; the kind of error does not.
        let what = error
            .detail()
            .map_or_else(|| error.to_string(), |_| format!("{:?}", error.kind()));
        format!("not the URL of a Redis server ({what}); {SERVER}")
    })?;
    let says_protocol = url.query_pairs().any(|(name, _)| name == "protocol");
    let endpoint = Endpoint::from(info);
    Ok(Endpoint {
        has_resp3: endpoint.has_resp3 || !says_protocol,
        ..endpoint
    })
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
        ("redis://host#insecure", "`#insecure` is for `rediss`"),
        (
            "redis://host?protocol=2&protocol=3",
            "a parameter is given twice",
        ),
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
            let reason = Parser::new(&Access::default())
                .node(url)
                .map(|node| node.address)
                .unwrap_err();
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
            let node = Parser::new(&Access::default()).node(url).unwrap();
            assert_eq!(&*node.address, address, "{url}");
        }
    }
}
