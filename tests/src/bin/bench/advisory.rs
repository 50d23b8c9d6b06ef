//! Advisory locks of PostgreSQL: a connection for each worker, which the server makes wait.

use tokio_postgres::{Client, Error, NoTls, Statement};

pub(crate) struct Advisory {
    url: String,
}

pub(crate) struct Session {
    client: Client,
    lock: Statement,
    unlock: Statement,
}

impl Advisory {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
        }
    }

    pub(crate) async fn session(&self) -> Result<Session, Error> {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        // It ends with the client, and the server then frees what is locked.
        tokio::spawn(connection);
        let lock = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
        let unlock = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";
        Ok(Session {
            lock: client.prepare(lock).await?,
            unlock: client.prepare(unlock).await?,
            client,
        })
    }
}

impl Session {
    pub(crate) async fn lock(&self, key: &str) -> Result<(), Error> {
        self.client.execute(&self.lock, &[&key]).await.map(drop)
    }

    pub(crate) async fn unlock(&self, key: &str) -> Result<(), Error> {
        self.client.execute(&self.unlock, &[&key]).await.map(drop)
    }
}
