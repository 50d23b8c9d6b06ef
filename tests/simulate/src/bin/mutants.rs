//! Checks the checker: builds the simulation against copies of the protocol, each with one
//! deliberate fault, and expects every one of them to be found.
//!
//! ```text
//! cargo run --release -p redlock-simulate --bin mutants -- [--histories 5000] [--seed 1]
//!     [--workers 2] [name...]
//! ```
//!
//! A mutant is a file in `tests/mutants`:
//!
//! ```text
//! rule: the rule it breaks
//! profile: inside
//! finds: token,exclusion
//! draw: many_nodes
//! survives: why it cannot be found, if so
//! --- file of the protocol
//! text, which must be in it exactly once
//! +++
//! its replacement
//! ```
//!
//! with as many replacements as it takes. A file below `simulate/` is one of the simulator's, which has a model
//! of the clocks that the protocol is given. If `finds` is there, only violations of one of these rules count,
//! else of all. If `draw` is there, all histories have that that can. A mutant that cannot be found is tried on
//! a tenth of the histories, and so is the protocol without a fault, in each profile that is in use.
//!
//! The last line is JSON. The exit status is 1 if a mutant was not found and does not say why, if
//! one was found that says so, if one does not fit or build, or if the protocol without a fault
//! violates anything itself.

use std::{
    collections::BTreeSet,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

const MANIFEST: &str = r#"[package]
name = "redlock-simulate"
version = "0.0.0"
edition = "2024"
autobins = false

[[bin]]
name = "simulate"
path = "src/main.rs"

[dependencies]
redlock-protocol = { path = "protocol" }

# Most of the time goes into compiling.
[profile.release]
opt-level = 1
incremental = true

[workspace]
"#;

const MANIFEST_OF_PROTOCOL: &str = r#"[package]
name = "redlock-protocol"
version = "0.0.0"
edition = "2024"
"#;

struct Mutant {
    name: String,
    rule: String,
    profile: String,
    /// The rules whose violations count.
    finds: String,
    /// What all histories have.
    draw: Option<String>,
    /// Why it cannot be found.
    survives: Option<String>,
    edits: Vec<Edit>,
}

struct Edit {
    file: String,
    find: String,
    replacement: String,
}

/// The place of the first history that violates a rule, and which one.
type Verdict = Option<(u64, String)>;

struct Settings {
    histories: u64,
    seed: u64,
    workers: usize,
    names: Vec<String>,
}

/// A workspace of its own, whose protocol and simulation can be changed.
struct Copy(tempfile::TempDir);

/// Files that were changed, and what they were before.
type Saved = Vec<(PathBuf, String)>;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let settings = Settings::parse(std::env::args().skip(1))?;
    let began = Instant::now();
    let broken = Mutant::all(&settings.names)?;
    let profiles: BTreeSet<&str> = broken.iter().map(|one| one.profile.as_str()).collect();
    let mut mutants: Vec<Mutant> = profiles.into_iter().map(Mutant::none).collect();
    let sound = mutants.len();
    mutants.extend(broken);
    println!("| mutant | histories | found by | rule |\n|---|---|---|---|");
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..settings.workers {
            scope.spawn(|| try_out_all(&mutants, &next, &settings, &outcomes));
        }
    });
    let outcomes = outcomes.into_inner()?;
    let bad: Vec<String> = outcomes
        .iter()
        .filter(|outcome| !outcome.is_as_expected)
        .map(|outcome| format!("\"{}\"", outcome.name))
        .collect();
    println!(
        "{{\"mutants\":{},\"found\":{},\"bad\":[{}],\"histories\":{},\"seed\":{},\"seconds\":{:.0}}}",
        mutants.len() - sound,
        outcomes.iter().filter(|outcome| outcome.was_found).count(),
        bad.join(","),
        settings.histories,
        settings.seed,
        began.elapsed().as_secs_f64()
    );
    Ok(bad.is_empty())
}

