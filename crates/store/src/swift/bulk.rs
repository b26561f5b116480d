//! Bulk deletes, and the report that bulk requests answer with.

use http::StatusCode;
use serde_json::json;

use super::Swift;
use super::answer::{Failure, json as json_reply, text};
use super::call::{Call, decode};
use crate::error::Refusal;
use crate::exchange::reply::Reply;

pub(super) const DELETES_MAX: usize = 10_000;

/// The longest list of names: each is at most 1024 bytes, perhaps all of them encoded.
const LIST_BYTES_MAX: usize = DELETES_MAX * 3 * 1300;

/// What a bulk request did.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) created: usize,
    pub(super) deleted: usize,
    pub(super) not_found: usize,
    /// Path and status of each failure.
    pub(super) errors: Vec<(String, String)>,
}

impl Outcome {
    /// Writes the report, as JSON or as lines.
    pub(super) fn into_reply(self, is_json: bool) -> Reply {
        let has_failed = !self.errors.is_empty();
        let status = if has_failed { "400 Bad Request" } else { "200 OK" };
        if is_json {
            let document = json!({
                "Number Deleted": self.deleted,
                "Number Not Found": self.not_found,
                "Number Files Created": self.created,
                "Response Status": status,
                "Response Body": "",
                "Errors": self.errors,
            });
            return json_reply(StatusCode::OK, &document);
        }
        let mut lines = format!(
            "Number Deleted: {}\nNumber Not Found: {}\nNumber Files Created: {}\n\
             Response Body: \nResponse Status: {status}\nErrors:\n",
            self.deleted, self.not_found, self.created,
        );
        for (path, problem) in self.errors {
            lines.push_str(&format!("{path}, {problem}\n"));
        }
        text(StatusCode::OK, lines)
    }
}

/// Answers `bulk-delete`: a name on each line.
pub(super) async fn delete(swift: &Swift, call: &mut Call) -> Result<Reply, Failure> {
    let list = call.text(LIST_BYTES_MAX).await?;
    let list = String::from_utf8_lossy(&list);
    let mut paths = Vec::new();
    for line in list.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let path = decode(line.trim_start_matches('/'))?;
        let (container, object) = path.split_once('/').unwrap_or((&path, ""));
        paths.push((container.to_owned(), object.to_owned()));
    }
    if paths.len() > DELETES_MAX {
        let problem = format!("at most {DELETES_MAX} names can be deleted at once");
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, problem));
    }
    let outcome = delete_each(swift, paths).await;
    Ok(outcome.into_reply(call.wants_json()))
}

/// Deletes objects, and containers where no object is named.
pub(super) async fn delete_each(swift: &Swift, paths: Vec<(String, String)>) -> Outcome {
    let mut outcome = Outcome::default();
    for (container, object) in paths {
        let deleted = match object.as_str() {
            "" => swift.account.delete_bucket(&container).map(|()| true),
            object => match swift.account.bucket(&container) {
                Ok(bucket) => {
                    let deleted = swift.account.delete(&bucket, object, None, |_| Ok(())).await;
                    deleted.map(|deleted| deleted.existed)
                }
                Err(refusal) => Err(refusal),
            },
        };
        match deleted {
            Ok(true) => outcome.deleted += 1,
            Ok(false) | Err(Refusal::NoSuchBucket | Refusal::NoSuchKey) => outcome.not_found += 1,
            Err(refusal) => {
                let failure = Failure::from(refusal);
                outcome.errors.push((format!("/{container}/{object}"), failure.status.to_string()));
            }
        }
    }
    outcome
}
