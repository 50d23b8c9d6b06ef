//! Nodes whose URL is `rediss://`.

use std::{fs, path::Path, process::Command};

use crate::common::{
    await_state, await_up,
    certificates::{Authority, TlsServer, localhost},
    documented_rules, set_user, unhurried,
};
use redlock_runtime::{Builder, NodeState, ProblemKind, RedlockConfig, Release, Tls};

/// The operating system's roots, which a process of its own has from the environment.
#[test]
fn a_certificate_is_checked_against_the_roots_of_the_operating_system() {
    let authority = Authority::new();
    let node = authority.server(localhost(), "no");
    assert_eq!(with_roots("lock", &node, &authority.file()), "locked");
    assert!(node.server.count("evalsha") > 0);

    let stranger = Authority::named("stranger");
    let before = node.server.count("evalsha");
    let error = with_roots("lock", &node, &stranger.file());
    assert!(error.contains("unreachable"), "{error}");
    assert!(error.contains("UnknownIssuer"), "{error}");
    assert_eq!(node.server.count("evalsha"), before);

    let nothing = with_roots("start", &node, &authority.path("nothing.pem"));
    assert!(nothing.contains("TLS: "), "{nothing}");
    assert!(nothing.contains("nothing.pem"), "{nothing}");
}

/// What becomes of a lock, or of `install`, in a process that trusts `authority` and nobody else.
fn with_roots(mode: &str, node: &TlsServer, authority: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_configured"))
        .arg(mode)
        .env("REDLOCK_NODES", node.url("localhost", ""))
        .env("SSL_CERT_FILE", authority)
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Locks and releases.
async fn works(builder: Builder) {
    let redlock = builder.build().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
}

/// Why the node does not.
async fn down(builder: Builder) -> String {
    let redlock = builder.build().await.unwrap();
    let nodes = redlock.nodes();
    let NodeState::Down { reason: why } = nodes[0].state() else {
        panic!("{nodes:?}");
    };
    why.to_string()
}

#[tokio::test]
async fn what_is_trusted_is_said_in_code_or_in_the_url() {
    let authority = Authority::new();
    let node = authority.server(localhost(), "no");
    let url = |host: &str, rest: &str| unhurried([node.url(host, rest)]);
    let file = authority.file();
    let cacert = format!("?cacert={}", file.display());

    works(url("localhost", &cacert)).await;
    works(url("localhost", "").tls(Tls::new().cacert_file(&file))).await;
    works(url("localhost", "").tls(Tls::new().cacert_pem(authority.pem()))).await;

    // Another name than that of the host.
    let elsewhere = || Tls::new().cacert_file(&file);
    let error = down(url("127.0.0.1", "").tls(elsewhere())).await;
    assert!(error.contains("not valid for name"), "{error}");
    works(url("127.0.0.1", "").tls(elsewhere().sni("localhost"))).await;
    works(url("127.0.0.1", &format!("{cacert}&sni=localhost"))).await;

    // What the URL says comes first.
    let other = Authority::named("other");
    let wrong = || Tls::new().cacert_pem(other.pem()).sni("elsewhere");
    let right = format!("{cacert}&sni=localhost");
    works(url("127.0.0.1", &right).tls(wrong())).await;

    // Nothing is verified.
    let error = down(url("127.0.0.1", "").tls(wrong())).await;
    assert!(error.contains("certificate"), "{error}");
    works(url("127.0.0.1", "#insecure").tls(wrong())).await;
    works(url("127.0.0.1", "").tls(wrong().insecure(true))).await;
}

#[tokio::test]
async fn a_client_has_a_certificate() {
    let authority = Authority::new();
    let node = authority.server(localhost(), "yes");
    let client = authority.sign("client", localhost());
    let trusting = || Tls::new().cacert_file(authority.file());
    let url = |rest: &str| unhurried([node.url("localhost", rest)]);

    let files = trusting().cert_files(&client.cert, &client.key);
    works(url("").tls(files)).await;
    let text = |path: &Path| fs::read(path).unwrap();
    let pem = trusting().cert_pem(text(&client.cert), text(&client.key));
    works(url("").tls(pem)).await;
    let [cert, key] = [client.cert.display(), client.key.display()];
    works(url(&format!("?cert={cert}&key={key}")).tls(trusting())).await;
}

#[tokio::test]
async fn a_configuration_file_has_all_of_it() {
    let authority = Authority::new();
    let node = authority.server(localhost(), "yes");
    set_user(
        &node.server,
        "locker",
        &["on", ">secret"],
        documented_rules(),
    );
    let client = authority.sign("client", localhost());
    let text = serde_json::json!({
        "nodes": [node.url("127.0.0.1", "")],
        "user": "locker",
        "password": "secret",
        "tls_cacert": authority.file(),
        "tls_cert": client.cert,
        "tls_key": client.key,
        "tls_sni": "localhost",
        "key_prefix": "lock:",
        "expire": "30s",
        "connect_timeout": "30s",
        "assume_fresh": true,
    });
    let config: RedlockConfig = serde_json::from_str(&text.to_string()).unwrap();
    let redlock = config.into_builder().build().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    let remaining: u64 = node.server.query(&["PTTL", "lock:k"]);
    assert!((30_000..40_000).contains(&remaining), "{remaining}");
    assert_eq!(guard.release().await, Release::Released);

    let wrong = r#"{ "nodes": "ftp://h, redis://a", "expire": "2m" }"#;
    let wrong: RedlockConfig = serde_json::from_str(wrong).unwrap();
    let error = wrong.into_builder().build().await.unwrap_err();
    let kinds: Vec<_> = error.problems().iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [ProblemKind::BadNode, ProblemKind::BadOption]);
}

