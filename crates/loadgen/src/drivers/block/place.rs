//! The file or device itself: opened, marked as ours, refused when it is not, taken away again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;

use crate::drivers::disk::{self, Buffer};
use crate::drivers::{BucketState, settings};
use crate::error::Error;
use crate::operation::Operation;
use crate::trial::Trial;

/// Where data begins: far enough from the start for the mark, and a multiple of what disks and
/// arrays align to.
pub(super) const DATA_START: u64 = 1 << 20;

const MARK: &[u8] = b"loadstone overwrites this file or device\n";
const MARK_BYTES: usize = 4096;

/// How long a device that is busy is asked for again, and how often.
const BUSY_MAX: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// A file or device that is open for a trial.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    target: String,
    file: Option<File>,
    is_direct: bool,
    alignment: usize,
    is_device: bool,
    only_discards: bool,
    state: BucketState,
}

impl Place {
    /// Opens the place that a trial works on, and makes or marks it if the trial writes.
    pub(super) fn open(trial: &Trial, bytes: u64, flags: libc::c_int) -> Result<Self, Error> {
        let path =
            PathBuf::from(settings::text(&trial.target.settings, "path").unwrap_or_default());
        let is_direct = disk::flag(&trial.target.settings, "direct", true);
        let mut place = Self {
            path,
            target: trial.target.name.clone(),
            file: None,
            is_direct,
            alignment: 1,
            is_device: false,
            only_discards: false,
            state: BucketState::Ours,
        };
        let kind = match std::fs::metadata(&place.path) {
            Ok(metadata) => Some(metadata.file_type()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(place.refused("look at", &error)),
        };
        place.is_device = kind.is_some_and(|kind| kind.is_block_device());
        if kind.is_some_and(|kind| !kind.is_file() && !kind.is_block_device()) {
            return Err(Error::target(place.what("open"), "it is no file and no block device")
                .with_hint("a directory is a target of driver \"file\""));
        }
        if trial.is_clean_up() {
            place.file = kind.map(|_| place.open_file(false, 0)).transpose()?;
            return Ok(place);
        }
        let changes = |share: &crate::trial::Share| share.operation != Operation::Read;
        if trial.mix.iter().any(changes) {
            place.open_to_write(trial, kind.is_some(), bytes, flags)?;
        } else if kind.is_none() {
            return Err(Error::target(place.what("open"), "there is no such file or device")
                .with_hint("write it first: only a phase with write makes it"));
        } else {
            let file = place.open_file(false, 0)?;
            place.check_length(&file, bytes)?;
            place.file = Some(file);
        }
        if let Some(file) = place.file.as_ref().filter(|_| is_direct) {
            place.alignment = disk::direct_alignment(file.as_fd()).unwrap_or(512);
        }
        Ok(place)
    }

    /// Tells whether the page cache is passed by.
    pub(super) fn is_direct(&self) -> bool {
        self.is_direct
    }

    fn open_to_write(
        &mut self,
        trial: &Trial,
        is_there: bool,
        bytes: u64,
        flags: libc::c_int,
    ) -> Result<(), Error> {
        let is_marked = is_there && self.is_marked()?;
        self.state = match (is_there, is_marked) {
            (false, _) => BucketState::Created,
            (true, true) => BucketState::Ours,
            (true, false) if trial.allow_foreign => BucketState::Foreign,
            (true, false) => {
                return Err(Error::target(
                    self.what("write to"),
                    "it is there, and loadstone did not mark it",
                )
                .with_hint(
                    "all that it holds would be overwritten; name another path, or pass \
                     --allow-foreign for this target",
                ));
            }
        };
        let file = self.open_file(true, flags)?;
        if self.is_device {
            self.check_length(&file, bytes)?;
        } else {
            self.grow(&file, bytes)?;
        }
        // A foreign file is never marked, so that clean-up leaves it. A device that we were
        // allowed to overwrite once holds nothing else any more.
        if self.state == BucketState::Created || (self.is_device && !is_marked) {
            self.write_mark(&file, MARK)?;
        }
        let deletes = trial.mix.iter().any(|share| share.operation == Operation::Delete);
        self.only_discards = deletes && self.is_device && only_discards(&file);
        self.file = Some(file);
        Ok(())
    }

    /// Reserves the space, as a file that grows under load would measure the growing.
    fn grow(&self, file: &File, bytes: u64) -> Result<(), Error> {
        let length = file.metadata().map_err(|error| self.refused("look at", &error))?.len();
        if length >= bytes {
            return Ok(());
        }
        match disk::allocate(file.as_fd(), FallocateFlags::empty(), 0, bytes) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                file.set_len(bytes).map_err(|error| self.refused("extend", &error))
            }
            Err(error) => {
                if self.state == BucketState::Created {
                    // Best effort: the refusal that follows is what the user needs to know.
                    drop(std::fs::remove_file(&self.path));
                }
                Err(Error::target(
                    format!("reserve {bytes} bytes for {}", self.quoted()),
                    error.to_string(),
                ))
            }
            Ok(()) => Ok(()),
        }
    }

    fn check_length(&self, file: &File, bytes: u64) -> Result<(), Error> {
        // SAFETY: takes numbers and a descriptor that is open; nobody uses its position.
        let end = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) };
        let length = u64::try_from(end)
            .map_err(|_| self.refused("find the end of", &io::Error::last_os_error()))?;
        if length >= bytes {
            return Ok(());
        }
        Err(Error::target(
            self.what("use"),
            format!("it has {length} bytes, and the dataset needs {bytes} with its first MiB"),
        )
        .with_hint("write the dataset first, or make it smaller"))
    }

    fn open_file(&self, is_written: bool, flags: libc::c_int) -> Result<File, Error> {
        let mut flags = flags;
        if self.is_direct {
            flags |= libc::O_DIRECT;
        }
        if self.is_device && is_written {
            // The kernel then refuses a device that is mounted or part of an array.
            flags |= libc::O_EXCL;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(is_written).create(is_written && !self.is_device);
        options.custom_flags(flags);
        open_when_free(&options, &self.path).map_err(|error| {
            let refused = self.refused("open", &error);
            match error.raw_os_error() {
                Some(libc::EINVAL) if self.is_direct => refused
                    .with_hint("this file system may know no direct I/O: set direct to false"),
                Some(libc::EBUSY) => refused.with_hint("unmount it, or take it out of its array"),
                _ => refused,
            }
        })
    }

    /// Refuses blocks that direct I/O could not do. An object in one block is rounded up.
    pub(super) fn check_alignment(&self, block_bytes: u64, largest: u64) -> Result<(), Error> {
        let alignment = self.alignment() as u64;
        if block_bytes.is_multiple_of(alignment) || block_bytes >= largest {
            return Ok(());
        }
        Err(Error::target(
            format!("read and write blocks of {block_bytes} bytes directly on {}", self.quoted()),
            format!("its direct I/O goes by {alignment} bytes"),
        )
        .with_hint(format!("choose a multiple of {alignment}, or set direct to false")))
    }

    /// Tells whether deletes have to be discards, for the device knows nothing better.
    pub(super) fn only_discards(&self) -> bool {
        self.only_discards
    }

    /// Returns what lengths and offsets are multiples of.
    pub(super) fn alignment(&self) -> usize {
        self.alignment
    }

    fn is_marked(&self) -> Result<bool, Error> {
        let read = || {
            let mut found = [0; MARK.len()];
            let file = File::open(&self.path)?;
            match file.read_exact_at(&mut found, 0) {
                Ok(()) => Ok(found == MARK),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                Err(error) => Err(error),
            }
        };
        read().map_err(|error| self.refused("look for the mark of", &error))
    }

    fn write_mark(&self, file: &File, mark: &[u8]) -> Result<(), Error> {
        let mut page = Buffer::new(MARK_BYTES);
        page[..mark.len()].copy_from_slice(mark);
        disk::write_at(file.as_fd(), &page, 0)
            .and_then(|()| disk::flush(file.as_fd(), false))
            .map_err(|error| self.refused("mark", &error))
    }

    /// Takes the place away if it is ours: deletes the file, or the mark of a device.
    pub(super) fn sweep(&self) -> Result<bool, Error> {
        if self.file.is_none() || !self.path.exists() {
            return Ok(true);
        }
        if !self.is_marked()? {
            return Ok(false);
        }
        if self.is_device {
            let file = self.open_file(true, 0)?;
            self.write_mark(&file, &[])?;
        } else {
            std::fs::remove_file(&self.path).map_err(|error| self.refused("delete", &error))?;
        }
        Ok(true)
    }

    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    pub(super) fn state(&self) -> BucketState {
        self.state
    }

    pub(super) fn path(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    fn quoted(&self) -> String {
        format!("\"{}\" of target \"{}\"", self.path(), self.target)
    }

    fn what(&self, verb: &str) -> String {
        format!("{verb} {}", self.quoted())
    }

    fn refused(&self, verb: &str, error: &io::Error) -> Error {
        Error::target(self.what(verb), error.to_string())
    }
}

/// Tries out whether a device can discard but not give back space that then reads as zeroes, as
/// those of nbd.
fn only_discards(device: &File) -> bool {
    // Between the mark and the data lies room that nobody uses.
    let (offset, length) = (DATA_START / 2, DATA_START / 4);
    let punched = disk::punch(device.as_fd(), offset, length);
    let is_unknown = |error: io::Error| error.raw_os_error() == Some(libc::EOPNOTSUPP);
    punched.is_err_and(is_unknown) && disk::discard(device.as_fd(), offset, length).is_ok()
}

/// Opens a file. A device stays busy for a moment after the program before let go of it, or was
/// killed: the kernel takes a ring apart later, by itself.
fn open_when_free(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let over = Instant::now() + BUSY_MAX;
    loop {
        match options.open(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < over => {
                std::thread::sleep(BUSY_PAUSE);
            }
            opened => return opened,
        }
    }
}
