//! Reads of objects: whole, in ranges, under conditions.

use http::{Method, Response, StatusCode, header};

use super::answer::{Failure, empty, set};
use super::call::{Call, Place};
use super::ranges::{self, Wanted};
use super::token::random_name;
use super::{Swift, large};
use crate::body::Body;
use crate::clock;
use crate::content::Content;
use crate::index::EtagRule;
use crate::object::{Form, Object};
use crate::reply::{Reply, ReplyBody};

/// Answers GET and HEAD of an object.
pub(super) async fn read(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let mut object = swift.account.object(&bucket, &place.object, call.version_id())?;
    if object.is_delete_marker() {
        return Err(Failure::new(StatusCode::NOT_FOUND, "this version is a delete marker"));
    }
    if call.parameter("symlink") != Some("get") {
        object = swift.account.follow(object)?;
    }
    if call.parameter("multipart-manifest") == Some("get")
        && let Form::StaticLarge(segments) = &object.about.form
    {
        return large::show(swift, call, &object, segments).await;
    }
    let shows_manifest = call.parameter("multipart-manifest") == Some("get");
    let content = match shows_manifest && large::is_large(&object) {
        true => Content { body: object.body.clone(), etag: object.etag.clone() },
        false => swift.account.content(&object)?,
    };
    if let Some(mut reply) = unless_conditions_hold(call, &object, &content) {
        describe(&mut reply, &object, &content);
        return Ok(reply);
    }
    let mut reply = match call.method {
        Method::HEAD => {
            let mut reply = empty(StatusCode::OK);
            set(&mut reply, header::CONTENT_LENGTH, content.body.length());
            set(&mut reply, header::CONTENT_TYPE, object.content_type());
            reply
        }
        _ => body(call, &object, &content.body),
    };
    describe(&mut reply, &object, &content);
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

/// Returns the answer 304 or 412 where the client's conditions ask for it.
fn unless_conditions_hold(call: &Call, object: &Object, content: &Content) -> Option<Reply> {
    let date = |name: &str| call.header(name).and_then(clock::parse_http_date);
    let modified_s = object.modified_us.div_ceil(1_000_000);
    let rule = |name: &str| call.header(name).map(EtagRule::parse);
    // Unlike HTTP, Swift holds a reader to both conditions.
    let is_refused = rule("if-match").is_some_and(|rule| !rule.matches(&content.etag))
        || date("if-unmodified-since").is_some_and(|since| modified_s > since);
    if is_refused {
        return Some(empty(StatusCode::PRECONDITION_FAILED));
    }
    let is_unchanged = match rule("if-none-match") {
        Some(rule) => rule.matches(&content.etag),
        None => date("if-modified-since").is_some_and(|since| modified_s <= since),
    };
    is_unchanged.then(|| empty(StatusCode::NOT_MODIFIED))
}

/// Sets the headers that describe an object.
pub(super) fn describe(reply: &mut Reply, object: &Object, content: &Content) {
    // What S3 put together from parts has an entity tag that is no MD5, like a large object.
    let has_parts = !object.about.part_bytes.is_empty();
    match has_parts || large::is_large(object) {
        true => set(reply, header::ETAG, format!("\"{}\"", content.etag)),
        false => set(reply, header::ETAG, &content.etag),
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
    if let Some(at) = object.about.expires_at_s {
        set(reply, "x-delete-at", at);
    }
    if !object.is_null_version {
        set(reply, "x-object-version-id", object.version_id());
    }
    match &object.about.form {
        Form::StaticLarge(_) => set(reply, "x-static-large-object", "True"),
        Form::DynamicLarge(prefix) => set(reply, "x-object-manifest", prefix),
        Form::Symlink(target) => set(reply, "x-symlink-target", target),
        Form::Plain if has_parts => set(reply, "x-static-large-object", "True"),
        Form::Plain | Form::DeleteMarker => {}
    }
}