/// What became of a mutant.
struct Outcome {
    name: String,
    was_found: bool,
    is_as_expected: bool,
}

/// Tries one mutant after the other, in a copy of its own.
fn try_out_all(
    mutants: &[Mutant],
    next: &AtomicUsize,
    settings: &Settings,
    outcomes: &Mutex<Vec<Outcome>>,
) {
    let copy = Copy::new().expect("the sources can be copied");
    while let Some(mutant) = mutants.get(next.fetch_add(1, Ordering::Relaxed)) {
        let histories = match mutant.survives {
            Some(_) => settings.histories.div_ceil(10),
            None => settings.histories,
        };
        let verdict = copy.try_out(mutant, histories, settings.seed);
        let (histories, by) = match (&verdict, &mutant.survives) {
            (Ok(Some((history, rule))), None) => (history + 1, rule.clone()),
            (Ok(None), Some(why)) => (histories, format!("survives: {why}")),
            (Ok(Some((history, rule))), Some(_)) => (
                history + 1,
                format!("**{rule}, which should not be found**"),
            ),
            (Ok(None), None) => (histories, "**survives**".to_owned()),
            (Err(problem), _) => {
                eprintln!("{}: {problem}", mutant.name);
                (0, "**cannot be tried**".to_owned())
            }
        };
        println!("| {} | {histories} | {by} | {} |", mutant.name, mutant.rule);
        let was_found = verdict.as_ref().is_ok_and(Option::is_some);
        outcomes.lock().unwrap().push(Outcome {
            name: mutant.name.clone(),
            was_found,
            is_as_expected: verdict.is_ok() && was_found == mutant.survives.is_none(),
        });
    }
}

impl Settings {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut settings = Self {
            histories: 5_000,
            seed: 1,
            workers: thread::available_parallelism().map_or(1, usize::from),
            names: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} has no value"))
            };
            match argument.as_str() {
                "--histories" => settings.histories = value()?.parse()?,
                "--seed" => settings.seed = value()?.parse()?,
                "--workers" => settings.workers = value()?.parse()?,
                option if option.starts_with('-') => return Err(format!("no {option}").into()),
                _ => settings.names.push(argument),
            }
        }
        Ok(settings)
    }
}

impl Mutant {
    fn all(names: &[String]) -> Result<Vec<Self>, Box<dyn Error>> {
        let folder = tests().join("mutants");
        let mut mutants = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            if names.is_empty() || names.iter().any(|one| *one == name) {
                let text = fs::read_to_string(&path)?;
                let mutant = Self::parse(&name, &text)
                    .ok_or_else(|| format!("{} is not a mutant", path.display()))?;
                mutants.push(mutant);
            }
        }
        mutants.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(mutants)
    }

    /// The protocol as it is.
    fn none(profile: &str) -> Self {
        Self {
            name: format!("(none, {profile})"),
            rule: "all of them".to_owned(),
            profile: profile.to_owned(),
            finds: "all".to_owned(),
            draw: None,
            survives: Some("nothing is wrong".to_owned()),
            edits: Vec::new(),
        }
    }

    fn parse(name: &str, text: &str) -> Option<Self> {
        let (head, edits) = text.split_once("--- ")?;
        let line = |label: &str| {
            let mut values = head.lines().filter_map(|line| line.strip_prefix(label));
            values.next().map(|value| value.trim().to_owned())
        };
        Some(Self {
            name: name.to_owned(),
            rule: line("rule:")?,
            profile: line("profile:")?,
            finds: line("finds:").unwrap_or_else(|| "all".to_owned()),
            draw: line("draw:"),
            survives: line("survives:"),
            edits: edits
                .split("\n--- ")
                .map(Edit::parse)
                .collect::<Option<_>>()?,
        })
    }
}

impl Edit {
    fn parse(text: &str) -> Option<Self> {
        let (file, change) = text.split_once('\n')?;
        let (find, replacement) = change.split_once("\n+++\n")?;
        Some(Self {
            file: file.to_owned(),
            find: find.to_owned(),
            replacement: replacement.trim_end_matches('\n').to_owned(),
        })
    }
}

