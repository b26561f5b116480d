//! Measures how fast one core makes and checks payload. Run it optimised.

use std::hint::black_box;
use std::time::{Duration, Instant};

use loadstone_loadgen::clock::thread_cpu_ns;
use loadstone_loadgen::payload::{ObjectId, PayloadSpec, Verdict, Verifier, fill};

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(150);

fn main() {
    println!(
        "{:>9}  {:>5}  {:>12}  {:>12}  {:>14}",
        "object", "dup", "make GB/s", "check GB/s", "in 1448 B GB/s"
    );
    for (length, duplicate) in [(4096_u64, 0.0), (65_536, 0.0), (1 << 20, 0.0), (1 << 20, 0.5)] {
        let spec = PayloadSpec::new([7; 16], 42, 0.0, duplicate);
        let object = |key_hash| ObjectId::new(key_hash, 1, length);
        let mut bytes = vec![0; usize::try_from(length).expect("small")];
        let make = speed(length, |round| fill(&spec, &object(round), 0, black_box(&mut bytes)));
        fill(&spec, &object(1), 0, &mut bytes);
        let check = |piece_bytes: usize| {
            let mut verifier = Verifier::new(&spec, &object(1), 0);
            black_box(&bytes).chunks(piece_bytes).for_each(|piece| verifier.update(piece));
            assert_eq!(verifier.finish(), Verdict::Ok);
        };
        let whole = speed(length, |_| check(1 << 20));
        let pieces = speed(length, |_| check(1448));
        println!("{length:>9}  {duplicate:>5}  {make:>12.1}  {whole:>12.1}  {pieces:>14.1}");
    }
}

/// Returns the median speed of several rounds, in bytes a nanosecond of CPU.
fn speed(bytes: u64, mut work: impl FnMut(u64)) -> f64 {
    let mut speeds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (begin, begin_cpu_ns, mut count) = (Instant::now(), thread_cpu_ns(), 0_u32);
            while begin.elapsed() < ROUND {
                for _ in 0..16 {
                    work(u64::from(count));
                    count += 1;
                }
            }
            f64::from(count) * bytes as f64 / (thread_cpu_ns() - begin_cpu_ns) as f64
        })
        .collect();
    speeds.sort_by(f64::total_cmp);
    speeds[ROUNDS / 2]
}
