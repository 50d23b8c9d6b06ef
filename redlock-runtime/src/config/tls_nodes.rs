//! TLS in the URLs of nodes.

use std::sync::Arc;

use url::Url;

use super::{problem::ConfigProblem, tls::Tls, tls_files::Renewed};
use crate::node::{TlsClient, TlsConfig, server_name};

/// The parameters of a `rediss` URL, which are named for the options of `redis-cli`.
pub(super) const TLS_PARAMETERS: &[&str] = &["cacert", "cert", "key", "sni"];

/// What a URL says.
fn tls_of(url: &Url) -> Result<Tls, String> {
    let mut tls = Tls::new();
    let [mut cert, mut key] = [None, None];
    for (name, value) in url.query_pairs() {
        if TLS_PARAMETERS.contains(&&*name) && value.is_empty() {
            return Err(format!("the parameter `{name}` is empty"));
        }
        match &*name {
            "cacert" => tls = tls.cacert_file(&*value),
            "cert" => cert = Some(value),
            "key" => key = Some(value),
            "sni" => tls = tls.sni(value),
            _ => {}
        }
    }
    // A file may hold both.
    if let (Some(cert), Some(key)) = (
        cert.as_ref().or(key.as_ref()),
        key.as_ref().or(cert.as_ref()),
    ) {
        tls = tls.cert_files(&**cert, &**key);
    }
    Ok(tls.insecure(url.fragment() == Some("insecure")))
}

/// What the nodes of a set share: mistakes are told once.
pub(super) struct Clients<'a> {
    of_all: &'a Tls,
    known: Vec<Arc<Renewed>>,
    broken: Vec<Tls>,
    problems: Vec<ConfigProblem>,
}

impl<'a> Clients<'a> {
    pub(super) const fn new(of_all: &'a Tls) -> Self {
        Self {
            of_all,
            known: Vec::new(),
            broken: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// What a node with this URL needs, of which these are the hosts that it names. `None` after a mistake in
    /// what it names.
    pub(super) fn client(
        &mut self,
        url: &Url,
        hosts: &[String],
    ) -> Result<Option<TlsClient>, String> {
        let tls = tls_of(url)?.or(self.of_all);
        let name = tls.name().map(server_name);
        let of_host = |host: &String| server_name(host.trim_matches(['[', ']'])).is_some();
        if name == Some(None) || name.is_none() && !hosts.iter().all(of_host) {
            return Err(
                "no certificate can be for the server's name; write the name that it is for, as in \
                 `rediss://10.0.0.1?sni=redis.internal`"
                    .to_owned(),
            );
        }
        let is_insecure = tls.is_insecure();
        Ok(self.config(tls).map(|config| TlsClient {
            config,
            name: name.flatten(),
            is_insecure,
        }))
    }

    fn config(&mut self, tls: Tls) -> Option<Arc<dyn TlsConfig>> {
        if let Some(known) = self.known.iter().find(|known| known.is_for(&tls)) {
            return Some(Arc::clone(known) as _);
        }
        if self.broken.iter().any(|broken| broken.has_config_of(&tls)) {
            return None;
        }
        match Renewed::new(tls.clone()) {
            Ok(config) => {
                let config = Arc::new(config);
                self.known.push(Arc::clone(&config));
                Some(config)
            }
            Err(problem) => {
                self.broken.push(tls);
                self.problems.push(problem);
                None
            }
        }
    }

    pub(super) fn into_problems(self) -> Vec<ConfigProblem> {
        self.problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Access, parse_nodes};

    #[test]
    fn what_a_url_says_is_read_or_refused() {
        let tls = |rest: &str| {
            let url = Url::parse(&format!("rediss://host{rest}")).unwrap();
            tls_of(&url)
        };
        assert_eq!(tls("").unwrap(), Tls::new());
        assert_eq!(tls("#insecure").unwrap(), Tls::new().insecure(true));
        let all = tls("?cacert=/a%20b&cert=c.pem&key=d&sni=e").unwrap();
        let same = Tls::new().cacert_file("/a b").cert_files("c.pem", "d");
        assert_eq!(all, same.sni("e"));
        let both = Tls::new().cert_files("a", "a");
        assert_eq!(
            [tls("?cert=a"), tls("?key=a")],
            [Ok(both.clone()), Ok(both)]
        );
    }

    #[test]
    fn a_url_with_a_mistake_is_refused_in_words_that_help() {
        for (rest, words) in [
            ("?cacert=", "the parameter `cacert` is empty"),
            ("?ca=hunter2", "`protocol`, `cacert`, `cert`, `key`, `sni`"),
            ("?sni=a&sni=b", "a parameter is given twice"),
            ("?sni=a%20b", "no certificate can be for"),
            ("#verify", "nothing but `insecure` may follow a `#`"),
            ("/x", "the database must be a number"),
        ] {
            let urls = [format!("rediss://host{rest}")];
            let (_, problems) = parse_nodes(&urls, false, &Access::default());
            let [ConfigProblem { fact: reason, .. }] = &problems[..] else {
                panic!("{rest}: {problems:?}");
            };
            assert!(reason.contains(words), "{rest}: {reason}");
            assert!(!reason.contains("hunter2"), "{rest}: {reason}");
        }
        let urls = ["redis://host?cacert=a".to_owned()];
        let (_, problems) = parse_nodes(&urls, false, &Access::default());
        assert!(
            matches!(&problems[..], [ConfigProblem { fact, .. }] if fact.contains("unknown parameter")),
            "{problems:?}"
        );
    }
}
