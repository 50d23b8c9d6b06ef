//! Each mistake in a node set is found, on servers that have it.

use std::{fs, io::Write, net::TcpStream, path::Path, thread, time::Duration};

use redlock_tests::{Cluster, Sentinel, Server};

use crate::{admit, cluster, output, program, text};

struct Report {
    code: Option<i32>,
    findings: Vec<serde_json::Value>,
}

impl Report {
    fn of(nodes: &[String], env: &[(&str, &str)]) -> Self {
        let mut command = program(&nodes.join(","), &["doctor", "--json"]);
        let out = command.envs(env.iter().copied()).output().unwrap();
        let report: serde_json::Value =
            serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stderr)));
        Self {
            code: out.status.code(),
            findings: report["findings"].as_array().unwrap().clone(),
        }
    }

    /// It has found this, and an error among it is in the exit code.
    #[track_caller]
    fn assert(&self, level: &str, check: &str, said: &str) {
        let is_it = |it: &&serde_json::Value| {
            let text = it["text"].as_str().unwrap();
            it["level"] == level && it["check"] == check && text.contains(said)
        };
        let findings = &self.findings;
        let found = findings.iter().find(is_it);
        assert!(found.is_some(), "{check}: {findings:#?}");
        let has_error = findings.iter().any(|it| it["level"] == "error");
        assert_eq!(self.code, Some(i32::from(has_error)));
    }
}

/// Two good servers, and this one.
fn with(server: &Server) -> Report {
    let good = Cluster::start(2);
    let mut nodes = good.urls();
    nodes.push(server.url());
    Report::of(&nodes, &[])
}

fn server(args: &[&str]) -> Server {
    Server::builder().args(args.iter().copied()).start()
}

#[test]
fn good_servers_have_no_errors() {
    let cluster = cluster();
    let report = output(&cluster, &["doctor"]);
    assert!(report.status.success(), "{}", text(&report.stdout));
    assert!(text(&report.stdout).contains("3 servers examined: 0 errors"));
    // They are on one machine.
    let strict = output(&cluster, &["doctor", "--strict"]);
    assert_eq!(strict.status.code(), Some(1));
}

#[test]
fn servers_that_are_too_few_and_one_that_is_named_twice() {
    let good = Cluster::start(2);
    let mut nodes = good.urls();
    Report::of(&nodes[..1], &[]).assert("warning", "number", "there is one server");
    Report::of(&nodes, &[]).assert("warning", "number", "with 2 servers");
    nodes.push(good[0].url().replace("127.0.0.1", "localhost"));
    Report::of(&nodes, &[]).assert("error", "distinct", "is the same server as");
}

