//! The harness against itself, where it judges: each test fails if what it looks for is not found, or if a fault
//! that no other test would miss does nothing.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use redlock_tests::{Cluster, Counter, Mode, PATIENCE, Server, Worker};

/// Commands as clients write them: a proxy counts no others.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";

const LONG: Duration = Duration::from_secs(60);

#[test]
#[should_panic = "still holds key"]
fn one_node_that_holds_is_enough_to_fail() {
    let cluster = Cluster::start(3);
    cluster.occupy("key", "value", LONG, [1]);
    cluster.assert_free("key");
}

#[test]
#[should_panic = "nobody released key"]
fn an_expired_key_was_not_released() {
    let server = Server::start();
    server.set_nx_px("key", "value", Duration::from_millis(1));
    server.wait_free("key");
}

#[test]
#[should_panic = "exit status: 3"]
fn a_worker_that_fails_is_no_success() {
    Worker::spawn("/bin/sh", &["-c", "exit 3"], &[]).wait_success();
}

#[tokio::test]
async fn a_counter_comes_out_wrong_when_sections_overlap() {
    let server = Server::start();
    let counter = Counter::at(&server.url(), "overlap");
    let other = counter.clone();
    counter
        .section_with(async move { other.section().await })
        .await;
    let tally = counter.tally();
    assert_eq!((tally.count, tally.sections), (1, 2));
    assert_eq!((tally.overlaps, tally.inside), (1, 0));
    let failure = catch_unwind(AssertUnwindSafe(|| counter.assert_exclusive(2)));
    assert!(failure.is_err());
}

#[test]
fn a_clock_can_be_made_to_drift() {
    let machine = Server::start();
    let (slow, fast) = (Server::start_with_clock(), Server::start_with_clock());
    slow.clock().drift(-50);
    fast.clock().drift(100);

    // Each reading lies within the next, so that it does not matter how long they take.
    let times = || [fast.time(), machine.time(), slow.time()];
    let begin = times();
    while machine.time() < begin[1] + Duration::from_millis(100) {}
    let mut end = [slow.time(), machine.time(), fast.time()];
    end.reverse();
    let [fast_took, took, slow_took] = [0, 1, 2].map(|clock| end[clock] - begin[clock]);
    let grain = Duration::from_micros(2);
    assert!(slow_took * 2 <= took + grain, "{slow_took:?} {took:?}");
    assert!(fast_took + grain >= took * 2, "{fast_took:?} {took:?}");
}

#[test]
fn new_connections_can_be_reset_while_old_ones_pass() {
    let server = Server::start();
    let proxy = server.proxy();
    let connect = || {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut old = connect();
    let mut ping = || {
        old.write_all(b"PING\r\n").unwrap();
        old.read_exact(&mut [0; b"+PONG\r\n".len()]).unwrap();
    };
    ping();
    proxy.set(Mode::ResetNew);
    let error = connect().read(&mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    ping();
}

#[test]
fn what_a_proxy_cuts_or_forgets_does_not_arrive() {
    let server = Server::start();
    let proxy = server.proxy();
    let connect = || {
        proxy.pass();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        stream.write_all(PING).unwrap();
        stream.read_exact(&mut [0; b"+PONG\r\n".len()]).unwrap();
        stream
    };
    let mut stream = connect();
    proxy.set(Mode::CutReplies);
    stream.write_all(PING).unwrap();
    let mut reply = Vec::new();
    let error = stream.read_to_end(&mut reply).unwrap_err();
    assert_eq!(
        (error.kind(), &*reply),
        (ErrorKind::ConnectionReset, &b"+PO"[..])
    );

    // The server does what is asked, and nothing is heard of it.
    for (mode, sets) in [
        (Mode::HalfOpen, true),
        (Mode::Forget(Duration::ZERO), false),
    ] {
        server.command(&["DEL", "key"]);
        let mut stream = connect();
        proxy.set(mode);
        proxy.clear();
        stream.write_all(SET).unwrap();
        while proxy.traffic().count("SET") == 0 {}
        if sets {
            while proxy.traffic().held_replies == 0 {}
        }
        proxy.pass();
        stream.write_all(PING).unwrap();
        while proxy.traffic().count("PING") == 0 {}
        stream.set_nonblocking(true).unwrap();
        let error = stream.read(&mut [0; 16]).unwrap_err();
        assert_eq!(
            (error.kind(), server.exists("key")),
            (ErrorKind::WouldBlock, sets),
            "{mode:?}"
        );
    }

    let mut stream = connect();
    proxy.set(Mode::Throttle(1));
    let begin = Instant::now();
    stream.write_all(PING).unwrap();
    stream.read_exact(&mut [0; b"+PONG\r\n".len()]).unwrap();
    // A lower bound, which a slow machine cannot break: a pause before each byte of the reply.
    assert!(begin.elapsed() >= Duration::from_millis(10) * b"+PONG\r\n".len() as u32);
}
