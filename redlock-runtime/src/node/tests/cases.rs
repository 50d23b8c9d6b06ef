//! What random requests do not come to: other processes, full memory, missing rights, the passing of
//! seconds.

use std::{thread, time::Duration};

use redis::{Connection, Value};
use redlock_protocol::{
    Act, Evidence, LossId, Owner, Reply, Request, Stand, Ticket, Token, model::Model,
};

use super::{
    HASH, Server, Twins, cmd, now, reply,
    server::{command, exchange},
};
use crate::{
    node::{
        connection,
        requests::{self, ADMISSION, TTL, put_back, release},
    },
    script::{self, owner_value},
};

const MAX_TTL: Duration = Duration::from_secs(60);
const LOSS: LossId = LossId(u64::MAX - 1);
pub(super) const US: Owner = Owner(1 << 64 | 1);
pub(super) const THEM: Owner = Owner(2 << 64 | 1);
pub(super) const THIRD: Owner = Owner(3 << 64 | 1);

pub(super) fn report() -> Request {
    Request::ReportLoss {
        server: None,
        loss: LOSS,
        beside_marker: false,
        max_ttl: MAX_TTL,
    }
}

pub(super) fn admit(wait: Duration) -> Request {
    admit_on(Evidence::Waited { loss: LOSS, wait }, Token(7))
}

fn first_start() -> Request {
    let wait = TTL;
    admit_on(Evidence::FirstStart { loss: LOSS, wait }, Token(0))
}

const fn admit_on(evidence: Evidence, floor: Token) -> Request {
    Request::Admit {
        server: None,
        evidence,
        admission: ADMISSION,
        floor,
        wall_micros: 0,
        is_durable: false,
        max_ttl: MAX_TTL,
    }
}

pub(super) fn acquire(owner: Owner) -> Request {
    requests::acquire(owner, now())
}

pub(super) fn extend(owner: Owner) -> Request {
    requests::extend(owner, Some(requests::block(now(), 256)))
}

/// That request with a ticket, whose place lasts for the given milliseconds.
pub(super) fn in_order(mut request: Request, lasts: u64) -> Request {
    if let Request::Vote(_, Act::Acquire(ticket)) = &mut request {
        *ticket = Some(ticket_for(lasts));
    }
    request
}

fn ticket_for(lasts: u64) -> Ticket {
    Ticket {
        came: 1,
        waited: Duration::from_millis(10),
        lasts: Duration::from_millis(lasts),
        grace: Duration::from_millis(5),
        is_ordered: true,
    }
}

pub(super) fn is_waited_for(reply: &Reply) -> bool {
    match reply {
        Reply::Granted {
            has_remote_waiter, ..
        }
        | Reply::Extended {
            has_remote_waiter, ..
        } => *has_remote_waiter,
        reply => panic!("{reply:?}"),
    }
}

pub(super) fn count_ahead(reply: &Reply) -> u32 {
    match reply {
        Reply::Held { ahead, .. } | Reply::Queued(ahead) => ahead.count,
        reply => panic!("{reply:?}"),
    }
}

/// Without the model.
pub(super) fn ask(connection: &mut Connection, request: &Request) -> Reply {
    ask_about(HASH, connection, request)
}

fn ask_about(hash: &str, connection: &mut Connection, request: &Request) -> Reply {
    let mut pipeline = redis::Pipeline::new();
    pipeline.add_command(cmd(&script::command(request, hash, true)));
    let answer = exchange(connection, &pipeline).remove(0);
    reply::parse(request, answer)
}

/// A server that votes.
pub(super) fn voting() -> (Server, Connection) {
    let server = Server::start(&[]);
    let mut connection = server.connect(3);
    ask(&mut connection, &report());
    let reply = ask(&mut connection, &admit(Duration::ZERO));
    let admission = ADMISSION;
    assert_eq!(reply, Reply::Admitted { admission });
    (server, connection)
}

pub(super) fn is_refused(reply: &Reply, code: &str) -> bool {
    matches!(reply, Reply::Refused { message, is_untouched: true, .. } if message.starts_with(code))
}

impl Twins {
    /// Asks until the server answers without a pause, on which everything begins anew.
    pub(super) fn ask_all(&mut self, requests: &[fn() -> Request]) -> Vec<Reply> {
        'anew: loop {
            let mut replies = Vec::new();
            for request in requests {
                match self.ask(&request()) {
                    Some(reply) => replies.push(reply),
                    None => continue 'anew,
                }
            }
            return replies;
        }
    }

    /// The server's next process, with what the last one had when `saved` was like it.
    fn restart(&mut self, server: &mut Server, saved: Model) {
        server.restart(&[]);
        *self = Self::of(server, 3);
        let process = self.model.server.take();
        self.model = saved;
        self.model.restart(process);
    }
}