/// Each has one setting that a node must not have.
#[test]
fn servers_that_are_set_up_differently() {
    let limited = server(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    with(&limited).assert("error", "eviction", "may delete locks that are held");
    let unlimited = server(&["--maxmemory-policy", "allkeys-lru"]);
    with(&unlimited).assert("warning", "eviction", "counts once `maxmemory` is set");
    let impatient = server(&["--timeout", "300"]);
    with(&impatient).assert("warning", "connections", "idle for 300 s");
    with(&server(&["--cluster-enabled", "yes"])).assert("error", "role", "Redis Cluster");
    let old = Server::builder().hide(["HELLO"]).start();
    with(&old).assert("error", "reach", "the server has no RESP3; Redis 6.2");
    let appending = server(&["--appendonly", "yes", "--appendfsync", "everysec"]);
    with(&appending).assert("warning", "persistence", "without the last locks");
    let saving = server(&["--save", "60 1"]);
    with(&saving).assert("warning", "persistence", "without the last locks");
}

#[test]
fn a_server_that_is_nearly_full() {
    let full = Server::start();
    let used: u64 = full.info("memory")["used_memory"].parse().unwrap();
    let limit = (used / 100 * 106).to_string();
    full.command(&["CONFIG", "SET", "maxmemory", &limit]);
    with(&full).assert("warning", "memory", "without memory it grants no locks");
}

/// Each is an error, and `status` does not take the server for an empty one.
#[test]
fn servers_that_refuse_commands() {
    let refuses = |server: &Server, check: &str, said: &str| {
        with(server).assert("error", check, said);
        let url = format!("redis://127.0.0.1:{}", server.port());
        let status = program(&url, &["status"]).output().unwrap();
        let status = text(&status.stdout);
        let code = said.split(' ').next().unwrap();
        assert!(status.contains(code), "{status}");
        assert!(!status.contains("unused"), "{status}");
    };
    let full = server(&["--maxmemory", "1mb"]);
    refuses(&full, "refusal", "OOM");
    let lonely = server(&["--min-replicas-to-write", "1"]);
    refuses(&lonely, "refusal", "NOREPLICAS");
    with(&lonely).assert("warning", "role", "min-replicas-to-write");

    let unsaved = server(&["--save", "3600 1000000"]);
    let [_, directory]: [String; 2] = unsaved.query(&["CONFIG", "GET", "dir"]);
    fs::create_dir(Path::new(&directory).join("dump.rdb")).unwrap();
    unsaved.command(&["BGSAVE"]);
    while unsaved.info("persistence")["rdb_last_bgsave_status"] == "ok" {
        thread::yield_now();
    }
    refuses(&unsaved, "refusal", "MISCONF");

    let locked = Server::builder().password("secret").start();
    let without = format!("redis://127.0.0.1:{}", locked.port());
    let report = Report::of(std::slice::from_ref(&without), &[]);
    report.assert("error", "reach", "NOAUTH");

    let busy = server(&["--busy-reply-threshold", "1"]);
    let mut client = TcpStream::connect(("127.0.0.1", busy.port())).unwrap();
    client.write_all(b"EVAL 'while true do end' 0\r\n").unwrap();
    while busy.try_command(&["PING"]).is_ok() {
        thread::yield_now();
    }
    refuses(&busy, "refusal", "BUSY");
    busy.command(&["SCRIPT", "KILL"]);
}

#[test]
fn a_replica() {
    let master = Server::start();
    let port = master.port().to_string();
    let replica = server(&["--replicaof", "127.0.0.1", &port]);
    with(&replica).assert("error", "role", "is a replica");
}

#[test]
fn a_sentinel() {
    let good = Cluster::start(2);
    let mut nodes = good.urls();
    let sentinel = Sentinel::start();
    nodes.push(sentinel.url());
    Report::of(&nodes, &[]).assert("error", "role", "is a Sentinel");
}

/// With `always` in its file, its data would count for complete after a crash.
#[test]
fn a_server_whose_persistence_was_changed_while_it_votes() {
    let durable = Server::builder().args(["--appendonly", "yes", "--appendfsync", "always"]);
    let voting = Cluster::start_with(3, &durable);
    admit(&voting.urls());
    voting.iter().for_each(|node| node.settle());
    voting[0].command(&["CONFIG", "SET", "appendfsync", "everysec"]);
    let report = Report::of(&voting.urls(), &[]);
    report.assert("error", "persistence", "no longer writes each lock");
    let findings = format!("{:?}", report.findings);
    assert_eq!(findings.matches("persistence").count(), 1, "{findings}");
}

#[test]
fn a_clock_that_is_wrong() {
    let early = Server::start_with_clock();
    early.clock().step(Duration::from_secs(5));
    with(&early).assert("error", "clock", "ahead of the clock of this machine");
    early.clock().step_back(Duration::from_secs(10));
    with(&early).assert("error", "clock", "behind the clock of this machine");
    early.clock().step(Duration::from_secs(5));
    early.clock().drift(5);
    let faster = "faster than the clock of this machine";
    with(&early).assert("error", "clock-speed", faster);
}

#[test]
fn a_user_without_the_rights() {
    let good = Cluster::start(3);
    let documented = include_str!("../../../redlock-runtime/src/guide/servers.md");
    let rules = documented
        .split("```")
        .find(|block| block.starts_with("text\n~"));
    let rules: Vec<&str> = rules.unwrap().split_whitespace().skip(1).collect();
    let user = |denied: &[&str]| {
        for node in &good {
            let own = ["ACL", "SETUSER", "locker", "reset", "on", ">secret"];
            let rules = rules.iter().copied().filter(|rule| !denied.contains(rule));
            node.command(&own.into_iter().chain(rules).collect::<Vec<_>>());
        }
        let [user, password] = [("REDLOCK_USER", "locker"), ("REDLOCK_PASSWORD", "secret")];
        let prefix = ("REDLOCK_KEY_PREFIX", "lock:");
        let report = Report::of(&good.urls(), &[user, password, prefix]);
        for node in &good {
            assert_eq!(node.query::<u64>(&["DBSIZE"]), 0, "nothing is left behind");
        }
        report
    };
    let findings = user(&[]).findings;
    let lacks = findings.iter().any(|it| it["check"] == "rights");
    assert!(!lacks, "{findings:#?}");
    user(&["+hset"]).assert("error", "rights", "lacks +hset");
    user(&["+evalsha"]).assert("error", "rights", "lacks +evalsha");
    user(&["~__redlock:*"]).assert("error", "rights", "lacks +hset");
    user(&["~lock:*"]).assert("error", "rights", "lacks +set");
    user(&["+client|tracking"]).assert("warning", "rights", "next renewal only");
    user(&["+client|list"]).assert("warning", "rights", "cannot be named");
    user(&["+info"]).assert("warning", "rights", "not detected");
}

#[test]
fn a_server_that_cannot_be_reached_or_does_not_let_us_in() {
    let good = Cluster::start(2);
    let dead = Server::start();
    dead.kill();
    let mut nodes = good.urls();
    nodes.push(dead.url());
    Report::of(&nodes, &[]).assert("error", "reach", "refused");
    let locked = Server::builder().password("secret").start();
    nodes[2] = format!("redis://:wrong@127.0.0.1:{}", locked.port());
    let report = Report::of(&nodes, &[]);
    report.assert("error", "reach", "WRONGPASS");
    let findings = format!("{:?}", report.findings);
    assert!(!findings.contains("wrong@"), "{findings}");
}

#[test]
fn nodes_that_are_used_in_different_ways() {
    let good = cluster();
    let mut nodes = good.urls();
    nodes[0].push_str("/1");
    Report::of(&nodes, &[]).assert("warning", "database", "different databases");
    good[0].command(&["HSET", "__redlock:node:0", "max_ttl", "1234"]);
    Report::of(&good.urls(), &[]).assert("error", "max-lease", "1234");
    good[1].command(&["HSET", "__redlock:node:0", "server", "another"]);
    Report::of(&good.urls(), &[]).assert("warning", "vote", "was restarted");
    good[2].command(&["HSET", "__redlock:node:0", "format", "2"]);
    Report::of(&good.urls(), &[]).assert("error", "format", "its data has format 2");
}

#[test]
fn servers_on_one_machine() {
    let report = with(&Server::start());
    report.assert("warning", "hosts", "fail together");
}
