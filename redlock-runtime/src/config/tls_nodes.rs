//! TLS in the URLs of nodes.

use std::sync::Arc;

use rustls::{ClientConfig, pki_types::ServerName};
use url::Url;

use super::{problem::ConfigProblem, tls::Tls};
use crate::node::TlsClient;

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

/// What the nodes of a set share: files are read once, and mistakes are told once.
pub(super) struct Clients<'a> {
    of_all: &'a Tls,
    known: Vec<(Tls, Option<Arc<ClientConfig>>)>,
    problems: Vec<ConfigProblem>,
}

impl<'a> Clients<'a> {
    pub(super) const fn new(of_all: &'a Tls) -> Self {
        Self {
            of_all,
            known: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// What a node with this URL needs. `None` after a mistake in what it names.
    pub(super) fn client(&mut self, url: &Url) -> Result<Option<TlsClient>, String> {
        let tls = tls_of(url)?.or(self.of_all);
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(tls.name().unwrap_or(host).to_owned()).map_err(|_| {
            "no certificate can be for the server's name; write the name that it is for, as in \
             `rediss://10.0.0.1?sni=redis.internal`"
        })?;
        let is_insecure = tls.is_insecure();
        let known = self
            .known
            .iter()
            .find(|(known, _)| known.has_config_of(&tls));
        let config = match known {
            Some((_, config)) => config.clone(),
            None => {
                let config = tls.client_config().map(Arc::new);
                let config = config.map_err(|problem| self.problems.push(problem)).ok();
                self.known.push((tls, config.clone()));
                config
            }
        };
        Ok(config.map(|config| TlsClient {
            config,
            name,
            is_insecure,
        }))
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
            let [ConfigProblem::BadNode { index: 0, reason }] = &problems[..] else {
                panic!("{rest}: {problems:?}");
            };
            assert!(reason.contains(words), "{rest}: {reason}");
            assert!(!reason.contains("hunter2"), "{rest}: {reason}");
        }
        let urls = ["redis://host?cacert=a".to_owned()];
        let (_, problems) = parse_nodes(&urls, false, &Access::default());
        assert!(
            matches!(&problems[..], [ConfigProblem::BadNode { reason, .. }] if reason.contains("unknown parameter")),
            "{problems:?}"
        );
    }
}
