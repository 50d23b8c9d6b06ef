//! A process of a fleet that does sections of one counter under one lock.
//!
//! Says `ready`, waits for a line, does its sections, and says `done`. With `hang` in place of the
//! number of sections it says `inside` in its first one and stays there.

use std::{
    env,
    io::{self, BufRead},
    time::Duration,
};

use redlock_runtime::{LockError, Redlock, redis_lock};
use redlock_tests::Counter;
use tokio::task::JoinSet;

const TASKS: u32 = 4;

#[redis_lock(key = "counter", expire = 2s, wait = 60s)]
async fn section(counter: &Counter) -> Result<(), LockError> {
    counter.section().await;
    Ok(())
}

#[redis_lock(key = "counter", expire = 2s, wait = 60s, renew)]
async fn hang(counter: &Counter) -> Result<(), LockError> {
    println!("inside");
    counter.section_with(std::future::pending()).await
}

#[tokio::main]
async fn main() {
    let counter = Counter::at(&env::var("COUNTER").unwrap(), "exclusion");
    let _redlock = Redlock::builder()
        .assume_fresh(true)
        // Too long for a busy machine to make a healthy node look silent.
        .node_timeout(Duration::from_secs(1))
        .install()
        .await
        .unwrap();
    println!("ready");
    io::stdin().lock().lines().next();
    match env::args().nth(1).as_deref() {
        Some("hang") => hang(&counter).await.unwrap(),
        sections => {
            let sections: u32 = sections.unwrap().parse().unwrap();
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let counter = counter.clone();
                tasks.spawn(async move {
                    for _ in 0..sections / TASKS {
                        section(&counter).await.unwrap();
                    }
                });
            }
            tasks.join_all().await;
        }
    }
    println!("done");
}
