//! Objects: write, copy, change, delete. Reads are in `read.rs`, manifests in `large.rs`.

use http::{StatusCode, header};
use s3s::checksum::ChecksumHasher;

use super::answer::{Failure, empty, set, text};
use super::call::{Call, Place, decode};
use super::write::{check_etag, created, read_about, where_to};
use super::{Swift, large, not_allowed, read};
use crate::account::intake::take_in;
use crate::clock;
use crate::exchange::reply::Reply;
use crate::stored::object::{About, Draft, Form};

/// Maximum size of an object, in bytes.
const OBJECT_BYTES_MAX: u64 = 5 << 30;

/// Answers a request for an object.
pub(super) async fn answer(
    swift: &Swift,
    call: &mut Call,
    place: &Place,
) -> Result<Reply, Failure> {
    match call.method.as_str() {
        "GET" | "HEAD" => read::read(swift, call, place),
        "PUT" if call.header("x-copy-from").is_some() => copy(swift, call, place).await,
        "PUT" if call.parameter("multipart-manifest").is_some() => {
            large::put(swift, call, place).await
        }
        "PUT" => put(swift, call, place).await,
        "POST" => post(swift, call, place).await,
        "DELETE" => delete(swift, call, place).await,
        _ => Err(not_allowed()),
    }
}

async fn put(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let length = call.content_length()?;
    let (bucket, precondition) = where_to(swift, call, place)?;
    let about = read_about(call)?;
    let hasher = ChecksumHasher::default();
    let body = call.body.clone();
    let taken = take_in(&swift.account.storage, body, length, OBJECT_BYTES_MAX, hasher).await?;
    check_etag(call, &taken.etag())?;
    let draft = Draft { etag: taken.etag(), body: taken.body, about };
    let object = swift.account.put(&bucket, &place.object, draft, &precondition).await?;
    Ok(created(&object, &object.etag))
}

/// Copies the object in `X-Copy-From`, with its metadata and the additions of the request.
async fn copy(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let source = decode(call.header("x-copy-from").unwrap_or_default().trim_start_matches('/'))?;
    let Some((container, name)) = source.split_once('/').filter(|(_, name)| !name.is_empty())
    else {
        let problem = "X-Copy-From is not of the form CONTAINER/OBJECT";
        return Err(Failure::new(StatusCode::PRECONDITION_FAILED, problem));
    };
    let account = &swift.account;
    let from = account.bucket(container)?;
    let (to, precondition) = where_to(swift, call, place)?;
    let object = account.object(&from, name, call.parameter("version-id"))?;
    let body = account.content(&object)?;
    let mut about = About { form: Form::Plain, part_bytes: Vec::new(), ..object.about.clone() };
    let given = read_about(call)?;
    for (name, value) in given.metadata {
        about.metadata.retain(|(known, _)| *known != name);
        about.metadata.push((name, value));
    }
    if call.header(header::CONTENT_TYPE.as_str()).is_some() {
        about.content_type = given.content_type;
    }
    let draft = Draft { body, etag: object.etag.clone(), about };
    let copied = account.put(&to, &place.object, draft, &precondition).await?;
    Ok(created(&copied, &copied.etag))
}

/// Replaces the metadata of an object.
async fn post(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let given = read_about(call)?;
    let changes_type = call.header(header::CONTENT_TYPE.as_str()).is_some();
    let is_lied_about = swift.account.loses_metadata(&bucket, &place.object);
    let change = move |about: &mut About| {
        if is_lied_about {
            return;
        }
        about.metadata = given.metadata;
        about.headers = given.headers;
        if changes_type {
            about.content_type = given.content_type;
        }
    };
    let now_us = Some(clock::now_us());
    swift.account.change_object(&bucket, &place.object, None, now_us, change).await?;
    Ok(text(StatusCode::ACCEPTED, ""))
}

async fn delete(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let version_id = call.parameter("version-id");
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
