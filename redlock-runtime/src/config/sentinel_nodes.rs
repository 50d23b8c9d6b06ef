//! Nodes that Sentinels name: `redis+sentinel://s1:26379,s2:26379,s3:26379/mymaster`.

use std::sync::Arc;

use url::Url;

use super::server_url::{check_host, check_rest, endpoint};
use crate::node::{Credentials, Endpoint, Sentinels, address_text};

/// A node that sentinels name as it should be.
const SENTINELS: &str = "write it as `redis+sentinel://s1:26379,s2:26379,s3:26379/mymaster`";

/// How the URLs begin.
const SCHEMES: [&str; 2] = ["redis+sentinel://", "valkey+sentinel://"];

/// The port of a sentinel.
const PORT: u16 = 26379;

/// Named for the settings of a Sentinel by which it signs in with others.
const PARAMETERS: &[&str] = &["protocol", "sentinel-user", "sentinel-pass"];

/// The URLs of a text, with commas between them. The addresses of sentinels have commas between them as
/// well.
pub(crate) fn split(list: &str) -> Vec<String> {
    let mut urls: Vec<String> = Vec::new();
    for part in list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match urls.last_mut() {
            Some(last) if is_of_sentinels(last) && !part.contains("://") => {
                last.push(',');
                last.push_str(part);
            }
            _ => urls.push(part.to_owned()),
        }
    }
    urls
}

fn is_of_sentinels(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme))
}

/// Reads such a URL: what the node is called, and how to get there. `None` if it is none.
pub(super) fn parse(text: &str) -> Option<Result<(String, Endpoint), String>> {
    let scheme = text.trim().split_once("://").map(|(scheme, _)| scheme);
    match scheme? {
        "redis+sentinel" | "valkey+sentinel" => Some(node(text)),
        "redis-sentinel" | "sentinel" => Some(Err(SENTINELS.to_owned())),
        "rediss+sentinel" | "valkeys+sentinel" => Some(Err(format!(
            "Sentinels, and the servers that they name, cannot be reached by TLS; without it, {SENTINELS}"
        ))),
        "redis+cluster" | "redis-cluster" | "valkey+cluster" => Some(Err(
            "a Redis Cluster cannot be a node; name servers with `cluster-enabled no`, each with its \
             own URL `redis://host:6379`"
                .to_owned(),
        )),
        _ => None,
    }
}

fn node(text: &str) -> Result<(String, Endpoint), String> {
    let (_, rest) = text.trim().split_once("://").unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    let mut sentinels = Vec::new();
    for host in hosts.split(',').map(str::trim) {
        let sentinel = server(&format!("redis://{host}"))?.address;
        if sentinels.contains(&sentinel) {
            return Err(format!("a sentinel is named twice; {SENTINELS}"));
        }
        sentinels.push(sentinel);
    }
    // Everything but where the master is, as for a server.
    let url = Url::parse(&format!("redis://{login}master/{path}"))
        .map_err(|error| format!("not a URL ({error}); {SENTINELS}"))?;
    let mut segments = url.path().trim_matches('/').splitn(2, '/');
    let name = segments.next().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("the URL names no master; {SENTINELS}"))?;
    let is_name = |character: char| character.is_ascii_alphanumeric() || ".-_".contains(character);
    if !name.chars().all(is_name) {
        return Err(format!(
            "the name of a master has letters, digits, `.`, `-` and `_` only; {SENTINELS}"
        ));
    }
    let database = segments.next().unwrap_or_default();
    let mut master = url.clone();
    master.set_path(database);
    check_host(&master)?;
    check_rest(&master, PARAMETERS)?;
    let login = login_of_sentinels(&master)?;
    let protocol = master.query_pairs().find(|(name, _)| name == "protocol");
    let protocol = protocol.map(|(_, protocol)| format!("protocol={protocol}"));
    master.set_query(protocol.as_deref());
    let addresses: Vec<String> = sentinels.iter().map(address_text).collect();
    let address = format!("{}/{name}", addresses.join(","));
    let endpoint = Endpoint {
        sentinels: Some(Arc::new(Sentinels::new(sentinels, name.to_owned(), login))),
        ..endpoint(&master)?
    };
    Ok((address, endpoint))
}

