//! The harness against itself: each test fails if the feature in its name does nothing.

use std::{
    env,
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpStream},
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    time::Duration,
};

use redlock_tests::{Cluster, Counter, Mode, Proxy, Server, Worker, redis};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::OwnedFd,
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};

const LONG: Duration = Duration::from_secs(60);

mod server {
    use super::*;

    #[test]
    fn dies_when_its_test_panics() {
        let mut watch = None;
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let server = Server::start();
            watch = Some(Watch::on(server.pid()));
            panic!("on purpose");
        }));
        assert!(panic.is_err());
        assert!(watch.unwrap().has_ended());
    }

    #[test]
    fn a_frozen_one_dies_as_well() {
        let server = Server::start();
        server.stop();
        let watch = Watch::on(server.pid());
        drop(server);
        assert!(watch.has_ended());
    }

    #[test]
    fn a_frozen_server_answers_only_when_it_runs_on() {
        let server = Server::start();
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port()));
        let mut stream = patient(stream.unwrap());
        assert_ne!(state_of(server.pid()), 'T');
        server.stop();
        assert_eq!(state_of(server.pid()), 'T');
        stream.write_all(PING).unwrap();
        stream.set_nonblocking(true).unwrap();
        assert_eq!(
            stream.read(&mut [0; 16]).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        stream.set_nonblocking(false).unwrap();
        server.cont();
        assert_eq!(read_line(&mut stream), "+PONG");
    }

    #[test]
    #[should_panic = "never expires"]
    fn a_key_without_expiry_is_a_failure() {
        let server = Server::start();
        server.command(&["SET", "key", "value"]);
        let _ = server.pttl("key");
    }

    #[test]
    fn commands_are_counted() {
        let server = Server::start();
        server.compare_and_delete("key", "value");
        server.reset_counts();
        assert_eq!(server.count("eval"), 0);
        server.compare_and_delete("key", "value");
        server.compare_and_delete("key", "value");
        assert_eq!(server.count("EVAL"), 2);
        assert_eq!(server.count("get"), 2);
    }

    #[test]
    fn a_clock_can_be_stepped_both_ways_and_keys_follow() {
        let (server, other) = (Server::start_with_clock(), Server::start_with_clock());
        let day = Duration::from_secs(86_400);
        let begin = server.time();
        assert!(server.set_nx_px("key", "value", 2 * day));

        server.clock().step(day);
        let ahead = server.time();
        assert!(ahead >= begin + day, "{begin:?} {ahead:?}");
        assert!(server.pttl("key").unwrap() <= day);
        assert!(other.time() < begin + day);

        server.clock().step_back(3 * day);
        assert!(server.time() < begin);
        assert!(server.pttl("key").unwrap() > 3 * day);

        server.clock().step(5 * day);
        assert_eq!(server.pttl("key"), None);
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

        // What was gained stays.
        fast.clock().drift(-100);
        let stopped = fast.time();
        assert!(stopped >= begin[0] + fast_took);
        assert_eq!(fast.time(), stopped);
    }

    #[test]
    fn a_clock_goes_on_through_a_restart() {
        let server = Server::start_with_clock();
        let begin = server.time();
        server.clock().step(LONG);
        server.restart();
        assert!(server.time() >= begin + LONG);
    }

    #[test]
    #[should_panic = "goes by the machine's clock"]
    fn a_server_that_was_given_no_clock_has_none() {
        let _ = Server::start().clock();
    }
}

mod events {
    use super::*;

    #[test]
    fn can_be_waited_for() {
        let server = Server::start();
        std::thread::scope(|scope| {
            scope.spawn(|| server.wait_event("key", "del", 2));
            for _ in 0..2 {
                server.set_nx_px("key", "value", LONG);
                server.compare_and_delete("key", "value");
            }
        });
    }

    #[test]
    fn a_released_key_is_free() {
        let server = Server::start();
        server.set_nx_px("key", "value", LONG);
        server.compare_and_delete("key", "value");
        server.assert_free("key");
        server.wait_free("key");
    }

    #[test]
    #[should_panic = "still holds key"]
    fn a_held_key_is_not() {
        let server = Server::start();
        server.set_nx_px("key", "value", LONG);
        server.assert_free("key");
    }

    #[test]
    #[should_panic = "nobody released key"]
    fn an_expired_key_was_not_released() {
        let server = Server::start();
        server.set_nx_px("key", "value", Duration::from_millis(1));
        server.wait_free("key");
    }

