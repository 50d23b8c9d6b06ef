//! Bytes that no server has sent, from the socket to the protocol.

use redlock_fuzz::{Features, fuzz};

use super::*;
use crate::node::resp::{Malformed, Reader};

const WORDS: [&str; 42] = [
    "\r\n",
    "+OK\r\n",
    ":0\r\n",
    ":1\r\n",
    ":2\r\n",
    ":3\r\n",
    ":-1\r\n",
    ":-2\r\n",
    ":4503599627370496\r\n",
    ":9223372036854775807\r\n",
    "$-1\r\n",
    "$0\r\n\r\n",
    "$1\r\n1\r\n",
    "$2\r\n12\r\n",
    "$16\r\n9007199254740993\r\n",
    "$36\r\n67e55044-10b1-426f-9247-bb680e5fe0c8\r\n",
    "*0\r\n",
    "*1\r\n",
    "*2\r\n",
    "*3\r\n",
    "*4\r\n",
    "*5\r\n",
    "*6\r\n",
    "*11\r\n",
    "%1\r\n",
    ">2\r\n",
    "_\r\n",
    "#t\r\n",
    "~1\r\n",
    "|1\r\n",
    ",1.5\r\n",
    ",nan\r\n",
    "(7\r\n",
    "!6\r\nERR no\r\n",
    "=6\r\ntxt:hi\r\n",
    "=4\r\nmkd:\r\n",
    "-NOSCRIPT no\r\n",
    "-REDLOCK counter\r\n",
    "-READONLY x\r\n",
    "-NOPERM x\r\n",
    "-LOADING x\r\n",
    "run_id:7\r\n",
];

fn requests() -> Vec<Request> {
    let mut with_ticket = acquire();
    if let Request::Acquire { ticket, .. } = &mut with_ticket {
        *ticket = Some(TICKET);
    }
    let stand = Request::Stand {
        key: "k".into(),
        owner: OWNER,
        permits: 3,
        start: 1,
        ticket: TICKET,
    };
    let admit = Request::Admit {
        server: None,
        evidence: redlock_protocol::Evidence::Assumed { loss: LossId(8) },
        admission: ADMISSION,
        floor: Token(7),
        wall_micros: 0,
        is_durable: false,
        max_ttl: Duration::from_secs(60),
    };
    let of_locks = [acquire(), with_ticket, extend(None), extend(Some(BLOCK))];
    let others = [put_back(), watch(), release(), keep(), stand, admit];
    let of_nodes = [Request::Identify, Request::Probe];
    of_locks.into_iter().chain(others).chain(of_nodes).collect()
}

fn check(reply: &Reply) {
    let (remaining, token) = match reply {
        Reply::Granted { first, .. } => (None, Some(*first)),
        Reply::Extended {
            remaining, first, ..
        } => (*remaining, *first),
        Reply::Held { remaining, .. } | Reply::Full { remaining, .. } => (*remaining, None),
        _ => (None, None),
    };
    assert!(remaining.is_none_or(|it| it <= LONGEST), "{reply:?}");
    assert!(
        token.is_none_or(|it| it.0 >= 1 && it <= Token::LARGEST),
        "{reply:?}"
    );
}

/// As the parser of `redis`: the same values, and the same inputs refused. What it refuses, may still be incomplete
/// here.
fn compare(bytes: &[u8], read: &Result<Option<(Value, usize)>, Malformed>) {
    // It makes room for as many values as are announced.
    let announces_many = |line: &[u8]| line.len() > 6 && b"*~%|>".contains(&line[0]);
    if bytes.split(|&byte| byte == b'\n').any(announces_many) {
        return;
    }
    let ours = match read {
        Ok(Some((value, _))) => format!("{value:?}"),
        Ok(None) | Err(_) => String::new(),
    };
    let theirs = redis::parse_redis_value(bytes);
    let theirs = theirs.map(|value| format!("{value:?}")).unwrap_or_default();
    assert_eq!(ours, theirs, "{:?}", String::from_utf8_lossy(bytes));
}

#[test]
fn fuzz_replies() {
    let requests = requests();
    fuzz(
        "replies",
        &WORDS,
        |bytes: &[u8], features: &mut Features| {
            let mut slow = Reader::default();
            let slowly = (0..=bytes.len())
                .map(|length| slow.next(&bytes[..length]))
                .find(|read| !matches!(read, Ok(None)))
                .unwrap_or(Ok(None));
            let read = Reader::default().next(bytes);
            // Not every number is equal to itself.
            assert_eq!(format!("{read:?}"), format!("{slowly:?}"));
            compare(bytes, &read);
            let Ok(Some((value, length))) = read else {
                features.add(format!("{read:?}"));
                return;
            };
            assert!(length <= bytes.len());
            for (place, request) in requests.iter().enumerate() {
                let reply = parse(request, value.clone());
                check(&reply);
                features.add((place, std::mem::discriminant(&reply)));
                if let Reply::Refused { reason, .. } = &reply {
                    features.add((place, format!("{reason:?}")));
                }
            }
        },
    );
}
