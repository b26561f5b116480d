//! The content key of one object, which encrypts and decrypts the pieces of the object.
//!
//! | a piece of | begins with | then | then |
//! |---|---|---|---|
//! | aes-256-gcm | nonce (12 bytes) | ciphertext, as long as the plaintext | tag (16), no further data authenticated |
//! | aes-256-cbc | IV (16 bytes) | ciphertext of the plaintext and 16 bytes of PKCS#7 padding | HMAC-SHA-256 of IV and ciphertext (32) |
//!
//! A piece of CBC consists of whole blocks; the rest of its space, up to 15 bytes, is not part of
//! it.

use std::fmt;
use std::ops::Range;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::hmac;

use crate::trial::Cipher;

const TAG_BYTES: usize = 16;
const BLOCK_BYTES: usize = 16;
const IV_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
const MAC_BYTES: usize = 32;
const AES_KEY_BYTES: usize = 32;
const MAC_KEY_BYTES: usize = 32;
/// PKCS#7 padding of a whole block.
const PADDING: [u8; BLOCK_BYTES] = [BLOCK_BYTES as u8; BLOCK_BYTES];
/// Maximum length of a content key: one key for the MAC and one for AES.
pub(super) const CONTENT_KEY_BYTES_MAX: usize = MAC_KEY_BYTES + AES_KEY_BYTES;
/// A shorter piece has no room for plaintext, with any cipher.
pub(super) const PIECE_BYTES_MIN_MAX: usize = IV_BYTES + PADDING.len() + MAC_BYTES;

/// Returns the length of a content key, in bytes.
pub(super) fn key_bytes(cipher: Cipher) -> usize {
    match cipher {
        Cipher::Aes256Gcm => AES_KEY_BYTES,
        Cipher::Aes256Cbc => MAC_KEY_BYTES + AES_KEY_BYTES,
    }
}

/// Returns the length of the nonce or IV at the begin of a piece, in bytes.
pub(super) fn nonce_bytes(cipher: Cipher) -> usize {
    match cipher {
        Cipher::Aes256Gcm => NONCE_BYTES,
        Cipher::Aes256Cbc => IV_BYTES,
    }
}

/// Returns the length of the piece in a space of this length; filler follows.
#[inline]
pub(super) fn piece_bytes(cipher: Cipher, room_bytes: usize) -> usize {
    match cipher {
        Cipher::Aes256Gcm => room_bytes,
        Cipher::Aes256Cbc => room_bytes - room_bytes % BLOCK_BYTES,
    }
}

/// Returns the range of the plaintext in a space of this length, if there is room for any.
#[inline]
pub(super) fn plain_range(cipher: Cipher, room_bytes: usize) -> Option<Range<usize>> {
    let behind = match cipher {
        Cipher::Aes256Gcm => TAG_BYTES,
        Cipher::Aes256Cbc => PADDING.len() + MAC_BYTES,
    };
    let start = nonce_bytes(cipher);
    let end = piece_bytes(cipher, room_bytes).checked_sub(behind)?;
    (start <= end).then_some(start..end)
}

/// The key of one object's content.
pub struct ContentKey(Keys);

enum Keys {
    Gcm(Box<LessSafeKey>),
    Cbc(Box<CbcKeys>),
}

struct CbcKeys {
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
    mac: hmac::Key,
}

impl fmt::Debug for ContentKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ContentKey")
    }
}

impl ContentKey {
    /// Creates the key from its bytes; for CBC, the key of the MAC comes first.
    ///
    /// # Panics
    /// The number of bytes does not match the cipher.
    pub(super) fn new(cipher: Cipher, bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), key_bytes(cipher), "a key of content");
        match cipher {
            Cipher::Aes256Gcm => {
                let key = UnboundKey::new(&AES_256_GCM, bytes).expect("32 bytes");
                Self(Keys::Gcm(Box::new(LessSafeKey::new(key))))
            }
            Cipher::Aes256Cbc => {
                let (mac, aes) = bytes.split_at(MAC_KEY_BYTES);
                let block_key = || UnboundCipherKey::new(&AES_256, aes).expect("32 bytes");
                Self(Keys::Cbc(Box::new(CbcKeys {
                    encrypting: EncryptingKey::cbc(block_key()).expect("AES has this mode"),
                    decrypting: DecryptingKey::cbc(block_key()).expect("AES has this mode"),
                    mac: hmac::Key::new(hmac::HMAC_SHA256, mac),
                })))
            }
        }
    }

    fn cipher(&self) -> Cipher {
        match &self.0 {
            Keys::Gcm(_) => Cipher::Aes256Gcm,
            Keys::Cbc(_) => Cipher::Aes256Cbc,
        }
    }

    /// Encrypts a piece in place: nonce and plaintext are already in position.
    ///
    /// # Panics
    /// There is no room for plaintext.
    #[inline]
    pub fn seal(&self, room: &mut [u8]) {
        let plain = plain_range(self.cipher(), room.len()).expect("room for a plaintext");
        match &self.0 {
            Keys::Gcm(key) => {
                let nonce = nonce_of(room);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut room[plain]);
                let tag = tag.expect("a piece is far below what the mode can do");
                let tag_start = room.len() - TAG_BYTES;
                room[tag_start..].copy_from_slice(tag.as_ref());
            }
            Keys::Cbc(keys) => {
                let padded = plain.start..plain.end + PADDING.len();
                room[plain.end..padded.end].copy_from_slice(&PADDING);
                let context = EncryptionContext::Iv128(iv_of(room).into());
                let done = keys.encrypting.less_safe_encrypt(&mut room[padded.clone()], context);
                done.expect("whole blocks");
                let mac = hmac::sign(&keys.mac, &room[..padded.end]);
                room[padded.end..padded.end + MAC_BYTES].copy_from_slice(mac.as_ref());
            }
        }
    }

    /// Decrypts a piece in place; returns the range of the plaintext, or `None` if the tag or the
    /// MAC does not match.
    #[inline]
    #[must_use]
    pub fn open(&self, room: &mut [u8]) -> Option<Range<usize>> {
        let plain = plain_range(self.cipher(), room.len())?;
        match &self.0 {
            Keys::Gcm(key) => {
                let nonce = nonce_of(room);
                key.open_in_place(nonce, Aad::empty(), &mut room[NONCE_BYTES..]).ok()?;
            }
            Keys::Cbc(keys) => {
                let padded = plain.start..plain.end + PADDING.len();
                let (sealed, mac) = room[..padded.end + MAC_BYTES].split_at(padded.end);
                hmac::verify(&keys.mac, sealed, mac).ok()?;
                let context = DecryptionContext::Iv128(iv_of(room).into());
                keys.decrypting.decrypt(&mut room[padded.clone()], context).ok()?;
                if room[plain.end..padded.end] != PADDING {
                    return None;
                }
            }
        }
        Some(plain)
    }
}

fn nonce_of(piece: &[u8]) -> Nonce {
    let nonce = piece.first_chunk::<NONCE_BYTES>().expect("a piece begins with its nonce");
    Nonce::assume_unique_for_key(*nonce)
}

fn iv_of(piece: &[u8]) -> [u8; IV_BYTES] {
    *piece.first_chunk().expect("a piece begins with its IV")
}
