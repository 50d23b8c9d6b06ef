//! What the compiler says of each mistake: of those in the attribute in our words, of those in the
//! body in its own. A function whose attribute is refused has no body, unless the message depends on it.
//! `UPDATE_UI=1 cargo test --test ui` writes the texts anew.

mod compiler;

use std::{
    collections::BTreeSet,
    env, fs,
    num::NonZero,
    path::{Path, PathBuf},
    process::Command,
    sync::{LazyLock, Mutex},
    thread,
};

use compiler::{compiler, library, macros, rustc};
use serde_json::Value;

/// The compiler whose words the `.stderr` files have. Others say some things in another way, so
/// that under them these tests are skipped, and say so. There is no `rust-toolchain.toml` for it:
/// that would bind everybody who builds this workspace. When this is raised, the files are written
/// anew.
const RUSTC: &str = "1.95";

#[test]
fn mistakes() {
    if !is_expected_rustc() {
        return;
    }
    let wrong = in_parallel(&cases(""), |path| {
        let expected = path.with_extension("stderr");
        let said = text(&messages("metadata", path));
        if env::var_os("UPDATE_UI").is_some() {
            fs::write(&expected, &said).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        let is_right = !said.is_empty() && said == expected;
        (!is_right).then(|| format!("{}, expected:\n{expected}\nsaid:\n{said}", path.display()))
    });
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A mistake in the body is reported as if the attribute were not there: the same messages in the
/// same places.
#[test]
fn mistakes_in_the_body_are_reported_as_without_the_attribute() {
    if !is_expected_rustc() {
        return;
    }
    let cases = cases("body");
    assert!(cases.len() > 3, "found only {} cases", cases.len());
    in_parallel(&cases, |path| {
        let with = fs::read_to_string(path).unwrap();
        let expected = errors(&without_attribute(&with));
        assert!(!expected.is_empty(), "{} is correct", path.display());
        assert_eq!(errors(&with), expected, "{}", path.display());
    });
}

/// rustc names the path, and not the argument: the documentation of the attribute does.
#[test]
fn users_of_a_facade_need_only_the_path_of_the_runtime() {
    let without = fs::read_to_string(tests().join("ui/facade.rs")).unwrap();
    let with = without.replace(")]", ", crate = my_facade::redlock_runtime)]");
    assert_ne!(errors(&without), BTreeSet::new());
    assert_eq!(errors(&with), BTreeSet::new());
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

/// Cargo would build a second runtime for them if they were tests of the crate of macros.
#[test]
fn the_examples_in_the_documentation_of_the_attribute_compile() {
    let source = fs::read_to_string(tests().join("../redlock-macros/src/lib.rs")).unwrap();
    let (mut examples, mut fence) = (Vec::<String>::new(), None);
    for line in source.lines().filter_map(|line| line.strip_prefix("///")) {
        match (fence, line.trim()) {
            (None, start) if start.starts_with("```") => {
                examples.extend((start == "```").then(String::new));
                fence = Some(start);
            }
            (Some(_), "```") => fence = None,
            // As in rustdoc, `# ` hides a line from the reader alone.
            (Some("```"), line) => {
                let line = line.strip_prefix("# ").unwrap_or(line);
                examples.last_mut().unwrap().extend([line, "\n"]);
            }
            _ => {}
        }
    }
    assert!(examples.len() > 1, "{examples:?}");
    for example in examples {
        assert_eq!(
            errors(&(example.clone() + "fn main() {}")),
            BTreeSet::new(),
            "{example}"
        );
    }
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

/// The files that begin with `prefix`, as rustc is to name them.
fn cases(prefix: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(tests().join("ui")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let cases = names.filter(|name| name.starts_with(prefix) && name.ends_with(".rs"));
    cases.map(|name| Path::new("ui").join(name)).collect()
}

fn tests() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn in_parallel<T: Send>(cases: &[PathBuf], work: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let cases = Mutex::new(cases.iter());
    let next = || cases.lock().unwrap().next();
    let worker = || {
        let mut done = Vec::new();
        while let Some(case) = next() {
            done.push(work(case));
        }
        done
    };
    thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, NonZero::get);
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(worker)).collect();
        let done = workers.into_iter().map(|worker| worker.join().unwrap());
        done.flatten().collect()
    })
}

/// Everything else stays on its line.
fn without_attribute(source: &str) -> String {
    let is_attribute = |line: &str| line.starts_with("#[redis_lock(");
    let lines = source.lines();
    let lines = lines.map(|line| if is_attribute(line) { "" } else { line });
    let lines: Vec<&str> = lines.collect();
    lines
        .join("\n")
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
    messages(emit, &path)
        .iter()
        .filter(|message| message["level"] == "error")
        .map(|message| {
            let spans = message["spans"].as_array().unwrap().iter();
            let places = spans.filter(|span| span["is_primary"] == true).map(|span| {
                let at = ["line_start", "column_start", "line_end", "column_end"];
                at.map(|name| span[name].as_u64().unwrap())
            });
            let places: Vec<_> = places.collect();
            format!("{} at {places:?}", message["message"])
        })
        .collect()
}

/// The errors and warnings of rustc about the file at `path`, without their count at the end.
fn messages(emit: &str, path: &Path) -> Vec<Value> {
    let out = tempfile::tempdir().unwrap();
    let is_behind_facade = fs::read_to_string(tests().join(path))
        .unwrap()
        .contains("my_facade");
    let runtime = match is_behind_facade {
        true => ("my_facade", FACADE.clone()),
        false => ("redlock_runtime", library("redlock_runtime")),
    };
    let crates = [
        runtime,
        ("tokio", library("tokio")),
        ("async_trait", macros("async_trait")),
    ];
    let mut command = compiler(rustc(), out.path(), &crates);
    command.arg(format!("--emit={emit}")).arg("-Adead_code");
    let output = command.arg(path).current_dir(tests()).output().unwrap();
    let lines = String::from_utf8(output.stderr).unwrap();
    let messages = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    messages
        .filter(|message: &Value| {
            ["error", "warning"]
                .map(Value::from)
                .contains(&message["level"])
                && !message["spans"].as_array().unwrap().is_empty()
        })
        .collect()
}

/// A library whose users do not depend on the runtime themselves.
static FACADE: LazyLock<PathBuf> = LazyLock::new(|| {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = out.join("my_facade.rs");
    fs::write(&source, "pub use redlock_runtime;").unwrap();
    let crates = [("redlock_runtime", library("redlock_runtime"))];
    let mut command = compiler(rustc(), out, &crates);
    let built = command
        .arg("--crate-type=lib")
        .arg(source)
        .status()
        .unwrap();
    assert!(built.success());
    out.join("libmy_facade.rlib")
});

/// As rustc shows them, but for what differs between machines and with sources other than the case's.
fn text(messages: &[Value]) -> String {
    let shown = messages.iter().map(|message| message["rendered"].as_str());
    let shown: Vec<_> = shown.map(|text| normalized(text.unwrap())).collect();
    shown.join("\n")
}

/// Other files' lines and their numbers are left out, and the margin is as wide as without them.
fn normalized(message: &str) -> String {
    let mut lines = Vec::new();
    let mut is_elsewhere = false;
    for line in message.trim_end().lines() {
        let shown = line.trim_start();
        if let Some(place) = shown
            .strip_prefix("--> ")
            .or_else(|| shown.strip_prefix("::: "))
        {
            is_elsewhere = !place.starts_with("ui/");
            if is_elsewhere {
                let margin = &line[..line.len() - place.len()];
                lines.push(format!("{margin}{}", elsewhere(place)));
                continue;
            }
        } else {
            let is_code = |first: char| "|.".contains(first) || first.is_ascii_digit();
            is_elsewhere &= shown.starts_with(is_code);
        }
        if !is_elsewhere {
            lines.push(line.trim_end().to_owned());
        }
    }
    let number = |line: &String| line.trim_start().split_once(' ')?.0.parse::<u32>().ok();
    let widest = lines.iter().filter_map(number).max().unwrap_or(1);
    let margin = widest.to_string().len();
    let is_arrow = |line: &&String| line.trim_start().starts_with("--> ");
    let arrow = lines
        .iter()
        .find(is_arrow)
        .map_or(margin, |line| line.len() - line.trim_start().len());
    for line in &mut lines {
        let of_margin = ["|", "= ", "--> ", "::: "];
        let shown = line.trim_start();
        if of_margin.iter().any(|sign| shown.starts_with(sign)) || number(line).is_some() {
            line.replace_range(..(arrow - margin).min(line.len() - shown.len()), "");
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// A file of this workspace or of the standard library.
fn elsewhere(place: &str) -> String {
    let file = place.split(".rs:").next().unwrap();
    match (file.find("redlock-runtime/src/"), file.find("/library/")) {
        (Some(start), _) => format!("$WORKSPACE/{}.rs", &file[start..]),
        (None, Some(start)) => format!("$RUST/{}.rs", &file[start + "/library/".len()..]),
        (None, None) => format!("{file}.rs"),
    }
}
