//! A node as the protocol models it.

use std::time::Duration;

use redlock_protocol::{
    AdmissionId, Evidence, Instant, LossId, Reply, Request, Token,
    model::{Model, Moment},
};

pub(crate) const NOW: Moment = Moment {
    now: Instant::from_nanos(1_000_000_000_000),
    wall_micros: 1_700_000_000_000_000,
};

pub(crate) const ADMISSION: AdmissionId = AdmissionId(1);

/// One that has nothing and votes.
pub(crate) fn voting() -> Model {
    let mut model = Model::new(None);
    let (server, max_ttl, loss) = (None, Duration::from_secs(60), LossId(1));
    let report = Request::ReportLoss {
        server: None,
        loss,
        beside_marker: false,
        max_ttl,
    };
    model.run(&report, NOW);
    let wait = Duration::ZERO;
    let admit = Request::Admit {
        server,
        evidence: Evidence::Waited { loss, wait },
        admission: ADMISSION,
        floor: Token(0),
        wall_micros: 0,
        is_durable: false,
        max_ttl,
    };
    assert!(matches!(model.run(&admit, NOW), Reply::Admitted { .. }));
    model
}
