//! Encrypted objects: any part can be generated alone, only its reader can unwrap an object's key,
//! and every kind of damage has its own verdict.

use std::sync::Arc;

use loadstone_loadgen::payload::sealed::{Opener, SEGMENT_BYTES, Sealer, SealingKey};
use loadstone_loadgen::payload::{ObjectId, PayloadSpec, Reader, Verdict, fill};
use loadstone_loadgen::trial::{Cipher, Trial};
use serde_json::{Value, json};

const CIPHERS: [Cipher; 2] = [Cipher::Aes256Gcm, Cipher::Aes256Cbc];
const READERS: [Reader; 3] = [Reader::Run, Reader::Owner(1), Reader::Inbox(1)];
/// Number of users with keys in these tests.
const USERS: u32 = 3;
/// Around the minimum with room for plaintext: 76 and 108 bytes with GCM, 144 and 176 with CBC.
const LENGTHS: [u64; 23] = [
    0, 1, 15, 16, 17, 75, 76, 77, 107, 108, 143, 144, 145, 175, 176, 4096, 65_535, 65_536, 65_537,
    65_563, 65_600, 131_072, 200_000,
];

fn key_of(run: u8, seed: u64, cipher: Cipher) -> Arc<SealingKey> {
    Arc::new(SealingKey::new(&PayloadSpec::new([run; 16], seed, 0.0, 0.0), cipher, USERS))
}

fn key(cipher: Cipher) -> Arc<SealingKey> {
    key_of(7, 42, cipher)
}

fn made(key: &Arc<SealingKey>, object: &ObjectId) -> Vec<u8> {
    let mut bytes = vec![0xaa; usize::try_from(object.length).expect("small")];
    Sealer::new(key).write(object, 0, &mut bytes);
    bytes
}

fn verdict(key: &Arc<SealingKey>, object: &ObjectId, bytes: &[u8]) -> Verdict {
    let mut opener = Opener::new(key);
    opener.start(object, true);
    opener.update(bytes);
    opener.finish()
}

fn unverified(key: &Arc<SealingKey>, object: &ObjectId, bytes: &[u8]) -> Verdict {
    let mut opener = Opener::new(key);
    opener.start(object, false);
    opener.update(bytes);
    opener.finish()
}

/// Every cipher with every kind of reader.
fn cases() -> impl Iterator<Item = (Cipher, Reader)> {
    CIPHERS.into_iter().flat_map(|cipher| READERS.map(|reader| (cipher, reader)))
}

fn object_for(reader: Reader, length: u64) -> ObjectId {
    ObjectId { reader, ..ObjectId::new(5, 3, length) }
}

/// A pseudo-random sequence of numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn sealed_objects_open_in_pieces_of_any_size() {
    let mut chance = Chance(1);
    for (cipher, reader) in cases() {
        let key = key(cipher);
        let mut opener = Opener::new(&key);
        for length in LENGTHS {
            let object = object_for(reader, length);
            let bytes = made(&key, &object);
            assert_eq!(verdict(&key, &object, &bytes), Verdict::Ok, "{length} at once");
            assert_eq!(unverified(&key, &object, &bytes), Verdict::Ok, "{length} unverified");
            for _ in 0..5 {
                opener.start(&object, true);
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let bound = [70, 5000, 100_000][chance.below(3)];
                    let (piece, left) = rest.split_at((1 + chance.below(bound)).min(rest.len()));
                    opener.update(piece);
                    rest = left;
                }
                assert_eq!(opener.finish(), Verdict::Ok, "{length} in pieces");
                assert_eq!(opener.opened_bytes(), length);
            }
        }
    }
}

