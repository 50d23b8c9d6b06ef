//! Guards at the store: what makes a [fencing token](crate::Lease::fencing_token) keep a late
//! holder out.
//!
//! A holder can be paused for longer than its lease, in the middle of whatever it does, and send
//! its write afterwards. No lock service can prevent that; only the store can, by refusing a token
//! that is smaller than the largest it has seen. Here is that check for three stores, as text to
//! run with any driver: [`postgres`], [`sqlite`], [`redis`]. This crate itself opens no connection
//! to a store.
//!
//! # The rules
//!
//! 1. **The first read carries the token too**, not only the writes. Otherwise updates are lost:
//!    the new holder reads; the late write of the old one arrives and is accepted, as the store
//!    has seen no larger token yet; the new holder writes what it made of its read, and the late
//!    write is gone although it was acknowledged. A guarded read *raises* the store to the new
//!    token first, and the late write is refused.
//! 2. **Every write carries the token**, in one transaction or script with the check.
//! 3. **One resource, one lock key.** Tokens of different keys say nothing about each other, so
//!    everything that is guarded under one resource name must be written under one lock key. The
//!    key itself is a good name: [`Lease::key`](crate::Lease::key). It includes the key prefix, so with another
//!    prefix the resource has another name, and old tokens do not count. Under a lock on
//!    [several keys](crate::Redlock::lock_all), guard each resource by the name of its own key.
//! 4. **Stale means stop.** A refused holder has lost its lock: it must not retry with the same
//!    token, nor write elsewhere.
//! 5. **The store keeps the token at least as safely as the data.** A store that is set back to
//!    an earlier state must get both back. The row or key of a resource is never removed.
//!
//! Then the accepted operations on a resource are in order of holders: between the first and the
//! last of one holder there is none of another. That needs no clock, and holds whatever happens
//! to the locks.
//!
//! # Readers
//!
//! Sections that [share](crate::Lock::shared) a lock have tokens, too: above those of all writers before
//! them, and below those of all writers after them. Readers that overlap have theirs in any order, so a
//! reader must not raise what readers are compared with: compare, `token >= <the one in the store>`, and
//! leave the stored one alone. A reader that is late is then refused once a later writer has been there.
//! The guards of this module raise it with every access: use them for writers, and read beside them.
//!
//! That does not keep the late write of an *earlier* writer from changing what a reader has just read. If
//! it must not, keep the largest token of readers in a column of its own, and refuse writers below it:
//!
//! ```text
//! read:   UPDATE stock SET read_by = GREATEST(read_by, $2) WHERE sku = $1 AND token <= $2 RETURNING units
//! write:  UPDATE stock SET token = $2, units = $3 WHERE sku = $1 AND token <= $2 AND read_by <= $2
//! ```
//!
//! # Other stores
//!
//! Any store will do that can compare and write in one atomic step. Where the data is one row or
//! one document, keep the token in it, and let the first step of a holder raise it:
//!
//! ```text
//! enter:  UPDATE stock SET token = $2 WHERE sku = $1 AND token <= $2 RETURNING units
//! write:  UPDATE stock SET units = $3 WHERE sku = $1 AND token = $2
//! ```
//!
//! No row in the answer means stale. (That the row exists must be certain.)

pub mod postgres;
pub mod redis;
pub mod sqlite;
