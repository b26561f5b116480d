//! Wall-clock time, and the forms in which the two APIs write it.

use std::time::{SystemTime, UNIX_EPOCH};

use time::Date;
use time::OffsetDateTime;
use time::PrimitiveDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const HTTP_DATE: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
);
const ISO_MICROSECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]");

const ISO_SECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
const BASIC_SECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year][month][day]T[hour][minute][second]Z");
const ISO_DAY: &[BorrowedFormatItem<'_>] = format_description!("[year]-[month]-[day]");

/// Returns the microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Returns the moment as the `time` crate's type.
pub(crate) fn moment(unix_us: u64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_us) * 1000)
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Formats `Sat, 21 Nov 2026 04:46:33 GMT`, rounded up to the second as Swift does.
pub(crate) fn format_http_date(unix_us: u64) -> String {
    moment(unix_us.div_ceil(1_000_000) * 1_000_000).format(HTTP_DATE).unwrap_or_default()
}

/// Formats `2026-11-21T04:46:33.123456`.
pub(crate) fn format_iso(unix_us: u64) -> String {
    moment(unix_us).format(ISO_MICROSECONDS).unwrap_or_default()
}

/// Formats Swift's `X-Timestamp`: seconds with five decimals.
pub(crate) fn format_seconds(unix_us: u64) -> String {
    format!("{}.{:05}", unix_us / 1_000_000, unix_us % 1_000_000 / 10)
}

/// Formats `20261121T044633Z`, as the fourth signature of S3 has it.
pub(crate) fn format_basic(unix_s: u64) -> String {
    moment(unix_s * 1_000_000).format(BASIC_SECONDS).unwrap_or_default()
}

/// Reads an HTTP date as Unix seconds.
pub(crate) fn parse_http_date(text: &str) -> Option<u64> {
    let parsed = PrimitiveDateTime::parse(text, HTTP_DATE).ok()?;
    u64::try_from(parsed.assume_utc().unix_timestamp()).ok()
}

/// Reads `2026-11-21T04:46:33Z`, also without the `Z`, or a day alone, as Unix seconds.
pub(crate) fn parse_iso(text: &str) -> Option<u64> {
    let parsed = match text.split_once('T') {
        Some(_) => PrimitiveDateTime::parse(text.trim_end_matches('Z'), ISO_SECONDS).ok()?,
        None => Date::parse(text, ISO_DAY).ok()?.midnight(),
    };
    u64::try_from(parsed.assume_utc().unix_timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_the_apis_write_them() {
        let at_us = 1_795_236_393_123_456;
        assert_eq!(format_http_date(at_us), "Sat, 21 Nov 2026 04:46:34 GMT");
        assert_eq!(format_iso(at_us), "2026-11-21T04:46:33.123456");
        assert_eq!(format_seconds(at_us), "1795236393.12345");
        assert_eq!(parse_http_date("Sat, 21 Nov 2026 04:46:34 GMT"), Some(1_795_236_394));
        assert_eq!(parse_http_date("yesterday"), None);
        assert_eq!(parse_iso("2026-11-21T04:46:34Z"), Some(1_795_236_394));
        assert_eq!(parse_iso("2026-11-21T04:46:34"), Some(1_795_236_394));
        assert_eq!(parse_iso("2026-11-21"), Some(1_795_236_394 - 17_194));
        assert_eq!(parse_iso("soon"), None);
    }
}
