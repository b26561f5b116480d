//! What files and block devices share: aligned memory, and how the kernel is asked.

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

/// What direct I/O asks of addresses, offsets and lengths on every device that we know of.
pub(crate) const ALIGNMENT: usize = 4096;

/// What names of files that are not whole yet begin with; the run comes next.
pub(crate) const TEMPORARY: &str = ".loadstone-tmp-";

/// The largest block of one `read` or `write`.
pub(crate) const BLOCK_BYTES_MAX: u64 = 256 << 20;

/// Memory of this size and more is asked for in huge pages: the kernel then maps a direct I/O of
/// 1 MiB in a few steps instead of 256.
const HUGE_FROM_BYTES: usize = 1 << 20;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// How space is given back: what lies there reads as zeroes, and the length stays.
pub(crate) const PUNCH: FallocateFlags =
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// Zeroed memory that direct I/O can use.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    layout: Layout,
}

impl Buffer {
    /// Gets memory of at least `bytes`, in whole pages.
    pub(crate) fn new(bytes: usize) -> Self {
        let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
        let unit = if bytes >= HUGE_FROM_BYTES { HUGE_PAGE_BYTES } else { ALIGNMENT };
        let layout = Layout::from_size_align(bytes.next_multiple_of(unit), unit)
            .expect("far below the address space");
        // SAFETY: the size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        if unit == HUGE_PAGE_BYTES {
            // A wish: where the kernel has no huge pages, small ones do the same more slowly.
            // SAFETY: the memory is ours, and the advice leaves its content alone.
            unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        // SAFETY: so many bytes were allocated, and no other reference exists.
        unsafe { start.write_bytes(0, layout.size()) };
        Self { start, bytes, layout }
    }
}

