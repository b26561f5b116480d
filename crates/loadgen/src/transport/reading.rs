//! Reads of objects and of their ranges over HTTP, the same for every store.

use std::ops::Range;

use loadstone_wire::http1::Head;

use crate::chance::mix64;
use crate::outcome::{Completion, Outcome};
use crate::payload::sealed::Opener;
use crate::payload::{ObjectId, PayloadSpec, Verifier};
use crate::requests::Request;
use crate::transport::{
    connection::{Connection, Failure, Reply, Sending},
    transfer::{CheckRanges, Discard, Download, Nothing, RangesMistake},
};

/// The expected object or range, and whether to check it.
pub(crate) struct Wanted<'a> {
    pub(crate) spec: &'a PayloadSpec,
    pub(crate) object: ObjectId,
    pub(crate) is_verified: bool,
}

/// Reads one range of an object.
pub(crate) async fn read(
    connection: &mut Connection,
    sending: Sending<'_>,
    wanted: &Wanted<'_>,
    range: Range<u64>,
) -> Completion {
    let mut completion = read_stretch(connection, sending, wanted, range).await;
    if completion.outcome == Outcome::http(200) && sending.expected == [206] {
        let text = RangesMistake::Whole.to_string();
        completion.outcome = connection.object_to(Failure::Told(Outcome::UNSUPPORTED, text));
    }
    completion
}

async fn read_stretch(
    connection: &mut Connection,
    sending: Sending<'_>,
    wanted: &Wanted<'_>,
    range: Range<u64>,
) -> Completion {
    if wanted.is_verified {
        let mut verifier = Verifier::for_range(wanted.spec, &wanted.object, range);
        let reply = connection.request(sending, &Nothing, &mut verifier).await;
        return judge_read(connection, &reply, &mut verifier);
    }
    let expected = range.end - range.start;
    let reply = connection.request(sending, &Nothing, &mut Discard { expected }).await;
    let mut completion = Completion { bytes: reply.body_bytes, ..reply.completion() };
    if completion.outcome.is_ok() && reply.body_bytes != expected {
        let failure = Failure::Length { found: reply.body_bytes, expected };
        completion.outcome = connection.object_to(failure);
    }
    completion
}

/// Returns the completion of a read whose content was checked.
#[inline(always)]
pub(crate) fn judge_read(
    connection: &mut Connection,
    reply: &Reply,
    verifier: &mut Verifier,
) -> Completion {
    let mut completion = Completion { bytes: reply.body_bytes, ..reply.completion() };
    if completion.outcome.is_ok() {
        let outcome = Outcome::of_verdict(verifier.finish());
        completion.verified_bytes = verifier.checked_bytes();
        connection.version = verifier.version().unwrap_or_default();
        if !outcome.is_ok() {
            let failure = Failure::Mismatch(outcome, verifier.evidence());
            completion.outcome = connection.object_to(failure);
        }
    }
    completion
}

