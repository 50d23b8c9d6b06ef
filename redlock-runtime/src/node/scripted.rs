//! Streams of tests: whoever reads from one or writes to it gets what the test says.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::wire::Wire;

pub(super) fn wire(
    read: impl FnMut(&mut ReadBuf<'_>) -> Poll<io::Result<()>> + Send + Unpin + 'static,
    write: impl FnMut(&[u8]) -> Poll<io::Result<usize>> + Send + Unpin + 'static,
) -> Wire {
    Wire::new(Box::new(Scripted { read, write }))
}

/// Gives these bytes, and then nothing.
pub(super) fn once(
    mut bytes: &'static [u8],
) -> impl FnMut(&mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    move |buffer| {
        if bytes.is_empty() {
            return Poll::Pending;
        }
        buffer.put_slice(std::mem::take(&mut bytes));
        Poll::Ready(Ok(()))
    }
}

/// Takes nothing any more.
pub(super) fn broken(_: &[u8]) -> Poll<io::Result<usize>> {
    Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
}

struct Scripted<R, W> {
    read: R,
    write: W,
}

impl<R, W> AsyncRead for Scripted<R, W>
where
    R: FnMut(&mut ReadBuf<'_>) -> Poll<io::Result<()>> + Unpin,
    W: Unpin,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        (self.read)(buffer)
    }
}

impl<R, W> AsyncWrite for Scripted<R, W>
where
    R: Unpin,
    W: FnMut(&[u8]) -> Poll<io::Result<usize>> + Unpin,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        (self.write)(bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