#[test]
fn any_part_equals_that_of_the_whole() {
    let mut chance = Chance(2);
    for (cipher, reader) in cases() {
        let key = key(cipher);
        // One sealer for several objects, like the clients of a thread.
        let mut sealer = Sealer::new(&key);
        let lengths = LENGTHS.into_iter().filter(|length| *length > 0);
        let objects: Vec<_> = lengths
            .map(|length| ObjectId { key_hash: length, ..object_for(reader, length) })
            .collect();
        let whole: Vec<_> = objects.iter().map(|object| made(&key, object)).collect();
        for _ in 0..600 {
            let place = chance.below(objects.len());
            let start = chance.below(whole[place].len());
            let end = start + 1 + chance.below(whole[place].len() - start);
            let mut part = vec![0; end - start];
            sealer.write(&objects[place], start as u64, &mut part);
            assert!(part == whole[place][start..end], "{start}..{end} of {:?}", objects[place]);
        }
    }
}

/// Layouts from the reference: lengths of the envelope, the nonce, and the data after the
/// plaintext.
fn layout(cipher: Cipher, reader: Reader) -> (usize, usize, usize) {
    let public_key = if matches!(reader, Reader::Inbox(_)) { 32 } else { 0 };
    match cipher {
        Cipher::Aes256Gcm => (8 + public_key + 40, 12, 16),
        Cipher::Aes256Cbc => (8 + public_key + 72, 16, 16 + 32),
    }
}

#[test]
fn the_plaintext_is_the_payload_of_a_shorter_object() {
    for (cipher, reader) in cases() {
        let key = key(cipher);
        let object = object_for(reader, 2 * SEGMENT_BYTES as u64);
        let plain = key.plain_object(&object);
        let (envelope, nonce, behind) = layout(cipher, reader);
        let overhead = envelope + 2 * (nonce + behind);
        assert_eq!(plain.length, (2 * SEGMENT_BYTES - overhead) as u64, "{cipher:?} {reader:?}");
        let mut expected = vec![0; usize::try_from(plain.length).expect("small")];
        fill(&PayloadSpec::new([7; 16], 42, 0.0, 0.0), &plain, 0, &mut expected);
        let mut bytes = made(&key, &object);
        let content = key.content_key(&object);
        let mut plaintext = Vec::new();
        for (number, segment) in bytes.chunks_mut(SEGMENT_BYTES).enumerate() {
            let piece = if number == 0 { &mut segment[envelope..] } else { segment };
            let range = content.open(piece).expect("the tag fits");
            plaintext.extend_from_slice(&piece[range]);
        }
        assert!(plaintext == expected, "{cipher:?} {reader:?}");
    }
}

#[test]
fn every_flipped_bit_outside_filler_is_corrupt_even_unverified() {
    for (cipher, reader) in cases() {
        let key = key(cipher);
        let (envelope, nonce, behind) = layout(cipher, reader);
        let least = envelope + nonce + behind;
        for length in [least, least + 1, least + 60, 4099, SEGMENT_BYTES + 50] {
            let object = object_for(reader, length as u64);
            let bytes = made(&key, &object);
            // The bytes that do not fill a block of CBC, and a last segment without room for
            // plaintext.
            let (filler, is_cut) = (length % 16, length > SEGMENT_BYTES);
            let filler = if is_cut { length - SEGMENT_BYTES } else { filler };
            for place in (0..bytes.len()).step_by(1 + bytes.len() / 300) {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1 << (place % 8);
                let case = format!("{place} of {length}, {cipher:?} {reader:?}");
                assert_eq!(verdict(&key, &object, &damaged), Verdict::Corrupt, "{case}");
                let is_filler = cipher == Cipher::Aes256Cbc && place >= length - filler;
                let expected = if is_filler { Verdict::Ok } else { Verdict::Corrupt };
                assert_eq!(unverified(&key, &object, &damaged), expected, "{case}, unverified");
            }
        }
    }
}

