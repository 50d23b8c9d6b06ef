//! On this system sockets stay with the runtime in which they were made: nothing here can exist.

use std::{io, net::TcpStream, sync::Arc, task::Context};

use redlock_protocol::NodeId;

use super::carrier::Stream;

#[derive(Clone, Debug)]
pub(crate) enum Sockets {}

pub(crate) type Seat = Sockets;
pub(crate) type Watch = Sockets;

impl Sockets {
    pub(crate) fn new(_: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn look(&self) -> bool {
        match *self {}
    }

    pub(crate) fn watch(&self) -> io::Result<Watch> {
        match *self {}
    }

    pub(crate) fn seat(self: &Arc<Self>, _: NodeId) -> Seat {
        match **self {}
    }

    pub(crate) fn take(&self, _: &mut Context<'_>) -> bool {
        match *self {}
    }

    pub(super) fn is_unread(&self) -> bool {
        match *self {}
    }

    pub(super) fn try_reading(&self) {
        match *self {}
    }

    pub(super) fn hold(&self, _: TcpStream) -> io::Result<Box<dyn Stream>> {
        match *self {}
    }
}
