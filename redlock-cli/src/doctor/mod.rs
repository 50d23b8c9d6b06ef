//! `redlock doctor`: are these servers fit to be the nodes of a fleet?

mod checks;
mod rights;

use std::{cmp::Reverse, time::Duration};

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
        let json = |it: &Finding| json!({ "level": it.level.name(), "check": it.check, "node": it.node, "text": it.text });
        let findings: Vec<_> = findings.iter().map(json).collect();
        output::line(&json!({ "findings": findings, "errors": errors, "warnings": warnings }));
    } else {
        // `error   10.0.0.1:6379: is a replica: name its master  [role]`
        for it in &findings {
            let node = it
                .node
                .as_ref()
                .map_or_else(String::new, |node| format!("{node}: "));
            let (level, text, check) = (it.level.name(), &it.text, it.check);
            output::line(&format_args!("{level:<8}{node}{text}  [{check}]"));
        }
        let of = output::counted(examined.len(), "server");
        let errors = output::counted(errors, "error");
        let warnings = output::counted(warnings, "warning");
        output::line(&format_args!("{of} examined: {errors}, {warnings}"));
    }
    let has_failed = errors > 0 || strict && warnings > 0;
    Ok(if has_failed { output::FOUND } else { 0 })
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
            let (lacks, refusals) = rights::lacking_and_refused(&probes?);
            told.refusals.extend(refusals);
            told.clocks = first.ok().zip(second.ok()).map(Into::into);
            told.settings = settings?.first().map(map).unwrap_or_default();
            told.lacks = lacks;
            Ok(told)
        });
        Server { told, ..server }
    });
    examined.collect()
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
