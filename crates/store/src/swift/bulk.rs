//! Bulk deletes, and the report in their answer.

use http::StatusCode;
use serde_json::json;

use super::Swift;
use super::answer::{Failure, json as json_reply};
use super::call::{Call, decode};
use crate::error::Refusal;
use crate::exchange::reply::Reply;

const DELETES_MAX: usize = 10_000;

/// Maximum length of the list of names: each has at most 1024 bytes, possibly all of them encoded.
const LIST_BYTES_MAX: usize = DELETES_MAX * 3 * 1300;

/// Answers `bulk-delete`, with the name of an object or a container on each line.
pub(super) async fn delete(swift: &Swift, call: &mut Call) -> Result<Reply, Failure> {
    let list = call.text(LIST_BYTES_MAX).await?;
    let list = String::from_utf8_lossy(&list);
    let paths = list.lines().map(|line| line.trim().trim_start_matches('/'));
    let paths: Vec<_> =
        paths.filter(|path| !path.is_empty()).map(decode).collect::<Result<_, _>>()?;
    if paths.len() > DELETES_MAX {
        let problem = format!("at most {DELETES_MAX} names can be deleted at once");
        return Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, problem));
    }
    let (mut deleted, mut not_found, mut errors) = (0, 0, Vec::new());
    for path in paths {
        match delete_one(swift, &path).await {
            Ok(true) => deleted += 1,
            Ok(false) | Err(Refusal::NoSuchBucket | Refusal::NoSuchKey) => not_found += 1,
            Err(refusal) => {
                errors.push((format!("/{path}"), Failure::from(refusal).status.to_string()));
            }
        }
    }
    let status = if errors.is_empty() { "200 OK" } else { "400 Bad Request" };
    let document = json!({
        "Number Deleted": deleted,
        "Number Not Found": not_found,
        "Response Status": status,
        "Response Body": "",
        "Errors": errors,
    });
    Ok(json_reply(StatusCode::OK, &document))
}

/// Returns whether there was something to delete.
async fn delete_one(swift: &Swift, path: &str) -> Result<bool, Refusal> {
    let Some((container, object)) = path.split_once('/').filter(|(_, object)| !object.is_empty())
    else {
        return swift.account.delete_bucket(path.trim_end_matches('/')).map(|()| true);
    };
    let bucket = swift.account.bucket(container)?;
    Ok(swift.account.delete(&bucket, object, None, |_| Ok(())).await?.existed)
}
