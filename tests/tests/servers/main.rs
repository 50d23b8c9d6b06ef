//! The library over real servers and stores.
//!
//! One program, so that tests that wait for a lease to end do so at the same time, and the library is
//! linked once.

#[path = "../common/mod.rs"]
mod common;

mod at_least;
mod clocks;
mod cluster;
mod configuration;
mod contract;
mod credentials;
mod election;
mod eviction;
mod faults;
mod fencing;
mod guide;
mod inspect;
mod late;
mod lease;
mod links;
mod loss_alarm;
mod managed;
mod memory_loss;
mod other_library;
mod regressions;
mod replacing;
mod restarts;
mod rights;
mod sentinels;
mod tls;
mod ways_out;
