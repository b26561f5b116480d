//! Bodies of requests and answers, without I/O.

use std::cell::RefCell;

use loadstone_wire::http1::Head;
use loadstone_wire::ranges::{RangesError, RangesParser, parse_boundary, parse_content_range};

use crate::outcome::Outcome;
use crate::payload::sealed::{Opener, SEGMENT_BYTES, Sealer};
use crate::payload::{self, ObjectId, PayloadSpec, Verdict, Verifier};

/// The body of a request. It can be generated again from any offset, so it need not be kept.
pub(crate) trait Upload {
    /// Returns its length in bytes.
    fn length(&self) -> u64;
    /// Writes its bytes from `offset` on.
    fn write(&self, offset: u64, out: &mut [u8]);
    /// Returns how many bytes from `offset` on to generate at a time, if that matters.
    #[inline]
    fn best_bytes(&self, _offset: u64) -> usize {
        usize::MAX
    }
}

/// No body.
pub(crate) struct Nothing;

impl Upload for Nothing {
    fn length(&self) -> u64 {
        0
    }

    fn write(&self, _: u64, _: &mut [u8]) {}
}

impl Upload for &[u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn write(&self, offset: u64, out: &mut [u8]) {
        let start = usize::try_from(offset).expect("an offset in a slice");
        out.copy_from_slice(&self[start..start + out.len()]);
    }
}

/// A range of an object's payload, encrypted if there is a sealer.
pub(crate) struct Payload<'a> {
    pub(crate) spec: &'a PayloadSpec,
    pub(crate) sealer: Option<&'a RefCell<Sealer>>,
    pub(crate) object: ObjectId,
    pub(crate) start: u64,
    pub(crate) length: u64,
}

impl Upload for Payload<'_> {
    fn length(&self) -> u64 {
        self.length
    }

    #[inline]
    fn write(&self, offset: u64, out: &mut [u8]) {
        match self.sealer {
            None => payload::fill(self.spec, &self.object, self.start + offset, out),
            Some(sealer) => sealer.borrow_mut().write(&self.object, self.start + offset, out),
        }
    }

    /// A segment that is generated in two pieces is encrypted twice, so segments are generated one
    /// at a time.
    #[inline]
    fn best_bytes(&self, offset: u64) -> usize {
        match self.sealer {
            None => usize::MAX,
            Some(_) => SEGMENT_BYTES - ((self.start + offset) % SEGMENT_BYTES as u64) as usize,
        }
    }
}

/// Consumes the body of a successful answer.
pub(crate) trait Download {
    /// Whether the body is inspected; otherwise it need not leave the kernel.
    const IS_SEEN: bool = true;
    /// Returns how much to read at a time before the head is known. If the body is not inspected,
    /// the first read should take little of it.
    fn first_read_bytes(&self) -> usize {
        usize::MAX
    }
    /// Processes the head.
    fn head(&mut self, _: &Head<'_>) {}
    /// Processes the next bytes of the body.
    fn data(&mut self, bytes: &[u8]);
}

/// Ignores the body.
pub(crate) struct Ignore;

impl Download for Ignore {
    #[inline]
    fn data(&mut self, _: &[u8]) {}
}

/// Counts the bytes of a body, of about this length, and lets the kernel discard what it can.
pub(crate) struct Discard {
    pub(crate) expected: u64,
}

/// From this length on, a body is worth a second system call to discard it.
const DISCARDED_BYTES_MIN: u64 = 64 << 10;
/// More than the head of any answer to a read.
const FIRST_READ_BYTES: usize = 4 << 10;

impl Download for Discard {
    const IS_SEEN: bool = false;

    fn first_read_bytes(&self) -> usize {
        if self.expected < DISCARDED_BYTES_MIN { usize::MAX } else { FIRST_READ_BYTES }
    }

    #[inline]
    fn data(&mut self, _: &[u8]) {}
}

/// Checks the body against what was written.
impl Download for Verifier {
    #[inline]
    fn data(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

/// Decrypts the body, and checks it if requested.
impl Download for Opener {
    #[inline]
    fn data(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

/// Maximum size of an answer outside the load; a page of 1000 long keys is 2 MiB.
const COLLECTED_BYTES_MAX: usize = 64 << 20;

/// Keeps the body and the requested headers.
#[derive(Debug, Default)]
pub(crate) struct Collect {
    pub(crate) body: Vec<u8>,
    wanted: &'static [&'static str],
    /// The text of each, and whether it was found: their memory is used again.
    values: Vec<(String, bool)>,
}

impl Collect {
    /// Starts a new answer, from which to keep these headers.
    pub(crate) fn start(&mut self, wanted: &'static [&'static str]) {
        self.body.clear();
        self.values.resize_with(self.values.len().max(wanted.len()), Default::default);
        self.values.iter_mut().for_each(|(_, is_found)| *is_found = false);
        self.wanted = wanted;
    }

    /// Returns a requested header, if it was found.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let place = self.wanted.iter().position(|wanted| *wanted == name)?;
        let (text, is_found) = self.values.get(place)?;
        is_found.then_some(text.as_str())
    }
}

impl Download for Collect {
    fn head(&mut self, head: &Head<'_>) {
        // A previous answer to the same request may have broken off.
        self.body.clear();
        for ((text, is_found), name) in self.values.iter_mut().zip(self.wanted) {
            let value = head.header_text(name);
            *is_found = value.is_some();
            text.clear();
            text.push_str(value.unwrap_or_default());
        }
    }

