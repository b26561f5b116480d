//! Checks objects that others wrote against what their store keeps: length, `ETag`, checksum.
//!
//! The listing gives an object's length and `ETag`. If these have changed, the object was replaced
//! meanwhile, which is not an error of the store. The content is checked against a checksum of the
//! whole object in the answer's head (`x-amz-checksum-*`), or against an `ETag` that is an MD5.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loadstone_wire::digest::Running;
use loadstone_wire::http1::Head;

use crate::object_list::{Listed, bare_etag, tag_of};
use crate::outcome::{Completion, Outcome};
use crate::payload::Verifier;
use crate::transport::connection::{Connection, Failure, Reply, Sending};
use crate::transport::reading::judge_read;
use crate::transport::transfer::{Discard, Download, Nothing};

/// Methods of checking reads, the cheapest digest first. The last one is no check.
const METHODS: [Method; 7] = [
    Method { name: "crc64nvme", header: "x-amz-checksum-crc64nvme", start: Running::crc64nvme },
    Method { name: "crc32c", header: "x-amz-checksum-crc32c", start: Running::crc32c },
    Method { name: "crc32", header: "x-amz-checksum-crc32", start: Running::crc32 },
    Method { name: "sha1", header: "x-amz-checksum-sha1", start: Running::sha1 },
    Method { name: "sha256", header: "x-amz-checksum-sha256", start: Running::sha256 },
    Method { name: "md5", header: "etag", start: Running::md5 },
    Method { name: "length alone", header: "", start: Running::crc32 },
];
const MD5: usize = 5;
const LENGTH_ALONE: usize = 6;
const MD5_BYTES: usize = 16;

struct Method {
    name: &'static str,
    header: &'static str,
    start: fn() -> Running,
}

/// Number of reads checked by each method, on one load thread.
#[derive(Debug, Default)]
pub(crate) struct MethodCounts([Cell<u64>; METHODS.len()]);

/// Number of reads checked by each method, in a whole trial.
#[derive(Debug, Default)]
pub(crate) struct MethodTotals([AtomicU64; METHODS.len()]);

impl MethodTotals {
    /// Adds the counts of one load thread.
    pub(crate) fn add(&self, counts: &MethodCounts) {
        for (total, count) in self.0.iter().zip(&counts.0) {
            total.fetch_add(count.get(), Ordering::Relaxed);
        }
    }

    /// Returns how reads were checked, for the record.
    pub(crate) fn feature(&self) -> Option<(String, String)> {
        let counts = self.0.iter().map(|total| total.load(Ordering::Relaxed));
        let texts: Vec<String> = METHODS
            .iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .map(|(method, count)| format!("{}: {count}", method.name))
            .collect();
        (!texts.is_empty()).then(|| ("verified_by".to_owned(), texts.join(", ")))
    }
}

/// Checks one read of an object that others wrote, or of a part of it.
pub(crate) struct StoredCheck {
    listed: Listed,
    /// The requested part; `None` means the whole object.
    range: Option<Range<u64>>,
    /// Facts from the head of the answer.
    head: HeadFacts,
    running: Option<Running>,
}

/// Facts about an object in the head of an answer.
#[derive(Default)]
struct HeadFacts {
    tag: Option<u64>,
    /// The method, and the expected digest.
    digest: Option<(usize, Vec<u8>)>,
    /// A large object of Swift, whose listing entry describes its manifest.
    is_assembled: bool,
    /// Whether there is a checksum, possibly of the parts' checksums.
    has_checksum: bool,
}

impl HeadFacts {
    fn of(head: &Head<'_>) -> Self {
        let has = |name: &str| head.header(name).is_some();
        let etag = head.header("etag");
        let is_assembled = has("x-static-large-object") || has("x-object-manifest");
        // With a customer key or a key service, the ETag is not the MD5 of the content.
        let is_encrypted = has("x-amz-server-side-encryption-customer-algorithm")
            || head
                .header("x-amz-server-side-encryption")
                .is_some_and(|value| value.starts_with(b"aws:kms"));
        let sums = METHODS[..MD5].iter().enumerate().filter_map(|(number, method)| {
            // A checksum of checksums ends with a dash and the number of parts.
            let text = head.header(method.header).filter(|text| !text.contains(&b'-'))?;
            Some((number, STANDARD.decode(text).ok()?))
        });
        let has_checksum = METHODS[..MD5].iter().any(|method| has(method.header));
        let is_composite = head
            .header("x-amz-checksum-type")
            .is_some_and(|kind| kind.eq_ignore_ascii_case(b"COMPOSITE"));
        let mut digest = if is_composite { None } else { sums.into_iter().next() };
        if digest.is_none() && !is_assembled && !is_encrypted {
            digest = etag.and_then(md5_of).map(|bytes| (MD5, bytes));
        }
        Self { tag: etag.and_then(tag_of), digest, is_assembled, has_checksum }
    }
}

