//! A child process that dies with its owner, and what this one has used.

use std::{
    process::{Child, Command, ExitStatus},
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
    time::{ClockId, clock_gettime},
};

use crate::reaper;

/// A child process, killed on drop and when this process dies.
pub(crate) struct Process {
    child: Child,
    status: Option<ExitStatus>,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {:?}: {error}", command.get_program()));
        reaper::watch(child.id());
        Self {
            child,
            status: None,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The pipes, for taking.
    pub(crate) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Ends the process with SIGKILL, which also works on a stopped one, and waits for its end.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        if self.status.is_none() {
            // The only failure is that it has already ended.
            let _ = self.child.kill();
        }
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        if let Some(status) = self.status {
            return status;
        }
        self.wait_for(WaitIdOptions::EXITED);
        reaper::forget(self.id());
        let status = self.child.wait().expect("our child can be waited for");
        *self.status.insert(status)
    }

    /// Asks the process to end by SIGQUIT, and waits for its end. For one that has to clean up
    /// behind itself; it must not be frozen.
    pub(crate) fn quit(&mut self) -> ExitStatus {
        if self.status.is_none() {
            self.signal(Signal::QUIT);
        }
        self.wait()
    }

    /// Asks the process to end by SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Freezes the process; when this returns it no longer runs.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        self.wait_for(WaitIdOptions::STOPPED | WaitIdOptions::EXITED);
    }

    /// Lets a frozen process run on.
    pub(crate) fn cont(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        assert!(self.status.is_none(), "process {} has ended", self.id());
        kill_process(self.pid(), signal).expect("our child can be signalled");
    }

    /// Waits for one of `changes` and leaves the process id in use.
    fn wait_for(&self, changes: WaitIdOptions) {
        waitid(WaitId::Pid(self.pid()), changes | WaitIdOptions::NOWAIT)
            .expect("our child can be waited for");
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The processor time that this process has used, all its threads together.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
