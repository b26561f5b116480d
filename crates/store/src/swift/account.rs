//! The account: its containers.

use http::{Method, StatusCode};
use serde_json::json;

use super::Swift;
use super::answer::{Failure, empty, set};
use super::call::Call;
use super::listing::{query, write};
use crate::clock;
use crate::exchange::reply::Reply;
use crate::stored::listing::{self, Entry};

/// Answers GET and HEAD of the account.
pub(super) fn show(swift: &Swift, call: &Call) -> Result<Reply, Failure> {
    let mut reply = match call.method {
        Method::HEAD => empty(StatusCode::NO_CONTENT),
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
    Ok(write(call, lines))
}
