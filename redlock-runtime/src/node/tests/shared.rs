//! Locks that are shared: what random requests do not come to.

use std::{thread, time::Duration};

use redis::Value;
use redlock_protocol::{Mode, Owner, Rejection, Reply, Request, Vote};

use super::{
    cases::{THEM, THIRD, US, acquire, ask, extend, in_order, is_refused, voting},
    server::command,
};
use crate::node::requests::{put_back, release};

/// That request from a reader.
fn shared(mut request: Request) -> Request {
    match &mut request {
        Request::Vote(Vote { mode, .. }, _) | Request::Release { mode, .. } => *mode = Mode::Shared,
        _ => panic!("{request:?} names no mode"),
    }
    request
}

const fn is_granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Granted { .. })
}

#[test]
fn a_server_without_memory_takes_in_no_reader_and_keeps_and_releases_those_that_it_has() {
    let (_server, mut connection) = voting();
    for owner in [US, THEM, THIRD] {
        assert!(is_granted(&ask(&mut connection, &shared(acquire(owner)))));
    }
    command(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]);
    let another = Owner(4 << 64);
    let with_ticket = in_order(acquire(another), 1_000);
    for request in [acquire(another), with_ticket, put_back(another)] {
        let reply = ask(&mut connection, &shared(request));
        assert!(is_refused(&reply, "OOM"), "{reply:?}");
    }
    thread::sleep(Duration::from_millis(2));
    let extended = ask(&mut connection, &shared(extend(US)));
    assert!(matches!(extended, Reply::Extended { .. }), "{extended:?}");
    for owner in [THEM, US, THIRD] {
        let released = ask(&mut connection, &shared(release(owner)));
        assert_eq!(released, Reply::Deleted, "{owner:?}");
    }
    assert_eq!(command(&mut connection, &["EXISTS", "k"]), Value::Int(0));
}

/// It finds out once it has written the key, and takes that back.
#[test]
fn a_user_without_the_right_to_write_the_counters_becomes_no_reader_and_leaves_the_others() {
    let (_server, mut connection) = voting();
    assert!(is_granted(&ask(&mut connection, &shared(acquire(US)))));
    command(&mut connection, &["ACL", "SETUSER", "default", "-hset"]);
    let with_ticket = in_order(acquire(THEM), 1_000);
    for request in [acquire(THEM), with_ticket] {
        let reply = ask(&mut connection, &shared(request));
        let reason = Rejection::NoPermission;
        assert!(
            matches!(&reply, Reply::Refused { reason: why, .. } if *why == reason),
            "{reply:?}"
        );
    }
    let readers = command(&mut connection, &["ZCARD", "k"]);
    assert_eq!(readers, Value::Int(1));
    let released = ask(&mut connection, &shared(release(US)));
    assert_eq!(released, Reply::Deleted);
}

/// Also without memory for more: what a script writes first may not be refused.
#[test]
fn a_server_turns_the_key_of_an_owner_into_that_of_a_reader() {
    let (_server, mut connection) = voting();
    assert!(is_granted(&ask(&mut connection, &acquire(US))));
    let put_back = ask(&mut connection, &shared(put_back(US)));
    assert_eq!(put_back, Reply::PutBack, "it is there");
    let held = ask(&mut connection, &shared(acquire(THEM)));
    assert!(matches!(held, Reply::Held { .. }), "{held:?}");
    let released = ask(&mut connection, &shared(release(THEM)));
    assert_eq!(released, Reply::NotOwner);

    command(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]);
    let extended = ask(&mut connection, &shared(extend(US)));
    assert!(matches!(extended, Reply::Extended { .. }), "{extended:?}");
    command(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]);
    // What was sent before comes to nothing.
    assert_eq!(ask(&mut connection, &extend(US)), Reply::NotOwner);
    assert_eq!(ask(&mut connection, &release(US)), Reply::NotOwner);
    assert!(is_granted(&ask(&mut connection, &shared(acquire(THEM)))));
    let held = ask(&mut connection, &acquire(THIRD));
    assert!(matches!(held, Reply::Held { .. }), "{held:?}");
    for owner in [US, THEM] {
        let released = ask(&mut connection, &shared(release(owner)));
        assert_eq!(released, Reply::Deleted, "{owner:?}");
    }
    // It has not heard of it.
    assert!(is_granted(&ask(&mut connection, &acquire(US))));
    let released = ask(&mut connection, &shared(release(US)));
    assert_eq!(released, Reply::Deleted);
    assert_eq!(command(&mut connection, &["EXISTS", "k"]), Value::Int(0));
}
