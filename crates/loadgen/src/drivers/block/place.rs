//! The file or device itself: opens it, marks it as ours, refuses that of others, and removes it.
//!
//! It is opened once, and all checks apply to the open file, because a path may lead elsewhere a
//! moment later.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FallocateFlags;

use super::mark::{self, Ends, MARK_BYTES, Owner};
use super::names::{open_when_free, rename_new};
use super::refusal::{Refusal, stranger};
use super::uses;
use crate::error::{Error, Kind};
use crate::operation::Operation;
use crate::ownership::{BucketState, Left, LeftKind, Swept};
use crate::settings;
use crate::transport::{disk, identity};
use crate::trial::Trial;

/// Start of the data: after the mark, and aligned for disks and arrays.
pub(super) const DATA_START: u64 = MARK_BYTES;

const OTHER_PATH: &str = "name another path";

/// A file or device that is open for a trial.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    target: String,
    run: String,
    /// This run, and the runs whose places it may use.
    runs: Vec<String>,
    file: Option<File>,
    is_direct: bool,
    alignment: usize,
    is_device: bool,
    only_discards: bool,
    state: BucketState,
    /// The volume that the place lies on; for a file or device that another made, the volume is the
    /// place itself.
    volume: String,
}

impl Place {
    /// Opens the place of a trial, and creates or marks it if the trial writes.
    pub(super) fn open(trial: &Trial, data_bytes: u64, flags: libc::c_int) -> Result<Self, Error> {
        let path =
            PathBuf::from(settings::text(&trial.target.settings, "path").unwrap_or_default());
        let is_direct = disk::flag(&trial.target.settings, "direct", true);
        let mut runs = trial.ownership.runs.clone();
        runs.push(trial.run.clone());
        let mut place = Self {
            path,
            target: trial.target.name.clone(),
            run: trial.run.clone(),
            runs,
            file: None,
            is_direct,
            alignment: 1,
            is_device: false,
            only_discards: false,
            state: BucketState::Ours,
            volume: String::new(),
        };
        place.volume = place.file_system();
        let is_there = place.look()?;
        if trial.is_clean_up() {
            place.file = is_there.then(|| place.open_file(false, 0)).transpose()?;
            return Ok(place);
        }
        let bytes = DATA_START.checked_add(data_bytes).and_then(|end| end.checked_add(MARK_BYTES));
        let bytes = bytes.filter(|bytes| i64::try_from(*bytes).is_ok()).ok_or_else(|| {
            Error::target(place.what("use"), "the dataset is larger than any file or device")
                .of(Kind::Unsupported)
        })?;
        let changes = |share: &crate::trial::Share| share.operation != Operation::Read;
        if trial.mix.iter().any(changes) {
            place.open_to_write(trial, is_there, bytes, flags)?;
        } else if !is_there {
            return Err(Error::target(place.what("open"), "there is no such file or device")
                .of(Kind::TargetAbsent)
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

    /// Returns whether the path exists, and refuses anything but a file or a device.
    fn look(&mut self) -> Result<bool, Error> {
        let is_link = match std::fs::symlink_metadata(&self.path) {
            Ok(metadata) => metadata.file_type().is_symlink(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.refused("look at", &error)),
        };
        let kind = std::fs::metadata(&self.path).map(|metadata| metadata.file_type());
        self.is_device = kind.as_ref().is_ok_and(FileTypeExt::is_block_device);
        if is_link && !self.is_device {
            // Links of udev lead to devices. A link to a file may lead to another's file tomorrow.
            return Err(Error::target(
                self.what("open"),
                "it is a symbolic link that does not lead to a device",
            )
            .of(Kind::NotOurs)
            .with_hint("name the file itself"));
        }
        let kind = kind.map_err(|error| self.refused("look at", &error))?;
        if !kind.is_file() && !self.is_device {
            return Err(Error::target(
                self.what("open"),
                "it is neither a file nor a block device",
            )
            .with_hint("a directory is a target of driver \"file\""));
        }
        Ok(true)
    }

    /// Returns whether requests bypass the page cache.
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
        if !is_there {
            if disk::is_in_kernel_folder(&self.path) {
                return Err(Error::target(self.what("open"), "there is no such device")
                    .of(Kind::TargetAbsent)
                    .with_hint(
                        "correct path; loadstone creates no files in the kernel's folders",
                    ));
            }
            self.check_volume(trial)?;
            self.file = Some(self.make(bytes, flags)?);
            self.state = BucketState::Created;
            return Ok(());
        }
        let file = self.open_file(true, flags)?;
        let judged = self.judge(&file, trial.allow_foreign)?;
        self.state = judged.map_err(|refusal| refusal.into_error(self.what("write to")))?;
        let is_ours = self.state == BucketState::Ours;
        if self.is_device || !is_ours {
            let bytes = self.length(&file)?;
            self.volume = identity::of_itself(&self.path, file.as_fd(), self.is_device, bytes);
        }
        if !is_ours {
            self.check_volume(trial)?;
        }
        if is_ours && !self.is_device && self.is_growing(&file)? {
            // Marked at its current length: another kill must not leave two growths in progress.
            self.write_mark(&file)?;
        }
        let is_short = self.length(&file)? < bytes;
        if self.is_device {
            self.check_length(&file, bytes)?;
        } else if is_short {
            self.grow(&file, bytes)?;
        }
        // A foreign file is never marked, so that a clean-up leaves it. A device that we were
        // allowed to overwrite once contains nothing else any more.
        if if self.is_device { !is_ours } else { is_ours && is_short } {
            self.write_mark(&file)?;
        }
        let deletes = trial.mix.iter().any(|share| share.operation == Operation::Delete);
        self.only_discards = deletes && self.is_device && uses::only_discards(&file);
        self.file = Some(file);
        Ok(())
    }

    /// Refuses a place without our mark if the run has used another one under this name.
    fn check_volume(&self, trial: &Trial) -> Result<(), Error> {
        if !trial.ownership.is_elsewhere(&self.volume) {
            return Ok(());
        }
        let claimed = trial.ownership.volumes.join(", or ");
        let why = format!("the run has used {claimed}; found was {}", self.volume);
        Err(Error::target(self.what("write to"), why).of(Kind::NotOurs).with_hint(
            "the name leads to another by now: give it back to the one that the run has used, or \
             begin a new run",
        ))
    }

    /// Returns the file system that the place is on, or would be created on.
    fn file_system(&self) -> String {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        identity::located(parent.unwrap_or(Path::new("."))).map_or_else(
            |error| format!("{}: {error}", self.path.display()),
            |parent| identity::of_file_system(&self.path, parent.as_fd()),
        )
    }

    /// Creates a file with its mark. It never exists under its final name without the mark.
    fn make(&self, bytes: u64, flags: libc::c_int) -> Result<File, Error> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".loadstone-tmp-{}", self.run));
        let beside = self.path.with_file_name(name);
        // A killed attempt of this run may have left one: the name contains the run's ID.
        drop(std::fs::remove_file(&beside));
        let file = self.create(&beside, flags)?;
        let made = self.grow(&file, bytes).and_then(|()| self.write_mark(&file)).and_then(|()| {
            match rename_new(&beside, &self.path) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
                renamed => renamed.map(|()| true).map_err(|error| self.refused("make", &error)),
            }
        });
        if let Ok(true) = made {
            return Ok(file);
        }
        // Errors are ignored: the original error is what the user needs.
        drop(file);
        drop(std::fs::remove_file(&beside));
        made?;
        // An image of rbd-fuse cannot be renamed.
        let file = self.create(&self.path, flags)?;
        self.grow(&file, bytes)?;
        self.write_mark(&file)?;
        Ok(file)
    }

    /// Determines the owner, or why the place may not be written to.
    fn judge(
        &self,
        file: &File,
        allow_foreign: bool,
    ) -> Result<Result<BucketState, Refusal>, Error> {
        let refuse = |left, why: String, hint: &str| Ok(Err(Refusal::new(left, why, hint)));
        if let Some(holder) = uses::holder(file.as_fd(), self.is_device) {
            let hint = "name another path, or take it out of that use first";
            let used = Refusal::new(LeftKind::OtherObjects, holder, hint).of(Kind::InUse);
            return Ok(Err(used));
        }
        let metadata = file.metadata().map_err(|error| self.refused("look at", &error))?;
        if !self.is_device && metadata.nlink() != 1 {
            return refuse(
                LeftKind::Foreign,
                format!("it has {} names, and may be somebody's under another", metadata.nlink()),
                OTHER_PATH,
            );
        }
        if let Some(signature) = uses::signature(&self.same_file(&metadata)?) {
            return refuse(
                LeftKind::OtherObjects,
                format!("it holds {signature}"),
                "name another path, or erase the signature with wipefs -a if its data can go",
            );
        }
        let ends = self.read_mark(file)?;
        let marked = match &ends {
            Ends::Marked { run } => Some(run),
            // We extend files, never devices.
            Ends::Growing { run } if !self.is_device => Some(run),
            _ => None,
        };
        if marked.is_some_and(|run| self.runs.contains(run)) {
            if self.is_device || self.is_mine(&metadata) {
                return Ok(Ok(BucketState::Ours));
            }
            let why = "it carries our mark, but is another user's file";
            return refuse(LeftKind::Foreign, why.into(), OTHER_PATH);
        }
        match (allow_foreign, uses::refusal()) {
            // Another run's place may be used only if that run is named.
            _ if marked.is_some() => Ok(Err(stranger(ends))),
            (true, Some(missing)) if ends != Ends::Blank => refuse(
                LeftKind::Foreign,
                format!("its contents cannot be identified ({missing})"),
                "install libblkid, or erase the first and last MiB if the data can go",
            ),
            (true, _) => Ok(Ok(BucketState::Foreign)),
            (false, _) => Ok(Err(stranger(ends))),
        }
    }

    /// Returns whether a kill came between the extension of a file and its mark.
    fn is_growing(&self, file: &File) -> Result<bool, Error> {
        Ok(matches!(self.read_mark(file)?, Ends::Growing { .. }))
    }

    /// Returns whether this user created a file, rather than another who gave it our mark.
    fn is_mine(&self, metadata: &std::fs::Metadata) -> bool {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))
            .is_ok_and(|parent| disk::is_of_our_user(parent.as_fd(), &self.run, metadata.uid()))
    }

    /// Opens the same file without direct I/O, because libblkid cannot read with it.
    fn same_file(&self, opened: &std::fs::Metadata) -> Result<File, Error> {
        let same = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&self.path);
        let same = same.map_err(|error| self.refused("look at", &error))?;
        let metadata = same.metadata().map_err(|error| self.refused("look at", &error))?;
        let of = |file: &std::fs::Metadata| (file.dev(), file.ino(), file.rdev());
        if of(&metadata) == of(opened) {
            return Ok(same);
        }
        Err(Error::target(self.what("look at"), "it was replaced meanwhile"))
    }

    /// Reserves the space; otherwise the load would measure the growth of the file.
    fn grow(&self, file: &File, bytes: u64) -> Result<(), Error> {
        match disk::allocate(file.as_fd(), FallocateFlags::empty(), 0, bytes) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
                file.set_len(bytes).map_err(|error| self.refused("extend", &error))
            }
            Err(error) => {
                Err(Error::system(format!("reserve {bytes} bytes for {}", self.quoted()), &error))
            }
            Ok(()) => Ok(()),
        }
    }

    fn length(&self, mut file: &File) -> Result<u64, Error> {
        // The metadata of a device contains no length.
        file.seek(SeekFrom::End(0)).map_err(|error| self.refused("find the end of", &error))
    }

    fn check_length(&self, file: &File, bytes: u64) -> Result<(), Error> {
        let length = self.length(file)?;
        if length >= bytes {
            return Ok(());
        }
        Err(Error::target(
            self.what("use"),
            format!(
                "it has {length} bytes, and the dataset needs {bytes} with a MiB at either end"
            ),
        )
        .of(Kind::NoSpace)
        .with_hint("write the dataset first, or make it smaller"))
    }

    /// Creates a file that does not exist yet, and opens it again.
    ///
    /// rbd-fuse sets no handle when it creates an image, so writes would go to the image in its
    /// first slot, which may be a foreign one.
    fn create(&self, path: &Path, flags: libc::c_int) -> Result<File, Error> {
        let of = |file: &File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
        let made = self.open_at(path, true, flags | libc::O_EXCL)?;
        let file = self.open_at(path, true, flags)?;
        let is_same = of(&made).and_then(|made| Ok(made == of(&file)?));
        if is_same.map_err(|error| self.refused("look at", &error))? {
            return Ok(file);
        }
        Err(Error::target(self.what("make"), "it was replaced meanwhile"))
    }

    fn open_file(&self, is_written: bool, flags: libc::c_int) -> Result<File, Error> {
        self.open_at(&self.path, is_written, flags)
    }

    fn open_at(&self, path: &Path, is_written: bool, flags: libc::c_int) -> Result<File, Error> {
        let is_new = !self.is_device && flags & libc::O_EXCL != 0;
        let mut flags = flags | libc::O_NONBLOCK;
        if self.is_direct {
            flags |= libc::O_DIRECT;
        }
        if !self.is_device {
            flags |= libc::O_NOFOLLOW;
        } else if is_written {
            // With this flag, the kernel refuses a device that is mounted or part of an array.
            flags |= libc::O_EXCL;
        }
        let mut options = OpenOptions::new();
        // A user who can read the mark could copy it.
        options.read(true).write(is_written).create_new(is_new).mode(0o600).custom_flags(flags);
        let file = open_when_free(&options, path).map_err(|error| {
            let refused = self.refused("open", &error);
            match error.raw_os_error() {
                Some(libc::EINVAL) if self.is_direct => refused
                    .of(Kind::Unsupported)
                    .with_hint("this file system may not support direct I/O: set direct to false"),
                Some(libc::EBUSY) => refused.with_hint("unmount it, or take it out of its array"),
                _ => refused,
            }
        })?;
        let kind = file.metadata().map_err(|error| self.refused("look at", &error))?.file_type();
        if kind.is_block_device() == self.is_device && (self.is_device || kind.is_file()) {
            // The flag was set so that opening a pipe could not block; with it, an io_uring would
            // not wait.
            disk::leave_nonblocking(file.as_fd()).map_err(|error| self.refused("open", &error))?;
            return Ok(file);
        }
        Err(Error::target(self.what("open"), "it was replaced meanwhile"))
    }

    /// Refuses blocks that direct I/O could not write without touching the next object.
    pub(super) fn check_alignment(
        &self,
        block_bytes: u64,
        largest: u64,
        stride_bytes: u64,
    ) -> Result<(), Error> {
        let alignment = self.alignment() as u64;
        if fits(alignment, block_bytes, largest, stride_bytes) {
            return Ok(());
        }
        Err(Error::target(
            format!(
                "read and write blocks of {block_bytes} bytes directly on {}, of objects that are \
                 {stride_bytes} bytes apart",
                self.quoted()
            ),
            format!("its direct I/O goes by {alignment} bytes"),
        )
        .of(Kind::Unsupported)
        .with_hint(format!(
            "choose blocks and objects of a multiple of {alignment} bytes, or set direct to false"
        )))
    }

    /// Returns whether deletes must be discards, because the device supports nothing better.
    pub(super) fn only_discards(&self) -> bool {
        self.only_discards
    }

    /// Returns the alignment of lengths and offsets.
    pub(super) fn alignment(&self) -> usize {
        self.alignment
    }

    fn write_mark(&self, file: &File) -> Result<(), Error> {
        let bytes = self.length(file)?;
        let on = identity::of(file.as_fd(), self.is_device);
        let owner = Owner { run: self.run.clone(), on };
        mark::write(file.as_fd(), &owner, bytes).map_err(|error| self.refused("mark", &error))
    }

    fn read_mark(&self, file: &File) -> Result<Ends, Error> {
        let on = identity::of(file.as_fd(), self.is_device);
        mark::read(file.as_fd(), self.length(file)?, on.as_deref())
            .map_err(|error| self.refused("look for the mark of", &error))
    }

    /// Removes the place if it is ours: deletes the file, or the mark of a device.
    pub(super) fn sweep(&self, bucket: &str) -> Result<Swept, Error> {
        let Some(file) = &self.file else { return Ok(Swept::absent()) };
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        if std::fs::symlink_metadata(&self.path).is_err_and(|error| gone(&error)) {
            return Ok(Swept::absent());
        }
        let left = |kind, why: String| {
            let is_foreign = kind == LeftKind::Foreign;
            Ok(Swept { is_foreign, ..Swept::leaving(0, Some(Left::new(bucket, kind, why))) })
        };
        let judged = |file: &File| match self.judge(file, false) {
            Ok(Ok(_)) => None,
            Ok(Err(refusal)) => Some((refusal.left, refusal.why)),
            Err(error) => Some((LeftKind::Error, error.to_string())),
        };
        if self.is_device {
            // A place that another uses now is not a failure of the clean-up: it is not ours to
            // remove.
            let file = match self.open_file(true, 0) {
                Ok(file) => file,
                Err(error) => return left(LeftKind::OtherObjects, error.to_string()),
            };
            if let Some((kind, why)) = judged(&file) {
                return left(kind, why);
            }
            let bytes = self.length(&file)?;
            mark::erase(file.as_fd(), bytes).map_err(|error| self.refused("unmark", &error))?;
            return Ok(Swept::default());
        }
        if let Some((kind, why)) = judged(file) {
            return left(kind, why);
        }
        std::fs::remove_file(&self.path).map_err(|error| self.refused("delete", &error))?;
        Ok(Swept::default())
    }

    pub(super) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    pub(super) fn volume(&self) -> Option<&str> {
        Some(&self.volume)
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
        Error::system(self.what(verb), error)
    }
}

/// Returns whether reads and writes that are rounded up to the alignment begin at multiples of it,
/// and end before the next object begins. Blocks are parts of an object; only one that contains a
/// whole object may be rounded up.
fn fits(alignment: u64, block_bytes: u64, largest: u64, stride_bytes: u64) -> bool {
    let is_block_aligned = block_bytes.is_multiple_of(alignment) || block_bytes >= largest;
    is_block_aligned
        && stride_bytes.is_multiple_of(alignment)
        && DATA_START.is_multiple_of(alignment)
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn direct_io_never_touches_the_next_object() {
        assert!(fits(512, 512, 8192, 8192));
        assert!(fits(4096, 100, 100, 4096), "a whole object is rounded up");
        assert!(fits(16_384, 16_384, 65_536, 65_536));
        assert!(!fits(4096, 512, 8192, 8192));
        assert!(!fits(16_384, 4096, 4096, 4096), "rounded up it is four objects long");
        assert!(!fits(16_384, 16_384, 20_480, 20_480), "the second object begins within a block");
    }
}
