//! Listings, as JSON or as lines of text.

use http::StatusCode;
use serde_json::Value;

use super::answer::{Failure, empty, json, text};
use super::call::Call;
use crate::exchange::reply::Reply;
use crate::stored::listing::Query;

/// Maximum number of lines in a listing.
const LISTING_LIMIT: usize = 10_000;

/// Parses the query of a listing.
pub(super) fn query(call: &Call) -> Result<Query<'_>, Failure> {
    let text = |name| call.parameter(name).unwrap_or_default();
    let limit = match call.parameter("limit") {
        None | Some("") => LISTING_LIMIT,
        Some(limit) => {
            limit.parse().ok().filter(|limit| *limit <= LISTING_LIMIT).ok_or_else(|| {
                let problem = format!("limit goes up to {LISTING_LIMIT}");
                Failure::new(StatusCode::PRECONDITION_FAILED, problem)
            })?
        }
    };
    Ok(Query { prefix: text("prefix"), delimiter: text("delimiter"), after: text("marker"), limit })
}

/// Writes a listing in the requested format.
pub(super) fn write(call: &Call, lines: Vec<Value>) -> Reply {
    if call.wants_json() {
        return json(StatusCode::OK, &Value::Array(lines));
    }
    if lines.is_empty() {
        return empty(StatusCode::NO_CONTENT);
    }
    let name = |line: &Value| {
        line["name"].as_str().or_else(|| line["subdir"].as_str()).map(|name| format!("{name}\n"))
    };
    text(StatusCode::OK, lines.iter().filter_map(name).collect::<String>())
}
