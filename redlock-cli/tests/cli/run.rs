//! Commands that run under a lock.

use std::{
    io::{self, ErrorKind, Read},
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    thread,
};

use redlock_tests::{Cluster, Worker};

use crate::{cluster, lose, output, program, redlock, start, text};

/// Says that it runs, and goes on until its input ends.
pub(crate) const SAYS: &str = "echo runs; cat";

/// Says that it runs and that it is asked to end, and does. Without a child, which could come to be while the
/// signal does, and miss it.
const OBEYS: &str = "trap 'echo asked; exit 9' TERM; echo runs; read line";

/// Says that it runs, and does not let itself be asked to end.
pub(crate) const STUBBORN: &str = "trap '' TERM; echo runs; sleep 1000";

/// Says the number of a child that runs for long.
const WITH_CHILD: &str = "sleep 1000 & echo $!; wait";

pub(crate) fn run<'a>(options: &[&'a str], shell: &'a str) -> Vec<&'a str> {
    let begin = ["run", "--key", "job"];
    let command = ["--", "sh", "-c", shell];
    [&begin[..], options, &command].concat()
}

pub(crate) fn begin(cluster: &Cluster, options: &[&str], shell: &str) -> Worker {
    let worker = start(cluster, &run(options, shell));
    worker.expect_line("runs");
    worker
}

#[test]
fn a_command_runs_under_the_lock_and_its_exit_code_is_passed_on() {
    let cluster = cluster();
    let shell = "echo $REDLOCK_KEY $REDLOCK_TOKEN; echo error >&2; cat; exit 3";
    let worker = start(&cluster, &run(&[], shell));
    let line = worker.wait_line(|_| true);
    let (key, token) = line.split_once(' ').unwrap();
    assert_eq!(key, "job");
    assert!(token.parse::<u64>().unwrap() > 0);
    assert!(cluster.held_on("job") >= 2);
    worker.send_line("input");
    worker.expect_line("input");
    assert_eq!(worker.wait().code(), Some(3));
    cluster.assert_free("job");

    let out = output(&cluster, &run(&[], "echo out; echo error >&2"));
    assert!(out.status.success());
    assert_eq!((text(&out.stdout), text(&out.stderr)), ("out\n", "error\n"));
    cluster.assert_free("job");
}

#[test]
fn of_two_commands_one_runs_and_the_other_is_told_who_does() {
    let cluster = cluster();
    let first = begin(&cluster, &["--service", "nightly"], SAYS);

    let second = output(&cluster, &run(&[], "echo never"));
    assert_eq!(second.status.code(), Some(75));
    assert!(second.stdout.is_empty());
    let said = text(&second.stderr);
    let process = format!("process {}", first.pid());
    for part in ["job is held", "nightly on ", &process] {
        assert!(said.contains(part), "{part}: {said}");
    }

    let quiet = output(&cluster, &run(&["-q", "-E", "0"], "echo never"));
    assert!(quiet.status.success() && quiet.stdout.is_empty() && quiet.stderr.is_empty());

    // One that waits is the next.
    let waiting = start(&cluster, &run(&["--wait", "1m"], SAYS));
    cluster[0].wait_clients(2);
    first.wait_success();
    waiting.expect_line("runs");
    waiting.wait_success();
    cluster.assert_free("job");
}

#[test]
fn a_command_runs_for_longer_than_the_lease_because_it_is_renewed() {
    let cluster = cluster();
    let options = ["--expire", "1s", "--grace", "100ms"];
    let worker = begin(&cluster, &options, SAYS);
    // The first sets the time of a new key.
    cluster[0].wait_event("job", "expire", 5);
    worker.wait_success();
}

#[test]
fn a_command_is_gone_before_its_lease_ends() {
    let cluster = cluster();
    let options = ["--max-hold", "1s", "--expire", "1s", "--grace", "300ms"];
    let pid = "echo $$; exec sleep 1000";
    let first = start(&cluster, &run(&options, pid));
    let pid = first.wait_line(|_| true);
    let next = format!("kill -0 {pid} 2>/dev/null && echo alive || echo gone");
    let next = start(&cluster, &run(&["--wait", "1m"], &next));
    next.expect_line("gone");
    assert_eq!(first.wait().code(), Some(76));
    next.wait_success();
}

