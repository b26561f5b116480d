//! Wall-clock time, in the formats of the two APIs.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const HTTP_DATE: &[BorrowedFormatItem<'_>] = format_description!(
    "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
);
const ISO_MICROSECONDS: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]");

/// Returns the microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Returns the time as the type of the `time` crate.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_formats_of_the_apis() {
        let at_us = 1_795_236_393_123_456;
        assert_eq!(format_http_date(at_us), "Sat, 21 Nov 2026 04:46:34 GMT");
        assert_eq!(format_iso(at_us), "2026-11-21T04:46:33.123456");
        assert_eq!(format_seconds(at_us), "1795236393.12345");
    }
}
