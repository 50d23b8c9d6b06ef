//! The sockets of all servers behind one descriptor, which several runtimes can wait for: whoever works reads what
//! has come.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    os::{fd::OwnedFd, unix},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use redlock_protocol::NodeId;
use rustix::{
    event::epoll::{self, CreateFlags, Event, EventData, EventFlags},
    time::Timespec,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::UnixStream,
};

use super::carrier::Stream;

/// How much is taken from the descriptor at once.
const EVENTS: usize = 32;

/// All has been read.
const READ: u8 = 0;
/// There may be something to read.
const UNREAD: u8 = 1;
/// The other end is gone, which no more events tell.
const ENDING: u8 = 2;

#[derive(Debug)]
pub(crate) struct Sockets {
    epoll: OwnedFd,
    /// Of each server.
    states: Box<[AtomicU8]>,
}

/// The place of one server among them.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    sockets: Arc<Sockets>,
    node: NodeId,
}

/// How a runtime waits for the sockets: the one that was entered when it was made.
#[derive(Debug)]
pub(crate) struct Watch(UnixStream);

/// A socket in its seat, of TCP or of the file system. Wakes nobody: who looks at all sockets learns what has come.
#[derive(Debug)]
struct Seated {
    socket: TcpStream,
    seat: Seat,
}

impl Sockets {
    /// An empty set, for the sockets of that many servers.
    pub(crate) fn new(nodes: usize) -> io::Result<Self> {
        let epoll = unix::net::UnixStream::from(epoll::create(CreateFlags::CLOEXEC)?);
        // Which tokio insists on.
        epoll.set_nonblocking(true)?;
        Ok(Self {
            epoll: epoll.into(),
            states: (0..nodes).map(|_| AtomicU8::new(READ)).collect(),
        })
    }

    /// Notes for which servers there is something to read, or room to write. False if there is nothing new.
    pub(crate) fn look(&self) -> bool {
        let nothing = Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        };
        let mut events = [nothing; EVENTS];
        let mut is_new = false;
        loop {
            // It does not wait, so nothing interrupts it.
            let count = epoll::wait(&self.epoll, &mut events[..], Some(&Timespec::default()));
            let count = count.unwrap_or(0);
            for event in &events[..count] {
                let (flags, node) = (event.flags, event.data);
                let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
                let is_ending = flags.intersects(end);
                let state = if is_ending { ENDING } else { UNREAD };
                self.states[node.u64() as usize].fetch_max(state, SeqCst);
            }
            is_new |= count > 0;
            if count < EVENTS {
                return is_new;
            }
        }
    }

    /// Panics in a runtime without I/O.
    pub(crate) fn watch(&self) -> io::Result<Watch> {
        // As a stream, because tokio takes a descriptor of no kind only in unsafe code. Nothing is read from it or
        // written to it.
        let stream = unix::net::UnixStream::from(self.epoll.try_clone()?);
        UnixStream::from_std(stream).map(Watch)
    }

    pub(crate) fn seat(self: &Arc<Self>, node: NodeId) -> Seat {
        let sockets = Arc::clone(self);
        Seat { sockets, node }
    }
}

impl Watch {
    /// True if something may have come since it was taken last. `cx` is woken by what comes next.
    pub(crate) fn take(&self, cx: &mut Context<'_>) -> bool {
        let mut is_ready = false;
        // An error means that the runtime ends.
        while let Poll::Ready(Ok(())) = self.0.poll_read_ready(cx) {
            is_ready = true;
            // Takes the readiness back.
            let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
            let _ = self.0.try_io(Interest::READABLE, nothing);
        }
        is_ready
    }
}

impl Seat {
    fn state(&self) -> &AtomicU8 {
        &self.sockets.states[self.node.0]
    }

    pub(super) fn is_unread(&self) -> bool {
        self.state().load(SeqCst) != READ
    }

    /// What has come is read next, even if nobody has looked.
    pub(super) fn try_reading(&self) {
        self.state().fetch_max(UNREAD, SeqCst);
    }

    pub(super) fn hold(&self, socket: TcpStream) -> io::Result<Box<dyn Stream>> {
        self.state().store(READ, SeqCst);
        let node = EventData::new_u64(self.node.0 as u64);
        // What one who looks leaves unread, its state tells the next.
        let changes = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.sockets.epoll, &socket, node, changes)?;
        let seat = self.clone();
        Ok(Box::new(Seated { socket, seat }))
    }
}

fn unless_it_would_block(done: io::Result<usize>) -> Poll<io::Result<usize>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        done => Poll::Ready(done),
    }
}

