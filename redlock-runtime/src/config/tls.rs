//! What `rediss://` nodes need beside their address, and what rustls makes of it.

use std::{fmt, fs, path::PathBuf, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{self, CryptoProvider},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use url::Url;

use super::{
    problem::{ConfigProblem, ProblemKind},
    server_url::TLS_PARAMETERS,
};
use crate::node::{Endpoint, TlsClient, server_name};

/// How `rediss://` nodes prove who they are, and how this process does.
///
/// Without any of this, a node's certificate is checked against the operating system's root
/// certificates and the host of its URL, and the client has no certificate.
///
/// ```
/// # fn builder(builder: redlock_runtime::Builder) -> redlock_runtime::Builder {
/// use redlock_runtime::Tls;
///
/// let tls = Tls::new()
///     .cacert_file("/etc/locks/ca.pem")
///     .cert_files("/etc/locks/client.pem", "/etc/locks/client.key");
/// builder
///     .nodes(["rediss://10.0.0.1", "rediss://10.0.0.2", "rediss://10.0.0.3?sni=locks-3.internal"])
///     .tls(tls)
/// # }
/// ```
///
/// The parameters of a node's URL come before what is said here: `cacert`, `cert` and `key` name files,
/// `sni` is the server's name, and `#insecure` at the end turns off verification. They have the names
/// that the options of `redis-cli` have.
///
/// Files are read and checked when the node set is built, and each mistake in them is a
/// [`ProblemKind::BadTls`]. They are read again at each connection to a node, so certificates can be
/// renewed on disk while the process runs; connections that stand go on with what they began with. If a
/// file cannot be used then, the connection is not made, and the state of the node,
/// [`NodeState::Down`](crate::NodeState::Down), says why in the same words. What was given as text stays,
/// and so do the operating system's roots until a file changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    authorities: Option<Pem>,
    certificate: Option<(Pem, Pem)>,
    sni: Option<String>,
    is_insecure: bool,
}

/// Certificates or a key, in PEM form.
#[derive(Clone, PartialEq, Eq)]
enum Pem {
    File(PathBuf),
    Text(Arc<[u8]>),
}

