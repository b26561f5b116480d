//! Blocks at offsets of files that stay open.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use super::FileClient;
use super::bucket::Bucket;
use crate::outcome::{Completion, Outcome};
use crate::payload::{ObjectId, check_blocks};
use crate::requests::Request;
use crate::transport::disk;

/// The files that a client has open, each in the slot that its number selects.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    places: Vec<Option<(u64, Rc<OwnedFd>)>>,
}

impl OpenFiles {
    /// Maximum number of files that one client keeps open.
    pub(super) const MOST: usize = 16;

    fn find(&self, index: u64) -> Option<Rc<OwnedFd>> {
        let (open_index, file) = self.places.get(place_of(index))?.as_ref()?;
        (*open_index == index).then(|| Rc::clone(file))
    }

    fn keep(&mut self, index: u64, file: Rc<OwnedFd>) {
        self.places.resize_with(Self::MOST, || None);
        self.places[place_of(index)] = Some((index, file));
    }

    pub(super) fn close_all(&mut self) {
        self.places.clear();
    }
}

fn place_of(index: u64) -> usize {
    (index % OpenFiles::MOST as u64) as usize
}

impl FileClient {
    /// Returns the offset of a request's block in its object, and its length.
    fn block_of(&self, request: &Request, object: &ObjectId) -> (u64, usize) {
        let block_bytes = self.tree.block_bytes;
        let offset = request.block() % object.length.div_ceil(block_bytes).max(1) * block_bytes;
        let bytes = (object.length - offset).min(block_bytes);
        (offset, usize::try_from(bytes).expect("a block"))
    }

    pub(super) fn read_block(
        &mut self,
        bucket: &Bucket,
        request: &Request,
        completion: &mut Completion,
    ) -> io::Result<()> {
        let object = self.at_object(request.object());
        let (offset, bytes) = self.block_of(request, &object);
        let file = self.open_block_file(bucket, request.object().index)?;
        let asked = if self.tree.is_direct { bytes.next_multiple_of(512) } else { bytes };
        let read = disk::read_full_at(file.as_fd(), &mut self.buffer[..asked], offset)?.min(bytes);
        completion.ended_ns = self.reactor.now_ns();
        completion.bytes = read as u64;
        if read < bytes {
            completion.outcome = Outcome::TRUNCATED;
            self.note(request, &format!("{read} of {bytes} bytes came at {offset}"));
        } else if request.is_verified {
            completion.verified_bytes = read as u64;
            let block = &self.buffer[..read];
            if let Err(evidence) = check_blocks(&self.tree.payload, &object, offset, block) {
                completion.outcome = Outcome::of_verdict(evidence.verdict());
                self.note(request, &evidence.to_string());
            }
        }
        Ok(())
    }

    pub(super) fn write_block(
        &mut self,
        bucket: &Bucket,
        request: &Request,
        completion: &mut Completion,
    ) -> io::Result<()> {
        let object = self.at_object(request.object());
        let (offset, bytes) = self.block_of(request, &object);
        self.held.fill(&self.tree.payload, &object, offset, &mut self.buffer[..bytes]);
        completion.sent_ns = self.reactor.now_ns();
        let file = self.open_block_file(bucket, request.object().index)?;
        if self.tree.is_direct && bytes % 512 != 0 {
            // The unaligned end of an object uses a separate descriptor, so that the others stay
            // direct.
            let flags = libc::O_WRONLY | self.tree.flush.open_flags() | self.append_flag();
            let odd = super::writes::open_checked(bucket, self.name(), flags)?;
            disk::write_at(odd.as_fd(), &self.buffer[..bytes], offset)?;
        } else {
            disk::write_at(file.as_fd(), &self.buffer[..bytes], offset)?;
        }
        completion.bytes = bytes as u64;
        self.writes += 1;
        if self.tree.flush.is_due(self.writes) {
            disk::flush(file.as_fd(), self.tree.flush.is_data_only)?;
        }
        Ok(())
    }

    /// Returns the flag that makes the kernel write at the file's end, whatever the offset.
    fn append_flag(&self) -> libc::c_int {
        if self.tree.appends { libc::O_APPEND } else { 0 }
    }

    fn open_block_file(&mut self, bucket: &Bucket, index: u64) -> io::Result<Rc<OwnedFd>> {
        if let Some(file) = self.open_files.find(index) {
            return Ok(file);
        }
        let mut flags = libc::O_RDONLY;
        let is_written = self.tree.writes_blocks;
        if is_written {
            flags = libc::O_RDWR | libc::O_CREAT | self.tree.flush.open_flags();
            flags |= self.append_flag();
        }
        if self.tree.is_direct {
            flags |= libc::O_DIRECT;
        }
        let file = if is_written {
            super::writes::open_checked(bucket, self.name(), flags)?
        } else {
            let flags = flags | libc::O_NOFOLLOW | libc::O_NONBLOCK;
            disk::open_at(bucket.keys.as_fd(), self.name(), flags)?
        };
        let file = Rc::new(file);
        self.open_files.keep(index, Rc::clone(&file));
        Ok(file)
    }
}
