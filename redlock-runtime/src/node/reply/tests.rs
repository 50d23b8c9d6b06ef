//! What servers reply, and what it means.

mod fuzz;

use redlock_protocol::{BlockRequest, Stand, Ticket};

use super::*;
use crate::node::requests::{self, put_back};

const OWNER: Owner = Owner(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8);
const VALUE: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const TICKET: Ticket = Ticket {
    came: 1,
    waited: Duration::ZERO,
    lasts: Duration::ZERO,
    grace: Duration::ZERO,
    is_ordered: false,
};
const BLOCK: BlockRequest = requests::block(9, 1);

fn acquire() -> Request {
    requests::acquire(OWNER, 9)
}

fn extend(block: Option<BlockRequest>) -> Request {
    requests::extend(OWNER, block)
}

fn watch() -> Request {
    Request::Watch {
        key: "k".into(),
        owner: Some(OWNER),
        mode: Mode::Exclusive,
    }
}

fn release() -> Request {
    requests::release(OWNER)
}

fn keep() -> Request {
    let mut request = release();
    if let Request::Release { keep, .. } = &mut request {
        *keep = Some(Duration::from_millis(7));
    }
    request
}

fn error(line: &str) -> Value {
    redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap()
}

fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

fn array<const N: usize>(values: [Value; N]) -> Value {
    Value::Array(values.into())
}

fn ints<const N: usize>(values: [i64; N]) -> Value {
    array(values.map(Value::Int))
}

fn record_of(texts: [&str; 11]) -> Value {
    array(texts.map(text))
}

const VOTING: [&str; 11] = [
    "7", "server", "1", "", "0", "", "", "", "5000", "12", "60000",
];

const LOST: [&str; 11] = ["", "", "", "8", "30", "0", "1", "500", "0", "0", "60000"];

#[track_caller]
fn assert_garbled(request: &Request, lie: Value) {
    let reply = parse(request, lie.clone());
    let is_garbled = matches!(reply, Reply::Garbled { .. });
    assert!(is_garbled, "{lie:?} was read as {reply:?}");
}

#[test]
fn what_no_script_can_answer_is_no_vote() {
    let beyond = (Token::LARGEST.0 + 1) as i64;
    for lie in [
        Value::Int(-2),
        Value::Int(0),
        Value::Int(2),
        Value::Nil,
        Value::Boolean(true),
        Value::Okay,
        Value::SimpleString("QUEUED".into()),
        text("1"),
        ints([]),
        ints([1]),
        ints([0, 0]),
        ints([-1, 0]),
        ints([beyond, 0]),
        ints([1, 2]),
        ints([1, 0, 0]),
        array([Value::Int(-2), text(VALUE)]),
        array([Value::Int(1), Value::Nil]),
        array([error("ERR x"), text(VALUE)]),
    ] {
        assert_garbled(&acquire(), lie.clone());
        assert_garbled(&release(), array([lie]));
    }
    for lie in [
        ints([0, 0, 5]),
        ints([9, 0]),
        ints([9, 0, -2]),
        ints([9, 2, 5]),
    ] {
        assert_garbled(&extend(Some(BLOCK)), lie);
    }
    assert_garbled(&extend(None), ints([9, 0, 5]));
    assert_garbled(&extend(Some(BLOCK)), Value::Int(7));
    assert_garbled(&keep(), Value::Int(1));
    assert_garbled(&release(), Value::Int(2));
    assert_garbled(&put_back(OWNER), ints([9, 0]));
    assert_garbled(&watch(), Value::Int(1));
    assert_garbled(&Request::Identify, Value::Okay);
}

#[test]
fn what_no_queue_can_answer_is_no_vote() {
    let mut asked = acquire();
    if let Request::Vote(_, Act::Acquire(ticket)) = &mut asked {
        *ticket = Some(TICKET);
    }
    let reply = |remaining, holder, ahead: [i64; 2]| {
        let mut values = vec![Value::Int(remaining), text(holder)];
        values.extend(ahead.map(Value::Int));
        Value::Array(values)
    };
    let told = [2, 30];
    let far = Ahead {
        count: u32::MAX,
        grace: LONGEST,
    };
    let lie = reply(-2, "", [i64::MAX; 2]);
    assert_eq!(parse(&asked, lie), Reply::Queued(far));
    for lie in [
        array([Value::Int(5), text(VALUE)]),
        reply(-2, VALUE, told),
        reply(-2, "", [0; 2]),
        reply(-3, "", told),
        reply(5, VALUE, [-1, 0]),
        reply(5, VALUE, [0, -1]),
        array([Value::Int(5), text(VALUE), Value::Int(2)]),
    ] {
        assert_garbled(&asked, lie);
    }
    for request in [acquire(), put_back(OWNER)] {
        assert_garbled(&request, reply(5, VALUE, told));
        assert_garbled(&request, reply(-2, "", told));
    }
}