impl Tls {
    /// Makes the default: trusts the operating system's root certificates, expects the host of the URL, and presents no
    /// client certificate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificate authorities in this PEM file, and not those of the operating system.
    #[must_use]
    pub fn cacert_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.authorities = Some(Pem::File(path.into()));
        self
    }

    /// Trusts the certificate authorities in this PEM text, and not those of the operating system.
    #[must_use]
    pub fn cacert_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities = Some(Pem::Text(pem.into().into()));
        self
    }

    /// Presents the client's certificate and uses its private key, from PEM files. Servers with `tls-auth-clients yes`
    /// require it. The first file also has the certificates between it and its authority, if there are any. A key with
    /// a passphrase cannot be read.
    #[must_use]
    pub fn cert_files(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificate = Some((Pem::File(cert.into()), Pem::File(key.into())));
        self
    }

    /// Presents the client's certificate from a file, which may also hold its key.
    #[doc(hidden)]
    #[must_use]
    pub fn cert_file(mut self, path: impl Into<PathBuf>) -> Self {
        let cert = Pem::File(path.into());
        let key = self
            .certificate
            .map_or_else(|| cert.clone(), |(_, key)| key);
        self.certificate = Some((cert, key));
        self
    }

    /// Uses the private key in a file, which may also hold the certificate.
    #[doc(hidden)]
    #[must_use]
    pub fn key_file(mut self, path: impl Into<PathBuf>) -> Self {
        let key = Pem::File(path.into());
        let cert = self
            .certificate
            .map_or_else(|| key.clone(), |(cert, _)| cert);
        self.certificate = Some((cert, key));
        self
    }

    /// Presents the client's certificate and uses its private key, from PEM texts; see
    /// [`cert_files`](Self::cert_files).
    #[must_use]
    pub fn cert_pem(mut self, cert: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        let text = |pem: Vec<u8>| Pem::Text(pem.into());
        self.certificate = Some((text(cert.into()), text(key.into())));
        self
    }

    /// Sets the name that the servers' certificates must be for, in place of the host of the URL. The client sends it,
    /// too (SNI). If servers have different names, write them in the URLs.
    #[must_use]
    pub fn sni(mut self, name: impl Into<String>) -> Self {
        self.sni = Some(name.into());
        self
    }

    /// Accepts any certificate if `true`, so anyone on the network can stand in for a server and read the password. For tests.
    /// Default: `false`.
    #[must_use]
    pub const fn insecure(mut self, insecure: bool) -> Self {
        self.is_insecure = insecure;
        self
    }

    /// What a URL says, and where it says nothing, what `other` says.
    fn or(self, other: &Self) -> Self {
        Self {
            authorities: self.authorities.or_else(|| other.authorities.clone()),
            certificate: self.certificate.or_else(|| other.certificate.clone()),
            sni: self.sni.or_else(|| other.sni.clone()),
            is_insecure: self.is_insecure || other.is_insecure,
        }
    }

    /// Reads and checks what is named.
    fn client_config(&self) -> Result<ClientConfig, ConfigProblem> {
        // Without a choice rustls panics where an application's other crates bring several providers
        // or none.
        let chosen = CryptoProvider::get_default().cloned();
        let provider = chosen.unwrap_or_else(|| Arc::new(crypto::ring::default_provider()));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(None, &error))?;
        let builder = if self.is_insecure {
            let any = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(any)
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let Some((certificate, key)) = &self.certificate else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificate.certificates()?;
        builder
            .with_client_auth_cert(chain, key.private_key()?)
            .map_err(|error| match error {
                Error::InconsistentKeys(_) => {
                    let reason = format!("is not the key of the certificate in {certificate}");
                    bad(Some(key), &reason)
                }
                Error::InvalidCertificate(_) => bad(Some(certificate), &unusable(&error)),
                _ => bad(Some(key), &unusable(&error)),
            })
    }

    fn roots(&self) -> Result<RootCertStore, ConfigProblem> {
        let mut roots = RootCertStore::empty();
        let Some(authorities) = &self.authorities else {
            let mut found = rustls_native_certs::load_native_certs();
            // One that rustls cannot read has no servers to vouch for here.
            let (readable, _) = roots.add_parsable_certificates(found.certs);
            if readable > 0 {
                return Ok(roots);
            }
            return Err(match found.errors.pop() {
                Some(error) => bad(None, &error),
                None => bad(None, &"the operating system has no root certificates"),
            });
        };
        for certificate in authorities.certificates()? {
            roots
                .add(certificate)
                .map_err(|error| bad(Some(authorities), &unusable(&error)))?;
        }
        Ok(roots)
    }
}

impl Pem {
    fn read(&self) -> Result<Vec<u8>, ConfigProblem> {
        match self {
            Self::File(path) => fs::read(path)
                .map_err(|error| bad(Some(self), &format_args!("cannot be read ({error})"))),
            Self::Text(text) => Ok(text.to_vec()),
        }
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, ConfigProblem> {
        let text = self.read()?;
        // The error itself may quote what is no certificate, and may be a key.
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let certificates = read.map_err(|_| bad(Some(self), &NOT_PEM))?;
        if certificates.is_empty() {
            return Err(bad(Some(self), &"has no certificate in PEM form"));
        }
        Ok(certificates)
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, ConfigProblem> {
        use rustls::pki_types::pem::Error;
        let text = self.read()?;
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            Error::NoItemsFound if text.windows(9).any(|word| word == b"ENCRYPTED") => bad(
                Some(self),
                &"has a key with a passphrase, which cannot be read",
            ),
            Error::NoItemsFound => bad(Some(self), &"has no private key in PEM form"),
            _ => bad(Some(self), &NOT_PEM),
        })
    }
}

const NOT_PEM: &str = "is not in PEM form";

fn unusable(error: &Error) -> String {
    format!("cannot be used ({error})")
}

fn bad(pem: Option<&Pem>, reason: &dyn fmt::Display) -> ConfigProblem {
    let (setting, fact) = match pem {
        Some(pem @ Pem::File(_)) => (pem.to_string(), format!("TLS: {pem} {reason}")),
        Some(pem) => (String::new(), format!("TLS: {pem} {reason}")),
        None => (String::new(), format!("TLS: {reason}")),
    };
    ConfigProblem::new(ProblemKind::BadTls, setting, fact, "")
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Text(_) => f.write_str("text that was given in code"),
        }
    }
}

/// Without what was given as text, which may be a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Accepts any certificate of a server that has its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

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
