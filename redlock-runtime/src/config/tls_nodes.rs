//! TLS in the URLs of nodes, and certificates and keys that are renewed on disk.

use std::sync::Arc;

use url::Url;

use super::{problem::ConfigProblem, server_url::TLS_PARAMETERS, tls::Tls};
use crate::node::{Endpoint, TlsClient, server_name};

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

/// What a node with this URL needs, besides what is said `of_all` nodes. `None` after a mistake in what both name, which
/// is told once for all nodes.
pub(super) fn client(
    url: &Url,
    endpoint: &Endpoint,
    of_all: &Tls,
    problems: &mut Vec<ConfigProblem>,
) -> Result<Option<TlsClient>, String> {
    let tls = tls_of(url)?.or(of_all);
    let name = tls.sni.as_deref().map(server_name);
    let has_name = |host: &str| server_name(host).is_some();
    if name == Some(None) || name.is_none() && !endpoint.hosts().all(has_name) {
        return Err(
            "no certificate can be for the server's name; write the name that it is for, as in \
             `rediss://10.0.0.1?sni=redis.internal`"
                .to_owned(),
        );
    }
    if let Err(problem) = tls.client_config() {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
        return Ok(None);
    }
    let text = |problem: ConfigProblem| Arc::from(problem.to_string());
    Ok(Some(TlsClient {
        is_insecure: tls.is_insecure,
        // At each connection: the files may have been renewed.
        config: Arc::new(move || tls.client_config().map_err(text)),
        name: name.flatten(),
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