#[test]
fn a_place_lasts_as_long_as_the_ticket_says_and_the_queue_for_a_second() {
    let server = Server::start(&[]);
    let mut twins = Twins::of(&server, 3);
    let asked: [fn() -> Request; 11] = [
        report,
        || admit(Duration::ZERO),
        || in_order(acquire(US), 1_000),
        || in_order(acquire(THEM), 100),
        || extend(US),
        || in_order(acquire(THIRD), 1_000),
        || after(101, || in_order(acquire(THIRD), 10)),
        || after(900, || extend(US)),
        || after(101, || extend(US)),
        || in_order(acquire(US), 10),
        || extend(US),
    ];
    let replies = twins.ask_all(&asked);
    let [
        _,
        _,
        _,
        _,
        waited_for,
        behind,
        soon,
        ended,
        forgotten,
        _,
        alone,
    ] = &replies[..]
    else {
        panic!("{replies:?}")
    };
    assert!(is_waited_for(waited_for), "{replies:?}");
    assert_eq!(count_ahead(behind), 1, "{replies:?}");
    assert_eq!(count_ahead(soon), 0, "that of THEM has ended");
    assert!(is_waited_for(ended), "had a place a moment ago");
    assert!(!is_waited_for(forgotten));
    // What has been forgotten does not come back with the next place.
    assert!(!is_waited_for(alone));
}

/// That request, this many milliseconds later.
fn after(millis: u64, request: fn() -> Request) -> Request {
    thread::sleep(Duration::from_millis(millis));
    request()
}

#[test]
fn a_loss_that_comes_back_with_an_old_snapshot_says_nothing() {
    let mut server = Server::start(&[]);
    let mut twins = Twins::of(&server, 3);
    let noted: [fn() -> Request; 2] = [report, first_start];
    twins.ask_all(&noted);
    assert_eq!(command(&mut twins.server, &["SAVE"]), Value::Okay);
    let saved = twins.model.clone();
    let voted: [fn() -> Request; 3] = [report, || admit(Duration::ZERO), || acquire(US)];
    let replies = twins.ask_all(&voted);
    assert!(matches!(replies[2], Reply::Granted { .. }), "{replies:?}");

    twins.restart(&mut server, saved);
    let again: [fn() -> Request; 4] = [
        || Request::Probe,
        || admit(Duration::ZERO),
        report,
        || admit(Duration::ZERO),
    ];
    let replies = twins.ask_all(&again);
    assert!(matches!(&replies[0], Reply::Record(record) if record.loss.is_none()));
    assert!(matches!(&replies[1], Reply::Record(record) if record.marker.is_none()));
    assert!(matches!(&replies[2], Reply::Record(record) if record.loss.is_some()));
}

#[test]
fn what_may_have_taken_keys_away_is_seen() {
    for taking in [
        ["SWAPDB 0 1"].as_slice(),
        &["FLUSHDB"],
        &["CONFIG RESETSTAT"],
        &["REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"],
        &[],
    ] {
        let server = Server::start(&[]);
        let mut connection = server.connect(3);
        for words in taking {
            let words: Vec<&str> = words.split(' ').collect();
            assert_eq!(command(&mut connection, &words), Value::Okay);
        }
        let Reply::Record(record) = ask(&mut connection, &report()) else {
            panic!("no record")
        };
        assert_eq!(
            record.loss.unwrap().is_unflushed,
            taking.is_empty(),
            "{taking:?}"
        );
    }
}

/// Even if it has the same admission as the one that it takes the place of.
#[test]
fn a_database_that_is_swapped_in_has_no_vote_here() {
    let (server, mut connection) = voting();
    ask(&mut connection, &acquire(US));
    let mut other = server.connect(3);
    command(&mut other, &["SELECT", "1"]);
    let in_the_other = script::node_hash(1);
    for request in [report(), admit(Duration::ZERO), acquire(THEM)] {
        ask_about(&in_the_other, &mut other, &request);
    }
    command(&mut other, &["SWAPDB", "0", "1"]);
    for request in [acquire(THEM), extend(US), put_back(US)] {
        assert_eq!(ask(&mut connection, &request), Reply::NotAdmitted);
    }
    let probed = ask(&mut connection, &Request::Probe);
    assert_eq!(probed, Reply::Record(Box::default()));
}