/// Reads a whole object, checks it, and returns the `ETag` of the answer.
pub(crate) async fn read_with_etag(
    connection: &mut Connection,
    sending: Sending<'_>,
    wanted: &Wanted<'_>,
) -> (Completion, Option<String>) {
    /// Checks the body and keeps the `ETag` of the head.
    struct WithEtag(Verifier, Option<String>);

    impl Download for WithEtag {
        fn head(&mut self, head: &Head<'_>) {
            let etag = head.header("etag").map(|etag| String::from_utf8_lossy(etag).into_owned());
            self.1 = etag;
        }

        fn data(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }

    let mut download = WithEtag(Verifier::new(wanted.spec, &wanted.object, 0), None);
    let reply = connection.request(sending, &Nothing, &mut download).await;
    let WithEtag(mut verifier, etag) = download;
    (judge_read(connection, &reply, &mut verifier), etag)
}

/// Compares the length of an object in an answer with the expected one, if that is requested.
pub(crate) fn check_length(
    connection: &mut Connection,
    reply: &Reply,
    request: &Request,
    expected: u64,
) -> Completion {
    let mut completion = reply.completion();
    let found = reply.content_length.unwrap_or(expected);
    if request.is_verified && completion.outcome.is_ok() && found != expected {
        completion.outcome = connection.object_to(Failure::Length { found, expected });
    }
    completion
}

/// Reads a whole object and decrypts it. Decryption is part of the read even if content is not
/// checked.
pub(crate) async fn read_sealed(
    connection: &mut Connection,
    sending: Sending<'_>,
    wanted: &Wanted<'_>,
    opener: &mut Opener,
) -> Completion {
    opener.start(&wanted.object, wanted.is_verified);
    let reply = connection.request(sending, &Nothing, opener).await;
    let mut completion = Completion { bytes: reply.body_bytes, ..reply.completion() };
    if completion.outcome.is_ok() {
        let outcome = Outcome::of_verdict(opener.finish());
        if wanted.is_verified {
            completion.verified_bytes = opener.opened_bytes();
        }
        if !outcome.is_ok() {
            let failure = Failure::Mismatch(outcome, opener.evidence());
            completion.outcome = connection.object_to(failure);
        }
    }
    completion
}

/// Reads several ranges of an object with one request.
pub(crate) async fn read_ranges(
    connection: &mut Connection,
    sending: Sending<'_>,
    wanted: &Wanted<'_>,
    ranges: &[(u64, u64)],
) -> Completion {
    // The whole object is a wrong answer, but is accepted here to report it as such.
    let sending = Sending { expected: &[200, 206], ..sending };
    let mut check = CheckRanges::new(wanted.spec, wanted.object, ranges, wanted.is_verified);
    let reply = connection.request(sending, &Nothing, &mut check).await;
    let mut completion = Completion { bytes: check.payload_bytes, ..reply.completion() };
    if completion.outcome.is_ok() {
        let outcome = check.finish();
        completion.verified_bytes = check.verified_bytes;
        if !outcome.is_ok() {
            let failure = match check.mistake.take() {
                Some(mistake) => Failure::Told(outcome, mistake.to_string()),
                None => Failure::Mismatch(outcome, None),
            };
            completion.outcome = connection.object_to(failure);
        }
    }
    completion
}

/// Chooses the ranges of a request: one in each of `count` equal sections of the object, so that
/// none are adjacent. Each is first byte and end.
pub(crate) fn choose_ranges(
    request: &Request,
    object_bytes: u64,
    range_bytes: u64,
    count: u32,
    out: &mut Vec<(u64, u64)>,
) {
    out.clear();
    let count = u64::from(count).clamp(1, object_bytes.max(1));
    let mut chance = request.chance;
    for number in 0..count {
        let place = |number: u64| {
            let place = u128::from(object_bytes) * u128::from(number) / u128::from(count);
            u64::try_from(place).expect("a place inside the object")
        };
        let (start, end) = (place(number), place(number + 1));
        // Adjacent ranges would be one range, so at least one byte separates them.
        let room =
            if number + 1 < count { (end - start).saturating_sub(1).max(1) } else { end - start };
        let length = range_bytes.min(room);
        chance = mix64(chance);
        let slack = u128::from(room - length + 1);
        let first = start + u64::try_from((u128::from(chance) * slack) >> 64).expect("below slack");
        out.push((first, first + length));
    }
}

/// Writes the value of a range header.
pub(crate) fn write_ranges(out: &mut Vec<u8>, ranges: &[(u64, u64)]) {
    use loadstone_wire::encode::write_number;
    out.extend_from_slice(b"bytes=");
    for (position, (first, end)) in ranges.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_number(out, *first);
        out.push(b'-');
        write_number(out, *end - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Object;
    use crate::operation::Operation;
    use crate::requests::Subject;

    fn ranges(chance: u64, object_bytes: u64, range_bytes: u64, count: u32) -> Vec<(u64, u64)> {
        let operation = Operation::MultiRangeGet;
        let subject = Subject::Object(Object { index: 0, version: 1 });
        let request = Request { operation, subject, chance, is_verified: true };
        let mut out = Vec::new();
        choose_ranges(&request, object_bytes, range_bytes, count, &mut out);
        out
    }

    #[test]
    fn ranges_lie_inside_the_object_and_apart_from_each_other() {
        for chance in 0..2000 {
            let object_bytes = 1 + mix64(chance) % 10_000;
            let (range_bytes, count) = (1 + chance % 3000, 1 + (chance % 5) as u32);
            let chosen = ranges(mix64(chance ^ 7), object_bytes, range_bytes, count);
            assert_eq!(chosen.len() as u64, u64::from(count).min(object_bytes));
            assert!(chosen.iter().all(|(first, end)| first < end && *end <= object_bytes));
            if object_bytes > 100 {
                assert!(chosen.windows(2).all(|pair| pair[0].1 < pair[1].0), "{chosen:?}");
            }
        }
    }

    #[test]
    fn a_range_longer_than_the_object_is_the_object() {
        assert_eq!(ranges(9, 100, 4096, 1), [(0, 100)]);
    }

    #[test]
    fn single_ranges_reach_both_ends_of_the_object() {
        let starts: Vec<u64> = (0..4000).map(|n| ranges(mix64(n), 110, 100, 1)[0].0).collect();
        assert_eq!((starts.iter().min(), starts.iter().max()), (Some(&0), Some(&10)));
    }

    #[test]
    fn a_range_header_contains_the_last_byte_and_not_the_end() {
        let mut out = Vec::new();
        write_ranges(&mut out, &[(0, 10), (20, 21)]);
        assert_eq!(out, b"bytes=0-9,20-20");
    }
}
