//! The connection over which the harness itself asks a server.

use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redis::{Client, Connection, ConnectionLike, FromRedisValue, RedisResult};

use crate::PATIENCE;

/// How the connections of the harness call themselves.
pub(super) const NAME: &str = "redlock-tests";

/// A connection that is made when needed.
pub(super) struct Link {
    client: Client,
    hidden: Vec<String>,
    connection: Mutex<Option<Connection>>,
}

/// What a command is called that is hidden from others.
pub(super) fn secret(command: &str) -> String {
    format!("SECRET{command}")
}

impl Link {
    pub(super) fn new(url: &str, hidden: &[String]) -> Self {
        Self {
            client: Client::open(url).expect("the URL of a server is valid"),
            hidden: hidden.to_vec(),
            connection: Mutex::new(None),
        }
    }

    pub(super) fn query<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let mut slot = self.slot();
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let mut command = self.command(words);
        command.arg(&words[1..]);
        let answer = command.query(&mut connection);
        // After a timeout the answer may still come, and must not be taken for that of the next.
        if connection.is_open() && !answer.as_ref().is_err_and(redis::RedisError::is_timeout) {
            *slot = Some(connection);
        }
        answer
    }

    /// A connection of its own, with the name and the patience of the harness.
    pub(super) fn connect(&self) -> RedisResult<Connection> {
        let mut connection = self.client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        self.command(&["CLIENT"])
            .arg(&["SETNAME", NAME])
            .query::<()>(&mut connection)?;
        Ok(connection)
    }

    fn command(&self, words: &[&str]) -> redis::Cmd {
        match self.hidden.iter().any(|hidden| hidden == words[0]) {
            true => redis::cmd(&secret(words[0])),
            false => redis::cmd(words[0]),
        }
    }

    /// Closes the connection, so that the next command makes one to the server as it is then.
    pub(super) fn disconnect(&self) {
        self.slot().take();
    }

    fn slot(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}
