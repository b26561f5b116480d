//! Shared by drivers of files and block devices: aligned memory and system calls.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::{CStr, CString};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;

use rustix::fs::{self, AtFlags, FallocateFlags, Mode, OFlags, StatxFlags};
use rustix::io::retry_on_intr;
use rustix::ioctl;
use serde_json::{Map, Value};

use crate::reactor::Reactor;
use crate::settings::{self, Setting, SettingKind};

/// Direct I/O requires addresses, offsets and lengths to be aligned to this, on every known device.
pub(crate) const ALIGNMENT: usize = 4096;

/// Prefix of names of incomplete files; the run follows.
pub(crate) const TEMPORARY: &str = ".loadstone-tmp-";

/// Largest block of one `read` or `write`, in bytes.
pub(crate) const BLOCK_BYTES_MAX: u64 = 256 << 20;

/// From this size on, buffers use huge pages: the kernel then maps a direct I/O of 1 MiB in a few
/// steps instead of 256.
const HUGE_FROM_BYTES: usize = 1 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Flags that release space: the range reads as zeroes afterwards, and the length stays.
pub(crate) const PUNCH: FallocateFlags =
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// Zeroed memory that is aligned for direct I/O.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    layout: Layout,
}

impl Buffer {
    /// Allocates at least `bytes` bytes, in whole pages.
    pub(crate) fn new(bytes: usize) -> Self {
        let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
        let unit = if bytes >= HUGE_FROM_BYTES { HUGE_PAGE_BYTES } else { ALIGNMENT };
        let layout = Layout::from_size_align(bytes.next_multiple_of(unit), unit)
            .expect("far below the address space");
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        if unit == HUGE_PAGE_BYTES {
            // Only a hint: without huge pages, small ones do the same more slowly. SAFETY: we own
            // the memory, and the advice does not change its content.
            unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        // SAFETY: this many bytes were allocated, and no other reference exists.
        unsafe { start.write_bytes(0, layout.size()) };
        Self { start, bytes, layout }
    }
}

// SAFETY: it is the only owner of its memory.
unsafe impl Send for Buffer {}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: this many bytes were allocated and zeroed, and `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the same layout as it was allocated with.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Returns the offset of the next data of a file at or after `at`; everything between reads as
/// zeroes.
pub(crate) fn next_data(file: BorrowedFd<'_>, at: u64) -> io::Result<Option<u64>> {
    match fs::seek(file, fs::SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        // If the file system cannot tell, everything counts as data.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}

/// When written data must reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flush {
    /// After this many writes of a client; never if zero.
    pub(crate) every: u64,
    /// Whether metadata such as times may be lost (`fdatasync`).
    pub(crate) is_data_only: bool,
    /// Whether each write waits for the device (`O_DSYNC`).
    pub(crate) is_dsync: bool,
}

/// Settings of caches and flushes.
pub(crate) const FLUSH_SETTINGS: [Setting; 4] = [
    Setting {
        name: "fsync",
        kind: SettingKind::Choice(&["never", "each"]),
        required: false,
        default: Some("never"),
        help: "when a client flushes what it wrote; see fsync_every",
    },
    Setting {
        name: "fsync_every",
        kind: SettingKind::Number,
        required: false,
        default: Some("1"),
        help: "with fsync each: flush after so many writes of a client",
    },
    Setting {
        name: "fsync_data",
        kind: SettingKind::Flag,
        required: false,
        default: Some("false"),
        help: "flush with fdatasync instead of fsync",
    },
    Setting {
        name: "dsync",
        kind: SettingKind::Flag,
        required: false,
        default: Some("false"),
        help: "open with O_DSYNC, so that each write waits for the device",
    },
];

impl Flush {
    /// Reads the settings, which must have been checked.
    pub(crate) fn of_settings(settings: &Map<String, Value>) -> Self {
        let is_asked = settings::text(settings, "fsync") == Some("each");
        let every = settings.get("fsync_every").and_then(Value::as_u64).unwrap_or(1);
        Self {
            every: if is_asked { every } else { 0 },
            is_data_only: flag(settings, "fsync_data", false),
            is_dsync: flag(settings, "dsync", false),
        }
    }

    /// Returns mistakes that the kinds of the settings do not reveal.
    pub(crate) fn mistakes(settings: &Map<String, Value>) -> Option<String> {
        let fsync_every = settings.get("fsync_every").filter(|value| !value.is_null())?;
        let is_right = fsync_every.as_u64().is_some_and(|every| every > 0);
        (!is_right).then(|| {
            format!(
                "target.settings.fsync_every: found {fsync_every}, allowed: whole numbers from 1"
            )
        })
    }

    /// Returns whether a client flushes after this number of writes.
    #[inline]
    pub(crate) fn is_due(&self, writes: u64) -> bool {
        self.every > 0 && writes.is_multiple_of(self.every)
    }

    /// Returns additional flags for opening a file for writing.
    pub(crate) fn open_flags(&self) -> libc::c_int {
        if self.is_dsync { libc::O_DSYNC } else { 0 }
    }
}

/// Returns a flag of the settings.
pub(crate) fn flag(settings: &Map<String, Value>, key: &str, default: bool) -> bool {
    settings.get(key).and_then(Value::as_bool).unwrap_or(default)
}

/// Lets the thread's other tasks run while a client blocks the thread, above all the task that
/// hands over the record.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    due_ns: u64,
}

impl Turns {
    const EVERY_NS: u64 = 20_000_000;

    #[inline]
    pub(crate) async fn after(&mut self, now_ns: u64, reactor: &Reactor) {
        if now_ns >= self.due_ns {
            self.due_ns = now_ns + Self::EVERY_NS;
            reactor.turn().await;
        }
    }
}

/// Opens a path below a directory. New files are readable by all and writable by their owner.
pub(crate) fn open_at(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: libc::c_int,
) -> io::Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| fs::openat(directory, path, flags, Mode::from_raw_mode(0o644)))?)
}

/// Closes a file that was written. A network file system reports only now that it had no space.
pub(crate) fn close(file: OwnedFd) -> io::Result<()> {
    // SAFETY: we owned the descriptor, and it is not used afterwards.
    Ok(unsafe { rustix::io::try_close(file.into_raw_fd()) }?)
}

/// Reads once at an offset; a short read means that the end of the file is reached, or nearly.
#[inline]
pub(crate) fn read_at(file: BorrowedFd<'_>, out: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::pread(file, &mut *out, offset))?)
}

/// Reads at an offset until `out` is full or the file ends; returns the number of bytes.
pub(crate) fn read_full_at(file: BorrowedFd<'_>, out: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = read_at(file, out, offset)?;
    // A direct read that stopped within a sector has reached the end, and could not continue there.
    while done > 0 && done < out.len() && done % 512 == 0 {
        match read_at(file, &mut out[done..], offset + done as u64)? {
            0 => break,
            more => done += more,
        }
    }
    Ok(done)
}

/// Writes all bytes at an offset.
#[inline]
pub(crate) fn write_at(file: BorrowedFd<'_>, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let written =
            retry_on_intr(|| rustix::io::pwrite(file, &bytes[done..], offset + done as u64))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        done += written;
    }
    Ok(())
}

/// Waits until written data is on the device.
pub(crate) fn flush(file: BorrowedFd<'_>, is_data_only: bool) -> io::Result<()> {
    let flush = || if is_data_only { fs::fdatasync(file) } else { fs::fsync(file) };
    Ok(retry_on_intr(flush)?)
}

/// Disables direct I/O, for the end of a file that is not a whole sector.
pub(crate) fn leave_direct(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fs::fcntl_setfl(file, fs::fcntl_getfl(file)? - OFlags::DIRECT)?)
}

/// Makes calls on a file block again.
pub(crate) fn leave_nonblocking(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fs::fcntl_setfl(file, fs::fcntl_getfl(file)? - OFlags::NONBLOCK)?)
}

/// Returns the alignment of offsets that direct I/O on a file requires, if the kernel reports it.
pub(crate) fn direct_alignment(file: BorrowedFd<'_>) -> Option<usize> {
    let status = fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let is_told = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::DIOALIGN);
    let alignment = usize::try_from(status.stx_dio_offset_align).ok()?;
    (is_told && alignment > 0).then_some(alignment)
}

/// Deletes a file.
pub(crate) fn remove_at(directory: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    Ok(fs::unlinkat(directory, path, AtFlags::empty())?)
}

/// Creates a directory that all can read and its owner can write to.
pub(crate) fn make_directory_at(directory: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    Ok(fs::mkdirat(directory, path, Mode::from_raw_mode(0o755))?)
}

/// Renames a file; the old name no longer exists afterwards.
pub(crate) fn rename_at(directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    Ok(fs::renameat(directory, from, directory, to)?)
}

/// Gives a file an additional name, if that does not exist.
pub(crate) fn link_at(directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    Ok(fs::linkat(directory, from, directory, to, AtFlags::empty())?)
}

/// Returns whether a path is in a folder of the kernel, where a device with a mistyped name would
/// become a file in memory. Shared memory does not count, because it is for files.
#[must_use]
pub fn is_in_kernel_folder(path: &Path) -> bool {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.ancestors().find_map(|folder| folder.canonicalize().ok());
    folder.is_some_and(|folder| {
        ["/dev", "/proc", "/sys"].iter().any(|kernels| folder.starts_with(kernels))
            && !folder.starts_with("/dev/shm")
    })
}

/// Returns whether a file with this owner is ours: owned by the user of this process, or by the
/// user to whom a server maps that user.
pub(crate) fn is_of_our_user(directory: BorrowedFd<'_>, run: &str, owner: u32) -> bool {
    owner == user() || made_in(directory, run).is_ok_and(|made| made.st_uid == owner)
}

/// Returns the user of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Creates and removes a directory, to learn its owner and permissions.
pub(crate) fn made_in(directory: BorrowedFd<'_>, run: &str) -> io::Result<fs::Stat> {
    let name = CString::new(format!("{TEMPORARY}{run}-try-{}", random_name()?))?;
    make_directory_at(directory, &name)?;
    let made = fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW);
    fs::unlinkat(directory, &name, AtFlags::REMOVEDIR)?;
    Ok(made?)
}

/// Returns unpredictable hex digits.
pub(crate) fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    // SAFETY: the kernel writes at most the length of the array.
    let result = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Copies from one file to the same offset in another, inside the kernel; returns the number of
/// bytes, zero at the end.
pub(crate) fn copy_range(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    offset: u64,
) -> io::Result<usize> {
    const AT_ONCE: usize = 1 << 30;
    let (mut source, mut target) = (offset, offset);
    let copy = || fs::copy_file_range(from, Some(&mut source), to, Some(&mut target), AT_ONCE);
    Ok(retry_on_intr(copy)?)
}

/// Reserves or releases space of a file or device.
pub(crate) fn allocate(
    file: BorrowedFd<'_>,
    mode: FallocateFlags,
    offset: u64,
    length: u64,
) -> io::Result<()> {
    Ok(retry_on_intr(|| fs::fallocate(file, mode, offset, length))?)
}

/// Releases the space of a range of a file or device, which reads as zeroes afterwards.
pub(crate) fn punch(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    allocate(file, PUNCH, offset, length)
}

/// Releases the space of a range of a device, whose content is undefined afterwards.
pub(crate) fn discard(device: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    // _IO(0x12, 119) of linux/fs.h.
    const BLKDISCARD: ioctl::Opcode = ioctl::opcode::none(0x12, 119);
    let discard = || {
        // SAFETY: the kernel reads two numbers of eight bytes.
        let request = unsafe { ioctl::Setter::<BLKDISCARD, _>::new([offset, length]) };
        // SAFETY: as above; a device releases the range, and anything else refuses.
        unsafe { ioctl::ioctl(device, request) }
    };
    Ok(retry_on_intr(discard)?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn buffers_are_aligned_and_zero() {
        for bytes in [0, 1, 4096, 5000, 1 << 20] {
            let buffer = Buffer::new(bytes);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.len() >= bytes && buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_read_stops_at_the_end_of_the_file() {
        let file = std::fs::File::open("/proc/self/exe").expect("this test's own program");
        let length = file.metadata().expect("it is open").len();
        let mut out = vec![0; 10_000];
        let read = read_full_at(file.as_fd(), &mut out, length - 5000).expect("it can be read");
        assert_eq!(read, 5000);
    }

    #[test]
    fn a_flush_is_due_after_every_so_many_writes() {
        let settings = serde_json::json!({"fsync": "each", "fsync_every": 3});
        let flush = Flush::of_settings(settings.as_object().expect("a map"));
        let due: Vec<u64> = (1..10).filter(|writes| flush.is_due(*writes)).collect();
        assert_eq!(due, [3, 6, 9]);
        assert!(!Flush::of_settings(&Map::new()).is_due(1));
    }
}