    #[tokio::test]
    async fn a_release_can_be_awaited_on_the_thread_that_makes_it() {
        let cluster = Cluster::start(3);
        cluster.occupy("key", "value", LONG, 0..3);
        let free = tokio::spawn(cluster.await_free("key"));
        // Lets the wait begin on this thread.
        tokio::task::yield_now().await;
        assert!(!free.is_finished());
        for server in &cluster {
            server.compare_and_delete("key", "value");
        }
        free.await.unwrap();
        assert_eq!(cluster.held_on("key"), 0);
    }
}

mod cluster {
    use super::*;

    #[test]
    fn holders_are_listed_per_node() {
        let cluster = Cluster::start(3);
        cluster.occupy("key", "a", LONG, [0]);
        cluster.occupy("key", "b", LONG, [2]);
        let value = |value: &str| Some(value.to_owned());
        assert_eq!(cluster.holders("key"), [value("a"), None, value("b")]);
        assert_eq!(cluster.held_on("key"), 2);
        cluster[2].kill();
        assert_eq!(cluster.holders("key"), [value("a"), None, None]);
        assert_eq!(cluster.url_list().split(',').count(), 3);
    }

    #[test]
    #[should_panic = "still holds key"]
    fn one_node_that_holds_is_enough_to_fail() {
        let cluster = Cluster::start(3);
        cluster.occupy("key", "value", LONG, [1]);
        cluster.assert_free("key");
    }
}

mod proxy {
    use super::*;

    #[test]
    fn a_black_hole_gives_no_byte() {
        let (server, proxy) = proxied();
        let mut old = connect(&proxy);
        round_trip(&mut old);
        proxy.black_hole();
        proxy.clear();
        let mut new = connect(&proxy);
        for client in [&mut old, &mut new] {
            client.write_all(SET).unwrap();
        }
        proxy.wait_command("SET", 2);
        assert_eq!(server.clients().len(), 1);
        // What was swallowed does not come back.
        proxy.pass();
        round_trip(&mut connect(&proxy));
        assert!(!server.exists("key"));
        assert_silent(&mut old);
        assert_silent(&mut new);
        let passed = PING.len() as u64;
        assert_eq!(proxy.traffic().to_server, passed);
    }

    #[test]
    fn dropped_replies_are_those_of_commands_that_were_done() {
        let (server, proxy) = proxied();
        let mut client = connect(&proxy);
        round_trip(&mut client);
        proxy.drop_replies();
        client.write_all(SET).unwrap();
        proxy.wait_until("the reply", |traffic| traffic.replies == 2);
        assert!(server.exists("key"));
        proxy.pass();
        client.write_all(PING).unwrap();
        proxy.wait_until("the next reply", |traffic| traffic.replies == 3);
        assert_silent(&mut client);
    }

    #[test]
    fn held_replies_come_when_they_are_released() {
        let (server, proxy) = proxied();
        let mut client = connect(&proxy);
        proxy.hold_replies();
        client.write_all(SET).unwrap();
        client.write_all(PING).unwrap();
        proxy.wait_held_replies(2);
        assert!(server.exists("key"));
        assert_silent(&mut client);
        assert_eq!(proxy.traffic().to_clients, 0);
        proxy.release();
        assert_eq!(read_line(&mut client), "+OK");
        assert_eq!(read_line(&mut client), "+PONG");
        assert_eq!(proxy.traffic().held_replies, 0);
    }

    #[test]
    fn held_requests_come_when_they_are_released() {
        let (server, proxy) = proxied();
        let mut client = connect(&proxy);
        round_trip(&mut client);
        proxy.hold_requests();
        client.write_all(SET).unwrap();
        proxy.wait_held_requests(1);
        assert!(!server.exists("key"));
        proxy.release();
        assert_eq!(read_line(&mut client), "+OK");
        assert!(server.exists("key"));
    }

    #[test]
    fn a_partition_holds_both_ways_and_heals() {
        let (server, proxy) = proxied();
        let mut client = connect(&proxy);
        proxy.hold_replies();
        client.write_all(PING).unwrap();
        proxy.wait_held_replies(1);
        proxy.set(Mode::Hold);
        client.write_all(SET).unwrap();
        proxy.wait_held_requests(1);
        assert!(!server.exists("key"));
        assert_silent(&mut client);
        proxy.pass();
        assert_eq!(read_line(&mut client), "+PONG");
        assert_eq!(read_line(&mut client), "+OK");
    }

