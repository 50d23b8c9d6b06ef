//! Nodes whose URL is `rediss://`.

use std::{fs, path::Path, process::Command};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
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

/// `install` says what is wrong with a certificate.
#[test]
fn certificates_that_cannot_be_trusted_are_told_apart() {
    let authority_of = |files: &tempfile::TempDir| files.path().join("ca.pem");
    let (good, files) = server();
    assert_eq!(
        start(&good, "localhost", &authority_of(&files)),
        "installed"
    );

    let elsewhere = start(&good, "127.0.0.1", &authority_of(&files));
    assert!(
        elsewhere.contains("not valid for name \"127.0.0.1\""),
        "{elsewhere}"
    );

    let stranger = files.path().join("stranger.pem");
    fs::write(&stranger, authority_named("stranger").pem()).unwrap();
    let unknown = start(&good, "localhost", &stranger);
    assert!(unknown.contains("UnknownIssuer"), "{unknown}");
    assert!(unknown.contains("`SSL_CERT_FILE`"), "{unknown}");

    let mut expired = CertificateParams::new(["localhost".to_owned()]).unwrap();
    expired.not_after = date_time_ymd(2001, 1, 1);
    let (old, files) = server_with(expired);
    let expired = start(&old, "localhost", &authority_of(&files));
    assert!(expired.contains("certificate expired"), "{expired}");
}

/// A server that also speaks TLS, and the folder of its certificates.
fn server() -> (Server, tempfile::TempDir) {
    server_with(CertificateParams::new(["localhost".to_owned()]).unwrap())
}

fn server_with(params: CertificateParams) -> (Server, tempfile::TempDir) {
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let authority = authority();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
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
    authority_named("authority")
}

fn authority_named(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new([]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// What becomes of a lock in a process that trusts `authority` and nobody else.
fn lock(server: &Server, authority: &Path) -> String {
    configured("lock", server, "localhost", authority)
}

/// What becomes of `install` there.
fn start(server: &Server, host: &str, authority: &Path) -> String {
    configured("start", server, host, authority)
}

fn configured(mode: &str, server: &Server, host: &str, authority: &Path) -> String {
    let reserved = Port::reserve();
    let port = reserved.number();
    server.command(&["CONFIG", "SET", "tls-port", &port.to_string()]);
    let output = Command::new(env!("CARGO_BIN_EXE_configured"))
        .arg(mode)
        .env("REDLOCK_NODES", format!("rediss://{host}:{port}"))
        .env("SSL_CERT_FILE", authority)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
