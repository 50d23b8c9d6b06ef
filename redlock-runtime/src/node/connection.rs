//! One connection to a Redis server: RESP3 where it can be had, scripts loaded.

use std::{collections::BTreeMap, fmt::Display, sync::Arc, time::Duration};

use redis::{InfoDict, PushKind, ServerError, Value};
use redlock_protocol::Facts;

use super::{
    endpoint::{Credentials, Endpoint},
    reason::reason,
    stream::{self, Stream},
    wire::Wire,
};
use crate::script::{self, Command, words};

/// A `run_id` has 40 characters; servers that only speak like Redis may have other names.
pub(super) const LONGEST_RUN_ID: usize = 128;

/// A connection that is ready for requests, and what the server tells of itself.
pub(super) struct Connection {
    pub(super) wire: Wire,
    pub(super) facts: Facts,
}

/// Why there is no connection, for operators. Holds addresses but no passwords.
enum Failure {
    /// A proxy, or a server before Redis 6.
    WithoutResp3,
    Other(Arc<str>),
}

impl Connection {
    /// Connects, signs in, and makes the server know the scripts. Has no time limit of its own:
    /// the protocol gives it up by dropping it.
    pub(super) async fn open(endpoint: &Endpoint) -> Result<Self, Arc<str>> {
        let stream = connect(endpoint).await?;
        // After the connection, so that a node that is down costs its provider nothing.
        let credentials = endpoint.login.credentials(&endpoint.address).await?;
        let credentials = credentials.as_ref();
        let database = endpoint.database;
        match Self::open_on(stream, database, credentials, endpoint.has_resp3).await {
            Ok(connection) => Ok(connection),
            Err(Failure::Other(reason)) => Err(reason),
            // Then a connection that dies while it is idle is noticed only when it is used.
            Err(Failure::WithoutResp3) => {
                let stream = connect(endpoint).await?;
                let opened = Self::open_on(stream, database, credentials, false).await;
                opened.map_err(|failure| match failure {
                    Failure::WithoutResp3 => "the server knows no RESP3".into(),
                    Failure::Other(reason) => reason,
                })
            }
        }
    }

    async fn open_on(
        stream: Box<dyn Stream>,
        database: i64,
        credentials: Option<&Credentials>,
        has_resp3: bool,
    ) -> Result<Self, Failure> {
        let mut wire = enter(stream, database, credentials, has_resp3).await?;
        let facts = prepare(&mut wire, has_resp3).await?;
        Ok(Self { wire, facts })
    }
}

/// A connection for a few questions of an operator. By RESP2, which all servers have: there is nothing
/// that it could be told unasked.
pub(super) async fn open_plain(endpoint: &Endpoint) -> Result<Wire, Arc<str>> {
    let stream = connect(endpoint).await?;
    let credentials = endpoint.login.credentials(&endpoint.address).await?;
    let entered = enter(stream, endpoint.database, credentials.as_ref(), false).await;
    entered.map_err(|failure| match failure {
        Failure::WithoutResp3 => "the server knows no RESP2".into(),
        Failure::Other(reason) => reason,
    })
}

/// Signs in, and goes to the database.
async fn enter(
    stream: Box<dyn Stream>,
    database: i64,
    credentials: Option<&Credentials>,
    has_resp3: bool,
) -> Result<Wire, Failure> {
    let mut wire = Wire::new(stream);
    sign_in(&mut wire, credentials, has_resp3).await?;
    if database != 0 {
        let database = database.to_string();
        if let Some(error) = refusal(&mut wire, words(["SELECT", &database])).await? {
            return Err(Failure::of(&error));
        }
    }
    Ok(wire)
}

async fn connect(endpoint: &Endpoint) -> Result<Box<dyn Stream>, Arc<str>> {
    let stream = stream::connect(endpoint).await;
    stream.map_err(|error| reason(&error))
}

impl Failure {
    fn of(error: &dyn Display) -> Self {
        Self::Other(reason(error))
    }
}