    #[test]
    fn held_bytes_outlive_their_server() {
        let (server, proxy) = proxied();
        let mut client = connect(&proxy);
        proxy.hold_replies();
        client.write_all(PING).unwrap();
        proxy.wait_held_replies(1);
        server.kill();
        proxy.release();
        assert_eq!(read_line(&mut client), "+PONG");
    }

    #[test]
    fn delayed_bytes_stay_in_the_proxy_until_their_time() {
        let (server, proxy) = proxied();
        let mut client = connect(&proxy);
        round_trip(&mut client);
        proxy.delay(LONG, Duration::ZERO);
        client.write_all(SET).unwrap();
        proxy.wait_command("SET", 1);
        assert_eq!(proxy.traffic().to_server, PING.len() as u64);
        assert!(!server.exists("key"));
        // The delay that counts is that of now.
        proxy.delay(Duration::from_millis(1), LONG);
        server.wait_event("key", "set", 1);
        proxy.wait_until("the reply", |traffic| traffic.replies == 2);
        assert_silent(&mut client);
        proxy.delay(Duration::from_millis(1), Duration::from_millis(1));
        assert_eq!(read_line(&mut client), "+OK");
    }

    #[test]
    fn half_open_connections_end_for_the_server_alone() {
        let (server, proxy) = proxied();
        let mut client = connect(&proxy);
        round_trip(&mut client);
        assert_eq!(server.clients().len(), 1);
        proxy.half_open();
        proxy.pass();
        proxy.wait_connections(1);
        client.write_all(SET).unwrap();
        proxy.wait_command("SET", 1);
        server.wait_clients(0);
        assert_silent(&mut client);
        assert!(!server.exists("key"));
    }

    #[test]
    fn reset_cuts_what_is_open_and_nothing_else() {
        let (_server, proxy) = proxied();
        let mut client = connect(&proxy);
        round_trip(&mut client);
        proxy.reset();
        let error = client.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert_eq!(proxy.traffic().open, 0);
        round_trip(&mut connect(&proxy));
    }

    #[test]
    fn refused_connections_are_refused_by_the_kernel() {
        let (_server, proxy) = proxied();
        let mut client = connect(&proxy);
        proxy.refuse();
        let error = client.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        let error = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        proxy.pass();
        round_trip(&mut connect(&proxy));
    }

    #[test]
    fn new_connections_can_be_reset_while_old_ones_pass() {
        let (_server, proxy) = proxied();
        let mut old = connect(&proxy);
        round_trip(&mut old);
        proxy.set(Mode::ResetNew);
        let error = connect(&proxy).read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        round_trip(&mut old);
    }

    #[tokio::test]
    async fn events_can_be_awaited_on_the_thread_that_causes_them() {
        let (_server, proxy) = proxied();
        let url = proxy.url();
        proxy.hold_replies();
        let client = tokio::spawn(async move {
            let client = redis::Client::open(url).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            redis::cmd("PING")
                .query_async::<String>(&mut connection)
                .await
        });
        proxy.await_connections(1).await;
        proxy.await_held_replies(1).await;
        proxy.release();
        proxy.await_command("PING", 1).await;
        assert_eq!(client.await.unwrap().unwrap(), "PONG");
    }

    fn proxied() -> (Server, Proxy) {
        let server = Server::start();
        let proxy = server.proxy();
        (server, proxy)
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        patient(TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap())
    }

    /// Nothing has arrived. What the proxy passes on is in the client's socket at once, since both
    /// are on this machine.
    fn assert_silent(client: &mut TcpStream) {
        client.set_nonblocking(true).unwrap();
        let error = client.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        client.set_nonblocking(false).unwrap();
    }
}

mod worker {
    use super::*;

    #[test]
    #[should_panic = "exit status: 3"]
    fn that_fails_is_no_success() {
        shell("exit 3").wait_success();
    }

    #[test]
    fn a_frozen_one_runs_on() {
        let worker = shell("read -r line; echo \"$line\"");
        worker.stop();
        assert_eq!(state_of(worker.pid()), 'T');
        worker.send_line("hello");
        worker.cont();
        worker.expect_line("hello");
    }

