//! The mark of a file or device: text in each sector of its first and its last MiB.
//!
//! Partition tables, superblocks and array labels are in these areas. A program that writes one of
//! them changes the mark, and an incomplete mark is invalid. The mark also names the file or device
//! that it was written on (`identity`), because a copy of the whole device has the same mark.

use std::io;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use crate::transport::disk::{self, Buffer};

/// Size of the mark at each end; data lies between.
pub(super) const MARK_BYTES: u64 = 1 << 20;

const FORMAT: u32 = 2;
const SECTOR_BYTES: usize = 512;
/// Format of marks that do not name their file or device.
const FORMAT_OF_ANY: u32 = 1;
/// Text of marks that do not name their owner.
const OLD: &[u8] = b"loadstone overwrites this file or device\n";

/// Content of the two ends of a file or device.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Every byte is the mark of this run.
    Marked { run: String },
    /// A complete mark of this run, but of another file or device.
    Copied { run: String },
    /// This run was about to extend it: beyond the complete mark of its former length is nothing
    /// but zeroes and parts of the new mark.
    Growing { run: String },
    /// There was a mark, and then something else was written, or the length changed.
    Broken { run: String },
    /// A mark of a version that did not check any further.
    Old,
    /// Nothing but zeroes.
    Blank,
    /// Something else.
    Other,
}

/// The line in a sector. It contains its position, so that a copy elsewhere is invalid.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    loadstone: u32,
    run: String,
    /// Identity of the file or device, if it has one.
    on: Option<String>,
    bytes: u64,
    at: u64,
    crc64: String,
}

/// The owner of a mark, and the file or device that it was written on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) run: String,
    pub(super) on: Option<String>,
}

/// Reads both ends of a file or device with this length and identity.
pub(super) fn read(file: BorrowedFd<'_>, bytes: u64, on: Option<&str>) -> io::Result<Ends> {
    let mut buffer = Buffer::new(MARK_BYTES as usize);
    let length = disk::read_full_at(file, &mut buffer, 0)?;
    let head = &buffer[..length];
    if head.starts_with(OLD) {
        return Ok(Ends::Old);
    }
    let line = line_of(head);
    if line.as_ref().is_some_and(|line| line.loadstone == FORMAT_OF_ANY) {
        return Ok(Ends::Old);
    }
    let owner = line.map(|line| Owner { run: line.run, on: line.on });
    let is_blank = head.iter().all(|byte| *byte == 0);
    let mut is_whole = owner.as_ref().is_some_and(|owner| *head == *text(owner, bytes, 0));
    if owner.is_none() && !is_blank {
        return Ok(Ends::Other);
    }
    let mut is_tail_blank = bytes < 2 * MARK_BYTES;
    if let Some(at) = bytes.checked_sub(MARK_BYTES).filter(|at| *at >= MARK_BYTES) {
        let length = disk::read_full_at(file, &mut buffer, at)?;
        let tail = &buffer[..length];
        is_tail_blank = tail.iter().all(|byte| *byte == 0);
        is_whole &= owner.as_ref().is_some_and(|owner| *tail == *text(owner, bytes, at));
    } else {
        is_whole = false;
    }
    let Some(owner) = owner else {
        return Ok(if is_tail_blank { Ends::Blank } else { Ends::Other });
    };
    let is_growing = !is_whole && is_growing(file, &owner, bytes)?;
    let is_copy = owner.on.as_deref() != on;
    let run = owner.run;
    Ok(match (is_whole, is_growing) {
        (false, false) => Ends::Broken { run },
        _ if is_copy => Ends::Copied { run },
        (true, _) => Ends::Marked { run },
        (false, true) => Ends::Growing { run },
    })
}

