use axum_core::{
    body::Body,
    response::{IntoResponse, Response},
};

use super::response::response;
use crate::error::LockError;

/// [`http_status`](LockError::http_status) with `Retry-After`, and a short text that names neither the
/// key nor the lock servers. The error itself is among the response's extensions, so that a layer can
/// log it.
///
/// ```
/// use axum_core::response::IntoResponse;
/// use redlock_runtime::{LockError, redis_lock};
///
/// #[redis_lock(key = "order:{id}", expire = 10s)]
/// async fn pay(id: u64) -> Result<String, LockError> {
///     Ok(format!("{id} is paid"))
/// }
///
/// async fn handler() -> impl IntoResponse {
///     pay(7).await
/// }
/// ```
impl IntoResponse for LockError {
    fn into_response(self) -> Response {
        let text = Body::from(self.text_for_clients());
        let mut response = response(self, text);
        let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, plain);
        response
    }
}
