//! What an operator finds out and does with the program alone.

use std::time::Duration;

use redlock_tests::{Cluster, RedisCluster, Sentinel, Server, Worker};

use crate::{
    admit, cluster, json, output, redlock,
    run::{SAYS, begin},
    start, text,
};

fn holder(cluster: &Cluster) -> Worker {
    let run = "run -k order:7 --service orders -- sh -c".split(' ');
    let shell = ["trap 'echo asked; exit' TERM; echo runs; sleep 1000 & wait"];
    let worker = start(cluster, &run.chain(shell).collect::<Vec<_>>());
    worker.expect_line("runs");
    worker
}

#[test]
fn an_operator_finds_the_process_that_holds_a_lock_and_frees_it() {
    let cluster = cluster();
    let worker = holder(&cluster);

    let found = output(&cluster, &["inspect", "order:7"]);
    assert!(found.status.success());
    let said = text(&found.stdout);
    let state = "order:7 is held; 3 of 3 nodes replied";
    assert!(said.starts_with(state), "{said}");
    let process = format!("process {}", worker.pid());
    for part in ["orders on ", &process, ", connected for "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let found = json(&cluster, &["inspect", "order:7"]);
    assert_eq!(found["held"], true);
    let process = &found["holders"][0]["process"];
    assert_eq!(process["pid"], worker.pid());
    assert_eq!(process["service"], "orders");
    assert!(process["connected_seconds"].is_u64());

    // Without a question nothing is deleted.
    let unsure = redlock(&cluster, &["break", "order:7"])
        .stdin(std::process::Stdio::null())
        .output();
    assert_eq!(unsure.unwrap().status.code(), Some(64));
    assert!(cluster.held_on("order:7") >= 2);

    let broken = output(&cluster, &["break", "order:7", "--yes"]);
    assert!(broken.status.success(), "{}", text(&broken.stderr));
    let said = text(&broken.stdout);
    assert!(said.contains("deleted on "), "{said}");
    worker.expect_line("asked");
    assert_eq!(worker.wait().code(), Some(76));
    cluster.assert_free("order:7");
    let next = output(&cluster, &["run", "-k", "order:7", "--", "true"]);
    assert!(next.status.success());
}

#[test]
fn an_operator_sees_the_value_that_a_holder_has_given_its_lock() {
    let cluster = cluster();
    let run = ["run", "--key", "k", "--value", "10.0.0.7:8080", "--", "cat"];
    let holder = start(&cluster, &run);
    loop {
        let found = json(&cluster, &["inspect", "k"]);
        let holder = &found["holders"][0];
        if holder["value"] == "10.0.0.7:8080" {
            break;
        }
        assert!(holder["value"].is_null(), "{found}");
    }
    let found = output(&cluster, &["inspect", "k"]);
    let said = text(&found.stdout);
    assert!(said.contains(r#", value "10.0.0.7:8080", "#), "{said}");
    drop(holder);
}

#[test]
fn a_lock_of_a_process_that_has_died_is_freed() {
    let cluster = cluster();
    let worker = holder(&cluster);
    worker.kill();
    for node in &cluster {
        node.wait_clients(0);
    }
    let found = output(&cluster, &["inspect", "order:7"]);
    let said = text(&found.stdout);
    assert!(said.contains("a process that is not connected"), "{said}");
    let broken = output(&cluster, &["break", "-y", "order:7"]);
    assert!(broken.status.success());
    cluster.assert_free("order:7");
}

#[test]
fn a_client_that_gets_the_lock_before_the_answer_keeps_it() {
    let cluster = cluster();
    let worker = holder(&cluster);
    let breaker = start(&cluster, &["break", "order:7"]);
    breaker.wait_line(|line| line.contains("owner "));
    worker.terminate();
    worker.wait();
    let worker = holder(&cluster);
    breaker.send_line("y");
    breaker.wait_line(|line| line.contains("changed hands"));
    breaker.wait_success();
    assert!(cluster.held_on("order:7") >= 2);
    let breaker = start(&cluster, &["break", "order:7"]);
    breaker.send_line("y");
    breaker.wait_line(|line| line.contains("deleted on"));
    assert_eq!(worker.wait().code(), Some(76));
}

#[test]
fn locks_of_other_kinds_are_freed_and_what_is_none_is_left_alone() {
    let cluster = cluster();
    for (key, value) in [
        ("foreign", "'SET', KEYS[1], 'of another library'"),
        ("list", "'RPUSH', KEYS[1], 'element'"),
        ("bytes", "'SET', KEYS[1], '\\255\\254'"),
    ] {
        for node in &cluster {
            node.command(&["EVAL", &format!("redis.call({value})"), "1", key]);
        }
        let broken = output(&cluster, &["break", "-y", key]);
        assert!(text(&broken.stdout).contains("deleted on 3 nodes"), "{key}");
        cluster.assert_free(key);
    }
    let shell = "trap exit TERM; echo runs; sleep 1000 & wait";
    let shared = ["run", "-k", "page", "--shared", "--", "sh", "-c", shell];
    let readers = [start(&cluster, &shared), start(&cluster, &shared)];
    readers.iter().for_each(|reader| reader.expect_line("runs"));
    assert!(output(&cluster, &["break", "-y", "page"]).status.success());
    for reader in &readers {
        assert_eq!(reader.wait().code(), Some(76));
    }
    let free = output(&cluster, &["break", "-y", "free"]);
    assert!(free.status.success() && text(&free.stdout).contains("there is nothing to delete"));
    let record = output(&cluster, &["break", "-y", "__redlock:node:0"]);
    assert_eq!(record.status.code(), Some(64));
    assert_eq!(cluster.held_on("__redlock:node:0"), 3);
}

#[test]
fn the_state_of_each_server_is_shown_and_nothing_is_changed() {
    let fresh = Cluster::start(3);
    let status = output(&fresh, &["status"]);
    assert_eq!(status.status.code(), Some(69));
    assert!(text(&status.stdout).contains("0 of 3 nodes vote"));
    output(&fresh, &["doctor"]);
    output(&fresh, &["inspect", "k"]);
    for node in &fresh {
        let keys: u64 = node.query(&["DBSIZE"]);
        assert_eq!(keys, 0, "a look leaves nothing behind");
    }

    let cluster = cluster();
    let status = output(&cluster, &["status"]);
    assert!(status.status.success());
    assert!(text(&status.stdout).contains("3 of 3 nodes vote"));
    cluster[0].restart();
    cluster[1].kill();
    let status = output(&cluster, &["--json", "status"]);
    assert_eq!(status.status.code(), Some(69));
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let states = [0, 1, 2].map(|node| status["nodes"][node]["state"].clone());
    assert_eq!(states, ["unused", "unreachable", "votes"]);
    assert_eq!(status["majority"], false);
}

#[test]
fn a_quarantine_is_shown_with_its_end() {
    let cluster = cluster();
    let waiting = begin(&cluster, &["-e", "9s"], SAYS);
    cluster[0].command(&["FLUSHALL"]);
    let record = "__redlock:node:0";
    let noted = || cluster[0].query::<bool>(&["HEXISTS", record, "loss"]);
    while !noted() {
        std::thread::yield_now();
    }
    let status = || -> (String, u64) {
        let shown = output(&cluster, &["status"]);
        let left = json(&cluster, &["status"])["nodes"][0]["remaining_ms"].as_u64();
        (text(&shown.stdout).to_owned(), left.unwrap())
    };
    let (shown, left) = status();
    // By the keys that the other two have granted, and not by the longest that there could be.
    assert!((1..50_000).contains(&left), "{left} {shown}");
    assert!(shown.contains(" more  ("), "{shown}");
    waiting.kill();
    // Somebody who assumes that nothing was forgotten has let it in for itself.
    cluster[0].command(&["HSET", record, "loss_begin", "1", "admission", "1"]);
    let (shown, left) = status();
    assert_eq!(left, 0);
    let once_used = "votes again once a process uses it";
    assert!(shown.contains(once_used), "{shown}");
}

#[test]
fn a_master_that_sentinels_name_is_one_of_the_nodes() {
    let (others, master) = (Cluster::start(2), Server::start());
    let sentinels = Sentinel::three_for("locks", &master);
    let hosts = sentinels
        .each_ref()
        .map(|it| format!("127.0.0.1:{}", it.port()));
    let url = format!("redis+sentinel://{}/locks", hosts.join(","));
    let _shown = assert_one_of_three(&others, &master, url);
}

#[test]
fn a_cluster_is_one_of_the_nodes() {
    let (others, cluster) = (Cluster::start(2), RedisCluster::start());
    let url = format!("redis+cluster://{}", cluster.hosts(4..6));
    let shown = assert_one_of_three(&others, &cluster[0], url);
    let owner = &cluster[0];
    owner.set_nx_px("{redlock}stuck", "theirs", Duration::from_secs(3_600));
    shown(&["break", "stuck", "--yes"]);
    assert!(!owner.exists("{redlock}stuck"));
}

/// The node with this URL votes beside two others, is examined, and has keys. Returns what asks the program
/// about all of them.
fn assert_one_of_three<'a>(
    others: &'a Cluster,
    server: &Server,
    url: String,
) -> impl Fn(&[&str]) -> String + use<'a> {
    let mut urls = others.urls();
    urls.push(url);
    admit(&urls);
    others.iter().chain([server]).for_each(Server::settle);
    let all = urls.join(",");
    let shown = move |args: &[&str]| {
        let out = redlock(others, args).env("REDLOCK_NODES", &all).output();
        let out = out.unwrap();
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout).to_owned()
    };
    let status = shown(&["status"]);
    assert!(status.contains("3 of 3 nodes vote"), "{status}");
    let doctor = shown(&["doctor"]);
    assert!(doctor.contains("3 servers examined: 0 errors"), "{doctor}");
    let run = ["run", "-k", "k", "--", env!("CARGO_BIN_EXE_redlock")];
    let found = shown(&[&run[..], &["inspect", "k"]].concat());
    let state = "k is held; 3 of 3 nodes replied";
    assert!(found.starts_with(state), "{found}");
    shown
}

