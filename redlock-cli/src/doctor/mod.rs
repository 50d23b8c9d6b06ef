//! `redlock doctor`: are these servers fit to be the nodes of a fleet?

mod checks;
mod rights;

use std::{cmp::Reverse, fmt, time::Duration};

use redlock_runtime::__tool::Servers;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

pub(crate) use self::rights::Right;
use crate::{
    args::ServerArgs,
    output::{self, Failure},
    reply::{map, words},
    survey::{Server, survey},
};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// Worth knowing.
    Note,
    /// It works, with less than it could have.
    Warning,
    /// It does not work, or not safely.
    Error,
}

/// What was found.
#[derive(Debug)]
struct Finding {
    level: Level,
    /// What was looked at, in one word.
    check: &'static str,
    /// The address of the server that it is about; none if it is about all.
    node: Option<String>,
    text: String,
}

/// The time between two readings of a clock: long enough for a wrong speed to show.
const BETWEEN_READINGS: Duration = Duration::from_secs(1);

pub(crate) async fn doctor(args: &ServerArgs, strict: bool) -> Result<u8, Failure> {
    let examined = examine(&args.open()?).await;
    let mut findings = checks::all(&examined);
    findings.sort_by_key(|finding| Reverse(finding.level));
    let count = |level| findings.iter().filter(|it| it.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    if args.json {
        let findings: Vec<_> = findings.iter().map(json_of).collect();
        output::line(&json!({ "findings": findings, "errors": errors, "warnings": warnings }));
    } else {
        for finding in &findings {
            output::line(finding);
        }
        let of = output::counted(examined.len(), "server");
        let errors = output::counted(errors, "error");
        let warnings = output::counted(warnings, "warning");
        output::line(&format_args!("{of} examined: {errors}, {warnings}"));
    }
    Ok(match errors > 0 || strict && warnings > 0 {
        true => output::FOUND,
        false => 0,
    })
}

async fn examine(servers: &Servers) -> Vec<Server> {
    let clocks = servers.clocks().await;
    let again = Instant::now() + BETWEEN_READINGS;
    let surveyed = survey(servers).await;
    let settings = servers.ask(|_| vec![words(&["CONFIG", "GET", "*"])]).await;
    let name = rights::name_of_probe();
    let probes = servers.ask(|names| rights::probes(names, &name)).await;
    sleep_until(again).await;
    let clocks = clocks.into_iter().zip(servers.clocks().await);
    let asked = clocks.zip(settings).zip(probes);
    let examined = surveyed.into_iter().zip(asked);
    let examined = examined.map(|(server, (((first, second), settings), probes))| {
        let told = server.told.and_then(|mut told| {
            let probes = probes?;
            told.refusals.extend(rights::refused(&probes));
            told.clocks = first.ok().zip(second.ok()).map(Into::into);
            told.settings = settings?.first().map(map).unwrap_or_default();
            told.lacks = rights::lacking(&probes);
            Ok(told)
        });
        Server { told, ..server }
    });
    examined.collect()
}

fn json_of(finding: &Finding) -> serde_json::Value {
    json!({
        "level": finding.level.name(),
        "check": finding.check,
        "node": finding.node,
        "text": finding.text,
    })
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// `error  10.0.0.1:6379: is a replica: name its master  [role]`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8}", self.level.name())?;
        if let Some(node) = &self.node {
            write!(f, "{node}: ")?;
        }
        write!(f, "{}  [{}]", self.text, self.check)
    }
}
