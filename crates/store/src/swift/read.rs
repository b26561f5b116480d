//! Reads of objects: whole, ranges, conditional.

use http::{Method, Response, StatusCode, header};

use super::Swift;
use super::answer::{Failure, empty, set};
use super::call::{Call, Place};
use super::ranges::{self, Wanted};
use super::token::random_name;
use crate::clock;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::stored::body::Body;
use crate::stored::index::EtagRule;
use crate::stored::object::{Form, Object};

/// Answers GET and HEAD of an object.
pub(super) fn read(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let object = swift.account.object(&bucket, &place.object, call.parameter("version-id"))?;
    if object.is_delete_marker() {
        return Err(Failure::new(StatusCode::NOT_FOUND, "this version is a delete marker"));
    }
    let content = swift.account.content(&object)?;
    let mut reply = match unless_conditions_hold(call, &object) {
        Some(reply) => reply,
        None if call.method == Method::HEAD => {
            let mut reply = empty(StatusCode::OK);
            set(&mut reply, header::CONTENT_LENGTH, content.length());
            set(&mut reply, header::CONTENT_TYPE, object.content_type());
            reply
        }
        None => body(call, &object, &content),
    };
    describe(&mut reply, &object);
    Ok(reply)
}

fn body(call: &Call, object: &Object, body: &Body) -> Reply {
    let length = body.length();
    match ranges::parse(call.header(header::RANGE.as_str()), length) {
        Wanted::Whole => {
            let mut reply = Response::new(ReplyBody::stream(body.stream()));
            set(&mut reply, header::CONTENT_LENGTH, length);
            set(&mut reply, header::CONTENT_TYPE, object.content_type());
            reply
        }
        Wanted::Nothing => {
            let mut reply = empty(StatusCode::RANGE_NOT_SATISFIABLE);
            set(&mut reply, header::CONTENT_RANGE, format!("bytes */{length}"));
            reply
        }
        Wanted::Ranges(ranges) if ranges.len() == 1 => {
            let range = ranges[0].clone();
            let stream = body.slice(range.clone()).stream();
            let mut reply = Response::new(ReplyBody::stream(stream));
            *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
            set(&mut reply, header::CONTENT_LENGTH, range.end - range.start);
            set(&mut reply, header::CONTENT_TYPE, object.content_type());
            let shown = format!("bytes {}-{}/{length}", range.start, range.end - 1);
            set(&mut reply, header::CONTENT_RANGE, shown);
            reply
        }
        Wanted::Ranges(ranges) => {
            let boundary = random_name();
            let pieces = ranges::multipart(body, &ranges, object.content_type(), &boundary);
            let mut reply = Response::new(ReplyBody::pieces(pieces));
            *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
            let content_type = format!("multipart/byteranges;boundary={boundary}");
            set(&mut reply, header::CONTENT_TYPE, content_type);
            reply
        }
    }
}

/// Returns the answer 304 or 412 if the client's conditions require it.
fn unless_conditions_hold(call: &Call, object: &Object) -> Option<Reply> {
    let matches =
        |name: &str| call.header(name).map(|text| EtagRule::parse(text).matches(&object.etag));
    if matches("if-match") == Some(false) {
        return Some(empty(StatusCode::PRECONDITION_FAILED));
    }
    (matches("if-none-match") == Some(true)).then(|| empty(StatusCode::NOT_MODIFIED))
}

/// Sets the headers that describe an object.
fn describe(reply: &mut Reply, object: &Object) {
    // The entity tag of a multipart object of S3 is not an MD5, like that of a large object.
    let is_large =
        !object.about.part_bytes.is_empty() || matches!(object.about.form, Form::StaticLarge(_));
    if is_large {
        set(reply, header::ETAG, format!("\"{}\"", object.etag));
        set(reply, "x-static-large-object", "True");
    } else {
        set(reply, header::ETAG, &object.etag);
    }
    set(reply, header::ACCEPT_RANGES, "bytes");
    set(reply, header::LAST_MODIFIED, clock::format_http_date(object.modified_us));
    set(reply, "x-timestamp", clock::format_seconds(object.modified_us));
    for (name, value) in &object.about.headers {
        set(reply, name.as_str(), value);
    }
    for (name, value) in &object.about.metadata {
        set(reply, format!("x-object-meta-{name}"), value);
    }
    if !object.is_null_version {
        set(reply, "x-object-version-id", object.version_id());
    }
}
