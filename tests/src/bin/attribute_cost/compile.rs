//! How long rustc takes for a crate of annotated functions, beside the same crate written by hand
//! and without locks.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::median;

const FUNCTIONS: usize = 1000;
const ROUNDS: usize = 3;
const CRATES: [&str; 3] = ["annotated", "hold", "plain"];

/// Prints the time of all of the compiler's threads, which a busy machine hardly changes. The start of
/// cargo is in it, for each crate alike.
pub(crate) fn measure() -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let workspace = Workspace::new(place.path())?;
    for command in ["check", "build"] {
        for krate in CRATES {
            // Dependencies as well, which are not what is measured.
            workspace.cargo(command, krate, 0)?;
        }
        let mut times = [const { Vec::new() }; CRATES.len()];
        for round in 1..=ROUNDS {
            for (times, krate) in times.iter_mut().zip(CRATES) {
                times.push(workspace.cargo(command, krate, round)?);
            }
        }
        let [annotated, hold, plain] = times.map(median);
        println!(
            "cargo {command}, ms of processor time for each of {FUNCTIONS} functions: \
             annotated {annotated:.1}, hold {hold:.1}, plain {plain:.1}"
        );
    }
    Ok(())
}

/// One crate for each way to write the functions.
struct Workspace<'a> {
    place: &'a Path,
    target: PathBuf,
}

impl<'a> Workspace<'a> {
    fn new(place: &'a Path) -> Result<Self, Box<dyn Error>> {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let runtime = ours.join("redlock-runtime");
        // The versions that have been downloaded.
        fs::copy(ours.join("Cargo.lock"), place.join("Cargo.lock"))?;
        let members = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\nexclude = [\"target\"]\n";
        fs::write(place.join("Cargo.toml"), members)?;
        for krate in CRATES {
            let manifest = format!(
                "[package]\nname = \"{krate}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
                 [dependencies]\nredlock-runtime = {{ path = {runtime:?} }}\n\
                 tokio = {{ version = \"1\", features = [\"rt\"] }}\n"
            );
            fs::create_dir_all(place.join(krate).join("src"))?;
            fs::write(place.join(krate).join("Cargo.toml"), manifest)?;
            // Cargo refuses a workspace of which any member has no source.
            fs::write(place.join(krate).join("src/lib.rs"), "")?;
        }
        // Beside this binary, so that a second run finds the dependencies built.
        let profile = std::env::current_exe()?;
        let target = profile.ancestors().nth(2).ok_or("no target directory")?;
        Ok(Self {
            place,
            target: target.join("attribute-cost"),
        })
    }

    /// Milliseconds for each function.
    fn cargo(&self, command: &str, krate: &str, round: usize) -> Result<f64, Box<dyn Error>> {
        // Another text each time, so that there is something to do.
        let source = format!("//! Round {round}.\n\n{}", source(krate));
        fs::write(self.place.join(krate).join("src/lib.rs"), source)?;
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([command, "--quiet", "--offline", "--package", krate])
            .current_dir(self.place)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_INCREMENTAL", "0")
            .env_remove("RUSTC_WRAPPER");
        let before = processor_of_children()?;
        let output = cargo.output()?;
        let seconds = processor_of_children()? - before;
        // A warning as well is a mistake here: a thousand of them take time to print.
        if !output.status.success() || !output.stderr.is_empty() {
            let messages: String = String::from_utf8_lossy(&output.stderr)
                .chars()
                .take(2000)
                .collect();
            let status = output.status;
            return Err(format!("cargo {command} of `{krate}`: {status}\n{messages}").into());
        }
        Ok(seconds * 1e3 / FUNCTIONS as f64)
    }
}

/// Seconds of the processor that children of this process have used until they were waited for.
fn processor_of_children() -> Result<f64, Box<dyn Error>> {
    // `cutime` and `cstime`, in hundredths of a second: fields 16 and 17, of which the first two,
    // a number and a name in parentheses, are cut off here.
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let times = fields.split_whitespace().skip(13).take(2);
    let ticks = times.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / 100.0)
}

fn source(krate: &str) -> String {
    let mut source = PRELUDE.to_owned();
    for index in 0..FUNCTIONS {
        let function = SHAPES[index % SHAPES.len()].function(krate);
        source.push_str(&function.replace("INDEX", &index.to_string()));
    }
    source
}

/// Public imports, since not every crate needs all of them.
const PRELUDE: &str = "
pub use redlock_runtime::{LockError, Redlock, redis_lock};
pub use std::{pin::Pin, time::Duration};
pub use tokio::task::yield_now;

pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub struct Item {
    pub shop: u64,
    pub id: u64,
}

pub fn redlock() -> Redlock {
    Redlock::installed().expect(\"installed\")
}
";

/// One function, to be written in three ways.
struct Shape {
    attribute: &'static str,
    arguments: &'static str,
    returns: &'static str,
    body: &'static str,
    /// What stands around the body with a lock by hand.
    lock: &'static str,
    unlock: &'static str,
    /// Arguments for a call.
    values: &'static str,
}

impl Shape {
    fn function(&self, krate: &str) -> String {
        let Self {
            attribute,
            arguments,
            returns,
            lock,
            unlock,
            values,
            ..
        } = self;
        let body = format!("yield_now().await; {}", self.body);
        let (attribute, body) = match krate {
            "annotated" => (*attribute, body),
            "hold" => (
                "",
                format!("redlock().{lock}.hold(async move |_| {{ {body} }}).await{unlock}"),
            ),
            _ => ("", body),
        };
        // A future that nobody polls is not compiled to machine code.
        format!(
            "{attribute}\npub async fn lockedINDEX({arguments}) -> {returns} {{ {body} }}\n\
             pub fn useINDEX() -> Boxed<{returns}> {{ Box::pin(lockedINDEX({values})) }}\n"
        )
    }
}

const SHAPES: [Shape; 4] = [
    Shape {
        attribute: r#"#[redis_lock(key = "order:{id}:INDEX", expire = 10s, wait = 500ms)]"#,
        arguments: "id: u64, amount: u64",
        returns: "Result<u64, LockError>",
        body: "Ok(id + amount)",
        lock: r#"lock(format!("order:{id}:INDEX")).expire(Duration::from_secs(10)).wait(Duration::from_millis(500))"#,
        unlock: "?",
        values: "INDEX, 1",
    },
    Shape {
        attribute: r#"#[redis_lock(key = "cart:{name}:INDEX")]"#,
        arguments: "name: String, items: Vec<u32>",
        returns: "Result<usize, LockError>",
        body: "Ok(name.len() + items.len())",
        lock: r#"lock(format!("cart:{name}:INDEX"))"#,
        unlock: "?",
        values: "String::new(), Vec::new()",
    },
    Shape {
        attribute: r#"#[redis_lock(key = "stock:{item.shop}:{item.id}", renew)]"#,
        arguments: "item: Item",
        returns: "Result<bool, LockError>",
        body: "Ok(item.id == INDEX)",
        lock: r#"lock(format!("stock:{}:{}", item.shop, item.id)).renew()"#,
        unlock: "?",
        values: "Item { shop: 1, id: 2 }",
    },
    Shape {
        attribute: r#"#[redis_lock(key = "report:INDEX", name = "report", on_error = |_| None)]"#,
        arguments: "",
        returns: "Option<u64>",
        body: "Some(INDEX)",
        lock: r#"lock("report:INDEX")"#,
        unlock: ".unwrap_or(None)",
        values: "",
    },
];
