//! Measures how much of a dataset lies in this host's page cache.
//!
//! Uses `mincore`, which every kernel has and which reads nothing. For a file that we neither own
//! nor may write to, the kernel reports that all of it is present, and ZFS caches reads elsewhere:
//! in these cases, the result is unknown.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::time::{Duration, Instant};

use rustix::fs::Access;

use super::{disk, identity};

/// Number of samples of a dataset, and bytes per sample.
const LOOKS: u64 = 256;
const LOOK_BYTES: u64 = 1 << 20;
/// Maximum duration of sampling: each sample opens a file, which takes a round trip on a network
/// file system.
const LOOKS_MAX: Duration = Duration::from_millis(500);
/// The fractional parts of multiples of the golden ratio cover a range evenly, for any number of
/// samples.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// How much of a dataset was sampled, and how much of that was in the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cached {
    pub(crate) sampled_bytes: u64,
    pub(crate) resident_bytes: u64,
}

/// Samples positions that are spread evenly over a dataset; `None` if none can be observed.
///
/// `stretch_of` returns the file that contains an object, the object's offset in it, and its
/// length.
pub(crate) fn look<F: AsFd>(
    objects: u64,
    mut stretch_of: impl FnMut(u64) -> Option<(F, u64, u64)>,
) -> Option<Cached> {
    let begin = Instant::now();
    let mut cached = Cached::default();
    for number in 0..LOOKS.min(objects.saturating_mul(LOOKS)) {
        if begin.elapsed() > LOOKS_MAX {
            break;
        }
        let place = (number as f64 + 0.5) * GOLDEN % 1.0 * objects as f64;
        let Some((file, start, bytes)) = stretch_of(place as u64) else { continue };
        // Position within the object: at its start, at its end, or between them.
        let within = (bytes.saturating_sub(LOOK_BYTES) as f64 * place.fract()) as u64;
        let sample = resident(file.as_fd(), start + within, bytes.min(LOOK_BYTES));
        if let Some((sampled, resident)) = sample {
            cached.sampled_bytes += sampled;
            cached.resident_bytes += resident;
        }
    }
    (cached.sampled_bytes > 0).then_some(cached)
}

/// Returns the size of the pages of a range in bytes, and how many of these bytes are in the page
/// cache.
fn resident(file: BorrowedFd<'_>, start: u64, bytes: u64) -> Option<(u64, u64)> {
    if bytes == 0 || !is_told(file) {
        return None;
    }
    let page = rustix::param::page_size() as u64;
    let first = start / page * page;
    let length = usize::try_from(start + bytes - first).ok()?;
    let mut states = vec![0_u8; length.div_ceil(page as usize)];
    let offset = i64::try_from(first).ok()?;
    // SAFETY: a new mapping of an open file, which nothing reads or writes; the kernel chooses its
    // address.
    let mapped = unsafe {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        libc::mmap(ptr::null_mut(), length, protection, flags, file.as_raw_fd(), offset)
    };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: `mapped` has this length, `states` has a byte for each of its pages, and no other
    // reference to the mapping exists.
    let answer = unsafe {
        let answer = libc::mincore(mapped, length, states.as_mut_ptr());
        libc::munmap(mapped, length);
        answer
    };
    let there = states.iter().filter(|state| **state & 1 == 1).count() as u64;
    (answer == 0).then_some((states.len() as u64 * page, there * page))
}

/// Returns whether the kernel's answer for a file is reliable.
fn is_told(file: BorrowedFd<'_>) -> bool {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let is_ours = rustix::fs::fstat(file).is_ok_and(|status| status.st_uid == disk::user());
    let is_allowed = is_ours || rustix::fs::access(path, Access::WRITE_OK).is_ok();
    is_allowed && !identity::is_zfs(file)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::num::NonZero;

    use rustix::fs::Advice;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns an unnamed file in the directory of the test program, because `/tmp` may be in
    /// memory.
    fn written(bytes: u64) -> File {
        let program = std::env::current_exe().expect("a path");
        let name = format!("{:?}.page-cache", std::thread::current().id());
        let path = program.with_file_name(name);
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let mut file = file.expect("a file");
        std::fs::remove_file(path).expect("it is there");
        file.write_all(&vec![1; usize::try_from(bytes).expect("small")]).expect("room");
        file.sync_all().expect("room");
        file
    }

    fn forget(file: &File, bytes: u64) {
        rustix::fs::fadvise(file, 0, NonZero::new(bytes), Advice::DontNeed).expect("advice");
    }

    fn share(objects: u64, file: &File, bytes: u64) -> f64 {
        let cached = look(objects, |number| Some((file, number * bytes, bytes)));
        let cached = cached.expect("our own file");
        cached.resident_bytes as f64 / cached.sampled_bytes as f64
    }

    #[test]
    fn the_cached_share_of_a_dataset_is_measured() {
        let file = written(32 * MIB);
        for (objects, bytes) in [(1, 32 * MIB), (8, 4 * MIB), (2048, MIB / 64)] {
            assert!((share(objects, &file, bytes) - 1.0).abs() < 1e-9);
        }
        forget(&file, 24 * MIB);
        for (objects, bytes) in [(1, 32 * MIB), (8, 4 * MIB), (2048, MIB / 64)] {
            let share = share(objects, &file, bytes);
            assert!((share - 0.25).abs() < 0.04, "{share} of {objects}");
        }
    }

    #[test]
    fn unobservable_objects_are_omitted() {
        let file = File::open("/dev/null").expect("there is one");
        for bytes in [0, MIB] {
            assert_eq!(look(1, |_| Some((&file, 0, bytes))), None);
        }
        assert_eq!(look::<File>(10, |_| None), None);
        assert_eq!(look::<File>(0, |_| unreachable!("there is none")), None);
    }
}