#[test]
fn a_swapped_mac_is_corrupt() {
    let key = key(Cipher::Aes256Cbc);
    let object = ObjectId::new(5, 3, 2 * SEGMENT_BYTES as u64);
    let mut bytes = made(&key, &object);
    // Both MACs are valid, but for the other's ciphertext.
    let (first, second) = bytes.split_at_mut(SEGMENT_BYTES);
    first[SEGMENT_BYTES - 32..].swap_with_slice(&mut second[SEGMENT_BYTES - 32..]);
    assert_eq!(unverified(&key, &object, &bytes), Verdict::Corrupt);
}

#[test]
fn only_the_reader_unwraps_the_key_of_an_object() {
    for (cipher, reader) in cases() {
        let key = key(cipher);
        let mut bytes = made(&key, &object_for(reader, 4096));
        for other in
            [Reader::Run, Reader::Owner(1), Reader::Owner(2), Reader::Inbox(1), Reader::Inbox(2)]
        {
            let object = object_for(other, 4096);
            let expected = if other == reader { Verdict::Ok } else { Verdict::Corrupt };
            // Even if the envelope names the other reader.
            bytes[..8].copy_from_slice(&made(&key, &object)[..8]);
            assert_eq!(verdict(&key, &object, &bytes), expected, "{reader:?} by {other:?}");
            assert_eq!(unverified(&key, &object, &bytes), expected, "{reader:?} by {other:?}");
        }
    }
}

/// A key that agrees with every other key on the same secret, and an invalid wrapped key.
#[test]
fn an_envelope_by_another_writer_is_corrupt() {
    for cipher in CIPHERS {
        let (key, object) = (key(cipher), object_for(Reader::Inbox(1), 4096));
        let bytes = made(&key, &object);
        for public in [[0; 32], [255; 32], {
            let mut point = [0; 32];
            point[0] = 1;
            point
        }] {
            let mut damaged = bytes.clone();
            damaged[8..40].copy_from_slice(&public);
            assert_eq!(verdict(&key, &object, &damaged), Verdict::Corrupt, "{public:?}");
        }
        let mut damaged = bytes.clone();
        damaged[40..80].fill(0);
        assert_eq!(verdict(&key, &object, &damaged), Verdict::Corrupt);
    }
}

#[test]
fn every_object_and_version_has_a_different_key() {
    for cipher in CIPHERS {
        let key = key(cipher);
        let object = ObjectId::new(5, 3, 4096);
        let sealed =
            |object: &ObjectId| made(&key, object)[layout(cipher, Reader::Run).0..].to_vec();
        for other in
            [ObjectId::new(6, 3, 4096), ObjectId::new(5, 4, 4096), ObjectId::new(5, 3, 4112)]
        {
            let mut piece = sealed(&object);
            assert!(key.content_key(&other).open(&mut piece).is_none(), "{other:?}");
            assert!(key.content_key(&object).open(&mut sealed(&object)).is_some());
        }
    }
}

#[test]
fn another_seed_or_run_cannot_open() {
    for cipher in CIPHERS {
        let object = ObjectId::new(5, 3, 200_000);
        let bytes = made(&key(cipher), &object);
        for other in [key_of(7, 43, cipher), key_of(8, 42, cipher)] {
            assert_eq!(verdict(&other, &object, &bytes), Verdict::Corrupt, "{cipher:?}");
            assert_eq!(unverified(&other, &object, &bytes), Verdict::Corrupt, "{cipher:?}");
        }
    }
}

#[test]
fn verdicts_on_the_plaintext_are_the_same_as_without_encryption() {
    for cipher in CIPHERS {
        let key = key(cipher);
        for length in [200, 4096, 65_536, 200_000, 200_003] {
            let object = ObjectId::new(5, 3, length);
            let of = |other: ObjectId| verdict(&key, &object, &made(&key, &other));
            assert_eq!(of(ObjectId::new(5, 2, length)), Verdict::Stale, "{cipher:?} {length}");
            assert_eq!(of(ObjectId::new(5, 4, length)), Verdict::Phantom, "{cipher:?} {length}");
            // Filler has no owner, so the end of a CBC object of another key is accepted.
            let is_without_filler = cipher == Cipher::Aes256Gcm || length % 16 == 0;
            let expected = if is_without_filler { Verdict::Misdirected } else { Verdict::Corrupt };
            assert_eq!(of(ObjectId::new(6, 3, length)), expected, "{cipher:?} {length}");
        }
    }
}