/// Returns the MD5 in an `ETag`, if it can be one: that of a multipart object contains a dash.
fn md5_of(etag: &[u8]) -> Option<Vec<u8>> {
    let bare = bare_etag(etag);
    if bare.len() != 2 * MD5_BYTES {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    bare.as_chunks::<2>()
        .0
        .iter()
        .map(|[high, low]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok())
        .collect()
}

impl StoredCheck {
    pub(crate) fn new(listed: Listed, range: Option<Range<u64>>) -> Self {
        Self { listed, range, head: HeadFacts::default(), running: None }
    }

    fn expected_bytes(&self) -> Option<u64> {
        match &self.range {
            Some(range) => Some(range.end - range.start),
            None => self.listed.size_bytes.filter(|_| !self.head.is_assembled),
        }
    }

    fn is_replaced(&self) -> bool {
        let tags = self.listed.tag.zip(self.head.tag);
        !self.head.is_assembled && tags.is_some_and(|(listed, current)| listed != current)
    }

    fn is_the_same(&self) -> bool {
        self.listed.tag.is_some() && self.listed.tag == self.head.tag
    }

    /// Returns the failure of an answer that is complete in terms of HTTP.
    fn failure(&mut self, body_bytes: u64) -> Option<Failure> {
        if self.is_replaced() {
            let text = "its ETag is not the one that was listed: the object was replaced since";
            return Some(Failure::Told(Outcome::CHANGED, text.to_owned()));
        }
        if let Some(expected) = self.expected_bytes().filter(|expected| *expected != body_bytes) {
            if self.range.is_some() || self.is_the_same() {
                return Some(Failure::Length { found: body_bytes, expected });
            }
            let text =
                format!("{body_bytes} bytes came, {expected} were listed: it was replaced since");
            return Some(Failure::Told(Outcome::CHANGED, text));
        }
        let (method, expected) = self.head.digest.as_ref()?;
        let (digest, length) = self.running.take()?.finish();
        if digest[..length] == expected[..] {
            return None;
        }
        let text = |bytes: &[u8]| STANDARD.encode(bytes);
        let (header, expected) = (METHODS[*method].header, text(expected));
        let actual = text(&digest[..length]);
        let text = format!(
            "the store's checksum ({header}) is {expected} in base64, that of the bytes {actual}"
        );
        Some(Failure::Told(Outcome::CORRUPT, text))
    }

    fn method(&self) -> usize {
        match &self.head.digest {
            Some((method, _)) if self.range.is_none() => *method,
            _ => LENGTH_ALONE,
        }
    }
}

impl Download for StoredCheck {
    fn head(&mut self, head: &Head<'_>) {
        self.head = HeadFacts::of(head);
        // A part of an object has no checksum of its own.
        let digest = self.head.digest.as_ref().filter(|_| self.range.is_none());
        self.running = digest.map(|(method, _)| (METHODS[*method].start)());
    }

    #[inline]
    fn data(&mut self, bytes: &[u8]) {
        if let Some(running) = &mut self.running {
            running.update(bytes);
        }
    }
}

/// Reads an object that others wrote, or a part of it, and checks it.
pub(crate) async fn read_checked(
    connection: &mut Connection,
    sending: Sending<'_>,
    mut check: StoredCheck,
    counts: &MethodCounts,
) -> Completion {
    let reply = connection.request(sending, &Nothing, &mut check).await;
    let mut completion = Completion { bytes: reply.body_bytes, ..reply.completion() };
    if completion.outcome.is_ok() {
        let method = check.method();
        let count = &counts.0[method];
        count.set(count.get() + 1);
        if method != LENGTH_ALONE {
            completion.verified_bytes = reply.body_bytes;
        }
        if let Some(failure) = check.failure(reply.body_bytes) {
            completion.outcome = connection.object_to(failure);
        }
    }
    completion
}

/// Checks content both against what was written and against the store's checksum.
struct DoublyChecked {
    verifier: Verifier,
    stored: StoredCheck,
}

impl Download for DoublyChecked {
    fn head(&mut self, head: &Head<'_>) {
        self.verifier.head(head);
        self.stored.head(head);
    }

    #[inline]
    fn data(&mut self, bytes: &[u8]) {
        self.verifier.update(bytes);
        self.stored.data(bytes);
    }
}

/// Reads an object that loadstone wrote, and checks its content and the store's checksum. A
/// checksum of checksums proves nothing about the content; without any checksum, the store does not
/// support this check.
pub(crate) async fn read_with_checksum(
    connection: &mut Connection,
    sending: Sending<'_>,
    verifier: Verifier,
    counts: &MethodCounts,
) -> Completion {
    let stored = StoredCheck::new(Listed { size_bytes: None, tag: None }, None);
    let mut checked = DoublyChecked { verifier, stored };
    let reply = connection.request(sending, &Nothing, &mut checked).await;
    let mut completion = judge_read(connection, &reply, &mut checked.verifier);
    if completion.outcome.is_ok() {
        let method = checked.stored.method();
        let count = &counts.0[method];
        count.set(count.get() + 1);
        let failure = match checked.stored.head.has_checksum {
            true => checked.stored.failure(reply.body_bytes),
            false => {
                let text = "the answer names no checksum of the object".to_owned();
                Some(Failure::Told(Outcome::UNSUPPORTED, text))
            }
        };
        if let Some(failure) = failure {
            completion.outcome = connection.object_to(failure);
        }
    }
    completion
}

/// Reads an object that others wrote, or a part of it, and checks only its length, if that is
/// known.
pub(crate) async fn read_unchecked(
    connection: &mut Connection,
    sending: Sending<'_>,
    expected: Option<u64>,
) -> Completion {
    let mut discard = Discard { expected: expected.unwrap_or(u64::MAX) };
    let reply = connection.request(sending, &Nothing, &mut discard).await;
    let Reply { body_bytes, .. } = reply;
    let mut completion = Completion { bytes: body_bytes, ..reply.completion() };
    if let Some(expected) = expected.filter(|expected| *expected != body_bytes)
        && completion.outcome.is_ok()
    {
        let failure = Failure::Length { found: body_bytes, expected };
        completion.outcome = connection.object_to(failure);
    }
    completion
}

/// Compares the head of an answer with what was listed.
pub(crate) fn check_head(
    connection: &mut Connection,
    reply: &Reply,
    listed: Listed,
    etag: Option<&str>,
) -> Completion {
    let mut completion = reply.completion();
    let tags = listed.tag.zip(etag.and_then(|etag| tag_of(etag.as_bytes())));
    let lengths = listed.size_bytes.zip(reply.content_length);
    let is_replaced = tags.map_or_else(
        || lengths.is_some_and(|(listed, current)| listed != current),
        |(listed, current)| listed != current,
    );
    if completion.outcome.is_ok() && is_replaced {
        let text = "it is not what was listed: the object was replaced since".to_owned();
        completion.outcome = connection.object_to(Failure::Told(Outcome::CHANGED, text));
    } else if completion.outcome.is_ok()
        && let Some((expected, length)) = lengths.filter(|(listed, current)| listed != current)
    {
        completion.outcome = connection.object_to(Failure::Length { found: length, expected });
    }
    completion
}

#[cfg(test)]
mod tests {
    use loadstone_wire::digest::{crc64nvme, md5};
    use loadstone_wire::http1::{Event, Method, ResponseParser};

    use super::*;

    const BODY: &[u8] = b"bytes that others wrote";

    fn listed(etag: Option<&str>) -> Listed {
        let tag = etag.and_then(|etag| tag_of(etag.as_bytes()));
        Listed { size_bytes: Some(BODY.len() as u64), tag }
    }

    fn md5_etag() -> String {
        let digits: String = md5(BODY).iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\"{digits}\"")
    }

    fn crc() -> String {
        STANDARD.encode(crc64nvme(BODY).to_be_bytes())
    }

    /// Returns the outcome of a read whose answer has these headers, and how it was checked.
    fn read_part(
        listed: Listed,
        range: Option<Range<u64>>,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (Outcome, &'static str) {
        let fields = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let text = format!("HTTP/1.1 200 OK\r\n{}\r\n", fields.collect::<String>());
        let mut parser = ResponseParser::default();
        parser.start(Method::Get);
        let parsed = parser.next(text.as_bytes()).expect("a head");
        let Event::Head(head) = parsed.event else { panic!("no head") };
        let mut check = StoredCheck::new(listed, range);
        check.head(&head);
        check.data(body);
        let outcome =
            check.failure(body.len() as u64).map_or(Outcome::OK, |failure| failure.outcome());
        (outcome, METHODS[check.method()].name)
    }

    fn read(listed: Listed, headers: &[(&str, &str)], body: &[u8]) -> (Outcome, &'static str) {
        read_part(listed, None, headers, body)
    }

    fn flipped() -> Vec<u8> {
        let mut body = BODY.to_vec();
        body[3] ^= 1;
        body
    }

    #[test]
    fn bytes_are_checked_by_the_checksum_of_the_store_or_an_etag_that_is_an_md5() {
        let (etag, crc) = (md5_etag(), crc());
        for (headers, method) in [
            (vec![("etag", etag.as_str())], "md5"),
            (vec![("etag", etag.as_str()), ("x-amz-checksum-crc64nvme", &crc)], "crc64nvme"),
            (vec![("etag", "\"abc-2\""), ("x-amz-checksum-crc64nvme", &crc)], "crc64nvme"),
        ] {
            let listed = listed(Some(headers[0].1));
            assert_eq!(read(listed, &headers, BODY), (Outcome::OK, method));
            assert_eq!(read(listed, &headers, &flipped()), (Outcome::CORRUPT, method));
        }
    }

    #[test]
    fn an_etag_other_than_md5_and_a_checksum_of_checksums_prove_nothing() {
        let etag = md5_etag();
        let wrong = STANDARD.encode([1; 8]);
        let composite = format!("{wrong}-3");
        for headers in [
            vec![("etag", "\"0123456789abcdef0123456789abcdef-2\"")],
            vec![("etag", etag.as_str()), ("x-amz-server-side-encryption", "aws:kms")],
            vec![
                ("etag", etag.as_str()),
                ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            ],
            vec![("etag", etag.as_str()), ("x-static-large-object", "True")],
            vec![("etag", "\"a-2\""), ("x-amz-checksum-crc64nvme", composite.as_str())],
            vec![
                ("etag", "\"a-2\""),
                ("x-amz-checksum-crc64nvme", wrong.as_str()),
                ("x-amz-checksum-type", "COMPOSITE"),
            ],
        ] {
            let checked = read(listed(Some(headers[0].1)), &headers, &flipped());
            assert_eq!(checked, (Outcome::OK, "length alone"), "{headers:?}");
        }
    }

    #[test]
    fn a_replaced_object_is_not_reported_as_damaged() {
        let etag = md5_etag();
        let headers = [("etag", etag.as_str())];
        // A different ETag; and a different length without an ETag to compare.
        assert_eq!(read(listed(Some("\"other\"")), &headers, BODY).0, Outcome::CHANGED);
        assert_eq!(read(listed(None), &headers, &BODY[1..]).0, Outcome::CHANGED);
        // The same ETag, and fewer bytes, or more.
        let same = listed(Some(&etag));
        assert_eq!(read(same, &headers, &BODY[1..]).0, Outcome::TRUNCATED);
        assert_eq!(read(same, &headers, &[BODY, b"x"].concat()).0, Outcome::OVERLONG);
    }

    #[test]
    fn a_part_is_checked_by_its_length_and_the_etag_of_the_whole() {
        let etag = md5_etag();
        let headers = [("etag", etag.as_str())];
        let part = |listed, body: &[u8]| read_part(listed, Some(2..6), &headers, body);
        let same = listed(Some(&etag));
        assert_eq!(part(same, &BODY[2..6]), (Outcome::OK, "length alone"));
        assert_eq!(part(same, &BODY[2..5]).0, Outcome::TRUNCATED);
        assert_eq!(part(listed(Some("x")), &BODY[2..6]).0, Outcome::CHANGED);
    }
}