#[test]
fn a_server_without_memory_grants_nothing_and_deletes_all_the_same() {
    let (_server, mut connection) = voting();
    command(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]);
    for request in [acquire(US), in_order(acquire(US), 1_000), put_back(US)] {
        let reply = ask(&mut connection, &request);
        assert!(is_refused(&reply, "OOM"), "{reply:?}");
        assert_eq!(command(&mut connection, &["EXISTS", "k"]), Value::Int(0));
    }
    command(&mut connection, &["CONFIG", "SET", "maxmemory", "0"]);
    assert!(matches!(
        ask(&mut connection, &acquire(US)),
        Reply::Granted { .. }
    ));
    command(&mut connection, &["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(ask(&mut connection, &release(US)), Reply::Deleted);
}

/// It keeps no queue. Who reads the key of a line would never find one, and ask again and again.
#[test]
fn a_server_that_cannot_write_says_so_to_those_who_wait() {
    let (_server, mut connection) = voting();
    let held = ask(&mut connection, &acquire(THEM));
    assert!(matches!(held, Reply::Granted { .. }), "{held:?}");
    command(&mut connection, &["SET", "k#__redlock:0", "x"]);
    command(&mut connection, &["REPLICAOF", "127.0.0.1", "1"]);
    let stand = Request::Stand(Stand {
        key: "k#__redlock:".into(),
        owner: US,
        permits: 1,
        start: 0,
        needs_several: false,
        ticket: ticket_for(1_000),
    });
    for request in [stand, in_order(acquire(US), 1_000)] {
        let reply = ask(&mut connection, &request);
        assert!(is_refused(&reply, "READONLY"), "{reply:?}");
    }
    let reply = ask(&mut connection, &in_order(acquire(US), 0));
    assert!(matches!(reply, Reply::Held { .. }), "{reply:?}");
}

#[test]
fn a_user_who_may_not_write_the_hash_leaves_no_key_behind() {
    let (server, mut connection) = voting();
    for right in ["-hset", "-set", "-hmget", "-evalsha -eval"] {
        let mut words = vec![
            "ACL", "SETUSER", "limited", "reset", "on", "nopass", "~*", "+@all",
        ];
        words.extend(right.split(' '));
        assert_eq!(command(&mut connection, &words), Value::Okay);
        let mut limited = server.connect(3);
        assert_eq!(
            command(&mut limited, &["AUTH", "limited", "x"]),
            Value::Okay
        );
        for request in [acquire(US), in_order(acquire(US), 1_000), put_back(US)] {
            let reply = ask(&mut limited, &request);
            assert!(is_refused(&reply, ""), "{right}: {reply:?}");
            assert_eq!(command(&mut connection, &["EXISTS", "k"]), Value::Int(0));
        }
    }
}

#[test]
fn what_others_put_in_the_place_of_the_hash_grants_nothing() {
    let (_server, mut connection) = voting();
    ask(&mut connection, &acquire(US));
    command(&mut connection, &["HSET", HASH, "longest", "no number"]);
    for request in [acquire(THEM), extend(US), put_back(THEM)] {
        let reply = ask(&mut connection, &request);
        assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    }
    command(&mut connection, &["SET", HASH, "x"]);
    for request in [acquire(THEM), extend(US), put_back(THEM)] {
        assert_eq!(ask(&mut connection, &request), Reply::NotAdmitted);
    }
    for request in [Request::Probe, report(), admit(Duration::ZERO)] {
        let reply = ask(&mut connection, &request);
        assert!(is_refused(&reply, "WRONGTYPE"), "{reply:?}");
    }
    assert_eq!(ask(&mut connection, &release(US)), Reply::Deleted);
}

/// The hash is a table from the first field on, and a lock is what every client of Redlock writes.
#[test]
fn a_server_has_a_table_and_the_owners_of_locks() {
    let (_server, mut connection) = voting();
    let encoding = command(&mut connection, &["OBJECT", "ENCODING", HASH]);
    assert_eq!(encoding, Value::BulkString(b"hashtable".to_vec()));
    ask(&mut connection, &acquire(US));
    let value = command(&mut connection, &["GET", "k"]);
    assert_eq!(value, Value::BulkString(owner_value(US).to_vec()));
}

#[tokio::test]
async fn only_a_master_with_data_of_its_own_is_durable() {
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Server::start(&always);
    let mut connection = server.connect(2);
    let info = redis::IntoConnectionInfo::into_connection_info(server.url(3)).unwrap();
    let endpoint = info.into();
    let facts = async || {
        let opened = connection::open(&endpoint, None).await;
        opened.map(|(_, facts)| facts)
    };
    let first = facts().await.unwrap();
    assert!(first.is_durable && first.tells_changes && first.server.is_some());

    command(
        &mut connection,
        &["CONFIG", "SET", "appendfsync", "everysec"],
    );
    assert!(!facts().await.unwrap().is_durable);
    command(&mut connection, &["CONFIG", "SET", "appendfsync", "always"]);
    assert!(facts().await.unwrap().is_durable);

    command(&mut connection, &["REPLICAOF", "127.0.0.1", "1"]);
    assert!(!facts().await.unwrap().is_durable);
    command(&mut connection, &["REPLICAOF", "NO", "ONE"]);
    let promoted = facts().await.unwrap();
    assert!(!promoted.is_durable);
    assert_eq!(promoted.server, first.server);

    command(&mut connection, &["ACL", "SETUSER", "default", "-info"]);
    assert_eq!(facts().await.unwrap().server, None);
}
