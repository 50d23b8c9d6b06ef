//! How long rustc takes for a crate of annotated functions, beside the same crate written by hand
//! and without locks.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::{
    median,
    report::{Report, Table},
};

const FUNCTIONS: usize = 1000;
const ROUNDS: usize = 3;
const CRATES: [&str; 3] = ["annotated", "hold", "plain"];

pub(crate) fn measure(report: &mut Report) -> Result<(), Box<dyn Error>> {
    let title = format!(
        "Milliseconds per function to compile {FUNCTIONS} of them, medians of {ROUNDS} rounds"
    );
    let mut table = Table::new("compile_ms", title);
    let place = tempfile::tempdir()?;
    let workspace = Workspace::new(place.path())?;
    for command in ["check", "build"] {
        for krate in CRATES {
            // Dependencies as well, which are not what is measured.
            workspace.cargo(command, krate, 0)?;
        }
        let mut elapsed = [const { Vec::new() }; CRATES.len()];
        let mut processor = [const { Vec::new() }; CRATES.len()];
        for round in 1..=ROUNDS {
            for (which, krate) in CRATES.into_iter().enumerate() {
                let cost = workspace.cargo(command, krate, round)?;
                elapsed[which].push(cost.elapsed);
                processor[which].push(cost.processor);
            }
        }
        row(&mut table, format!("{command}, elapsed"), elapsed);
        row(&mut table, format!("{command}, processor"), processor);
    }
    report.add(table);
    Ok(())
}

fn row(table: &mut Table, name: String, times: [Vec<f64>; CRATES.len()]) {
    let [annotated, hold, plain] = times.map(median);
    table.row(
        name,
        [
            ("plain", plain),
            ("annotated", annotated),
            ("hold", hold),
            ("annotated - plain", annotated - plain),
            ("annotated/hold", annotated / hold),
        ],
    );
}

/// In milliseconds per function. The start of cargo is in it, for each crate alike.
struct Cost {
    elapsed: f64,
    /// Of all threads: the figure that a busy machine hardly changes.
    processor: f64,
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

    fn cargo(&self, command: &str, krate: &str, round: usize) -> Result<Cost, Box<dyn Error>> {
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
        let (start, before) = (Instant::now(), processor_of_children()?);
        let output = cargo.output()?;
        let elapsed = start.elapsed().as_secs_f64();
        let processor = processor_of_children()? - before;
        // A warning as well is a mistake here: a thousand of them take time to print.
        if !output.status.success() || !output.stderr.is_empty() {
            let messages: String = String::from_utf8_lossy(&output.stderr)
                .chars()
                .take(2000)
                .collect();
            let status = output.status;
            return Err(format!("cargo {command} of `{krate}`: {status}\n{messages}").into());
        }
        let [elapsed, processor] =
            [elapsed, processor].map(|seconds| seconds * 1e3 / FUNCTIONS as f64);
        Ok(Cost { elapsed, processor })
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
        let shape = &SHAPES[index % SHAPES.len()];
        let text = match krate {
            "annotated" => shape.annotated,
            "hold" => shape.hold,
            _ => shape.plain,
        };
        // A future that nobody polls is not compiled to machine code.
        let function = format!("{text}{}", shape.user);
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

/// One function in three ways, and what makes rustc generate its code.
struct Shape {
    annotated: &'static str,
    hold: &'static str,
    plain: &'static str,
    user: &'static str,
}

const SHAPES: [Shape; 4] = [
    Shape {
        annotated: r#"
#[redis_lock(key = "order:{id}:INDEX", expire = 10s, wait = 500ms)]
pub async fn orderINDEX(id: u64, amount: u64) -> Result<u64, LockError> {
    yield_now().await;
    Ok(id + amount)
}
"#,
        hold: r#"
pub async fn orderINDEX(id: u64, amount: u64) -> Result<u64, LockError> {
    redlock()
        .lock(format!("order:{id}:INDEX"))
        .expire(Duration::from_secs(10))
        .wait(Duration::from_millis(500))
        .hold(async move |_| {
            yield_now().await;
            Ok(id + amount)
        })
        .await?
}
"#,
        plain: r#"
pub async fn orderINDEX(id: u64, amount: u64) -> Result<u64, LockError> {
    yield_now().await;
    Ok(id + amount)
}
"#,
        user: r#"
pub fn useINDEX() -> Boxed<Result<u64, LockError>> {
    Box::pin(orderINDEX(INDEX, 1))
}
"#,
    },
    Shape {
        annotated: r#"
#[redis_lock(key = "cart:{name}:INDEX")]
pub async fn cartINDEX(name: String, items: Vec<u32>) -> Result<usize, LockError> {
    yield_now().await;
    Ok(name.len() + items.len())
}
"#,
        hold: r#"
pub async fn cartINDEX(name: String, items: Vec<u32>) -> Result<usize, LockError> {
    redlock()
        .lock(format!("cart:{name}:INDEX"))
        .hold(async move |_| {
            yield_now().await;
            Ok(name.len() + items.len())
        })
        .await?
}
"#,
        plain: r#"
pub async fn cartINDEX(name: String, items: Vec<u32>) -> Result<usize, LockError> {
    yield_now().await;
    Ok(name.len() + items.len())
}
"#,
        user: r#"
pub fn useINDEX() -> Boxed<Result<usize, LockError>> {
    Box::pin(cartINDEX(String::new(), Vec::new()))
}
"#,
    },
    Shape {
        annotated: r#"
#[redis_lock(key = "stock:{item.shop}:{item.id}", renew, lease = lease)]
pub async fn stockINDEX(item: Item) -> Result<bool, LockError> {
    yield_now().await;
    Ok(lease.is_held() && item.id == INDEX)
}
"#,
        hold: r#"
pub async fn stockINDEX(item: Item) -> Result<bool, LockError> {
    redlock()
        .lock(format!("stock:{}:{}", item.shop, item.id))
        .renew()
        .hold(async move |lease| {
            yield_now().await;
            Ok(lease.is_held() && item.id == INDEX)
        })
        .await?
}
"#,
        plain: r#"
pub async fn stockINDEX(item: Item) -> Result<bool, LockError> {
    yield_now().await;
    Ok(item.id == INDEX)
}
"#,
        user: r#"
pub fn useINDEX() -> Boxed<Result<bool, LockError>> {
    Box::pin(stockINDEX(Item { shop: 1, id: 2 }))
}
"#,
    },
    Shape {
        annotated: r#"
#[redis_lock(key = "report:INDEX", name = "report", on_error = |_| None)]
pub async fn reportINDEX() -> Option<u64> {
    yield_now().await;
    Some(INDEX)
}
"#,
        hold: r#"
pub async fn reportINDEX() -> Option<u64> {
    redlock()
        .lock("report:INDEX")
        .hold(async |_| {
            yield_now().await;
            Some(INDEX)
        })
        .await
        .unwrap_or(None)
}
"#,
        plain: r#"
pub async fn reportINDEX() -> Option<u64> {
    yield_now().await;
    Some(INDEX)
}
"#,
        user: r#"
pub fn useINDEX() -> Boxed<Option<u64>> {
    Box::pin(reportINDEX())
}
"#,
    },
];
