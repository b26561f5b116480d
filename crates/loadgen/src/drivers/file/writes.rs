//! Operations that write or change whole files.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::{COPY_SUFFIX, FileClient, Layout, TEMPORARY};
use crate::drivers::disk;
use crate::outcome::Answer;
use crate::payload::ObjectId;
use crate::requests::Request;

/// The attribute that `post` replaces.
const ATTRIBUTE: &CStr = c"user.loadstone";

impl FileClient {
    pub(super) fn put(&mut self, request: &Request, answer: &mut Answer) -> io::Result<()> {
        let object = self.at_object(request.index);
        self.writes += 1;
        if self.tree.layout == Layout::InPlace {
            return self.write_file(&object, answer);
        }
        std::mem::swap(&mut self.path, &mut self.other_path);
        self.write_temporary_path();
        let written = self.write_file(&object, answer).and_then(|()| self.rename());
        if written.is_err() {
            // Best effort: what failed is told anyway, and the next trial's clean-up looks again.
            let _ = disk::remove_at(self.tree.directory.as_fd(), c_path(&self.path));
        }
        std::mem::swap(&mut self.path, &mut self.other_path);
        written
    }

    /// Makes the path of a file that is not whole yet, in the bucket of the other path.
    fn write_temporary_path(&mut self) {
        use std::io::Write;
        self.path.clear();
        let bucket = self.other_path.split(|byte| *byte == b'/').next().unwrap_or_default();
        self.path.extend_from_slice(bucket);
        let process = std::process::id();
        write!(self.path, "/{TEMPORARY}{process}-{}\0", self.index).expect("memory takes it");
    }

    fn rename(&mut self) -> io::Result<()> {
        let directory = self.tree.directory.as_fd();
        let (from, to) = (c_path(&self.path), c_path(&self.other_path));
        let result = disk::rename_at(directory, from, to);
        if is_without_parent(&result, &self.other_path) {
            self.make_parents(&self.other_path.clone())?;
            disk::rename_at(directory, from, to)?;
        } else {
            result?;
        }
        if !self.tree.flush.is_due(self.writes) {
            return Ok(());
        }
        // Only the directory knows the new name, and it has to be on the device too.
        let parent_bytes = self.other_path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let mut parent = self.other_path[..parent_bytes].to_vec();
        parent.push(0);
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let parent = disk::open_at(directory, c_path(&parent), flags)?;
        disk::flush(parent.as_fd(), false)
    }

    /// Writes the file at the path, piece by piece.
    fn write_file(&mut self, object: &ObjectId, answer: &mut Answer) -> io::Result<()> {
        let chunk_bytes = self.tree.chunk_bytes;
        let mut file = None;
        let mut offset = 0;
        loop {
            let left = usize::try_from(object.length - offset).unwrap_or(usize::MAX);
            let bytes = left.min(chunk_bytes);
            self.held.fill(&self.tree.payload, object, offset, &mut self.buffer[..bytes]);
            let opened = match file.take() {
                Some(file) => file,
                None => {
                    answer.sent_ns = self.reactor.now_ns();
                    self.create_file()?
                }
            };
            self.write_chunk(&opened, bytes, offset)?;
            offset += bytes as u64;
            answer.bytes = offset;
            if offset >= object.length {
                if self.tree.flush.is_due(self.writes) {
                    disk::flush(opened.as_fd(), self.tree.flush.is_data_only)?;
                }
                return disk::close(opened);
            }
            file = Some(opened);
        }
    }

    /// Writes a piece; what direct I/O cannot do at the end of a file goes through the cache.
    fn write_chunk(&self, file: &OwnedFd, bytes: usize, offset: u64) -> io::Result<()> {
        let aligned = if self.tree.is_direct { bytes - bytes % disk::ALIGNMENT } else { bytes };
        let (whole, rest) = self.buffer[..bytes].split_at(aligned);
        disk::write_at(file.as_fd(), whole, offset)?;
        if rest.is_empty() {
            return Ok(());
        }
        disk::leave_direct(file.as_fd())?;
        disk::write_at(file.as_fd(), rest, offset + aligned as u64)
    }

