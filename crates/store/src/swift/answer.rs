//! Answers and errors of the Swift API.

use std::fmt::Display;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use crate::error::Refusal;
use crate::exchange::reply::{Reply, ReplyBody};

/// A failed request.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// A header that belongs to the status.
    pub(super) header: Option<(HeaderName, String)>,
}

impl Failure {
    pub(super) fn new(status: StatusCode, message: impl Display) -> Failure {
        Failure { status, message: message.to_string(), header: None }
    }

    pub(super) fn into_reply(self) -> Reply {
        let mut reply = text(self.status, self.message);
        if let Some((name, value)) = self.header {
            set(&mut reply, name, value);
        }
        reply
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let status = match &refusal {
            _ if refusal.is_full() => StatusCode::INSUFFICIENT_STORAGE,
            Refusal::NoSuchBucket
            | Refusal::NoSuchKey
            | Refusal::DeleteMarker
            | Refusal::NoSuchVersion
            | Refusal::NoSuchUpload => StatusCode::NOT_FOUND,
            Refusal::BucketExists | Refusal::BucketNotEmpty | Refusal::Segment(_) => {
                StatusCode::CONFLICT
            }
            Refusal::PreconditionFailed | Refusal::NothingToMatch => {
                StatusCode::PRECONDITION_FAILED
            }
            Refusal::InvalidPart | Refusal::InvalidPartOrder | Refusal::NoVersionName => {
                StatusCode::BAD_REQUEST
            }
            // Swift's own status for a client that disconnected.
            Refusal::Incomplete | Refusal::Body(_) | Refusal::NotAsSigned => {
                StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST)
            }
            Refusal::Locked => StatusCode::FORBIDDEN,
            Refusal::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Refusal::Full { .. } | Refusal::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failure::new(status, refusal)
    }
}

/// Returns an answer without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::empty());
    *reply.status_mut() = status;
    reply
}

/// Returns an answer with a line of text.
pub(super) fn text(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    document(status, "text/plain; charset=utf-8", text)
}

/// Returns an answer with a JSON document.
pub(super) fn json(status: StatusCode, document: &serde_json::Value) -> Reply {
    self::document(status, "application/json; charset=utf-8", document.to_string())
}

/// Returns an answer with a document.
fn document(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let body = body.into();
    // Set here, because the answer to HEAD loses its body.
    let length = HeaderValue::from(body.len());
    let mut reply = Response::new(ReplyBody::bytes(body));
    reply.headers_mut().insert(header::CONTENT_LENGTH, length);
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

/// Sets a header; omits a value that HTTP cannot represent.
pub(super) fn set(reply: &mut Reply, name: impl TryInto<HeaderName>, value: impl Display) {
    if let (Ok(name), Ok(value)) =
        (name.try_into(), HeaderValue::from_bytes(value.to_string().as_bytes()))
    {
        reply.headers_mut().insert(name, value);
    }
}
