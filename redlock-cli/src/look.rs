//! Looking at servers and locks, and freeing a lock.

use std::io::{self, BufRead, IsTerminal, Write};

use redlock_runtime::{
    __tool::{Servers, Value},
    ClientProcess, HolderKind, Inspection,
};
use serde_json::{Value as Json, json};

use crate::{
    args::ServerArgs,
    output::{self, fail},
    reply::{error, words},
    survey::{Surveyed, Vote, survey},
};

/// A holder may put its key back on a server until it learns that the majority is gone.
const MOST_DELETIONS: usize = 5;

/// Deletes a key if it has this value, or is shared if the value is `shared`, or has another type if it is
/// `other`. So a client that gets the lock in the meantime keeps it.
const DELETE: &str = "\
local value = redis.pcall('GET', KEYS[1])
local is_it = value == ARGV[2]
if ARGV[1] == 'shared' then
  is_it = type(value) == 'string' and string.sub(value, 1, 7) == 'shared '
elseif ARGV[1] == 'foreign' then
  is_it = is_it or type(value) == 'table' or string.sub(value or '', 1, #ARGV[2]) == ARGV[2]
end
return is_it and redis.call('DEL', KEYS[1]) or 0";

pub(crate) async fn status(args: &ServerArgs) -> u8 {
    let servers = match args.open() {
        Ok(servers) => servers,
        Err(error) => return fail(output::CONFIG, &error),
    };
    let surveyed = survey(&servers).await;
    let votes = |one: &&Surveyed| {
        one.told
            .as_ref()
            .is_ok_and(|told| told.vote() == Vote::Votes)
    };
    let (voters, count) = (surveyed.iter().filter(votes).count(), surveyed.len());
    let has_majority = 2 * voters > count;
    if args.json {
        let nodes: Vec<Json> = surveyed.iter().map(json_of).collect();
        let majority = has_majority;
        println!(
            "{}",
            json!({ "nodes": nodes, "voters": voters, "majority": majority })
        );
    } else {
        for Surveyed { address, told } in &surveyed {
            match told {
                Ok(told) => {
                    let version = told.version().unwrap_or("unknown");
                    let up = told
                        .uptime()
                        .map(|up| format!(", up {}", rounded(up.as_secs())));
                    let up = up.unwrap_or_default();
                    println!("{address}  {}  (version {version}{up})", told.vote().text());
                }
                Err(reason) => println!("{address}  is unreachable ({reason})"),
            }
        }
        println!("{voters} of {count} nodes vote");
    }
    if has_majority { 0 } else { output::UNAVAILABLE }
}

fn json_of(one: &Surveyed) -> Json {
    match &one.told {
        Ok(told) => json!({
            "address": one.address,
            "state": told.vote().name(),
            "text": told.vote().text(),
            "version": told.version(),
            "uptime_seconds": told.uptime().map(|up| up.as_secs()),
        }),
        Err(reason) => json!({
            "address": one.address, "state": "unreachable", "text": **reason,
        }),
    }
}

/// `3d`, `5h`, `7min`, `12s`
pub(crate) fn rounded(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}min", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

pub(crate) async fn inspect(args: &ServerArgs, key: &str) -> u8 {
    let servers = match args.open() {
        Ok(servers) => servers,
        Err(error) => return fail(output::CONFIG, &error),
    };
    let found = servers.inspect(&args.key(key)).await;
    match args.json {
        true => println!("{}", json_of_lock(&found)),
        false => println!("{found}"),
    }
    if knows_enough(&found) {
        0
    } else {
        output::UNAVAILABLE
    }
}

/// A majority has replied.
fn knows_enough(found: &Inspection) -> bool {
    let nodes = found.nodes();
    let replied = nodes.iter().filter(|node| node.problem().is_none());
    2 * replied.count() > nodes.len()
}

fn json_of_lock(found: &Inspection) -> Json {
    let millis = |time: std::time::Duration| time.as_millis() as u64;
    let holder = |holder: &redlock_runtime::Holder| {
        let nodes = holder.nodes().map(|(address, remaining)| {
            json!({ "address": address, "remaining_ms": remaining.map(millis) })
        });
        json!({
            "kind": kind(holder.kind()),
            "value": holder.value(),
            "permit": holder.permit(),
            "process": holder.process().map(json_of_process),
            "nodes": nodes.collect::<Vec<_>>(),
            "majority": holder.has_majority(),
            "remaining_ms": holder.remaining().map(millis),
        })
    };
    let waiter = |waiter: &redlock_runtime::RemoteWaiter| {
        json!({
            "id": waiter.id(),
            "process": waiter.process().map(json_of_process),
            "waited_ms": waiter.waited().map(millis),
        })
    };
    let node = |node: &redlock_runtime::InspectedNode| {
        json!({
            "address": node.address(),
            "problem": node.problem(),
            "hides_clients": node.hides_clients(),
        })
    };
    json!({
        "key": found.key(),
        "held": found.is_held(),
        "holders": found.holders().iter().map(holder).collect::<Vec<_>>(),
        "waiters": found.waiters().iter().map(waiter).collect::<Vec<_>>(),
        "nodes": found.nodes().iter().map(node).collect::<Vec<_>>(),
    })
}

fn json_of_process(process: &ClientProcess) -> Json {
    json!({
        "id": process.id(),
        "service": process.service(),
        "host": process.host(),
        "pid": process.pid(),
        "address": process.address(),
    })
}

const fn kind(kind: HolderKind) -> &'static str {
    match kind {
        HolderKind::Exclusive => "exclusive",
        HolderKind::Shared => "shared",
        _ => "foreign",
    }
}

