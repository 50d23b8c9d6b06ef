//! Why a round has failed, and when another one makes sense.

use std::time::Duration;

use crate::{
    action::{Cause, Verdict},
    rules::quorum,
};

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Another owner has, or may have, the lock.
    Held,
    /// No owner is known to have a majority: several have asked at once.
    Split,
    /// Too few nodes voted.
    Outage(Cause),
}

/// How long until `missing` of the nodes are out of the way, by how long each will be in it.
pub(super) fn wait_for(missing: usize, waits: impl Iterator<Item = Duration>) -> Option<Duration> {
    let mut waits: Vec<Duration> = waits.collect();
    waits.sort_unstable();
    waits.get(missing.checked_sub(1)?).copied()
}

/// Why a majority cannot vote, by what each node says.
pub(super) fn outage(verdicts: &[Verdict]) -> Cause {
    let wait = |verdict: &Verdict| match verdict {
        Verdict::Quarantined { remaining, .. } => Some(*remaining),
        _ => None,
    };
    // A node that refused has voted: it is no part of the outage.
    let able = verdicts.iter().filter(|verdict| !verdict.is_failure());
    let missing = quorum::majority(verdicts.len()).saturating_sub(able.count());
    match wait_for(missing, verdicts.iter().filter_map(wait)) {
        Some(ready_in) => Cause::Quarantined { ready_in },
        None => Cause::NoQuorum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::QuarantineReason;

    #[test]
    fn an_outage_that_ends_by_itself_says_when() {
        let quarantined = |millis| Verdict::Quarantined {
            reason: QuarantineReason::Flushed,
            remaining: Duration::from_millis(millis),
        };
        let timed_out = Verdict::TimedOut;
        let verdicts = [quarantined(9), timed_out.clone(), quarantined(5)];
        assert_eq!(
            outage(&verdicts),
            Cause::Quarantined {
                ready_in: Duration::from_millis(9)
            }
        );
        let verdicts = [quarantined(9), timed_out.clone(), timed_out];
        assert_eq!(outage(&verdicts), Cause::NoQuorum);
    }
}
