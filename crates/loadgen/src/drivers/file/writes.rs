//! Operations that write or change whole files.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;

use super::FileClient;
use super::bucket::Bucket;
use super::directory::look;
use crate::ledger::{NO_METADATA, OTHER_METADATA};
use crate::operation::Operation;
use crate::outcome::Completion;
use crate::payload::ObjectId;
use crate::requests::Request;
use crate::transport::disk;

/// The attribute that `post` replaces.
const ATTRIBUTE: &CStr = c"user.loadstone";

/// How a file gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// It is written under its name.
    InPlace,
    /// It is written under a temporary name and renamed, so that readers never see a partial file.
    Rename,
}

impl FileClient {
    pub(super) fn put(
        &mut self,
        bucket: &Bucket,
        request: &Request,
        completion: &mut Completion,
    ) -> io::Result<()> {
        let object = self.at_object(request.object());
        let is_exclusive = request.operation == Operation::PutIfAbsent;
        self.writes += 1;
        if self.tree.layout == Layout::InPlace {
            return self.write_file(bucket, &object, is_exclusive, completion);
        }
        let directory = bucket.keys.as_fd();
        let written = self.write_file(bucket, &object, false, completion).and_then(|()| {
            if is_exclusive {
                return disk::link_at(directory, &self.temporary, self.name());
            }
            bucket.guard(self.name())?;
            disk::rename_at(directory, &self.temporary, self.name())
        });
        if written.is_err() || is_exclusive {
            // Errors are ignored: the failure is reported anyway, and the next clean-up tries
            // again.
            let _ = disk::remove_at(bucket.keys.as_fd(), &self.temporary);
        }
        written?;
        if self.tree.flush.is_due(self.writes) {
            // The new name is in the directory only, which must be flushed to the device too.
            disk::flush(bucket.keys.as_fd(), false)?;
        }
        Ok(())
    }

    /// Writes the object's file, or the temporary one, piece by piece; with `is_exclusive`, the
    /// file must be new.
    fn write_file(
        &mut self,
        bucket: &Bucket,
        object: &ObjectId,
        is_exclusive: bool,
        completion: &mut Completion,
    ) -> io::Result<()> {
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
                    completion.sent_ns = self.reactor.now_ns();
                    self.create_file(bucket, is_exclusive)?
                }
            };
            self.write_chunk(&opened, bytes, offset)?;
            offset += bytes as u64;
            completion.bytes = offset;
            if offset >= object.length {
                if self.tree.flush.is_due(self.writes) {
                    disk::flush(opened.as_fd(), self.tree.flush.is_data_only)?;
                }
                return disk::close(opened);
            }
            file = Some(opened);
        }
    }

    /// Writes a piece. The end of a file that direct I/O cannot write goes through the page cache.
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

    fn create_file(&mut self, bucket: &Bucket, is_exclusive: bool) -> io::Result<OwnedFd> {
        let mut flags = libc::O_WRONLY | self.tree.flush.open_flags();
        if self.tree.is_direct {
            flags |= libc::O_DIRECT;
        }
        let mut expects_new = self.expects_new;
        let name = match self.tree.layout {
            Layout::InPlace => self.name(),
            Layout::Rename => &self.temporary,
        };
        if is_exclusive {
            let flags = flags | libc::O_CREAT | libc::O_EXCL;
            return disk::open_at(bucket.keys.as_fd(), name, flags);
        }
        let created = create(bucket, name, flags, &mut expects_new);
        self.expects_new = expects_new;
        created
    }

    pub(super) fn delete(&mut self, bucket: &Bucket, request: &Request) -> io::Result<()> {
        self.at_object(request.object());
        bucket.guard(self.name())?;
        disk::remove_at(bucket.keys.as_fd(), self.name())
    }

    /// Copies a file in its directory: inside the kernel, or through user space if the kernel
    /// cannot.
    pub(super) fn copy(&mut self, bucket: &Bucket, request: &Request) -> io::Result<()> {
        self.at_object(request.object());
        self.writes += 1;
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let source = disk::open_at(bucket.keys.as_fd(), self.name(), flags)?;
        self.go_to_copy();
        let flags = libc::O_WRONLY | self.tree.flush.open_flags();
        let name = c_path(&self.path[self.leaf..]);
        let copy = create(bucket, name, flags, &mut self.expects_new)?;
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

    /// Replaces an extended attribute, which is the metadata of files.
    pub(super) fn post(&mut self, bucket: &Bucket, request: &Request) -> io::Result<()> {
        self.at_object(request.object());
        let file = open_checked(bucket, self.name(), libc::O_RDONLY)?;
        let value = self.tree.dataset.metadata.of_object(request.object().index).to_le_bytes();
        // SAFETY: name and value outlive the call, which reads as many bytes as we state.
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

/// Returns the value of a file's attribute. One of another length is not ours.
pub(super) fn attribute(file: &OwnedFd) -> io::Result<u64> {
    let mut value = [0; size_of::<u64>()];
    match rustix::fs::fgetxattr(file, ATTRIBUTE, &mut value) {
        Ok(bytes) if bytes == value.len() => Ok(u64::from_le_bytes(value)),
        Ok(_) | Err(Errno::RANGE) => Ok(OTHER_METADATA),
        Err(Errno::NODATA) => Ok(NO_METADATA),
        Err(error) => Err(error.into()),
    }
}

/// Returns a path as a C string.
pub(super) fn c_path(path: &[u8]) -> &CStr {
    CStr::from_bytes_with_nul(path).expect("a path ends with its only zero; check saw to it")
}

/// How often to retry when others create and delete the file concurrently.
const CREATE_RETRIES: u32 = 16;

/// Opens a file to write it anew: one that does not exist, or one that belongs to the run.
///
/// The previous file decides which of the two is tried first, so that neither costs an unnecessary
/// call.
fn create(
    bucket: &Bucket,
    name: &CStr,
    flags: libc::c_int,
    expects_new: &mut bool,
) -> io::Result<OwnedFd> {
    let directory = bucket.keys.as_fd();
    let flags = flags | libc::O_CREAT;
    // Another client may create or delete the file between two calls.
    for attempt in 0.. {
        if *expects_new {
            match disk::open_at(directory, name, flags | libc::O_EXCL) {
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && attempt < CREATE_RETRIES => {
                }
                made => return made,
            }
        }
        match look(directory, name) {
            Ok(stat) => {
                bucket.check(&stat)?;
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => *expects_new = true,
            Err(error) => return Err(error),
        }
    }
    *expects_new = false;
    if !bucket.is_guarded {
        return disk::open_at(directory, name, flags | libc::O_NOFOLLOW | libc::O_TRUNC);
    }
    let file = open_checked(bucket, name, flags)?;
    rustix::fs::ftruncate(&file, 0)?;
    Ok(file)
}

/// Opens a file, and closes it again if it does not belong to the run.
pub(super) fn open_checked(
    bucket: &Bucket,
    name: &CStr,
    flags: libc::c_int,
) -> io::Result<OwnedFd> {
    let flags = flags | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = disk::open_at(bucket.keys.as_fd(), name, flags)?;
    bucket.check(&rustix::fs::fstat(&file)?)?;
    Ok(file)
}
