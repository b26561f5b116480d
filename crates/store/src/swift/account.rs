//! The account: its containers, and its own metadata.

use http::{Method, StatusCode, header};
use serde_json::json;

use super::Swift;
use super::answer::{Failure, empty, set};
use super::call::{Call, check_metadata, merge};
use super::listing::{Format, query, write};
use crate::clock;
use crate::exchange::reply::Reply;
use crate::stored::listing::{self, Entry};

/// Answers GET and HEAD of the account.
pub(super) fn show(swift: &Swift, call: &Call) -> Result<Reply, Failure> {
    let mut reply = match call.method {
        Method::HEAD => {
            let mut reply = empty(StatusCode::NO_CONTENT);
            set(&mut reply, header::CONTENT_TYPE, Format::of(call)?.content_type());
            reply
        }
        _ => list(swift, call)?,
    };
    let buckets: Vec<_> = swift.account.buckets().values().cloned().collect();
    let (mut objects, mut bytes) = (0, 0);
    for bucket in &buckets {
        let index = bucket.index();
        objects += index.objects;
        bytes += index.bytes;
    }
    set(&mut reply, "x-account-container-count", buckets.len());
    set(&mut reply, "x-account-object-count", objects);
    set(&mut reply, "x-account-bytes-used", bytes);
    for (name, value) in swift.account.metadata() {
        set(&mut reply, format!("x-account-meta-{name}"), value);
    }
    Ok(reply)
}

fn list(swift: &Swift, call: &Call) -> Result<Reply, Failure> {
    let page = listing::list(&swift.account.buckets(), query(call)?, |bucket| Some(bucket.clone()));
    let lines: Vec<_> = page
        .entries
        .iter()
        .map(|entry| match entry {
            Entry::Prefix(prefix) => json!({"subdir": prefix}),
            Entry::Key(name, bucket) => {
                let index = bucket.index();
                json!({"name": name, "count": index.objects, "bytes": index.bytes,
                       "last_modified": clock::format_iso(bucket.created_us)})
            }
        })
        .collect();
    let account = swift.account_name();
    write(Format::of(call)?, ("account", &account), "container", &lines)
}

/// Answers POST of the account.
pub(super) fn change(swift: &Swift, call: &Call) -> Result<Reply, Failure> {
    let (set, removed) =
        (call.metadata("x-account-meta-")?, call.prefixed("x-remove-account-meta-"));
    swift.account.change_metadata(|metadata| {
        merge(metadata, set, removed);
        check_metadata(metadata)
    })?;
    Ok(empty(StatusCode::NO_CONTENT))
}
