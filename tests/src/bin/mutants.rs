//! Checks the checker: builds `simulate` against copies of the protocol, each with one deliberate
//! fault, and expects every one of them to be found.
//!
//! ```text
//! cargo run --release -p redlock-tests --bin mutants -- [--histories 50000] [--seed 1]
//!     [--protocol <folder>] [name...]
//! ```
//!
//! A mutant is a file in `tests/mutants`:
//!
//! ```text
//! rule: the rule it breaks
//! profile: inside
//! survives: why it cannot be found, if so
//! --- file of the protocol
//! text, which must be in it exactly once
//! +++
//! its replacement
//! ```
//!
//! with as many replacements as it takes. The last line is JSON. The exit status is 1 if a mutant
//! was not found and does not say why, if one was found that says so, or if the protocol without
//! a fault violates anything itself.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// For one simulation, on a machine that has other things to do too.
const PATIENCE: Duration = Duration::from_secs(3_600);

const MANIFEST: &str = r#"[package]
name = "mutant"
version = "0.0.0"
edition = "2024"

[[bin]]
name = "simulate"
path = "tests/src/bin/simulate/main.rs"

[profile.release]
opt-level = 2
incremental = true

[workspace]
"#;

struct Mutant {
    name: String,
    rule: String,
    profile: String,
    /// Why it cannot be found.
    survives: Option<String>,
    edits: Vec<Edit>,
}

struct Edit {
    file: String,
    find: String,
    replacement: String,
}

/// What a simulation said.
struct Verdict {
    /// The place of the first history that violates something, and what.
    found: Option<(u64, String)>,
}

struct Settings {
    histories: u64,
    seed: u64,
    protocol: PathBuf,
    names: Vec<String>,
}

/// A crate of its own, whose protocol can be changed.
struct Copy {
    root: tempfile::TempDir,
    protocol: PathBuf,
}

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
    let copy = Copy::new(&settings.protocol)?;
    let mutants = Mutant::all(&settings.names)?;
    println!("| mutant | histories | found by | rule |\n|---|---|---|---|");
    let (mut found, mut explained, mut bad) = (0, 0, Vec::new());
    for profile in ["inside", "outside"] {
        copy.build()?;
        if let Some((history, invariant)) = copy.simulate(profile, &settings)?.found {
            println!(
                "| (none, {profile}) | {} | **{invariant}** | |",
                history + 1
            );
            bad.push(format!("none-{profile}"));
        } else {
            println!("| (none, {profile}) | {} | - | |", settings.histories);
        }
    }
    for mutant in &mutants {
        let verdict = copy
            .try_out(mutant, &settings)
            .map_err(|problem| format!("{}: {problem}", mutant.name))?;
        let (histories, by) = match (&verdict.found, &mutant.survives) {
            (Some((history, invariant)), None) => {
                found += 1;
                (history + 1, invariant.clone())
            }
            (None, Some(why)) => {
                explained += 1;
                (settings.histories, format!("survives: {why}"))
            }
            (Some((history, invariant)), Some(_)) => {
                bad.push(mutant.name.clone());
                (history + 1, format!("**{invariant}, against its word**"))
            }
            (None, None) => {
                bad.push(mutant.name.clone());
                (settings.histories, "**survives**".to_owned())
            }
        };
        println!("| {} | {histories} | {by} | {} |", mutant.name, mutant.rule);
    }
    let bad_names: Vec<_> = bad.iter().map(|name| format!("\"{name}\"")).collect();
    println!(
        "{{\"mutants\":{},\"found\":{found},\"survive_as_explained\":{explained},\"bad\":[{}],\
         \"histories\":{},\"seed\":{},\"seconds\":{:.0}}}",
        mutants.len(),
        bad_names.join(","),
        settings.histories,
        settings.seed,
        began.elapsed().as_secs_f64()
    );
    Ok(bad.is_empty())
}

impl Settings {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut settings = Self {
            histories: 50_000,
            seed: 1,
            protocol: tests().join("../redlock-runtime/src/protocol"),
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
                "--protocol" => settings.protocol = value()?.into(),
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
    fn new(protocol: &Path) -> Result<Self, Box<dyn Error>> {
        let root = tempfile::tempdir()?;
        let simulator = Path::new("tests/src/bin/simulate");
        copy_folder(
            &tests().join("src/bin/simulate"),
            &root.path().join(simulator),
        )?;
        let copied = root.path().join("redlock-runtime/src/protocol");
        copy_folder(protocol, &copied)?;
        fs::write(root.path().join("Cargo.toml"), MANIFEST)?;
        Ok(Self {
            root,
            protocol: copied,
        })
    }

    fn try_out(&self, mutant: &Mutant, settings: &Settings) -> Result<Verdict, Box<dyn Error>> {
        self.mutate(mutant)?;
        self.build()?;
        let verdict = self.simulate(&mutant.profile, settings)?;
        self.restore(mutant)?;
        Ok(verdict)
    }

    fn mutate(&self, mutant: &Mutant) -> Result<(), Box<dyn Error>> {
        for edit in &mutant.edits {
            let path = self.protocol.join(&edit.file);
            let saved = path.with_extension("saved");
            let text = fs::read_to_string(&path)?;
            if !saved.exists() {
                fs::write(&saved, &text)?;
            }
            let places = text.matches(&edit.find).count();
            if places != 1 {
                let Edit { file, find, .. } = edit;
                return Err(format!("{places} times in {file}:\n{find}").into());
            }
            fs::write(path, text.replacen(&edit.find, &edit.replacement, 1))?;
        }
        Ok(())
    }

    fn restore(&self, mutant: &Mutant) -> Result<(), Box<dyn Error>> {
        for edit in &mutant.edits {
            let path = self.protocol.join(&edit.file);
            let saved = path.with_extension("saved");
            if saved.exists() {
                fs::write(path, fs::read_to_string(&saved)?)?;
                fs::remove_file(saved)?;
            }
        }
        Ok(())
    }

    fn build(&self) -> Result<(), Box<dyn Error>> {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--offline", "--quiet"])
            .current_dir(self.root.path())
            .env("CARGO_TARGET_DIR", self.root.path().join("target"))
            .env("RUSTFLAGS", "-A warnings")
            .output()?;
        if built.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&built.stderr).into())
        }
    }

    fn simulate(&self, profile: &str, settings: &Settings) -> Result<Verdict, Box<dyn Error>> {
        let mut child = Command::new(self.root.path().join("target/release/simulate"))
            .args(["--until-found", "--profile", profile])
            .args(["--histories", &settings.histories.to_string()])
            .args(["--seed", &settings.seed.to_string()])
            .stdout(Stdio::piped())
            .spawn()?;
        let end = Instant::now() + PATIENCE;
        while child.try_wait()?.is_none() {
            if Instant::now() > end {
                child.kill()?;
                child.wait()?;
                return Err("the simulation hangs: a mutant must not".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        let json = text.lines().last().unwrap_or_default();
        if output.status.success() {
            return Ok(Verdict { found: None });
        }
        let field = |name: &str| {
            let (_, value) = json.split_once("\"first\":{")?.1.split_once(name)?;
            let end = value.find([',', '}'])?;
            Some(value[..end].trim_matches('"').to_owned())
        };
        let (Some(history), Some(invariant)) = (field("\"history\":"), field("\"invariant\":"))
        else {
            return Err(format!("{}: {text}", output.status).into());
        };
        Ok(Verdict {
            found: Some((history.parse()?, invariant)),
        })
    }
}

fn tests() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files only, and those of `tests` folders not: the protocol's own tests are not compiled here.
fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
