//! Looking at servers and locks, and freeing a lock.

use std::io::{self, BufRead, Write};

use redlock_runtime::{
    __tool::{counted, vote, why},
    ClientProcess, HolderKind, Inspection,
};
use serde_json::{Value as Json, json};

use crate::{
    args::ServerArgs,
    exit_code::{self, Failure},
    output,
    survey::{Server, survey},
};

pub(crate) async fn status(args: &ServerArgs) -> Result<u8, Failure> {
    let surveyed = survey(&args.open()?, &[]).await;
    let count = surveyed.len();
    let told = surveyed.iter().flat_map(|server| &server.told);
    let voters = told.filter(|told| told.votes()).count();
    let has_majority = 2 * voters > count;
    if args.json {
        let nodes: Vec<Json> = surveyed.iter().map(json_of).collect();
        output::line(&json!({ "nodes": nodes, "voters": voters, "majority": has_majority }));
    } else {
        for Server { address, told, .. } in &surveyed {
            match told {
                Ok(told) => {
                    let version = told.version().unwrap_or("unknown");
                    let up = told.uptime().map(rounded);
                    let up = up.map_or_else(String::new, |up| format!(", up {up}"));
                    let vote = told.vote().text;
                    output::line(&format_args!("{address}  {vote}  (version {version}{up})"));
                }
                Err(reason) => output::line(&format_args!("{address}  cannot be asked ({reason})")),
            }
        }
        output::line(&vote(voters, count));
    }
    let kind = |server: &Server| match &server.told {
        Ok(told) => told.refusals.first().map(|(_, error)| why(error).kind),
        Err(why) => Some(why.kind),
    };
    Ok(match has_majority {
        true => 0,
        false => exit_code::unusable(count, surveyed.iter().filter_map(kind)),
    })
}

fn json_of(Server { address, told, .. }: &Server) -> Json {
    match told {
        Ok(told) => {
            let vote = told.vote();
            json!({
                "address": address,
                "state": vote.name,
                "text": vote.text,
                "version": told.version(),
                "remaining_ms": vote.remaining.map(|time| time.as_millis()),
                "uptime_seconds": told.uptime(),
            })
        }
        Err(reason) => json!({ "address": address, "state": "unreachable", "text": &*reason.text }),
    }
}

/// `3d`, `5h`, `7min`, `12s`
fn rounded(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}min", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

pub(crate) async fn inspect(args: &ServerArgs, key: &str) -> Result<u8, Failure> {
    let found = args.open()?.inspect(key).await;
    match args.json {
        true => output::line(&json_of_lock(&found)),
        false => output::line(&found),
    }
    let nodes = &found.nodes;
    let problems = nodes.iter().filter_map(|node| node.problem.as_ref());
    Ok(match 2 * problems.clone().count() < nodes.len() {
        true => 0,
        false => exit_code::unusable(nodes.len(), problems.map(|why| why.kind)),
    })
}

fn json_of_lock(found: &Inspection) -> Json {
    let holder = |holder: &redlock_runtime::Holder| {
        let nodes = holder.nodes.iter().map(|(address, remaining)| {
            json!({ "address": **address, "remaining_ms": remaining.map(|time| time.as_millis()) })
        });
        let kind = match holder.kind {
            HolderKind::Exclusive => "exclusive",
            HolderKind::Shared => "shared",
            _ => "foreign",
        };
        json!({
            "kind": kind,
            "owner": holder.owner,
            "value": holder.value,
            "permit": holder.permit,
            "process": holder.process.as_ref().map(json_of_process),
            "nodes": nodes.collect::<Vec<_>>(),
            "majority": holder.has_majority,
            "remaining_ms": holder.remaining().map(|time| time.as_millis()),
        })
    };
    let waiter = |waiter: &redlock_runtime::RemoteWaiter| {
        json!({
            "id": waiter.id,
            "process": waiter.process.as_ref().map(json_of_process),
            "waited_ms": waiter.waited.as_millis(),
            "shared": waiter.is_shared,
        })
    };
    let node = |node: &redlock_runtime::InspectedNode| {
        json!({
            "address": *node.address,
            "problem": node.problem.as_ref().map(|why| &*why.text),
            "hides_clients": node.hides_clients.as_ref().map(|why| &*why.text),
        })
    };
    json!({
        "key": *found.key,
        "held": found.is_held(),
        "holders": found.holders.iter().map(holder).collect::<Vec<_>>(),
        "waiters": found.waiters.iter().map(waiter).collect::<Vec<_>>(),
        "nodes": found.nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

fn json_of_process(process: &ClientProcess) -> Json {
    json!({
        "id": process.id,
        "service": process.service,
        "host": process.host,
        "pid": process.pid,
        "address": process.address,
        "connected_seconds": process.connected.map(|time| time.as_secs()),
    })
}

pub(crate) async fn break_key(args: &ServerArgs, key: &str, yes: bool) -> Result<u8, Failure> {
    let servers = args.open()?;
    let breaking = servers.breaking(key);
    if breaking.check().is_err() {
        let text = "this is no lock, but what the library keeps on its nodes";
        return Err(Failure(exit_code::USAGE, text.to_owned()));
    }
    // Before it is shown.
    let marks = breaking.marks().await;
    let mut found = servers.inspect(key).await;
    if !args.json {
        output::line(&found);
    }
    let marks = marks.map_err(|failed| {
        let code = exit_code::unusable(found.nodes.len(), failed.iter().map(|(_, why)| why.kind));
        let text = "no majority of servers has replied; nothing was deleted";
        let first = failed.first().map_or("", |(_, why)| &*why.text);
        Failure(code, format!("{text}; {first}"))
    })?;
    let mut deleted = 0;
    if !marks.is_empty() {
        if !yes && !confirmed() {
            let text = "nothing was deleted; `--yes` deletes without a question";
            return Err(Failure(exit_code::USAGE, text.to_owned()));
        }
        deleted = breaking.delete(&marks).await;
        found = servers.inspect(key).await;
    }
    let nodes = counted(deleted, "node");
    match deleted {
        _ if args.json => {
            output::line(&json!({ "deleted_on": deleted, "lock": json_of_lock(&found) }));
        }
        0 if marks.is_empty() => output::line(&"there is nothing to delete"),
        0 => output::line(&"the lock has changed hands, and was not deleted"),
        _ => output::line(&format_args!("deleted on {nodes}; now {found}")),
    }
    Ok(0)
}

fn confirmed() -> bool {
    let _ = write!(
        io::stderr(),
        "A holder that still works is cut off, but not at once: until then it and the next holder work at \
         the same time.\nDelete the lock? [y/N] "
    );
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}
