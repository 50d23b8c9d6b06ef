//! The queue.

use super::*;

fn ahead(reply: &Reply) -> u32 {
    match reply {
        Reply::Held { ahead, .. } | Reply::Queued(ahead) => ahead.count,
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
            ahead: Ahead {
                count: 0,
                grace: Duration::from_millis(3),
                first: at(0).wall_micros / 1_000
            }
        }
    );
    assert_eq!(ahead(&model.run(&ask(THIRD, 1, 0, 60_000), at(200))), 1);
    model
}

#[test]
fn a_free_lock_is_for_the_process_that_came_first() {
    let mut model = with_two_waiters();
    model.run(&leave(US), at(300));
    let third = model.run(&ask(THIRD, 1, 100, 60_000), at(300));
    let grace = Duration::from_millis(3);
    let (count, first) = (1, at(100).wall_micros / 1_000);
    assert_eq!(
        third,
        Reply::Queued(Ahead {
            count,
            grace,
            first
        })
    );
    assert_eq!(ahead(&model.run(&ask(US_AGAIN, 2, 0, 60_000), at(300))), 2);
    assert!(is_granted(&model.run(&ask(THEM, 1, 200, 60_000), at(301))));
    model.run(&leave(THEM), at(302));
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
    model.run(&leave(US), at(300));
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
    model.run(&leave(US), at(2));
    assert_eq!(ahead(&model.run(&ask(THIRD, 1, 8, 60_000), at(9))), 1);
    assert!(is_granted(&model.run(&ask(THIRD, 1, 9, 60_000), at(10))));
}

#[test]
fn a_caller_that_does_not_wait_takes_no_place_and_passes_nobody() {
    let mut model = with_two_waiters();
    model.run(&ask(US_AGAIN, 2, 0, 0), at(250));
    model.run(&leave(US), at(300));
    assert_eq!(ahead(&model.run(&ask(US_AGAIN, 3, 0, 0), at(300))), 2);
    assert!(is_granted(&model.run(&ask(THEM, 1, 200, 0), at(300))));
}

#[test]
fn who_may_pass_goes_first_and_those_that_were_passed_lose_their_places() {
    let mut model = with_two_waiters();
    model.run(&leave(US), at(300));
    let pass = |owner, waited, passes| {
        with_ticket(acquire(owner, Token(9), 1), (1, waited, 1_000), passes)
    };
    let first = at(100).wall_micros / 1_000;
    let other = pass(US_AGAIN, 0, Some(first + 1));
    assert_eq!(ahead(&model.run(&other, at(300))), 2);
    let third = pass(THIRD, 100, Some(first));
    assert!(is_granted(&model.run(&third, at(300))));
    assert_eq!(model.places("k").len(), 2, "those of US_AGAIN and THIRD");
    // Who is alive comes back with its time of arrival.
    assert_eq!(ahead(&model.run(&ask(THEM, 1, 201, 1_000), at(301))), 0);
    model.run(&leave(THIRD), at(302));
    // Who does not ask in order takes nobody's place.
    assert!(is_granted(&model.run(&pass(US_AGAIN, 0, None), at(302))));
    assert_eq!(model.places("k").len(), 1, "that of THEM");
}

#[test]
fn a_holder_hears_that_others_wait() {
    let waited_for = |reply| match reply {
        Reply::Granted {
            has_remote_waiter, ..
        }
        | Reply::Extended {
            has_remote_waiter, ..
        } => has_remote_waiter,
        reply => panic!("{reply:?}"),
    };
    let mut model = with_two_waiters();
    let extend = |owner| extend(owner, Duration::ZERO, None);
    assert!(waited_for(model.run(&extend(US), at(300))));
    model.run(&leave(US), at(300));
    assert!(waited_for(model.run(&ask(THEM, 1, 200, 1_000), at(300))));
    model.run(&leave(THEM), at(301));
    assert!(!waited_for(model.run(&ask(THIRD, 1, 101, 1_000), at(301))));
    assert!(!waited_for(model.run(&extend(THIRD), at(302))));
    assert_eq!(ahead(&model.run(&ask(US, 9, 0, 10), at(302))), 0);
    assert!(waited_for(model.run(&extend(THIRD), at(1_301))));
    assert!(!waited_for(model.run(&extend(THIRD), at(1_302))));
}

#[test]
fn a_clock_that_is_set_back_keeps_no_place_for_long() {
    let mut model = voting();
    let later = 86_400_000;
    model.run(&ask(THEM, 1, 0, 60_000), at(later));
    model.run(&ask(THIRD, 1, 0, 60_000), at(later + 1));
    model.run(&leave(THEM), at(later + 1));
    assert!(is_granted(&model.run(&ask(US, 1, 0, 60_000), at(0))));
}

#[test]
fn whoever_does_not_queue_passes_those_who_do() {
    let mut model = with_two_waiters();
    model.run(&leave(US), at(300));
    assert!(is_granted(
        &model.run(&acquire(US_AGAIN, Token(9), 1), at(300))
    ));
}
