//! Reads of objects: whole, in ranges, under conditions.

use http::{Method, Response, StatusCode, header};

use super::headers::describe;
use super::large;
use super::ranges::{self, Wanted};
use crate::account::content::Content;
use crate::clock;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::stored::body::Body;
use crate::stored::index::EtagRule;
use crate::stored::object::{Form, Object};
use crate::swift::Swift;
use crate::swift::access::token::random_name;
use crate::swift::answer::{Failure, empty, set};
use crate::swift::call::{Call, Place};

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
    let content = match shows_manifest && object.about.form.is_large() {
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
