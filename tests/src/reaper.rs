//! Kills the children of this process when it dies without running destructors.
//!
//! One `sh` per test process holds the reading end of a pipe and the list of the children; when the
//! pipe ends, whatever the reason, it kills those still listed. The kernel's own means,
//! `PR_SET_PDEATHSIG` (`setpriv --pdeathsig`), was not taken: it fires when the *thread* that
//! spawned the child ends, and here threads of tests and of parallel starts do the spawning.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{LazyLock, Mutex, PoisonError},
};

/// From now on `pid` does not outlive this process.
pub(crate) fn watch(pid: u32) {
    tell('+', pid).expect("the reaper is alive");
}

/// To be called before `pid` is waited for, since the number may then be reused.
pub(crate) fn forget(pid: u32) {
    // Runs in destructors. Without a reaper there is nothing to forget.
    let _ = tell('-', pid);
}

fn tell(sign: char, pid: u32) -> std::io::Result<()> {
    let mut reaper = REAPER.lock().unwrap_or_else(PoisonError::into_inner);
    reaper
        .orders
        .write_all(format!("{sign} {pid}\n").as_bytes())
}

struct Reaper {
    orders: ChildStdin,
    _shell: Child,
}

static REAPER: LazyLock<Mutex<Reaper>> = LazyLock::new(|| {
    let mut shell = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "redlock-tests-reaper"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A signal to the group of the test process, such as Ctrl-C, must not reach it.
        .process_group(0)
        .spawn()
        .expect("/bin/sh starts");
    Mutex::new(Reaper {
        orders: shell.stdin.take().expect("stdin is piped"),
        _shell: shell,
    })
});

const SCRIPT: &str = r#"
trap '' HUP INT TERM
pids=' '
while read -r sign pid; do
    case $sign in
        +) pids="$pids$pid " ;;
        -) pids="${pids%% $pid *} ${pids#* $pid }" ;;
    esac
done
[ "$pids" = ' ' ] || kill -9 $pids
"#;
