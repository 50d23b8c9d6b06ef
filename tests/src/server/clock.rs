//! A wall clock of its own for one server.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tempfile::TempDir;

/// The wall clock of a server that was started with one of its own; see
/// [`ServerBuilder::own_clock`](crate::ServerBuilder::own_clock).
///
/// It begins as the machine's and goes on as it was set, through kills and restarts. What the
/// server calls now, and when its keys expire, follows it; how fast it works does not.
pub struct Clock {
    file: File,
    path: PathBuf,
    library: Arc<Library>,
    setting: Mutex<Setting>,
}

/// What stands in the file, in the order of `clock.c`.
#[derive(Clone, Copy, Debug, Default)]
struct Setting {
    version: i64,
    ahead_ns: i64,
    since_ns: i64,
    percent: i64,
}

impl Clock {
    /// Sets the clock forward.
    pub fn step(&self, by: Duration) {
        self.set(|setting| setting.ahead_ns += nanos(by));
    }

    /// Sets the clock back.
    pub fn step_back(&self, by: Duration) {
        self.set(|setting| setting.ahead_ns -= nanos(by));
    }

    /// From now on the clock gains so much on that of the machine, or loses it if negative; at
    /// -100 it stands still.
    pub fn drift(&self, percent: i8) {
        self.set(|setting| setting.percent = percent.into());
    }

    pub(super) fn new(dir: &Path) -> Self {
        let path = dir.join("clock");
        let clock = Self {
            file: File::create_new(&path).expect("a file can be made"),
            path,
            library: Library::get(),
            setting: Mutex::default(),
        };
        clock.set(|_| ());
        clock
    }

    /// Lets the server that this starts go by this clock.
    pub(super) fn rule(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", self.library.path())
            .env("REDLOCK_TESTS_CLOCK", &self.path);
    }

    fn set(&self, change: impl FnOnce(&mut Setting)) {
        let mut setting = self.setting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = nanos(now.expect("the machine's clock is after 1970"));
        // What it has gained until now it keeps.
        setting.ahead_ns += (now - setting.since_ns) * setting.percent / 100;
        setting.since_ns = now;
        change(&mut setting);

        // The server may read at any moment, and tries again while the version is odd.
        setting.version += 1;
        self.write(0, &[setting.version]);
        self.write(8, &[setting.ahead_ns, setting.since_ns, setting.percent]);
        setting.version += 1;
        self.write(0, &[setting.version]);
    }

    fn write(&self, offset: u64, numbers: &[i64]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let written = self.file.write_all_at(&bytes, offset);
        written.expect("the clock can be written");
    }
}

fn nanos(time: Duration) -> i64 {
    time.as_nanos().try_into().expect("a time of this era")
}

/// `clock.c`, compiled. One for all servers of this process, gone with the last of them.
struct Library(TempDir);

impl Library {
    fn get() -> Arc<Self> {
        static CURRENT: Mutex<Weak<Library>> = Mutex::new(Weak::new());
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        current.upgrade().unwrap_or_else(|| {
            let library = Arc::new(Self::compile());
            *current = Arc::downgrade(&library);
            library
        })
    }

    /// By the compiler through which Rust links, so that there is one.
    fn compile() -> Self {
        let library = Self(tempfile::tempdir().expect("a temporary directory can be made"));
        let source = library.0.path().join("clock.c");
        fs::write(&source, include_str!("clock.c")).expect("a file can be written");
        let output = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .args([&library.path(), &source])
            .output()
            .expect("there is a C compiler, as for every link of Rust");
        assert!(
            output.status.success(),
            "clock.c does not compile:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        library
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("clock.so")
    }
}
