//! Injected failures, which do not depend on the content of a request.

use http::{HeaderValue, Response, StatusCode, header};

use super::reply::{Reply, ReplyBody};
use super::route::Api;

/// Returns the answer for a failure in the format of the API.
pub(crate) fn failure(api: Api, status: u16, is_throttled: bool) -> Reply {
    let status = match api {
        Api::Swift if is_throttled => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
    };
    let (kind, text) = match api {
        Api::Swift => {
            let reason = status.canonical_reason().unwrap_or("Error");
            ("text/html; charset=UTF-8", format!("<html><h1>{reason}</h1></html>"))
        }
        Api::S3 => {
            let (code, message) = match status.as_u16() {
                503 if is_throttled => ("SlowDown", "Please reduce your request rate."),
                503 => ("ServiceUnavailable", "Please try again."),
                500 => ("InternalError", "We encountered an internal error. Please try again."),
                403 => ("AccessDenied", "Access Denied"),
                404 => ("NoSuchKey", "The specified key does not exist."),
                _ => ("InjectedFault", "This failure was asked for."),
            };
            let text = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
                 <Error><Code>{code}</Code><Message>{message}</Message></Error>"
            );
            ("application/xml", text)
        }
    };
    let mut reply = Response::new(ReplyBody::bytes(text));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}
