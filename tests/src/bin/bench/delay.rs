//! A network that takes its time, and the same time for every byte: a proxy in front of each server.
//!
//! Each way of each connection has two threads, because timers of a runtime count whole milliseconds,
//! which is as long as the delay.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use redlock_tests::Cluster;

const ONE_WAY: Duration = Duration::from_millis(1);

/// URLs by which the servers can be reached over the slow network, until this process ends.
pub(crate) fn in_front_of(cluster: &Cluster) -> io::Result<Vec<String>> {
    let ports = cluster.iter().map(|server| listen(server.port()));
    ports
        .map(|port| Ok(format!("redis://127.0.0.1:{}", port?)))
        .collect()
}

/// The port of a new proxy.
fn listen(server: u16) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming() {
            // A client that cannot be connected sees its connection close.
            let _ = client.and_then(|client| connect(client, server));
        }
    });
    Ok(port)
}

fn connect(client: TcpStream, server: u16) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    carry(client.try_clone()?, server.try_clone()?);
    carry(server, client);
    Ok(())
}

/// One way of a connection. Ends both ways when its sender has ended.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    let (arrived, due) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (at, bytes) in due {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // It fails if the other way has done so.
        let _ = to.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(size @ 1..) = from.read(&mut buffer) {
            let at = Instant::now() + ONE_WAY;
            if arrived.send((at, buffer[..size].to_vec())).is_err() {
                break;
            }
        }
    });
}