impl From<Arc<str>> for Failure {
    fn from(reason: Arc<str>) -> Self {
        Self::Other(reason)
    }
}

/// The keys that a push says have changed, and `None` for a key if any may have. Nothing if it says
/// nothing of the kind.
pub(super) fn changed_keys(kind: &PushKind, data: Vec<Value>) -> Vec<Option<Arc<str>>> {
    if *kind != PushKind::Invalidate {
        return Vec::new();
    }
    let keys: Option<Vec<String>> = data
        .into_iter()
        .next()
        .and_then(|keys| redis::from_redis_value(keys).ok())
        .flatten();
    match keys {
        Some(keys) => keys.into_iter().map(|key| Some(key.into())).collect(),
        None => vec![None],
    }
}

/// What to say of a connection on which a server replies without having been asked: then it most often
/// says why it is about to close it.
pub(super) fn unasked(reply: &Value) -> Arc<str> {
    match reply {
        Value::ServerError(error) => reason(error),
        _ => "the server replied to no request".into(),
    }
}

/// Says who we are.
async fn sign_in(
    wire: &mut Wire,
    credentials: Option<&Credentials>,
    has_resp3: bool,
) -> Result<(), Failure> {
    if has_resp3 {
        let hello = match credentials {
            Some(credentials) => {
                let user = credentials.user().unwrap_or("default");
                words(["HELLO", "3", "AUTH", user, credentials.password()])
            }
            None => words(["HELLO", "3"]),
        };
        if let Some(error) = refusal(wire, hello).await? {
            return Err(match is_unknown_protocol(&error) {
                true => Failure::WithoutResp3,
                false => Failure::of(&without_secrets(&error, credentials)),
            });
        }
    } else if let Some(credentials) = credentials {
        let password = credentials.password();
        let mut error = match credentials.user() {
            Some(user) => refusal(wire, words(["AUTH", user, password])).await?,
            None => refusal(wire, words(["AUTH", password])).await?,
        };
        // A server before Redis 6 knows no users.
        if error.as_ref().is_some_and(is_wrong_number_of_arguments) {
            error = refusal(wire, words(["AUTH", password])).await?;
        }
        if let Some(error) = error {
            let error = without_secrets(&error, Some(credentials));
            return Err(Failure::of(&format!("AuthenticationFailed: {error}")));
        }
    }
    Ok(())
}

/// What a server says that does not let us sign in. One that does not know a command repeats the
/// beginning of its arguments, and the password is among them.
fn without_secrets(error: &ServerError, credentials: Option<&Credentials>) -> String {
    let text = error.to_string();
    let password = credentials.map(Credentials::password);
    let is_repeated = password.is_some_and(|it| !it.is_empty() && text.contains(it));
    if is_repeated || text.to_ascii_lowercase().contains("unknown command") {
        return "the server does not know how to sign in".to_owned();
    }
    text
}

/// Sends one command; the error, if that is the reply.
async fn refusal(wire: &mut Wire, command: Command<'_>) -> Result<Option<ServerError>, Arc<str>> {
    let reply = wire.exchange(&[command]).await?.pop();
    Ok(match reply {
        Some(Value::ServerError(error)) => Some(error),
        _ => None,
    })
}

/// Loads the scripts, and asks who the server is and what it does with keys. A server that
/// refuses still serves: a script goes out with its text when it is missing, and what it does
/// not tell is not known.
async fn prepare(wire: &mut Wire, has_pushes: bool) -> Result<Facts, Failure> {
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
    let server = info(answers.next())?;
    let memory = info(answers.next())?;
    let replication = info(answers.next())?;
    let uptime = field(&server, "uptime_in_seconds").and_then(|seconds| seconds.parse().ok());
    let keeps_all = keeps_all(answers.next());
    Ok(Facts {
        server: field(&server, "run_id").and_then(name),
        uptime: uptime.map(Duration::from_secs),
        is_durable: keeps_all && was_never_a_replica(&replication),
        tells_changes: matches!(answers.next(), Some(Value::Okay)) && has_pushes,
        evicts: field(&memory, "maxmemory_policy")
            .filter(|policy| policy != "noeviction")
            .filter(|_| field(&memory, "maxmemory").is_some_and(|limit| limit != "0"))
            .map(Arc::from),
    })
}

