//! Losses, evidence, and markers.

use super::*;

#[test]
fn a_node_votes_again_no_sooner_than_the_evidence_says() {
    let mut model = voting();
    model.run(&acquire(US, Token(900), 1), at(0));
    model.lose_memory();
    let noted = record(model.run(&report("a", LOSS), at(1_000)));
    let loss = noted.loss.unwrap();
    assert_eq!(
        (loss.id, loss.is_unflushed, loss.age),
        (LOSS, false, Duration::ZERO)
    );
    // The first report stands.
    let noted = record(model.run(&report("a", LossId(9)), at(1_500)));
    assert_eq!(noted.loss.unwrap().id, LOSS);
    assert_eq!(noted.loss.unwrap().age, Duration::from_millis(500));

    let mut admit = admit("a", waited(1_000));
    if let Request::Admit { floor, .. } = &mut admit {
        *floor = Token(900);
    }
    assert_eq!(
        record(model.run(&admit, at(1_999))),
        model.record(at(1_999))
    );
    let admission = ADMISSION;
    assert_eq!(model.run(&admit, at(2_000)), Reply::Admitted { admission });
    let votes = record(model.run(&Request::Probe, at(2_000)));
    assert_eq!((votes.loss, votes.top), (None, Token(900)));
    assert_eq!(
        model.run(&acquire(US, Token(0), 1), at(2_000)),
        granted(901, false)
    );
}

#[test]
fn evidence_of_another_loss_is_worth_nothing() {
    let mut model = Model::new(name("a"));
    model.run(&report("a", LossId(9)), at(0));
    let reply = model.run(&admit("a", waited(0)), at(100_000));
    assert_eq!(record(reply).loss.unwrap().id, LossId(9));
}

#[test]
fn of_first_starts_the_longest_wait_counts() {
    let mut model = Model::new(name("a"));
    model.run(&report("a", LOSS), at(0));
    let first_start = |millis| {
        let wait = Duration::from_millis(millis);
        admit("a", Evidence::FirstStart { loss: LOSS, wait })
    };
    for (wait, noted, now) in [(500, 500, 0), (700, 700, 0), (500, 700, 699)] {
        let reply = record(model.run(&first_start(wait), at(now)));
        let noted = Duration::from_millis(noted);
        assert_eq!(reply.loss.unwrap().first_start, Some(noted));
    }
    let reply = model.run(&first_start(500), at(700));
    assert!(matches!(reply, Reply::Admitted { .. }), "{reply:?}");
}

#[test]
fn the_marker_of_another_process_is_a_loss_unless_all_was_on_disk() {
    let mut model = voting();
    model.run(&acquire(US, Token(900), 1), at(0));
    model.restart(name("b"));
    let mut durable = model.clone();

    let noted = record(model.run(&report("b", LossId(9)), at(0)));
    assert_eq!(noted.marker, None);
    assert!(noted.loss.unwrap().is_unflushed);
    assert_eq!(noted.top, Token(900));

    let evidence = |admission| admit("b", Evidence::Durable { admission });
    let reply = durable.run(&evidence(AdmissionId(6)), at(0));
    assert_eq!(record(reply).marker.unwrap().server, name("a"));
    let reply = durable.run(&evidence(ADMISSION), at(0));
    assert!(matches!(reply, Reply::Admitted { .. }), "{reply:?}");
    let record = durable.record(at(0));
    assert_eq!(record.marker.unwrap().server, name("b"));
    assert_eq!((record.top, record.longest), (Token(900), TTL));
}

#[test]
fn a_marker_stands_for_who_cannot_tell_processes_apart() {
    let mut model = voting();
    let Request::ReportLoss {
        loss,
        beside_marker,
        max_ttl,
        ..
    } = report("a", LossId(9))
    else {
        unreachable!()
    };
    let blind = Request::ReportLoss {
        server: None,
        loss,
        beside_marker,
        max_ttl,
    };
    assert!(record(model.run(&blind, at(0))).marker.is_some());
    let mut request = admit("a", waited(0));
    if let Request::Admit {
        server, admission, ..
    } = &mut request
    {
        *server = None;
        *admission = AdmissionId(1);
    }
    let admission = ADMISSION;
    assert_eq!(model.run(&request, at(0)), Reply::Admitted { admission });
}

#[test]
fn a_loss_that_comes_back_with_old_data_says_nothing() {
    let mut model = Model::new(name("a"));
    model.run(&report("a", LOSS), at(0));
    let mut old = model.clone();
    let reply = model.run(&admit("a", waited(0)), at(60_000));
    assert!(matches!(reply, Reply::Admitted { .. }), "{reply:?}");
    model.run(&acquire(US, Token(9), 1), at(60_000));

    old.restart(name("b"));
    assert_eq!(record(old.run(&Request::Probe, at(60_001))).loss, None);
    let reply = old.run(&admit("b", waited(60_000)), at(60_001));
    assert_eq!(record(reply).marker, None);
    let noted = record(old.run(&report("b", LossId(9)), at(60_001)));
    assert_eq!(noted.loss.unwrap().age, Duration::ZERO);
}
