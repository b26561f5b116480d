//! HTTP ranges: parsed from the header, and written as one range or as several in one body.

use std::collections::VecDeque;
use std::ops::Range;

use crate::exchange::reply::Piece;
use crate::stored::body::Body;

/// Maximum number of ranges in a request.
const RANGES_MAX: usize = 100;

/// The parsed `Range` header.
#[derive(Debug, PartialEq)]
pub(super) enum Wanted {
    /// The header is absent or invalid: the whole body.
    Whole,
    /// Ranges inside the body, at least one.
    Ranges(Vec<Range<u64>>),
    /// No range lies inside the body.
    Nothing,
}

/// Parses a `Range` header for a body of this length.
pub(super) fn parse(header: Option<&str>, length: u64) -> Wanted {
    let Some(list) = header.and_then(|text| text.trim().strip_prefix("bytes=")) else {
        return Wanted::Whole;
    };
    let mut ranges = Vec::new();
    for part in list.split(',') {
        let Some((first, last)) = part.trim().split_once('-') else { return Wanted::Whole };
        let range = match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(length),
            (Ok(first), Err(_)) if last.is_empty() => first..length,
            (Err(_), Ok(suffix)) if first.is_empty() => length.saturating_sub(suffix)..length,
            _ => return Wanted::Whole,
        };
        if range.start < range.end {
            ranges.push(range);
        }
    }
    if ranges.is_empty() || ranges.len() > RANGES_MAX {
        return Wanted::Nothing;
    }
    Wanted::Ranges(ranges)
}

/// Writes several ranges as `multipart/byteranges`.
pub(super) fn multipart(
    body: &Body,
    ranges: &[Range<u64>],
    content_type: &str,
    boundary: &str,
) -> VecDeque<Piece> {
    let mut pieces = VecDeque::new();
    let mut opening = format!("--{boundary}\r\n");
    for range in ranges {
        let head = format!(
            "{opening}Content-Type: {content_type}\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
            range.start,
            range.end - 1,
            body.length(),
        );
        pieces.push_back(Piece::Bytes(head.into()));
        pieces.push_back(Piece::Stream(body.slice(range.clone()).stream()));
        opening = format!("\r\n--{boundary}\r\n");
    }
    pieces.push_back(Piece::Bytes(format!("\r\n--{boundary}--").into()));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(range: Range<u64>) -> Wanted {
        Wanted::Ranges(std::iter::once(range).collect())
    }

    #[test]
    fn ranges_are_cut_to_the_body_and_omitted_outside_it() {
        let ranges = |header, length| parse(Some(header), length);
        assert_eq!(ranges("bytes=0-9", 100), one(0..10));
        assert_eq!(ranges("bytes=90-", 100), one(90..100));
        assert_eq!(ranges("bytes=-10", 100), one(90..100));
        assert_eq!(ranges("bytes=-200", 100), one(0..100));
        assert_eq!(ranges("bytes=95-200, 200-300", 100), one(95..100));
        assert_eq!(ranges("bytes=0-1,5-6", 100), Wanted::Ranges(vec![0..2, 5..7]));
        assert_eq!(ranges("bytes=100-", 100), Wanted::Nothing);
        assert_eq!(ranges("bytes=-5", 0), Wanted::Nothing);
    }

    #[test]
    fn invalid_range_headers_are_ignored() {
        for header in ["bytes=a-b", "bytes=5-4", "bytes=", "lines=1-2", "bytes=-"] {
            assert_eq!(parse(Some(header), 100), Wanted::Whole, "{header}");
        }
        assert_eq!(parse(None, 100), Wanted::Whole);
    }
}
