//! Keys of objects with encrypted paths, as in Cryptomator and Datasafe: each segment is encrypted
//! with AES-SIV (RFC 5297) and written in base64url without padding.
//!
//! AES-SIV is deterministic, so a name always has the same ciphertext, and a listing of a prefix of
//! whole segments finds the keys below it. The associated data is the part of the stored key before
//! the segment: a name that is moved to another folder, or to another user, cannot be decrypted
//! there.
//!
//! Keys that encrypt each part, with the permissions of writers in mind:
//!
//! | key | plain part | the rest is encrypted with |
//! |---|---|---|
//! | of a plain dataset, or of a script's object in no space | `object_prefix` | the run's key |
//! | `USER/private/…` | up to there | the user's own key |
//! | `USER/inbox/…` | up to there | the run's key: another writer does not have the user's key |
//! | `USER/keystore`, `USER/profile/…` | everything: it is read before any key is known | |
//! | `USER/…` otherwise | `USER/` | the run's key |
//!
//! Empty segments stay empty, so a prefix that ends in a slash stays a prefix when it is encrypted.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use aes_siv::siv::Aes256Siv;
use aes_siv::{KeyInit, Tag};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::flat_bytes;
use crate::cryptography::{Kind, spend};
use crate::error::Error;
use crate::payload::PayloadSpec;
use crate::payload::sealed::KeySource;
use crate::script::{Hashed, Subjects};
use crate::trial::Trial;

/// Length of RFC 5297's synthetic IV, which precedes the ciphertext.
const IV_BYTES: usize = 16;
const KEY_BYTES: usize = 64;

/// Two AES-256 keys: for the IV and for the cipher.
type Key = [u8; KEY_BYTES];

/// Encrypts and decrypts the keys of a trial's objects; one value serves all threads.
pub(super) struct SealedPaths {
    /// Common prefix of all keys of the dataset, which stays plain.
    prefix: String,
    source: KeySource,
    run: Key,
    users: HashMap<String, User>,
}

/// A user of a script; the key is derived when it is first needed.
struct User {
    number: u32,
    key: OnceLock<Key>,
}

impl fmt::Debug for SealedPaths {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SealedPaths")
    }
}

impl SealedPaths {
    /// Creates the encryption of a trial's keys, if they are encrypted.
    pub(super) fn of_trial(trial: &Trial) -> Option<Arc<Self>> {
        trial.dataset.path_encryption?;
        let users = trial.open_script.as_ref().map(|script| script.subjects.named_users());
        let spec = PayloadSpec::of_trial(trial);
        Some(Arc::new(Self::new(&spec, &trial.dataset.object_prefix, users.unwrap_or_default())))
    }

    fn new(spec: &PayloadSpec, prefix: &str, users: HashMap<String, u32>) -> Self {
        let source = KeySource::of(spec);
        let run = source.derive(b"loadstone run paths", [0; 3]);
        let users = users.into_iter();
        let users = users.map(|(name, number)| (name, User { number, key: OnceLock::new() }));
        Self { prefix: prefix.to_owned(), source, run, users: users.collect() }
    }

    /// Appends the stored form of a key, or of the prefix of a listing, without the common prefix.
    pub(super) fn seal(&self, key_text: &str, out: &mut Vec<u8>) {
        spend(Kind::Paths, || {
            let base = out.len();
            out.extend_from_slice(self.prefix.as_bytes());
            let (head, rest, key) = self.split(key_text);
            out.extend_from_slice(head.as_bytes());
            // Created only if needed: its key schedule costs a seventh of encrypting a name, and a
            // prefix often has no names.
            let mut siv = None;
            for (number, segment) in rest.split('/').enumerate() {
                if number > 0 {
                    out.push(b'/');
                }
                if !segment.is_empty() {
                    let siv = siv.get_or_insert_with(|| Aes256Siv::new(key.into()));
                    let sealed = seal_segment(siv, &out[base..], segment);
                    out.extend_from_slice(sealed.as_bytes());
                }
            }
        });
    }

    /// Returns the plaintext of a whole stored key; `None` if it cannot be decrypted.
    pub(super) fn open(&self, stored: &str) -> Option<String> {
        spend(Kind::Paths, || {
            let sealed_text = stored.strip_prefix(&self.prefix)?;
            let (head, rest, key) = self.split(sealed_text);
            let mut at = self.prefix.len() + head.len();
            let mut plain = stored[..at].to_owned();
            let mut siv = None;
            for (number, segment) in rest.split('/').enumerate() {
                if number > 0 {
                    plain.push('/');
                    at += 1;
                }
                if !segment.is_empty() {
                    let siv = siv.get_or_insert_with(|| Aes256Siv::new(key.into()));
                    plain.push_str(&open_segment(siv, &stored.as_bytes()[..at], segment)?);
                }
                at += segment.len();
            }
            Some(plain)
        })
    }