impl Copy {
    fn new() -> Result<Self, Box<dyn Error>> {
        let copy = Self(tempfile::tempdir()?);
        copy_folder(&tests().join("simulate/src"), &copy.path("src"))?;
        let protocol = tests().join("../redlock-runtime/protocol/src");
        copy_folder(&protocol, &copy.path("protocol/src"))?;
        fs::write(copy.path("Cargo.toml"), MANIFEST)?;
        fs::write(copy.path("protocol/Cargo.toml"), MANIFEST_OF_PROTOCOL)?;
        Ok(copy)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn try_out(
        &self,
        mutant: &Mutant,
        histories: u64,
        seed: u64,
    ) -> Result<Verdict, Box<dyn Error>> {
        let mut saved = Saved::new();
        let verdict = self
            .mutate(mutant, &mut saved)
            .and_then(|()| self.build())
            .and_then(|()| self.simulate(mutant, histories, seed));
        restore(saved)?;
        verdict
    }

    fn mutate(&self, mutant: &Mutant, saved: &mut Saved) -> Result<(), Box<dyn Error>> {
        for Edit {
            file,
            find,
            replacement,
        } in &mutant.edits
        {
            let path = match file.strip_prefix("simulate/") {
                Some(file) => self.path("src").join(file),
                None => self.path("protocol/src").join(file),
            };
            let text = fs::read_to_string(&path)?;
            let places = text.matches(find).count();
            if places != 1 {
                return Err(format!("{places} times in {file}:\n{find}").into());
            }
            fs::write(&path, text.replacen(find, replacement, 1))?;
            saved.push((path, text));
        }
        Ok(())
    }

    fn build(&self) -> Result<(), Box<dyn Error>> {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--offline", "--quiet"])
            .current_dir(self.0.path())
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env("RUSTFLAGS", "-A warnings")
            .output()?;
        if built.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&built.stderr).into())
        }
    }

    fn simulate(
        &self,
        mutant: &Mutant,
        histories: u64,
        seed: u64,
    ) -> Result<Verdict, Box<dyn Error>> {
        let output = Command::new(self.path("target/release/simulate"))
            .args(["--until-found", "--threads", "1"])
            .args(["--profile", &mutant.profile, "--rule", &mutant.finds])
            .args(["--histories", &histories.to_string()])
            .args(["--seed", &seed.to_string()])
            .args(mutant.draw.iter().flat_map(|draw| ["--draw", draw]))
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        let json = text.lines().last().unwrap_or_default();
        if output.status.success() {
            return Ok(None);
        }
        let field = |name: &str| {
            let (_, value) = json.split_once("\"first\":{")?.1.split_once(name)?;
            let end = value.find([',', '}'])?;
            Some(value[..end].trim_matches('"').to_owned())
        };
        let (Some(history), Some(rule)) = (field("\"history\":"), field("\"rule\":")) else {
            let problem = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {problem}{text}", output.status).into());
        };
        Ok(Some((history.parse()?, rule)))
    }
}

/// The last change first: one file may have several.
fn restore(saved: Saved) -> std::io::Result<()> {
    let mut last_first = saved.into_iter().rev();
    last_first.try_for_each(|(path, text)| fs::write(path, text))
}

/// The folder of all tests.
fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// With everything in it.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    /// Few mutants are tried for each commit, but a commit can take the text away that any of them changes.
    #[test]
    fn every_mutant_fits() {
        let copy = Copy::new().unwrap();
        for mutant in Mutant::all(&[]).unwrap() {
            let mut saved = Saved::new();
            let fits = copy.mutate(&mutant, &mut saved);
            let fits = fits.map_err(|problem| problem.to_string());
            assert_eq!(fits, Ok(()), "{}", mutant.name);
            restore(saved).unwrap();
        }
    }
}
