//! Keys that are shared.

use super::*;

fn shared(mut request: Request) -> Request {
    match &mut request {
        Request::Acquire { mode, .. }
        | Request::Extend { mode, .. }
        | Request::PutBack { mode, .. }
        | Request::Release { mode, .. } => *mode = Mode::Shared,
        _ => panic!("{request:?} names no mode"),
    }
    request
}

fn read(owner: Owner) -> Request {
    shared(acquire(owner, Token(9), 1))
}

fn readers(model: &Model, millis: u64) -> Vec<Owner> {
    let now = at(millis).now;
    let live = model.parts("k", now).into_iter();
    let live = live.filter(|part| part.lives(now));
    live.filter_map(|part| part.owner).collect()
}

fn expiry(model: &Model, millis: u64) -> Option<Instant> {
    model.key("k", at(millis).now)?.expires
}

#[test]
fn a_key_takes_in_readers_and_no_writer_until_the_last_has_let_go() {
    let mut model = voting();
    assert_eq!(model.run(&read(US), at(0)), granted(9, false));
    assert_eq!(model.run(&read(THEM), at(1_000)), granted(10, false));
    let refused = model.run(&acquire(THIRD, Token(9), 1), at(2_000));
    assert_eq!(refused, held(Owner::READERS, Duration::from_secs(4)));
    assert!(!model.set_foreign(&"k".into(), "theirs", None, at(2_000).now));
    assert_eq!(model.run(&shared(release(US)), at(2_000)), Reply::Deleted);
    assert_eq!(model.run(&shared(release(US)), at(2_000)), Reply::NotOwner);
    assert_eq!(readers(&model, 2_000), [THEM]);
    assert_eq!(model.run(&shared(release(THEM)), at(2_000)), Reply::Deleted);
    assert_eq!(model.key("k", at(2_000).now), None);
    let granted = model.run(&acquire(THIRD, Token(9), 1), at(2_000));
    assert!(matches!(granted, Reply::Granted { .. }), "{granted:?}");
    let refused = model.run(&read(US), at(2_000));
    assert_eq!(refused, held(THIRD, TTL));
}

#[test]
fn a_late_request_of_a_reader_does_not_shorten_its_time() {
    let mut model = voting();
    model.run(&read(US), at(0));
    model.run(&shared(extend(US, 2 * TTL, None)), at(0));
    let late = model.run(&read(US), at(1_000));
    assert!(matches!(late, Reply::Held { .. }), "{late:?}");
    assert_eq!(expiry(&model, 1_000), Some(at(11_000).now));
}

#[test]
fn no_reader_lives_on_the_time_of_another() {
    let mut model = voting();
    model.run(&read(US), at(0));
    model.run(&read(THEM), at(3_000));
    assert_eq!(expiry(&model, 3_000), Some(at(8_000).now));
    let late = model.run(&shared(extend(US, TTL, None)), at(5_000));
    assert_eq!(late, Reply::NotOwner);
    assert_eq!(readers(&model, 5_000), [THEM]);
    let extended = model.run(&shared(extend(THEM, TTL, None)), at(5_000));
    assert_eq!(extended, self::extended(Duration::from_secs(3), None));
    assert_eq!(expiry(&model, 5_000), Some(at(11_000).now));
    // What has expired is no reader's any more, though it may still be in the list.
    assert_eq!(model.run(&shared(release(US)), at(5_000)), Reply::NotOwner);
}

#[test]
fn the_last_to_expire_keeps_the_key_and_a_release_never_prolongs_it() {
    let mut model = voting();
    model.run(&read(US), at(0));
    model.run(&read(THEM), at(3_000));
    model.run(&shared(release(THEM)), at(4_000));
    assert_eq!(expiry(&model, 4_000), Some(at(5_000).now));
}

#[test]
fn one_that_waits_to_have_the_key_alone_stops_new_readers_but_not_those_that_read() {
    let mut model = voting();
    let read = |owner| with_ticket(read(owner), (1, 0, 1_000), true);
    let count = |reply: &Reply| match reply {
        Reply::Held { ahead, .. } | Reply::Queued(ahead) => Some(ahead.count),
        _ => None,
    };
    model.run(&read(US), at(0));
    assert_eq!(count(&model.run(&ask(THEM, 1, 0, 1_000), at(0))), Some(0));
    // It has not gone because it has died, so nobody may pass it for that.
    for now in [1, 2, 9] {
        assert_eq!(count(&model.run(&read(THIRD), at(now))), Some(1));
    }
    let put_back = model.run(&shared(put_back(THIRD)), at(10));
    assert_eq!(put_back, Reply::PutBack);
    model.run(&shared(release(THIRD)), at(10));
    model.run(&shared(release(US)), at(11));
    assert_eq!(count(&model.run(&read(THIRD), at(11))), Some(1));
    assert_eq!(count(&model.run(&ask(THEM, 1, 11, 1_000), at(11))), None);
    model.run(&leave(THEM), at(12));
    for reader in [THIRD, US] {
        assert_eq!(count(&model.run(&read(reader), at(12))), None);
    }
}

#[test]
fn readers_that_wait_hinder_no_readers() {
    let mut model = voting();
    let read = |owner| with_ticket(read(owner), (1, 0, 1_000), true);
    model.run(&acquire(US, Token(9), 1), at(0));
    for reader in [THEM, THIRD] {
        let Reply::Held { ahead, .. } = model.run(&read(reader), at(0)) else {
            panic!("it is held");
        };
        assert_eq!(ahead, Ahead::default());
    }
    model.run(&release(US), at(0));
    assert_eq!(model.run(&read(US), at(0)), granted(10, false));
    assert_eq!(model.run(&read(THIRD), at(0)), granted(11, false));
}

#[test]
fn readers_and_owners_are_not_taken_for_each_other() {
    let mut model = voting();
    model.run(&read(US), at(0));
    for request in [extend(US, TTL, None), release(US)] {
        assert_eq!(model.run(&request, at(0)), Reply::NotOwner);
    }
    let watch = |owner| Request::Watch {
        key: "k".into(),
        owner,
    };
    assert_eq!(model.run(&watch(Some(US)), at(0)), Reply::Ours);
    let owner = Some(Owner::READERS);
    for other in [None, Some(THEM)] {
        assert_eq!(model.run(&watch(other), at(0)), Reply::Taken { owner });
    }
    model.run(&shared(release(US)), at(0));
    model.run(&acquire(US, Token(9), 1), at(0));
    for request in [extend(THEM, TTL, None), release(THEM)] {
        assert_eq!(model.run(&shared(request), at(0)), Reply::NotOwner);
    }
}

/// In one step, however long the key lives yet.
#[test]
fn an_owner_that_extends_its_key_as_a_reader_shares_it() {
    for later in [0, 1_000] {
        let mut model = voting();
        model.run(&acquire(US, Token(9), 1), at(0));
        let extended = model.run(&shared(extend(US, TTL, None)), at(later));
        assert!(matches!(extended, Reply::Extended { .. }), "{extended:?}");
        assert_eq!(model.run(&release(US), at(later)), Reply::NotOwner);
        assert!(matches!(
            model.run(&read(THEM), at(later)),
            Reply::Granted { .. }
        ));
        for owner in [US, THEM] {
            let released = model.run(&shared(release(owner)), at(later));
            assert_eq!(released, Reply::Deleted);
        }
    }
    let mut model = voting();
    model.run(&acquire(US, Token(9), 1), at(0));
    let released = model.run(&shared(release(US)), at(0));
    assert_eq!(released, Reply::Deleted, "it has not heard of it");
}