impl AsyncRead for Seated {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let state = this.seat.state();
        // Before the look: what comes after it is noted anew.
        let before = state.swap(READ, SeqCst);
        if before == READ {
            return Poll::Pending;
        }
        let room = buffer.initialize_unfilled();
        let most = room.len();
        let read = this.socket.read(room);
        if read
            .as_ref()
            .is_ok_and(|length| *length == most || before == ENDING)
        {
            state.fetch_max(before, SeqCst);
        }
        unless_it_would_block(read).map_ok(|length| buffer.advance(length))
    }
}

impl AsyncWrite for Seated {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        unless_it_would_block(self.get_mut().socket.write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // It is closed when it is dropped.
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, iter, os::unix::net, task::Waker};

    use super::*;

    const NODE: NodeId = NodeId(7);

    fn pair() -> (Arc<Sockets>, Box<dyn Stream>, net::UnixStream) {
        let sockets = Arc::new(Sockets::new(8).unwrap());
        let (ours, theirs) = net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = sockets.seat(NODE).hold(OwnedFd::from(ours).into());
        (sockets, ours.unwrap(), theirs)
    }

    fn read(stream: &mut Box<dyn Stream>) -> Option<Vec<u8>> {
        let mut room = [0; 4];
        let mut buffer = ReadBuf::new(&mut room);
        let mut cx = Context::from_waker(Waker::noop());
        let read = Pin::new(stream).poll_read(&mut cx, &mut buffer);
        let read = read.map(Result::unwrap);
        read.is_ready().then(|| buffer.filled().to_vec())
    }

    fn write(stream: &mut Box<dyn Stream>, bytes: &[u8]) -> Option<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(stream).poll_write(&mut cx, bytes) {
            Poll::Ready(written) => Some(written.unwrap()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_comes_is_read_once_somebody_has_looked_and_so_is_the_end() {
        let (sockets, mut ours, mut theirs) = pair();
        assert!(sockets.look(), "there is room to write");
        assert_eq!(read(&mut ours), None);
        assert!(!sockets.look());
        theirs.write_all(b"12345").unwrap();
        assert_eq!(read(&mut ours), None, "nobody has looked");
        assert!(sockets.look() && !sockets.look());
        assert!(sockets.seat(NODE).is_unread());
        assert_eq!(read(&mut ours).unwrap(), b"1234");
        assert_eq!(read(&mut ours).unwrap(), b"5");
        assert!(!sockets.seat(NODE).is_unread());
        theirs.write_all(b"6").unwrap();
        sockets.seat(NODE).try_reading();
        assert_eq!(read(&mut ours).unwrap(), b"6");
        theirs.write_all(b"7").unwrap();
        drop(theirs);
        assert!(sockets.look());
        assert_eq!(read(&mut ours).unwrap(), b"7");
        assert_eq!(read(&mut ours).unwrap(), b"", "without another look");
        drop(ours);
        let (ours, _theirs) = net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = sockets.seat(NODE).hold(OwnedFd::from(ours).into());
        assert_eq!(read(&mut ours.unwrap()), None, "of the next");
    }

    #[test]
    fn room_to_write_is_noted() {
        let (sockets, mut ours, mut theirs) = pair();
        let written = iter::from_fn(|| write(&mut ours, &[0; 1 << 16])).sum();
        sockets.look();
        theirs.read_exact(&mut vec![0; written]).unwrap();
        assert!(sockets.look());
        assert_eq!(write(&mut ours, b"1"), Some(1));
    }

    #[test]
    fn what_comes_to_one_that_a_child_has_inherited_is_not_read_from_the_next() {
        let (sockets, ours, theirs) = pair();
        let (next, _theirs) = net::UnixStream::pair().unwrap();
        next.set_nonblocking(true).unwrap();
        // As if it were open in another process.
        std::mem::forget(ours);
        let mut next = sockets.seat(NODE).hold(OwnedFd::from(next).into()).unwrap();
        drop(theirs);
        assert!(sockets.look());
        assert_eq!(read(&mut next), None);
        assert!(!sockets.seat(NODE).is_unread());
    }

    #[tokio::test]
    async fn each_runtime_that_waits_is_woken_by_what_comes() {
        let (sockets, mut ours, mut theirs) = pair();
        let watches = [sockets.watch().unwrap(), sockets.watch().unwrap()];
        let come = async |watch: &Watch| {
            poll_fn(|cx| match watch.take(cx) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        };
        for _ in 0..3 {
            theirs.write_all(b"1").unwrap();
            for watch in &watches {
                come(watch).await;
            }
            assert!(sockets.look());
            assert_eq!(read(&mut ours).unwrap(), b"1");
            let again = poll_fn(|cx| Poll::Ready(watches.iter().any(|watch| watch.take(cx))));
            assert!(!again.await);
        }
        theirs.write_all(b"1").unwrap();
        // One that begins to wait when something is there.
        come(&sockets.watch().unwrap()).await;
    }
}
