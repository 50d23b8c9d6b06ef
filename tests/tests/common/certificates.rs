//! Certificates, and servers that have them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use redlock_tests::{Port, Server};
use tempfile::TempDir;

/// An authority, and the folder of what it has signed.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate and its key, as files.
pub struct Signed {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Self {
        Self::named("authority")
    }

    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    /// Its certificate.
    pub fn file(&self) -> PathBuf {
        self.path("ca.pem")
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// What is in its folder, or could be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn sign(&self, name: &str, params: CertificateParams) -> Signed {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let signed = Signed {
            cert: self.path(&format!("{name}.pem")),
            key: self.path(&format!("{name}.key")),
        };
        fs::write(&signed.cert, certificate.pem()).unwrap();
        fs::write(&signed.key, key.serialize_pem()).unwrap();
        signed
    }

    /// A server that also speaks TLS, and the reservation of its port for that. `clients`: whether it
    /// requires certificates of clients.
    pub fn server(&self, params: CertificateParams, clients: &str) -> TlsServer {
        let signed = self.sign("server", params);
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let server = Server::builder()
            .args(["--tls-cert-file".to_owned(), text(&signed.cert)])
            .args(["--tls-key-file".to_owned(), text(&signed.key)])
            .args(["--tls-ca-cert-file".to_owned(), text(&self.file())])
            .args(["--tls-auth-clients", clients])
            .start();
        let port = Port::reserve();
        server.command(&["CONFIG", "SET", "tls-port", &port.number().to_string()]);
        TlsServer { server, port }
    }
}

/// A server that speaks TLS on a port of its own.
pub struct TlsServer {
    pub server: Server,
    port: Port,
}

impl TlsServer {
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// From now on it has this certificate, and wants those of `authority`.
    pub fn present(&self, signed: &Signed, authority: &Authority) {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let words = [
            ("tls-cert-file", text(&signed.cert)),
            ("tls-key-file", text(&signed.key)),
            ("tls-ca-cert-file", text(&authority.file())),
        ];
        let words = words.iter().flat_map(|(name, value)| [*name, value]);
        let words: Vec<&str> = ["CONFIG", "SET"].into_iter().chain(words).collect();
        self.server.command(&words);
    }

    pub fn url(&self, host: &str, rest: &str) -> String {
        format!("rediss://{host}:{}{rest}", self.port())
    }
}

/// For `localhost`, valid now.
pub fn localhost() -> CertificateParams {
    CertificateParams::new(["localhost".to_owned()]).unwrap()
}

/// For this machine by name and address.
pub fn here() -> CertificateParams {
    CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap()
}
