//! Headers of objects: what a client says of one, and what a reply says of it.

use std::sync::Arc;

use http::{StatusCode, header};

use crate::account::content::Content;
use crate::clock;
use crate::exchange::reply::Reply;
use crate::stored::bucket::Bucket;
use crate::stored::index::{EtagRule, Precondition};
use crate::stored::object::{About, Form, Object};
use crate::swift::Swift;
use crate::swift::answer::{Failure, set, text};
use crate::swift::call::{Call, Place, decode};

/// Headers that are stored with an object beside its metadata.
const KEPT_HEADERS: [&str; 4] =
    ["cache-control", "content-disposition", "content-encoding", "content-language"];

/// Finds where a write goes, and reads its conditions.
pub(super) fn where_to(
    swift: &Swift,
    call: &Call,
    place: &Place,
) -> Result<(Arc<Bucket>, Precondition), Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let precondition = precondition(call);
    if matches!(precondition.if_none_match, Some(EtagRule::OneOf(_))) {
        let problem = "If-None-Match of a write can only be *";
        return Err(Failure::new(StatusCode::BAD_REQUEST, problem));
    }
    // Checked before the body is taken in as well, so that a refusal is cheap.
    precondition.check(bucket.index().current(&place.object).map(|object| &**object))?;
    Ok((bucket, precondition))
}

/// Reads the conditions of a write.
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
pub(super) fn read_about(call: &Call) -> Result<About, Failure> {
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
pub(super) fn form(call: &Call) -> Result<Form, Failure> {
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

/// Sets the headers that describe an object.
pub(super) fn describe(reply: &mut Reply, object: &Object, content: &Content) {
    // What S3 put together from parts has an entity tag that is no MD5, like a large object.
    let has_parts = !object.about.part_bytes.is_empty();
    match has_parts || object.about.form.is_large() {
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
