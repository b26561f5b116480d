//! Buckets: directories that are created and marked, and refused if they are not ours.
//!
//! A directory is opened component by component, never through a symbolic link, and then used by
//! its descriptor, so that another directory or a link put in its place cannot redirect a request.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, RenameFlags, Stat, fstat, renameat_with, unlinkat};

use super::directory::{c_name, look, names_in, open_directory, open_nested};
use super::{FileClient, FileTree, TEMPORARY};
use crate::error::{Error, Kind};
use crate::ownership::Standing as Found;
use crate::ownership::{BucketState, Mark};
use crate::requests::Request;
use crate::transport::disk;

/// The file that marks a directory as created by loadstone.
pub(super) const MARK: &CStr = c".loadstone-mark";
/// Suffix, after the prefix of the dataset's files, of the claim in a foreign directory.
pub(super) const CLAIM_SUFFIX: &str = ".loadstone-claim";
const MARK_BYTES_MAX: usize = 4096;

/// Maximum number of buckets that a trial keeps open for all its clients.
const SHARED_MAX: usize = 1024;

/// An open bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Directory of the dataset's files: the bucket, or a directory below it that their prefix
    /// names.
    pub(super) keys: OwnedFd,
    /// The user who owns its files.
    pub(super) owner: u32,
    /// Whether others may have put files there under the dataset's names.
    pub(super) is_guarded: bool,
}

/// State of a directory with respect to a trial.
pub(super) enum Standing {
    /// Marked by this run, or by one whose places it may use, and writable by us only.
    Ours { owner: u32 },
    /// Marked by another run.
    Another(Mark),
    /// It contains our mark, but others may have put it there.
    Unsafe,
    /// Not marked.
    Foreign,
}