#[test]
fn a_command_that_is_ended_with_its_lease_says_by_which_option() {
    let cluster = cluster();
    let options = ["--max-hold", "2s", "--expire", "1s", "--grace", "300ms"];
    let out = output(&cluster, &run(&options, "sleep 1000"));
    assert_eq!(out.status.code(), Some(76));
    let said = text(&out.stderr);
    assert!(said.contains("`--max-hold` allows"), "{said}");
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let cluster = cluster();
    let worker = begin(&cluster, &[], OBEYS);
    worker.terminate();
    worker.expect_line("asked");
    assert_eq!(worker.wait().code(), Some(9), "the command has decided");
    cluster.assert_free("job");

    // Also to what the command has started, which has the same output.
    let worker = start(&cluster, &run(&[], WITH_CHILD));
    worker.wait_line(|_| true);
    worker.terminate();
    assert_eq!(worker.wait().code(), Some(128 + 15));

    // None that a shell ignores in what it starts in the background.
    for (name, number) in [("KILL", 9), ("TERM", 15)] {
        let shell = format!("kill -{name} $$");
        let out = output(&cluster, &run(&[], &shell));
        assert_eq!(out.status.code(), Some(128 + number), "{name}");
    }
    cluster.assert_free("job");
}

/// As `setsid` does, which makes it lead a group of its own.
#[test]
#[cfg(target_os = "linux")]
fn a_command_that_leaves_its_group_is_ended_with_its_lock() {
    let cluster = cluster();
    let begin = |options: &[&str], shell| {
        let command = ["--", "setsid", "sh", "-c", shell];
        let args = [&["run", "-k", "job"][..], options, &command].concat();
        start(&cluster, &args)
    };
    let worker = begin(&["--grace", "100ms"], STUBBORN);
    worker.expect_line("runs");
    lose(&cluster);
    // Only once its child is gone, which has the same output.
    assert_eq!(worker.wait().code(), Some(76));

    let worker = begin(&[], WITH_CHILD);
    worker.wait_line(|_| true);
    worker.terminate();
    assert_eq!(worker.wait().code(), Some(128 + 15));
}

#[test]
fn one_that_waits_for_the_lock_can_be_ended() {
    let cluster = cluster();
    let first = begin(&cluster, &[], SAYS);
    let waiting = start(&cluster, &run(&["--wait", "1m"], "echo never"));
    cluster[0].wait_clients(2);
    waiting.terminate();
    assert_eq!(waiting.wait().code(), Some(128 + 15));
    first.wait_success();
    cluster.assert_free("job");
}

/// Nor if it sends signals to its whole group.
#[test]
fn a_command_does_not_outlive_the_program() {
    let cluster = cluster();
    let signals = "ABRT ALRM PROF SYS TERM TRAP USR1 VTALRM XCPU XFSZ";
    let shell =
        format!("for name in {signals}; do trap : $name; kill -$name 0; done; {WITH_CHILD}");
    let worker = start(&cluster, &run(&[], &shell));
    worker.wait_line(|_| true);
    worker.kill();
    // Once nothing is left that has its output.
    assert_eq!(worker.wait().signal(), Some(9));
}

#[test]
fn a_command_of_a_program_that_is_stopped_does_not_outlive_the_lease() {
    let cluster = cluster();
    let options = ["--expire", "1s", "--grace", "300ms"];
    let first = start(&cluster, &run(&options, "echo $$; exec sleep 1000"));
    let pid = first.wait_line(|_| true);
    first.stop();
    let next = format!("kill -0 {pid} 2>/dev/null && cat /proc/{pid}/stat || echo gone");
    let next = output(&cluster, &run(&["--wait", "1m"], &next));
    // It stays as a zombie until its parent goes on.
    let said = text(&next.stdout);
    assert!(said.contains(") Z ") || said == "gone\n", "{said}");
    first.cont();
    assert_eq!(first.wait().code(), Some(76));
}

