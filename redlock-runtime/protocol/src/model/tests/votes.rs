//! Keys, tokens, and the longest key TTL.

use super::*;

#[test]
fn a_key_is_its_owners_until_it_is_released_or_expires() {
    let mut model = voting();
    assert_eq!(
        model.run(&acquire(US, Token(9), 1), at(0)),
        granted(9, false)
    );
    let refused = model.run(&acquire(THEM, Token(9), 1), at(4_000));
    assert_eq!(refused, held(US, Duration::from_secs(1)));
    assert_eq!(model.run(&release(THEM), at(4_000)), Reply::NotOwner);
    assert_eq!(model.run(&release(US), at(4_000)), Reply::Deleted);
    assert_eq!(model.run(&release(US), at(4_000)), Reply::NotOwner);

    assert_eq!(
        model.run(&acquire(THEM, Token(9), 1), at(6_000)),
        granted(10, false)
    );
    assert_eq!(
        model.run(&extend(THEM, TTL, None), at(11_000)),
        Reply::NotOwner
    );
    assert_eq!(
        model.run(&acquire(US, Token(9), 1), at(11_000)),
        granted(11, false)
    );
}

#[test]
fn a_key_that_is_to_stay_expires_at_the_time_that_was_named_and_never_later() {
    let keep = |owner, millis| Request::Release {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        keep: Some(Duration::from_millis(millis)),
        leaves: false,
    };
    let mut model = voting();
    model.run(&acquire(US, Token(9), 1), at(0));
    assert_eq!(model.run(&keep(THEM, 1), at(0)), Reply::NotOwner);
    assert_eq!(model.run(&keep(US, 3_000), at(1_000)), Reply::Kept);
    assert_eq!(model.run(&keep(US, 3_000), at(2_000)), Reply::Kept);
    let refused = model.run(&acquire(THEM, Token(9), 1), at(3_000));
    assert_eq!(refused, held(US, Duration::from_secs(1)));
    assert_eq!(model.run(&keep(US, 3_000), at(4_000)), Reply::NotOwner);
    assert_eq!(
        model.run(&acquire(THEM, Token(9), 1), at(4_000)),
        granted(10, false)
    );
}

#[test]
fn a_block_lies_above_all_that_the_counter_has_seen() {
    let mut model = voting();
    assert_eq!(
        model.run(&acquire(US, Token(9), 256), at(0)),
        granted(9, false)
    );
    let block = |proposal| {
        let length = 2;
        Some(BlockRequest { proposal, length })
    };
    let next = model.run(&extend(US, TTL, block(Token(0))), at(0));
    assert_eq!(next, extended(TTL, Some(Token(9 + 256))));
    let next = model.run(&extend(US, TTL, block(Token(1_000))), at(0));
    assert_eq!(next, extended(TTL, Some(Token(1_000))));
    assert_eq!(model.counter(stripe("k")), Token(1_001));
    let none = model.run(&extend(US, TTL, None), at(0));
    assert_eq!(none, extended(TTL, None));
}

#[test]
fn a_proposal_far_ahead_is_cut_back_to_whole_seconds_that_nodes_agree_on() {
    for millis in [0, 400, 999] {
        let mut model = voting();
        let far = acquire(US, micros(86_400_000), 1);
        assert_eq!(model.run(&far, at(millis)), granted(micros(5_000).0, false));
    }
    // A counter that stands there already vouches for the proposal.
    let mut model = voting();
    model.set_counter(stripe("k"), micros(5_000));
    let ahead = acquire(US, micros(7_000), 1);
    assert_eq!(model.run(&ahead, at(0)), granted(micros(7_000).0, false));
}

#[test]
fn a_poisoned_counter_silences_its_node_and_nothing_is_written() {
    for poison in [Token(Token::LARGEST.0 - 1), Token(u64::MAX)] {
        let mut model = voting();
        model.set_counter(stripe("k"), poison);
        let Reply::Refused {
            reason: crate::Rejection::Counter,
            message,
            is_untouched: true,
        } = model.run(&acquire(US, Token(9), 3), at(0))
        else {
            panic!("it is granted")
        };
        assert!(
            message.starts_with("REDLOCK counter beyond 2^52"),
            "{message}"
        );
        assert_eq!(model.key("k", at(0).now), None);
        assert_eq!(model.counter(stripe("k")), poison);
    }
    let mut model = voting();
    model.set_counter(stripe("k"), Token::HIGHEST_PLAUSIBLE);
    assert_eq!(
        model.run(&acquire(US, Token(9), 1), at(0)),
        granted(Token::HIGHEST_PLAUSIBLE.0 + 1, false)
    );
    // What holds no counter must not be taken for low.
    model.set_counter(3, Token(u64::MAX));
    let probed = model.run(&Request::Probe, at(0));
    assert!(matches!(probed, Reply::Refused { .. }), "{probed:?}");
}

