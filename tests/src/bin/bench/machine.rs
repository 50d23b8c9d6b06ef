//! What a run was made on, and how long it measured.

use std::{fs, thread};

use redlock_tests::Server;
use serde_json::{Value, json};

use crate::options::Options;

pub(crate) fn describe(options: &Options) -> Value {
    let redis = Server::start().info("server").remove("redis_version");
    let kibibytes = field("/proc/meminfo", "MemTotal");
    let kibibytes: f64 = kibibytes
        .and_then(|total| total.split(' ').next()?.parse().ok())
        .unwrap_or(f64::NAN);
    json!({
        "machine": {
            "processor": field("/proc/cpuinfo", "model name"),
            "threads": thread::available_parallelism().map_or(0, usize::from),
            "memory_gib": (kibibytes / f64::from(1 << 20)).round(),
            "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|it| it.trim().to_owned()),
            "redis": redis.map(|version| version.trim().to_owned()),
        },
        "seconds": options.window.as_secs_f64(),
        "rounds": options.rounds,
    })
}

/// The first value of `name` in a file of the kernel.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (of, value) = line.split_once(':')?;
        (of.trim() == name).then(|| value.trim().to_owned())
    })
}