#[test]
fn the_program_completes_its_arguments_and_says_its_usage() {
    let cluster = Cluster::start(1);
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&cluster, &["completions", shell]);
        assert!(text(&script.stdout).contains("inspect"), "{shell}");
    }
    for (command, usage) in [
        ("run", "redlock run [OPTIONS] --key <KEY> -- <COMMAND>..."),
        ("inspect", "redlock inspect [OPTIONS] <KEY>"),
        ("break", "redlock break [OPTIONS] <KEY>"),
    ] {
        let wrong = output(&cluster, &[command]);
        let said = text(&wrong.stderr);
        assert!(said.contains(&format!("Usage: {usage}\n")), "{said}");
    }
}

/// No command has a code of its own for it, and no sentence is there three times.
#[test]
fn servers_that_refuse_access_and_servers_that_are_down_have_one_exit_code_each() {
    let cluster = cluster();
    let commands = [
        &["status"][..],
        &["inspect", "k"],
        &["break", "-y", "k"],
        &["run", "-k", "k", "--", "true"],
    ];
    let assert_all = |code: i32, sentence: &str| {
        for args in commands {
            let mut command = redlock(&cluster, args);
            let out = command.env("REDLOCK_PASSWORD", "wrong").output().unwrap();
            assert_eq!(out.status.code(), Some(code), "{args:?}");
            if args[0] == "run" {
                let said = text(&out.stderr);
                assert_eq!(said.matches(sentence).count(), 1, "{said}");
            }
        }
    };
    for node in &cluster {
        node.command(&["CONFIG", "SET", "requirepass", "secret"]);
    }
    assert_all(78, "check user and password");
    cluster.iter().for_each(Server::kill);
    assert_all(69, "Connection refused");
}

/// One whose password is left out is not another user.
#[test]
fn a_user_needs_no_password() {
    let cluster = Cluster::start(1);
    cluster[0].command(&["ACL", "SETUSER", "nobody", "on", "nopass"]);
    let mut command = redlock(&cluster, &["inspect", "k"]);
    let of_nobody = command.env("REDLOCK_USER", "nobody").output().unwrap();
    let shown = text(&of_nobody.stdout);
    assert!(shown.contains("no permissions"), "{shown}");
}

#[test]
fn a_lock_of_which_too_few_servers_tell_may_be_held() {
    let cluster = Cluster::start(3);
    let found = |killed: usize| {
        cluster[killed].kill();
        let found = output(&cluster, &["inspect", "k"]);
        text(&found.stdout).lines().next().unwrap().to_owned()
    };
    assert_eq!(found(2), "k is free; 2 of 3 nodes replied");
    assert_eq!(found(1), "k may be held; 1 of 3 nodes replied");
    assert_eq!(found(0), "k may be held; 0 of 3 nodes replied");
}
