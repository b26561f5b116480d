//! File operations of a data directory: a crash can occur before and after each of them.
//!
//! With `is_synced`, the result of a function is on the disk before the next one relies on it: the
//! bytes of a file before its name, and the name before anything that refers to it.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The files below one directory.
#[derive(Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    /// Whether to flush to the disk before anything counts as written.
    is_synced: bool,
    /// Directories that this process knows to exist, with flushed names.
    settled: Mutex<HashSet<PathBuf>>,
    /// Number of temporary files so far, so that each has a different name.
    temporaries: AtomicU64,
    #[cfg(test)]
    pub(crate) journal: Mutex<Journal>,
}

impl Disk {
    pub(crate) fn new(root: &Path, is_synced: bool) -> Disk {
        Disk {
            root: root.to_owned(),
            is_synced,
            settled: Mutex::default(),
            temporaries: AtomicU64::new(0),
            #[cfg(test)]
            journal: Mutex::default(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file of bytes.
    pub(crate) fn bytes_path(&self, id: u64) -> PathBuf {
        self.root.join("data").join(format!("{:02x}/{id:016x}.bytes", id & 0xff))
    }

    /// Creates a file, and the directories that contain it.
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        if let Some(parent) = path.parent() {
            self.settle(parent)?;
        }
        #[cfg(test)]
        self.step(|| Operation::Create(path.to_owned()))?;
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
    }

    /// Writes to a file that [`create`](Disk::create) has created at `path`.
    pub(crate) fn write(
        &self,
        file: &File,
        path: &Path,
        bytes: &[u8],
        offset: u64,
    ) -> io::Result<()> {
        #[cfg(test)]
        self.step(|| Operation::Write { path: path.to_owned(), offset, bytes: bytes.to_vec() })?;
        #[cfg(not(test))]
        let _ = path;
        file.write_all_at(bytes, offset)
    }

    /// Flushes a file's bytes, but not its name.
    pub(crate) fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        if !self.is_synced {
            return Ok(());
        }
        #[cfg(test)]
        self.step(|| Operation::Sync(path.to_owned()))?;
        #[cfg(not(test))]
        let _ = path;
        file.sync_data()
    }

    /// Flushes the names in the directory that contains `path`.
    pub(crate) fn sync_names(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent().filter(|_| self.is_synced) else { return Ok(()) };
        #[cfg(test)]
        self.step(|| Operation::SyncNames(parent.to_owned()))?;
        File::open(parent)?.sync_all()
    }

    /// Flushes everything, because files found at a start may never have been flushed.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        if !self.is_synced {
            return Ok(());
        }
        Ok(rustix::fs::syncfs(File::open(&self.root)?)?)
    }

    /// Replaces the file at `path`; a crash leaves the old one or the new one.
    pub(crate) fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let number = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_extension(format!("{number}.new"));
        let write = || {
            let file = self.create(&beside)?;
            self.write(&file, &beside, bytes, 0)?;
            self.sync(&file, &beside)?;
            #[cfg(test)]
            self.step(|| Operation::Rename(beside.clone(), path.to_owned()))?;
            fs::rename(&beside, path)
        };
        if let Err(error) = write() {
            // If it remains, the next start sweeps it.
            let _ = self.remove(&beside);
            return Err(error);
        }
        self.sync_names(path)
    }

    /// Renames the file at `path` to a new name beside it, and returns that name.
    pub(crate) fn move_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let beside = |number: u32| path.with_extension(format!("{number}.aside"));
        let free = (0..).map(beside).find(|name| fs::symlink_metadata(name).is_err());
        let aside = free.unwrap_or_else(|| beside(0));
        #[cfg(test)]
        self.step(|| Operation::Rename(path.to_owned(), aside.clone()))?;
        fs::rename(path, &aside)?;
        self.sync_names(path)?;
        Ok(aside)
    }

    /// Removes a file; it is not an error if the file does not exist.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        #[cfg(test)]
        self.step(|| Operation::Remove(path.to_owned()))?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes a directory with its content.
    pub(crate) fn remove_tree(&self, path: &Path) -> io::Result<()> {
        #[cfg(test)]
        self.step(|| Operation::RemoveTree(path.to_owned()))?;
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        settled.retain(|known| !known.starts_with(path));
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Creates a directory if it is missing. Its name is flushed when this returns, whichever
    /// thread has created it.
    pub(crate) fn settle(&self, directory: &Path) -> io::Result<()> {
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        self.settle_into(directory, &mut settled)
    }

    fn settle_into(&self, directory: &Path, settled: &mut HashSet<PathBuf>) -> io::Result<()> {
        if directory == self.root || settled.contains(directory) {
            return Ok(());
        }
        if let Some(parent) = directory.parent() {
            self.settle_into(parent, settled)?;
        }
        #[cfg(test)]
        self.step(|| Operation::MakeDirectory(directory.to_owned()))?;
        match fs::create_dir(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => self.sync_names(directory)?,
        }
        settled.insert(directory.to_owned());
        Ok(())
    }
}

/// Observations of the files in a test: every step, and whether the process counts as killed.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) steps: Vec<Operation>,
    pub(crate) is_recording: bool,
    /// Number of steps that still succeed, as if the process were killed after the last one.
    pub(crate) steps_left: Option<u64>,
}

/// A step.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    MakeDirectory(PathBuf),
    Create(PathBuf),
    Write {
        path: PathBuf,
        offset: u64,
        bytes: Vec<u8>,
    },
    Sync(PathBuf),
    SyncNames(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    RemoveTree(PathBuf),
    /// Not a file operation: from here on, a client relies on the answer.
    Acknowledged(usize),
}

#[cfg(test)]
impl Disk {
    fn step(&self, operation: impl FnOnce() -> Operation) -> io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut journal.steps_left {
            Some(0) => return Err(io::Error::other("the process was killed")),
            Some(left) => *left -= 1,
            None => {}
        }
        if journal.is_recording {
            journal.steps.push(operation());
        }
        Ok(())
    }
}