/// Returns whether a file or device of this length was marked when it was shorter, and only zeroes
/// or our own mark were added. Extending it and marking it are two steps, and a kill may come
/// between them.
fn is_growing(file: BorrowedFd<'_>, owner: &Owner, bytes: u64) -> io::Result<bool> {
    let mut buffer = Buffer::new(MARK_BYTES as usize);
    if disk::read_full_at(file, &mut buffer, 0)? < buffer.len() {
        return Ok(false);
    }
    // The start is written last, from its first sector on.
    let last = line_of(&buffer[MARK_BYTES as usize - SECTOR_BYTES..]);
    let Some(former) = last.map(|line| line.bytes) else { return Ok(false) };
    let Some(former_end) = former.checked_sub(MARK_BYTES).filter(|end| *end >= MARK_BYTES) else {
        return Ok(false);
    };
    let new_end = bytes.saturating_sub(MARK_BYTES);
    if former > new_end || !is_made_of(&buffer, [&text(owner, former, 0), &text(owner, bytes, 0)]) {
        return Ok(false);
    }
    disk::read_full_at(file, &mut buffer, former_end)?;
    if *buffer != *text(owner, former, former_end) {
        return Ok(false);
    }
    let mark = text(owner, bytes, new_end);
    let mut at = former;
    while let Some(data) = disk::next_data(file, at)?.filter(|data| *data < bytes) {
        // Direct I/O requires aligned offsets.
        at = data - data % disk::ALIGNMENT as u64;
        let length = disk::read_full_at(file, &mut buffer, at)?;
        let is_ours = |(at, byte): (u64, &u8)| {
            let of_mark = at.checked_sub(new_end).and_then(|skip| mark.get(skip as usize));
            *byte == 0 || at < former || of_mark == Some(byte)
        };
        if length == 0 || !(at..).zip(&buffer[..length]).all(is_ours) {
            return Ok(false);
        }
        at += length as u64;
    }
    Ok(true)
}

/// Returns whether each sector of an end belongs to one of two marks.
fn is_made_of(end: &[u8], marks: [&[u8]; 2]) -> bool {
    let sectors = end.chunks(SECTOR_BYTES).enumerate();
    sectors.into_iter().all(|(number, sector)| {
        let start = number * SECTOR_BYTES;
        marks.iter().any(|mark| mark[start..start + SECTOR_BYTES] == *sector)
    })
}

/// Marks a file or device of this length. The start comes last: without it, the rest is not a mark.
pub(super) fn write(file: BorrowedFd<'_>, owner: &Owner, bytes: u64) -> io::Result<()> {
    for at in [bytes - MARK_BYTES, 0] {
        write_end(file, &text(owner, bytes, at), at)?;
    }
    Ok(())
}

/// Removes the mark, its start first.
pub(super) fn erase(file: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    for at in [0, bytes - MARK_BYTES] {
        write_end(file, &[], at)?;
    }
    Ok(())
}

fn write_end(file: BorrowedFd<'_>, text: &[u8], at: u64) -> io::Result<()> {
    // Direct I/O needs aligned memory.
    let mut end = Buffer::new(MARK_BYTES as usize);
    end[..text.len()].copy_from_slice(text);
    disk::write_at(file, &end, at)?;
    disk::flush(file, false)
}

/// Returns one end of the mark.
fn text(owner: &Owner, bytes: u64, at: u64) -> Vec<u8> {
    let Owner { run, on } = owner;
    let mut end = Vec::with_capacity(MARK_BYTES as usize);
    for at in (at..at + MARK_BYTES).step_by(SECTOR_BYTES) {
        let sum = format!("{run} {} {bytes} {at}", on.as_deref().unwrap_or_default());
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, sum.as_bytes());
        let crc64 = format!("{crc:016x}");
        let line = Line { loadstone: FORMAT, run: run.clone(), on: on.clone(), bytes, at, crc64 };
        let start = end.len();
        serde_json::to_writer(&mut end, &line).expect("memory takes it");
        end.push(b'\n');
        end.resize(start + SECTOR_BYTES, 0);
    }
    end
}

