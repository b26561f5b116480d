//! Buckets: directories that are made and marked, refused when they are not ours, and swept.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::{COPY_SUFFIX, FileClient, FileTree, TEMPORARY};
use crate::drivers::BucketState;
use crate::drivers::disk;
use crate::error::Error;
use crate::requests::Request;

/// The file that marks a directory as made by loadstone.
const MARK: &str = ".loadstone-mark";

impl FileTree {
    /// Tries direct I/O before load, as not every file system has it.
    pub(super) fn try_direct(&self, target: &str) -> Result<(), Error> {
        if !self.is_direct {
            return Ok(());
        }
        let name = format!("{TEMPORARY}{}\0", std::process::id());
        let path = super::writes::c_path(name.as_bytes());
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_DIRECT;
        let opened = disk::open_at(self.directory.as_fd(), path, flags);
        // Best effort: an empty file that stays is no harm.
        let _ = disk::remove_at(self.directory.as_fd(), path);
        match opened {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(Error::target(
                format!(
                    "open a file for direct I/O in \"{}\" of target \"{target}\"",
                    self.shown()
                ),
                error.to_string(),
            )
            .with_hint("this file system knows no O_DIRECT: set direct to false")),
            // Anything else (a directory that only may be read) is for the operation to meet.
            _ => Ok(()),
        }
    }

    fn shown(&self) -> std::path::Display<'_> {
        self.root.display()
    }

    pub(super) fn ready(&self, bucket: &str, allow_foreign: bool) -> Result<BucketState, Error> {
        let path = self.root.join(bucket);
        match std::fs::create_dir(&path) {
            Ok(()) => {
                self.mark(&path).map_err(|error| {
                    // Without its mark the next trial would refuse it.
                    let _ = std::fs::remove_dir(&path);
                    refused("mark", &path, &error)
                })?;
                Ok(BucketState::Created)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.judge(&path, allow_foreign)
            }
            Err(error) => Err(refused("make", &path, &error)),
        }
    }

    fn judge(&self, path: &Path, allow_foreign: bool) -> Result<BucketState, Error> {
        match is_marked(path).map_err(|error| refused("look for the mark in", path, &error))? {
            true => Ok(BucketState::Ours),
            false if allow_foreign => Ok(BucketState::Foreign),
            false => Err(Error::target(
                format!("use directory \"{}\"", path.display()),
                "it exists, and loadstone did not make it",
            )
            .with_hint("choose another bucket prefix, or pass --allow-foreign for this target")),
        }
    }

    fn mark(&self, path: &Path) -> io::Result<()> {
        std::fs::write(path.join(MARK), format!("made by loadstone, run {}\n", self.run))
    }

    pub(super) fn sweep(&self, bucket: &str) -> Result<(u64, bool), Error> {
        let path = self.root.join(bucket);
        match is_marked(&path) {
            Ok(true) => {}
            Ok(false) => return Ok((0, !path.exists())),
            Err(error) => return Err(refused("look for the mark in", &path, &error)),
        }
        let mut swept = 0;
        let is_empty = self
            .sweep_directory(&path, &path, &mut swept)
            .map_err(|error| refused("sweep", &path, &error))?;
        if !is_empty {
            return Ok((swept, false));
        }
        self.remove_bucket(&path).map_err(|error| refused("delete", &path, &error))?;
        Ok((swept, true))
    }

    /// Deletes the dataset's files and the directories that they leave empty; tells whether
    /// nothing else is there.
    fn sweep_directory(&self, bucket: &Path, path: &Path, swept: &mut u64) -> io::Result<bool> {
        let mut is_empty = true;
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let found = entry.path();
            if entry.file_type()?.is_dir() {
                let is_gone = self.sweep_directory(bucket, &found, swept)?
                    && self.is_of_keys(bucket, &found)
                    && std::fs::remove_dir(&found).is_ok();
                is_empty &= is_gone;
            } else if self.is_object(bucket, &found) {
                std::fs::remove_file(&found)?;
                *swept += 1;
            } else if found != bucket.join(MARK) {
                let name = entry.file_name();
                if name.to_string_lossy().starts_with(TEMPORARY) {
                    std::fs::remove_file(&found)?;
                } else {
                    is_empty = false;
                }
            }
        }
        Ok(is_empty)
    }

    fn is_object(&self, bucket: &Path, found: &Path) -> bool {
        let Some(key) = key_of(bucket, found) else { return false };
        let copy = std::str::from_utf8(COPY_SUFFIX).expect("it is text");
        self.dataset.index_of(key.strip_suffix(copy).unwrap_or(&key)).is_some()
    }

    /// Tells whether a directory is part of the keys' prefix.
    fn is_of_keys(&self, bucket: &Path, found: &Path) -> bool {
        key_of(bucket, found)
            .is_some_and(|part| self.dataset.spec().object_prefix.starts_with(&format!("{part}/")))
    }

    /// Deletes a bucket of ours, which is empty but for its mark.
    fn remove_bucket(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path.join(MARK))?;
        let removed = std::fs::remove_dir(path);
        if removed.is_err() {
            // It stays, so it must stay known as ours.
            self.mark(path)?;
        }
        removed
    }
}

impl FileClient {
    pub(super) fn create_bucket(&mut self, request: &Request) -> io::Result<()> {
        let path = self.bucket_path(request);
        std::fs::create_dir(&path)?;
        self.tree.mark(&path)
    }

    pub(super) fn delete_bucket(&mut self, request: &Request) -> io::Result<()> {
        let path = self.bucket_path(request);
        if is_marked(&path)? {
            return self.tree.remove_bucket(&path);
        }
        if self.tree.is_foreign_allowed || !path.exists() {
            return std::fs::remove_dir(&path);
        }
        let why = "loadstone did not make it";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    fn bucket_path(&mut self, request: &Request) -> PathBuf {
        self.at_bucket(request.index);
        self.tree.root.join(self.tree.dataset.bucket(request.index))
    }
}

fn is_marked(bucket: &Path) -> io::Result<bool> {
    bucket.join(MARK).try_exists()
}

fn key_of(bucket: &Path, found: &Path) -> Option<String> {
    Some(found.strip_prefix(bucket).ok()?.to_str()?.to_owned())
}

fn refused(verb: &str, path: &Path, error: &io::Error) -> Error {
    Error::target(format!("{verb} directory \"{}\"", path.display()), error.to_string())
}