// SAFETY: it owns its memory alone.
unsafe impl Send for Buffer {}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes were allocated and zeroed, and `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the same layout as it was allocated with.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Returns where the next data of a file is, from `at` on: what lies before it reads as zeroes.
pub(crate) fn next_data(file: BorrowedFd<'_>, at: u64) -> io::Result<Option<u64>> {
    match fs::seek(file, fs::SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        // Where the file system cannot tell, all of it counts as data.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}

/// When written data has to be on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flush {
    /// After so many writes of a client; never when zero.
    pub(crate) every: u64,
    /// Whether times and the like may be lost (`fdatasync`).
    pub(crate) is_data_only: bool,
    /// Whether each write waits for the device by itself (`O_DSYNC`).
    pub(crate) is_dsync: bool,
}

/// The settings that decide about caches and flushes.
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
    /// Reads the settings, which were checked before.
    pub(crate) fn of_settings(settings: &Map<String, Value>) -> Self {
        let is_asked = settings::text(settings, "fsync") == Some("each");
        let every = settings.get("fsync_every").and_then(Value::as_u64).unwrap_or(1);
        Self {
            every: if is_asked { every } else { 0 },
            is_data_only: flag(settings, "fsync_data", false),
            is_dsync: flag(settings, "dsync", false),
        }
    }

    /// Returns the mistakes that the kinds of the settings do not show.
    pub(crate) fn mistakes(settings: &Map<String, Value>) -> Option<String> {
        let found = settings.get("fsync_every").filter(|value| !value.is_null())?;
        let is_right = found.as_u64().is_some_and(|every| every > 0);
        (!is_right).then(|| {
            format!("target.settings.fsync_every: found {found}, allowed: whole numbers from 1")
        })
    }

    /// Tells whether a client that has now made so many writes flushes.
    #[inline]
    pub(crate) fn is_due(&self, writes: u64) -> bool {
        self.every > 0 && writes.is_multiple_of(self.every)
    }

    /// Returns the flags that it adds to an open for writing.
    pub(crate) fn open_flags(&self) -> libc::c_int {
        if self.is_dsync { libc::O_DSYNC } else { 0 }
    }
}

/// Returns a flag of the settings.
pub(crate) fn flag(settings: &Map<String, Value>, key: &str, default: bool) -> bool {
    settings.get(key).and_then(Value::as_bool).unwrap_or(default)
}

/// When a client that blocks its thread lets the thread's other tasks run: the one that hands
/// over the record, above all.
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

/// Opens a path below a directory. New files can be read by all and written by their owner.
pub(crate) fn open_at(
    directory: BorrowedFd<'_>,
    path: &CStr,
    flags: libc::c_int,
) -> io::Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| fs::openat(directory, path, flags, Mode::from_raw_mode(0o644)))?)
}

/// Closes a file that was written. A network file system tells only now that it had no room.
pub(crate) fn close(file: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor was ours, and is not used afterwards.
    Ok(unsafe { rustix::io::try_close(file.into_raw_fd()) }?)
}

/// Reads once at an offset; less than asked for means the end, or nearly.
#[inline]
pub(crate) fn read_at(file: BorrowedFd<'_>, out: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::pread(file, &mut *out, offset))?)
}

/// Reads at an offset until `out` is full or the file ends; returns how much came.
pub(crate) fn read_full_at(file: BorrowedFd<'_>, out: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = read_at(file, out, offset)?;
    // A direct read that stopped between sectors has met the end, and could not go on from there.
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

/// Waits until what was written is on the device.
pub(crate) fn flush(file: BorrowedFd<'_>, is_data_only: bool) -> io::Result<()> {
    let flush = || if is_data_only { fs::fdatasync(file) } else { fs::fsync(file) };
    Ok(retry_on_intr(flush)?)
}

/// Switches direct I/O off, for the end of a file that is no whole sector.
pub(crate) fn leave_direct(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fs::fcntl_setfl(file, fs::fcntl_getfl(file)? - OFlags::DIRECT)?)
}

/// Lets calls on a file wait again.
pub(crate) fn leave_nonblocking(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fs::fcntl_setfl(file, fs::fcntl_getfl(file)? - OFlags::NONBLOCK)?)
}

/// Returns what direct I/O on a file wants offsets to be multiples of, if the kernel says.
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

/// Makes a directory that all can read and its owner can write to.
pub(crate) fn make_directory_at(directory: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    Ok(fs::mkdirat(directory, path, Mode::from_raw_mode(0o755))?)
}

/// Gives a file another name, under which nothing else is left.
pub(crate) fn rename_at(directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    Ok(fs::renameat(directory, from, directory, to)?)
}

/// Gives a file another name too, if that is not taken.
pub(crate) fn link_at(directory: BorrowedFd<'_>, from: &CStr, to: &CStr) -> io::Result<()> {
    Ok(fs::linkat(directory, from, directory, to, AtFlags::empty())?)
}

/// Tells whether what is made at a path would be in a folder of the kernel's, where a device with a
/// mistyped name would become a file in memory. Shared memory is for files.
#[must_use]
pub fn is_in_kernel_folder(path: &Path) -> bool {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.ancestors().find_map(|folder| folder.canonicalize().ok());
    folder.is_some_and(|folder| {
        ["/dev", "/proc", "/sys"].iter().any(|kernels| folder.starts_with(kernels))
            && !folder.starts_with("/dev/shm")
    })
}

/// Tells whether a file with this owner is ours: that of this process, or whom a server that maps
/// users puts in its place.
pub(crate) fn is_of_our_user(directory: BorrowedFd<'_>, run: &str, owner: u32) -> bool {
    owner == user() || made_in(directory, run).is_ok_and(|made| made.st_uid == owner)
}

/// Returns the user of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Makes a directory, which is gone again, to see whose it becomes and who may write to it.
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
    // SAFETY: the kernel writes at most as many bytes as there are.
    let result = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// Copies from one file to the same place in another, inside the kernel; returns how much, and
/// zero at the end.
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

/// Reserves or gives back space of a file or device.
pub(crate) fn allocate(
    file: BorrowedFd<'_>,
    mode: FallocateFlags,
    offset: u64,
    length: u64,
) -> io::Result<()> {
    Ok(retry_on_intr(|| fs::fallocate(file, mode, offset, length))?)
}

/// Gives back what a file or a device stored in a stretch, which reads as zeroes from then on.
pub(crate) fn punch(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    allocate(file, PUNCH, offset, length)
}

/// Gives back what a device stored in a stretch, with no promise of what is read there.
pub(crate) fn discard(device: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<()> {
    // _IO(0x12, 119) of linux/fs.h.
    const BLKDISCARD: ioctl::Opcode = ioctl::opcode::none(0x12, 119);
    let discard = || {
        // SAFETY: the kernel reads two numbers of eight bytes.
        let request = unsafe { ioctl::Setter::<BLKDISCARD, _>::new([offset, length]) };
        // SAFETY: as above; devices give back the stretch, and what is none refuses.
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