/// Each mistake in what is named is found before anything is connected to, and names its file.
#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_once() {
    let authority = Authority::new();
    let signed = authority.sign("client", localhost());
    let other = authority.sign("other", localhost());
    let file = |name: &str, text: &str| {
        let path = authority.path(name);
        fs::write(&path, text).unwrap();
        path
    };
    let secret = "-----BEGIN PRIVATE KEY\nhunter2hunter2hunter2\n-----END PRIVATE KEY-----\n";
    let broken = file("broken.pem", secret);
    let empty = file("empty.pem", "hunter2");
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let garbage = file("garbage.pem", garbage);
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let locked = file("locked.pem", locked);
    let nothing = authority.path("nothing.pem");
    let trusting = |path: &Path| Tls::new().cacert_file(path);
    let with = |cert: &Path, key: &Path| trusting(&authority.file()).cert_files(cert, key);
    for (tls, named, words) in [
        (trusting(&nothing), &nothing, "cannot be read (No such file"),
        (trusting(&empty), &empty, "has no certificate"),
        (trusting(&signed.key), &signed.key, "has no certificate"),
        (trusting(&broken), &broken, "is not in PEM form"),
        (trusting(&garbage), &garbage, "cannot be used"),
        (with(&nothing, &signed.key), &nothing, "cannot be read"),
        (with(&garbage, &signed.key), &garbage, "cannot be used"),
        (with(&signed.cert, &nothing), &nothing, "cannot be read"),
        (with(&signed.cert, &empty), &empty, "has no private key"),
        (with(&signed.cert, &broken), &broken, "is not in PEM form"),
        (with(&signed.cert, &locked), &locked, "passphrase"),
        (
            with(&signed.cert, &other.key),
            &other.key,
            "is not the key of",
        ),
    ] {
        let urls = [
            "rediss://a.invalid",
            "rediss://b.invalid",
            "rediss://c.invalid",
        ];
        let builder = unhurried(urls).tls(tls);
        assert!(!format!("{builder:?}").contains("hunter2"), "{builder:?}");
        let error = builder.build().await.unwrap_err();
        let text = error.to_string();
        // Once, although three nodes need it.
        let [problem] = error.problems() else {
            panic!("{text}");
        };
        assert_eq!(problem.kind, ProblemKind::BadTls);
        assert_eq!(problem.setting, named.to_str().unwrap(), "{text}");
        assert!(text.contains(words), "{words}: {text}");
        assert!(text.contains(named.to_str().unwrap()), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    let in_code = Tls::new().cacert_pem("hunter2");
    assert!(!format!("{in_code:?}").contains("hunter2"));
    let builder = unhurried(["rediss://a.invalid"]).tls(in_code);
    let error = builder.build().await.unwrap_err();
    assert_eq!(error.problems()[0].kind, ProblemKind::BadTls, "{error}");
    assert_eq!(error.problems()[0].setting, "");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

/// Those of before are worth nothing any more: the server has a certificate of another authority, and requires
/// one of it.
#[tokio::test]
async fn files_that_were_renewed_are_read_at_the_next_connection() {
    let authority = Authority::new();
    let node = authority.server(localhost(), "yes");
    let client = authority.sign("client", localhost());
    let tls = Tls::new()
        .cacert_file(authority.file())
        .cert_files(&client.cert, &client.key);
    let redlock = unhurried([node.url("localhost", "")])
        .tls(tls)
        .build()
        .await
        .unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();

    let next = Authority::named("next");
    let renewed = next.sign("client", localhost());
    node.present(&next.sign("server", localhost()), &next);
    guard.extend().await.expect("connections that stand go on");
    fs::remove_file(&client.cert).unwrap();
    node.server.kill_clients();
    let said = || redlock.health().to_string();
    await_state("a file that is missing", || said().contains("TLS: ")).await;
    let text = said();
    assert!(text.contains(client.cert.to_str().unwrap()), "{text}");
    assert!(text.contains("cannot be read (No such file"), "{text}");

    fs::copy(next.file(), authority.file()).unwrap();
    fs::copy(&renewed.key, &client.key).unwrap();
    fs::copy(&renewed.cert, &client.cert).unwrap();
    await_up(&redlock).await;
    guard.extend().await.unwrap();
    assert_eq!(guard.release().await, Release::Released);
}
