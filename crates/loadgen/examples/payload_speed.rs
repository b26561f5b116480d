//! Prints how fast payload is made and verified, and segments are sealed and opened, on one core, in
//! bytes per second of CPU time.
//!
//! `cargo run --release --example payload_speed -- 1048576` works on objects of so many bytes; the
//! output is one JSON object.

use std::time::Duration;

use loadstone_loadgen::payload::sealed::{SEGMENT_BYTES, SealingKey};
use loadstone_loadgen::payload::{ObjectId, PayloadSpec, Verdict, Verifier, fill};
use loadstone_loadgen::thread_cpu_ns;
use loadstone_loadgen::trial::Cipher;
use serde_json::{Map, Value, json};

const LEAST: Duration = Duration::from_millis(500);
const BYTES_PER_READING: u64 = 16 << 20;

/// Repeats work on an object of so many bytes; returns the bytes that a second of CPU time does.
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

/// Seals and opens so many bytes in place, a segment at a time, without making or checking payload.
fn ciphers(spec: &PayloadSpec, bytes: usize) -> Map<String, Value> {
    let mut speeds = Map::new();
    for cipher in [Cipher::Aes256Gcm, Cipher::Aes256Cbc] {
        let key = SealingKey::new(spec, cipher);
        let mut data = vec![7; bytes];
        let sealed = bytes_per_s(bytes, |_| {
            data.chunks_mut(SEGMENT_BYTES).for_each(|segment| key.seal(segment));
        });
        let sound = data.clone();
        // What opened once does not open again: each turn has a copy, whose cost is taken off.
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

fn main() {
    let bytes = std::env::args().nth(1).and_then(|text| text.parse::<usize>().ok());
    let bytes = bytes.expect("the argument is the length of an object");
    let spec = PayloadSpec::new([7; 16], 1, 0.0, 0.0);
    let object = |number| ObjectId::new(number, 1, bytes as u64);
    // As the drivers do: a piece at a time, which stays in the processor's cache.
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
    let mut told = ciphers(&spec, bytes);
    told.insert("bytes".to_owned(), json!(bytes));
    told.insert("made_per_s".to_owned(), json!(made));
    told.insert("verified_per_s".to_owned(), json!(verified));
    println!("{}", Value::Object(told));
}
