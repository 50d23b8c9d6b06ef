//! What a guarded store must do, whichever it is.

use std::sync::atomic::{AtomicU64, Ordering};

use redlock_tests::Cluster;
use tokio::task::{JoinSet, yield_now};

use super::{acquire, client, delete_everywhere, token};

/// A store with one number in it, 0 at first, under the resource `stock`.
pub(crate) trait Store {
    type Session: Session;

    /// A connection of one holder's own.
    async fn session(&self) -> Self::Session;
}

pub(crate) trait Session: Send + 'static {
    /// Reads, and raises the store to the token in the same step.
    fn read(&mut self, token: u64) -> impl Future<Output = Result<i64, Stale>> + Send;

    fn read_without_token(&mut self) -> impl Future<Output = i64> + Send;

    /// Writes, and checks the token in the same step.
    fn write(&mut self, token: u64, value: i64) -> impl Future<Output = Result<(), Stale>> + Send;
}

/// The store's word for a token that is too small. Any other error fails the test.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stale;

/// The key of the lock, and the name of the resource.
pub(crate) const STOCK: &str = "stock";

/// The first holder is paused before its write. The read of the second one is enough to refuse it, or else it could
/// come between the read and the write of the second one, and be overwritten.
pub(crate) async fn refuses_the_late_write(store: &impl Store) {
    let nodes = Cluster::start(5);
    let (first, second) = (client(&nodes).await, client(&nodes).await);
    let (mut paused, mut present) = (store.session().await, store.session().await);

    let late_guard = acquire(&first, STOCK).await;
    let late = token(&late_guard);
    let seen = paused.read(late).await.unwrap();

    delete_everywhere(&nodes, STOCK);
    let guard = acquire(&second, STOCK).await;
    let newer = token(&guard);
    assert_eq!(present.read(newer).await, Ok(0));
    assert_eq!(paused.write(late, seen + 1).await, Err(Stale));
    assert_eq!(present.write(newer, 41).await, Ok(()));

    assert_eq!(paused.write(late, seen + 1).await, Err(Stale));
    assert_eq!(paused.read(late).await, Err(Stale));
    assert_eq!(present.read_without_token().await, 41);
    assert_eq!(present.write(newer, 42).await, Ok(()));
    assert_eq!(present.read_without_token().await, 42);
}

/// Holders without any lock, so that all of them are as late as can be: what is acknowledged is
/// there in the end.
pub(crate) async fn counts_what_it_acknowledged(store: &impl Store) {
    static TOKENS: AtomicU64 = AtomicU64::new(1);
    const SESSIONS: usize = 4;
    const HOLDERS: usize = 50;

    let mut sessions = JoinSet::new();
    for _ in 0..SESSIONS {
        let mut session = store.session().await;
        sessions.spawn(async move {
            let mut acknowledged = 0;
            for _ in 0..HOLDERS {
                let token = TOKENS.fetch_add(1, Ordering::Relaxed);
                let Ok(seen) = session.read(token).await else {
                    continue;
                };
                yield_now().await;
                if session.write(token, seen + 1).await.is_ok() {
                    acknowledged += 1;
                }
            }
            acknowledged
        });
    }
    let acknowledged: i64 = sessions.join_all().await.into_iter().sum();
    println!(
        "{acknowledged} of {} increments acknowledged",
        SESSIONS * HOLDERS
    );
    assert!(acknowledged > 0);
    let mut session = store.session().await;
    assert_eq!(session.read_without_token().await, acknowledged);
}

/// The tests that every store must pass, for one that `$open` makes.
macro_rules! keeps_late_holders_out {
    ($open:expr) => {
        #[tokio::test]
        async fn refuses_the_late_write_of_a_paused_holder() {
            $crate::fencing::stores::refuses_the_late_write(&$open).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
        async fn counts_what_it_acknowledged() {
            $crate::fencing::stores::counts_what_it_acknowledged(&$open).await;
        }
    };
}
pub(crate) use keeps_late_holders_out;
