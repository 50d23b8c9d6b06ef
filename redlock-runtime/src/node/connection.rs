//! How a connection to a Redis server is made, with the scripts loaded.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

use redis::{InfoDict, PushKind, Value};
use redlock_protocol::{Facts, Why, WhyKind};

use super::{
    discovery::Master,
    endpoint::Endpoint,
    info::{info, run_id},
    reason::of_server,
    sign_in::sign_in,
    sockets::Seat,
    stream,
    wire::Wire,
};
use crate::{
    limitation::Limitation,
    script::{self, Word, words},
};

/// Connects, signs in, makes the server know the scripts, and asks what it tells of itself. Has no time limit of its own:
/// the protocol gives it up by dropping it.
pub(super) async fn open(endpoint: &Endpoint, seat: Option<&Seat>) -> Result<(Wire, Facts), Why> {
    let (mut wire, master) = enter(endpoint, seat).await?;
    let facts = prepare(&mut wire, endpoint).await?;
    let (Some(discovery), Some(master)) = (&endpoint.discovery, master) else {
        return Ok((wire, facts));
    };
    let hash = script::node_hash(endpoint.database);
    let marker = vec![Word::Text("HGET"), Word::Key(&hash), Word::Text("server")];
    let marker: Option<String> = wire.ask(marker).await?;
    // Last: what the server tells unasked from then on is not passed over.
    discovery.confirm(&mut wire, &master, endpoint).await?;
    let facts = discovery.check(&master, facts, marker.as_deref())?;
    wire.term = discovery.source.term(&master);
    Ok((wire, facts))
}

/// Connects, signs in, and goes to the database.
pub(super) async fn enter(
    endpoint: &Endpoint,
    seat: Option<&Seat>,
) -> Result<(Wire, Option<Master>), Why> {
    let (mut wire, master) = match &endpoint.discovery {
        Some(discovery) => {
            let (wire, master) = discovery.connect(endpoint, seat).await?;
            (wire, Some(master))
        }
        None => {
            let stream = stream::to(endpoint, &endpoint.address, seat).await?;
            let wire = sign_in(stream, &endpoint.address, &endpoint.login).await?;
            (wire, None)
        }
    };
    wire.tag = Arc::clone(&endpoint.tag);
    if endpoint.database != 0 {
        let database = endpoint.database.to_string();
        let selected = wire.ask::<Value>(words(["SELECT", &database])).await;
        selected.map_err(|why| match why.kind {
            WhyKind::Other => Why::new(WhyKind::Database, why.text),
            _ => why,
        })?;
    }
    Ok((wire, master))
}

/// The keys that a push says have changed, without the tag, and `None` for a key if any may have. Nothing if
/// it says nothing of the kind.
pub(super) fn changed_keys(kind: &PushKind, data: Vec<Value>, tag: &str) -> Vec<Option<Arc<str>>> {
    if *kind != PushKind::Invalidate {
        return Vec::new();
    }
    let keys: Option<Vec<String>> = data
        .into_iter()
        .next()
        .and_then(|keys| redis::from_redis_value(keys).ok())
        .flatten();
    match keys {
        Some(keys) => {
            let ours = keys.iter().filter_map(|key| key.strip_prefix(tag));
            ours.map(|key| Some(key.into())).collect()
        }
        None => vec![None],
    }
}

/// What to say of a connection on which a server replies without having been asked: then it most often
/// says why it is about to close it.
pub(super) fn unasked(reply: &Value) -> Why {
    match reply {
        Value::ServerError(error) => of_server(error),
        _ => "the server replied to no request".into(),
    }
}

/// Loads the scripts, and asks who the server is and what it does with keys. A server that
/// refuses still serves: a script goes out with its text when it is missing, and what it does
/// not tell is not known.
async fn prepare(wire: &mut Wire, endpoint: &Endpoint) -> Result<Facts, Why> {
    let mut commands = vec![
        words(["INFO", "server"]),
        words(["INFO", "memory"]),
        words(["INFO", "replication"]),
        words(["CONFIG", "GET", "*append*"]),
        // Only keys that are read on purpose, and no news of what this connection does itself.
        words(["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"]),
    ];
    commands.extend(script::load_all());
    let mut answers = wire.exchange(&commands).await?.into_iter();
    let server = section(answers.next())?;
    let memory = section(answers.next())?;
    let replication = section(answers.next())?;
    let keeps_all = keeps_all(answers.next());
    let tells_changes = matches!(answers.next(), Some(Value::Okay));
    let process = run_id(&server);
    let lacks = [
        (Limitation::RestartsUnseen, process.is_none()),
        (Limitation::DurabilityUnknown, keeps_all.is_none()),
        (Limitation::NoNotices, !tells_changes),
    ];
    let lacks = lacks.into_iter().filter(|(_, is_lacking)| *is_lacking);
    let lacks = lacks.map(|(limitation, _)| limitation).collect();
    *endpoint
        .lacking
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = lacks;
    Ok(Facts {
        server: process,
        uptime: server.get("uptime_in_seconds").map(Duration::from_secs),
        is_durable: keeps_all == Some(true) && was_never_a_replica(&replication),
        tells_changes,
        evicts: evicts(&memory),
    })
}

