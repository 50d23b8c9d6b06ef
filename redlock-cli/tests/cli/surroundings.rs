//! What the program was started in, and what becomes of it there.

use std::{
    fs,
    io::{self, Write},
    process::{Command, Stdio},
};

use redlock_tests::Worker;

use crate::{
    cluster, lose, redlock,
    run::{SAYS, STUBBORN, begin, run},
};

/// A pipe that no process reads.
fn broken_pipe() -> io::PipeWriter {
    let (_, writer) = io::pipe().unwrap();
    writer
}

/// With all that it has started, although it does not obey.
#[test]
fn a_command_ends_with_its_lock_although_nobody_reads_what_the_program_says() {
    let cluster = cluster();
    let args = run(&["--grace", "100ms"], STUBBORN);
    let worker = Worker::from_command(redlock(&cluster, &args).stderr(broken_pipe()));
    worker.expect_line("runs");
    lose(&cluster);
    // Only once its child is gone, which has the same output.
    assert_eq!(worker.wait().code(), Some(76));
}

#[test]
fn a_command_is_asked_to_end_although_the_reader_of_what_the_program_says_hangs() {
    let cluster = cluster();
    let (reader, mut writer) = io::pipe().unwrap();
    // As much as such a pipe takes.
    writer.write_all(&[b'\n'; 1 << 16]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("heard");
    let made = Command::new("mkfifo").arg(&heard).status();
    assert!(made.unwrap().success());
    let obeys = "exec 9>$0; trap 'echo asked >&9; exit' TERM; echo runs; read line";
    let mut command = redlock(&cluster, &["run", "-k", "job", "--", "sh", "-c", obeys]);
    let worker = Worker::from_command(command.arg(&heard).stderr(writer));
    drop(command);
    let mut heard = fs::File::open(&heard).unwrap();
    worker.expect_line("runs");
    lose(&cluster);
    // Until the command is gone.
    assert_eq!(io::read_to_string(&mut heard).unwrap(), "asked\n");
    drop(reader);
    assert_eq!(worker.wait().code(), Some(76));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_but_a_full_disk_is_one() {
    let cluster = cluster();
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["inspect", "job"],
        &["inspect", "job", "--json"],
        &["break", "job", "--yes"],
        &["doctor"],
        &["doctor", "--json"],
        &["completions", "bash"],
    ] {
        let code = |stdout: Stdio| {
            let status = redlock(&cluster, args).stdout(stdout).status();
            status.unwrap().code()
        };
        assert_eq!(code(broken_pipe().into()), Some(0), "{args:?}");
        if cfg!(target_os = "linux") {
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            assert_eq!(code(full.into()), Some(74), "{args:?}");
        }
    }
}

/// As `nohup` ignores SIGHUP, and some supervisors SIGCHLD.
#[test]
#[cfg(target_os = "linux")]
fn signals_that_are_ignored_when_it_starts_stay_so() {
    let cluster = cluster();
    let program = env!("CARGO_BIN_EXE_redlock");
    let mut command = Command::new("env");
    command
        .env("REDLOCK_NODES", cluster.url_list())
        .args(["--ignore-signal=HUP", "--ignore-signal=CHLD"])
        .args([program, "run", "-k", "job", "--", "sh", "-c"])
        .arg("echo runs; read line; exit 3");
    let worker = Worker::from_command(&mut command);
    worker.expect_line("runs");
    let pid = worker.pid().to_string();
    let sent = Command::new("kill").args(["-HUP", &pid]).status().unwrap();
    assert!(sent.success());
    worker.send_line("go on");
    assert_eq!(worker.wait().code(), Some(3));
}

#[test]
#[cfg(target_os = "linux")]
fn the_program_can_be_replaced_while_it_waits() {
    let cluster = cluster();
    let first = begin(&cluster, &[], SAYS);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("redlock");
    // By another process: what a test beside this one starts would inherit the open file, which is busy then.
    let program = env!("CARGO_BIN_EXE_redlock");
    let copied = Command::new("cp").arg(program).arg(&copy).status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(&copy);
    command
        .env("REDLOCK_NODES", cluster.url_list())
        .args(["run", "-k", "job", "--wait", "1m", "--", "echo", "runs"]);
    let next = Worker::from_command(&mut command);
    cluster[0].wait_clients(2);
    fs::remove_file(&copy).unwrap();
    first.wait_success();
    next.expect_line("runs");
    next.wait_success();
}