    /// Splits a key into its plain part and the part to encrypt, and returns the encryption key.
    fn split<'k>(&self, key_text: &'k str) -> (&'k str, &'k str, &Key) {
        let (head, rest, user) = split(key_text, |name| self.users.get(name));
        (head, rest, user.map_or(&self.run, |user| self.key_of(user)))
    }

    fn key_of<'u>(&self, user: &'u User) -> &'u Key {
        let make = || self.source.derive(b"loadstone paths", [u64::from(user.number), 0, 0]);
        user.key.get_or_init(make)
    }
}

/// Splits a key into its plain part and the part to encrypt, and returns the user whose own key
/// encrypts it, if any. It examines the plain part only, so it splits stored keys in the same way.
fn split<U>(key_text: &str, find: impl FnOnce(&str) -> Option<U>) -> (&str, &str, Option<U>) {
    let whole = ("", key_text, None);
    let Some((name, below)) = key_text.split_once('/') else { return whole };
    let Some(user) = find(name) else { return whole };
    if below == "keystore" || below.starts_with("profile/") {
        return (key_text, "", None);
    }
    let (space, user) = match below.split_once('/') {
        Some(("private", _)) => ("private/", Some(user)),
        Some(("inbox", _)) => ("inbox/", None),
        _ => ("", None),
    };
    let (head, rest) = key_text.split_at(name.len() + 1 + space.len());
    (head, rest, user)
}

/// Returns the stored length of a segment of a key.
#[must_use]
pub fn sealed_bytes(segment_bytes: usize) -> usize {
    match segment_bytes {
        0 => 0,
        // Base64 without padding.
        bytes => (4 * (IV_BYTES + bytes)).div_ceil(3),
    }
}

/// A key of a script, and its stored length with encrypted paths, both without the common prefix.
pub type Stored = (String, usize);

/// Returns the script's key with the longest stored form, and the one with the longest file name.
///
/// # Errors
/// The file is missing, differs from what the planner wrote, or contains no subjects.
pub fn longest_sealed(path: &Path, sha256: &str) -> Result<(Stored, Stored), Error> {
    let subjects = Subjects::open(Hashed { path, sha256 }, "")?;
    let users = subjects.named_users();
    let (mut longest, mut longest_flat) = ((0, ""), (0, ""));
    for key_text in (0..subjects.len()).map(|subject| subjects.key(subject)) {
        let (bytes, flat_bytes) = stored_bytes(key_text, |name| users.get(name));
        longest = longest.max((bytes, key_text));
        longest_flat = longest_flat.max((flat_bytes, key_text));
    }
    let named = |(bytes, key_text): (usize, &str)| (key_text.to_owned(), bytes);
    Ok((named(longest), named(longest_flat)))
}

/// Returns the stored length of a key, and its length as a file name.
fn stored_bytes<U>(key_text: &str, find: impl FnOnce(&str) -> Option<U>) -> (usize, usize) {
    let (head, rest, _) = split(key_text, find);
    let slashes = rest.matches('/').count();
    let sealed =
        slashes + rest.split('/').map(|segment| sealed_bytes(segment.len())).sum::<usize>();
    // The characters of an encrypted segment need no escapes in a file name.
    (head.len() + sealed, flat_bytes(head) + sealed + slashes * (flat_bytes("/") - 1))
}

/// AES-SIV in place. RFC 5297 has test vectors only for shorter keys than ours.
trait Siv {
    fn encrypt(&mut self, before: &[u8], text: &mut [u8]) -> Tag;
    /// Returns whether the text was encrypted with the same associated data; if not, it is
    /// unchanged.
    #[must_use]
    fn decrypt(&mut self, before: &[u8], text: &mut [u8], iv: &Tag) -> bool;
}

macro_rules! siv {
    ($cipher:ty) => {
        impl Siv for $cipher {
            fn encrypt(&mut self, before: &[u8], text: &mut [u8]) -> Tag {
                self.encrypt_inout_detached([before], text.into()).expect("one header is allowed")
            }

            fn decrypt(&mut self, before: &[u8], text: &mut [u8], iv: &Tag) -> bool {
                self.decrypt_inout_detached([before], text.into(), iv).is_ok()
            }
        }
    };
}

