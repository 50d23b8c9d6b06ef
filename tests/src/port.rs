//! Loopback ports that no parallel test takes away, not even while nobody listens on them.

use std::{
    env,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use socket2::{Domain, Socket, Type};

/// A TCP port that belongs to one owner until dropped.
///
/// A server that restarts and a proxy that refuses both leave their port unbound for a while. The
/// port must come back to them, so it is taken from below the range from which the kernel serves
/// `bind(0)` and outgoing connections, and a locked file keeps it from other users of this harness
/// in this process and in others. The kernel drops the lock when the process dies.
#[must_use]
pub struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// # Panics
    /// If none is left.
    pub fn reserve() -> Self {
        let directory = lock_directory();
        candidates()
            .find_map(|number| {
                let path = directory.join(number.to_string());
                let lock = File::create(&path)
                    .unwrap_or_else(|error| panic!("cannot create {}: {error}", path.display()));
                lock.try_lock().ok()?;
                if !is_unbound(number) {
                    return None;
                }
                Some(Self {
                    number,
                    _lock: lock,
                })
            })
            .expect("no free loopback port")
    }

    /// Its number.
    pub const fn number(&self) -> u16 {
        self.number
    }
}

/// Whether nobody, this harness or not, listens there.
///
/// The attempt does not listen itself. If another thread starts a process just now, that has a copy
/// of the socket for a moment, and a copy that listens would keep the owner of the port from it.
fn is_unbound(number: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, number));
    let attempt = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())
    };
    attempt().is_ok()
}

/// All ports, beginning at a place that differs between processes and between calls.
fn candidates() -> impl Iterator<Item = u16> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let end = ephemeral_start().max(FIRST + 1_000);
    let span = u32::from(end - FIRST);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let start = process::id().wrapping_mul(SPREAD).wrapping_add(call) % span;
    (0..span).map(move |step| FIRST + u16::try_from((start + step) % span).expect("span is a u16"))
}

/// The first port that the kernel hands out by itself.
fn ephemeral_start() -> u16 {
    fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|range| range.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768)
}

/// One directory per user, since users cannot open each other's lock files.
fn lock_directory() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let directory = env::temp_dir().join(format!("redlock-tests-ports-{user}"));
    fs::create_dir_all(&directory)
        .unwrap_or_else(|error| panic!("cannot create {}: {error}", directory.display()));
    directory
}

/// Below it live the well-known services of a developer's machine, Redis included.
const FIRST: u16 = 10_000;

/// A prime, so that processes with neighbouring ids begin far from each other.
const SPREAD: u32 = 7_919;
