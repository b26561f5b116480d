//! Objects: write, change, delete. Reads are in `read.rs`.

use std::sync::Arc;

use http::{StatusCode, header};
use s3s::checksum::ChecksumHasher;

use super::answer::{Failure, empty, set, text};
use super::call::{Call, Place, decode};
use super::{Swift, copy, large};
use crate::clock;
use crate::index::{EtagRule, Precondition};
use crate::intake::take_in;
use crate::object::{About, Draft, Form, Object};
use crate::reply::Reply;

/// The most bytes of one object.
pub(super) const OBJECT_BYTES_MAX: u64 = 5 << 30;

/// Headers that are stored with an object beside its metadata.
const KEPT_HEADERS: [&str; 4] =
    ["cache-control", "content-disposition", "content-encoding", "content-language"];

/// Answers PUT of an object.
pub(super) async fn put(swift: &Swift, call: &mut Call, place: &Place) -> Result<Reply, Failure> {
    if call.header("x-copy-from").is_some() {
        return copy::to_here(swift, call, place).await;
    }
    let length = call.content_length()?;
    let bucket = swift.account.bucket(&place.container)?;
    let precondition = precondition(call);
    if matches!(precondition.if_none_match, Some(EtagRule::OneOf(_))) {
        let problem = "If-None-Match of a write can only be *";
        return Err(Failure::new(StatusCode::BAD_REQUEST, problem));
    }
    // Checked before the body is taken in as well, so that a refusal is cheap.
    precondition.check(bucket.index().current(&place.object).map(|object| &**object))?;
    if call.parameter("multipart-manifest") == Some("put") {
        return large::put(swift, call, place, &bucket, &precondition).await;
    }
    let mut about = describe(call)?;
    about.form = form(call)?;
    let hasher = ChecksumHasher::default();
    let body = call.body.clone();
    let taken = take_in(&swift.account.storage, body, length, OBJECT_BYTES_MAX, hasher).await?;
    check_etag(call, &taken.etag())?;
    let draft = Draft { etag: taken.etag(), body: taken.body, about };
    let object = swift.account.put(&bucket, &place.object, draft, &precondition).await?;
    Ok(created(&object, &object.etag))
}

pub(super) fn precondition(call: &Call) -> Precondition {
    Precondition {
        if_match: call.header("if-match").map(EtagRule::parse),
        if_none_match: call.header("if-none-match").map(EtagRule::parse),
    }
}

/// Refuses a body that is not the one whose digest the client sent.
pub(super) fn check_etag(call: &Call, found: &str) -> Result<(), Failure> {
    match call.header(header::ETAG.as_str()) {
        Some(promised) if !promised.trim_matches('"').eq_ignore_ascii_case(found) => {
            Err(Failure::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                format!("the body's ETag is {found}, not {promised}"),
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

/// Reads what a client says about an object.
pub(super) fn describe(call: &Call) -> Result<About, Failure> {
    let headers = KEPT_HEADERS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), call.header(name)?.to_owned())))
        .collect();
    let content_type = call.header(header::CONTENT_TYPE.as_str()).filter(|text| !text.is_empty());
    Ok(About {
        content_type: Some(Arc::from(content_type.unwrap_or("application/octet-stream"))),
        headers,
        metadata: call.metadata("x-object-meta-")?,
        expires_at_s: expiry(call)?,
        ..About::default()
    })
}

/// Reads when the object's time will be over.
fn expiry(call: &Call) -> Result<Option<u64>, Failure> {
    let number = |name: &str| -> Result<Option<u64>, Failure> {
        let Some(text) = call.header(name) else { return Ok(None) };
        let number = text.parse().map(Some);
        number.map_err(|_| Failure::new(StatusCode::BAD_REQUEST, format!("{name} is no number")))
    };
    let now_s = clock::now_us() / 1_000_000;
    let at = match number("x-delete-after")? {
        Some(after_s) => Some(now_s.saturating_add(after_s)),
        None => number("x-delete-at")?,
    };
    match at {
        Some(at) if at < now_s => {
            Err(Failure::new(StatusCode::BAD_REQUEST, "X-Delete-At lies in the past"))
        }
        at => Ok(at),
    }
}

/// Reads what kind of object a client makes.
fn form(call: &Call) -> Result<Form, Failure> {
    let place = |name: &str| -> Result<Option<String>, Failure> {
        let Some(text) = call.header(name) else { return Ok(None) };
        let place = decode(text.trim_start_matches('/'))?;
        if place
            .split_once('/')
            .is_none_or(|(container, rest)| container.is_empty() || rest.is_empty())
        {
            let problem = format!("{name} is not of the form CONTAINER/OBJECT");
            return Err(Failure::new(StatusCode::BAD_REQUEST, problem));
        }
        Ok(Some(place))
    };
    if call.parameter("temp_url_sig").is_some()
        && ["x-object-manifest", "x-symlink-target"].iter().any(|name| call.header(name).is_some())
    {
        // Else who may write one object could read every other.
        let problem = "a signed address must not refer to other objects";
        return Err(Failure::new(StatusCode::BAD_REQUEST, problem));
    }
    if let Some(prefix) = place("x-object-manifest")? {
        return Ok(Form::DynamicLarge(prefix));
    }
    Ok(place("x-symlink-target")?.map_or(Form::Plain, Form::Symlink))
}

/// Answers POST of an object: its metadata is replaced.
pub(super) async fn post(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let version_id = call.version_id();
    // One that is not there is said to be so, whatever else is wrong.
    swift.account.find(&bucket, &place.object, version_id)?;
    let given = describe(call)?;
    let manifest = form(call)?;
    let changes_type = call.header(header::CONTENT_TYPE.as_str()).is_some();
    let change = move |about: &mut About| {
        about.metadata = given.metadata;
        about.headers = given.headers;
        about.expires_at_s = given.expires_at_s;
        // The manifest of a dynamic large object is a header like its metadata.
        if let (Form::DynamicLarge(_), _) | (_, Form::DynamicLarge(_)) = (&about.form, &manifest) {
            about.form = manifest;
        }
        if changes_type {
            about.content_type = given.content_type;
        }
    };
    let now_us = Some(clock::now_us());
    swift.account.change_object(&bucket, &place.object, version_id, now_us, change).await?;
    Ok(text(StatusCode::ACCEPTED, ""))
}

/// Answers DELETE of an object.
pub(super) async fn delete(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    if call.parameter("multipart-manifest") == Some("delete") {
        return large::delete(swift, call, place).await;
    }
    let bucket = swift.account.bucket(&place.container)?;
    let version_id = call.version_id();
    let deleted = swift.account.delete(&bucket, &place.object, version_id, |_| Ok(())).await?;
    if !deleted.existed {
        return Err(Failure::new(StatusCode::NOT_FOUND, "the object does not exist"));
    }
    let mut reply = empty(StatusCode::NO_CONTENT);
    if let Some(version_id) = deleted.version_id {
        set(&mut reply, "x-object-version-id", version_id);
    }
    Ok(reply)
}
