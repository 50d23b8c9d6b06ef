//! What a service answers a client whose request was refused a lock.

#[cfg(feature = "axum")]
mod axum;
#[cfg(any(feature = "axum", feature = "tower"))]
mod response;
#[cfg(feature = "tower")]
pub(crate) mod tower;

use std::time::Duration;

use crate::error::LockError;

/// Less is no whole second, which is the unit of `Retry-After`.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

impl LockError {
    /// Returns the status of the HTTP answer to a request that met this error: 409 if the lock was
    /// [contended](Self::Contended), 503 in an outage or at shutdown, 400 if the key was [empty](Self::EmptyKey), and
    /// 500 if the lock ended under the body or the code is wrong.
    ///
    /// With the feature `axum`, this error is a response by itself. For actix and tonic, see the examples
    /// `actix_orders` and `tonic_orders`.
    ///
    /// ```
    /// use redlock_runtime::LockError;
    ///
    /// fn answer(error: &LockError) -> (u16, Option<String>) {
    ///     let seconds = error.retry_pause().map(|pause| pause.as_secs().to_string());
    ///     (error.http_status(), seconds) // And `Retry-After`.
    /// }
    /// ```
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        match self {
            Self::Contended(_) => 409,
            Self::NoQuorum(_) | Self::Quarantined(_) | Self::Stopped(_) => 503,
            Self::EmptyKey { .. } => 400,
            Self::Lost(_)
            | Self::Expired(_)
            | Self::Released(_)
            | Self::Nested(_)
            | Self::Upgrade(_)
            | Self::NotInstalled(_)
            | Self::Config(_) => 500,
        }
    }

    /// Returns how long a client should wait before it sends the request again, in whole seconds, at least one: the
    /// value of `Retry-After`. `None` if no retry helps, or if it might do again what the body has done already.
    ///
    /// For a [quarantine](Self::Quarantined) it is the longest time until that ends. Otherwise it is a guess: the time
    /// that this call has waited, but no longer than the holder's lock lasts without renewal. Most sections end long
    /// before their lease, so it is shorter than [`retry_after`](Self::retry_after).
    #[must_use]
    pub fn retry_pause(&self) -> Option<Duration> {
        let pause = match self {
            Self::Contended(_) => {
                let longest = self.retry_after().unwrap_or(Duration::MAX);
                self.elapsed().min(longest)
            }
            Self::NoQuorum(_) | Self::Stopped(_) => self.elapsed(),
            Self::Quarantined(_) => self.retry_after()?,
            _ => return None,
        };
        let pause = pause.max(SHORTEST_PAUSE);
        let begun = u64::from(pause.subsec_nanos() > 0);
        Some(Duration::from_secs(pause.as_secs().saturating_add(begun)))
    }

    /// What a client may read of this error. The text of the error itself names the lock servers, which
    /// belong in the log.
    #[cfg(feature = "axum")]
    const fn text_for_clients(&self) -> &'static str {
        match self.http_status() {
            400 => "a part of the request that must not be empty is empty",
            409 => "another request is being worked on; try again later",
            503 => "the service is not available; try again later",
            _ => "something went wrong",
        }
    }
}

#[cfg(test)]
mod tests {
    use redlock_protocol::Cause;

    use super::*;
    use crate::error::Report;

    /// The pause after a wait of the given milliseconds.
    fn pause(cause: Cause, elapsed: u64) -> Option<u64> {
        let report = Report::new(None, "stock".into(), Duration::from_millis(elapsed));
        let error = LockError::refused(cause, report);
        error.retry_pause().map(|pause| pause.as_secs())
    }

    #[test]
    fn the_pause_is_as_long_as_the_wait_was_but_no_longer_than_the_lease() {
        let contended = |left: Option<u64>| Cause::Contended {
            retry_after: left.map(Duration::from_millis),
        };
        assert_eq!(pause(contended(Some(30_000)), 0), Some(1));
        assert_eq!(pause(contended(Some(30_000)), 3_001), Some(4));
        assert_eq!(pause(contended(Some(4_500)), 20_000), Some(5));
        assert_eq!(pause(contended(Some(3)), 20_000), Some(1));
        assert_eq!(pause(contended(None), 20_000), Some(20));
        assert_eq!(pause(Cause::NoQuorum, 2_500), Some(3));
        let ready_in = Duration::from_millis(6_100);
        assert_eq!(pause(Cause::Quarantined { ready_in }, 0), Some(7));
    }

    #[test]
    fn nobody_is_asked_to_try_again_what_may_have_been_done() {
        let error = LockError::EmptyKey { placeholder: None };
        assert_eq!((error.http_status(), error.retry_pause()), (400, None));
    }
}
