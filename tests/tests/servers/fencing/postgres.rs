//! The guard for data in PostgreSQL.

use std::time::Duration;

use redlock_runtime::fence::postgres::{GUARD, INSTALL, STALE};
use redlock_tests::Postgres;
use tokio::{pin, select, task::yield_now, time::timeout};
use tokio_postgres::{Client, Error, IsolationLevel, NoTls, Transaction, error::SqlState};

use super::{
    PATIENCE,
    stores::{self, STOCK, Session, Stale, Store, keeps_late_holders_out},
};

keeps_late_holders_out!(Database::new().await);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn counts_what_it_acknowledged_at_any_isolation_level() {
    let mut database = Database::new().await;
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let session = database.session().await;
        session
            .client
            .batch_execute("UPDATE stock SET units = 0")
            .await
            .unwrap();
        database.level = level;
        stores::counts_what_it_acknowledged(&database).await;
    }
}

/// Between the guard and the end of the transaction there is nobody else.
#[tokio::test]
async fn the_guard_is_held_to_the_end_of_the_transaction() {
    let database = Database::new().await;
    let (mut first, mut second) = (database.session().await, database.session().await);
    let observer = database.session().await;

    let open = guarded(&mut first.client, IsolationLevel::ReadCommitted, 1)
        .await
        .unwrap();
    let waiting = second.read(2);
    pin!(waiting);
    select! {
        read = &mut waiting => panic!("the guard of another transaction did not wait: {read:?}"),
        () = observer.sees_somebody_wait() => {}
    }
    open.execute("UPDATE stock SET units = 41", &[])
        .await
        .unwrap();
    open.commit().await.unwrap();
    assert_eq!(waiting.await, Ok(41));
}

#[tokio::test]
async fn a_guard_that_waited_for_a_newer_one_is_refused() {
    let database = Database::new().await;
    let (mut first, mut second) = (database.session().await, database.session().await);
    let observer = database.session().await;

    let open = guarded(&mut first.client, IsolationLevel::ReadCommitted, 2)
        .await
        .unwrap();
    let waiting = second.write(1, 13);
    pin!(waiting);
    select! {
        write = &mut waiting => panic!("the guard of another transaction did not wait: {write:?}"),
        () = observer.sees_somebody_wait() => {}
    }
    open.commit().await.unwrap();
    assert_eq!(waiting.await, Err(Stale));
}

#[tokio::test]
async fn can_be_installed_again() {
    let database = Database::new().await;
    let mut session = database.session().await;
    assert_eq!(session.write(7, 1).await, Ok(()));
    session.client.batch_execute(INSTALL).await.unwrap();
    assert_eq!(session.write(6, 2).await, Err(Stale));
}

/// As two services do that migrate when they start, of which one is in the middle of it.
#[tokio::test]
async fn can_be_installed_by_two_at_once() {
    let database = Database::new().await;
    let (mut first, second) = (database.session().await, database.session().await);
    let observer = database.session().await;
    for statement in [
        "SELECT 1",
        "DROP FUNCTION redlock_guard; DROP TABLE redlock_fence",
    ] {
        first.client.batch_execute(statement).await.unwrap();
        let open = first.client.transaction().await.unwrap();
        open.execute(INSTALL, &[]).await.unwrap();
        let waiting = second.client.batch_execute(INSTALL);
        pin!(waiting);
        select! {
            done = &mut waiting => panic!("one did not wait for the other: {done:?}"),
            () = observer.sees_somebody_wait() => {}
        }
        open.commit().await.unwrap();
        waiting.await.unwrap();
    }
}

/// What the guide's page on testing says of databases.
#[tokio::test]
async fn a_paused_clock_runs_on_while_a_database_works() {
    let database = Database::new().await;
    let client = database.session().await.client;
    let query = || {
        timeout(
            Duration::from_secs(30),
            client.execute("SELECT pg_sleep(0.2)", &[]),
        )
    };
    assert!(query().await.is_ok());
    tokio::time::pause();
    assert!(query().await.is_err());
}