impl Bucket {
    /// Refuses a file that a request must not change: one of another user, one with several names,
    /// or anything but a regular file.
    pub(super) fn check(&self, stat: &Stat) -> io::Result<()> {
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && stat.st_nlink == 1 && (!self.is_guarded || stat.st_uid == self.owner) {
            return Ok(());
        }
        let why = "it is not a file of this run: a link, another user's, or one with hard links";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// Checks a file before a request replaces or deletes it, if others may have put it there.
    pub(super) fn guard(&self, name: &CStr) -> io::Result<()> {
        if !self.is_guarded {
            return Ok(());
        }
        match look(self.keys.as_fd(), name) {
            Ok(stat) => self.check(&stat),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl FileTree {
    /// Tests direct I/O before the load, because not every file system supports it.
    pub(super) fn try_direct(&self, target: &str) -> Result<(), Error> {
        if !self.is_direct {
            return Ok(());
        }
        let Ok(name) = self.temporary_name() else { return Ok(()) };
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_DIRECT;
        let opened = disk::open_at(self.directory.as_fd(), &name, flags);
        // Errors are ignored: an empty file that stays does no harm.
        let _ = disk::remove_at(self.directory.as_fd(), &name);
        match opened {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(Error::target(
                format!(
                    "open a file for direct I/O in \"{}\" of target \"{target}\"",
                    self.root.display()
                ),
                error.to_string(),
            )
            .of(Kind::Unsupported)
            .with_hint("this file system does not support O_DIRECT: set direct to false")),
            // Any other error (such as a read-only directory) will be reported by the operation.
            _ => Ok(()),
        }
    }

    /// Returns an open and checked bucket: opened once for all clients, unless there are too many
    /// buckets.
    pub(super) fn bucket(&self, number: u64) -> io::Result<Arc<Bucket>> {
        let mut shared = self.buckets.lock().expect("no panic under this lock");
        if let Some(bucket) = shared.get(&number) {
            return Ok(Arc::clone(bucket));
        }
        let bucket = Arc::new(self.open_bucket(number)?);
        if shared.len() < SHARED_MAX {
            shared.insert(number, Arc::clone(&bucket));
        }
        Ok(bucket)
    }

    fn open_bucket(&self, number: u64) -> io::Result<Bucket> {
        let bucket = self.dataset.bucket(number);
        let directory = self.open_below(&bucket)?;
        if self.dataset.is_listed() {
            // A trial that only reads need not know the owner, and finding out may require a file
            // of ours.
            let keys = self.open_keys(&directory, false)?;
            return Ok(Bucket { keys, owner: disk::user(), is_guarded: true });
        }
        let standing = self.standing(&bucket, directory.as_fd())?;
        let may_make = self.makes_parents && matches!(standing, Standing::Ours { .. });
        let keys = self.open_keys(&directory, may_make)?;
        if let Standing::Ours { owner } = standing {
            return Ok(Bucket { keys, owner, is_guarded: false });
        }
        match self.mark_in(keys.as_fd(), &self.claim_name())? {
            Some((mark, owner)) if self.is_foreign_allowed && self.takes(&mark, &bucket) => {
                Ok(Bucket { keys, owner, is_guarded: true })
            }
            // Files that are only read may belong to others.
            _ if !self.changes => Ok(Bucket { keys, owner: disk::user(), is_guarded: true }),
            _ => Err(not_ours()),
        }
    }

    pub(super) fn open_below(&self, bucket: &str) -> io::Result<OwnedFd> {
        open_directory(self.directory.as_fd(), &c_name(bucket)?)
    }

    /// Opens the directory in a bucket that the dataset's prefix names, and creates it if allowed.
    pub(super) fn open_keys(&self, bucket: &OwnedFd, may_make: bool) -> io::Result<OwnedFd> {
        open_nested(bucket.as_fd(), &self.parents, may_make)
    }

    /// Opens the directory that contains the keys with a prefix.
    pub(super) fn open_page(&self, bucket: u64, parents: &str) -> io::Result<OwnedFd> {
        let directory = self.open_below(&self.dataset.bucket(bucket))?;
        open_nested(directory.as_fd(), parents, false)
    }

    pub(super) fn claim_name(&self) -> CString {
        let prefix = &self.dataset.spec().object_prefix[self.leaf_start..];
        CString::new(format!("{prefix}{CLAIM_SUFFIX}")).expect("check refused zeroes in prefixes")
    }

    pub(super) fn is_named(&self, run: &str) -> bool {
        run == self.run || self.ownership.runs.iter().any(|named| named == run)
    }

    /// Returns whether a mark is that of this run on this target, or that of a named run.
    pub(super) fn takes(&self, mark: &Mark, bucket: &str) -> bool {
        self.is_named(&mark.run)
            && !mark.is_copy_in(bucket)
            && (mark.run != self.run || mark.fits(&self.target))
    }

    /// Describes the owner of a mark that is not ours.
    pub(super) fn whose(&self, mark: &Mark, bucket: &str) -> String {
        if mark.is_copy_in(bucket) {
            "its mark is a copy of another directory's".to_owned()
        } else if mark.run == self.run {
            "another target of this run made it: both lead to the same directory".to_owned()
        } else {
            format!("run {} made it", mark.run)
        }
    }

    pub(super) fn standing(&self, bucket: &str, directory: BorrowedFd<'_>) -> io::Result<Standing> {
        let stat = fstat(directory)?;
        match look(directory, MARK) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Standing::Foreign),
            looked => looked?,
        };
        match self.mark_in(directory, MARK)? {
            Some((mark, _)) if !self.takes(&mark, bucket) => Ok(Standing::Another(mark)),
            Some((_, owner)) if self.is_safe(&stat) => Ok(Standing::Ours { owner }),
            _ => Ok(Standing::Unsafe),
        }
    }

    /// Reads a mark that only we can have written, and returns the file's owner.
    pub(super) fn mark_in(
        &self,
        directory: BorrowedFd<'_>,
        name: &CStr,
    ) -> io::Result<Option<(Mark, u32)>> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let Ok(file) = disk::open_at(directory, name, flags) else { return Ok(None) };
        let stat = fstat(&file)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_nlink != 1 || !self.is_safe(&stat) {
            return Ok(None);
        }
        let mut text = [0; MARK_BYTES_MAX];
        let bytes = disk::read_full_at(file.as_fd(), &mut text, 0)?;
        let mark = std::str::from_utf8(&text[..bytes]).ok().and_then(Mark::parse);
        Ok(mark.map(|mark| (mark, stat.st_uid)))
    }

    /// Returns whether only this user can have written to a file or directory. A server may map
    /// users, and a file system may not support modes, so it is compared with a directory that we
    /// create ourselves.
    pub(super) fn is_safe(&self, stat: &Stat) -> bool {
        const OTHERS: u32 = 0o022;
        if stat.st_uid == disk::user() && stat.st_mode & OTHERS == 0 {
            return true;
        }
        let made = self.made.get_or_init(|| disk::made_in(self.directory.as_fd(), &self.run).ok());
        made.is_some_and(|made| {
            stat.st_uid == made.st_uid && stat.st_mode & OTHERS & !made.st_mode == 0
        })
    }

    /// Makes sure that a bucket exists and may be written to.
    pub(super) fn ready(&self, bucket: &str, allow_foreign: bool) -> Result<BucketState, Error> {
        let failed = |verb, error| self.refused(verb, bucket, &error);
        let mut state = self.find(bucket, allow_foreign)?;
        if state == Found::Absent {
            let made = self.make(bucket);
            let is_refusal = made.is_err() && self.has_nothing_of(bucket);
            if made.map_err(|error| failed("make", error).refused_if(is_refusal))? {
                return Ok(BucketState::Created);
            }
            state = self.find(bucket, allow_foreign)?;
        }
        match state {
            Found::Ours => Ok(BucketState::Ours),
            Found::Foreign => Ok(BucketState::Foreign),
            Found::Bare => {
                let marked = self.adopt(bucket).map_err(|error| failed("mark", error))?;
                Ok(if marked { BucketState::Created } else { BucketState::Ours })
            }
            Found::Absent | Found::Unseen => {
                Err(failed("make", io::Error::from(io::ErrorKind::NotFound)))
            }
        }
    }

    pub(super) fn is_absent(&self, bucket: &str) -> bool {
        matches!(self.open_below(bucket), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Inspects a bucket, and refuses one that may not be written to.
    pub(super) fn find(&self, bucket: &str, allow_foreign: bool) -> Result<Found, Error> {
        match self.open_below(bucket) {
            Ok(directory) => self.judge(bucket, &directory, allow_foreign),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Absent),
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::ELOOP | libc::ENOTDIR) => Error::target(
                    self.what("use", bucket),
                    "it is a symbolic link, or not a directory",
                )
                .of(Kind::NotOurs)
                .with_hint("choose another bucket prefix"),
                _ => self.refused("open", bucket, &error),
            }),
        }
    }

    /// Marks a bucket that a kill has left without a mark; returns `false` if it is no longer
    /// empty.
    fn adopt(&self, bucket: &str) -> io::Result<bool> {
        let directory = self.open_below(bucket)?;
        if !self.is_bare(bucket, &directory) {
            return Ok(false);
        }
        self.write_mark(directory.as_fd(), MARK, bucket).map(|()| true)
    }

    /// Returns whether neither a bucket exists nor the directory that it is created from.
    fn has_nothing_of(&self, bucket: &str) -> bool {
        let beside = format!("{TEMPORARY}{}-", self.run);
        let is_of = |name: &OsString| {
            name == bucket || name.as_encoded_bytes().starts_with(beside.as_bytes())
        };
        names_in(self.directory.as_fd()).is_ok_and(|names| !names.iter().any(is_of))
    }

    /// Creates a bucket with its mark in one step; returns `false` if another created it first.
    fn make(&self, bucket: &str) -> io::Result<bool> {
        let (root, name, beside) =
            (self.directory.as_fd(), c_name(bucket)?, self.temporary_name()?);
        self.make_marked(&beside, bucket)?;
        let renamed = renameat_with(root, &beside, root, &name, RenameFlags::NOREPLACE);
        if renamed.is_ok() {
            return Ok(true);
        }
        let directory = open_directory(root, &beside)?;
        disk::remove_at(directory.as_fd(), MARK)?;
        unlinkat(root, &beside, AtFlags::REMOVEDIR)?;
        match renamed.map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // NFS and some other file systems do not support this. After a kill between the two
            // steps, the run's journal tells the next start.
            Err(error) if is_unknown(&error) => match self.make_marked(&name, bucket) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                made => made.map(|()| true),
            },
            other => other.map(|()| true),
        }
    }

    fn make_marked(&self, name: &CStr, bucket: &str) -> io::Result<()> {
        let root = self.directory.as_fd();
        disk::make_directory_at(root, name)?;
        let marked = open_directory(root, name)
            .and_then(|directory| self.write_mark(directory.as_fd(), MARK, bucket));
        if marked.is_err() {
            // Without its mark, the next trial would refuse it.
            let _ = unlinkat(root, name, AtFlags::REMOVEDIR);
        }
        marked
    }

    pub(super) fn write_mark(
        &self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        bucket: &str,
    ) -> io::Result<()> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let file = disk::open_at(directory, name, flags)?;
        let text = Mark::of(&self.run, &self.target, bucket) + "\n";
        disk::write_at(file.as_fd(), text.as_bytes(), 0)?;
        disk::close(file)
    }

    fn judge(
        &self,
        bucket: &str,
        directory: &OwnedFd,
        allow_foreign: bool,
    ) -> Result<Found, Error> {
        let failed = |verb, error| self.refused(verb, bucket, &error);
        let refuse = |kind, why: String, hint: &str| {
            Err(Error::target(self.what("use", bucket), why).of(kind).with_hint(hint))
        };
        let standing = self.standing(bucket, directory.as_fd());
        match standing.map_err(|error| failed("look for the mark in", error))? {
            Standing::Ours { .. } => Ok(Found::Ours),
            Standing::Another(mark) => refuse(
                Kind::OfAnotherRun,
                self.whose(&mark, bucket),
                "clean up after that run, name it as one to reuse, or choose another bucket prefix",
            ),
            Standing::Foreign if self.is_bare(bucket, directory) => Ok(Found::Bare),
            Standing::Foreign | Standing::Unsafe if allow_foreign => self.claim(bucket, directory),
            Standing::Unsafe => refuse(
                Kind::NotOurs,
                "it has a mark that is not this version's, or that others could write".into(),
                "choose another bucket prefix, or remove it",
            ),
            Standing::Foreign => refuse(
                Kind::NotOurs,
                "it exists, and loadstone did not make it".into(),
                "choose another bucket prefix, or pass --allow-foreign for this target",
            ),
        }
    }

    /// Returns whether a directory is what a kill has left: it is in the run's journal, it is ours,
    /// and it is empty.
    pub(super) fn is_bare(&self, bucket: &str, directory: &OwnedFd) -> bool {
        self.ownership.adopt.iter().any(|name| name == bucket)
            && fstat(directory).is_ok_and(|stat| self.is_safe(&stat))
            && names_in(directory.as_fd()).is_ok_and(|names| names.is_empty())
    }

    /// Claims the dataset's names in a foreign directory, if all are free.
    fn claim(&self, bucket: &str, directory: &OwnedFd) -> Result<Found, Error> {
        let failed = |error| self.refused("claim names in", bucket, &error);
        let claim = self.claim_name();
        // Nothing is created there, not even a directory of the prefix, before all names are known
        // to be free.
        let keys = match self.open_keys(directory, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let keys = self.open_keys(directory, true).map_err(failed)?;
                self.write_mark(keys.as_fd(), &claim, bucket).map_err(failed)?;
                return Ok(Found::Foreign);
            }
            keys => keys.map_err(failed)?,
        };
        match self.mark_in(keys.as_fd(), &claim).map_err(failed)? {
            Some((mark, _)) if self.takes(&mark, bucket) => return Ok(Found::Foreign),
            Some((mark, _)) => {
                return Err(Error::target(
                    self.what("write beside what is in", bucket),
                    format!("these names are claimed: {}", self.whose(&mark, bucket)),
                )
                .of(Kind::OfAnotherRun)
                .with_hint("clean up after that run, or choose another object prefix"));
            }
            None => {}
        }
        let names = names_in(keys.as_fd()).map_err(failed)?;
        if let Some(taken) = names.iter().find(|name| self.index_of(name).is_some()) {
            return Err(Error::target(
                self.what("write beside what is in", bucket),
                format!("\"{}\" is there, which the dataset would overwrite", taken.display()),
            )
            .of(Kind::NotOurs)
            .with_hint("choose another object prefix"));
        }
        self.write_mark(keys.as_fd(), &claim, bucket).map_err(failed)?;
        Ok(Found::Foreign)
    }

    /// Returns a name for an incomplete file, which the run's clean-up recognises.
    fn temporary_name(&self) -> io::Result<CString> {
        c_name(&format!("{TEMPORARY}{}-{}", self.run, disk::random_name()?))
    }

    fn what(&self, verb: &str, bucket: &str) -> String {
        format!("{verb} directory \"{}\"", self.root.join(bucket).display())
    }

    pub(super) fn refused(&self, verb: &str, bucket: &str, error: &io::Error) -> Error {
        Error::system(self.what(verb, bucket), error)
    }
}

impl FileClient {
    pub(super) fn create_bucket(&mut self, request: &Request) -> io::Result<()> {
        self.at_bucket(request.bucket());
        let bucket = self.tree.dataset.bucket(request.bucket());
        if self.tree.make(&bucket)? || self.tree.adopt(&bucket)? {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(libc::EEXIST))
    }

    pub(super) fn delete_bucket(&mut self, request: &Request) -> io::Result<()> {
        self.at_bucket(request.bucket());
        let bucket = self.tree.dataset.bucket(request.bucket());
        let directory = self.tree.open_below(&bucket)?;
        match self.tree.standing(&bucket, directory.as_fd())? {
            Standing::Ours { .. } => match self.tree.remove_bucket(&bucket, &directory)? {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::ENOTEMPTY)),
            },
            _ => Err(not_ours()),
        }
    }
}

fn not_ours() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "loadstone did not make this directory")
}

fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP))
}
