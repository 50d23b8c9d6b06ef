//! The nodes of a set: what their URLs may be, and what is wrong with others.

use std::{collections::BTreeMap, sync::Arc};

use url::Url;

#[cfg(feature = "tls")]
use super::tls::{self, Tls};
use super::{
    discovery_url,
    problem::{ConfigProblem, ProblemKind},
    server_url::{
        SERVER, SERVER_IPV6, check_database, check_host, check_rest, endpoint, is_tls, parameter,
    },
};
use crate::node::{Endpoint, Login, Memory, Target, address_text};

/// More nodes do not make a lock safer, only slower; and a typo that names hundreds is caught.
const MOST_NODES: usize = 32;

const NAME_SOME: &str =
    "name some with `nodes([...])` or in the environment variable REDLOCK_NODES";

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

    /// True if any certificate is accepted from it.
    pub(crate) fn is_insecure(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Target::Redis(endpoint) = &self.target {
            return endpoint.tls.as_ref().is_some_and(|tls| tls.is_insecure);
        }
        false
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
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (index, url) in urls.iter().enumerate() {
        let node = node(
            url,
            access,
            #[cfg(feature = "tls")]
            &mut problems,
        );
        match node {
            Ok(node) => {
                let first = *known.entry(node.address.to_string()).or_insert(index);
                if first != index {
                    let fact = format!("nodes {first} and {index} are both {}", node.address);
                    problems.push(ConfigProblem::new(
                        ProblemKind::DuplicateNode,
                        format!("node {index}"),
                        fact,
                        "every node must be a server of its own",
                    ));
                }
                nodes.push(node);
            }
            Err(reason) => {
                let setting = format!("node {index}");
                let problem = ConfigProblem::new(ProblemKind::BadNode, setting, reason, "");
                problems.push(problem);
            }
        }
    }
    let of_kind = |is_memory: bool| {
        let found = nodes.iter().find(|node| node.is_memory() == is_memory);
        found.map(|node| node.address.to_string())
    };
    match (of_kind(true), of_kind(false)) {
        (Some(memory), _) if servers_only => {
            problems.push(ConfigProblem::new(
                ProblemKind::ServersRequired,
                "nodes",
                format!("{memory} lives in this process only, and servers are required"),
                format!("{NAME_SOME}; for tests, leave out `require_servers(true)`"),
            ));
        }
        (Some(memory), Some(server)) => {
            problems.push(ConfigProblem::new(
                ProblemKind::MixedNodes,
                "nodes",
                format!("{memory} lives in this process only and {server} is a server"),
                "two processes with such nodes could both hold one lock, so use only servers, or only memory \
                 nodes in a test",
            ));
        }
        _ => {}
    }
    problems.extend(count_problem(urls.len()));
    (nodes, problems)
}

/// The problem with a number of nodes.
pub(crate) fn count_problem(count: usize) -> Option<ConfigProblem> {
    match count {
        0 => Some(ConfigProblem::new(
            ProblemKind::NoNodes,
            "nodes",
            "no node is configured",
            NAME_SOME,
        )),
        _ if count > MOST_NODES => Some(ConfigProblem::option(
            "nodes",
            format!("{count} nodes are too many; use at most {MOST_NODES}, five are plenty"),
        )),
        _ => None,
    }
}

/// Reads a URL, and finds `problems` in the files that it names. The reasons quote nothing of it but its scheme: what is
/// malformed may well be the password.
fn node(
    text: &str,
    access: &Access,
    #[cfg(feature = "tls")] problems: &mut Vec<ConfigProblem>,
) -> Result<Node, String> {
    let (scheme, _) = text.trim().split_once("://").unwrap_or_default();
    if cfg!(not(feature = "tls")) && is_tls(scheme) {
        return Err(format!(
            "`{scheme}` needs the feature `tls` of redlock-runtime"
        ));
    }
    #[cfg_attr(not(feature = "tls"), expect(unused_variables))]
    let (address, mut endpoint, url) = match discovery_url::parse(text) {
        Some(named) => named?,
        None => {
            let url = Url::parse(text.trim()).map_err(|error| not_a_url(text, error))?;
            let endpoint = match url.scheme() {
                "redis" | "valkey" | "rediss" | "valkeys" => {
                    check_host(&url)?;
                    check_rest(&url, &[])?;
                    endpoint(&url)?
                }
                "unix" | "redis+unix" | "valkey+unix" => unix_endpoint(&url)?,
                "memory" => return memory_node(&url),
                scheme => {
                    return Err(format!(
                        "unknown scheme `{scheme}`; the schemes are `redis`, `rediss` (over TLS), `unix`, \
                         `redis+sentinel`, `redis+cluster` and `memory`, as in `redis://host:6379`"
                    ));
                }
            };
            (address_text(&endpoint.address), endpoint, url)
        }
    };
    #[cfg(feature = "tls")]
    if is_tls(url.scheme()) {
        endpoint.tls = tls::client(&url, &endpoint, &access.tls, problems)?;
    }
    if let (Login::Fixed(None), Some(login)) = (&endpoint.login, &access.login) {
        endpoint.login = login.clone();
    }
    Ok(Node {
        address: address.into(),
        target: Target::Redis(Box::new(endpoint)),
    })
}

