//! `redlock doctor`: are these servers fit to be the nodes of a fleet?

mod checks;
mod rights;

use std::time::Duration;

use redlock_runtime::__tool::{Servers, counted};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

pub(crate) use self::rights::Right;
use crate::{
    args::ServerArgs,
    exit_code::{self, Failure},
    output,
    survey::{Server, survey},
};

/// What was found.
struct Finding {
    /// Locks do not work, or not safely. Otherwise it is a warning: they could work better.
    is_error: bool,
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
    findings.sort_by_key(|finding| !finding.is_error);
    let errors = findings.iter().filter(|it| it.is_error).count();
    let warnings = findings.len() - errors;
    let level = |it: &Finding| if it.is_error { "error" } else { "warning" };
    if args.json {
        let json = |it: &Finding| json!({ "level": level(it), "check": it.check, "node": it.node, "text": it.text });
        let findings: Vec<_> = findings.iter().map(json).collect();
        output::line(&json!({ "findings": findings, "errors": errors, "warnings": warnings }));
    } else {
        // `error   10.0.0.1:6379: is a replica: name its master  [role]`
        for it in &findings {
            let node: String = it.node.iter().map(|node| format!("{node}: ")).collect();
            let (level, text, check) = (level(it), &it.text, it.check);
            output::line(&format_args!("{level:<8}{node}{text}  [{check}]"));
        }
        let of = counted(examined.len(), "server");
        let errors = counted(errors, "error");
        let warnings = counted(warnings, "warning");
        output::line(&format_args!("{of} examined: {errors}, {warnings}"));
    }
    let has_failed = errors > 0 || strict && warnings > 0;
    Ok(if has_failed { exit_code::FOUND } else { 0 })
}

async fn examine(servers: &Servers) -> Vec<Server> {
    let clocks = servers.clocks().await;
    let again = Instant::now() + BETWEEN_READINGS;
    let mut examined = survey(servers, &rights::probes()).await;
    sleep_until(again).await;
    let clocks = clocks.into_iter().zip(servers.clocks().await);
    for (server, (first, second)) in examined.iter_mut().zip(clocks) {
        if let Ok(told) = &mut server.told {
            rights::examine(told);
            told.clocks = first.ok().zip(second.ok()).map(Into::into);
        }
    }
    examined
}
