//! Nodes of which other servers say where they are: `redis+sentinel://s1:26379,s2:26379,s3:26379/mymaster`
//! and `redis+cluster://c1:6379,c2:6379,c3:6379`.

use std::sync::Arc;

use redis::ConnectionAddr;
use url::Url;

use super::server_url::{check_host, check_rest, endpoint, is_tls, parameter};
use crate::node::{Credentials, Discovery, Endpoint, Login, Source, address_text, slot_of};

/// A node that sentinels name as it should be.
const SENTINELS: &str = "write it as `redis+sentinel://s1:26379,s2:26379,s3:26379/mymaster`";

/// A cluster as it should be.
const CLUSTER: &str = "write it as `redis+cluster://c1:6379,c2:6379,c3:6379`";

/// The longest hash tag. It is sent with each key.
const LONGEST_TAG: usize = 64;

/// The hash tag of a node that is a cluster, if its URL has none.
const TAG: &str = "redlock";

/// Returns the URLs of a text, with commas between them. The addresses in one have commas between them as well.
pub fn split(list: &str) -> Vec<String> {
    let mut urls: Vec<String> = Vec::new();
    for part in list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        match urls.last_mut() {
            Some(last) if kind(last).is_some() && !part.contains("://") => {
                last.push(',');
                last.push_str(part);
            }
            _ => urls.push(part.to_owned()),
        }
    }
    urls
}

/// Who names the server.
#[derive(Clone, Copy)]
enum Kind {
    Sentinels,
    Cluster,
}

fn kind(text: &str) -> Option<Kind> {
    let (scheme, _) = text.trim().split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    match scheme.split_once('+')? {
        ("redis" | "rediss" | "valkey" | "valkeys", "sentinel") => Some(Kind::Sentinels),
        ("redis" | "rediss" | "valkey" | "valkeys", "cluster") => Some(Kind::Cluster),
        _ => None,
    }
}

/// Such a node: what it is called, where it is, and what is said of the server itself, as in the URL of a server.
pub(super) type Named = (String, Endpoint, Url);

/// Reads such a URL. `None` if it is none.
pub(super) fn parse(text: &str) -> Option<Result<Named, String>> {
    let (scheme, rest) = text.trim().split_once("://")?;
    match (scheme, kind(text)) {
        ("redis-sentinel" | "sentinel", _) => Some(Err(SENTINELS.to_owned())),
        ("redis-cluster" | "cluster", _) => Some(Err(CLUSTER.to_owned())),
        (_, kind) => kind.map(|kind| kind.read(scheme, rest)),
    }
}

impl Kind {
    fn read(self, scheme: &str, rest: &str) -> Result<Named, String> {
        let (one, port, form) = match self {
            Self::Sentinels => ("a sentinel", 26379, SENTINELS),
            Self::Cluster => ("a server", 6379, CLUSTER),
        };
        // A password has none of these, but as `%2F` and so on.
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        let seeds = seeds(hosts, one, port, form)?;
        // Everything but where the server is, as for a server.
        let scheme = if is_tls(scheme) { "rediss" } else { "redis" };
        let url = Url::parse(&format!("{scheme}://{login}master{rest}"))
            .map_err(|error| format!("not a URL ({error}); {form}"))?;
        let addresses: Vec<String> = seeds.iter().map(address_text).collect();
        let (name, source, endpoint) = match self {
            Self::Sentinels => master(&url)?,
            Self::Cluster => owner(&url)?,
        };
        let endpoint = Endpoint {
            discovery: Some(Arc::new(Discovery::new(source, seeds))),
            ..endpoint
        };
        Ok((format!("{}/{name}", addresses.join(",")), endpoint, url))
    }
}

/// The addresses that are named, each that of `one` who is asked.
fn seeds(hosts: &str, one: &str, port: u16, form: &str) -> Result<Vec<ConnectionAddr>, String> {
    let mut seeds = Vec::new();
    for host in hosts.split(',').map(str::trim) {
        let mut url = Url::parse(&format!("redis://{host}"))
            .map_err(|error| format!("not the address of {one} ({error}); {form}"))?;
        check_host(&url)?;
        if url.port().is_none() {
            let _ = url.set_port(Some(port));
        }
        let seed = endpoint(&url)?.address;
        if seeds.contains(&seed) {
            return Err(format!("{one} is named twice; {form}"));
        }
        seeds.push(seed);
    }
    Ok(seeds)
}

