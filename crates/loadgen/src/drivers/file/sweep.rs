//! Clean-up of a bucket: deletes exactly what the run may have written, and the bucket if nothing
//! else is left.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, fstat, unlinkat};

use super::bucket::{Bucket, MARK, Standing};
use super::directory::{c_name, look, names_in, open_directory, remove_nested};
use super::{FileTree, TEMPORARY};
use crate::dataset::COPY_SUFFIX;
use crate::error::Error;
use crate::ownership::{Left, LeftKind, Swept};
use crate::transport::disk;

impl FileTree {
    /// Returns the number of the object that a file is, or is a copy of.
    pub(super) fn index_of(&self, name: &std::ffi::OsStr) -> Option<u64> {
        self.dataset.index_of(&self.key_of(name)?)
    }

    /// Returns the key of the object that a file is, or is a copy of, if it has the dataset's
    /// prefix.
    fn key_of(&self, name: &std::ffi::OsStr) -> Option<String> {
        let name = name.to_str()?;
        let name = name.strip_suffix(COPY_SUFFIX).unwrap_or(name);
        let digits = name.strip_prefix(&self.dataset.spec().object_prefix[self.leaf_start..])?;
        Some(format!("{}{digits}", self.dataset.spec().object_prefix))
    }

    /// Returns whether this run may have written a file to a bucket.
    fn is_written(&self, bucket: &str, name: &std::ffi::OsStr) -> bool {
        if self.runs_temporary(name) {
            return true;
        }
        self.key_of(name)
            .is_some_and(|key| self.dataset.holds(bucket, &key, &self.ownership.written))
    }

