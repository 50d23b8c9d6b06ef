//! Nodes whose URL is `rediss://`.

use std::{fs, path::Path, process::Command};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use redlock_tests::{Port, Server};

#[test]
fn a_node_with_a_certificate_that_is_trusted_locks() {
    let (server, files) = server();
    assert_eq!(lock(&server, &files.path().join("ca.pem")), "locked");
    assert!(server.count("evalsha") > 0);
}

#[test]
fn a_node_with_another_certificate_is_not_spoken_to() {
    let (server, files) = server();
    let stranger = files.path().join("stranger.pem");
    fs::write(&stranger, authority().pem()).unwrap();
    let error = lock(&server, &stranger);
    assert!(error.contains("unreachable"), "{error}");
    assert!(error.to_lowercase().contains("certificate"), "{error}");
    assert_eq!(server.count("evalsha"), 0);
}

/// A server that also speaks TLS, and the folder of its certificates.
fn server() -> (Server, tempfile::TempDir) {
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let authority = authority();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    fs::write(file("ca.pem"), authority.pem()).unwrap();
    fs::write(file("cert.pem"), certificate.pem()).unwrap();
    fs::write(file("key.pem"), key.serialize_pem()).unwrap();
    let server = Server::builder()
        .args([
            "--tls-cert-file".to_owned(),
            file("cert.pem"),
            "--tls-key-file".to_owned(),
            file("key.pem"),
            "--tls-ca-cert-file".to_owned(),
            file("ca.pem"),
            "--tls-auth-clients".to_owned(),
            "no".to_owned(),
        ])
        .start();
    (server, files)
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// What becomes of a lock in a process that trusts `authority` and nobody else.
fn lock(server: &Server, authority: &Path) -> String {
    let reserved = Port::reserve();
    let port = reserved.number();
    server.command(&["CONFIG", "SET", "tls-port", &port.to_string()]);
    let output = Command::new(env!("CARGO_BIN_EXE_configured"))
        .arg("lock")
        .env("REDLOCK_NODES", format!("rediss://localhost:{port}"))
        .env("SSL_CERT_FILE", authority)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
