//! Bytes that no server has sent, from the socket to the protocol.

use redlock_fuzz::{Features, fuzz};

use super::*;
use crate::node::resp::{Malformed, Reader};

/// With a slash for each end of a line within them.
const WORDS: &str = "
    +OK :0 :1 :2 :3 :-1 :-2 :4503599627370496 :9223372036854775807
    $-1 $0/ $1/1 $2/12 $4/// $16/9007199254740993 $36/67e55044-10b1-426f-9247-bb680e5fe0c8
    *0 *1 *2 *3 *4 *5 *6 *11 *-1 *3/:1/*1/$1/x/_ %1 %1/+a/#t >2 >2/$10/invalidate/*1/$1/k
    _ #t ~1 |1 ,1.5 ,nan (7 !3/ERR =6/txt:hi =4/mkd:
    -NOSCRIPT -REDLOCK -READONLY -NOPERM -LOADING run_id:7
";

fn requests() -> Vec<Request> {
    let mut with_ticket = acquire();
    if let Request::Vote(_, Act::Acquire(ticket)) = &mut with_ticket {
        *ticket = Some(TICKET);
    }
    let stand = Request::Stand(Stand {
        key: "k".into(),
        owner: OWNER,
        permits: 3,
        start: 1,
        needs_several: false,
        ticket: TICKET,
    });
    let admit = Request::Admit {
        server: None,
        evidence: redlock_protocol::Evidence::Assumed { loss: LossId(8) },
        admission: requests::ADMISSION,
        floor: Token(7),
        wall_micros: 0,
        is_durable: false,
        max_ttl: Duration::from_secs(60),
    };
    let of_locks = [acquire(), with_ticket, extend(None), extend(Some(BLOCK))];
    let others = [put_back(OWNER), watch(), release(), keep(), stand, admit];
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
    let words = WORDS.split_whitespace();
    let words = words.map(|word| word.replace('/', "\r\n") + "\r\n");
    let words: Vec<String> = words.collect();
    let words = words.iter().map(String::as_str);
    let words: Vec<&str> = words.chain(["\r\n", "-ERR a\rb\nc\r\n"]).collect();
    let attempt = |bytes: &[u8], features: &mut Features| {
        let mut reader = Reader::default();
        let (come, slowly) = (0..=bytes.len())
            .map(|length| (length, reader.next(&bytes[..length])))
            .find(|(_, read)| !matches!(read, Ok(None)))
            .unwrap_or((0, Ok(None)));
        let read = Reader::default().next(bytes);
        // Not every number is equal to itself.
        let shown = format!("{read:?}");
        assert_eq!(shown, format!("{slowly:?}"));
        compare(bytes, &read);
        let Ok(Some((value, length))) = read else {
            features.add(shown);
            return;
        };
        assert_eq!(length, come, "it is read as soon as all of it has come");
        assert_eq!(shown, format!("{:?}", reader.next(bytes)), "once more");
        for (place, request) in requests.iter().enumerate() {
            let reply = parse(request, value.clone());
            check(&reply);
            features.add((place, std::mem::discriminant(&reply)));
            if let Reply::Refused { reason, .. } = &reply {
                features.add((place, format!("{reason:?}")));
            }
        }
    };
    for word in &words {
        attempt(
            format!("{word}+more\r\n").as_bytes(),
            &mut Features::default(),
        );
    }
    fuzz("replies", &words, attempt);
}
