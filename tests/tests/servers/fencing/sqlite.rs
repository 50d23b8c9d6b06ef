//! The guard for data in SQLite.

use redlock_runtime::fence::sqlite::{GUARD, INSTALL, STALE};
use rusqlite::{Connection, Error, Transaction, TransactionBehavior, ffi};
use tempfile::TempDir;

use super::{
    PATIENCE,
    stores::{STOCK, Session, Stale, Store, keeps_late_holders_out},
};

keeps_late_holders_out!(Database::new());

#[test]
fn can_be_installed_again() {
    let database = Database::new();
    let mut connection = database.connect();
    connection.execute(GUARD, (STOCK, 7)).unwrap();
    connection.execute_batch(INSTALL).unwrap();
    let stale = guarded(&mut connection, 6).map(drop);
    assert_eq!(stale, Err(Stale));
}

#[test]
fn tokens_are_compared_as_numbers_however_they_are_bound() {
    let database = Database::new();
    let connection = database.connect();
    let raise = |token: &str| connection.execute(GUARD, (STOCK, token)).map(drop);
    raise("9").unwrap();
    raise("10").unwrap();
    assert!(raise("9").is_err());
    for no_token in ["", "token", "10.5"] {
        assert!(raise(no_token).is_err(), "{no_token:?}");
    }
    let null = connection.execute(GUARD, (STOCK, None::<i64>));
    assert!(null.is_err());
}

#[test]
fn resources_are_apart() {
    let database = Database::new();
    let connection = database.connect();
    connection.execute(GUARD, ("a", 9)).unwrap();
    connection.execute(GUARD, ("b", 1)).unwrap();
    assert!(connection.execute(GUARD, ("a", 8)).is_err());
}

struct Database(TempDir);

impl Database {
    fn new() -> Self {
        let database = Self(tempfile::tempdir().unwrap());
        let connection = database.connect();
        connection.execute_batch(INSTALL).unwrap();
        connection
            .execute_batch("CREATE TABLE stock (units INTEGER); INSERT INTO stock VALUES (0)")
            .unwrap();
        database
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(self.0.path().join("stock.db")).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        // Nobody pulls the plug here.
        connection
            .pragma_update(None, "synchronous", "OFF")
            .unwrap();
        connection
    }
}

impl Store for Database {
    type Session = Connection;

    async fn session(&self) -> Connection {
        self.connect()
    }
}

impl Session for Connection {
    async fn read(&mut self, token: u64) -> Result<i64, Stale> {
        let transaction = guarded(self, i64::try_from(token).unwrap())?;
        let units = units(&transaction);
        transaction.commit().unwrap();
        Ok(units)
    }

    async fn read_without_token(&mut self) -> i64 {
        units(self)
    }

    async fn write(&mut self, token: u64, value: i64) -> Result<(), Stale> {
        let transaction = guarded(self, i64::try_from(token).unwrap())?;
        transaction
            .execute("UPDATE stock SET units = ?1", (value,))
            .unwrap();
        transaction.commit().unwrap();
        Ok(())
    }
}

fn units(connection: &Connection) -> i64 {
    connection
        .query_row("SELECT units FROM stock", (), |row| row.get(0))
        .unwrap()
}

fn guarded(connection: &mut Connection, token: i64) -> Result<Transaction<'_>, Stale> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    match transaction.execute(GUARD, (STOCK, token)) {
        Ok(_) => Ok(transaction),
        Err(error) => Err(stale(&error)),
    }
}

fn stale(error: &Error) -> Stale {
    match error {
        Error::SqliteFailure(code, Some(message)) => {
            assert_eq!(code.extended_code, ffi::SQLITE_CONSTRAINT_TRIGGER);
            assert_eq!(message, STALE);
        }
        error => panic!("{error}"),
    }
    Stale
}
