//! The envelope at the begin of an encrypted object: the content key, wrapped for the one reader.
//!
//! | bytes | |
//! |---|---|
//! | 4 | `LSK`, and 1 for a key of the reader's own, 2 for an inbox |
//! | 4 | the reader's number, little-endian; all ones for a key of the run |
//! | 32 | for an inbox only: the X25519 public key that the writer generated for this object |
//! | 40 or 72 | the content key (for CBC, the keys of MAC and AES), wrapped with AES-256 as in RFC 3394 |
//!
//! The wrapping key of an inbox is HKDF-SHA-256 of the X25519 agreement between the writer's key
//! and the reader's, with both public keys in its info: key agreement with key wrap, as in CMS (RFC
//! 8418). The writer's key is derived from the object, so that any part of an upload can be
//! generated again.

use std::sync::OnceLock;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrap};

use super::content::{CONTENT_KEY_BYTES_MAX, ContentKey, key_bytes};
use super::keys::{KeySource, Length};
use crate::payload::{ObjectId, PayloadSpec, Reader};
use crate::trial::Cipher;

const MAGIC: [u8; 3] = *b"LSK";
const FORM_OWN: u8 = 1;
const FORM_INBOX: u8 = 2;
const FORM_BYTES: usize = 8;
/// Reader number of the run, which is not a user.
const RUN: u32 = u32::MAX;
const PUBLIC_KEY_BYTES: usize = 32;
const WRAPPING_KEY_BYTES: usize = 32;
/// Overhead of RFC 3394.
const WRAP_BYTES: usize = 8;
pub(super) const ENVELOPE_BYTES_MAX: usize =
    FORM_BYTES + PUBLIC_KEY_BYTES + CONTENT_KEY_BYTES_MAX + WRAP_BYTES;

/// Returns the length of the envelope for this reader, in bytes.
#[inline]
pub(super) fn envelope_bytes(cipher: Cipher, reader: Reader) -> usize {
    let public_key = if matches!(reader, Reader::Inbox(_)) { PUBLIC_KEY_BYTES } else { 0 };
    FORM_BYTES + public_key + key_bytes(cipher) + WRAP_BYTES
}

/// The keys of all readers of a trial, and the content keys. All are derived from the run and the
/// seed; a reader's keys are derived when they are first needed.
pub(super) struct KeyRing {
    cipher: Cipher,
    source: KeySource,
    run: [u8; WRAPPING_KEY_BYTES],
    users: Vec<OnceLock<Box<UserKeys>>>,
}

/// The keys of one user: a wrapping key, and the key pair of the inbox.
struct UserKeys {
    own: [u8; WRAPPING_KEY_BYTES],
    inbox: PrivateKey,
    inbox_public: [u8; PUBLIC_KEY_BYTES],
}

impl KeyRing {
    pub(super) fn new(spec: &PayloadSpec, cipher: Cipher, users: u32) -> Self {
        let source = KeySource::of(spec);
        let run = source.derive(b"loadstone run", [0; 3]);
        let users = (0..users).map(|_| OnceLock::new()).collect();
        Self { cipher, source, run, users }
    }

    /// # Panics
    /// The trial has no user with this number.
    fn user(&self, number: u32) -> &UserKeys {
        self.users[number as usize].get_or_init(|| {
            let numbers = [u64::from(number), 0, 0];
            let private: [u8; 32] = self.source.derive(b"loadstone inbox", numbers);
            let (inbox, inbox_public) = pair_of(&private);
            let own = self.source.derive(b"loadstone own", numbers);
            Box::new(UserKeys { own, inbox, inbox_public })
        })
    }

    /// Returns the bytes of an object's content key.
    fn content_bytes(&self, object: &ObjectId) -> [u8; CONTENT_KEY_BYTES_MAX] {
        self.source.derive(b"loadstone content", numbers_of(object))
    }

    pub(super) fn content_key(&self, object: &ObjectId) -> ContentKey {
        ContentKey::new(self.cipher, &self.content_bytes(object)[..key_bytes(self.cipher)])
    }