    fn data(&mut self, bytes: &[u8]) {
        let room = COLLECTED_BYTES_MAX.saturating_sub(self.body.len());
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Checks an answer that contains several ranges of an object.
pub(crate) struct CheckRanges<'a> {
    spec: &'a PayloadSpec,
    object: ObjectId,
    /// The requested ranges, in order: first byte and end.
    wanted: &'a [(u64, u64)],
    /// How many ranges have begun.
    begun: usize,
    form: Form,
    verifier: Option<Verifier>,
    verdict: Verdict,
    is_verified: bool,
    pub(crate) payload_bytes: u64,
    pub(crate) verified_bytes: u64,
    pub(crate) mistake: Option<RangesMistake>,
}

/// How an answer differs from the requested ranges.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RangesMistake {
    /// It is not a multipart body.
    #[error(transparent)]
    Form(#[from] RangesError),
    /// It contains other bytes.
    #[error("the answer holds other ranges than were asked for")]
    Other,
    /// It is the whole object.
    #[error("the target ignores the header Range: it sends the whole object")]
    Whole,
    /// It contains one range although several were requested.
    #[error("the target gives one range where {0} were asked for: it cannot do several at once")]
    One(usize),
}

enum Form {
    /// The head has not arrived, or was invalid.
    Unknown,
    /// A single range: the body consists of its bytes.
    Single,
    Multipart(RangesParser),
}

impl<'a> CheckRanges<'a> {
    pub(crate) fn new(
        spec: &'a PayloadSpec,
        object: ObjectId,
        wanted: &'a [(u64, u64)],
        is_verified: bool,
    ) -> Self {
        Self {
            spec,
            object,
            wanted,
            begun: 0,
            form: Form::Unknown,
            verifier: None,
            verdict: Verdict::Ok,
            is_verified,
            payload_bytes: 0,
            verified_bytes: 0,
            mistake: None,
        }
    }

    fn begin(&mut self, first: u64, length: u64) {
        self.end_part();
        if self.wanted.get(self.begun) != Some(&(first, first + length)) {
            self.mistake.get_or_insert(RangesMistake::Other);
        }
        self.begun += 1;
        if self.is_verified {
            let range = first..first + length;
            self.verifier = Some(Verifier::for_range(self.spec, &self.object, range));
        }
    }

    fn end_part(&mut self) {
        if let Some(mut verifier) = self.verifier.take() {
            self.verdict = self.verdict.max(verifier.finish());
            self.verified_bytes += verifier.checked_bytes();
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.payload_bytes += bytes.len() as u64;
        if let Some(verifier) = &mut self.verifier {
            verifier.update(bytes);
        }
    }

    /// Returns the outcome of the whole answer.
    pub(crate) fn finish(&mut self) -> Outcome {
        self.end_part();
        if let Form::Multipart(parser) = &self.form
            && let Err(error) = parser.finish()
        {
            self.mistake.get_or_insert(error.into());
        }
        match &self.mistake {
            Some(RangesMistake::Form(RangesError::Truncated)) => Outcome::TRUNCATED,
            Some(RangesMistake::Whole | RangesMistake::One(_)) => Outcome::UNSUPPORTED,
            Some(_) => Outcome::PROTOCOL,
            None if self.begun < self.wanted.len() => Outcome::TRUNCATED,
            None => Outcome::of_verdict(self.verdict),
        }
    }
}

impl Download for CheckRanges<'_> {
    fn head(&mut self, head: &Head<'_>) {
        if head.status == 200 {
            self.mistake = Some(RangesMistake::Whole);
        } else if let Some(boundary) = head.header("content-type").and_then(parse_boundary) {
            self.form = Form::Multipart(RangesParser::new(boundary));
        } else if let Some(range) = head.header("content-range").and_then(parse_content_range) {
            self.form = Form::Single;
            match self.wanted.len() {
                1 => self.begin(range.first, range.length),
                several => self.mistake = Some(RangesMistake::One(several)),
            }
        } else {
            self.mistake = Some(RangesMistake::Other);
        }
    }

    fn data(&mut self, mut bytes: &[u8]) {
        let mut form = std::mem::replace(&mut self.form, Form::Unknown);
        match &mut form {
            Form::Unknown => {}
            Form::Single => self.take(bytes),
            Form::Multipart(parser) if self.mistake.is_none() => loop {
                match parser.next(&mut bytes) {
                    Ok(None) => break,
                    Ok(Some(piece)) => {
                        if let Some(range) = piece.starts {
                            self.begin(range.first, range.length);
                        }
                        self.take(piece.bytes);
                    }
                    Err(error) => {
                        self.mistake = Some(error.into());
                        break;
                    }
                }
            },
            Form::Multipart(_) => {}
        }
        self.form = form;
    }
}
