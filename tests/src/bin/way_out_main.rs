//! Ends with a lock held: `main` itself has the guard, or a task is in a body, and `main` returns, or the process
//! exits.

use std::{env, error::Error, future::pending, process::exit, time::Duration};

use redlock_runtime::{LockError, Redlock, redis_lock};
use tokio::sync::oneshot;

const LEASE: Duration = Duration::from_secs(3_600);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let installed = Redlock::builder()
        .assume_fresh(true)
        .max_lease(LEASE)
        .expire(LEASE)
        .node_timeout(LEASE)
        .install()
        .await?;
    match env::args().nth(1).as_deref() {
        Some("guard") => {
            let _guard = installed.lock("section").acquire().await?;
            println!("held");
            Ok(())
        }
        Some("exit") => {
            let _guard = installed.lock("section").acquire().await?;
            println!("held");
            exit(0)
        }
        Some("task") => {
            let (begun, inside) = oneshot::channel();
            tokio::spawn(section(begun));
            inside.await?;
            println!("held");
            Ok(())
        }
        way => Err(format!("no such way out: {way:?}").into()),
    }
}

#[redis_lock(key = "section")]
async fn section(begun: oneshot::Sender<()>) -> Result<(), LockError> {
    let _ = begun.send(());
    pending().await
}
