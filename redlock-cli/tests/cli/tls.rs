//! Servers that are reached by TLS, and what a URL does not say of them.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::{
    certificates::{Authority, TlsServer, localhost},
    text,
};

fn redlock(node: &TlsServer, options: &[(&str, &Path)], args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
    command.args(["--nodes", &node.url("localhost", "")]);
    for (option, file) in options {
        command.arg(option).arg(file);
    }
    command.args(args).output().unwrap()
}

#[test]
fn certificates_are_options_of_each_command() {
    let authority = Authority::new();
    let node = authority.server(localhost(), "yes");
    let client = authority.sign("client", localhost());
    let (ca, cert, key) = (authority.file(), client.cert, client.key);
    let all = [
        ("--tls-ca", &*ca),
        ("--tls-cert", &cert),
        ("--tls-key", &key),
    ];
    // A server that no process has used does not vote for the length of a lease.
    let run = [
        "run", "-k", "job", "--expire", "1s", "--grace", "0s", "--", "true",
    ];
    let ran = redlock(&node, &all, &run);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let status = redlock(&node, &all, &["status"]);
    assert!(text(&status.stdout).contains("1 of 1"), "{status:?}");

    let both = authority.path("both.pem");
    let texts = [&cert, &key].map(|file| fs::read_to_string(file).unwrap());
    fs::write(&both, texts.concat()).unwrap();
    let one_file = [("--tls-ca", &*ca), ("--tls-cert", &both)];
    let status = redlock(&node, &one_file, &["status"]);
    assert!(status.status.success(), "{status:?}");

    for (some, why) in [(&all[..1], "certificate"), (&all[1..], "UnknownIssuer")] {
        let status = redlock(&node, some, &["status"]);
        assert_eq!(status.status.code(), Some(69));
        assert!(
            text(&status.stdout)
                .to_lowercase()
                .contains(&why.to_lowercase()),
            "{status:?}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let authority = Authority::new();
    let node = authority.server(localhost(), "no");
    let nothing = authority.path("nothing.pem");
    for args in [&["status"][..], &["run", "-k", "job", "--", "true"]] {
        let out = redlock(&node, &[("--tls-ca", &nothing)], args);
        assert_eq!(out.status.code(), Some(78), "{out:?}");
        assert!(text(&out.stderr).contains("nothing.pem"), "{out:?}");
    }
}
