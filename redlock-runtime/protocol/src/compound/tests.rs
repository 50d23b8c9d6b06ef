use super::*;

#[test]
fn nothing_follows_the_end_of_a_lease() {
    let now = Instant::from_nanos(0);
    let params = LockParams::of(Duration::from_secs(1));
    let mut compound = Compound::new(vec!["a".into(), "b".into()], params, now);
    let granted = Answer::Granted {
        deadline: now.after(params.lease),
        token: Token(1),
        attempts: 1,
    };
    compound.on_answer(0, granted.clone(), None, now);
    compound.on_answer(1, granted, None, now);
    compound.on_extend();
    let verdicts = Vec::new();
    compound.on_answer(0, Answer::Over(Loss::Lost { verdicts }), None, now);
    compound.take_steps();
    let verdicts = Vec::new();
    compound.on_answer(1, Answer::NotExtended { verdicts }, None, now);
    assert!(compound.take_steps().is_empty());
}

/// The keys of a section were extended in time, and the holder was told of it when its lease had ended.
#[test]
fn a_lease_that_has_ended_is_not_extended() {
    let at = |millis: u64| Instant::from_nanos(1_000_000 * millis);
    let keys = vec!["a".into(), "b".into()];
    let mut compound = Compound::new(keys, LockParams::of(Duration::from_millis(100)), at(0));
    let mut hears = |now, part, answer| {
        compound.on_answer(part, answer, Some(Token(1)), at(now));
    };
    for (part, deadline) in [at(100), at(110)].into_iter().enumerate() {
        let granted = Answer::Granted {
            deadline,
            token: Token(1),
            attempts: 1,
        };
        hears(1, part, granted);
    }
    compound.on_extend();
    let mut hears = |now, part, deadline| {
        let answer = Answer::Extended { deadline };
        compound.on_answer(part, answer, None, at(now));
        let answers = compound.take_steps().into_iter();
        let answers = answers.filter_map(|step| match step {
            Step::Answer(answer) => Some(answer),
            _ => None,
        });
        answers.last()
    };
    assert!(matches!(
        hears(90, 0, at(190)),
        Some(Answer::Granted { .. })
    ));
    let verdicts = Vec::new();
    let over = Answer::Over(Loss::Expired { verdicts });
    assert_eq!(hears(105, 1, at(205)), Some(over));
}

/// The keys live on: one of them was extended, and the other one was not.
#[test]
fn who_lets_go_after_its_lease_hears_that_it_was_over() {
    let at = |millis: u64| Instant::from_nanos(1_000_000 * millis);
    for (now, release) in [(99, None), (100, Some(Release::AlreadyExpired))] {
        let keys = vec!["a".into(), "b".into()];
        let mut compound = Compound::new(keys, LockParams::of(Duration::from_millis(100)), at(0));
        for part in 0..2 {
            let granted = Answer::Granted {
                deadline: at(100),
                token: Token(1),
                attempts: 1,
            };
            compound.on_answer(part, granted, Some(Token(1)), at(1));
        }
        compound.take_steps();
        compound.on_end(true, at(now));
        let answers = compound.take_steps().into_iter();
        let mut answers = answers.filter_map(|step| match step {
            Step::Answer(answer) => Some(answer),
            _ => None,
        });
        assert_eq!(answers.next(), release.map(Answer::Released));
    }
}

/// Rounds do not agree.
#[test]
fn tokens_that_never_rise_are_given_up() {
    let now = Instant::from_nanos(0);
    let params = LockParams::of(Duration::from_secs(1));
    let mut compound = Compound::new(vec!["a".into(), "b".into()], params, now);
    let deadline = now.after(params.lease);
    for (part, token) in [Token(1), Token(9)].into_iter().enumerate() {
        let attempts = 1;
        let granted = Answer::Granted {
            deadline,
            token,
            attempts,
        };
        compound.on_answer(part, granted, Some(token), now);
    }
    let mut raises = 0;
    while compound.is_open() {
        raises += 1;
        assert!(raises < 100);
        compound.on_answer(0, Answer::Extended { deadline }, Some(Token(2)), now);
    }
    assert!(matches!(
        compound.take_steps().pop(),
        Some(Step::Answer(Answer::Refused(_)))
    ));
}
