//! Transfers between accounts: one lock with several keys, and a PostgreSQL database that refuses a holder
//! who has lost it.
//!
//! ```sh
//! export DATABASE_URL=postgresql://postgres@127.0.0.1/postgres
//! cargo run --release --example transfer
//!
//! export REDLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003
//! cargo run --release --example transfer    # start it twice: they share the accounts
//! ```
//!
//! Its tables are in the schema `redlock_example`. If a transfer touched nothing but the database, one
//! transaction would do, without any lock. Here another service is asked between the look at the balance
//! and the transfer, and no transaction should stay open for that.

#[path = "../shared/embedded.rs"]
mod embedded;

use std::{env, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use redlock_runtime::{FencingToken, Redlock, fence::postgres, redis_lock};
use tokio::{task::JoinSet, time::sleep};
use tokio_postgres::{Client, Config, NoTls, Transaction, error::SqlState};

use embedded::warn_if_embedded;

const ACCOUNTS: i32 = 6;
const CENTS: i64 = 1_000;

const TELLERS: i32 = 4;
const TRANSFERS: i32 = 25; // of each teller

/// In its own schema, so that no other table of this name is touched.
const OPTIONS: &str = "-c search_path=redlock_example";

const TABLES: &str = "CREATE SCHEMA IF NOT EXISTS redlock_example;
    CREATE TABLE IF NOT EXISTS account (id integer PRIMARY KEY, cents bigint NOT NULL);";

#[derive(PartialEq)]
enum Outcome {
    Done,
    TooLittleMoney,
}

/// Both accounts or none, in whatever order other tellers name them: two transfers in opposite
/// directions do not wait for each other. Transfers share the bank, which an audit has alone.
#[redis_lock(
    key = ["account:{from}", "account:{to}", shared("bank")],
    expire = 5s,
    wait = 30s,
    lease = lease
)]
async fn transfer(bank: &mut Client, from: i32, to: i32, cents: i64) -> anyhow::Result<Outcome> {
    let token = lease.fencing_token()?;
    let accounts = [from, to];

    // The first read carries the token, too: see the rules of `redlock_runtime::fence`.
    let look = under(bank, accounts, token).await?;
    let query = "SELECT cents FROM account WHERE id = $1";
    let balance: i64 = look.query_one(query, &[&from]).await?.get(0);
    look.commit().await?;
    if balance < cents {
        return Ok(Outcome::TooLittleMoney);
    }

    approve(cents).await;

    let book = under(bank, accounts, token).await?;
    let add = "UPDATE account SET cents = cents + $2 WHERE id = $1";
    book.execute(add, &[&from, &-cents]).await?;
    book.execute(add, &[&to, &cents]).await?;
    book.commit().await?;
    Ok(Outcome::Done)
}

/// A transaction that fails if a later holder of one of the accounts has been here.
async fn under(
    bank: &mut Client,
    mut accounts: [i32; 2],
    token: FencingToken,
) -> Result<Transaction<'_>, tokio_postgres::Error> {
    // The database locks their rows one after the other: without an order, a late holder and a new one
    // could wait for each other.
    accounts.sort_unstable();
    let transaction = bank.transaction().await?;
    for account in accounts {
        let resource = format!("account:{account}");
        let guard = [&resource as _, &i64::from(token) as _];
        transaction.execute(postgres::GUARD, &guard).await?;
    }
    Ok(transaction)
}

/// Another service that takes its time.
async fn approve(_cents: i64) {
    sleep(Duration::from_millis(2)).await;
}

#[derive(Default)]
struct Tally {
    done: u32,
    refused: u32,
    stale: u32,
}

/// Transfers between all pairs of accounts, in both directions.
async fn teller(number: i32) -> anyhow::Result<Tally> {
    let mut bank = connect().await?;
    let mut tally = Tally::default();
    for turn in 0..TRANSFERS {
        let from = (number + turn) % ACCOUNTS;
        let to = (from + 1 + (number * turn) % (ACCOUNTS - 1)) % ACCOUNTS;
        match transfer(&mut bank, from, to, 700).await {
            Ok(Outcome::Done) => tally.done += 1,
            Ok(Outcome::TooLittleMoney) => tally.refused += 1,
            // A later holder has been at the account. Not to be tried again with this token.
            Err(error) if is_stale(&error) => tally.stale += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(tally)
}

fn is_stale(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<tokio_postgres::Error>();
    error.and_then(|error| error.code()).map(SqlState::code) == Some(postgres::STALE)
}

async fn connect() -> anyhow::Result<Client> {
    let url = env::var("DATABASE_URL");
    let url = url.context("set DATABASE_URL, such as postgresql://postgres@127.0.0.1/postgres")?;
    let mut config: Config = url.parse()?;
    let (client, connection) = config.options(OPTIONS).connect(NoTls).await?;
    // Ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

/// The sum of all accounts, and how many are below zero. No transfer runs meanwhile.
#[redis_lock(key = "bank", wait = 30s)]
async fn audit(bank: &Client) -> anyhow::Result<(i64, i64)> {
    let query = "SELECT sum(cents)::bigint, count(*) FILTER (WHERE cents < 0) FROM account";
    let row = bank.query_one(query, &[]).await?;
    Ok((row.get(0), row.get(1)))
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let redlock = Redlock::builder()
        .nodes_from_env_or(["memory://a", "memory://b", "memory://c"])
        .install()
        .await?;
    warn_if_embedded(&redlock);
    let bank = connect().await?;
    bank.batch_execute(TABLES).await?;
    bank.batch_execute(postgres::INSTALL).await?;
    let open =
        "INSERT INTO account SELECT id, $2 FROM generate_series(0, $1) id ON CONFLICT DO NOTHING";
    bank.execute(open, &[&(ACCOUNTS - 1), &CENTS]).await?;
    let (before, _) = audit(&bank).await?;

    let mut tellers: JoinSet<_> = (0..TELLERS).map(teller).collect();
    let mut sum = Tally::default();
    while let Some(tally) = tellers.join_next().await {
        let tally = tally??;
        sum.done += tally.done;
        sum.refused += tally.refused;
        sum.stale += tally.stale;
    }

    let (after, overdrawn) = audit(&bank).await?;
    println!(
        "transfers: done {}, too little money {}, stale {}; accounts overdrawn {overdrawn}",
        sum.done, sum.refused, sum.stale
    );
    if after != before {
        bail!("the sum of all accounts was {before} and is {after}");
    }
    Ok(ExitCode::from(u8::from(overdrawn > 0)))
}
