//! Node sets for tests of applications: whose they are, how their nodes fail, and what they remember.

mod clock;
mod election;
mod family;
mod faults;
mod history;
mod scope;

use std::{panic::AssertUnwindSafe, time::Duration};

/// What a failed assertion says.
fn message_of(assertion: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(AssertUnwindSafe(assertion)).unwrap_err();
    *panic.downcast::<String>().unwrap()
}

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}