    fn runs_temporary(&self, name: &std::ffi::OsStr) -> bool {
        let rest = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY));
        let run = rest.and_then(|rest| rest.split_once('-')).map(|(run, _)| run);
        run.is_some_and(|run| self.is_named(run))
    }

    /// Deletes what the run may have written to a bucket, and the bucket if it is ours and
    /// otherwise empty. Returns the number of deleted objects, and why the bucket is left, if it
    /// is.
    pub(super) fn sweep(&self, bucket: &str) -> Result<Swept, Error> {
        let failed = |verb, error: io::Error| self.refused(verb, bucket, &error);
        let stays = |objects, kind, reason: String| {
            Ok(Swept::leaving(objects, Some(Left::new(bucket, kind, reason))))
        };
        self.buckets.lock().expect("no panic under this lock").clear();
        self.sweep_root();
        let directory = match self.open_below(bucket) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Swept::absent()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ELOOP | libc::ENOTDIR) => {
                    let reason = "it is a symbolic link, or not a directory";
                    return stays(0, LeftKind::Foreign, reason.into());
                }
                _ => return Err(failed("open", error)),
            },
        };
        let standing = self
            .standing(bucket, directory.as_fd())
            .map_err(|error| failed("look for the mark in", error))?;
        let (kind, reason) = match standing {
            Standing::Ours { owner } => return self.sweep_ours(bucket, &directory, owner),
            Standing::Another(mark) => {
                let mut reason = self.whose(&mark, bucket);
                if !mark.is_copy_in(bucket) {
                    reason.push_str("; that one's clean-up removes it");
                }
                (LeftKind::OtherRun, reason)
            }
            // A kill between creation and mark left this directory.
            Standing::Foreign if self.is_bare(bucket, &directory) => {
                let name = c_name(bucket).map_err(|error| failed("delete", error))?;
                unlinkat(self.directory.as_fd(), &name, AtFlags::REMOVEDIR)
                    .map_err(|error| failed("delete", error.into()))?;
                return Ok(Swept::default());
            }
            Standing::Foreign | Standing::Unsafe if self.is_foreign_allowed => {
                return self
                    .sweep_claimed(bucket, &directory)
                    .map_err(|error| failed("sweep", error));
            }
            Standing::Foreign => (LeftKind::Foreign, "loadstone did not make it".into()),
            Standing::Unsafe => (
                LeftKind::Foreign,
                "it has a mark that is not this version's, or that others could write".into(),
            ),
        };
        let left = Some(Left::new(bucket, kind, reason));
        Ok(Swept { left, is_foreign: kind == LeftKind::Foreign, ..Swept::default() })
    }

    fn sweep_ours(&self, bucket: &str, directory: &OwnedFd, owner: u32) -> Result<Swept, Error> {
        let failed = |verb, error: io::Error| self.refused(verb, bucket, &error);
        let others = |reason: String| Left::new(bucket, LeftKind::OtherObjects, reason);
        let mut objects = 0;
        match self.open_keys(directory, false) {
            Ok(keys) => {
                let same = |of: &OwnedFd| fstat(of).map(|stat| stat.st_dev);
                // A file system mounted there is not ours.
                if same(&keys).ok() != same(directory).ok() {
                    let left = others("another file system is mounted in it".into());
                    return Ok(Swept::leaving(objects, Some(left)));
                }
                let place = Bucket { keys, owner, is_guarded: true };
                objects =
                    self.sweep_keys(bucket, &place).map_err(|error| failed("sweep", error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let left = others(format!("a directory of the prefix cannot be opened: {error}"));
                return Ok(Swept::leaving(objects, Some(left)));
            }
        }
        remove_nested(directory.as_fd(), &self.parents);
        if self.remove_bucket(bucket, directory).map_err(|error| failed("delete", error))? {
            return Ok(Swept::leaving(objects, None));
        }
        let mut names = names_in(directory.as_fd()).map_err(|error| failed("list", error))?;
        names.retain(|name| name.as_encoded_bytes() != MARK.to_bytes());
        let example = names.first().map(|name| format!(", such as \"{}\"", name.display()));
        let reason = "it holds files that the run did not write";
        let left = others(format!("{reason}{}", example.unwrap_or_default()));
        let left = Left { objects: Some(names.len() as u64), ..left };
        Ok(Swept::leaving(objects, Some(left)))
    }

    /// Removes what a kill of the run has left in the root, under names that contain the run.
    /// Errors are ignored: what stays there is empty, or not ours.
    fn sweep_root(&self) {
        let root = self.directory.as_fd();
        for name in names_in(root).unwrap_or_default() {
            let Ok(c_name) = CString::new(name.as_encoded_bytes()) else { continue };
            if !self.runs_temporary(&name)
                || !look(root, &c_name).is_ok_and(|stat| self.is_safe(&stat))
            {
                continue;
            }
            let Ok(directory) = open_directory(root, &c_name) else {
                let _ = disk::remove_at(root, &c_name);
                continue;
            };
            let names = names_in(directory.as_fd()).unwrap_or_default();
            if names.iter().all(|name| name.as_encoded_bytes() == MARK.to_bytes()) {
                let _ = disk::remove_at(directory.as_fd(), MARK);
                let _ = unlinkat(root, &c_name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// Deletes what the run has written beside others' files, and its claim last.
    fn sweep_claimed(&self, bucket: &str, directory: &OwnedFd) -> io::Result<Swept> {
        let foreign = |left| Ok(Swept { left, is_foreign: true, ..Swept::default() });
        let stays = |kind, reason: String| foreign(Some(Left::new(bucket, kind, reason)));
        let keys = match self.open_keys(directory, false) {
            Ok(keys) => keys,
            // The claim is written before anything else.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return foreign(None),
            Err(error) => {
                let reason = format!("a directory of the prefix cannot be opened: {error}");
                return stays(LeftKind::OtherObjects, reason);
            }
        };
        let claim = self.claim_name();
        match look(keys.as_fd(), &claim) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return foreign(None),
            looked => looked?,
        };
        let owner = match self.mark_in(keys.as_fd(), &claim)? {
            Some((mark, owner)) if self.takes(&mark, bucket) => owner,
            Some((mark, _)) => {
                let reason =
                    format!("the dataset's names are claimed: {}", self.whose(&mark, bucket));
                return stays(LeftKind::OtherRun, reason);
            }
            None => {
                let reason =
                    format!("{claim:?} is there, and is no claim that others cannot write");
                return stays(LeftKind::Foreign, reason);
            }
        };
        let place = Bucket { keys, owner, is_guarded: true };
        let objects = self.sweep_keys(bucket, &place)?;
        disk::remove_at(place.keys.as_fd(), &claim)?;
        Ok(Swept { objects, is_foreign: true, ..Swept::default() })
    }

    fn sweep_keys(&self, bucket: &str, place: &Bucket) -> io::Result<u64> {
        let mut swept = 0;
        for name in names_in(place.keys.as_fd())? {
            if !self.is_written(bucket, &name) {
                continue;
            }
            let is_object = !self.runs_temporary(&name);
            let name = CString::new(name.into_encoded_bytes())?;
            if look(place.keys.as_fd(), &name).is_ok_and(|stat| place.check(&stat).is_ok()) {
                disk::remove_at(place.keys.as_fd(), &name)?;
                swept += u64::from(is_object);
            }
        }
        Ok(swept)
    }

    /// Deletes a bucket of ours, if it is empty except for its mark.
    pub(super) fn remove_bucket(&self, bucket: &str, directory: &OwnedFd) -> io::Result<bool> {
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
                // It stays, so it must remain marked as ours.
                self.write_mark(directory.as_fd(), MARK, bucket)?;
                Ok(false)
            }
        }
    }
}
