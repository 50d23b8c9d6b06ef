//! What answers like a Sentinel, and says what a test wants.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::resp::Messages;

/// Says which server is the master. It has two doors, so that some clients can be kept from it and others not.
/// Its threads end with the test process.
#[must_use]
pub struct StandIn {
    ports: [u16; 2],
    said: Arc<Mutex<Said>>,
}

#[derive(Debug, Default)]
struct Said {
    master: (u16, u64),
    process: String,
    is_shut: [bool; 2],
    streams: [Vec<TcpStream>; 2],
}

impl StandIn {
    /// Names the server at this port the master, before any failover.
    ///
    /// # Panics
    /// If no port can be had.
    pub fn naming(master: u16) -> Self {
        let listeners =
            [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).expect("a port can be had"));
        let ports = listeners
            .each_ref()
            .map(|listener| listener.local_addr().expect("it is bound").port());
        let said = Arc::new(Mutex::new(Said {
            master: (master, 0),
            process: format!("{:040}", ports[0]),
            ..Said::default()
        }));
        for (door, listener) in listeners.into_iter().enumerate() {
            let said = Arc::clone(&said);
            thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let said = Arc::clone(&said);
                    thread::spawn(move || serve(door, stream, &said));
                }
            });
        }
        Self { ports, said }
    }

    /// Where it is to be asked by this door.
    pub fn address(&self, door: usize) -> String {
        format!("127.0.0.1:{}", self.ports[door])
    }

    /// From now on the server at this port is the master.
    pub fn name(&self, master: u16, epoch: u64) {
        self.said().master = (master, epoch);
    }

    /// Answers nobody at this door any more.
    pub fn shut(&self, door: usize) {
        let mut said = self.said();
        said.is_shut[door] = true;
        for stream in said.streams[door].drain(..) {
            // It may have been closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        lock(&self.said)
    }
}

fn serve(door: usize, mut stream: TcpStream, said: &Mutex<Said>) {
    let mut messages = Messages::default();
    let mut bytes = [0; 1024];
    if let Ok(stream) = stream.try_clone() {
        lock(said).streams[door].push(stream);
    }
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        messages.push(&bytes[..count]);
        while let Some(message) = messages.pop() {
            let said = lock(said);
            if said.is_shut[door] {
                return;
            }
            let reply = match &*message.words()[0] {
                "SENTINEL" => {
                    let (port, epoch) = said.master;
                    texts(&format!(
                        "ip 127.0.0.1 port {port} config-epoch {epoch} num-other-sentinels 0"
                    ))
                }
                "HELLO" => format!("%1\r\n{}{}", text("version"), text("7.0.0")),
                "INFO" => text(&format!("# Server\r\nrun_id:{}\r\n", said.process)),
                _ => "-ERR unknown command\r\n".to_owned(),
            };
            drop(said);
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

fn texts(words: &str) -> String {
    let words: Vec<String> = words.split(' ').map(text).collect();
    format!("*{}\r\n{}", words.len(), words.concat())
}

fn text(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}
