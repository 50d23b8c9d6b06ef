use actix_web::{
    HttpResponse, ResponseError,
    http::{
        StatusCode,
        header::{self, ContentType},
    },
};

use crate::error::LockError;

/// [`http_status`](LockError::http_status) with `Retry-After`, and a short text that names neither the
/// key nor the lock servers. Actix keeps the error itself with the response, so that a middleware can
/// log it.
///
/// ```
/// use actix_web::{Responder, web};
/// use redlock_runtime::redis_lock;
///
/// #[redis_lock(key = "order:{path.0}", expire = 10s)]
/// async fn pay(path: web::Path<(u64,)>) -> actix_web::Result<impl Responder> {
///     Ok(format!("{} is paid", path.0))
/// }
/// ```
impl ResponseError for LockError {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        if let Some(pause) = self.retry_pause() {
            response.insert_header((header::RETRY_AFTER, pause.as_secs()));
        }
        response.content_type(ContentType::plaintext());
        response.body(self.text_for_clients())
    }
}