#[test]
fn swapped_segments_are_misdirected() {
    for cipher in CIPHERS {
        let key = key(cipher);
        let object = ObjectId::new(5, 3, 3 * SEGMENT_BYTES as u64);
        let mut bytes = made(&key, &object);
        let (first, second) = bytes.split_at_mut(SEGMENT_BYTES);
        first.swap_with_slice(&mut second[..SEGMENT_BYTES]);
        let verdict = verdict(&key, &object, &bytes);
        // Segments cut pages, so the pieces at their ends are not whole pages.
        assert!(verdict >= Verdict::Misdirected, "{verdict:?}");
    }
}

#[test]
fn an_early_end_is_truncated_and_a_late_one_overlong() {
    for cipher in CIPHERS {
        let key = key(cipher);
        for length in [1, 16, 100, 65_540, 200_000_u64] {
            let object = ObjectId::new(5, 3, length);
            let mut bytes = made(&key, &object);
            for end in (0..bytes.len()).step_by(1 + bytes.len() / 100) {
                let short = &bytes[..end];
                assert_eq!(verdict(&key, &object, short), Verdict::Truncated, "{end}");
                assert_eq!(unverified(&key, &object, short), Verdict::Truncated, "{end}");
            }
            bytes.push(0);
            assert_eq!(verdict(&key, &object, &bytes), Verdict::Overlong, "{length}");
            assert_eq!(unverified(&key, &object, &bytes), Verdict::Overlong, "{length}");
        }
    }
}

#[test]
fn no_two_segments_have_the_same_nonce() {
    for (cipher, nonce_bytes) in [(Cipher::Aes256Gcm, 12), (Cipher::Aes256Cbc, 16)] {
        let key = key(cipher);
        let mut nonces = std::collections::HashSet::new();
        for hash in 0..10 {
            for version in 0..10 {
                let object = ObjectId::new(hash, version, 3 * SEGMENT_BYTES as u64);
                let envelope = layout(cipher, Reader::Run).0;
                for (number, segment) in made(&key, &object).chunks(SEGMENT_BYTES).enumerate() {
                    let piece = if number == 0 { &segment[envelope..] } else { segment };
                    assert!(nonces.insert(piece[..nonce_bytes].to_vec()), "{hash} {version}");
                }
            }
        }
    }
}

fn refused(driver: &str, settings: Value, operation: &str) -> String {
    let document = json!({
        "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
        "phase": operation,
        "target": {"name": "t", "driver": driver, "settings": settings},
        "dataset": {"bucket_prefix": "b", "buckets": 1, "objects": 1, "object_prefix": "o",
                    "size": {"kind": "fixed", "bytes": 4096}, "encryption": "aes-256-gcm"},
        "mix": [{"operation": operation}],
        "load": {"kind": "closed", "clients": 1},
        "stop": {"requests": 1},
    });
    Trial::parse(&document.to_string()).unwrap_err().to_string()
}

#[test]
fn a_driver_that_cannot_encrypt_refuses_it() {
    let text = refused("null", json!({}), "put");
    assert!(text.contains("dataset.encryption: found aes-256-gcm"), "{text}");
    assert!(text.contains("driver \"null\" cannot do"), "{text}");
    assert!(text.contains("drivers that can: s3, swift"), "{text}");
}

#[test]
fn ranges_of_encrypted_objects_are_refused() {
    let settings = json!({"endpoints": "http://127.0.0.1:1"});
    for operation in ["range_get", "multi_range_get"] {
        let text = refused("s3", settings.clone(), operation);
        assert!(text.contains(&format!("mix: found {operation} of objects encrypted")), "{text}");
    }
}
