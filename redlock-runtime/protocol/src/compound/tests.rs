use super::*;

/// The keys of a section were extended in time, and the holder was told of it when its lease had ended.
#[test]
fn a_lease_that_has_ended_is_not_extended() {
    let mut compound = held();
    compound.on_extend(None);
    compound.take_steps();
    for (part, now) in [90, 91, 105].into_iter().enumerate() {
        assert!(compound.take_steps().is_empty());
        let deadline = at(now + 100);
        compound.on_answer(part, Answer::Extended { deadline }, None, at(now));
    }
    assert_eq!(steps(&mut compound).last().unwrap(), "expired");
}

/// Although renewals keep the keys.
#[test]
fn who_asks_for_more_hears_when_its_lease_ends_before_the_answer() {
    let mut compound = held();
    assert_eq!(compound.wakes_at(), None);
    compound.on_extend(None);
    assert_eq!(compound.wakes_at(), Some(at(100)));
    compound.take_steps();
    compound.on_time(at(99));
    assert!(compound.take_steps().is_empty());
    compound.on_time(at(100));
    assert_eq!(steps(&mut compound).last().unwrap(), "expired");
}

/// It is let go once the permits are had, and its lease says nothing of theirs.
#[test]
fn the_gate_makes_no_lease_shorter() {
    let (permits, weight) = (2, 2);
    let lock = Member {
        permits,
        weight,
        ..alone("a")
    };
    let mut compound = Compound::new(vec![lock], LockParams::of(LEASE), false, at(0));
    for (part, until) in [(0, 90), (1, 95), (2, 100)] {
        grant(&mut compound, part, until, 1);
    }
    let said = compound.take_steps().pop();
    let Some(Step::Answer(Answer::Granted { deadline, .. })) = said else {
        panic!("{said:?}");
    };
    assert_eq!(deadline, at(95));
}

/// A renewal that began while keys were collected, and is answered when the section has begun.
#[test]
fn who_does_not_renew_hears_when_its_lease_ends_although_its_keys_are_kept() {
    let mut compound = held();
    for part in 0..3 {
        let deadline = at(150);
        compound.on_answer(part, Answer::Extended { deadline }, None, at(50));
    }
    assert!(compound.take_steps().is_empty());
    assert_eq!(compound.wakes_at(), Some(at(100)));
}

/// Rounds do not agree.
#[test]
fn tokens_that_never_rise_are_given_up() {
    let mut compound = asked(Duration::ZERO);
    let deadline = at(100);
    for (part, token) in [Token(1), Token(9), Token(9)].into_iter().enumerate() {
        let attempts = 1;
        let granted = Answer::Granted {
            deadline,
            token,
            attempts,
        };
        compound.on_answer(part, granted, Some(token), at(1));
    }
    let mut raises = 0;
    while compound.is_open() {
        raises += 1;
        assert!(raises < 100);
        compound.on_answer(0, Answer::Extended { deadline }, Some(Token(2)), at(1));
    }
    let said = compound.take_steps().pop();
    assert!(matches!(said, Some(Step::Answer(Answer::Refused(_)))));
}

const LEASE: Duration = Duration::from_millis(100);

fn alone(key: &str) -> Member {
    Member::alone(key.into())
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000 * millis)
}

/// Asked for at 0, with so long to wait.
fn asked(wait: Duration) -> Compound {
    let params = LockParams {
        wait,
        ..LockParams::of(LEASE)
    };
    let mut compound = Compound::new(["a", "b", "c"].map(alone).into(), params, false, at(0));
    assert_eq!(steps(&mut compound), ["ask 0", "ask 1", "ask 2"]);
    compound
}

fn held() -> Compound {
    let mut compound = asked(Duration::ZERO);
    for part in 0..3 {
        grant(&mut compound, part, 100, 1);
    }
    let [begin, stop] =
        ["begin", "stop"].map(|what| [0, 1, 2].map(|part| format!("{what} {part}")));
    let expected = [&begin[..], &stop[..], &["granted".to_owned()]];
    assert_eq!(steps(&mut compound), expected.concat());
    compound
}

/// One of the keys is had until then.
fn grant(compound: &mut Compound, part: usize, until: u64, now: u64) {
    let granted = Answer::Granted {
        deadline: at(until),
        token: Token(1),
        attempts: 1,
    };
    compound.on_answer(part, granted, Some(Token(1)), at(now));
}

fn refuse(compound: &mut Compound, part: usize, now: u64) {
    let refusal = Refusal {
        attempts: 1,
        ..Refusal::CONTENDED
    };
    compound.on_answer(part, Answer::Refused(refusal), None, at(now));
}

fn not_extended(compound: &mut Compound, part: usize, now: u64) {
    let verdicts = Vec::new();
    compound.on_answer(part, Answer::NotExtended { verdicts }, None, at(now));
}

