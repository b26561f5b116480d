//! Checks the content of a read, in pieces of any size, and describes what is wrong.

use std::fmt;
use std::ops::Range;

use super::{
    ANY_VERSION, CRC, Crc, HEADER_BYTES, Header, ObjectId, PAGE_BYTES, PayloadSpec, TAG_BYTES,
    array, locate, page_bytes, tagged_crc,
};
use crate::script;

/// How many versions are tried for a piece of a page without a header.
const VERSIONS_TRIED: u64 = 16;
const WRITER: Range<usize> = 36..40;

/// Result of a read, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Every byte is as written.
    Ok,
    /// Correct, but ended early.
    Truncated,
    /// Correct, but longer than the object.
    Overlong,
    /// Intact, but of a version older than the oldest allowed.
    Stale,
    /// Intact, but of a version that was never written.
    Phantom,
    /// Intact pages of different versions.
    Torn,
    /// Intact pages of another object or another position.
    Misdirected,
    /// Intact pages of another run.
    Foreign,
    /// Bytes that were never written.
    Corrupt,
}

impl Verdict {
    /// Every verdict, from the best to the worst.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Truncated,
        Self::Overlong,
        Self::Stale,
        Self::Phantom,
        Self::Torn,
        Self::Misdirected,
        Self::Foreign,
        Self::Corrupt,
    ];

    /// Returns the name in records and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Truncated => "truncated",
            Self::Overlong => "overlong",
            Self::Stale => "stale",
            Self::Phantom => "phantom",
            Self::Torn => "torn",
            Self::Misdirected => "misdirected",
            Self::Foreign => "foreign",
            Self::Corrupt => "corrupt",
        }
    }
}

/// The worst page of a read.
#[derive(Debug, Clone, Copy)]
pub struct Evidence {
    verdict: Verdict,
    offset: u64,
    expected: ObjectId,
    header: Option<Header>,
}

impl Evidence {
    pub(super) fn new(
        verdict: Verdict,
        offset: u64,
        expected: &ObjectId,
        header: Option<Header>,
    ) -> Self {
        Self { verdict, offset, expected: *expected, header }
    }

    /// Returns the verdict on the page.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verdict, offset, expected) = (self.verdict.name(), self.offset, &self.expected);
        write!(
            formatter,
            "{verdict} at offset {offset}: expected key hash {:016x} ",
            expected.key_hash
        )?;
        write!(formatter, "version {} length {}, ", expected.version, expected.length)?;
        match &self.header {
            None => write!(formatter, "found bytes that carry no such mark"),
            Some(header) => write!(
                formatter,
                "found key hash {:016x} version {} length {} page {} of run {:032x}",
                header.key_hash,
                header.version,
                header.length,
                header.page,
                u128::from_be_bytes(header.run)
            ),
        }
    }
}

/// Checks one read of one object, piece by piece, and keeps no more of it than a header.
///
/// Whole pages are checked by identity and CRC. Parts of pages, at the ends of a range, are
/// generated again and compared; the writer, and a CRC that depends on it, are ignored unless the
/// part contains both.
#[derive(Debug, Clone)]
pub struct Verifier {
    spec: PayloadSpec,
    object: ObjectId,
    oldest: u64,
    range: Range<u64>,
    at: u64,
    extra_bytes: u64,
    head: [u8; HEADER_BYTES],
    crc: Crc,
    worst: Verdict,
    evidence: Option<Evidence>,
    versions: Option<(u64, u64)>,
    /// Number of corrupt pages.
    corrupt_pages: u64,
    length: Length,
}

/// Whether the length of an object is known before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Known,
    /// The version encodes the length, and is in the object's first bytes. Until these have
    /// arrived, they are collected as the head, and nothing is expected.
    Unknown,
    /// The length was unknown and has been read.
    Read,
}

impl Verifier {
    /// Expects the object from `offset` to its end.
    #[must_use]
    pub fn new(spec: &PayloadSpec, object: &ObjectId, offset: u64) -> Self {
        Self::for_range(spec, object, offset..object.length)
    }