#[test]
fn what_cannot_be_run_is_said_by_the_exit_code() {
    let cluster = cluster();
    for (program, code) in [("/no/such/program", 127), ("/etc/passwd", 126)] {
        let out = output(&cluster, &["run", "-k", "job", "--", program]);
        assert_eq!(out.status.code(), Some(code));
        assert!(text(&out.stderr).contains(program));
        cluster.assert_free("job");
    }
    let line = output(&cluster, &["run", "-k", "job", "--", "echo never"]);
    assert_eq!(line.status.code(), Some(127));
    assert!(text(&line.stderr).contains("as `sh -c '..'`"));
    for args in [
        &["run", "-k", "job"][..],
        &["run", "--", "true"],
        &["run", "-k", "job", "--grace", "20s", "--", "true"],
        &["run", "-k", "job", "--expire", "1d", "--", "true"],
        &[
            "run", "-k", "job", "--expire", "0s", "--grace", "0s", "--", "true",
        ],
        &["nonsense"],
    ] {
        let out = output(&cluster, args);
        assert_eq!(out.status.code(), Some(64), "{args:?}");
    }
    let unreachable = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";
    for (nodes, code) in [(unreachable, 69), ("no-url", 78), ("memory://a", 78)] {
        let out = output(&cluster, &run(&["--nodes", nodes], "echo never"));
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{nodes}: {said}");
        assert!(out.stdout.is_empty());
        // What the library's builder could do about it is no option here.
        for method in ["require_quorum", "require_servers", "nodes("] {
            assert!(!said.contains(method), "{said}");
        }
    }
}

#[test]
fn wrong_options_are_told_by_their_names_and_before_a_server_is_asked() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let node = format!("redis://{}", server.local_addr().unwrap());
    let long = "x".repeat(257);
    let table = format!(
        "\
--key= => the key is empty: name what the lock is for
--key=__redlock:x => the key `__redlock:x` contains
--expire=2m => `--expire`: `expire` is longer than `max_lease`
--at-least=1m => (`at_least` is 60s, `expire` is 30s)
--max-hold=1s => `--max-hold`: `max_hold` is shorter than `expire`
--shared --at-least=1s => `--at-least`: `at_least` cannot be combined with `shared`
--shared --value=x => `--value`: `value` cannot be combined with `shared`
--value={long} => `--value`: `value` is longer than 256 bytes
--permits=0 => a lock has 1 to 1024 permits
--permits=2 --weight=3 => `--weight`: `weight` must be at least 1
--guard-band=0s => `--guard-band`: `guard_band` must be longer
--max-lease=25h => `max_lease` of 90000s is too long; it can be 86400s
--nodes= => name some with `--nodes` or in REDLOCK_NODES
--nodes=memory://a => name some with `--nodes` or in REDLOCK_NODES"
    );
    for row in table.lines() {
        let (options, expected) = row.split_once(" => ").unwrap();
        let key = match options.contains("--key") {
            true => "",
            false => "--key=job ",
        };
        let args = format!("run {key}{options} -- echo never");
        let args: Vec<&str> = args.split(' ').collect();
        let out = program(&node, &args).output().unwrap();
        let said = text(&out.stderr);
        let code = if options.contains("--nodes") { 78 } else { 64 };
        assert_eq!(out.status.code(), Some(code), "{row}: {said}");
        assert!(said.contains(expected), "{row}: {said}");
        let asked = server.accept().map_err(|error| error.kind());
        assert!(matches!(asked, Err(ErrorKind::WouldBlock)), "{row}: {said}");
    }
}

#[test]
fn the_lease_is_what_the_other_times_are_measured_by() {
    // New, so they do not vote for as long as a lease that they may have forgotten; and of a fleet in which
    // the library's own default would be too long.
    let cluster = Cluster::start(3);
    let options = ["--expire", "4s", "--grace", "0s", "--max-lease", "4s"];
    let out = output(&cluster, &run(&options, "echo runs"));
    assert_eq!(text(&out.stdout), "runs\n", "{}", text(&out.stderr));
    let said = text(&out.stderr);
    let waits = "redlock: no majority of the servers votes yet; ";
    assert!(said.starts_with(waits), "{said}");
}