#[test]
fn an_extension_never_shortens_and_writes_only_what_is_too_short() {
    let mut model = voting();
    model.run(&acquire(US, Token(9), 1), at(0));
    let expires = |model: &Model| model.key("k", at(0).now).unwrap().expires;
    assert_eq!(
        model.run(&extend(US, TTL, None), at(0)),
        extended(TTL, None)
    );
    assert_eq!(expires(&model), Some(at(5_000).now));
    let remaining = Duration::from_secs(4);
    assert_eq!(
        model.run(&extend(US, TTL, None), at(1_000)),
        extended(remaining, None)
    );
    assert_eq!(expires(&model), Some(at(7_000).now));
    // A key that never expires lives for long enough.
    let key = Key {
        owner: Some(US),
        expires: None,
    };
    model.set_key("k".into(), Some(key));
    assert_eq!(
        model.run(&extend(US, TTL, None), at(0)),
        Reply::Extended {
            remaining: None,
            first: None,
            has_remote_waiter: false
        }
    );
    assert_eq!(expires(&model), None);
}

#[test]
fn a_key_is_put_back_only_where_there_is_none() {
    let mut model = voting();
    assert_eq!(model.run(&put_back(US), at(0)), Reply::PutBack);
    assert_eq!(model.run(&put_back(US), at(1_000)), Reply::PutBack);
    assert_eq!(
        model.key("k", at(0).now).unwrap().expires,
        Some(at(5_000).now)
    );
    let refused = model.run(&put_back(THEM), at(1_000));
    assert_eq!(refused, held(US, Duration::from_secs(4)));
    assert_eq!(model.counter(stripe("k")), Token(0));
}

#[test]
fn votes_count_for_one_admission() {
    let mut model = voting();
    let votes = [
        acquire(US, Token(9), 1),
        extend(US, TTL, None),
        put_back(US),
    ];
    model.lose_memory();
    for vote in &votes {
        assert_eq!(model.run(vote, at(0)), Reply::NotAdmitted);
    }
    assert_eq!(model.keys(at(0).now).count(), 0);
}

#[test]
fn the_longest_ttl_is_kept_for_this_period_and_the_one_before() {
    let mut model = voting();
    let longest = |model: &Model, millis| model.record(at(millis)).longest;
    let vote = |model: &mut Model, seconds, millis| {
        model.set_key("k".into(), None);
        let mut request = acquire(US, micros(millis), 1);
        if let Request::Acquire { ttl, .. } = &mut request {
            *ttl = Duration::from_secs(seconds);
        }
        model.run(&request, at(millis));
    };
    assert_eq!(longest(&model, 0), Duration::ZERO);
    vote(&mut model, 50, 0);
    vote(&mut model, 5, 59_999);
    assert_eq!(longest(&model, 59_999), Duration::from_secs(50));
    vote(&mut model, 5, 60_000);
    assert_eq!(longest(&model, 119_999), Duration::from_secs(50));
    assert_eq!(longest(&model, 120_000), Duration::from_secs(5));
    vote(&mut model, 6, 120_000);
    assert_eq!(longest(&model, 120_000), Duration::from_secs(6));
    // Nothing is forgotten before another vote has begun a new period.
    assert_eq!(longest(&model, 1_000_000), Duration::from_secs(6));
    // A client whose clock is behind begins none.
    let mut behind = model.clone();
    behind.set_key("k".into(), None);
    behind.run(&acquire(US, micros(0), 1), at(1_000_000));
    assert_eq!(longest(&behind, 1_000_000), Duration::from_secs(6));
    // So what was voted for since the last period may be as long as that.
    vote(&mut model, 5, 1_000_000);
    assert_eq!(longest(&model, 1_059_999), Duration::from_secs(6));
    vote(&mut model, 5, 1_060_000);
    assert_eq!(longest(&model, 1_060_000), Duration::from_secs(5));
}

#[test]
fn an_extension_raises_the_longest_to_what_it_wrote() {
    let mut model = voting();
    model.run(&acquire(US, Token(9), 1), at(0));
    model.run(&extend(US, TTL, None), at(0));
    assert_eq!(model.record(at(0)).longest, TTL);
    model.run(&extend(US, TTL, None), at(1));
    assert_eq!(model.record(at(1)).longest, Duration::from_secs(6));
}

#[test]
fn clients_of_other_libraries_exclude_and_are_excluded() {
    let mut model = voting();
    let key: Arc<str> = "k".into();
    let now = at(0).now;
    assert!(model.set_foreign(&key, "theirs", None, now));
    assert!(!model.set_foreign(&key, "others", None, now));
    let refused = Reply::Held {
        owner: None,
        remaining: None,
        ahead: Ahead::default(),
    };
    assert_eq!(model.run(&acquire(US, Token(9), 1), at(0)), refused);
    let owner = None;
    let watch = Request::Watch { key, owner };
    assert_eq!(model.run(&watch, at(0)), Reply::Taken { owner });
    assert!(!model.delete_foreign("k", "others", now));
    assert!(model.delete_foreign("k", "theirs", now));
    assert_eq!(model.run(&watch, at(0)), Reply::Free);
    model.run(&acquire(US, Token(9), 1), at(0));
    assert!(!model.delete_foreign("k", "theirs", now));
}