/// Parses the line of a sector.
fn line_of(sector: &[u8]) -> Option<Line> {
    let line = sector.get(..SECTOR_BYTES)?.split(|byte| *byte == b'\n').next()?;
    let line: Line = serde_json::from_slice(line).ok()?;
    let is_digest = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_one = is_digest(&line.run, 32) && line.on.as_deref().is_none_or(|on| is_digest(on, 16));
    ([FORMAT, FORMAT_OF_ANY].contains(&line.loadstone) && is_one).then_some(line)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    const RUN: &str = "0123456789abcdef0123456789abcdef";
    const ON: &str = "fedcba9876543210";
    const BYTES: u64 = 3 * MARK_BYTES + 512;

    fn owner() -> Owner {
        Owner { run: RUN.into(), on: Some(ON.into()) }
    }

    fn marked() -> std::fs::File {
        let memory = rustix::fs::memfd_create("mark", rustix::fs::MemfdFlags::empty());
        let file = std::fs::File::from(memory.expect("memory"));
        file.set_len(BYTES).expect("memory");
        write(file.as_fd(), &owner(), BYTES).expect("it is open");
        file
    }

    #[test]
    fn a_mark_is_ours_only_if_every_sector_of_both_ends_is_intact() {
        let file = marked();
        let is = |ends| assert_eq!(read(file.as_fd(), BYTES, Some(ON)).expect("it is open"), ends);
        let whole = || Ends::Marked { run: RUN.into() };
        is(whole());
        for at in [511, 512, 4096, MARK_BYTES - 1, BYTES - MARK_BYTES, BYTES - 1] {
            let mut was = [0];
            file.read_exact_at(&mut was, at).expect("it is open");
            file.write_all_at(&[was[0] ^ 1], at).expect("it is open");
            is(Ends::Broken { run: RUN.into() });
            file.write_all_at(&was, at).expect("it is open");
            is(whole());
        }
        file.write_all_at(b"data", MARK_BYTES).expect("it is open");
        is(whole());
    }

    #[test]
    fn a_mark_of_another_length_or_version_is_invalid() {
        let file = marked();
        let ends = |bytes| read(file.as_fd(), bytes, Some(ON)).expect("it is open");
        file.set_len(BYTES - 512).expect("memory");
        assert_eq!(ends(BYTES - 512), Ends::Broken { run: RUN.into() });
        file.set_len(BYTES).expect("memory");
        file.write_all_at(OLD, 0).expect("it is open");
        assert_eq!(ends(BYTES), Ends::Old);
        erase(file.as_fd(), BYTES).expect("it is open");
        assert_eq!(ends(BYTES), Ends::Blank);
        file.write_all_at(b"x", BYTES - 1).expect("it is open");
        assert_eq!(ends(BYTES), Ends::Other);
    }

    #[test]
    fn a_complete_mark_on_another_device_is_a_copy() {
        let file = marked();
        let is = |on, ends| assert_eq!(read(file.as_fd(), BYTES, on).expect("it is open"), ends);
        let copied = || Ends::Copied { run: RUN.into() };
        is(Some(ON), Ends::Marked { run: RUN.into() });
        is(Some("0000000000000000"), copied());
        is(None, copied());
        write(file.as_fd(), &Owner { run: RUN.into(), on: None }, BYTES).expect("it is open");
        is(None, Ends::Marked { run: RUN.into() });
        is(Some(ON), copied());
    }

    #[test]
    fn a_mark_without_an_identity_is_old() {
        let file = marked();
        let line = format!(
            r#"{{"loadstone":1,"run":"{RUN}","bytes":{BYTES},"at":0,"crc64":"0000000000000000"}}"#
        );
        file.write_all_at(format!("{line}\n").as_bytes(), 0).expect("it is open");
        assert_eq!(read(file.as_fd(), BYTES, Some(ON)).expect("it is open"), Ends::Old);
    }

    #[test]
    fn an_interrupted_growth_is_recognised_unless_there_is_data_beyond() {
        let file = marked();
        let longer = BYTES + 3 * MARK_BYTES + 512;
        let is = |bytes, ends| {
            assert_eq!(read(file.as_fd(), bytes, Some(ON)).expect("it is open"), ends)
        };
        let growing = || Ends::Growing { run: RUN.into() };
        file.set_len(longer).expect("memory");
        is(longer, growing());
        // The new mark, sector by sector in the order of writing: its end, then its start.
        for at in [longer - MARK_BYTES, 0] {
            let end = text(&owner(), longer, at);
            for sectors in [1, 7, 2047] {
                file.write_all_at(&end[..sectors * SECTOR_BYTES], at).expect("it is open");
                is(longer, growing());
            }
            file.write_all_at(&end, at).expect("it is open");
        }
        is(longer, Ends::Marked { run: RUN.into() });
        let beyond = longer + 2 * MARK_BYTES;
        file.set_len(beyond).expect("memory");
        is(beyond, growing());
        for at in [longer, longer + 100_000, beyond - MARK_BYTES + 5, beyond - 1] {
            file.write_all_at(b"x", at).expect("it is open");
            is(beyond, Ends::Broken { run: RUN.into() });
            file.write_all_at(&[0], at).expect("it is open");
            is(beyond, growing());
        }
        file.write_all_at(b"x", longer - 1).expect("it is open");
        is(beyond, Ends::Broken { run: RUN.into() });
    }
}