#[test]
fn a_wait_is_for_servers_that_are_down_too() {
    let cluster = cluster();
    [0, 1].iter().for_each(|&node| cluster[node].stop());
    let waiting = run(&["--wait", "5m"], "echo runs");
    let mut command = redlock(&cluster, &waiting);
    let (mut heard, said) = io::pipe().unwrap();
    let waiting = Worker::from_command(command.stderr(said));
    drop(command);
    // Once it has failed.
    let mut first = [0];
    heard.read_exact(&mut first).unwrap();
    let drained = thread::spawn(move || io::read_to_string(heard).unwrap());
    [0, 1].iter().for_each(|&node| cluster[node].cont());
    waiting.expect_line("runs");
    waiting.wait_success();
    let said = drained.join().unwrap();
    assert!(said.starts_with("edlock: waits for up to "), "{said}");

    [0, 1].iter().for_each(|&node| cluster[node].kill());
    let out = output(&cluster, &run(&["--wait", "1500ms"], "echo never"));
    assert_eq!(out.status.code(), Some(69));
    let said = text(&out.stderr);
    assert_eq!(said.lines().count(), 2, "it waits, and fails: {said}");
}

#[test]
fn a_short_lease_has_a_short_grace_period_by_default() {
    let cluster = cluster();
    let out = output(&cluster, &run(&["-e", "2s"], "echo runs"));
    assert_eq!(text(&out.stdout), "runs\n", "{}", text(&out.stderr));
    let out = output(&cluster, &run(&["-e", "2s", "--grace", "1s"], "echo never"));
    assert_eq!(out.status.code(), Some(64));
}

/// The command needs none of it to have the lock.
#[test]
fn a_command_is_not_told_the_password_of_the_servers() {
    let cluster = cluster();
    let shell = "echo $REDLOCK_PASSWORD $REDLOCK_NODES $REDLOCK_USER";
    let with_login = cluster.url_list().replace("redis://", "redis://:secret@");
    for node in &cluster {
        node.command(&["CONFIG", "SET", "requirepass", "secret"]);
    }
    let all = format!("secret {with_login}");
    for (options, nodes, expected) in [
        (&[][..], &with_login, ""),
        (&[], &cluster.url_list(), &cluster.url_list()),
        (&["--keep-password"], &with_login, &all),
    ] {
        let out = redlock(&cluster, &run(options, shell))
            .envs([("REDLOCK_PASSWORD", "secret"), ("REDLOCK_NODES", nodes)])
            .output()
            .unwrap();
        assert_eq!(text(&out.stdout).trim(), expected, "{}", text(&out.stderr));
    }
}

#[test]
fn each_kind_of_lock_can_be_had() {
    let cluster = cluster();
    let assert_held = |options: &[&str]| {
        let out = output(&cluster, &run(&[&["-q"], options].concat(), "echo never"));
        assert_eq!(out.status.code(), Some(75), "{options:?}");
    };
    let readers = ["--shared"; 2].map(|kind| begin(&cluster, &[kind], SAYS));
    assert_held(&[]);
    readers.iter().for_each(Worker::wait_success);

    let permits = [["--permits", "2"]; 2].map(|options| begin(&cluster, &options, SAYS));
    assert_held(&["--permits", "2"]);
    permits.iter().for_each(Worker::wait_success);

    let weight = ["--permits", "3", "--weight", "2"];
    let large = begin(&cluster, &weight, SAYS);
    assert_held(&weight);
    begin(&cluster, &["--permits", "3"], SAYS).wait_success();
    large.wait_success();
    begin(&cluster, &["--permits", "3", "--weight", "3"], SAYS).wait_success();
    for key in ["gate", "0", "1", "2"] {
        let key = format!("job#__redlock:{key}");
        while cluster.held_on(&key) > 0 {
            thread::yield_now();
        }
    }

    begin(&cluster, &["--fair", "--wait", "1m"], SAYS).wait_success();
    begin(&cluster, &["--at-least", "20s"], SAYS).wait_success();
    // On another machine, whose clock ticks later.
    assert_held(&[]);
}