pub(crate) async fn break_key(args: &ServerArgs, key: &str, yes: bool) -> u8 {
    let servers = match args.open() {
        Ok(servers) => servers,
        Err(error) => return fail(output::CONFIG, &error),
    };
    let key = args.key(key);
    if key.starts_with("__redlock:") {
        return fail(
            output::USAGE,
            &"this is no lock, but what the library keeps on its nodes",
        );
    }
    let mut found = servers.inspect(&key).await;
    if !args.json {
        println!("{found}");
    }
    if !knows_enough(&found) {
        return fail(
            output::UNAVAILABLE,
            &"no majority of servers has replied; nothing was deleted",
        );
    }
    if own_value(&found).is_none() {
        return finish(args, &found, 0, "nothing to delete");
    }
    if !yes && !confirmed() {
        return fail(
            output::USAGE,
            &"nothing was deleted; `--yes` deletes without a question",
        );
    }
    let mut deleted = 0;
    for _ in 0..MOST_DELETIONS {
        let Some((kind, value)) = own_value(&found) else {
            break;
        };
        match delete(&servers, &key, kind, &value).await {
            Ok(count) => deleted = deleted.max(count),
            Err(reason) => return fail(output::CONFIG, &reason),
        }
        let now = servers.inspect(&key).await;
        // Another client's, or a holder that has not learned of it yet.
        let is_same = own_value(&now).as_ref() == Some(&(kind, value));
        found = now;
        if !is_same {
            break;
        }
    }
    if deleted == 0 {
        return finish(
            args,
            &found,
            deleted,
            "the lock has changed hands; nothing was deleted",
        );
    }
    finish(args, &found, deleted, "deleted")
}

fn finish(args: &ServerArgs, found: &Inspection, deleted: usize, text: &str) -> u8 {
    match args.json {
        true => println!(
            "{}",
            json!({ "deleted_on": deleted, "lock": json_of_lock(found) })
        ),
        false if deleted > 0 => println!("{text} on {deleted} nodes; now {found}"),
        false => println!("{text}"),
    }
    0
}

/// The value under the key itself, and how to compare it; of several the one on most nodes.
fn own_value(found: &Inspection) -> Option<(&'static str, String)> {
    let mut own = found
        .holders()
        .iter()
        .filter(|holder| holder.permit().is_none());
    let holder = own.next()?;
    Some(match holder.kind() {
        HolderKind::Shared => ("shared", String::new()),
        other => (kind(other), holder.value().to_owned()),
    })
}

/// On how many servers it was.
async fn delete(servers: &Servers, key: &str, kind: &str, value: &str) -> Result<usize, String> {
    let command = words(&["EVAL", DELETE, "1", key, kind, value]);
    let replies = servers.ask(|_| vec![command.clone()]).await;
    let replies: Vec<Value> = replies.into_iter().flatten().flatten().collect();
    let is_deleted = |reply: &&Value| matches!(reply, Value::Int(count) if *count > 0);
    let deleted = replies.iter().filter(is_deleted).count();
    match replies.iter().find_map(error) {
        Some(error) if deleted == 0 => Err(error),
        _ => Ok(deleted),
    }
}

fn confirmed() -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    eprint!(
        "A holder that still works is cut off, but not at once: until then it and the next holder work at \
         the same time.\nDelete the lock? [y/N] "
    );
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    matches!(answer.trim(), "y" | "Y" | "yes")
}
