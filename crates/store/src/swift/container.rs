//! Containers: create, change, list, delete.

use http::{Method, StatusCode, header};
use md5::{Digest, Md5};
use serde_json::{Value, json};

use super::Swift;
use super::answer::{Failure, empty, json as json_reply, set, text};
use super::call::{Call, Place, check_metadata, is_true, merge};
use super::listing::{query, write};
use crate::clock;
use crate::error::Refusal;
use crate::exchange::reply::Reply;
use crate::hex::hex;
use crate::stored::bucket::{Bucket, Settings};
use crate::stored::index::Versioning;
use crate::stored::listing::Entry;
use crate::stored::object::Object;

/// Policy of containers that were created without one.
const DEFAULT_POLICY: &str = "default";

/// Answers GET and HEAD of a container.
pub(super) fn show(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let mut reply = match call.method {
        Method::HEAD => empty(StatusCode::NO_CONTENT),
        _ if call.parameter("versions").is_some() => list_versions(&bucket, call)?,
        _ => list(&bucket, call)?,
    };
    let settings = bucket.settings();
    let (objects, bytes) = {
        let index = bucket.index();
        (index.objects, index.bytes)
    };
    set(&mut reply, "x-container-object-count", objects);
    set(&mut reply, "x-container-bytes-used", bytes);
    set(&mut reply, "x-timestamp", clock::format_seconds(bucket.created_us));
    set(&mut reply, header::LAST_MODIFIED, clock::format_http_date(bucket.created_us));
    let policy = settings.policy.as_deref().unwrap_or(DEFAULT_POLICY);
    set(&mut reply, "x-storage-policy", policy);
    if settings.versioning != Versioning::Off {
        let is_enabled = settings.versioning == Versioning::Enabled;
        set(&mut reply, "x-versions-enabled", if is_enabled { "True" } else { "False" });
    }
    for (name, value) in &settings.metadata {
        set(&mut reply, format!("x-container-meta-{name}"), value);
    }
    Ok(reply)
}

fn list(bucket: &Bucket, call: &Call) -> Result<Reply, Failure> {
    let page = bucket.index().list(query(call)?);
    let lines = page.entries.iter().map(|entry| match entry {
        Entry::Prefix(prefix) => json!({"subdir": prefix}),
        Entry::Key(name, object) => line(name, object),
    });
    Ok(write(call, lines.collect()))
}

fn line(name: &str, object: &Object) -> Value {
    json!({
        "name": name,
        "hash": object.etag,
        "bytes": object.length(),
        "content_type": object.content_type(),
        "last_modified": clock::format_iso(object.modified_us),
    })
}

/// Lists all versions as JSON, newest first within a name.
fn list_versions(bucket: &Bucket, call: &Call) -> Result<Reply, Failure> {
    let query = query(call)?;
    let mut lines = Vec::new();
    for entry in &bucket.index().list_versions(query).entries {
        match entry {
            Entry::Prefix(prefix) => lines.push(json!({"subdir": prefix})),
            Entry::Key(name, versions) => {
                for (age, object) in versions.iter().enumerate() {
                    let mut shown = line(name, object);
                    shown["version_id"] = json!(object.version_id());
                    shown["is_latest"] = json!(age == 0);
                    if object.is_delete_marker() {
                        shown["hash"] = json!(hex(&Md5::digest(b"")));
                        shown["content_type"] =
                            json!("application/x-deleted;swift_versions_deleted=1");
                    }
                    lines.push(shown);
                }
            }
        }
    }
    lines.truncate(query.limit);
    Ok(json_reply(StatusCode::OK, &Value::Array(lines)))
}

/// Answers PUT of a container.
pub(super) fn create(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let policy = call.header("x-storage-policy").map(str::to_owned);
    let settings = Settings { policy: policy.clone(), ..Settings::default() };
    match swift.account.create_bucket(&place.container, changed(&settings, call)?) {
        Ok(_) => return Ok(text(StatusCode::CREATED, "")),
        Err(Refusal::BucketExists) => {}
        Err(refusal) => return Err(refusal.into()),
    }
    let bucket = swift.account.bucket(&place.container)?;
    if policy.is_some() && policy != bucket.settings().policy {
        let problem = "the container exists with another storage policy";
        return Err(Failure::new(StatusCode::CONFLICT, problem));
    }
    change(swift, call, place)?;
    Ok(text(StatusCode::ACCEPTED, ""))
}

/// Answers POST of a container.
pub(super) fn change(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    changed(&bucket.settings(), call)?;
    swift.account.change_bucket(&bucket, |settings| apply(settings, call))?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Returns the settings after a change; refuses too much metadata.
fn changed(settings: &Settings, call: &Call) -> Result<Settings, Failure> {
    let mut after = settings.clone();
    apply(&mut after, call);
    check_metadata(&after.metadata)?;
    Ok(after)
}

fn apply(settings: &mut Settings, call: &Call) {
    merge(
        &mut settings.metadata,
        call.prefixed("x-container-meta-"),
        call.prefixed("x-remove-container-meta-"),
    );
    if let Some(text) = call.header("x-versions-enabled") {
        settings.versioning = match (is_true(text), settings.versioning) {
            (true, _) => Versioning::Enabled,
            (false, Versioning::Off) => Versioning::Off,
            (false, _) => Versioning::Suspended,
        };
    }
}

/// Answers DELETE of a container.
pub(super) fn delete(swift: &Swift, place: &Place) -> Result<Reply, Failure> {
    swift.account.delete_bucket(&place.container)?;
    Ok(empty(StatusCode::NO_CONTENT))
}
