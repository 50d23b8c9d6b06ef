use std::sync::Arc;

use tonic::{Code, Status, metadata::MetadataValue};

use crate::error::LockError;

/// What a client of gRPC reads the pause from, in milliseconds.
const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// `ABORTED` if the lock was contended, `UNAVAILABLE` in an outage or at shutdown, `INVALID_ARGUMENT` if
/// the key was empty, and `INTERNAL` otherwise. The metadata `grpc-retry-pushback-ms` has
/// [`retry_pause`](LockError::retry_pause), or -1 where a client must not try again by itself. The text
/// names neither the key nor the lock servers. The error itself is the status's source.
///
/// ```
/// use redlock_runtime::redis_lock;
/// use tonic::{Request, Response, Status};
///
/// #[redis_lock(key = "order:{request.get_ref()}", expire = 10s)]
/// async fn pay(request: Request<u64>) -> Result<Response<()>, Status> {
///     Ok(Response::new(()))
/// }
/// ```
impl From<LockError> for Status {
    fn from(error: LockError) -> Self {
        let code = match error.http_status() {
            400 => Code::InvalidArgument,
            409 => Code::Aborted,
            503 => Code::Unavailable,
            _ => Code::Internal,
        };
        let mut status = Self::new(code, error.text_for_clients());
        let pushback = match error.retry_pause() {
            Some(pause) => MetadataValue::from(pause.as_secs().saturating_mul(1000)),
            None => MetadataValue::from(-1_i64),
        };
        status.metadata_mut().insert(PUSHBACK, pushback);
        status.set_source(Arc::new(error));
        status
    }
}
