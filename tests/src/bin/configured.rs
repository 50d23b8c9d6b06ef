//! Says, in a process of its own, what becomes of the set-up that its argument names: the installed
//! node set is one for a whole process.

use std::env;

use redlock_runtime::{LockError, ProblemKind, Redlock, redis_lock};

#[redis_lock(key = "configured")]
async fn section() -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "configured", via = redlock)]
async fn section_of(redlock: &Redlock) -> Result<(), LockError> {
    Ok(())
}

#[tokio::main]
async fn main() {
    match env::args().nth(1).as_deref() {
        Some("nodes") => nodes().await,
        Some("nodes_or_embedded") => nodes_or_embedded().await,
        Some("install") => install().await,
        Some("lock") => lock().await,
        Some("start") => start().await,
        other => panic!("no such set-up: {other:?}"),
    }
}

/// The nodes of the environment, or the error where there are none.
async fn nodes() {
    match Redlock::builder().build().await {
        Ok(redlock) => print_addresses(&redlock),
        Err(error) => println!("{error}"),
    }
}

async fn nodes_or_embedded() {
    let builder = Redlock::builder().nodes_from_env_or(["memory://a"]);
    print_addresses(&builder.build().await.unwrap());
}

/// Locks on the nodes of the environment.
async fn lock() {
    let redlock = Redlock::builder().assume_fresh(true).build().await.unwrap();
    match section_of(&redlock).await {
        Ok(()) => println!("locked"),
        Err(error) => println!("{error}"),
    }
}

/// Installs the nodes of the environment.
async fn start() {
    match Redlock::builder().assume_fresh(true).install().await {
        Ok(_installed) => println!("installed"),
        Err(error) => println!("{error}"),
    }
}

fn print_addresses(redlock: &Redlock) {
    let nodes = redlock.nodes();
    let addresses: Vec<&str> = nodes.iter().map(|node| node.address()).collect();
    println!("{}", addresses.join(" "));
}

/// Every state of the installed node set, one after the other.
async fn install() {
    let builder = || Redlock::builder().nodes(["memory://installed"]);
    assert!(matches!(section().await, Err(LockError::NotInstalled(_))));
    assert!(Redlock::installed().is_none());

    let first = builder().install().await.unwrap();
    section().await.unwrap();
    let error = builder().install().await.unwrap_err();
    assert_eq!(error.problems()[0].kind, ProblemKind::AlreadyInstalled);
    section().await.unwrap();

    let other = Redlock::builder()
        .nodes(["memory://other"])
        .build()
        .await
        .unwrap();
    let held = other.lock("configured").acquire().await.unwrap();
    section().await.unwrap();
    let error = section_of(&other).await.unwrap_err();
    assert!(matches!(error, LockError::Contended(_)), "{error}");
    drop(held);

    drop(first);
    assert!(matches!(section().await, Err(LockError::NotInstalled(_))));
    let _again = builder().install().await.unwrap();
    section().await.unwrap();
    println!("ok");
}
