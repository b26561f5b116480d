//! Common parts of all writes of objects: place and conditions, descriptive headers, answer.

use std::sync::Arc;

use http::{StatusCode, header};

use super::Swift;
use super::answer::{Failure, set, text};
use super::call::{Call, Place};
use crate::clock;
use crate::exchange::reply::Reply;
use crate::stored::bucket::Bucket;
use crate::stored::index::{EtagRule, Precondition};
use crate::stored::object::{About, Object};

/// Headers that are stored with an object in addition to its metadata.
const STORED_HEADERS: [&str; 4] =
    ["cache-control", "content-disposition", "content-encoding", "content-language"];

/// Finds the place of a write, and parses its conditions.
pub(super) fn where_to(
    swift: &Swift,
    call: &Call,
    place: &Place,
) -> Result<(Arc<Bucket>, Precondition), Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let precondition = Precondition {
        if_match: call.header("if-match").map(EtagRule::parse),
        if_none_match: call.header("if-none-match").map(EtagRule::parse),
    };
    if matches!(precondition.if_none_match, Some(EtagRule::OneOf(_))) {
        let problem = "If-None-Match of a write can only be *";
        return Err(Failure::new(StatusCode::BAD_REQUEST, problem));
    }
    swift.account.refuse_early(&bucket, &place.object, &precondition)?;
    Ok((bucket, precondition))
}

/// Refuses a body that does not match the digest that the client sent.
pub(super) fn check_etag(call: &Call, etag: &str) -> Result<(), Failure> {
    match call.header(header::ETAG.as_str()) {
        Some(promised) if !promised.trim_matches('"').eq_ignore_ascii_case(etag) => {
            Err(Failure::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("the body's ETag is {etag}, not {promised}"),
            ))
        }
        _ => Ok(()),
    }
}

/// Returns the answer to a write.
pub(super) fn created(object: &Object, etag: &str) -> Reply {
    let mut reply = text(StatusCode::CREATED, "");
    set(&mut reply, header::ETAG, etag);
    set(&mut reply, header::LAST_MODIFIED, clock::format_http_date(object.modified_us));
    if !object.is_null_version {
        set(&mut reply, "x-object-version-id", object.version_id());
    }
    reply
}

/// Parses the client's description of an object.
pub(super) fn read_about(call: &Call) -> Result<About, Failure> {
    let headers = STORED_HEADERS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), call.header(name)?.to_owned())))
        .collect();
    let content_type = call.header(header::CONTENT_TYPE.as_str()).filter(|text| !text.is_empty());
    Ok(About {
        content_type: Some(Arc::from(content_type.unwrap_or("application/octet-stream"))),
        headers,
        metadata: call.metadata("x-object-meta-")?,
        ..About::default()
    })
}
