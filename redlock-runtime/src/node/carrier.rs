//! Whatever carries bytes to a server and back.

use tokio::io::{AsyncRead, AsyncWrite};

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
