//! How a connection begins: who the client is, and that the server speaks RESP3.

use std::collections::BTreeMap;

use redis::{ConnectionAddr, ServerError, Value};
use redlock_protocol::{Rejection, Why, WhyKind};

use super::{
    carrier::Stream,
    login::{Credentials, Login},
    reason::{of_server, reason, rejection},
    wire::Wire,
};
use crate::script::words;

/// Of the oldest servers that have all commands of the scripts.
const OLDEST: (u32, u32) = (6, 2);

/// What a proxy or a server before Redis 6 cannot do.
const WITHOUT_RESP3: &str =
    "the server has no RESP3; Redis 6.2, Valkey or a later version is needed";

/// Says on a new connection who we are. Fails with a text that has no password in it.
pub(super) async fn sign_in(
    stream: Box<dyn Stream>,
    address: &ConnectionAddr,
    login: &Login,
) -> Result<Wire, Why> {
    // After the connection, so that a node that is down costs its provider nothing.
    let credentials = login.credentials(address).await?;
    let credentials = credentials.as_ref();
    let mut wire = Wire::new(stream);
    let hello = match credentials {
        Some(credentials) => {
            let user = credentials.user.as_deref().unwrap_or("default");
            words(["HELLO", "3", "AUTH", user, &credentials.password])
        }
        None => words(["HELLO", "3"]),
    };
    match wire.exchange(&[hello]).await?.pop() {
        Some(Value::ServerError(error)) => {
            // Valkey 9 does not even say what it does not know to those who have not signed in; `HELLO` with
            // a password is never refused so.
            let is_hidden = credentials.is_some() && error.code() == "NOAUTH";
            let is_unknown = rejection(&error) == Rejection::UnknownCommand;
            Err(match is_hidden || is_unknown || error.code() == "NOPROTO" {
                true => Why::new(WhyKind::TooOld, WITHOUT_RESP3),
                false => Why {
                    text: reason(&without_secrets(&error, credentials)),
                    ..of_server(&error)
                },
            })
        }
        reply => {
            check_version(reply.unwrap_or(Value::Nil))?;
            Ok(wire)
        }
    }
}

/// A server that does not tell its version is taken as it is.
fn check_version(hello: Value) -> Result<(), Why> {
    let fields = redis::from_redis_value::<BTreeMap<String, Value>>(hello).unwrap_or_default();
    let version = fields.get("version");
    let version = version.and_then(|it| redis::from_redis_value_ref::<String>(it).ok());
    let number = |version: &String| {
        let mut parts = version.split('.').map_while(|part| part.parse().ok());
        Some((parts.next()?, parts.next()?))
    };
    match version.as_ref().and_then(number) {
        Some(is) if is < OLDEST => {
            let version = version.unwrap_or_default();
            let text = format!(
                "the server is of version {version}; Redis 6.2, Valkey or a later version is needed"
            );
            Err(Why::new(WhyKind::TooOld, reason(&text)))
        }
        _ => Ok(()),
    }
}

/// What a server says that does not let us sign in. Some repeat what they were sent, and the password is a
/// part of that.
fn without_secrets(error: &ServerError, credentials: Option<&Credentials>) -> String {
    let text = error.to_string();
    let password = credentials.map(|it| &*it.password);
    let is_repeated = password.is_some_and(|it| !it.is_empty() && text.contains(it));
    // Their own words have some passwords in them: "password", and short ones.
    match is_repeated {
        true if error.code() == "WRONGPASS" => {
            "WRONGPASS: the server knows no such user with this password".to_owned()
        }
        true => "the server does not know how to sign in".to_owned(),
        false => text,
    }
}
