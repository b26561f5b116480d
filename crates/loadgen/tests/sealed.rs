//! Encrypted objects: any part can be made by itself, and every kind of damage has its name.

use std::sync::Arc;

use loadstone_loadgen::payload::sealed::{Opener, SEGMENT_BYTES, Sealer, SealingKey};
use loadstone_loadgen::payload::{ObjectId, PayloadSpec, Verdict, fill};
use loadstone_loadgen::trial::{Cipher, Trial};
use serde_json::{Value, json};

const CIPHERS: [Cipher; 2] = [Cipher::Aes256Gcm, Cipher::Aes256Cbc];
const LENGTHS: [u64; 18] = [
    0, 1, 15, 16, 17, 27, 28, 29, 31, 32, 33, 4096, 65_535, 65_536, 65_537, 65_563, 131_072,
    200_000,
];

fn key_of(run: u8, seed: u64, cipher: Cipher) -> Arc<SealingKey> {
    Arc::new(SealingKey::new(&PayloadSpec::new([run; 16], seed, 0.0, 0.0), cipher))
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

/// A sequence of numbers that looks like chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

#[test]
fn what_is_sealed_opens_however_it_is_cut() {
    let mut chance = Chance(1);
    for cipher in CIPHERS {
        let key = key(cipher);
        let mut opener = Opener::new(&key);
        for length in LENGTHS {
            let object = ObjectId::new(5, 3, length);
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
fn any_part_is_what_it_is_in_the_whole() {
    let mut chance = Chance(2);
    for cipher in CIPHERS {
        let key = key(cipher);
        // One sealer for several objects, as the clients of a thread have.
        let mut sealer = Sealer::new(&key);
        let lengths = LENGTHS.into_iter().filter(|length| *length > 0);
        let objects: Vec<_> = lengths.map(|length| ObjectId::new(length, 3, length)).collect();
        let whole: Vec<_> = objects.iter().map(|object| made(&key, object)).collect();
        for _ in 0..3000 {
            let place = chance.below(objects.len());
            let start = chance.below(whole[place].len());
            let end = start + 1 + chance.below(whole[place].len() - start);
            let mut part = vec![0; end - start];
            sealer.write(&objects[place], start as u64, &mut part);
            assert!(part == whole[place][start..end], "{start}..{end} of {:?}", objects[place]);
        }
    }
}

#[test]
fn what_is_inside_is_the_payload_of_a_shorter_object() {
    for (cipher, overhead) in [(Cipher::Aes256Gcm, 28), (Cipher::Aes256Cbc, 32)] {
        let key = key(cipher);
        let object = ObjectId::new(5, 3, 2 * SEGMENT_BYTES as u64);
        let plain = key.plain_object(&object);
        assert_eq!(plain.length, 2 * (SEGMENT_BYTES as u64 - overhead));
        let mut expected = vec![0; usize::try_from(plain.length).expect("small")];
        fill(&PayloadSpec::new([7; 16], 42, 0.0, 0.0), &plain, 0, &mut expected);
        let mut bytes = made(&key, &object);
        let mut found = Vec::new();
        for segment in bytes.chunks_mut(SEGMENT_BYTES) {
            let range = key.open(segment).expect("the tag fits");
            found.extend_from_slice(&segment[range]);
        }
        assert!(found == expected, "{cipher:?}");
    }
}

#[test]
fn every_flipped_bit_of_a_gcm_object_is_corrupt_even_unverified() {
    let key = key(Cipher::Aes256Gcm);
    for length in [28, 29, 100, 4096, 65_600] {
        let object = ObjectId::new(5, 3, length);
        let bytes = made(&key, &object);
        for place in (0..bytes.len()).step_by(1 + bytes.len() / 300) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << (place % 8);
            assert_eq!(verdict(&key, &object, &damaged), Verdict::Corrupt, "{place} of {length}");
            let unverified = unverified(&key, &object, &damaged);
            assert_eq!(unverified, Verdict::Corrupt, "{place} of {length}, unverified");
        }
    }
}

#[test]
fn every_flipped_bit_of_a_cbc_object_is_corrupt_when_verified() {
    let key = key(Cipher::Aes256Cbc);
    for length in [1, 31, 64, 100, 4099, 65_600] {
        let object = ObjectId::new(5, 3, length);
        let bytes = made(&key, &object);
        for place in (0..bytes.len()).step_by(1 + bytes.len() / 300) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << (place % 8);
            assert_eq!(verdict(&key, &object, &damaged), Verdict::Corrupt, "{place} of {length}");
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
fn what_the_plaintext_shows_comes_out_as_without_encryption() {
    for cipher in CIPHERS {
        let key = key(cipher);
        for length in [100, 4096, 65_536, 200_000, 200_003] {
            let object = ObjectId::new(5, 3, length);
            let of = |other: ObjectId| verdict(&key, &object, &made(&key, &other));
            assert_eq!(of(ObjectId::new(5, 2, length)), Verdict::Stale, "{cipher:?} {length}");
            assert_eq!(of(ObjectId::new(5, 4, length)), Verdict::Phantom, "{cipher:?} {length}");
            // Filler has no owner: what a CBC object of another key ends with is not known.
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
        // Pages are cut by segments, so the pieces at their ends belong to no page.
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
            for kept in (0..bytes.len()).step_by(1 + bytes.len() / 100) {
                let short = &bytes[..kept];
                assert_eq!(verdict(&key, &object, short), Verdict::Truncated, "{kept}");
                assert_eq!(unverified(&key, &object, short), Verdict::Truncated, "{kept}");
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
        let mut seen = std::collections::HashSet::new();
        for hash in 0..10 {
            for version in 0..10 {
                let object = ObjectId::new(hash, version, 3 * SEGMENT_BYTES as u64);
                for segment in made(&key, &object).chunks(SEGMENT_BYTES) {
                    assert!(seen.insert(segment[..nonce_bytes].to_vec()), "{hash} {version}");
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
