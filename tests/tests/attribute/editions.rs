//! The same file in three editions, as three packages: one after the other, because they lock the
//! same keys.

use super::support::install;

#[tokio::test]
async fn every_edition_locks() {
    let redlock = install().await;
    redlock_edition_2018::run(&redlock).await;
    redlock_edition_2021::run(&redlock).await;
    redlock_edition_2024::run(&redlock).await;
}