/// An error that a server answers to everything for a time: it says nothing of what the user may do.
pub(super) fn is_passing(code: &str) -> bool {
    matches!(code, "BUSY" | "LOADING" | "MASTERDOWN" | "NOAUTH")
}

/// True if nothing that the server has answered can be lost in a crash; `None` if it does not tell.
fn keeps_all(answer: Option<Value>) -> Option<bool> {
    let settings = redis::from_redis_value::<BTreeMap<String, String>>(answer?).ok()?;
    let is = |name: &str, value| settings.get(name).is_some_and(|set| set == value);
    let keeps = is("appendonly", "yes")
        && is("appendfsync", "always")
        && is("no-appendfsync-on-rewrite", "no");
    settings.contains_key("appendonly").then_some(keeps)
}

/// True if its data are its own: a replica has the marker of its master, but may have missed what
/// that one granted last. A second replication id is left over from such a master.
fn was_never_a_replica(replication: &InfoDict) -> bool {
    let field = |name| replication.get::<String>(name).unwrap_or_default();
    let inherited = field("master_replid2");
    let is_none = !inherited.is_empty() && inherited.bytes().all(|digit| digit == b'0');
    is_none && field("role") == "master"
}

/// The policy by which it drops keys when memory runs out.
fn evicts(memory: &InfoDict) -> Option<Arc<str>> {
    let field = |name| memory.get::<String>(name);
    let policy = field("maxmemory_policy").filter(|policy| policy != "noeviction")?;
    let is_limited = field("maxmemory").is_some_and(|limit| limit != "0");
    is_limited.then(|| policy.into())
}

/// A section of `INFO`; nothing where it is not allowed.
fn section(answer: Option<Value>) -> Result<InfoDict, Why> {
    match answer {
        Some(Value::ServerError(error)) if is_passing(error.code()) => Err(of_server(&error)),
        answer => {
            let told = answer.as_ref().and_then(info);
            Ok(told.unwrap_or_else(|| InfoDict::new("")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
        thread,
    };

    use super::*;

    /// Why a server gives no connection that answers every command with this line.
    fn refusal_of(line: &'static str, url: &str) -> Arc<str> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let url = url.replace("HOST", &address.to_string());
        thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                let mut ours = stream.try_clone().unwrap();
                let is_command = |word: &String| word.starts_with('*');
                let words = BufReader::new(stream).lines().map_while(Result::ok);
                for _ in words.filter(is_command) {
                    let _ = ours.write_all(line.as_bytes());
                }
            }
        });
        let info = redis::IntoConnectionInfo::into_connection_info(url).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let opened = runtime.unwrap().block_on(open(&info.into(), None));
        opened.err().expect("it does not let us in").text
    }

    #[test]
    fn no_password_is_in_what_a_server_says_that_repeats_it() {
        // The beginning of a long one is repeated.
        let long = "secret".repeat(40);
        for (password, line) in [
            (
                &long[..],
                "-ERR unknown command 'HELLO', with args: '3' 'AUTH' 'secretsecr'\r\n",
            ),
            (
                "secret",
                "-ERR unknown command `HELLO`, with args: `3`, `secret`, \r\n",
            ),
            ("secret", "-ERR not this: secret\r\n"),
        ] {
            let reason = refusal_of(line, &format!("redis://:{password}@HOST"));
            assert!(!reason.contains("secret"), "{reason}");
        }
        let line = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
        let reason = refusal_of(line, "redis://:password@HOST");
        assert!(reason.contains("WRONGPASS"), "{reason}");
        let reason = refusal_of(line, "redis://:secret@HOST");
        assert!(reason.contains("invalid username"), "{reason}");
    }

    #[test]
    fn a_server_that_is_too_old_is_refused_in_words_that_help() {
        for (line, says) in [
            ("-ERR unknown command 'HELLO'\r\n", "has no RESP3"),
            (
                "-NOPROTO sorry, this protocol version is not supported\r\n",
                "has no RESP3",
            ),
            (
                "%1\r\n$7\r\nversion\r\n$6\r\n6.0.16\r\n",
                "is of version 6.0.16",
            ),
        ] {
            let reason = refusal_of(line, "redis://HOST");
            assert!(
                reason.contains(says) && reason.contains("Redis 6.2"),
                "{reason}"
            );
        }
    }
}
