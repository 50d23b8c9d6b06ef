//! Rules that are values and pure functions: what a majority is, how long a lease may be believed,
//! which tokens a round yields, what its verdicts add up to, how long to pause.

pub mod agreement;
pub(crate) mod backoff;
pub(crate) mod ballot;
pub mod key_names;
pub(crate) mod proposal;
pub mod quarantine;
pub mod quorum;
pub mod token;
pub mod validity;
