//! Buckets: directories that are made and marked, refused when they are not ours, and swept.
//!
//! A directory is opened name by name, never through a symbolic link, and what is asked of it
//! afterwards is asked of what was opened. So nobody can lead a request elsewhere by putting
//! another directory, or a link, in its place.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, RenameFlags, Stat, fstat, renameat_with, statat, unlinkat};
use serde::{Deserialize, Serialize};

use super::{COPY_SUFFIX, FileClient, FileTree, TEMPORARY};
use crate::drivers::BucketState;
use crate::drivers::disk;
use crate::error::Error;
use crate::requests::Request;

/// The file that marks a directory as made by loadstone.
const MARK: &CStr = c".loadstone-mark";
/// What the mark in a foreign directory has behind the prefix of the dataset's files.
pub(super) const CLAIM_SUFFIX: &str = ".loadstone-claim";
/// The version of marks.
const FORMAT: u32 = 1;
const MARK_BYTES_MAX: usize = 4096;
/// Names are asked for in pieces of this size.
const NAMES_BYTES: usize = 32 << 10;

/// Buckets that a trial keeps open for all its clients together.
const SHARED_MAX: usize = 1024;

/// A bucket that is open.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Where the dataset's files lie: in the bucket, or in the directory that their prefix names.
    pub(super) keys: OwnedFd,
    /// The user whose its files are.
    owner: u32,
    /// Whether others may have put something there under the dataset's names.
    pub(super) is_guarded: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    loadstone: u32,
    run: String,
}

/// How a directory stands to a trial.
enum Standing {
    /// It is marked by this run, or one that it may reuse, and only we can write to it.
    Ours { owner: u32 },
    /// Another run has marked it.
    AnotherRun(String),
    /// It has our mark, but others may have put it there.
    Unsafe,
    /// It has no mark.
    Foreign,
}

