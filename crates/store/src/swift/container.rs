//! Containers: make, change, list, delete.

use std::sync::Arc;

use http::{Method, StatusCode, header};
use md5::{Digest, Md5};
use serde_json::{Value, json};

use super::Swift;
use super::answer::{Failure, empty, json as json_reply, set, text};
use super::call::{Call, Place, check_metadata, is_true, merge};
use super::info::DEFAULT_POLICY;
use super::listing::{Format, query, write};
use crate::clock;
use crate::error::Refusal;
use crate::exchange::reply::Reply;
use crate::hex::hex;
use crate::stored::bucket::{Bucket, Settings};
use crate::stored::index::Versioning;
use crate::stored::listing::{Entry, Page, Query};
use crate::stored::object::Object;

/// Answers GET and HEAD of a container.
pub(super) fn show(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let mut reply = match call.method {
        Method::HEAD => {
            let mut reply = empty(StatusCode::NO_CONTENT);
            set(&mut reply, header::CONTENT_TYPE, Format::of(call)?.content_type());
            reply
        }
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
    set(&mut reply, header::ACCEPT_RANGES, "bytes");
    let policy = settings.policy.as_deref().unwrap_or(DEFAULT_POLICY);
    set(&mut reply, "x-storage-policy", policy);
    if settings.versioning != Versioning::Off {
        let is_enabled = settings.versioning == Versioning::Enabled;
        set(&mut reply, "x-versions-enabled", if is_enabled { "True" } else { "False" });
    }
    for (name, value) in &settings.metadata {
        set(&mut reply, format!("x-container-meta-{name}"), value);
    }
    if let Some(acl) = &settings.read_acl {
        set(&mut reply, "x-container-read", acl);
    }
    if let Some(acl) = &settings.write_acl {
        set(&mut reply, "x-container-write", acl);
    }
    Ok(reply)
}

fn list(bucket: &Bucket, call: &Call) -> Result<Reply, Failure> {
    let page: Page<Arc<Object>> = match call.parameter("path") {
        Some(path) => list_path(bucket, query(call)?, path),
        None => bucket.index().list(query(call)?),
    };
    let lines: Vec<_> = page
        .entries
        .iter()
        .map(|entry| match entry {
            Entry::Prefix(prefix) => json!({"subdir": prefix}),
            Entry::Key(name, object) => line(name, object),
        })
        .collect();
    write(Format::of(call)?, ("container", &bucket.name), "object", &lines)
}

/// Lists what lies directly in a pseudo-directory: objects, and directories that have an object of
/// their own.
fn list_path(bucket: &Bucket, query: Query<'_>, path: &str) -> Page<Arc<Object>> {
    let path = path.trim_end_matches('/');
    let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
    let inside = Query { prefix: &prefix, delimiter: "/", limit: usize::MAX, ..query };
    let index = bucket.index();
    let mut page = index.list(inside);
    let kept = page.entries.drain(..).filter_map(|entry| match entry {
        Entry::Prefix(name) => {
            let object = index.current(&name).filter(|object| object.is_live())?.clone();
            Some(Entry::Key(name, object))
        }
        Entry::Key(name, _) if *name == *prefix => None,
        key => Some(key),
    });
    let entries: Vec<_> = kept.take(query.limit).collect();
    Page { entries, is_truncated: false }
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

/// Lists all versions, newest first within a name.
fn list_versions(bucket: &Bucket, call: &Call) -> Result<Reply, Failure> {
    // Lines of text and Swift's XML have no place for versions.
    let asked =
        call.parameter("format").is_some() || call.header("accept").is_some_and(|a| a != "*/*");
    if asked && Format::of(call)? != Format::Json {
        let problem = "versions are listed as JSON only";
        return Err(Failure::new(StatusCode::NOT_ACCEPTABLE, problem));
    }
    let query = query(call)?;
    let page = bucket.index().list_versions(query);
    let mut lines = Vec::new();
    for entry in &page.entries {
        match entry {
            Entry::Prefix(prefix) => lines.push(json!({"subdir": prefix})),
            Entry::Key(name, versions) => {
                let mut aged: Vec<_> = versions.iter().enumerate().collect();
                if query.is_reversed {
                    aged.reverse();
                }
                for (age, object) in aged {
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
    let mut settings = Settings { policy: policy.clone(), ..Settings::default() };
    apply(&mut settings, call);
    check_change(&settings, call)?;
    match swift.account.create_bucket(&place.container, settings) {
        Ok(_) => return Ok(text(StatusCode::CREATED, "")),
        Err(Refusal::BucketExists) => {}
        Err(refusal) => return Err(refusal.into()),
    }
    let bucket = swift.account.bucket(&place.container)?;
    if policy.is_some() && policy != bucket.settings().policy {
        return Err(Failure::new(
            StatusCode::CONFLICT,
            "the container exists with another storage policy",
        ));
    }
    check_change(&bucket.settings(), call)?;
    swift.account.change_bucket(&bucket, |settings| apply(settings, call))?;
    Ok(text(StatusCode::ACCEPTED, ""))
}

/// Answers POST of a container.
pub(super) fn change(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    check_change(&bucket.settings(), call)?;
    swift.account.change_bucket(&bucket, |settings| apply(settings, call))?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Refuses metadata that would be too much after the change.
fn check_change(settings: &Settings, call: &Call) -> Result<(), Failure> {
    call.metadata("x-container-meta-")?;
    let mut after = settings.clone();
    apply(&mut after, call);
    check_metadata(&after.metadata)
}

fn apply(settings: &mut Settings, call: &Call) {
    merge(
        &mut settings.metadata,
        call.prefixed("x-container-meta-"),
        call.prefixed("x-remove-container-meta-"),
    );
    let acl = |name: &str, known: &mut Option<String>| {
        if let Some(text) = call.header(name) {
            *known = (!text.is_empty()).then(|| text.to_owned());
        }
    };
    acl("x-container-read", &mut settings.read_acl);
    acl("x-container-write", &mut settings.write_acl);
    if let Some(text) = call.header("x-versions-enabled") {
        settings.versioning = match (is_true(Some(text)), settings.versioning) {
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
