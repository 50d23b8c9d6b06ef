//! What the compiler says of each mistake: of those in the attribute in our words, of those in the
//! body in its own. `TRYBUILD=overwrite cargo test --test ui` accepts new texts.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

/// The compiler whose words the `.stderr` files have. Others say some things in another way, so
/// that under them these tests are skipped, and say so. There is no `rust-toolchain.toml` for it:
/// that would bind everybody who builds this workspace. When this is raised, the files are written
/// anew.
const RUSTC: &str = "1.95";

#[test]
fn mistakes() {
    if is_expected_rustc() {
        trybuild::TestCases::new().compile_fail("ui/*.rs");
    }
}

/// A mistake in the body is reported as if the attribute were not there: the same messages in the
/// same places.
#[test]
fn mistakes_in_the_body_are_reported_as_without_the_attribute() {
    if !is_expected_rustc() {
        return;
    }
    let mut cases = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("ui")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap();
        if !name.starts_with("body_") || !name.ends_with(".rs") {
            continue;
        }
        cases += 1;
        let with = fs::read_to_string(&path).unwrap();
        let expected = errors(&without_attribute(&with));
        assert!(!expected.is_empty(), "{name} is correct");
        assert_eq!(errors(&with), expected, "{name}");
    }
    assert!(cases > 10, "found only {cases} cases");
}

/// As the attribute's documentation says of durations `Self::LEASE`.
#[test]
fn a_duration_of_self_is_checked_by_building() {
    let function = |lease: &str| {
        format!(
            "use redlock_runtime::{{LockError, redis_lock}};
             use std::time::Duration;
             pub struct Job;
             impl Job {{
                 const LEASE: Duration = Duration::from_secs({lease});
                 #[redis_lock(key = \"job\", expire = Self::LEASE)]
                 pub async fn run() -> Result<(), LockError> {{ Ok(()) }}
             }}
             fn main() {{ drop(Box::pin(Job::run()) as std::pin::Pin<Box<dyn Future<Output = _>>>); }}"
        )
    };
    let [checked, built] = ["metadata", "link"];
    assert_eq!(errors_when(checked, &function("0")), BTreeSet::new());
    assert_eq!(errors_when(built, &function("1")), BTreeSet::new());
    assert!(!errors_when(built, &function("0")).is_empty());
}

fn is_expected_rustc() -> bool {
    let version = Command::new(rustc()).arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let is_expected = version.starts_with(&format!("rustc {RUSTC}."));
    if !is_expected {
        println!("skipped: the expected texts are those of rustc {RUSTC}; this is {version}");
    }
    is_expected
}

fn rustc() -> std::ffi::OsString {
    env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// Everything else stays on its line.
fn without_attribute(source: &str) -> String {
    let is_attribute = |line: &&str| line.starts_with("#[redis_lock(");
    let attribute = source.lines().find(is_attribute).unwrap();
    source
        .replace(attribute, "")
        .replace(", redis_lock}", "}")
        .replace("use redlock_runtime::redis_lock;", "")
}

fn errors(source: &str) -> BTreeSet<String> {
    errors_when("metadata", source)
}

/// The messages and the places that they point at, where `emit` is what rustc is to make.
fn errors_when(emit: &str, source: &str) -> BTreeSet<String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("case.rs");
    fs::write(&path, source).unwrap();
    let dependencies = env::current_exe().unwrap();
    let dependencies = dependencies.parent().unwrap();
    let output = Command::new(rustc())
        .args(["--edition=2024", "--error-format=json"])
        .arg(format!("--emit={emit}"))
        .args([OsStr::new("--out-dir"), directory.path().as_os_str()])
        .arg(format!("-Ldependency={}", dependencies.display()))
        .arg("--extern")
        .arg(format!(
            "redlock_runtime={}",
            latest_runtime(dependencies).display()
        ))
        .arg(&path)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let is_error = |message: &serde_json::Value| message["level"] == "error";
    stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(is_error)
        .map(|message: serde_json::Value| {
            let spans = message["spans"].as_array().unwrap().iter();
            let places = spans.filter(|span| span["is_primary"] == true).map(|span| {
                let at = ["line_start", "column_start", "line_end", "column_end"];
                at.map(|name| span[name].as_u64().unwrap())
            });
            let places: Vec<_> = places.collect();
            format!("{} at {places:?}", message["message"])
        })
        .filter(|message| !message.starts_with("\"aborting due to"))
        .collect()
}

/// The runtime that this test was built with, or one of the same sources with other features.
fn latest_runtime(dependencies: &Path) -> PathBuf {
    let files = fs::read_dir(dependencies).unwrap();
    let is_runtime = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap();
        name.starts_with("libredlock_runtime-") && name.ends_with(".rlib")
    };
    let built = |path: &PathBuf| -> SystemTime { path.metadata().unwrap().modified().unwrap() };
    let runtimes = files.map(|file| file.unwrap().path()).filter(is_runtime);
    runtimes
        .max_by_key(built)
        .expect("the runtime is a dependency")
}
