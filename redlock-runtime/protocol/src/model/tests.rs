//! What a node must do that neither requests at random (`node/tests/random` of the runtime) nor the suite come to.

use std::{sync::Arc, time::Duration};

use super::{Model, Moment};
use crate::{
    line_key,
    message::{
        Act, AdmissionId, Ahead, BlockRequest, Evidence, LossId, Mode, Owner, Record, Reply,
        Request, Stand, Ticket, Vote,
    },
    rules::token::Token,
    slot_key,
    time::Instant,
};

const MAX_TTL: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(5);
const US: Owner = Owner(1 << 64 | 1);
const US_AGAIN: Owner = Owner(1 << 64 | 2);
const THEM: Owner = Owner(2 << 64 | 1);
const THIRD: Owner = Owner(3 << 64 | 1);
const ADMISSION: AdmissionId = AdmissionId(7);
const LOSS: LossId = LossId(8);

/// On a server both clocks are one.
fn at(millis: u64) -> Moment {
    let since_1970 = Duration::from_secs(1_700_000_000) + Duration::from_millis(millis);
    Moment {
        now: Instant::from_nanos(0).after(since_1970),
        wall_micros: since_1970.as_micros() as u64,
    }
}

fn micros(millis: u64) -> Token {
    Token(at(millis).wall_micros)
}

fn name(server: &str) -> Option<Arc<str>> {
    Some(server.into())
}

fn report(server: &str, loss: LossId) -> Request {
    Request::ReportLoss {
        server: name(server),
        loss,
        beside_marker: false,
        max_ttl: MAX_TTL,
    }
}

fn admit(server: &str, evidence: Evidence) -> Request {
    Request::Admit {
        server: name(server),
        evidence,
        admission: ADMISSION,
        floor: Token(0),
        wall_micros: micros(0).0,
        is_durable: true,
        max_ttl: MAX_TTL,
    }
}

const fn waited(millis: u64) -> Evidence {
    Evidence::Waited {
        loss: LOSS,
        wait: Duration::from_millis(millis),
    }
}

/// A node that votes, in the process `a`.
fn voting() -> Model {
    let mut model = Model::new(name("a"));
    model.run(&report("a", LOSS), at(0));
    let admitted = model.run(&admit("a", waited(0)), at(0));
    let admission = ADMISSION;
    assert_eq!(admitted, Reply::Admitted { admission });
    model
}

fn acquire(owner: Owner, proposal: Token, length: u64) -> Request {
    let vote = Vote {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        ttl: TTL,
        block: Some(BlockRequest { proposal, length }),
        admission: ADMISSION,
    };
    Request::Vote(vote, Act::Acquire(None))
}

/// In order, for a waiter with a number, that has waited for so many milliseconds, and whose place lasts for so many.
fn ask(owner: Owner, waiter: u64, waited: u64, lasts: u64) -> Request {
    with_ticket(acquire(owner, Token(9), 1), (waiter, waited, lasts), true)
}

fn with_ticket(
    mut request: Request,
    (waiter, waited, lasts): (u64, u64, u64),
    is_ordered: bool,
) -> Request {
    if let Request::Vote(_, Act::Acquire(ticket)) = &mut request {
        *ticket = Some(Ticket {
            came: waiter,
            waited: Duration::from_millis(waited),
            lasts: Duration::from_millis(lasts),
            grace: Duration::from_millis(3),
            is_ordered,
        });
    }
    request
}

/// Releases, and gives up the place.
fn leave(owner: Owner) -> Request {
    Request::Release {
        key: "k".into(),
        owner,
        mode: Mode::Exclusive,
        keep: None,
        leaves: true,
    }
}

fn record(reply: Reply) -> Record {
    match reply {
        Reply::Record(record) => *record,
        reply => panic!("{reply:?} is no record"),
    }
}

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
fn a_clock_that_is_set_back_keeps_no_place_for_long() {
    let mut model = voting();
    let later = 86_400_000;
    model.run(&ask(THEM, 1, 0, 60_000), at(later));
    model.run(&ask(THIRD, 1, 0, 60_000), at(later + 1));
    model.run(&leave(THEM), at(later + 1));
    assert!(is_granted(&model.run(&ask(US, 1, 0, 60_000), at(0))));
}

#[test]
fn a_slot_is_left_to_a_process_until_it_has_released_it_and_no_longer() {
    let mut model = voting();
    let stand = |owner| {
        Request::Stand(Stand {
            key: line_key("k"),
            owner,
            permits: 1,
            start: 0,
            needs_several: false,
            ticket: Ticket {
                came: 1,
                waited: Duration::ZERO,
                lasts: Duration::from_secs(60),
                grace: Duration::from_millis(3),
                is_ordered: true,
            },
        })
    };
    let turn = Reply::Turn { slot: 0 };
    assert_eq!(model.run(&stand(US), at(0)), turn);
    assert!(matches!(model.run(&stand(THEM), at(1)), Reply::Full { .. }));
    let release = Request::Release {
        key: slot_key("k", 0),
        owner: US,
        mode: Mode::Exclusive,
        keep: None,
        leaves: true,
    };
    model.run(&release, at(1));
    assert_eq!(model.run(&stand(THEM), at(1)), turn);
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

/// A lock that was granted: until when its key lives, and its TTL.
type Granted = (u64, Duration);

/// Grants another lock by a client whose clock is right or behind, and goes on from there. In how many ways.
fn go_on(model: &Model, now: u64, granted: &[Granted], steps: u32) -> u32 {
    let period = MAX_TTL.as_millis() as u64;
    if steps == 0 {
        return 1;
    }
    let mut ways = 0;
    for now in [1, period / 2, period].map(|pause| now + pause) {
        let longest = model.record(at(now)).longest;
        for &(until, ttl) in granted {
            assert!(now >= until || longest >= ttl, "{granted:?} at {now}");
        }
        for ttl in [MAX_TTL / 10, MAX_TTL] {
            for behind in [0, period] {
                let mut request = acquire(US, Token(micros(now).0 - behind * 1_000), 1);
                if let Request::Vote(vote, _) = &mut request {
                    (vote.key, vote.ttl) = (now.to_string().into(), ttl);
                }
                let mut next = model.clone();
                assert!(is_granted(&next.run(&request, at(now))));
                let until = now + ttl.as_millis() as u64;
                ways += go_on(&next, now, &[granted, &[(until, ttl)]].concat(), steps - 1);
            }
        }
    }
    ways
}

/// The explorer takes it for granted of each node.
#[test]
fn a_node_knows_a_key_ttl_for_as_long_as_the_key_lives() {
    assert_eq!(go_on(&voting(), 0, &[], 5), 12_u32.pow(5));
}
