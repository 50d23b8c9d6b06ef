//! Node sets for tests of code that locks: fresh for each test, without a server, in the test's own
//! time, with nodes that fail on demand and a history of what was locked.
//!
//! Needs the feature `test-util`, which belongs in the dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! redlock-runtime = { version = "0.1", features = ["test-util"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! [`Redlock::test`](crate::Redlock::test) is where to begin, and [`guide::testing`](crate::guide::testing)
//! shows whole tests.

mod acquisition;
mod assertions;
mod faults;
mod node;
mod rival;
mod test_redlock;

pub use self::{
    acquisition::Acquisition, node::TestNode, rival::HeldElsewhere, test_redlock::TestRedlock,
};
pub use crate::{current::Entered, observe::journal::Outcome};
