//! Requests that are signed with `Date`, as the fourth signature allows beside `x-amz-date`.

use http::header::{AUTHORIZATION, DATE};
use http::{HeaderMap, HeaderValue};

use crate::clock;

/// Gives such a request the header that the `s3s` crate reads. The time is part of what is signed,
/// so this one needs no signature of its own.
pub(crate) fn complete(headers: &mut HeaderMap) {
    let is_signed =
        headers.get(AUTHORIZATION).is_some_and(|text| text.as_bytes().starts_with(b"AWS4-"));
    if !is_signed || headers.contains_key("x-amz-date") {
        return;
    }
    let date = headers.get(DATE).and_then(|text| text.to_str().ok());
    // Python's way to write the zone.
    let date =
        date.map(|text| text.strip_suffix("-0000").map_or(text.into(), |t| format!("{t}GMT")));
    let date = date.and_then(|text: String| clock::parse_http_date(&text));
    let basic = date.map(clock::format_basic);
    if let Some(value) = basic.and_then(|text| HeaderValue::try_from(text).ok()) {
        headers.insert("x-amz-date", value);
    }
}