/// One sentinel.
fn server(text: &str) -> Result<Endpoint, String> {
    let mut url = Url::parse(text)
        .map_err(|error| format!("not the address of a sentinel ({error}); {SENTINELS}"))?;
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err(format!("not the address of a sentinel; {SENTINELS}"));
    }
    check_host(&url)?;
    if url.port().is_none() {
        let _ = url.set_port(Some(PORT));
    }
    endpoint(&url)
}

fn login_of_sentinels(url: &Url) -> Result<Option<Credentials>, String> {
    let parameter = |of: &str| {
        let mut pairs = url.query_pairs();
        pairs.find(|(name, _)| name == of).map(|(_, value)| value)
    };
    match (parameter("sentinel-user"), parameter("sentinel-pass")) {
        (None, None) => Ok(None),
        (None, Some(password)) => Ok(Some(Credentials::password_only(&*password))),
        (Some(user), Some(password)) => Ok(Some(Credentials::new(&*user, &*password))),
        (Some(_), None) => Err("`sentinel-user` has no `sentinel-pass`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Access, ConfigProblem, parse_nodes};

    #[test]
    fn a_list_of_urls_is_split_between_them() {
        for (list, urls) in [
            ("redis://a, redis://b,", vec!["redis://a", "redis://b"]),
            (
                "redis+sentinel://a,b:1, c/m,redis://d,valkey+sentinel://e,f/m/1",
                vec![
                    "redis+sentinel://a,b:1,c/m",
                    "redis://d",
                    "valkey+sentinel://e,f/m/1",
                ],
            ),
            ("redis://a,b", vec!["redis://a", "b"]),
        ] {
            assert_eq!(split(list), urls);
        }
    }

    #[test]
    fn sentinels_master_database_and_logins_are_read() {
        let node = node(
            "redis+sentinel://u:p%2Cw@s1,[::1]:7/my-master/3?protocol=2&sentinel-user=x&sentinel-pass=y",
        );
        let (address, endpoint) = node.unwrap();
        assert_eq!(address, "s1:26379,[::1]:7/my-master");
        let text = format!("{endpoint:?}");
        assert!(text.contains("database: 3"), "{text}");
        assert!(text.contains("has_resp3: false"), "{text}");
        assert!(
            text.contains("my-master") && text.contains("\"x\""),
            "{text}"
        );
        assert!(!text.contains("p,w") && !text.contains("\"y\""), "{text}");
    }

    #[test]
    fn a_url_with_a_mistake_is_refused_in_words_that_help() {
        for (url, words) in [
            ("redis+sentinel://s1,s2", "the URL names no master"),
            ("redis+sentinel://s1,s2/", "the URL names no master"),
            ("redis+sentinel:///m", "names no host"),
            ("redis+sentinel://s1,/m", "names no host"),
            (
                "redis+sentinel://s1,s1:26379/m",
                "a sentinel is named twice",
            ),
            ("redis+sentinel://s1:x/m", "not the address of a sentinel"),
            ("redis+sentinel://s1/m/x", "the database must be a number"),
            (
                "redis+sentinel://s1/a b",
                "the name of a master has letters",
            ),
            ("redis+sentinel://s1/m?db=1", "unknown parameter"),
            ("redis+sentinel://s1/m#x", "nothing may follow a `#`"),
            (
                "redis+sentinel://s1/m?sentinel-user=a",
                "no `sentinel-pass`",
            ),
            ("redis-sentinel://s1/m", SENTINELS),
            ("sentinel://s1/m", SENTINELS),
            ("rediss+sentinel://s1/m", "TLS"),
            ("redis+cluster://c1,c2", "cannot be a node"),
        ] {
            let (_, problems) = parse_nodes(&[url.to_owned()], false, &Access::default());
            let [ConfigProblem::BadNode { index: 0, reason }] = &problems[..] else {
                panic!("{url}: {problems:?}");
            };
            assert!(reason.contains(words), "{url}: {reason}");
        }
    }
}
