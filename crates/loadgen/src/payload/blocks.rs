//! Checks blocks that were read at an offset of an object that is rewritten block by block.
//!
//! Writes in blocks leave pages of different versions side by side, and sectors of different
//! versions in one page if blocks are smaller than a page. So no read is torn or stale here; only
//! bytes that were never written to this position are wrong.

use super::verifier::{Evidence, Verdict};
use super::{
    CRC, Crc, HEADER_BYTES, Header, ObjectId, PAGE_BYTES, PayloadSpec, array, locate, page_bytes,
};

/// The smallest unit of writes in blocks.
pub const SECTOR_BYTES: u64 = 512;

/// How many versions are tried for a page that is not intact, from the newest back.
const VERSIONS_TRIED: u64 = 64;

/// Checks bytes that were read from `offset` of an object and have the right length.
///
/// Each sector may have any version up to the object's. In a page with sectors of several versions,
/// only the newest 64 versions are recognised.
///
/// # Errors
/// Evidence for the worst page.
pub fn check_blocks(
    spec: &PayloadSpec,
    object: &ObjectId,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Evidence> {
    let mut worst: Option<Evidence> = None;
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let (page, inside) = locate(at);
        let whole_bytes = page_bytes(object.length, page);
        let wanted = whole_bytes.saturating_sub(inside).min(rest.len());
        let (piece, left) = rest.split_at(wanted);
        let blame = |verdict, header| Some(Evidence::new(verdict, at, object, header));
        let evidence = if piece.is_empty() {
            blame(Verdict::Overlong, None)
        } else {
            let is_whole = piece.len() == whole_bytes && whole_bytes >= HEADER_BYTES;
            match is_whole.then(|| whole_page(spec, object, page, piece)).flatten() {
                Some((Verdict::Ok, _)) => None,
                Some((verdict, header)) => blame(verdict, Some(header)),
                None if are_sectors(spec, object, page, inside, piece) => None,
                None => blame(Verdict::Corrupt, header_of(inside, piece)),
            }
        };
        if let Some(evidence) = evidence
            && worst.is_none_or(|worst| evidence.verdict() > worst.verdict())
        {
            worst = Some(evidence);
        }
        if wanted == 0 {
            break;
        }
        at += wanted as u64;
        rest = left;
    }
    worst.map_or(Ok(()), Err)
}

/// Judges a page that a single write has written; returns `None` if it is not such a page.
#[inline]
fn whole_page(
    spec: &PayloadSpec,
    object: &ObjectId,
    page: u64,
    bytes: &[u8],
) -> Option<(Verdict, Header)> {
    let head: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    let header = Header::parse(head)?;
    let crc = Crc::of_head(head).and(&bytes[HEADER_BYTES..]).value();
    if u32::from_le_bytes(array(&head[CRC])) != crc {
        return None;
    }
    let verdict = if header.run != spec.run || header.seed != spec.seed {
        Verdict::Foreign
    } else if header.is_duplicate {
        // Whether this position had a duplicate depends on the version, so the bytes must show it.
        return None;
    } else if !header.is_of(object, page) {
        Verdict::Misdirected
    } else if header.version > object.version {
        Verdict::Phantom
    } else {
        Verdict::Ok
    };
    Some((verdict, header))
}

fn header_of(inside: usize, piece: &[u8]) -> Option<Header> {
    piece.first_chunk().filter(|_| inside == 0).and_then(Header::parse)
}

/// Returns whether each sector of a piece belongs to some version of the page.
fn are_sectors(
    spec: &PayloadSpec,
    object: &ObjectId,
    page: u64,
    inside: usize,
    piece: &[u8],
) -> bool {
    const SECTOR: usize = SECTOR_BYTES as usize;
    let mut known = [false; PAGE_BYTES / SECTOR];
    let oldest = object.version.saturating_sub(VERSIONS_TRIED - 1);
    let mut made = [0; PAGE_BYTES];
    let made = &mut made[..page_bytes(object.length, page)];
    for version in (oldest..=object.version).rev() {
        spec.make_page(&ObjectId { version, ..*object }, page, made);
        let mut is_all_known = true;
        let (first, last) = (inside / SECTOR, (inside + piece.len() - 1) / SECTOR);
        for (sector, is_known) in known.iter_mut().enumerate().take(last + 1).skip(first) {
            let start = (sector * SECTOR).max(inside);
            let end = ((sector + 1) * SECTOR).min(inside + piece.len());
            *is_known |= made[start..end] == piece[start - inside..end - inside];
            is_all_known &= *is_known;
        }
        if is_all_known {
            return true;
        }
    }
    false
}
