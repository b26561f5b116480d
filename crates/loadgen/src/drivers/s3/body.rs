//! Computes the digests of bodies before they are sent.

use loadstone_wire::digest::{Base64, Running};

use super::target::Checksum;
use crate::cryptography::{Kind, spend};
use crate::transport::socket::{Buffers, OUTPUT_BYTES};
use crate::transport::transfer::Upload;

/// Returns the header with a body's checksum.
pub(super) fn checksum_header<U: Upload>(
    checksum: Checksum,
    upload: &U,
    buffers: &Buffers,
) -> Option<(&'static str, Base64)> {
    let (name, running) = match checksum {
        Checksum::None => return None,
        Checksum::Crc32 => ("x-amz-checksum-crc32", Running::crc32()),
        Checksum::Crc32c => ("x-amz-checksum-crc32c", Running::crc32c()),
        Checksum::Crc64Nvme => ("x-amz-checksum-crc64nvme", Running::crc64nvme()),
        Checksum::Md5 => ("content-md5", Running::md5()),
        Checksum::Sha1 => ("x-amz-checksum-sha1", Running::sha1()),
        Checksum::Sha256 => ("x-amz-checksum-sha256", Running::sha256()),
    };
    let (bytes, length) = digest(running, upload, buffers);
    Some((name, Base64::of(&bytes[..length])))
}

/// Computes the SHA-256 of a body.
pub(super) fn sha256<U: Upload>(upload: &U, buffers: &Buffers) -> [u8; 32] {
    digest(Running::sha256(), upload, buffers).0
}

/// Computes the digest of a body, which is generated for this and again when it is sent.
fn digest<U: Upload>(mut running: Running, upload: &U, buffers: &Buffers) -> ([u8; 32], usize) {
    let mut output = buffers.output.borrow_mut();
    let mut offset = 0;
    while offset < upload.length() {
        let left = usize::try_from(upload.length() - offset).unwrap_or(usize::MAX);
        let chunk = output.payload(left.min(OUTPUT_BYTES));
        upload.write(offset, chunk);
        spend(Kind::Hashing, || running.update(chunk));
        offset += chunk.len() as u64;
    }
    spend(Kind::Hashing, || running.finish())
}