    /// Expects a range of the object, up to the object's end. With [`ANY_VERSION`], or several
    /// versions that the parameters allow, all pages must have the same version. The same holds for any version of a script's object, which is read
    /// whole and encodes its length.
    #[must_use]
    pub fn for_range(spec: &PayloadSpec, object: &ObjectId, range: Range<u64>) -> Self {
        let end = range.end.min(object.length);
        let start = range.start.min(end);
        let (length, range) = match script::is_any_version(object.version) {
            true => (Length::Unknown, 0..0),
            false => (Length::Known, start..end),
        };
        Self {
            spec: *spec,
            object: *object,
            oldest: match object.version {
                ANY_VERSION => 0,
                version => version.min(spec.oldest_version),
            },
            at: range.start,
            range,
            extra_bytes: 0,
            head: [0; HEADER_BYTES],
            crc: Crc::new(),
            worst: Verdict::Ok,
            evidence: None,
            versions: None,
            corrupt_pages: 0,
            length,
        }
    }

    /// Returns the version of the pages, the lowest if there are several.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.versions.map(|(lowest, _)| lowest)
    }

    /// Allows versions down to `oldest`, if all pages have the same one.
    #[must_use]
    pub fn allow_since(mut self, oldest: u64) -> Self {
        self.oldest = oldest.min(self.object.version);
        self
    }

    /// Checks the next bytes that arrived.
    #[inline]
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.at >= self.range.end {
                return self.update_beyond(bytes);
            }
            let (page, inside) = locate(self.at);
            let whole_bytes = page_bytes(self.object.length, page);
            let wanted = (whole_bytes - inside).min(to_usize(self.range.end - self.at));
            let (piece, rest) = bytes.split_at(wanted.min(bytes.len()));
            self.at += piece.len() as u64;
            if piece.len() == whole_bytes {
                self.check_page(page, piece);
            } else {
                self.absorb(page, inside, piece);
                if piece.len() == wanted {
                    self.end_piece();
                }
            }
            bytes = rest;
        }
    }

    /// Handles bytes beyond the end that is known so far.
    #[cold]
    fn update_beyond(&mut self, bytes: &[u8]) {
        if self.length != Length::Unknown {
            self.extra_bytes += bytes.len() as u64;
            return;
        }
        let held = to_usize(self.at);
        let (head, rest) = bytes.split_at(bytes.len().min(HEADER_BYTES - held));
        self.head[held..held + head.len()].copy_from_slice(head);
        self.at += head.len() as u64;
        if to_usize(self.at) == HEADER_BYTES {
            self.read_length();
            self.update(rest);
        }
    }

    /// Adopts the version in the first bytes, and checks them.
    fn read_length(&mut self) {
        self.length = Length::Read;
        let (head, held) = (self.head, to_usize(self.at));
        // If a header is truncated after its version, the rest of the header is not checked.
        let header = Header::parse(&head).filter(|_| held >= WRITER.start);
        let version = header.map_or(u64::from_le_bytes(array(&head[..8])), |header| header.version);
        let length = script::length_of(version);
        self.object = ObjectId { version, length, ..self.object };
        (self.oldest, self.range, self.at) = (version, 0..length, 0);
        self.update(&head[..held]);
    }

    /// Returns the verdict on all bytes, which should have been the whole range.
    pub fn finish(&mut self) -> Verdict {
        if self.length == Length::Unknown {
            self.finish_short();
        }
        let is_short = self.at < self.range.end;
        let (page, inside) = locate(self.at);
        if is_short && inside > 0 && self.at > self.piece_start(page) {
            self.at_page_end(page, inside);
        }
        let oldest_seen = self.versions.map_or(self.object.version, |(lowest, _)| lowest);
        if self.versions.is_some_and(|(lowest, highest)| lowest != highest) {
            self.blame(Verdict::Torn, self.range.start, None);
        }
        // An interrupted write leaves one page with two versions. The version in a damaged first
        // page is not reliable, so others cannot be older than it.
        let is_named = self.versions.is_some_and(|(_, highest)| highest == self.object.version);
        if (self.length != Length::Read || is_named)
            && self.worst == Verdict::Corrupt
            && self.corrupt_pages == 1
            && oldest_seen < self.oldest
        {
            self.worst = Verdict::Torn;
        }
        if self.extra_bytes > 0 {
            self.blame(Verdict::Overlong, self.range.end, None);
        }
        if is_short {
            self.blame(Verdict::Truncated, self.at, None);
        }
        if self.length == Length::Read && self.versions.is_none() {
            // The bytes that contained the version were not ours.
            self.blame(Verdict::Corrupt, 0, None);
        }
        self.worst
    }

    /// Ends a read that is too short to know the object's length.
    #[cold]
    fn finish_short(&mut self) {
        if to_usize(self.at) >= TAG_BYTES {
            return self.read_length();
        }
        self.length = Length::Known;
        self.blame(Verdict::Truncated, self.at, None);
    }

    /// Returns how many bytes of the range have arrived.
    #[must_use]
    pub fn checked_bytes(&self) -> u64 {
        self.at - self.range.start
    }

    /// Returns the first of the worst pages; complete after [`Verifier::finish`].
    #[must_use]
    pub fn evidence(&self) -> Option<Evidence> {
        self.evidence
    }

    fn blame(&mut self, verdict: Verdict, offset: u64, header: Option<Header>) {
        self.corrupt_pages += u64::from(verdict == Verdict::Corrupt);
        if verdict > self.worst {
            self.worst = verdict;
            self.evidence = Some(Evidence { verdict, offset, expected: self.object, header });
        }
    }

    fn piece_start(&self, page: u64) -> u64 {
        (page * PAGE_BYTES as u64).max(self.range.start)
    }

    /// Collects the header of a page that arrives in pieces, and computes the CRC of the rest.
    fn absorb(&mut self, page: u64, inside: usize, piece: &[u8]) {
        let is_from_start = self.piece_start(page) == page * PAGE_BYTES as u64;
        if self.at - piece.len() as u64 == self.piece_start(page) {
            self.crc = Crc::new();
        }
        let head_taken = HEADER_BYTES.saturating_sub(inside).min(piece.len());
        if head_taken > 0 {
            self.head[inside..inside + head_taken].copy_from_slice(&piece[..head_taken]);
            if is_from_start && inside + head_taken == HEADER_BYTES {
                self.crc = Crc::of_head(&self.head);
            }
        }
        self.crc = self.crc.and(&piece[head_taken..]);
    }

    /// Judges a piece that is now complete.
    fn end_piece(&mut self) {
        let (page, last) = locate(self.at - 1);
        self.at_page_end(page, last + 1);
    }

    fn at_page_end(&mut self, page: u64, end: usize) {
        let start = locate(self.piece_start(page)).1;
        let is_whole = start == 0 && end == page_bytes(self.object.length, page);
        if is_whole && end < HEADER_BYTES {
            let head = self.head;
            self.check_page(page, &head[..end]);
        } else if is_whole {
            self.check_header(page, &{ self.head }, self.crc.value());
        } else {
            self.check_piece(page, start..end);
        }
    }

    #[inline]
    fn check_page(&mut self, page: u64, bytes: &[u8]) {
        match bytes.len() {
            HEADER_BYTES.. => {
                let head = array(&bytes[..HEADER_BYTES]);
                let crc = Crc::of_head(&head).and(&bytes[HEADER_BYTES..]);
                self.check_header(page, &head, crc.value());
            }
            TAG_BYTES.. => self.check_tag(page, bytes),
            _ => {
                self.head[..bytes.len()].copy_from_slice(bytes);
                self.check_piece(page, 0..bytes.len());
            }
        }
    }

    #[inline]
    fn check_header(&mut self, page: u64, head: &[u8; HEADER_BYTES], crc: u32) {
        let offset = page * PAGE_BYTES as u64;
        let is_intact = u32::from_le_bytes(array(&head[CRC])) == crc;
        match Header::parse(head) {
            Some(header) if is_intact => self.judge(&header, page, offset),
            header => self.blame(Verdict::Corrupt, offset, header),
        }
    }

    /// Judges an intact page by the identity in its header.
    #[inline]
    fn judge(&mut self, header: &Header, page: u64, offset: u64) {
        let object = &self.object;
        if header.run != self.spec.run || header.seed != self.spec.seed {
            self.blame(Verdict::Foreign, offset, Some(*header));
        } else if header.is_duplicate {
            if !self.expects_duplicate(page, header.page) {
                self.blame(Verdict::Misdirected, offset, Some(*header));
            }
        } else if !header.is_of(object, page) && !self.is_of_other_length(header, page) {
            self.blame(Verdict::Misdirected, offset, Some(*header));
        } else {
            self.see_version(header.version, offset, Some(*header));
        }
    }

    /// Returns whether a page belongs to the object, in a version of another length.
    #[cold]
    fn is_of_other_length(&self, header: &Header, page: u64) -> bool {
        let length = script::length_of(header.version);
        self.length == Length::Read && header.is_of(&ObjectId { length, ..self.object }, page)
    }

    #[inline]
    fn see_version(&mut self, version: u64, offset: u64, header: Option<Header>) {
        let (lowest, highest) = self.versions.unwrap_or((version, version));
        self.versions = Some((lowest.min(version), highest.max(version)));
        if version < self.oldest {
            self.blame(Verdict::Stale, offset, header);
        } else if version > self.object.version {
            self.blame(Verdict::Phantom, offset, header);
        }
    }

    fn expects_duplicate(&self, page: u64, place: u32) -> bool {
        let whole_bytes = page_bytes(self.object.length, page);
        self.allowed_versions().any(|version| {
            let page_seed = self.spec.page_seed(&ObjectId { version, ..self.object }, page);
            self.spec.duplicate_at(page, page_seed, whole_bytes) == Some(u64::from(place))
        })
    }

    /// Returns the allowed versions, newest first. If the trial does not say how many there are,
    /// they are limited so that the cost of a bad page is bounded.
    fn allowed_versions(&self) -> impl Iterator<Item = u64> + use<> {
        // If any version is allowed, it is that of the previous pages.
        let known = self.version().filter(|_| self.object.version == ANY_VERSION);
        let newest = known.unwrap_or(self.object.version);
        let tried = match self.spec.oldest_version {
            u64::MAX => VERSIONS_TRIED,
            oldest_version => u64::MAX - oldest_version,
        };
        let oldest = self.oldest.max(newest.saturating_sub(tried - 1));
        (known.unwrap_or(oldest)..=newest).rev()
    }

    fn check_tag(&mut self, page: u64, bytes: &[u8]) {
        let offset = page * PAGE_BYTES as u64;
        if u32::from_le_bytes(array(&bytes[12..16])) != tagged_crc(bytes) {
            self.blame(Verdict::Corrupt, offset, None);
        } else if u32::from_le_bytes(array(&bytes[8..12]))
            != self.spec.tag_check(&self.object, page)
        {
            self.blame(Verdict::Misdirected, offset, None);
        } else {
            self.see_version(u64::from_le_bytes(array(&bytes[..8])), offset, None);
        }
    }

    /// Judges part of a page by generating the page again: as expected, otherwise as its header
    /// says.
    fn check_piece(&mut self, page: u64, piece: Range<usize>) {
        let offset = page * PAGE_BYTES as u64 + piece.start as u64;
        let mut object = self.object;
        if piece.start <= WRITER.start && piece.end >= WRITER.end {
            object.writer = u32::from_le_bytes(array(&self.head[WRITER]));
        }
        let mut matches = self.allowed_versions().filter(|&version| {
            self.is_piece_of(&self.spec, &ObjectId { version, ..object }, page, &piece)
        });
        match (matches.next(), matches.next()) {
            (Some(version), None) => return self.see_version(version, offset, None),
            // Zeros, duplicates and very short pieces are the same in several versions.
            (Some(_), Some(_)) => return,
            (None, _) => {}
        }
        let has_header = piece.start == 0 && piece.end >= CRC.start;
        let Some(header) = Header::parse(&self.head).filter(|_| has_header) else {
            return self.blame(Verdict::Corrupt, offset, None);
        };
        let PayloadSpec { compressible, duplicate, content, .. } = self.spec;
        let spec = PayloadSpec::new(header.run, header.seed, compressible, duplicate)
            .with_content(content);
        let Header { key_hash, version, length, writer, .. } = header;
        let other = ObjectId { writer, ..ObjectId::new(key_hash, version, length) };
        if self.is_piece_of(&spec, &other, u64::from(header.page), &piece) {
            self.judge(&header, page, offset);
        } else {
            self.blame(Verdict::Corrupt, offset, Some(header));
        }
    }

    fn is_piece_of(
        &self,
        spec: &PayloadSpec,
        object: &ObjectId,
        page: u64,
        piece: &Range<usize>,
    ) -> bool {
        let whole_bytes = page_bytes(object.length, page);
        if whole_bytes < piece.end {
            return false;
        }
        let mut whole = [0; PAGE_BYTES];
        let whole = &mut whole[..whole_bytes];
        spec.make_page(object, page, whole);
        let is_writer_known = piece.start <= WRITER.start && piece.end >= WRITER.end;
        let is_passed_over = |place: usize| {
            whole_bytes >= HEADER_BYTES
                && !is_writer_known
                && (WRITER.contains(&place) || CRC.contains(&place))
        };
        let head_end = piece.end.min(HEADER_BYTES);
        let is_head_right = (piece.start..head_end)
            .all(|place| self.head[place] == whole[place] || is_passed_over(place));
        if !is_head_right || piece.end <= HEADER_BYTES {
            return is_head_right;
        }
        let crc = if piece.start == 0 {
            Crc::of_head(&array(&whole[..HEADER_BYTES]))
        } else {
            Crc::new()
        };
        crc.and(&whole[piece.start.max(HEADER_BYTES)..piece.end]).value() == self.crc.value()
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the verdict and the version of an object with these bytes, of at most 7,000 bytes.
    fn read(bytes: &[u8], piece_bytes: usize) -> (Verdict, Option<u64>) {
        let spec = PayloadSpec::new([3; 16], 5, 0.0, 0.0);
        let object = ObjectId::new(9, script::any_version(7000), 7000);
        let mut verifier = Verifier::new(&spec, &object, 0);
        bytes.chunks(piece_bytes).for_each(|piece| verifier.update(piece));
        (verifier.finish(), verifier.version())
    }

    fn written(write: u64, length: u64) -> Vec<u8> {
        let spec = PayloadSpec::new([3; 16], 5, 0.0, 0.0);
        let version = script::version_of(write, length);
        let mut bytes = vec![0; to_usize(length)];
        crate::payload::fill(&spec, &ObjectId::new(9, version, length), 0, &mut bytes);
        bytes
    }

    #[test]
    fn an_object_of_unknown_length_has_the_length_in_its_version() {
        for length in [16, 17, 63, 64, 65, 100, 4095, 4096, 4097, 4101, 5000, 7000] {
            let (bytes, version) = (written(3, length), script::version_of(3, length));
            for piece_bytes in [1, 7, 64, 100, 4096, 10_000] {
                assert_eq!(read(&bytes, piece_bytes), (Verdict::Ok, Some(version)), "{length}");
            }
            let longer = [&bytes[..], &[0; 80]].concat();
            assert_eq!(read(&longer, 10_000).0, Verdict::Overlong, "{length}");
            for end in [1, 15, length / 2, length - 1] {
                let verdict = read(&bytes[..to_usize(end)], 4096).0;
                let may_be = [Verdict::Truncated, Verdict::Corrupt];
                assert!(may_be.contains(&verdict), "{verdict:?}: {end} of {length}");
            }
            for place in [0, 3, 8, 12, 30, 33, 45, 61, length - 1] {
                let mut damaged = bytes.clone();
                let Some(byte) = damaged.get_mut(to_usize(place)) else { continue };
                *byte ^= 1;
                let verdict = read(&damaged, 4096).0;
                assert!(verdict >= Verdict::Misdirected, "{verdict:?}: {place} of {length}");
            }
        }
    }

    #[test]
    fn pages_of_versions_of_different_lengths_are_torn() {
        let (older, newer) = (written(3, 7000), written(4, 4096));
        let torn = [&newer[..4096], &older[4096..]].concat();
        assert_ne!(read(&torn, 4096).0, Verdict::Ok);
        let torn = [&older[..4096], &written(4, 7000)[4096..]].concat();
        assert_eq!(read(&torn, 4096).0, Verdict::Torn);
        let torn = [&written(4, 12_288)[..4096], &written(3, 8192)[4096..]].concat();
        assert_eq!(read(&torn, 4096).0, Verdict::Torn);
    }
}
