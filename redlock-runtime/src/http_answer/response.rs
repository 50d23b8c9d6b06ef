use crate::error::LockError;

/// The answer for frameworks that share the types of the crate `http`.
pub(super) fn response<B>(error: LockError, body: B) -> http::Response<B> {
    let mut response = http::Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(error.http_status())
        .unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    if let Some(pause) = error.retry_pause() {
        let seconds = http::HeaderValue::from(pause.as_secs());
        let headers = response.headers_mut();
        headers.insert(http::header::RETRY_AFTER, seconds);
    }
    response.extensions_mut().insert(error);
    response
}
