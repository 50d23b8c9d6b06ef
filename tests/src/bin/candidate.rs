//! A process of a fleet that campaigns, and writes to a fenced store for as long as it leads. Its value is its
//! process id.
//!
//! It says `ready` before its first campaign. Each write appends its token and its process id to the list
//! `{term}`. A write with the token of an earlier leader is refused, and counted at `refused`.

use std::{convert::Infallible, env, process, time::Duration};

use redis::{Client, Commands, Script};
use redlock_runtime::{LockError, Redlock, fence::redis::GUARDED, redis_lock};
use tokio::time::sleep;

const LEASE: Duration = Duration::from_secs(2);

/// Between two writes of one leader.
const PAUSE: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() {
    let store = Client::open(env::var("STORE").unwrap()).unwrap();
    let redlock = Redlock::builder()
        .assume_fresh(true)
        // Too long for a busy machine to make a healthy node look silent.
        .node_timeout(Duration::from_secs(1))
        .build()
        .await
        .unwrap();
    println!("ready");
    let led = lead(&redlock, &store, process::id().to_string()).await;
    // Nothing ends the body but the end of the lease, which begins another campaign.
    panic!("{led:?}");
}

#[redis_lock(key = "scheduler", leader, expire = LEASE, value = me, lease = lease, via = redlock)]
async fn lead(redlock: &Redlock, store: &Client, me: String) -> Result<Infallible, LockError> {
    let mut store = store.get_connection().unwrap();
    let guarded = Script::new(GUARDED);
    loop {
        let token = lease.fencing_token()?.get();
        let entry = format!("{token} {me}");
        let mut call = guarded.key("{term}:fence");
        call.key("{term}").arg(token).arg("RPUSH").arg(entry);
        if call.invoke::<u64>(&mut store).is_err() {
            let _: u64 = store.incr("refused", 1).unwrap();
        }
        sleep(PAUSE).await;
    }
}