impl Bucket {
    /// Refuses what a request must not change: a file of another user, or one that has another
    /// name, or something that is no file.
    pub(super) fn check(&self, found: &Stat) -> io::Result<()> {
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if is_file && found.st_nlink == 1 && (!self.is_guarded || found.st_uid == self.owner) {
            return Ok(());
        }
        let why = "it is no file of this run's: a link, another user's, or one with a second name";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// Looks at a file before a request puts something in its place, or takes it away, where others
    /// may have put it.
    pub(super) fn guard(&self, name: &CStr) -> io::Result<()> {
        if !self.is_guarded {
            return Ok(());
        }
        match look(self.keys.as_fd(), name) {
            Ok(found) => self.check(&found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl FileTree {
    /// Tries direct I/O before load, as not every file system has it.
    pub(super) fn try_direct(&self, target: &str) -> Result<(), Error> {
        if !self.is_direct {
            return Ok(());
        }
        let Ok(name) = temporary_name() else { return Ok(()) };
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_DIRECT;
        let opened = disk::open_at(self.directory.as_fd(), &name, flags);
        // Best effort: an empty file that stays is no harm.
        let _ = disk::remove_at(self.directory.as_fd(), &name);
        match opened {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(Error::target(
                format!(
                    "open a file for direct I/O in \"{}\" of target \"{target}\"",
                    self.root.display()
                ),
                error.to_string(),
            )
            .with_hint("this file system knows no O_DIRECT: set direct to false")),
            // Anything else (a directory that only may be read) is for the operation to meet.
            _ => Ok(()),
        }
    }

    /// Returns a bucket, opened and judged: once for all clients, unless there are too many.
    pub(super) fn bucket(&self, number: u64) -> io::Result<Arc<Bucket>> {
        let mut shared = self.buckets.lock().expect("nobody panics in here");
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
        let directory = self.open_below(&self.dataset.bucket(number))?;
        let standing = self.standing(directory.as_fd())?;
        let keys = self.open_keys(&directory, self.makes_parents)?;
        if let Standing::Ours { owner } = standing {
            return Ok(Bucket { keys, owner, is_guarded: false });
        }
        match self.mark_in(keys.as_fd(), &self.claim_name())? {
            Some((run, owner)) if self.is_foreign_allowed && self.is_named(&run) => {
                Ok(Bucket { keys, owner, is_guarded: true })
            }
            // What is only read may be anybody's.
            _ if !self.changes => Ok(Bucket { keys, owner: disk::user(), is_guarded: true }),
            _ => Err(not_ours()),
        }
    }

    fn open_below(&self, bucket: &str) -> io::Result<OwnedFd> {
        open_directory(self.directory.as_fd(), &c_name(bucket)?)
    }

    /// Opens the directory in a bucket that the dataset's prefix names, and makes it if it may.
    fn open_keys(&self, bucket: &OwnedFd, may_make: bool) -> io::Result<OwnedFd> {
        open_nested(bucket.as_fd(), &self.parents, may_make)
    }

    /// Opens the directory in which keys with a prefix lie.
    pub(super) fn open_page(&self, bucket: u64, parents: &str) -> io::Result<OwnedFd> {
        let directory = self.open_below(&self.dataset.bucket(bucket))?;
        open_nested(directory.as_fd(), parents, false)
    }

    fn claim_name(&self) -> CString {
        let prefix = &self.dataset.spec().object_prefix[self.leaf_start..];
        CString::new(format!("{prefix}{CLAIM_SUFFIX}")).expect("check refused zeroes in prefixes")
    }

    fn is_named(&self, run: &str) -> bool {
        run == self.run || self.ownership.runs.iter().any(|named| named == run)
    }

    fn standing(&self, directory: BorrowedFd<'_>) -> io::Result<Standing> {
        let found = fstat(directory)?;
        match look(directory, MARK) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Standing::Foreign),
            looked => looked?,
        };
        match self.mark_in(directory, MARK)? {
            Some((run, _)) if !self.is_named(&run) => Ok(Standing::AnotherRun(run)),
            Some((_, owner)) if self.is_safe(&found) => Ok(Standing::Ours { owner }),
            _ => Ok(Standing::Unsafe),
        }
    }

    /// Reads a mark that only we can have written, and tells whose the file is.
    fn mark_in(&self, directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<(String, u32)>> {
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let Ok(file) = disk::open_at(directory, name, flags) else { return Ok(None) };
        let found = fstat(&file)?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !is_file || found.st_nlink != 1 || !self.is_safe(&found) {
            return Ok(None);
        }
        let mut text = [0; MARK_BYTES_MAX];
        let bytes = disk::read_full_at(file.as_fd(), &mut text, 0)?;
        let mark = serde_json::from_slice(&text[..bytes]).ok();
        let mark = mark.filter(|mark: &Mark| mark.loadstone == FORMAT);
        Ok(mark.map(|mark| (mark.run, found.st_uid)))
    }

    /// Tells whether only this user can have written to a file or directory. A server may map users
    /// and a file system may know no modes: then what we make there ourselves is the measure.
    fn is_safe(&self, found: &Stat) -> bool {
        const OTHERS: u32 = 0o022;
        if found.st_uid == disk::user() && found.st_mode & OTHERS == 0 {
            return true;
        }
        let made = self.made.get_or_init(|| disk::made_in(self.directory.as_fd()).ok());
        made.is_some_and(|made| {
            found.st_uid == made.st_uid && found.st_mode & OTHERS & !made.st_mode == 0
        })
    }

    /// Makes sure that a bucket is there and may be written to.
    pub(super) fn ready(&self, bucket: &str, allow_foreign: bool) -> Result<BucketState, Error> {
        let failed = |verb, error| self.refused(verb, bucket, &error);
        match self.open_below(bucket) {
            Ok(directory) => self.judge(bucket, &directory, allow_foreign),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.make(bucket).map_err(|error| failed("make", error))? {
                    return Ok(BucketState::Created);
                }
                let directory = self.open_below(bucket).map_err(|error| failed("open", error))?;
                self.judge(bucket, &directory, allow_foreign)
            }
            Err(error) => Err(match error.raw_os_error() {
                Some(libc::ELOOP | libc::ENOTDIR) => Error::target(
                    self.what("use", bucket),
                    "it is a symbolic link, or no directory at all",
                )
                .with_hint("choose another bucket prefix"),
                _ => failed("open", error),
            }),
        }
    }

    /// Makes a bucket with its mark in one step; `false` if somebody else was quicker.
    fn make(&self, bucket: &str) -> io::Result<bool> {
        let (root, name, beside) = (self.directory.as_fd(), c_name(bucket)?, temporary_name()?);
        self.make_marked(&beside)?;
        let renamed = renameat_with(root, &beside, root, &name, RenameFlags::NOREPLACE);
        if renamed.is_ok() {
            return Ok(true);
        }
        let directory = open_directory(root, &beside)?;
        disk::remove_at(directory.as_fd(), MARK)?;
        unlinkat(root, &beside, AtFlags::REMOVEDIR)?;
        match renamed.map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // NFS and some others cannot; a kill between the two steps is told to the next start
            // by the run's journal.
            Err(error) if is_unknown(&error) => match self.make_marked(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                made => made.map(|()| true),
            },
            other => other.map(|()| true),
        }
    }

    fn make_marked(&self, name: &CStr) -> io::Result<()> {
        let root = self.directory.as_fd();
        disk::make_directory_at(root, name)?;
        let marked = open_directory(root, name)
            .and_then(|directory| self.write_mark(directory.as_fd(), MARK));
        if marked.is_err() {
            // Without its mark the next trial would refuse it.
            let _ = unlinkat(root, name, AtFlags::REMOVEDIR);
        }
        marked
    }

    fn write_mark(&self, directory: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        let file = disk::open_at(directory, name, flags)?;
        let mark = Mark { loadstone: FORMAT, run: self.run.clone() };
        let text = serde_json::to_string(&mark).expect("a number and a text") + "\n";
        disk::write_at(file.as_fd(), text.as_bytes(), 0)?;
        disk::close(file)
    }

    fn judge(
        &self,
        bucket: &str,
        directory: &OwnedFd,
        allow_foreign: bool,
    ) -> Result<BucketState, Error> {
        let failed = |verb, error| self.refused(verb, bucket, &error);
        let refuse = |why: String, hint: &str| {
            Err(Error::target(self.what("use", bucket), why).with_hint(hint))
        };
        let standing = self.standing(directory.as_fd());
        match standing.map_err(|error| failed("look for the mark in", error))? {
            Standing::Ours { .. } => Ok(BucketState::Ours),
            Standing::AnotherRun(run) => refuse(
                format!("run {run} made it"),
                "clean up after that run, name it as one to reuse, or choose another bucket prefix",
            ),
            Standing::Foreign if self.is_bare(bucket, directory) => {
                let marked = self.write_mark(directory.as_fd(), MARK);
                marked.map_err(|error| failed("mark", error))?;
                Ok(BucketState::Created)
            }
            Standing::Foreign | Standing::Unsafe if allow_foreign => self.claim(bucket, directory),
            Standing::Unsafe => refuse(
                "it has a mark that is not this version's, or that others could write".into(),
                "choose another bucket prefix, or remove it",
            ),
            Standing::Foreign => refuse(
                "it exists, and loadstone did not make it".into(),
                "choose another bucket prefix, or pass --allow-foreign for this target",
            ),
        }
    }

    /// Tells whether a directory is what a kill has left: the run's journal holds it, it is ours,
    /// and nothing is in it.
    fn is_bare(&self, bucket: &str, directory: &OwnedFd) -> bool {
        self.ownership.adopt.iter().any(|name| name == bucket)
            && fstat(directory).is_ok_and(|found| self.is_safe(&found))
            && names_in(directory.as_fd()).is_ok_and(|names| names.is_empty())
    }

    /// Takes the dataset's names in a foreign directory, if all are free.
    fn claim(&self, bucket: &str, directory: &OwnedFd) -> Result<BucketState, Error> {
        let failed = |error| self.refused("claim names in", bucket, &error);
        let keys = self.open_keys(directory, true).map_err(failed)?;
        let claim = self.claim_name();
        match self.mark_in(keys.as_fd(), &claim).map_err(failed)? {
            Some((run, _)) if self.is_named(&run) => return Ok(BucketState::Foreign),
            Some((run, _)) => {
                return Err(Error::target(
                    self.what("write beside what is in", bucket),
                    format!("run {run} writes objects of these names there"),
                )
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
            .with_hint("choose another object prefix"));
        }
        self.write_mark(keys.as_fd(), &claim).map_err(failed)?;
        Ok(BucketState::Foreign)
    }

    /// Returns the number of the object that a file is, or is a copy of.
    fn index_of(&self, name: &std::ffi::OsStr) -> Option<u64> {
        let name = name.to_str()?;
        let copy = std::str::from_utf8(COPY_SUFFIX).expect("it is text");
        let name = name.strip_suffix(copy).unwrap_or(name);
        let digits = name.strip_prefix(&self.dataset.spec().object_prefix[self.leaf_start..])?;
        self.dataset.index_of(&format!("{}{digits}", self.dataset.spec().object_prefix))
    }

    /// Tells whether this run may have written a file into a bucket.
    fn is_written(&self, bucket: &str, name: &std::ffi::OsStr) -> bool {
        if self.runs_temporary(name) {
            return true;
        }
        self.index_of(name).is_some_and(|index| {
            let ranges = &self.ownership.written;
            let is_in_range = index < self.dataset.spec().objects
                || ranges.iter().any(|(first, end)| (*first..*end).contains(&index));
            is_in_range && self.dataset.bucket(self.dataset.bucket_of(index)) == bucket
        })
    }

    fn runs_temporary(&self, name: &std::ffi::OsStr) -> bool {
        let rest = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY));
        let run = rest.and_then(|rest| rest.split_once('-')).map(|(run, _)| run);
        run.is_some_and(|run| self.is_named(run))
    }

    /// Deletes what the run may have written in a bucket, and the bucket, if it is ours and nothing
    /// else is in it. Tells how many objects went, and whether the bucket is gone.
    pub(super) fn sweep(&self, bucket: &str) -> Result<(u64, bool), Error> {
        let failed = |verb, error: io::Error| self.refused(verb, bucket, &error);
        self.buckets.lock().expect("nobody panics in here").clear();
        let directory = match self.open_below(bucket) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, true)),
            Err(error) => match error.raw_os_error() {
                Some(libc::ELOOP | libc::ENOTDIR) => return Ok((0, false)),
                _ => return Err(failed("open", error)),
            },
        };
        let standing = self
            .standing(directory.as_fd())
            .map_err(|error| failed("look for the mark in", error))?;
        let Standing::Ours { owner } = standing else {
            let swept = self.sweep_claimed(bucket, &directory);
            return Ok((swept.map_err(|error| failed("sweep", error))?, false));
        };
        let mut swept = 0;
        match self.open_keys(&directory, false) {
            Ok(keys) => {
                let same = |of: &OwnedFd| fstat(of).map(|found| found.st_dev);
                // What somebody has mounted there is not ours.
                if same(&keys).ok() != same(&directory).ok() {
                    return Ok((0, false));
                }
                let place = Bucket { keys, owner, is_guarded: true };
                swept = self.sweep_keys(bucket, &place).map_err(|error| failed("sweep", error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return Ok((0, false)),
        }
        remove_nested(directory.as_fd(), &self.parents);
        let is_gone =
            self.remove_bucket(bucket, &directory).map_err(|error| failed("delete", error))?;
        Ok((swept, is_gone))
    }

    /// Deletes what the run has written beside others' files.
    fn sweep_claimed(&self, bucket: &str, directory: &OwnedFd) -> io::Result<u64> {
        let Ok(keys) = self.open_keys(directory, false) else { return Ok(0) };
        let claim = self.claim_name();
        let Some((run, owner)) = self.mark_in(keys.as_fd(), &claim)? else { return Ok(0) };
        if !self.is_named(&run) {
            return Ok(0);
        }
        let place = Bucket { keys, owner, is_guarded: true };
        let swept = self.sweep_keys(bucket, &place)?;
        disk::remove_at(place.keys.as_fd(), &claim)?;
        Ok(swept)
    }

    fn sweep_keys(&self, bucket: &str, place: &Bucket) -> io::Result<u64> {
        let mut swept = 0;
        for name in names_in(place.keys.as_fd())? {
            if !self.is_written(bucket, &name) {
                continue;
            }
            let is_object = !self.runs_temporary(&name);
            let name = CString::new(name.into_encoded_bytes())?;
            if look(place.keys.as_fd(), &name).is_ok_and(|found| place.check(&found).is_ok()) {
                disk::remove_at(place.keys.as_fd(), &name)?;
                swept += u64::from(is_object);
            }
        }
        Ok(swept)
    }

    /// Deletes a bucket of ours, if it is empty but for its mark.
    fn remove_bucket(&self, bucket: &str, directory: &OwnedFd) -> io::Result<bool> {
        if names_in(directory.as_fd())?
            .iter()
            .any(|name| name.as_encoded_bytes() != MARK.to_bytes())
        {
            return Ok(false);
        }
        disk::remove_at(directory.as_fd(), MARK)?;
        match unlinkat(self.directory.as_fd(), &c_name(bucket)?, AtFlags::REMOVEDIR) {
            Ok(()) => Ok(true),
            Err(_) => {
                // It stays, so it must stay known as ours.
                self.write_mark(directory.as_fd(), MARK)?;
                Ok(false)
            }
        }
    }

    fn what(&self, verb: &str, bucket: &str) -> String {
        format!("{verb} directory \"{}\"", self.root.join(bucket).display())
    }

    fn refused(&self, verb: &str, bucket: &str, error: &io::Error) -> Error {
        Error::target(self.what(verb, bucket), error.to_string())
    }
}

impl FileClient {
    pub(super) fn create_bucket(&mut self, request: &Request) -> io::Result<()> {
        self.at_bucket(request.index);
        self.tree.make_marked(super::writes::c_path(&self.path))
    }

    pub(super) fn delete_bucket(&mut self, request: &Request) -> io::Result<()> {
        self.at_bucket(request.index);
        let bucket = self.tree.dataset.bucket(request.index);
        let directory = self.tree.open_below(&bucket)?;
        match self.tree.standing(directory.as_fd())? {
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

fn temporary_name() -> io::Result<CString> {
    c_name(&format!("{TEMPORARY}{}", disk::random_name()?))
}

/// Returns a name as the kernel wants it: of something in a directory, not of a path.
fn c_name(name: &str) -> io::Result<CString> {
    match name {
        "" | "." | ".." => Err(io::ErrorKind::InvalidInput.into()),
        name if name.contains('/') => Err(io::ErrorKind::InvalidInput.into()),
        name => Ok(CString::new(name)?),
    }
}

fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    disk::open_at(parent, name, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW)
}

fn open_nested(top: BorrowedFd<'_>, path: &str, may_make: bool) -> io::Result<OwnedFd> {
    let mut directory = open_directory(top, c".")?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let name = c_name(part)?;
        if may_make {
            match disk::make_directory_at(directory.as_fd(), &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        directory = open_directory(directory.as_fd(), &name)?;
    }
    Ok(directory)
}

/// Removes the directories of a prefix, the innermost first, as far as they are empty.
fn remove_nested(top: BorrowedFd<'_>, path: &str) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    for depth in (0..parts.len()).rev() {
        let Ok(parent) = open_nested(top, &parts[..depth].join("/"), false) else { continue };
        let Ok(name) = c_name(parts[depth]) else { return };
        if unlinkat(&parent, &name, AtFlags::REMOVEDIR).is_err() {
            return;
        }
    }
}

fn names_in(directory: BorrowedFd<'_>) -> io::Result<Vec<std::ffi::OsString>> {
    use std::os::unix::ffi::OsStringExt;
    // A descriptor of its own: another reader's place in the list is not ours.
    let directory = open_directory(directory, c".")?;
    let (mut buffer, mut names) = (vec![0; NAMES_BYTES], Vec::new());
    super::directory::for_each_name(directory.as_fd(), &mut buffer, |name| {
        names.push(std::ffi::OsString::from_vec(name.to_vec()));
        true
    })?;
    Ok(names)
}

/// Looks at a name itself, not at what a link of that name leads to.
pub(super) fn look(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Stat> {
    Ok(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP))
}