fn not_a_url(text: &str, error: url::ParseError) -> String {
    use url::ParseError as Error;
    let what = match error {
        Error::EmptyHost => "the URL names no host",
        Error::InvalidPort
            if text
                .rsplit('@')
                .next()
                .is_some_and(|hosts| hosts.contains(',')) =>
        {
            "each node is an item of its own, not part of a list with commas"
        }
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
    // Two URLs that differ in anything else would be one store.
    let address = format!("memory://{name}");
    let text = url.as_str();
    if text.strip_suffix('/').unwrap_or(text) != address {
        return Err(format!(
            "a memory node has a name and nothing else; {MEMORY}"
        ));
    }
    Ok(Node {
        address: address.into(),
        target: Target::Memory(Memory::named(name)),
    })
}

fn unix_endpoint(url: &Url) -> Result<Endpoint, String> {
    // The host of `unix://run/redis.sock` would be lost.
    if url.has_host() || matches!(url.path(), "" | "/") || url.cannot_be_a_base() {
        return Err(format!("the URL names no path of a socket; {SOCKET}"));
    }
    check_database(&parameter(url, "db").unwrap_or_default())?;
    check_rest(url, &["db", "user", "pass"])?;
    endpoint(url)
}

/// Why the only node of this URL is refused.
#[cfg(test)]
pub(super) fn refusal(url: &str) -> String {
    let (_, problems) = parse_nodes(&[url.to_owned()], false, &Access::default());
    let [problem] = &problems[..] else {
        panic!("{url}: {problems:?}");
    };
    problem.fact.to_string()
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
        ("redis://a:1,redis://b:1", "each node is an item of its own"),
        ("redis://:p,w@host:port", "the port must be a number"),
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
        ("redis://host?protocol=2", "`protocol` must be 3"),
        ("redis://host/0#ter2", "in a password, write it as `%23`"),
        ("redis://host#insecure", "`#insecure` is for `rediss`"),
        (
            "redis://host?protocol=3&protocol=3",
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
    #[cfg(not(feature = "tls"))]
    fn without_its_feature_tls_is_what_a_url_lacks() {
        for scheme in ["rediss", "valkeys", "rediss+sentinel", "rediss+cluster"] {
            let url = format!("{scheme}://host:1/name?cacert=/ca.pem");
            let (_, problems) = parse_nodes(&[url], false, &Access::default());
            let text = problems[0].to_string();
            let reason = format!("`{scheme}` needs the feature `tls` of redlock-runtime");
            assert_eq!(text, format!("node 0: {reason}"));
        }
    }

    #[test]
    fn a_url_that_names_no_node_is_refused_in_words_that_help() {
        for (url, expected) in BAD {
            let reason = refusal(url);
            assert!(reason.contains(expected), "{url}: {reason}");
            for word in ["Client", "InvalidClientConfig", "ter2", "hun"] {
                assert!(!reason.contains(word), "{url}: {reason}");
            }
        }
    }

    /// Whatever stands behind a password, no error repeats it.
    #[test]
    fn fuzz_urls() {
        const WORDS: &str = "
            redis rediss valkey unix memory +sentinel +cluster :// : / // @ ? & = # #insecure % %2F %00 [ ] [::1] [::]
            0.0.0.0 host a,b :6379 :0 :99999 /0 /15 protocol resp3 db user pass cacert é
        ";
        let words: Vec<&str> = WORDS.split_whitespace().chain([" "]).collect();
        let problems = |url: &str, features: &mut redlock_fuzz::Features| {
            let urls = super::super::split_urls(url);
            let (nodes, problems) = parse_nodes(&urls, false, &Access::default());
            assert!(nodes.len() + problems.len() >= urls.len());
            for problem in &problems {
                features.add_message(&problem.to_string());
            }
            for node in nodes {
                features.add((node.is_memory(), node.is_insecure()));
                let is_path = node.address.starts_with('/');
                assert!(is_path || !node.address.contains('@'), "{}", node.address);
            }
            format!("{problems:?}")
        };
        redlock_fuzz::fuzz("urls", &words, |input, features| {
            let url = String::from_utf8_lossy(input);
            problems(&url, features);
            for secret in [":hunter2@", "user:hunter2@"] {
                let with_password = format!("redis://{secret}{url}");
                let text = problems(&with_password, features);
                assert!(!text.contains("unter2"), "{text}");
            }
        });
    }

    #[test]
    fn a_url_that_names_a_node_is_that_node() {
        for (url, address) in [
            ("redis://10.0.0.1", "10.0.0.1:6379"),
            (
                " Redis://cache_1.internal-zone.:6380/15 ",
                "cache_1.internal-zone.:6380",
            ),
            ("redis://[::1]:6380?protocol=resp3", "[::1]:6380"),
            ("valkey://user:a%2Fb@c@host", "host:6379"),
            (
                "unix:///run/redis.sock?db=1&user=u&pass=p",
                "/run/redis.sock",
            ),
            ("unix:/run/redis.sock", "/run/redis.sock"),
            ("memory://a", "memory://a"),
            ("memory://a/", "memory://a"),
        ] {
            let (nodes, problems) = parse_nodes(&[url.to_owned()], false, &Access::default());
            assert!(problems.is_empty(), "{url}: {problems:?}");
            assert_eq!(&*nodes[0].address, address, "{url}");
        }
    }
}