/// What sentinels call the master, and how to get there.
fn master(url: &Url) -> Result<(String, Source, Endpoint), String> {
    let mut segments = url.path().trim_matches('/').splitn(2, '/');
    let name = segments.next().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("the URL names no master; {SENTINELS}"))?;
    if !name.chars().all(is_of_name) {
        return Err(format!(
            "the name of a master has letters, digits, `.`, `-` and `_` only; {SENTINELS}"
        ));
    }
    let mut server = url.clone();
    server.set_path(segments.next().unwrap_or_default());
    check_host(&server)?;
    check_rest(&server, &["sentinel-user", "sentinel-pass"])?;
    let source = Source::Sentinels {
        master: name.to_owned(),
        login: Login::Fixed(login_of_sentinels(url)?),
    };
    Ok((name.to_owned(), source, endpoint(&server)?))
}

/// The hash tag of a cluster, and how to get to the owner of its slot.
fn owner(url: &Url) -> Result<(String, Source, Endpoint), String> {
    if !matches!(url.path(), "" | "/") {
        return Err(format!(
            "a cluster has one database, without a number; {CLUSTER}"
        ));
    }
    let tag = parameter(url, "tag").unwrap_or_else(|| TAG.to_owned());
    if !(1..=LONGEST_TAG).contains(&tag.len()) || !tag.chars().all(is_of_name) {
        return Err(format!(
            "a hash tag has one to {LONGEST_TAG} letters, digits, `.`, `-` and `_`, as in \
             `redis+cluster://c1:6379,c2:6379,c3:6379?tag=locks`"
        ));
    }
    check_rest(url, &["tag"])?;
    let slot = slot_of(&tag);
    let tag = format!("{{{tag}}}");
    let endpoint = Endpoint {
        tag: tag.as_str().into(),
        ..endpoint(url)?
    };
    Ok((tag, Source::Cluster { slot }, endpoint))
}

const fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_')
}

/// Named for the settings of a Sentinel by which it signs in with others.
fn login_of_sentinels(url: &Url) -> Result<Option<Credentials>, String> {
    let [user, password] = ["sentinel-user", "sentinel-pass"].map(|name| parameter(url, name));
    match (user, password) {
        (None, None) => Ok(None),
        (None, Some(password)) => Ok(Some(Credentials::password_only(password))),
        (Some(user), Some(password)) => Ok(Some(Credentials::new(user, password))),
        (Some(_), None) => Err("`sentinel-user` has no `sentinel-pass`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::nodes::refusal;

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
            (
                "rediss+cluster://a,b?tag=x,redis+cluster://c",
                vec!["rediss+cluster://a,b?tag=x", "redis+cluster://c"],
            ),
            ("redis://a,b", vec!["redis://a", "b"]),
        ] {
            assert_eq!(split(list), urls);
        }
    }

    fn read(url: &str) -> Named {
        parse(url).unwrap().unwrap()
    }

    #[test]
    fn the_servers_of_a_cluster_its_tag_and_the_login_are_read() {
        let (address, endpoint, _) =
            read("redis+cluster://u:p%2Cw@c1,[::1]:7000/?protocol=3&tag=my.locks");
        assert_eq!(address, "c1:6379,[::1]:7000/{my.locks}");
        assert_eq!(&*endpoint.tag, "{my.locks}");
        let text = format!("{endpoint:?}");
        assert!(text.contains("\"u\"") && !text.contains("p,w"), "{text}");
        for url in ["valkey+cluster://c1", "Redis+Cluster://c1/"] {
            assert_eq!(&*read(url).1.tag, "{redlock}");
        }
    }

    #[test]
    fn sentinels_master_database_and_logins_are_read() {
        let (address, endpoint, _) = read(
            "redis+sentinel://u:p%2Cw@s1,[::1]:7/my-master/3?protocol=3&sentinel-user=x&sentinel-pass=y",
        );
        assert_eq!(address, "s1:26379,[::1]:7/my-master");
        let text = format!("{endpoint:?}");
        assert!(text.contains("database: 3"), "{text}");
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
            ("redis+sentinel://s1/m?cacert=a", "unknown parameter"),
            ("redis+cluster://c1,c2/1", "without a number"),
            ("redis+cluster://c1,c1:6379", "a server is named twice"),
            ("redis+cluster://c1?tag=", "a hash tag has"),
            ("redis+cluster://c1?tag=a}b", "a hash tag has"),
            ("redis+cluster://", "names no host"),
            ("redis+cluster://c1#x", "nothing may follow a `#`"),
            ("redis-cluster://c1", CLUSTER),
        ] {
            let reason = refusal(url);
            assert!(reason.contains(words), "{url}: {reason}");
        }
    }
}
