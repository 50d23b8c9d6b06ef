//! TLS in the URLs of nodes, and certificates and keys that are renewed on disk.

use std::sync::{Arc, Mutex, PoisonError};

use url::Url;

use super::{problem::ConfigProblem, server_url::TLS_PARAMETERS, tls::Tls};
use crate::node::{Endpoint, TlsClient, TlsConfig, server_name};

/// What a URL says.
fn tls_of(url: &Url) -> Result<Tls, String> {
    let mut tls = Tls::new();
    for (name, value) in url.query_pairs() {
        if TLS_PARAMETERS.contains(&&*name) && value.is_empty() {
            return Err(format!("the parameter `{name}` is empty"));
        }
        match &*name {
            "cacert" => tls = tls.cacert_file(&*value),
            "cert" => tls = tls.cert_file(&*value),
            "key" => tls = tls.key_file(&*value),
            "sni" => tls = tls.sni(value),
            _ => {}
        }
    }
    Ok(tls.insecure(url.fragment() == Some("insecure")))
}

/// What the nodes of a set share: mistakes are told once.
pub(super) struct Clients<'a> {
    of_all: &'a Tls,
    /// `None` after a mistake.
    known: Vec<(Tls, Option<TlsConfig>)>,
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
    pub(super) fn client(
        &mut self,
        url: &Url,
        endpoint: &Endpoint,
    ) -> Result<Option<TlsClient>, String> {
        let tls = tls_of(url)?.or(self.of_all);
        let name = tls.sni.as_deref().map(server_name);
        let has_name = |host: &str| server_name(host).is_some();
        if name == Some(None) || name.is_none() && !endpoint.hosts().all(has_name) {
            return Err(
                "no certificate can be for the server's name; write the name that it is for, as in \
                 `rediss://10.0.0.1?sni=redis.internal`"
                    .to_owned(),
            );
        }
        let is_insecure = tls.is_insecure;
        Ok(self.config(tls).map(|config| TlsClient {
            config,
            name: name.flatten(),
            is_insecure,
        }))
    }

    fn config(&mut self, tls: Tls) -> Option<TlsConfig> {
        let mut known = self.known.iter();
        if let Some((_, config)) = known.find(|(known, _)| known.has_config_of(&tls)) {
            return config.clone();
        }
        let config = renewed(tls.clone());
        let config = config.map_err(|problem| self.problems.push(problem)).ok();
        self.known.push((tls, config.clone()));
        config
    }

    pub(super) fn into_problems(self) -> Vec<ConfigProblem> {
        self.problems
    }
}

/// What rustls needs, made again when one of the files that it comes from has changed.
///
/// Files that cannot be used are an error, although those before them could: nobody would notice that the next start
/// of the process fails.
fn renewed(tls: Tls) -> Result<TlsConfig, ConfigProblem> {
    // Before the files are read for the first time, so that what changes meanwhile is a change.
    let from = tls.read_files()?;
    let last = Mutex::new((Arc::new(tls.client_config()?), from));
    Ok(Arc::new(move || {
        let text = |problem: ConfigProblem| Arc::from(problem.to_string());
        let from = tls.read_files().map_err(text)?;
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.1 != from {
            *last = (Arc::new(tls.client_config().map_err(text)?), from);
        }
        Ok(Arc::clone(&last.0))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::nodes::refusal;

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
            let reason = refusal(&format!("rediss://host{rest}"));
            assert!(reason.contains(words), "{rest}: {reason}");
            assert!(!reason.contains("hunter2"), "{rest}: {reason}");
        }
        let reason = refusal("redis://host?cacert=a");
        assert!(reason.contains("unknown parameter"), "{reason}");
    }
}
