//! One connection to a Redis server: RESP3 where it can be had, scripts loaded.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, InfoDict, Pipeline, ProtocolVersion,
    PushInfo, PushKind, RedisError, Value, aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use redlock_protocol::Facts;
use tokio::sync::mpsc;

use crate::script;

/// Requests that a connection takes before it pushes back. The engine gives up a node that
/// answers nothing long before so many are waiting.
const BUFFERED_BATCHES: usize = 1_024;

/// A `run_id` has 40 characters; servers that only speak like Redis may have other names.
pub(super) const LONGEST_RUN_ID: usize = 128;

/// A connection that is ready for requests.
pub(super) struct Connection {
    pub(super) wire: MultiplexedConnection,
    pub(super) pushes: mpsc::UnboundedReceiver<PushInfo>,
    pub(super) facts: Facts,
}

impl Connection {
    /// Connects, signs in, and makes the server know the scripts. Has no time limit of its own:
    /// the protocol gives it up by dropping it.
    pub(super) async fn open(info: &ConnectionInfo) -> Result<Self, Arc<str>> {
        let opened = match open_once(info.clone()).await {
            // A proxy, or a server before Redis 6: without RESP3 a connection that dies while
            // it is idle is noticed only when it is used.
            Err(error) if is_unknown_protocol(&error) => {
                open_once(with_protocol(info.clone(), ProtocolVersion::RESP2)).await
            }
            opened => opened,
        };
        opened.map_err(|error| reason(&error))
    }
}

/// The same server, spoken to in another version of the protocol.
pub(crate) fn with_protocol(info: ConnectionInfo, protocol: ProtocolVersion) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_protocol(protocol);
    info.set_redis_settings(settings)
}

/// The keys that a push says have changed: `None` if it says nothing of the kind, and `None` for
/// a key if any may have.
pub(super) fn changed_keys(push: PushInfo) -> Option<Vec<Option<Arc<str>>>> {
    if push.kind != PushKind::Invalidate {
        return None;
    }
    let keys: Option<Vec<String>> = push
        .data
        .into_iter()
        .next()
        .and_then(|keys| redis::from_redis_value(keys).ok())
        .flatten();
    Some(match keys {
        Some(keys) => keys.into_iter().map(|key| Some(key.into())).collect(),
        None => vec![None],
    })
}

/// True for the push by which a connection says that it is gone.
pub(super) fn is_disconnection(push: &PushInfo) -> bool {
    push.kind == PushKind::Disconnection
}

/// What operators read about a failure, on one line. The driver's texts hold addresses but no passwords.
pub(super) fn reason(error: &RedisError) -> Arc<str> {
    let text = error.to_string();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").into()
}

async fn open_once(info: ConnectionInfo) -> Result<Connection, RedisError> {
    #[cfg(feature = "tls")]
    choose_cryptography();
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let (sender, pushes) = mpsc::unbounded_channel();
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(BUFFERED_BATCHES);
    if info.redis_settings().protocol().supports_resp3() {
        config = config.set_push_sender(sender);
    }
    let has_pushes = info.redis_settings().protocol().supports_resp3();
    let mut wire = Client::open(info)?
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    let facts = prepare(&mut wire, has_pushes).await?;
    Ok(Connection {
        wire,
        pushes,
        facts,
    })
}

/// Without a choice rustls panics where an application's other crates bring several providers or
/// none.
#[cfg(feature = "tls")]
fn choose_cryptography() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else has been faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// Loads the scripts, and asks who the server is and what it does with keys. A server that
/// refuses still serves: a script goes out with its text when it is missing, and what it does
/// not tell is not known.
async fn prepare(wire: &mut MultiplexedConnection, has_pushes: bool) -> Result<Facts, RedisError> {
    let mut pipeline = Pipeline::new();
    pipeline.cmd("INFO").arg("server");
    pipeline.cmd("INFO").arg("memory");
    pipeline.cmd("INFO").arg("replication");
    pipeline.cmd("CONFIG").arg("GET").arg("*append*");
    // Only keys that are read on purpose, and no news of what this connection does itself.
    pipeline
        .cmd("CLIENT")
        .arg(&["TRACKING", "ON", "OPTIN", "NOLOOP"]);
    for load in script::load_all() {
        pipeline.add_command(load);
    }
    let answers = wire
        .send_packed_commands(&pipeline, 0, pipeline.len())
        .await?;
    let mut answers = answers.into_iter();
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
fn info(answer: Option<Value>) -> Result<Option<InfoDict>, RedisError> {
    if let Some(Value::ServerError(error)) = &answer
        && is_passing(error.code())
    {
        return Err(error.clone().into());
    }
    Ok(answer.and_then(|info| redis::from_redis_value(info).ok()))
}

fn field(info: &Option<InfoDict>, name: &str) -> Option<String> {
    info.as_ref()?.get(name)
}

fn is_unknown_protocol(error: &RedisError) -> bool {
    error.code() == Some("NOPROTO")
        || error.kind() == ErrorKind::RESP3NotSupported
        || error
            .detail()
            .is_some_and(|detail| detail.contains("unknown command"))
}
