//! The program over real servers and processes.
#![cfg(unix)]

#[path = "../../../tests/tests/common/certificates.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "the tests of the library use all of it"
)]
mod certificates;
mod doctor;
mod operator;
mod run;
mod surroundings;
mod tls;

use std::process::{Command, Output};

use redlock_runtime::Redlock;
use redlock_tests::{Cluster, PATIENCE, Worker};

/// Servers that vote, as they do some seconds after they were started first.
fn cluster() -> Cluster {
    let cluster = Cluster::start(3);
    admit(&cluster.urls());
    cluster.iter().for_each(|node| node.settle());
    cluster
}

fn admit(urls: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let builder = Redlock::builder().nodes(urls).assume_fresh(true);
        let redlock = builder.build().await.unwrap();
        redlock.ready(PATIENCE).await.unwrap();
        while !redlock.nodes().iter().all(|node| node.is_up()) {
            tokio::task::yield_now().await;
        }
    });
}

/// The program, for the nodes of these URLs.
fn program(nodes: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
    command.env("REDLOCK_NODES", nodes).args(args);
    command
}

fn redlock(cluster: &Cluster, args: &[&str]) -> Command {
    program(&cluster.url_list(), args)
}

fn output(cluster: &Cluster, args: &[&str]) -> Output {
    redlock(cluster, args).output().unwrap()
}

/// What it writes for other programs.
fn json(cluster: &Cluster, args: &[&str]) -> serde_json::Value {
    let out = output(cluster, &[&["--json"], args].concat());
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Deletes the lock that a command has.
fn lose(cluster: &Cluster) {
    for node in cluster {
        node.command(&["DEL", "job"]);
    }
}

/// One that goes on. Its standard input is no terminal.
fn start(cluster: &Cluster, args: &[&str]) -> Worker {
    Worker::from_command(&mut redlock(cluster, args))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
