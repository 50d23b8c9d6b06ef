//! Metrics by the facade `metrics`: names, labels and units. A key of a lock is never a label: there are
//! too many.

use std::{
    collections::HashMap,
    ptr,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

use super::fact::End;
use crate::{config::SectionInfo, health::NodeState};

/// The label of sections that have no name.
const UNNAMED: &str = "unnamed";

/// Of questions, in the order of the type.
const OUTCOMES: [End; 7] = [
    End::Granted,
    End::Contended,
    End::NoQuorum,
    End::Quarantined,
    End::Stopped,
    End::Expired,
    End::Cancelled,
];

const CAUSES: [End; 3] = [End::Lost, End::Expired, End::Stopped];

/// The metrics of a node set.
#[derive(Debug)]
pub(super) struct Meter {
    /// The label of the node set. Not its addresses: they change with each server that is replaced.
    node_set: Arc<str>,
    /// Of its sections, by their names.
    sections: RwLock<HashMap<&'static str, Arc<OfSection>>>,
}

/// The metrics of the sections of one name.
#[derive(Debug)]
pub(super) struct OfSection {
    /// Whose metrics these are. Another one may be installed later.
    recorder: usize,
    pub(super) waiting: Gauge,
    held: Gauge,
    acquisitions: [Counter; OUTCOMES.len()],
    attempts: Counter,
    handovers: Counter,
    wait: Histogram,
    hold: Histogram,
    pub(super) renewals: Counter,
    losses: [Counter; CAUSES.len()],
}

impl Meter {
    pub(super) fn new(node_set: &str) -> Self {
        describe();
        Self {
            node_set: node_set.into(),
            sections: RwLock::default(),
        }
    }

    pub(super) fn of(&self, name: Option<&'static str>) -> Arc<OfSection> {
        let name = name.unwrap_or(UNNAMED);
        let recorder = metrics::with_recorder(|recorder| ptr::from_ref(recorder).addr());
        let known = self.sections.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(name).filter(|it| it.recorder == recorder) {
            return Arc::clone(known);
        }
        drop(known);
        let new = Arc::new(OfSection::new(name, recorder));
        let mut known = self
            .sections
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        known.insert(name, Arc::clone(&new));
        new
    }

    /// Sets what holds for all nodes. Annotated functions have their metrics from the first time on, because
    /// Prometheus sees no increase in a counter that is there only from its first event.
    pub(super) fn node_set(&self, (voting, has_quorum): (usize, bool), under_replicated: usize) {
        for section in SectionInfo::all() {
            self.of(Some(section.name));
        }
        let node_set = || Arc::clone(&self.node_set);
        gauge!("redlock_nodes_voting", "node_set" => node_set()).set(voting as f64);
        gauge!("redlock_quorum", "node_set" => node_set()).set(f64::from(u8::from(has_quorum)));
        gauge!("redlock_under_replicated", "node_set" => node_set()).set(under_replicated as f64);
    }
}

impl OfSection {
    fn new(section: &'static str, recorder: usize) -> Self {
        let outcome = |outcome: End| {
            let outcome = outcome.label();
            counter!("redlock_acquisitions_total", "section" => section, "outcome" => outcome)
        };
        let loss = |cause: End| {
            let cause = cause.label();
            counter!("redlock_losses_total", "section" => section, "cause" => cause)
        };
        Self {
            recorder,
            waiting: gauge!("redlock_waiting", "section" => section),
            held: gauge!("redlock_held", "section" => section),
            acquisitions: OUTCOMES.map(outcome),
            attempts: counter!("redlock_attempts_total", "section" => section),
            handovers: counter!("redlock_handovers_total", "section" => section),
            wait: histogram!("redlock_wait_seconds", "section" => section),
            hold: histogram!("redlock_hold_seconds", "section" => section),
            renewals: counter!("redlock_renewals_total", "section" => section),
            losses: CAUSES.map(loss),
        }
    }

    pub(super) fn answered(&self, outcome: End, wait: Duration, attempts: u32) {
        self.waiting.decrement(1.0);
        self.acquisitions[outcome as usize].increment(1);
        self.attempts.increment(attempts.into());
        if outcome == End::Granted {
            self.held.increment(1.0);
            self.wait.record(wait);
            self.handovers.increment(u64::from(attempts == 0));
        }
    }

    pub(super) fn ended(&self, hold: Duration) {
        self.held.decrement(1.0);
        self.hold.record(hold);
    }

    pub(super) fn over(&self, over: End) {
        if let Some(cause) = CAUSES.iter().position(|cause| *cause == over) {
            self.losses[cause].increment(1);
        }
    }
}

pub(super) fn node(address: &Arc<str>, state: &NodeState, round_trip: Option<Duration>) {
    macro_rules! set {
        ($($name:literal if $state:pat,)+) => {$(
            let is_so = f64::from(u8::from(matches!(state, $state)));
            gauge!("redlock_node_state", "node" => Arc::clone(address), "state" => $name).set(is_so);
        )+};
    }
    set! {
        "up" if NodeState::Up,
        "down" if NodeState::Down { .. },
        "quarantined" if NodeState::Quarantined { .. },
        "clock_ahead" if NodeState::ClockAhead { .. },
        "refuses" if NodeState::Refuses { .. },
        "same_server" if NodeState::SameServer { .. },
        "evicts" if NodeState::Evicts { .. },
        "other_max_lease" if NodeState::OtherMaxLease { .. },
        "other_format" if NodeState::OtherFormat { .. },
    }
    if let Some(time) = round_trip {
        gauge!("redlock_node_round_trip_seconds", "node" => Arc::clone(address)).set(time);
    }
}

/// Tells the recorder, if there is one already, what the metrics mean.
fn describe() {
    describe_counter!("redlock_acquisitions_total", "Calls that asked for a lock");
    describe_counter!(
        "redlock_attempts_total",
        "Questions to the nodes for a lock"
    );
    describe_counter!(
        "redlock_handovers_total",
        "Locks that were handed over within the process"
    );
    describe_counter!("redlock_renewals_total", "Leases that were extended");
    describe_counter!(
        "redlock_losses_total",
        "Leases that ended under their holders"
    );
    describe_gauge!("redlock_waiting", "Calls that wait for a lock");
    describe_gauge!("redlock_held", "Sections that have their lock");
    describe_gauge!("redlock_node_state", "1 for the state that a node is in");
    describe_gauge!("redlock_nodes_voting", "Nodes that vote");
    describe_gauge!("redlock_quorum", "1 if a majority of nodes votes");
    let text = "Locks that are held and do not stand on all nodes";
    describe_gauge!("redlock_under_replicated", text);
    let text = "How long a call waited until it had its lock";
    describe_histogram!("redlock_wait_seconds", Unit::Seconds, text);
    let text = "How long a section had its lock";
    describe_histogram!("redlock_hold_seconds", Unit::Seconds, text);
    let text = "How long a node took for its last reply";
    describe_gauge!("redlock_node_round_trip_seconds", Unit::Seconds, text);
}
