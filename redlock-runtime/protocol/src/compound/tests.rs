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
    compound.on_answer(0, granted.clone(), None, (now, 0));
    compound.on_answer(1, granted, None, (now, 0));
    compound.on_extend();
    let verdicts = Vec::new();
    compound.on_answer(0, Answer::Over(Loss::Lost { verdicts }), None, (now, 0));
    compound.take_steps();
    let verdicts = Vec::new();
    compound.on_answer(1, Answer::NotExtended { verdicts }, None, (now, 0));
    assert!(compound.take_steps().is_empty());
}
