//! How a connection begins: who the client is, and which protocol is spoken.

use std::{fmt::Display, sync::Arc};

use redis::{ServerError, Value};

use super::{login::Credentials, reason::reason, wire::Wire};
use crate::script::{Command, words};

/// Why there is no connection, for operators. Holds addresses but no passwords.
pub(super) enum Failure {
    /// A proxy, or a server before Redis 6.
    WithoutResp3,
    Other(Arc<str>),
}

impl Failure {
    pub(super) fn of(error: &dyn Display) -> Self {
        Self::Other(reason(error))
    }
}

impl From<Arc<str>> for Failure {
    fn from(reason: Arc<str>) -> Self {
        Self::Other(reason)
    }
}

/// Says who we are to a server with which nothing but commands and replies is exchanged.
pub(super) async fn sign_in_plainly(
    wire: &mut Wire,
    credentials: Option<&Credentials>,
) -> Result<(), Arc<str>> {
    let signed_in = sign_in(wire, credentials, false).await;
    signed_in.map_err(|failure| match failure {
        Failure::Other(reason) => reason,
        Failure::WithoutResp3 => "the server does not know how to sign in".into(),
    })
}

/// Says who we are.
pub(super) async fn sign_in(
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
            // Valkey 9 does not even say what it does not know to those who have not signed in; `HELLO` with
            // a password is never refused so.
            let is_hidden = credentials.is_some() && error.code() == "NOAUTH";
            return Err(match is_hidden || is_unknown_protocol(&error) {
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
    } else if let Some(error) = refusal(wire, words(["PING"])).await?
        && error.code() == "NOAUTH"
    {
        // Or else it closes the connection at the first command that is long, and does not say why.
        return Err(Failure::of(&error));
    }
    Ok(())
}

/// What a server says that does not let us sign in. One that does not know a command repeats the
/// beginning of its arguments, and the password is among them.
fn without_secrets(error: &ServerError, credentials: Option<&Credentials>) -> String {
    let text = error.to_string();
    let password = credentials.map(Credentials::password);
    let is_repeated = password.is_some_and(|it| !it.is_empty() && text.contains(it));
    // Their own words have some passwords in them: "password", and short ones.
    if is_repeated && error.code() == "WRONGPASS" {
        return "WRONGPASS: the server knows no such user with this password".to_owned();
    }
    if is_repeated || text.to_ascii_lowercase().contains("unknown command") {
        return "the server does not know how to sign in".to_owned();
    }
    text
}

/// Sends one command; the error, if that is the reply.
pub(super) async fn refusal(
    wire: &mut Wire,
    command: Command<'_>,
) -> Result<Option<ServerError>, Arc<str>> {
    let reply = wire.exchange(&[command]).await?.pop();
    Ok(match reply {
        Some(Value::ServerError(error)) => Some(error),
        _ => None,
    })
}

fn is_unknown_protocol(error: &ServerError) -> bool {
    let says = |text| error.details().is_some_and(|detail| detail.contains(text));
    error.code() == "NOPROTO" || says("unknown command")
}

fn is_wrong_number_of_arguments(error: &ServerError) -> bool {
    let detail = error.details().unwrap_or_default();
    detail.contains("wrong number of arguments")
}
