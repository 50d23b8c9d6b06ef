//! Checks of the [fencing token](crate::Lease::fencing_token) in the store, which keep a late holder out.
//!
//! A holder can be paused for longer than its lease, at any point, and send its write afterwards. No lock service can
//! prevent this. The store can: it refuses a token that is smaller than the largest it has seen. This module has that
//! check for three stores, [`postgres`], [`sqlite`] and [`redis`], as text to run with any driver. The crate itself
//! opens no connection to a store.
//!
//! # The rules
//!
//! 1. **The first read carries the token too**, not only the writes. A guarded read *raises* the stored token, so the
//!    store refuses the late write of the old holder. Without it, an update is lost: the new holder reads, the late
//!    write arrives and is accepted, and the new holder overwrites it with the result of its old read.
//! 2. **Every write carries the token**, in one transaction or script with the check.
//! 3. **One resource, one lock key.** Tokens of different keys cannot be compared, so write everything under one
//!    resource name under one lock key. [`Lease::key`](crate::Lease::key) is a good name. It includes the key prefix:
//!    with another prefix the resource has another name, and old tokens do not count. Under a lock on [several
//!    keys](crate::Redlock::lock_all), guard each resource by the name of its own key.
//! 4. **Stale means stop.** A refused holder has lost its lock. It must not retry with the same token, nor write
//!    elsewhere.
//! 5. **The store keeps the token at least as safely as the data.** If you restore the store to an earlier state,
//!    restore both. Never remove the row or key of a resource.
//!
//! Then holders follow each other: all accepted operations of one holder on a resource come before those of the next.
//! This needs no clock, and holds whatever happens to the locks.
//!
//! # Readers
//!
//! Sections that [share](crate::Lock::shared) a lock have tokens, too: above those of all earlier writers, below
//! those of all later ones, and in any order among overlapping readers. So a reader compares its token, `token >=
//! <the one in the store>`, and does not store it. The store then refuses a late reader after a later writer. The
//! guards of this module store the token with every access: use them for writers only.
//!
//! The late write of an *earlier* writer can still change what a reader has just read. To prevent this, keep the
//! largest token of readers in its own column, and refuse writers below it:
//!
//! ```text
//! read:   UPDATE stock SET read_by = GREATEST(read_by, $2) WHERE sku = $1 AND token <= $2 RETURNING units
//! write:  UPDATE stock SET token = $2, units = $3 WHERE sku = $1 AND token <= $2 AND read_by <= $2
//! ```
//!
//! # Other stores
//!
//! Any store works that compares and writes in one atomic step. If the data is one row or document, keep the token in
//! it, and let the first step of a holder raise it:
//!
//! ```text
//! enter:  UPDATE stock SET token = $2 WHERE sku = $1 AND token <= $2 RETURNING units
//! write:  UPDATE stock SET units = $3 WHERE sku = $1 AND token = $2
//! ```
//!
//! No row in the result means that the token is stale, if the row is known to exist.

pub mod postgres;
pub mod redis;
pub mod sqlite;
