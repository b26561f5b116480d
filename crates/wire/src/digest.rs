//! Checksums and digests, and their base64 text.

mod lanes;

pub use lanes::{LANES, SHA256_BLOCK_BYTES, Sha256Lanes};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use crc_fast::CrcAlgorithm;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

/// SHA-256 of empty input, in hexadecimal.
pub const SHA256_OF_NOTHING: &[u8; 64] =
    b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Returns the CRC-32C (Castagnoli).
pub fn crc32c(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
        .expect("a checksum of 32 bits fits")
}

/// Returns the CRC-64/NVME, which S3 calls CRC64NVME.
pub fn crc64nvme(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// Returns the MD5.
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// Returns the SHA-256.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// An incremental digest.
#[derive(Debug)]
pub enum Running {
    /// CRC-32.
    Crc32(crc_fast::Digest),
    /// CRC-32C.
    Crc32c(crc_fast::Digest),
    /// CRC-64/NVME.
    Crc64Nvme(crc_fast::Digest),
    /// MD5.
    Md5(Md5),
    /// SHA-1.
    Sha1(Sha1),
    /// SHA-256.
    Sha256(Sha256),
}

impl Running {
    /// Starts a CRC-32, as in zip files.
    pub fn crc32() -> Self {
        Self::Crc32(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc))
    }

    /// Starts a CRC-32C.
    pub fn crc32c() -> Self {
        Self::Crc32c(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Starts a CRC-64/NVME.
    pub fn crc64nvme() -> Self {
        Self::Crc64Nvme(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme))
    }

    /// Starts an MD5.
    pub fn md5() -> Self {
        Self::Md5(Md5::new())
    }

    /// Starts a SHA-1.
    pub fn sha1() -> Self {
        Self::Sha1(Sha1::new())
    }

    /// Starts a SHA-256.
    pub fn sha256() -> Self {
        Self::Sha256(Sha256::new())
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Crc32(digest) | Self::Crc32c(digest) | Self::Crc64Nvme(digest) => {
                digest.update(bytes);
            }
            Self::Md5(digest) => digest.update(bytes),
            Self::Sha1(digest) => digest.update(bytes),
            Self::Sha256(digest) => digest.update(bytes),
        }
    }

    /// Returns the digest and its length; checksums are big-endian, as S3 requires.
    pub fn finish(self) -> ([u8; 32], usize) {
        let mut out = [0; 32];
        let length = match self {
            Self::Crc32(digest) | Self::Crc32c(digest) => {
                copy(&mut out, &digest.finalize().to_be_bytes()[4..])
            }
            Self::Crc64Nvme(digest) => copy(&mut out, &digest.finalize().to_be_bytes()),
            Self::Md5(digest) => copy(&mut out, &digest.finalize()),
            Self::Sha1(digest) => copy(&mut out, &digest.finalize()),
            Self::Sha256(digest) => copy(&mut out, &digest.finalize()),
        };
        (out, length)
    }
}

fn copy(out: &mut [u8; 32], bytes: &[u8]) -> usize {
    out[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

/// The base64 text of a digest, without allocation.
#[derive(Clone, Copy, Debug)]
pub struct Base64 {
    text: [u8; 44],
    length: usize,
}

impl Base64 {
    /// Encodes at most 32 bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut text = [0; 44];
        let length = STANDARD
            .encode_slice(bytes, &mut text)
            .expect("a digest has at most 32 bytes, whose text has 44");
        Self { text, length }
    }

    /// Returns the text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{hex_of_sha256, write_hex};

    #[test]
    fn checksums_have_the_check_values_of_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc64nvme(b"123456789"), 0xae8b_1486_0a79_9888);
        assert_eq!((crc32c(b""), crc64nvme(b"")), (0, 0));
    }

    #[test]
    fn digests_of_empty_input_are_right() {
        let mut hex = Vec::new();
        write_hex(&mut hex, &md5(b""));
        assert_eq!(hex, b"d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(&hex_of_sha256(&sha256(b"")), SHA256_OF_NOTHING);
    }

    #[test]
    fn an_incremental_digest_equals_that_of_the_whole() {
        let starts: [fn() -> Running; 5] =
            [Running::crc32c, Running::crc64nvme, Running::md5, Running::sha256, Running::crc32];
        let digests = starts.map(|start| {
            let mut running = start();
            b"123456789".chunks(4).for_each(|piece| running.update(piece));
            let (bytes, length) = running.finish();
            bytes[..length].to_vec()
        });
        assert_eq!(digests[0], crc32c(b"123456789").to_be_bytes());
        assert_eq!(digests[1], crc64nvme(b"123456789").to_be_bytes());
        assert_eq!(digests[2], md5(b"123456789"));
        assert_eq!(digests[3], sha256(b"123456789"));
        // The check value of the catalogue.
        assert_eq!(digests[4], 0xcbf4_3926_u32.to_be_bytes());
    }

    #[test]
    fn base64_is_padded() {
        assert_eq!(Base64::of(b"a").as_bytes(), b"YQ==");
        assert_eq!(Base64::of(&[0xff; 32]).as_bytes().len(), 44);
        assert_eq!(Base64::of(b"").as_bytes(), b"");
    }
}
