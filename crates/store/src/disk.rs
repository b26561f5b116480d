//! The few things that a data directory does to files: each is a point where a crash can come.
//!
//! With `is_synced`, what a function has done is on the disk when the next begins to rely on it:
//! the bytes of a file before its name, and the name before what refers to it.

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
    /// Flush to the disk before anything counts as written.
    is_synced: bool,
    /// Directories that this process knows to be there, their own names flushed.
    settled: Mutex<HashSet<PathBuf>>,
    /// Temporary files so far: no two have the same name.
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

    /// Returns the place of a file of bytes.
    pub(crate) fn bytes_path(&self, id: u64) -> PathBuf {
        self.root.join("data").join(format!("{:02x}/{id:016x}.bytes", id & 0xff))
    }

    /// Makes a file, and the directories it lies in.
    pub(crate) fn create(&self, path: &Path) -> io::Result<File> {
        if let Some(parent) = path.parent() {
            self.settle(parent)?;
        }
        #[cfg(test)]
        self.step(|| Operation::Create(path.to_owned()))?;
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
    }

    /// Writes into a file that [`create`](Disk::create) has made at `path`.
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

    /// Flushes the names in the directory that `path` lies in.
    pub(crate) fn sync_names(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent().filter(|_| self.is_synced) else { return Ok(()) };
        #[cfg(test)]
        self.step(|| Operation::SyncNames(parent.to_owned()))?;
        File::open(parent)?.sync_all()
    }

    /// Flushes everything: what was found at a start may never have been.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        if !self.is_synced {
            return Ok(());
        }
        Ok(rustix::fs::syncfs(File::open(&self.root)?)?)
    }

    /// Puts a file of these bytes at `path`: a crash leaves the old one or the new one.
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
            // One that stays behind is swept at the next start.
            let _ = self.remove(&beside);
            return Err(error);
        }
        self.sync_names(path)
    }

    /// Gives what lies at `path` a name of its own beside it, and returns that.
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

    /// Removes a file; one that is gone already is no error.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        #[cfg(test)]
        self.step(|| Operation::Remove(path.to_owned()))?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes a directory and all that is in it.
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

    /// Makes a directory where it is missing. Its name is flushed when this returns, whichever
    /// thread has made it.
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

/// What a test sees of the files: every step, and whether the process counts as killed.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) steps: Vec<Operation>,
    pub(crate) is_recording: bool,
    /// Steps that still succeed; as if the process had been killed after the last of them.
    pub(crate) steps_left: Option<u64>,
}

/// One step.
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
    /// No step: from here on a client relies on the answer.
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
