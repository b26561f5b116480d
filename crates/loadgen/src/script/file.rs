//! A memory-mapped Arrow file. Its batches refer to the mapping.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::root_as_footer;
use arrow_schema::{ArrowError, Schema};
use loadstone_wire::digest::sha256;

use super::Hashed;
use crate::error::Error;

/// Trailer of an Arrow file: the footer's length and the magic.
const TRAILER_BYTES: usize = 10;

/// A file's bytes, mapped while they are referenced.
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is private and read-only, and not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference to it is left.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Opens a file, checks its SHA-256, and returns its schema and batches.
pub(super) fn open(file: Hashed<'_>) -> Result<(Schema, Vec<RecordBatch>), Error> {
    let shown = file.path.display();
    let wrong = |reason: String| Error::Trial(vec![format!("script \"{shown}\": {reason}")]);
    let buffer = map(file).map_err(|error| wrong(error.to_string()))?;
    let digest: String = sha256(&buffer).iter().map(|byte| format!("{byte:02x}")).collect();
    if digest != file.sha256 {
        return Err(wrong(format!("found SHA-256 {digest}, the trial names {}", file.sha256)));
    }
    read(&buffer).map_err(|error| wrong(format!("no Arrow file: {error}")))
}

fn map(file: Hashed<'_>) -> std::io::Result<Buffer> {
    let opened = File::open(file.path)?;
    let bytes = usize::try_from(opened.metadata()?.len()).unwrap_or(usize::MAX);
    if bytes == 0 {
        return Ok(Buffer::from(Vec::<u8>::new()));
    }
    let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
    // SAFETY: a new mapping of an open file, at an address that the kernel chooses.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), bytes, protection, flags, opened.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast::<u8>()).ok_or(std::io::ErrorKind::OutOfMemory)?;
    let mapping = Arc::new(Mapping { start, bytes });
    // SAFETY: this many bytes are mapped until the mapping, which the buffer owns, is dropped. If
    // another program truncated the file meanwhile, the process would end: the file is in the run's
    // own folder.
    Ok(unsafe { Buffer::from_custom_allocation(start, bytes, mapping) })
}

fn read(buffer: &Buffer) -> Result<(Schema, Vec<RecordBatch>), ArrowError> {
    let cut = || ArrowError::ParseError("it is cut off".into());
    let trailer_start = buffer.len().checked_sub(TRAILER_BYTES).ok_or_else(cut)?;
    let trailer = buffer[trailer_start..].try_into().map_err(|_| cut())?;
    let footer_start = trailer_start.checked_sub(read_footer_length(trailer)?).ok_or_else(cut)?;
    let footer = root_as_footer(&buffer[footer_start..trailer_start])
        .map_err(|error| ArrowError::ParseError(error.to_string()))?;
    let schema = try_fb_to_schema(footer.schema().ok_or_else(cut)?)?;
    let decoder = FileDecoder::new(Arc::new(schema.clone()), footer.version());
    let mut batches = Vec::new();
    for block in footer.recordBatches().into_iter().flatten() {
        let start = usize::try_from(block.offset()).map_err(|_| cut())?;
        let metadata = usize::try_from(block.metaDataLength()).map_err(|_| cut())?;
        let body = usize::try_from(block.bodyLength()).map_err(|_| cut())?;
        let bytes = metadata.checked_add(body).ok_or_else(cut)?;
        if start.checked_add(bytes).is_none_or(|end| end > footer_start) {
            return Err(cut());
        }
        let data = buffer.slice_with_length(start, bytes);
        batches.extend(decoder.read_record_batch(block, &data)?);
    }
    Ok((schema, batches))
}