/// The server's process from the answer to `INFO server`, if that tells it; `None` if it is no such
/// answer.
pub(super) fn run_id(answer: &Value) -> Option<Option<Arc<str>>> {
    let info = match answer {
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => {
            redis::from_redis_value_ref(answer).ok()?
        }
        _ => return None,
    };
    Some(field(&Some(info), "run_id").and_then(name))
}

/// An error that a server answers to everything for a time: it says nothing of what the user may do.
pub(super) fn is_passing(code: &str) -> bool {
    matches!(code, "BUSY" | "LOADING" | "MASTERDOWN" | "NOAUTH")
}

/// What cannot be a process's name is not known.
fn name(run_id: String) -> Option<Arc<str>> {
    (1..=LONGEST_RUN_ID)
        .contains(&run_id.len())
        .then(|| run_id.into())
}

/// True if nothing that the server has answered can be lost in a crash.
fn keeps_all(answer: Option<Value>) -> bool {
    let settings: BTreeMap<String, String> = answer
        .and_then(|settings| redis::from_redis_value(settings).ok())
        .unwrap_or_default();
    let is = |name: &str, value| settings.get(name).is_some_and(|set| set == value);
    is("appendonly", "yes") && is("appendfsync", "always") && is("no-appendfsync-on-rewrite", "no")
}

/// True if its data are its own: a replica has the marker of its master, but may have missed what
/// that one granted last. A second replication id is left over from such a master.
fn was_never_a_replica(replication: &Option<InfoDict>) -> bool {
    let is_master = field(replication, "role").is_some_and(|role| role == "master");
    let inherited = field(replication, "master_replid2");
    let is_none = |id: String| !id.is_empty() && id.bytes().all(|digit| digit == b'0');
    is_master && inherited.is_some_and(is_none)
}

/// A section of `INFO`; `None` where it is not allowed.
fn info(answer: Option<Value>) -> Result<Option<InfoDict>, Failure> {
    if let Some(Value::ServerError(error)) = &answer
        && is_passing(error.code())
    {
        return Err(Failure::of(error));
    }
    Ok(answer.and_then(|info| redis::from_redis_value(info).ok()))
}

fn field(info: &Option<InfoDict>, name: &str) -> Option<String> {
    info.as_ref()?.get(name)
}

fn is_unknown_protocol(error: &ServerError) -> bool {
    let says = |text| error.details().is_some_and(|detail| detail.contains(text));
    error.code() == "NOPROTO" || says("unknown command")
}

fn is_wrong_number_of_arguments(error: &ServerError) -> bool {
    let detail = error.details().unwrap_or_default();
    detail.contains("wrong number of arguments")
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
        let opened = runtime.unwrap().block_on(Connection::open(&info.into()));
        opened.err().expect("it does not let us in")
    }

    #[test]
    fn no_password_is_in_what_a_server_says_that_repeats_it() {
        // The beginning of a long one is repeated.
        let long = "secret".repeat(40);
        for protocol in ["resp2", "resp3"] {
            for (password, line) in [
                (
                    &long[..],
                    "-ERR unknown command 'AUTH', with args: 'secretsecr'\r\n",
                ),
                (
                    "secret",
                    "-ERR unknown command `HELLO`, with args: `3`, `secret`, \r\n",
                ),
                ("secret", "-ERR not this: secret\r\n"),
            ] {
                let url = format!("redis://:{password}@HOST?protocol={protocol}");
                let reason = refusal_of(line, &url);
                assert!(!reason.contains("secret"), "{reason}");
            }
        }
        let url = "redis://:secret@HOST?protocol=resp2";
        let reason = refusal_of("-WRONGPASS invalid username-password pair\r\n", url);
        assert!(reason.contains("invalid username"), "{reason}");
    }
}
