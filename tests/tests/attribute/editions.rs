//! The same file in three editions, as three packages.

use super::support::install;

#[tokio::test]
async fn edition_2018_locks() {
    redlock_edition_2018::run(&install().await).await;
}

#[tokio::test]
async fn edition_2021_locks() {
    redlock_edition_2021::run(&install().await).await;
}

#[tokio::test]
async fn edition_2024_locks() {
    redlock_edition_2024::run(&install().await).await;
}