    fn create_file(&mut self) -> io::Result<OwnedFd> {
        let mut flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        flags |= self.tree.flush.open_flags();
        if self.tree.is_direct {
            flags |= libc::O_DIRECT;
        }
        self.create_at(&self.path, flags)
    }

    /// Opens a path that may have to be made, with the directories above it.
    pub(super) fn create_at(&self, path: &[u8], flags: libc::c_int) -> io::Result<OwnedFd> {
        let directory = self.tree.directory.as_fd();
        let opened = disk::open_at(directory, c_path(path), flags);
        if !is_without_parent(&opened, path) {
            return opened;
        }
        self.make_parents(path)?;
        disk::open_at(directory, c_path(path), flags)
    }

    /// Makes the directories above a path, but never the bucket.
    fn make_parents(&self, path: &[u8]) -> io::Result<()> {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (place, _) in slashes.skip(1) {
            let mut parent = path[..place].to_vec();
            parent.push(0);
            match disk::make_directory_at(self.tree.directory.as_fd(), c_path(&parent)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result?,
            }
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, request: &Request) -> io::Result<()> {
        self.at_object(request.index);
        disk::remove_at(self.tree.directory.as_fd(), c_path(&self.path))
    }

    /// Copies a file beside itself: inside the kernel, or through us where it cannot.
    pub(super) fn copy(&mut self, request: &Request) -> io::Result<()> {
        self.at_object(request.index);
        self.writes += 1;
        let directory = self.tree.directory.as_fd();
        let source = disk::open_at(directory, c_path(&self.path), libc::O_RDONLY)?;
        self.other_path.clear();
        self.other_path.extend_from_slice(self.path.strip_suffix(&[0]).unwrap_or(&self.path));
        self.other_path.extend_from_slice(COPY_SUFFIX);
        self.other_path.push(0);
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | self.tree.flush.open_flags();
        let copy = disk::open_at(directory, c_path(&self.other_path), flags)?;
        self.copy_content(&source, &copy)?;
        if self.tree.flush.is_due(self.writes) {
            disk::flush(copy.as_fd(), self.tree.flush.is_data_only)?;
        }
        disk::close(copy)
    }

    fn copy_content(&mut self, source: &OwnedFd, copy: &OwnedFd) -> io::Result<()> {
        let mut offset = 0;
        loop {
            match disk::copy_range(source.as_fd(), copy.as_fd(), offset) {
                Ok(0) => return Ok(()),
                Ok(copied) => offset += copied as u64,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EXDEV | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS) => break,
                    _ => return Err(error),
                },
            }
        }
        loop {
            let bytes = disk::read_at(source.as_fd(), &mut self.buffer, offset)?;
            if bytes == 0 {
                return Ok(());
            }
            disk::write_at(copy.as_fd(), &self.buffer[..bytes], offset)?;
            offset += bytes as u64;
        }
    }

    /// Replaces an extended attribute, which is the metadata that files have.
    pub(super) fn post(&mut self, request: &Request) -> io::Result<()> {
        self.at_object(request.index);
        let directory = self.tree.directory.as_fd();
        let file = disk::open_at(directory, c_path(&self.path), libc::O_RDONLY)?;
        let value = request.chance.to_le_bytes();
        // SAFETY: name and value outlive the call, which takes as many bytes as we say.
        let result = unsafe {
            libc::fsetxattr(
                file.as_raw_fd(),
                ATTRIBUTE.as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                0,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Returns a path as the kernel wants it.
pub(super) fn c_path(path: &[u8]) -> &CStr {
    CStr::from_bytes_with_nul(path).expect("a path ends with its only zero; check saw to it")
}

/// Tells whether a file could not be made because a directory above it, in its bucket, is absent.
fn is_without_parent<T>(result: &io::Result<T>, path: &[u8]) -> bool {
    let nests = path.iter().filter(|byte| **byte == b'/').count() > 1;
    nests && result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}
