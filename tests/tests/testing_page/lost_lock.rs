use std::{sync::Mutex, time::Duration};

use redlock_runtime::{LockError, Redlock, redis_lock, testing::Outcome};
use tokio::time::sleep;

#[derive(Default)]
struct Ledger(Mutex<Vec<&'static str>>);

impl Ledger {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    #[redis_lock(key = "account:{id}")]
    async fn transfer(&self, id: u64) -> Result<(), LockError> {
        self.note("debit");
        sleep(Duration::from_secs(1)).await;
        self.note("credit");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_transfer_stops_when_its_lock_is_lost() {
    let redlock = Redlock::test();
    let _entered = redlock.enter();
    let ledger = Ledger::default();

    let strike = async {
        redlock.until_locked("account:7").await;
        redlock.held_elsewhere("account:7")
    };
    let (outcome, _other) = tokio::join!(ledger.transfer(7), strike);

    assert!(matches!(outcome, Err(LockError::Lost(_))));
    // Half a transfer: here is something to mend.
    assert_eq!(*ledger.0.lock().unwrap(), ["debit"]);
    assert_eq!(redlock.history()[0].outcome, Outcome::Lost);
}
