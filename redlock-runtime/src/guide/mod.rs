//! Pages on choosing options, running the servers, and moving from other libraries.
//!
//! | page | questions that it answers |
//! |---|---|
//! | [`from_nothing`](mod@from_nothing) | How do I build a service with locks, from dependencies to SIGTERM? |
//! | [`choosing`] | Which kind of lock? How long should `expire` and `wait` be? What does waiting cost? How many servers? |
//! | [`servers`] | Which servers and managed services can be nodes? What must their users be allowed to do? |
//! | [`operating`] | How do I restart and replace the servers? What does this error want from me? Why does a lock seem stuck? |
//! | [`monitoring`] | What can I watch, and what should alert me? |
//! | [`testing`](mod@testing) | How do I test code that locks: contention, a lost lock, time, outages? |
//! | [`reliability`] | What was tested on real servers under faults, and what was not? |
//! | [`migrating`] | What changes for code that uses Redisson, ShedLock, redsync, rslock, distkit, distributed-lock or etcd? |
//! | [`faq`] | Is Redlock safe? Why not a database, etcd or ZooKeeper? What is left out? |
//!
//! `examples/README.md` in the repository lists the examples. The promises themselves, with the tests behind them, are in [`guarantees`](crate::guarantees).

// Its blocks are one program, the example `from_nothing`.
#[cfg(not(doctest))]
#[doc = include_str!("from_nothing.md")]
pub mod from_nothing {}

#[doc = include_str!("choosing.md")]
pub mod choosing {}

#[doc = include_str!("servers.md")]
pub mod servers {}

#[doc = include_str!("operating.md")]
pub mod operating {}

#[doc = include_str!("monitoring.md")]
pub mod monitoring {}

// Its examples are tests, which run in a test program.
#[cfg(not(doctest))]
#[doc = include_str!("testing.md")]
pub mod testing {}

#[doc = include_str!("reliability.md")]
pub mod reliability {}

#[doc = include_str!("migrating.md")]
pub mod migrating {}

#[doc = include_str!("faq.md")]
pub mod faq {}