    /// Creates an object's envelope.
    pub(super) fn wrap(&self, object: &ObjectId) -> Vec<u8> {
        let content = self.content_bytes(object);
        let content = &content[..key_bytes(self.cipher)];
        let mut envelope = vec![0; envelope_bytes(self.cipher, object.reader)];
        envelope[..FORM_BYTES].copy_from_slice(&form_of(object.reader));
        let out = &mut envelope[FORM_BYTES..];
        match object.reader {
            Reader::Run => wrap_by(&self.run, content, out),
            Reader::Owner(user) => wrap_by(&self.user(user).own, content, out),
            Reader::Inbox(user) => {
                let private: [u8; 32] = self.source.derive(b"loadstone writer", numbers_of(object));
                let (writer, public) = pair_of(&private);
                let reader = self.user(user).inbox_public;
                let key = agreed(&writer, &reader, &public, &reader).expect("keys of our own");
                out[..PUBLIC_KEY_BYTES].copy_from_slice(&public);
                wrap_by(&key, content, &mut out[PUBLIC_KEY_BYTES..]);
            }
        }
        envelope
    }

    /// Unwraps the content key for a reader, if the envelope contains one for this reader.
    pub(super) fn unwrap(&self, reader: Reader, envelope: &[u8]) -> Option<ContentKey> {
        let rest = envelope.strip_prefix(&form_of(reader))?;
        let (key, wrapped) = match reader {
            Reader::Run => (self.run, rest),
            Reader::Owner(user) => (self.user(user).own, rest),
            Reader::Inbox(user) => {
                let (public, wrapped) = rest.split_first_chunk::<PUBLIC_KEY_BYTES>()?;
                let user = self.user(user);
                (agreed(&user.inbox, public, public, &user.inbox_public).ok()?, wrapped)
            }
        };
        let mut content = [0; CONTENT_KEY_BYTES_MAX];
        let kek = AesKek::new(&AES_256, &key).expect("32 bytes");
        let content = kek.unwrap(wrapped, &mut content).ok()?;
        (content.len() == key_bytes(self.cipher)).then(|| ContentKey::new(self.cipher, content))
    }
}

/// Returns the first bytes of an envelope for this reader.
fn form_of(reader: Reader) -> [u8; FORM_BYTES] {
    let (form, number) = match reader {
        Reader::Run => (FORM_OWN, RUN),
        Reader::Owner(user) => (FORM_OWN, user),
        Reader::Inbox(user) => (FORM_INBOX, user),
    };
    let mut bytes = [0; FORM_BYTES];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()] = form;
    bytes[MAGIC.len() + 1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn numbers_of(object: &ObjectId) -> [u64; 3] {
    [object.key_hash, object.version, object.length]
}

/// Returns the private key with these bytes, all of which are valid on this curve, and its public
/// key.
fn pair_of(private: &[u8; 32]) -> (PrivateKey, [u8; PUBLIC_KEY_BYTES]) {
    let key = PrivateKey::from_private_key(&X25519, private).expect("32 bytes");
    let public = key.compute_public_key().expect("it has one");
    let public = public.as_ref().try_into().expect("32 bytes");
    (key, public)
}

/// Returns the wrapping key of two parties with these public keys.
fn agreed(
    mine: &PrivateKey,
    theirs: &[u8; PUBLIC_KEY_BYTES],
    writer: &[u8; PUBLIC_KEY_BYTES],
    reader: &[u8; PUBLIC_KEY_BYTES],
) -> Result<[u8; WRAPPING_KEY_BYTES], Unspecified> {
    agree(mine, UnparsedPublicKey::new(&X25519, theirs), Unspecified, |secret| {
        let source = Salt::none(HKDF_SHA256).extract(secret);
        let mut key = [0; WRAPPING_KEY_BYTES];
        let info: [&[u8]; 3] = [b"loadstone wrap", writer, reader];
        source.expand(&info, Length(WRAPPING_KEY_BYTES))?.fill(&mut key)?;
        Ok(key)
    })
}

fn wrap_by(key: &[u8; WRAPPING_KEY_BYTES], content: &[u8], out: &mut [u8]) {
    let kek = AesKek::new(&AES_256, key).expect("32 bytes");
    kek.wrap(content, out).expect("room for the key and 8 bytes");
}
