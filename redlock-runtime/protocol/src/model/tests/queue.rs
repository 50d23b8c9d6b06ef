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
                grace: Duration::from_millis(3)
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
    assert_eq!(third, Reply::Queued(Ahead { count: 1, grace }));
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
fn those_ahead_have_their_time_and_lose_their_places_then() {
    let mut model = with_two_waiters();
    model.run(&leave(US), at(300));
    let third = |waited| ask(THIRD, 1, waited, 1_000);
    for (now, left) in [(310, 3), (311, 2), (312, 1)] {
        let grace = Duration::from_millis(left);
        let queued = Reply::Queued(Ahead { count: 1, grace });
        assert_eq!(model.run(&third(now - 200), at(now)), queued);
    }
    assert!(is_granted(&model.run(&third(113), at(313))));
    assert_eq!(model.places("k").len(), 1, "that of THIRD");
    // Who is alive comes back with its time of arrival.
    assert_eq!(ahead(&model.run(&ask(THEM, 1, 214, 1_000), at(314))), 0);
}

#[test]
fn those_ahead_have_their_time_anew_each_time_the_lock_becomes_free() {
    let mut model = with_two_waiters();
    model.run(&leave(US), at(300));
    let third = ask(THIRD, 1, 100, 1_000);
    assert_eq!(ahead(&model.run(&third, at(300))), 1);
    assert!(is_granted(&model.run(&ask(US_AGAIN, 2, 900, 0), at(301))));
    model.run(&leave(US_AGAIN), at(310));
    assert_eq!(ahead(&model.run(&third, at(310))), 1);
    assert_eq!(ahead(&model.run(&third, at(312))), 1);
    // A barging caller has it meanwhile, and nobody asks.
    let barges = with_ticket(acquire(US_AGAIN, Token(9), 1), (3, 0, 0), false);
    assert!(is_granted(&model.run(&barges, at(312))));
    assert_eq!(ahead(&model.run(&third, at(313))), 1);
    model.run(&release(US_AGAIN), at(320));
    assert_eq!(ahead(&model.run(&third, at(320))), 1);
}

#[test]
fn a_clock_that_is_set_back_gives_those_ahead_their_time() {
    let mut model = with_two_waiters();
    model.run(&leave(US), at(900));
    let third = ask(THIRD, 1, 100, 1_000);
    assert_eq!(ahead(&model.run(&third, at(900))), 1);
    assert_eq!(ahead(&model.run(&third, at(400))), 1);
    assert_eq!(ahead(&model.run(&third, at(402))), 1);
    assert!(is_granted(&model.run(&third, at(403))));
}

#[test]
fn who_does_not_ask_in_order_takes_no_place_away() {
    let mut model = with_two_waiters();
    model.run(&leave(US), at(300));
    let barges = with_ticket(acquire(US_AGAIN, Token(9), 1), (1, 0, 1_000), false);
    assert!(is_granted(&model.run(&barges, at(300))));
    assert_eq!(model.places("k").len(), 2, "those of THEM and THIRD");
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

#[test]
fn a_slot_is_left_to_a_process_until_it_has_released_it_and_no_longer() {
    let mut model = voting();
    let stand = |owner| Request::Stand {
        key: line_key("k"),
        owner,
        permits: 1,
        start: 0,
        ticket: Ticket {
            came: 1,
            waited: Duration::ZERO,
            lasts: Duration::from_secs(60),
            grace: Duration::from_millis(3),
            is_ordered: true,
        },
    };
    let turn = |has_remote_waiter| Reply::Turn {
        slot: 0,
        has_remote_waiter,
    };
    assert_eq!(model.run(&stand(US), at(0)), turn(false));
    assert!(matches!(model.run(&stand(THEM), at(1)), Reply::Full { .. }));
    let release = Request::Release {
        key: slot_key("k", 0),
        owner: US,
        mode: Mode::Exclusive,
        keep: None,
        leaves: true,
    };
    model.run(&release, at(1));
    assert_eq!(model.run(&stand(THEM), at(1)), turn(false));
}