#[test]
fn records_that_no_script_returns_are_garbled() {
    let beyond = (Token::LARGEST.0 + 1).to_string();
    let long = "x".repeat(1_000);
    let lies = [
        (0, "x"),
        (0, "-7"),
        (0, "+7"),
        (0, "18446744073709551616"),
        (1, &long),
        (2, "2"),
        (8, ""),
        (8, "1e3"),
        (9, &beyond),
        (9, ""),
        (10, "x"),
    ];
    for (index, lie) in lies {
        let mut texts = VOTING;
        texts[index] = lie;
        assert_garbled(&Request::Probe, record_of(texts));
    }
    for (index, lie) in [(3, "x"), (4, ""), (5, "x"), (7, "x")] {
        let mut texts = LOST;
        texts[index] = lie;
        assert_garbled(&Request::Probe, record_of(texts));
    }
    for no_other_format in ["1", "", "x"] {
        assert_garbled(&Request::Probe, array([text(no_other_format)]));
    }
    let mut longer: Vec<Value> = VOTING.map(text).into();
    longer.push(text(""));
    assert_garbled(&Request::Probe, Value::Array(longer));
    assert_garbled(&Request::Probe, ints([0; 11]));
}

#[test]
fn no_time_is_longer_than_can_be_reckoned_with() {
    let forever = array([Value::Int(i64::MAX), text("")]);
    let expected = Reply::Held {
        owner: None,
        remaining: Some(LONGEST),
        ahead: Ahead::default(),
    };
    assert_eq!(parse(&acquire(), forever), expected);
    let mut texts = VOTING;
    texts[8] = "18446744073709551615";
    let Reply::Record(record) = parse(&Request::Probe, record_of(texts)) else {
        panic!("no record")
    };
    assert_eq!(record.longest, LONGEST);
}

#[test]
fn errors_keep_the_servers_words_and_tell_whether_anything_was_done() {
    let refused = |request: &Request, line| match parse(request, error(line)) {
        Reply::Refused {
            message,
            is_untouched,
            ..
        } => {
            assert_eq!(*message, *line);
            is_untouched
        }
        reply => panic!("{reply:?}"),
    };
    for line in [
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "REDLOCK counter beyond 2^52 or no number: 7",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "ERR The user executing the script can't run this command or subcommand",
        "ERR ACL failure in script: User a has no permissions to run the 'set' command",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "LOADING",
    ] {
        assert!(refused(&acquire(), line), "{line}");
    }
    assert!(!refused(&acquire(), "ERR unknown command"));
    assert!(!refused(&acquire(), "UNKILLABLE x"));
    // What Redis 6.2 says of the same.
    let begun = "ERR Error running script (call to f_6b1b): @user_script:7: ";
    for (earlier, line) in [
        (format!("{begun}@user_script: 7: -OOM no"), "OOM no"),
        ("@user_script: 7: -OOM no".to_owned(), "OOM no"),
        (
            format!("{begun}@user_script: 7: The user executing the script can't"),
            "ERR The user executing the script can't",
        ),
        (format!("{begun}WRONGTYPE no"), "WRONGTYPE no"),
    ] {
        for request in [acquire(), release()] {
            let said = |line| parse(&request, error(line));
            assert_eq!(said(&earlier), said(line));
        }
    }
    let no_script = error("NOSCRIPT No matching script.");
    assert!(lacks_script(&no_script));
    assert_eq!(parse(&acquire(), no_script), Reply::NotAdmitted);
    let wrong = || error("WRONGTYPE Operation against a key");
    assert_eq!(parse(&release(), wrong()), Reply::NotOwner);
    assert_eq!(parse(&extend(None), wrong()), Reply::NotOwner);
    assert_eq!(parse(&watch(), wrong()), Reply::Taken);
}

#[test]
fn a_server_that_may_not_tell_who_it_is_differs_from_one_that_cannot_now() {
    let info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:1\r\n";
    let identity = |answer| parse(&Request::Identify, answer);
    let is = |name: &str| Reply::Identity {
        server: Some(name.into()),
    };
    assert_eq!(identity(text(info)), is("abc"));
    let verbatim = Value::VerbatimString {
        format: redis::VerbatimFormat::Text,
        text: info.into(),
    };
    assert_eq!(identity(verbatim), is("abc"));
    let unknown = Reply::Identity { server: None };
    assert_eq!(identity(text("# Server\r\n")), unknown);
    assert_eq!(
        identity(error("NOPERM this user has no permissions")),
        unknown
    );
    for passing in ["LOADING x", "BUSY x", "MASTERDOWN x", "NOAUTH x"] {
        let reply = identity(error(passing));
        assert!(matches!(reply, Reply::Refused { .. }), "{reply:?}");
    }
}

#[test]
fn a_lie_is_shown_by_its_beginning_and_no_more_of_it_is_looked_at() {
    let mut deep = Value::Nil;
    for _ in 0..1_000 {
        deep = array([deep]);
    }
    let lies = [
        text(&"x".repeat(100_000_000)),
        Value::SimpleString("x".repeat(100_000_000)),
        Value::Array(vec![Value::Int(7); 1_000_000]),
        Value::Array(vec![text(&"\u{1F600}".repeat(1_000)); 1_000]),
        deep,
    ];
    for lie in lies {
        let Reply::Garbled { answer } = parse(&release(), lie) else {
            panic!("it is read")
        };
        assert_eq!(answer.chars().count(), 301);
        assert!(answer.ends_with('…'), "{answer}");
    }
    let short = parse(&release(), ints([7, -1]));
    let answer = "array([int(7), int(-1)])".into();
    assert_eq!(short, Reply::Garbled { answer });
    let long = error(&format!("ERR {}", "x".repeat(1_000_000)));
    let Reply::Refused { message, .. } = parse(&release(), long) else {
        panic!("no error")
    };
    assert_eq!(message.chars().count(), 301);
}
