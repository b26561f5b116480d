//! Objects: write, change, delete. Reads are in `read.rs`.

use http::{StatusCode, header};
use s3s::checksum::ChecksumHasher;

use super::OBJECT_BYTES_MAX;
use super::headers::{check_etag, created, form, read_about, where_to};
use crate::account::intake::take_in;
use crate::clock;
use crate::exchange::reply::Reply;
use crate::stored::object::{About, Draft, Form};
use crate::swift::Swift;
use crate::swift::answer::{Failure, empty, set, text};
use crate::swift::call::{Call, Place};

/// Answers PUT of an object.
pub(super) async fn put(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let length = call.content_length()?;
    let (bucket, precondition) = where_to(swift, call, place)?;
    let mut about = read_about(call)?;
    about.form = form(call)?;
    let hasher = ChecksumHasher::default();
    let body = call.body.clone();
    body.stream_on();
    let taken = take_in(&swift.account.storage, body, length, OBJECT_BYTES_MAX, hasher).await?;
    check_etag(call, &taken.etag())?;
    let draft = Draft { etag: taken.etag(), body: taken.body, about };
    let object = swift.account.put(&bucket, &place.object, draft, &precondition).await?;
    Ok(created(&object, &object.etag))
}

/// Answers POST of an object: its metadata is replaced.
pub(super) async fn post(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let version_id = call.version_id();
    // One that is not there is said to be so, whatever else is wrong.
    swift.account.find(&bucket, &place.object, version_id)?;
    let given = read_about(call)?;
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