/// What it wants done, in short.
fn steps(compound: &mut Compound) -> Vec<String> {
    let text = |step| match step {
        Step::Tell(part, Word::Ask(params)) if params.wait <= ONE_ATTEMPT => format!("ask {part}"),
        Step::Tell(part, Word::Ask(params)) => format!("wait {:?} for {part}", params.wait),
        Step::Tell(part, what) => match what {
            Word::End { .. } => format!("end {part}"),
            Word::Extend { .. } => format!("extend {part}"),
            Word::Begin { .. } => format!("begin {part}"),
            Word::StopRenewing => format!("stop {part}"),
            Word::Ask(_) => unreachable!(),
        },
        Step::Answer(answer) => match answer {
            Answer::Granted { .. } => "granted".into(),
            Answer::Refused(refusal) => {
                let key = refusal.key.unwrap_or_default();
                format!("refused {key} after {}", refusal.attempts)
            }
            Answer::Extended { .. } => "extended".into(),
            Answer::NotExtended { .. } => "not extended".into(),
            Answer::Over(Loss::Expired { .. }) => "expired".into(),
            Answer::Released(release) => format!("{release:?}"),
            other => panic!("{other:?}"),
        },
    };
    compound.take_steps().into_iter().map(text).collect()
}

#[test]
fn a_release_is_what_the_worst_of_its_parts_is() {
    use Release::{AlreadyExpired, Released, Unknown};
    for (parts, all) in [
        ([Released, Released, Released], Released),
        ([Released, Unknown, Released], Unknown),
        ([Unknown, AlreadyExpired, Released], AlreadyExpired),
        ([AlreadyExpired, Unknown, Released], AlreadyExpired),
    ] {
        let mut compound = held();
        compound.on_end(true, at(2));
        assert_eq!(steps(&mut compound), ["end 0", "end 1", "end 2"]);
        for (part, release) in parts.into_iter().enumerate() {
            assert!(!compound.is_ended() && steps(&mut compound).is_empty());
            compound.on_answer(part, Answer::Released(release), None, at(3));
        }
        assert_eq!(steps(&mut compound), [format!("{all:?}")]);
        assert!(compound.is_ended());
    }
}

/// The others have not begun to wait.
#[test]
fn who_does_not_wait_asks_once() {
    let mut compound = asked(Duration::ZERO);
    grant(&mut compound, 0, 100, 1);
    refuse(&mut compound, 1, 1);
    assert_eq!(
        steps(&mut compound),
        ["end 0", "end 2", "refused b after 2"]
    );
}

#[test]
fn who_is_refused_waits_for_one_key_after_the_other_and_keeps_those_before() {
    let mut compound = asked(LEASE);
    refuse(&mut compound, 2, 1);
    assert!(
        steps(&mut compound).is_empty(),
        "those before it come first"
    );
    grant(&mut compound, 0, 100, 1);
    refuse(&mut compound, 1, 1);
    assert_eq!(steps(&mut compound), ["wait 99ms for 1"]);
    grant(&mut compound, 1, 130, 30);
    assert_eq!(steps(&mut compound), ["wait 70ms for 2"]);
    grant(&mut compound, 2, 156, 56);
    let text = steps(&mut compound);
    assert_eq!(text, ["extend 0", "extend 1"], "most of the lease is over");
    for part in 0..2 {
        let deadline = at(157);
        compound.on_answer(part, Answer::Extended { deadline }, None, at(57));
    }
    assert_eq!(steps(&mut compound).last().unwrap(), "granted");
}

#[test]
fn who_has_asked_for_a_longer_lease_hears_once_that_there_is_none() {
    let mut compound = held();
    not_extended(&mut compound, 0, 40);
    assert!(steps(&mut compound).is_empty(), "a renewal has failed");
    compound.on_extend(None);
    assert_eq!(steps(&mut compound), ["extend 0", "extend 1", "extend 2"]);
    not_extended(&mut compound, 1, 50);
    assert_eq!(steps(&mut compound), ["not extended"]);
    not_extended(&mut compound, 2, 50);
    assert!(steps(&mut compound).is_empty());
}

/// Otherwise nobody would hear while several tasks ask for more one after the other.
#[test]
fn who_asks_while_an_extension_is_under_way_shares_its_answer_unless_it_wants_more() {
    let mut compound = held();
    let extended = |compound: &mut Compound, part| {
        let deadline = at(140);
        compound.on_answer(part, Answer::Extended { deadline }, None, at(50));
        steps(compound)
    };
    let all = ["extend 0", "extend 1", "extend 2"];
    let ask = |compound: &mut Compound, length| {
        let guard_band = Duration::ZERO;
        compound.on_extend(Some(LeaseParams { length, guard_band }));
        steps(compound)
    };
    assert_eq!(ask(&mut compound, LEASE / 2), all);
    assert!(extended(&mut compound, 0).is_empty());
    assert_eq!(ask(&mut compound, LEASE), all, "for more than before");
    assert!(extended(&mut compound, 0).is_empty());
    assert!(extended(&mut compound, 1).is_empty());
    compound.on_extend(None);
    assert!(ask(&mut compound, LEASE / 2).is_empty());
    assert!(steps(&mut compound).is_empty());
    assert_eq!(extended(&mut compound, 2), ["extended"]);
    assert_eq!(ask(&mut compound, LEASE / 2), all, "the last one is over");
}

/// That the old deadline stands would not be true.
#[test]
fn who_was_not_extended_in_time_hears_that_the_lease_is_over() {
    let mut compound = asked(Duration::ZERO);
    for (part, until) in [(0, 100), (1, 120), (2, 120)] {
        grant(&mut compound, part, until, 1);
    }
    compound.on_extend(None);
    compound.take_steps();
    not_extended(&mut compound, 1, 100);
    assert_eq!(steps(&mut compound).last().unwrap(), "expired");
}