    /// The children must not outlive a test process that gets no chance to clean up: this one
    /// starts itself again as such a process, kills it, and watches its children.
    #[test]
    fn children_die_with_a_killed_test_process() {
        let mut parent = Command::new(env::current_exe().unwrap());
        let options = [
            "--exact",
            "worker::parent_of_frozen_children",
            "--ignored",
            "--nocapture",
        ];
        let parent = Worker::from_command(parent.args(options).env(ROLE, "parent"));
        let dir = parent.wait_line(|line| line.contains(DIR));
        let children = parent.wait_line(|line| line.starts_with(CHILDREN));
        let watches: Vec<Watch> = children
            .split(' ')
            .skip(1)
            .map(|pid| Watch::on(pid.parse().unwrap()))
            .collect();
        assert_eq!(watches.len(), 2);
        assert!(watches.iter().all(|watch| !watch.has_ended()));
        parent.kill();
        for watch in watches {
            watch.wait_end();
        }
        // What no destructor has removed.
        let (_, dir) = dir.split_once(DIR).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    #[ignore = "a part of children_die_with_a_killed_test_process"]
    fn parent_of_frozen_children() {
        if env::var_os(ROLE).is_none() {
            return;
        }
        let server = Server::start();
        let (_, dir): (String, String) = server.query(&["CONFIG", "GET", "dir"]);
        // One that is gone must not confuse the reaper.
        drop(Server::start());
        let worker = shell("trap '' HUP; read -r forever");
        server.stop();
        worker.stop();
        println!("{DIR}{dir}\n{CHILDREN} {} {}", server.pid(), worker.pid());
        std::thread::park();
    }

    const DIR: &str = "directory ";
    const CHILDREN: &str = "children";
    const ROLE: &str = "REDLOCK_TESTS_ROLE";

    fn shell(script: &str) -> Worker {
        Worker::spawn("/bin/sh", &["-c", script], &[])
    }
}

mod counter {
    use super::*;

    #[tokio::test]
    async fn comes_out_right_when_sections_take_turns() {
        let server = Server::start();
        let counter = Counter::on(&server, "turns");
        for _ in 0..5 {
            counter.section().await;
        }
        counter.assert_exclusive(5);
    }

    #[tokio::test]
    async fn comes_out_wrong_when_sections_overlap() {
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

    #[tokio::test]
    async fn a_dropped_section_was_left_but_not_done() {
        let server = Server::start();
        let counter = Counter::on(&server, "dropped");
        let mut section = Box::pin(counter.section_with(std::future::pending::<()>()));
        tokio::select! {
            biased;
            () = &mut section => unreachable!("its work never ends"),
            () = std::future::ready(()) => (),
        }
        assert_eq!(counter.tally().inside, 1);
        drop(section);
        counter.assert_exclusive(0);
    }

    #[test]
    fn a_killed_visitor_can_be_forgotten() {
        let server = Server::start();
        let counter = Counter::on(&server, "killed");
        server.command(&["INCR", "counter:killed:inside"]);
        assert_eq!(counter.tally().inside, 1);
        counter.forget_visitors();
        counter.assert_exclusive(0);
    }
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";

/// A stream on which a failure does not hang.
fn patient(stream: TcpStream) -> TcpStream {
    stream
        .set_read_timeout(Some(redlock_tests::PATIENCE))
        .unwrap();
    stream
}

fn round_trip(stream: &mut TcpStream) {
    stream.write_all(PING).unwrap();
    assert_eq!(read_line(stream), "+PONG");
}

fn read_line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        line.extend(byte);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

/// `T` for a stopped process.
fn state_of(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.chars().next().unwrap()
}

/// A process that is watched by a handle, not by its number, which may be used again.
struct Watch(Option<OwnedFd>);

impl Watch {
    fn on(pid: u32) -> Self {
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => Self(Some(handle)),
            Err(Errno::SRCH) => Self(None),
            Err(error) => panic!("{error}"),
        }
    }

    fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    fn wait_end(&self) {
        assert!(self.ends_within(redlock_tests::PATIENCE));
    }

    fn ends_within(&self, limit: Duration) -> bool {
        let Some(handle) = &self.0 else { return true };
        let mut handles = [PollFd::new(handle, PollFlags::IN)];
        let limit = limit.try_into().unwrap();
        poll(&mut handles, Some(&limit)).unwrap() == 1
    }
}