siv!(Aes256Siv);

/// Returns the stored form of a segment that follows `before`.
fn seal_segment(siv: &mut impl Siv, before: &[u8], segment: &str) -> String {
    let mut bytes = vec![0; IV_BYTES + segment.len()];
    let (iv, text) = bytes.split_at_mut(IV_BYTES);
    text.copy_from_slice(segment.as_bytes());
    iv.copy_from_slice(&siv.encrypt(before, text));
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the plaintext of a stored segment that follows `before`, if it was encrypted there.
fn open_segment(siv: &mut impl Siv, before: &[u8], stored: &str) -> Option<String> {
    let mut bytes = URL_SAFE_NO_PAD.decode(stored).ok()?;
    let (iv, text) = bytes.split_at_mut_checked(IV_BYTES)?;
    let iv = Tag::try_from(&*iv).ok()?;
    if !siv.decrypt(before, text, &iv) {
        return None;
    }
    String::from_utf8(bytes.split_off(IV_BYTES)).ok()
}

#[cfg(test)]
mod tests {
    use aes_siv::siv::Aes128Siv;

    use super::*;
    use crate::chance::mix64;
    use crate::dataset::write_flat;

    siv!(Aes128Siv);

    const USERS: [&str; 3] = ["ann", "bob", "user-12"];

    fn paths(run: u8, seed: u64) -> SealedPaths {
        let users = USERS.iter().zip(0..).map(|(name, number)| ((*name).to_owned(), number));
        SealedPaths::new(&PayloadSpec::new([run; 16], seed, 0.0, 0.0), "bench-", users.collect())
    }

    fn sealed(paths: &SealedPaths, key_text: &str) -> String {
        let mut out = b"before".to_vec();
        paths.seal(key_text, &mut out);
        String::from_utf8(out.split_off(6)).expect("base64 is text")
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        let pair = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
        digits.map(|digits| pair(digits).expect("two digits")).collect()
    }

    /// Appendix A.1 of RFC 5297.
    #[test]
    fn the_test_vector_of_the_rfc_is_reproduced() {
        let key = hex("fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
        let header = hex("101112131415161718191a1b1c1d1e1f2021222324252627");
        let plain = hex("112233445566778899aabbccddee");
        let answer = hex("85632d07c6e8f37f950acd320a2ecc9340c02b9690c4dc04daef7f6afe5c");
        let mut siv = Aes128Siv::new_from_slice(&key).expect("32 bytes");
        let mut text = plain.clone();
        let iv = siv.encrypt(&header, &mut text);
        assert_eq!([&iv[..], &text].concat(), answer);
        assert!(siv.decrypt(&header, &mut text, &iv));
        assert_eq!(text, plain);
        assert!(!siv.decrypt(&header[1..], &mut text, &iv));
    }

    /// Result of pyca's `AESSIV`, which uses OpenSSL, for the same input with a key of 512 bits.
    #[test]
    fn a_sealed_segment_equals_that_of_another_implementation() {
        let key: Key = std::array::from_fn(|at| at as u8);
        let mut siv = Aes256Siv::new(&key.into());
        for (before, segment, stored) in ANSWERS {
            assert_eq!(seal_segment(&mut siv, before.as_bytes(), segment), stored);
            let opened = open_segment(&mut siv, before.as_bytes(), stored);
            assert_eq!(opened.as_deref(), Some(segment));
            assert_eq!(sealed_bytes(segment.len()), stored.len());
        }
    }

    const ANSWERS: [(&str, &str, &str); 3] = [
        ("", "a", "8Zbi--zU6M8W5XXokC4Vzw0"),
        ("bench-ann/private/", "file-1", "VBgl-1PjFJ7E2oMyJasJgtY-T3tIcQ"),
        (
            "bench-ann/private/",
            "a name of more than one block, ünd more",
            "x6_6KFmQ4JqwurswSkcu3s7k2MMUeytsi6GfkSRflQ_NqFLC3lqptZEu-nspcmc0X2izvn-11es",
        ),
    ];

    #[test]
    fn sealed_keys_open_and_contain_no_plaintext() {
        let paths = paths(7, 42);
        for key_text in [
            "7",
            "file",
            "a/b/c",
            "a//b/",
            "ann/private/dir/file",
            "ann/inbox/file",
            "ann/other",
            "ann",
            "ünd/日本",
            "zoe/private/file",
        ] {
            let stored = sealed(&paths, key_text);
            assert_eq!(sealed(&paths, key_text), stored);
            assert_eq!(paths.open(&stored), Some(format!("bench-{key_text}")));
            let hidden = key_text.rsplit('/').next().expect("a last one");
            assert!(hidden.is_empty() || !stored[6..].split('/').any(|segment| segment == hidden));
        }
        for key_text in ["ann/keystore", "ann/profile/public", "ann/", "ann/private/", ""] {
            assert_eq!(sealed(&paths, key_text), format!("bench-{key_text}"));
            assert_eq!(paths.open(&format!("bench-{key_text}")), Some(format!("bench-{key_text}")));
        }
        assert!(sealed(&paths, "ann/private/x").starts_with("bench-ann/private/"));
        assert!(sealed(&paths, "ann/other").starts_with("bench-ann/"));
    }

    #[test]
    fn a_sealed_prefix_is_a_prefix_of_the_sealed_keys_below_it() {
        let paths = paths(7, 42);
        for (prefix, key) in [
            ("a/b/", "a/b/c/d"),
            ("ann/private/x/", "ann/private/x/y"),
            ("ann/", "ann/inbox/x"),
            ("bob/inbox/x/", "bob/inbox/x/z"),
            ("", "q"),
        ] {
            assert!(sealed(&paths, key).starts_with(&sealed(&paths, prefix)), "{prefix}");
        }
    }

    #[test]
    fn a_key_opens_only_with_its_run_seed_user_and_place() {
        let sealer = paths(7, 42);
        let stored = sealed(&sealer, "ann/private/dir/file");
        assert_eq!(paths(8, 42).open(&stored), None);
        assert_eq!(paths(7, 43).open(&stored), None);
        assert_eq!(sealer.open(&stored.replace("ann/", "bob/")), None);
        assert_eq!(sealer.open(&stored.replace("private", "inbox")), None);
        assert_eq!(sealer.open(&stored.replace("bench-", "")), None);
        let (folder, name) = stored.rsplit_once('/').expect("it has some");
        assert_eq!(sealer.open(&format!("bench-ann/private/{name}")), None);
        assert!(sealer.open(folder).is_some());
        // Each text except one: another case, an additional digit, padding, a plain name, unused
        // bits at the end.
        for wrong in [
            stored.to_lowercase(),
            format!("{stored}A"),
            format!("{stored}="),
            "bench-ann/private/dir/file".to_owned(),
            stored[..stored.len() - 1].to_owned(),
        ] {
            assert_eq!(sealer.open(&wrong), None, "{wrong}");
        }
        let end = stored.as_bytes()[stored.len() - 1];
        let others = (b'A'..=b'Z').filter(|letter| *letter != end);
        for other in others {
            let other = format!("{}{}", &stored[..stored.len() - 1], other as char);
            assert_eq!(sealer.open(&other), None, "{other}");
        }
        let inbox = sealed(&sealer, "ann/inbox/file");
        assert_eq!(sealer.open(&inbox.replace("ann/", "bob/")), None);
    }

    #[test]
    fn random_keys_open_again_and_are_sealed_differently() {
        let paths = paths(1, 2);
        let letters = ["a", "b", "/", "ann", "bob", "private", "inbox", "-", "é", "profile", "%"];
        let mut known = HashMap::new();
        for number in 0..20_000_u64 {
            let mut chance = mix64(number);
            let mut key_text = String::new();
            for _ in 0..chance % 9 {
                chance = mix64(chance);
                key_text.push_str(letters[(chance % letters.len() as u64) as usize]);
            }
            let stored = sealed(&paths, &key_text);
            assert_eq!(paths.open(&stored).as_deref(), Some(&*format!("bench-{key_text}")));
            let (bytes, flat_bytes) = stored_bytes(&key_text, |name| paths.users.get(name));
            let mut flat = Vec::new();
            write_flat(&stored.as_bytes()["bench-".len()..], &mut flat);
            assert_eq!(
                (bytes, flat_bytes),
                (stored.len() - "bench-".len(), flat.len()),
                "{key_text}"
            );
            let before = known.insert(stored, key_text.clone());
            assert!(before.is_none_or(|before| before == key_text), "{key_text}");
        }
        assert!(known.len() > 5_000, "{}", known.len());
    }
}
