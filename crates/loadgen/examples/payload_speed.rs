//! Prints how fast one core generates and verifies payload, and encrypts and decrypts segments, in
//! bytes per second of CPU time. Also prints how many nanoseconds an envelope costs its writer and
//! its reader, and an encrypted path of one segment costs.
//!
//! `cargo run --release --example payload_speed -- 1048576` uses objects of this many bytes; the
//! output is one JSON object.

use std::sync::Arc;
use std::time::Duration;

use loadstone_loadgen::dataset::Dataset;
use loadstone_loadgen::payload::sealed::{Opener, SEGMENT_BYTES, Sealer, SealingKey};
use loadstone_loadgen::payload::{ObjectId, PayloadSpec, Reader, Verdict, Verifier, fill};
use loadstone_loadgen::thread_cpu_ns;
use loadstone_loadgen::trial::{Cipher, Trial};
use serde_json::{Map, Value, json};

const LEAST: Duration = Duration::from_millis(500);
const BYTES_PER_READING: u64 = 16 << 20;

/// Repeats work on an object of `bytes` bytes; returns the bytes per second of CPU time.
fn bytes_per_s(bytes: usize, mut work: impl FnMut(u64)) -> f64 {
    let start_ns = thread_cpu_ns();
    // Reading the clock costs as much as a page.
    let at_once = (BYTES_PER_READING / bytes as u64).max(1);
    let mut turns = 0;
    loop {
        (turns..turns + at_once).for_each(&mut work);
        turns += at_once;
        let used_ns = thread_cpu_ns() - start_ns;
        if u128::from(used_ns) >= LEAST.as_nanos() {
            return bytes as f64 * turns as f64 / (used_ns as f64 / 1e9);
        }
    }
}

/// Encrypts and decrypts `bytes` bytes in place, a segment at a time, without generating or
/// checking payload.
fn ciphers(spec: &PayloadSpec, bytes: usize) -> Map<String, Value> {
    let mut speeds = Map::new();
    for cipher in [Cipher::Aes256Gcm, Cipher::Aes256Cbc] {
        let key = SealingKey::new(spec, cipher, 0).content_key(&ObjectId::new(1, 1, 0));
        let mut data = vec![7; bytes];
        let sealed = bytes_per_s(bytes, |_| {
            data.chunks_mut(SEGMENT_BYTES).for_each(|segment| key.seal(segment));
        });
        let sound = data.clone();
        // Decryption is in place, so each repetition needs a copy, whose cost is subtracted.
        let copied = bytes_per_s(bytes, |_| data.copy_from_slice(std::hint::black_box(&sound)));
        let opened = bytes_per_s(bytes, |_| {
            data.copy_from_slice(&sound);
            for segment in data.chunks_mut(SEGMENT_BYTES) {
                assert!(key.open(segment).is_some(), "it was sealed with this key");
            }
        });
        speeds.insert(format!("{}_sealed_per_s", cipher.name()), json!(sealed));
        let opened_s = 1.0 / opened - 1.0 / copied;
        speeds.insert(format!("{}_opened_per_s", cipher.name()), json!(1.0 / opened_s));
    }
    speeds
}

/// Writes and reads objects of 128 bytes, which cost little more than their envelope.
fn envelopes(spec: &PayloadSpec) -> Map<String, Value> {
    let mut results = Map::new();
    let cipher = Cipher::Aes256Gcm;
    let keys = Arc::new(SealingKey::new(spec, cipher, 1));
    for (name, reader) in [("own", Reader::Owner(0)), ("inbox", Reader::Inbox(0))] {
        let object = |number| ObjectId { reader, ..ObjectId::new(number, 1, 128) };
        let mut bytes = [0; 128];
        let mut sealer = Sealer::new(&keys);
        let per_object_ns = |per_s: f64| 16_384.0 * 1e9 / per_s;
        let wrapped = bytes_per_s(16_384, |number| sealer.write(&object(number), 0, &mut bytes));
        sealer.write(&object(0), 0, &mut bytes);
        let mut opener = Opener::new(&keys);
        let unwrapped = bytes_per_s(16_384, |_| {
            opener.start(&object(0), false);
            opener.update(&bytes);
            assert_eq!(opener.finish(), Verdict::Ok);
        });
        results.insert(format!("{name}_made_ns"), json!(per_object_ns(wrapped)));
        results.insert(format!("{name}_opened_ns"), json!(per_object_ns(unwrapped)));
    }
    results
}

/// Writes the keys of a dataset and looks up their numbers, plain and encrypted.
fn paths() -> Map<String, Value> {
    let mut results = Map::new();
    for (name, cipher) in [("plain", Value::Null), ("sealed", json!("aes-256-siv"))] {
        let document = json!({
            "format": 1, "id": "0001", "run": "07".repeat(16), "seed": 1, "phase": "put",
            "target": {"name": "t", "driver": "file", "settings": {"path": "/"}},
            "dataset": {"bucket_prefix": "b-", "buckets": 1, "objects": 1, "object_prefix": "bench-",
                        "size": {"kind": "fixed", "bytes": 1}, "path_encryption": cipher},
            "mix": [{"operation": "put"}], "load": {"kind": "closed", "clients": 1},
            "stop": {"requests": 1},
        });
        let trial = Trial::parse(&document.to_string()).expect("a sound document");
        let dataset = Dataset::new(&trial);
        let mut key = Vec::new();
        let per_key_ns = |per_s: f64| 16_384.0 * 1e9 / per_s;
        let written = bytes_per_s(16_384, |number| {
            key.clear();
            dataset.write_key(1_000_000 + number, &mut key);
        });
        let text = String::from_utf8(key).expect("keys are text");
        let read = bytes_per_s(16_384, |_| {
            assert!(dataset.index_of(std::hint::black_box(&text)).is_some());
        });
        results.insert(format!("{name}_key_written_ns"), json!(per_key_ns(written)));
        results.insert(format!("{name}_key_read_ns"), json!(per_key_ns(read)));
    }
    results
}

fn main() {
    let bytes = std::env::args().nth(1).and_then(|text| text.parse::<usize>().ok());
    let bytes = bytes.expect("the argument is the length of an object");
    let spec = PayloadSpec::new([7; 16], 1, 0.0, 0.0);
    let object = |number| ObjectId::new(number, 1, bytes as u64);
    // Like the drivers: a piece at a time, which stays in the processor's cache.
    let piece_bytes = bytes.min(128 << 10);
    let mut piece = vec![0; piece_bytes];
    let made = bytes_per_s(bytes, |number| {
        for at in (0..bytes).step_by(piece_bytes) {
            let length = piece_bytes.min(bytes - at);
            fill(&spec, &object(number), at as u64, &mut piece[..length]);
        }
    });
    let mut whole = vec![0; bytes];
    fill(&spec, &object(0), 0, &mut whole);
    let verified = bytes_per_s(bytes, |_| {
        let mut verifier = Verifier::for_range(&spec, &object(0), 0..bytes as u64);
        whole.chunks(piece_bytes).for_each(|piece| verifier.update(piece));
        assert_eq!(verifier.finish(), Verdict::Ok);
    });
    let mut results = ciphers(&spec, bytes);
    results.extend(envelopes(&spec));
    results.extend(paths());
    results.insert("bytes".to_owned(), json!(bytes));
    results.insert("made_per_s".to_owned(), json!(made));
    results.insert("verified_per_s".to_owned(), json!(verified));
    println!("{}", Value::Object(results));
}