#[tokio::test]
async fn resources_are_apart_and_nothing_is_no_token() {
    let database = Database::new().await;
    let client = database.session().await.client;
    client.execute(GUARD, &[&"a", &9_i64]).await.unwrap();
    client.execute(GUARD, &[&"b", &1_i64]).await.unwrap();
    assert!(client.execute(GUARD, &[&"a", &8_i64]).await.is_err());
    assert!(client.execute(GUARD, &[&"a", &None::<i64>]).await.is_err());
    assert!(
        client
            .execute(GUARD, &[&None::<&str>, &9_i64])
            .await
            .is_err()
    );
}

struct Database {
    server: Postgres,
    level: IsolationLevel,
}

impl Database {
    async fn new() -> Self {
        let database = Self {
            server: Postgres::start(),
            level: IsolationLevel::ReadCommitted,
        };
        let client = database.session().await.client;
        client.batch_execute(INSTALL).await.unwrap();
        client
            .batch_execute("CREATE TABLE stock (units bigint); INSERT INTO stock VALUES (0)")
            .await
            .unwrap();
        database
    }
}

impl Store for Database {
    type Session = PostgresSession;

    async fn session(&self) -> PostgresSession {
        let (client, connection) = tokio_postgres::connect(&self.server.url(), NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        PostgresSession {
            client,
            level: self.level,
        }
    }
}

struct PostgresSession {
    client: Client,
    level: IsolationLevel,
}

impl PostgresSession {
    async fn sees_somebody_wait(&self) {
        const WAITING: &str = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        let seen = async {
            while self.number(WAITING).await == 0 {
                yield_now().await;
            }
        };
        timeout(PATIENCE, seen).await.expect("somebody waits");
    }

    async fn number(&self, query: &str) -> i64 {
        self.client.query_one(query, &[]).await.unwrap().get(0)
    }

    async fn try_read(&mut self, token: u64) -> Result<i64, Error> {
        let transaction = guarded(&mut self.client, self.level, token).await?;
        let row = transaction
            .query_one("SELECT units FROM stock", &[])
            .await?;
        transaction.commit().await?;
        Ok(row.get(0))
    }

    async fn try_write(&mut self, token: u64, value: i64) -> Result<(), Error> {
        let transaction = guarded(&mut self.client, self.level, token).await?;
        transaction
            .execute("UPDATE stock SET units = $1", &[&value])
            .await?;
        transaction.commit().await
    }
}

impl Session for PostgresSession {
    async fn read(&mut self, token: u64) -> Result<i64, Stale> {
        loop {
            match self.try_read(token).await {
                Ok(units) => return Ok(units),
                Err(error) => retry_or_stale(&error)?,
            }
        }
    }

    async fn read_without_token(&mut self) -> i64 {
        self.number("SELECT units FROM stock").await
    }

    async fn write(&mut self, token: u64, value: i64) -> Result<(), Stale> {
        loop {
            match self.try_write(token, value).await {
                Ok(()) => return Ok(()),
                Err(error) => retry_or_stale(&error)?,
            }
        }
    }
}

async fn guarded(
    client: &mut Client,
    level: IsolationLevel,
    token: u64,
) -> Result<Transaction<'_>, Error> {
    let transaction = client
        .build_transaction()
        .isolation_level(level)
        .start()
        .await?;
    let token = i64::try_from(token).unwrap();
    transaction.execute(GUARD, &[&STOCK, &token]).await?;
    Ok(transaction)
}

/// `Ok` for a failure to serialize, after which a transaction is run again.
fn retry_or_stale(error: &Error) -> Result<(), Stale> {
    match error.code() {
        Some(&SqlState::T_R_SERIALIZATION_FAILURE) => Ok(()),
        Some(code) if code.code() == STALE => Err(Stale),
        _ => panic!("{error:?}"),
    }
}
