//! The queue of a fair lock.

use super::*;

/// Asks for a waiter that has waited for so many milliseconds, and waits for so many more.
fn ask(owner: Owner, waiter: u64, waited: u64, patience: u64) -> Request {
    let mut request = acquire(owner, Token(9), 1);
    if let Request::Acquire { ticket, .. } = &mut request {
        *ticket = Some(Ticket {
            waiter: SectionId(waiter),
            waited: Duration::from_millis(waited),
            patience: Duration::from_millis(patience),
        });
    }
    request
}

fn ahead(reply: &Reply) -> u32 {
    match reply {
        Reply::Held { ahead, .. } => *ahead,
        reply => panic!("{reply:?}"),
    }
}

fn is_granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Granted { .. })
}

/// A node on which US has the lock, and THEM and then THIRD have asked for it.
fn with_two_waiters() -> Model {
    let mut model = voting();
    assert!(is_granted(&model.run(&ask(US, 1, 0, 60_000), at(0))));
    let them = model.run(&ask(THEM, 1, 0, 60_000), at(100));
    assert_eq!(
        them,
        Reply::Held {
            owner: Some(US),
            remaining: Some(Duration::from_millis(4_900)),
            ahead: 0
        }
    );
    assert_eq!(ahead(&model.run(&ask(THIRD, 1, 0, 60_000), at(200))), 1);
    model
}

#[test]
fn a_free_lock_is_for_the_process_that_came_first() {
    let mut model = with_two_waiters();
    model.run(&release(US), at(300));
    let third = model.run(&ask(THIRD, 1, 100, 60_000), at(300));
    assert_eq!(
        third,
        Reply::Held {
            owner: None,
            remaining: Some(Duration::from_millis(800)),
            ahead: 1
        }
    );
    assert_eq!(ahead(&model.run(&ask(US_AGAIN, 2, 0, 60_000), at(300))), 2);
    assert!(is_granted(&model.run(&ask(THEM, 1, 200, 60_000), at(301))));
    model.run(&release(THEM), at(302));
    assert!(is_granted(&model.run(&ask(THIRD, 1, 102, 60_000), at(302))));
}

#[test]
fn who_has_waited_longer_elsewhere_comes_first() {
    let mut model = with_two_waiters();
    assert_eq!(
        ahead(&model.run(&ask(US_AGAIN, 2, 150, 60_000), at(300))),
        1
    );
    model.run(&release(US), at(300));
    assert_eq!(ahead(&model.run(&ask(THIRD, 1, 100, 60_000), at(300))), 2);
}

#[test]
fn a_waiter_keeps_its_time_of_arrival_and_the_next_one_of_its_process_does_not() {
    let mut model = with_two_waiters();
    assert_eq!(ahead(&model.run(&ask(THIRD, 1, 9_000, 60_000), at(300))), 1);
    assert_eq!(ahead(&model.run(&ask(THIRD, 2, 9_000, 60_000), at(300))), 0);
}

#[test]
fn a_place_ends_if_its_process_does_not_ask_again() {
    let mut model = with_two_waiters();
    model.run(&release(US), at(300));
    assert_eq!(ahead(&model.run(&ask(THIRD, 1, 899, 60_000), at(1_099))), 1);
    assert!(is_granted(
        &model.run(&ask(THIRD, 1, 900, 60_000), at(1_100))
    ));
}

#[test]
fn a_place_lasts_no_longer_than_its_waiter_waits() {
    let mut model = voting();
    model.run(&ask(US, 1, 0, 0), at(0));
    model.run(&ask(THEM, 1, 0, 10), at(0));
    model.run(&ask(THIRD, 1, 0, 60_000), at(1));
    model.run(&release(US), at(2));
    assert_eq!(ahead(&model.run(&ask(THIRD, 1, 8, 60_000), at(9))), 1);
    assert!(is_granted(&model.run(&ask(THIRD, 1, 9, 60_000), at(10))));
}

#[test]
fn a_caller_that_does_not_wait_takes_no_place_and_passes_nobody() {
    let mut model = with_two_waiters();
    model.run(&ask(US_AGAIN, 2, 0, 0), at(250));
    model.run(&release(US), at(300));
    assert_eq!(ahead(&model.run(&ask(US_AGAIN, 3, 0, 0), at(300))), 2);
    assert!(is_granted(&model.run(&ask(THEM, 1, 200, 0), at(300))));
}

#[test]
fn a_process_that_leaves_keeps_nobody_waiting() {
    let mut model = with_two_waiters();
    model.run(&release(US), at(300));
    let leave = Request::Place {
        key: "k".into(),
        process: THEM.process(),
        ticket: None,
    };
    assert_eq!(model.run(&leave, at(300)), Reply::Placed);
    assert_eq!(model.run(&leave, at(300)), Reply::Placed);
    assert!(is_granted(&model.run(&ask(THIRD, 1, 100, 60_000), at(300))));
}

#[test]
fn a_place_can_be_taken_while_the_key_is_held() {
    let mut model = with_two_waiters();
    model.run(&release(US), at(300));
    assert!(is_granted(&model.run(&ask(THEM, 1, 200, 60_000), at(300))));
    let place = Request::Place {
        key: "k".into(),
        process: THEM.process(),
        ticket: Some(Ticket {
            waiter: SectionId(1),
            waited: Duration::from_millis(201),
            patience: Duration::from_secs(60),
        }),
    };
    assert_eq!(model.run(&place, at(301)), Reply::Placed);
    model.run(&release(THEM), at(301));
    assert_eq!(ahead(&model.run(&ask(THIRD, 1, 101, 60_000), at(301))), 1);
    assert!(is_granted(&model.run(&ask(THEM, 1, 202, 60_000), at(302))));
}

#[test]
fn a_clock_that_is_set_back_keeps_no_place_for_long() {
    let mut model = voting();
    let later = 86_400_000;
    model.run(&ask(THEM, 1, 0, 60_000), at(later));
    model.run(&ask(THIRD, 1, 0, 60_000), at(later + 1));
    model.run(&release(THEM), at(later + 1));
    assert!(is_granted(&model.run(&ask(US, 1, 0, 60_000), at(0))));
}

#[test]
fn whoever_does_not_queue_passes_those_who_do() {
    let mut model = with_two_waiters();
    model.run(&release(US), at(300));
    assert!(is_granted(
        &model.run(&acquire(US_AGAIN, Token(9), 1), at(300))
    ));
}
