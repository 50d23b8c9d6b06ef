//! Runs the compiler on one file, with the dependencies that Cargo has built for this test: a second
//! `cargo build` would build all of them again, in a folder of their own.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each file of tests is a crate of its own and uses a part of this"
)]

use std::{
    env::{
        self,
        consts::{DLL_PREFIX, DLL_SUFFIX},
    },
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

pub fn rustc() -> OsString {
    env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// `program`, which is rustc or takes its arguments, for a file of edition 2024 that depends on
/// `crates`. What it makes goes to `out`.
pub fn compiler(program: impl AsRef<OsStr>, out: &Path, crates: &[(&str, PathBuf)]) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--edition=2024", "--error-format=json", "--out-dir"])
        .arg(out)
        .arg(format!("-Ldependency={}", dependencies().display()));
    for (name, file) in crates {
        let file = file.display();
        command.arg(format!("--extern={name}={file}"));
    }
    command
}

/// The library `name` that this test was built with, or one of the same sources with other features.
pub fn library(name: &str) -> PathBuf {
    latest(&format!("lib{name}-"), ".rlib")
}

/// The same for a crate of macros.
pub fn macros(name: &str) -> PathBuf {
    latest(&format!("{DLL_PREFIX}{name}-"), DLL_SUFFIX)
}

fn latest(prefix: &str, suffix: &str) -> PathBuf {
    let files = fs::read_dir(dependencies()).unwrap();
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap();
        name.starts_with(prefix) && name.ends_with(suffix)
    };
    let built = |path: &PathBuf| -> SystemTime { path.metadata().unwrap().modified().unwrap() };
    let wanted = files.map(|file| file.unwrap().path()).filter(is_wanted);
    wanted
        .max_by_key(built)
        .unwrap_or_else(|| panic!("{prefix}*{suffix} is a dependency"))
}

fn dependencies() -> PathBuf {
    let test = env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}
