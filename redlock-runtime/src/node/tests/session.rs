//! One server, and how much of the engine it gets.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use redlock_protocol::{
    Ahead, Event, Mode, NodeId, Owner, Rejection, Reply, Request, RequestId, Vote,
};
use tokio::io::ReadBuf;

use crate::node::{
    requests,
    scripted::{broken, once, wire},
    session::{MOST_AT_ONCE, Refused, Session},
    wire::Wire,
};

fn over(wire: Wire, refused: Refused) -> Session {
    Session::new(wire, NodeId(0), "hash".to_owned(), refused)
}

/// A server that tells of changes without end.
fn endless(buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    const NEWS: &[u8] = b">2\r\n+invalidate\r\n_\r\n";
    while buffer.remaining() >= NEWS.len() {
        buffer.put_slice(NEWS);
    }
    Poll::Ready(Ok(()))
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_server_that_writes_without_end_leaves_the_others_their_turn() {
    let wire = wire(endless, |bytes| Poll::Ready(Ok(bytes.len())));
    let mut session = over(wire, Refused::new());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let mut events = Vec::new();
    for round in 1..=3 {
        let polled = session.poll(&mut cx, &mut events);
        assert_eq!(polled, Ok(false));
        assert_eq!(events.len(), round * MOST_AT_ONCE);
        assert_eq!(woken.0.load(Ordering::Relaxed), round);
    }
}

#[test]
fn replies_to_many_requests_leave_the_others_their_turn_too() {
    const TOGETHER: usize = 32;
    let replies =
        format!("*{TOGETHER}\r\n{}", ":0\r\n".repeat(TOGETHER)).repeat(2 * MOST_AT_ONCE / TOGETHER);
    let wire = says(replies.leak().as_bytes(), &Arc::default());
    let mut session = over(wire, Refused::new());
    for number in 0..2 * MOST_AT_ONCE {
        session.send(RequestId(number as u64), extend("a"));
    }
    let mut cx = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    let polled = session.poll(&mut cx, &mut events);
    assert_eq!(polled, Ok(true));
    assert_eq!(events.len(), MOST_AT_ONCE);
    let polled = session.poll(&mut cx, &mut events);
    assert_eq!(polled, Ok(true));
    assert_eq!(events.len(), 2 * MOST_AT_ONCE);
}

#[test]
fn what_has_come_in_counts_though_nothing_can_be_written_any_more() {
    let mut wire = wire(endless, broken);
    wire.put(&[]);
    let mut session = over(wire, Refused::new());
    let mut cx = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    let _ = session.poll(&mut cx, &mut events);
    assert_eq!(events.len(), MOST_AT_ONCE);
}

/// The wire of a server that says this.
fn says(replies: &'static [u8], written: &Arc<Mutex<Vec<u8>>>) -> Wire {
    let written = Arc::clone(written);
    wire(once(replies), move |bytes| {
        written.lock().unwrap().extend(bytes);
        Poll::Ready(Ok(bytes.len()))
    })
}

/// Sends all of these between two polls, to a server that says this, and reads twice. The commands that
/// were sent, with their keys and numbers, and what the protocol was told.
fn send_all(requests: &[Request], replies: &'static [u8]) -> (Vec<String>, Vec<(u64, Reply)>) {
    let written = Arc::default();
    let mut session = over(says(replies, &written), Refused::new());
    let mut events = Vec::new();
    for (number, request) in (1..).zip(requests) {
        session.send(RequestId(number), request.clone());
    }
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        let polled = session.poll(&mut cx, &mut events);
        assert_eq!(polled, Ok(false));
    }
    let told = events.into_iter().map(|event| match event {
        Event::Reply { request, reply, .. } => (request.0, reply),
        event => panic!("{event:?} is no reply"),
    });
    let written = written.lock().unwrap().clone();
    (commands(&written), told.collect())
}

/// The names of commands, each with the keys of the tests that are in it.
fn commands(mut written: &[u8]) -> Vec<String> {
    let mut commands = Vec::new();
    while let Ok(redis::Value::Array(words)) = redis::parse_redis_value(written) {
        let mut length = format!("*{}\r\n", words.len()).len();
        let mut command = String::new();
        for (place, word) in words.into_iter().enumerate() {
            let word: String = redis::from_redis_value(word).unwrap();
            length += format!("${}\r\n{word}\r\n", word.len()).len();
            if place == 0 || matches!(&word[..], "a" | "b" | "c") {
                command = format!("{command} {word}").trim_start().to_owned();
            }
        }
        commands.push(command);
        written = &written[length..];
        if written.is_empty() {
            break;
        }
    }
    commands
}

/// That request for this key.
fn on(name: &str, mut request: Request) -> Request {
    match &mut request {
        Request::Vote(Vote { key, .. }, _) | Request::Release { key, .. } => *key = name.into(),
        _ => panic!("{request:?}"),
    }
    request
}

fn release(key: &str) -> Request {
    on(key, requests::release(Owner(1)))
}

fn extend(key: &str) -> Request {
    on(key, requests::extend(Owner(1), None))
}

fn put_back(key: &str) -> Request {
    on(key, requests::put_back(Owner(1)))
}

fn read(key: &str) -> Request {
    Request::Watch {
        key: key.into(),
        owner: Some(Owner(1)),
        mode: Mode::Exclusive,
    }
}

#[test]
fn what_is_of_one_kind_goes_together_and_keeps_its_place() {
    let (sent, told) = send_all(
        &[
            extend("a"),
            extend("b"),
            put_back("c"),
            release("c"),
            read("a"),
        ],
        b"*2\r\n:0\r\n-ERR no\r\n*2\r\n:9\r\n$0\r\n\r\n:0\r\n",
    );
    let expected = ["EVALSHA a b", "EVALSHA c", "EVALSHA c", "CLIENT", "GET a"];
    assert_eq!(sent, expected);
    let refused = Reply::Refused {
        reason: Rejection::Other,
        message: "ERR no".into(),
        is_untouched: false,
    };
    let held = Reply::Held {
        owner: None,
        remaining: Some(Duration::from_millis(9)),
        ahead: Ahead::default(),
    };
    let expected = [
        (1, Reply::NotOwner),
        (2, refused),
        (3, held),
        (4, Reply::NotOwner),
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_is_said_of_all_is_said_of_none() {
    let refused = |number| {
        let message = "NOPERM no".into();
        let is_untouched = true;
        let reply = Reply::Refused {
            reason: Rejection::NoPermission,
            message,
            is_untouched,
        };
        (number, reply)
    };
    for (request, alone) in [
        (extend as fn(&str) -> Request, ["EVALSHA a", "EVALSHA b"]),
        (read, ["GET a", "GET b"]),
    ] {
        let requests = [request("a"), request("b")];
        let replies: &[u8] = match request("a") {
            Request::Watch { .. } => b"+OK\r\n-NOPERM no\r\n+OK\r\n-NOPERM no\r\n",
            _ => b"-NOPERM no\r\n-NOPERM no\r\n",
        };
        let (mut sent, told) = send_all(&requests, replies);
        sent.retain(|command| command != "CLIENT");
        assert_eq!(sent[1..], alone);
        assert_eq!(told, [refused(1)]);
    }
}

/// A release is sent again with the text. A vote is left to the protocol.
#[test]
fn a_missing_script_is_learnt_for_a_release_and_no_vote() {
    for (requests, commands, not_admitted) in [
        (vec![release("c")], vec!["EVALSHA c", "EVAL c"], 0),
        (vec![put_back("c")], vec!["EVALSHA c"], 1),
        (vec![extend("a"), extend("b")], vec!["EVALSHA a b"], 2),
    ] {
        let (sent, told) = send_all(&requests, b"-NOSCRIPT No matching script.\r\n");
        assert_eq!(sent, commands);
        let expected: Vec<_> = (1..=not_admitted)
            .map(|number| (number, Reply::NotAdmitted))
            .collect();
        assert_eq!(told, expected);
    }
}

#[test]
fn a_node_without_this_admission_extends_nothing() {
    let (_, told) = send_all(&[extend("a"), extend("b")], b":-1\r\n");
    assert_eq!(told, [(1, Reply::NotAdmitted), (2, Reply::NotAdmitted)]);
}

#[test]
fn nonsense_in_place_of_replies_is_none() {
    for replies in [
        &b":1\r\n"[..],
        b"*1\r\n:1\r\n",
        b"*3\r\n:1\r\n:1\r\n:1\r\n",
        b"$-1\r\n",
    ] {
        let (sent, told) = send_all(&[extend("a"), extend("b")], replies);
        assert_eq!(sent.len(), 1);
        let is_garbled = |(_, reply): &(u64, Reply)| matches!(reply, Reply::Garbled { .. });
        assert!(told.len() == 2 && told.iter().all(is_garbled), "{told:?}");
    }
}

#[test]
fn a_key_that_is_not_there_is_read_by_itself() {
    let owner = b"+OK\r\n*2\r\n_\r\n$36\r\n00000000-0000-0000-0000-000000000001\r\n+OK\r\n_\r\n";
    let (sent, told) = send_all(&[read("a"), read("b")], owner);
    assert_eq!(sent, ["CLIENT", "MGET a b", "CLIENT", "GET a"]);
    assert_eq!(told, [(2, Reply::Ours), (1, Reply::Free)]);
}

#[test]
fn values_that_are_too_large_together_are_read_one_by_one_from_then_on() {
    let wire = says(b"+OK\r\n*2\r\n$16777300\r\n", &Arc::default());
    let mut before = over(wire, Refused::new());
    let mut cx = Context::from_waker(Waker::noop());
    for number in [1, 2] {
        before.send(RequestId(number), read("a"));
    }
    let mut events = Vec::new();
    let broken = before.poll(&mut cx, &mut events);
    assert!(broken.is_err() && events.is_empty());

    let written = Arc::new(Mutex::new(Vec::new()));
    let mut session = over(says(b"", &written), before.refused);
    for (number, key) in [(3, "a"), (4, "b")] {
        session.send(RequestId(number), read(key));
    }
    let polled = session.poll(&mut cx, &mut events);
    assert_eq!(polled, Ok(false));
    let sent = commands(&written.lock().unwrap());
    assert_eq!(sent, ["CLIENT", "GET a", "CLIENT", "GET b"]);
}
