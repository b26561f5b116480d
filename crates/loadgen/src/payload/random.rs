//! Generates random bytes at the speed of memory.
//!
//! Sixteen xorshift128+ generators (Vigna, "Further scramblings of Marsaglia's xorshift
//! generators", 2017) run side by side. The widest vectors step eight at a time, and the other
//! eight while the first ones wait for their result. The bytes are the same on every processor.

use crate::chance::mix64;

const LANES: usize = 16;
const BLOCK_BYTES: usize = LANES * 8;
const HALF_BYTES: usize = BLOCK_BYTES / 2;

/// Fills `out` with bytes that are a function of the seed. A shorter result is a prefix of a longer
/// one.
pub(super) fn fill(seed: u64, out: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        // Short fills use the narrow instructions, because the wide units may have to be powered up
        // first.
        if out.len() >= BLOCK_BYTES && is_x86_feature_detected!("avx512f") {
            // SAFETY: the line above checks that the processor has AVX-512F.
            return unsafe { fill_avx512(seed, out) };
        }
        if out.len() >= BLOCK_BYTES && is_x86_feature_detected!("avx2") {
            // SAFETY: the line above checks that the processor has AVX2.
            return unsafe { fill_avx2(seed, out) };
        }
    }
    fill_lanes(seed, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn fill_avx512(seed: u64, out: &mut [u8]) {
    fill_lanes(seed, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2(seed: u64, out: &mut [u8]) {
    fill_lanes(seed, out);
}

/// Compiled once for each instruction set of a caller.
#[inline(always)]
fn fill_lanes(seed: u64, out: &mut [u8]) {
    let mut first = [0; LANES];
    let mut second = [0; LANES];
    for lane in 0..LANES {
        first[lane] = mix64(seed.wrapping_add(2 * lane as u64));
        second[lane] = mix64(seed.wrapping_add(2 * lane as u64 + 1));
    }
    let mut blocks = out.chunks_exact_mut(BLOCK_BYTES);
    for block in &mut blocks {
        step(&mut first, &mut second, block.try_into().expect("chunks are of this size"));
    }
    let rest = blocks.into_remainder();
    if !rest.is_empty() {
        let mut block = [0; BLOCK_BYTES];
        step(&mut first, &mut second, &mut block);
        // A whole page ends with half a block, which is too short for a call.
        let half_bytes = rest.len() & HALF_BYTES;
        let (half, tail) = rest.split_at_mut(half_bytes);
        if let Ok(half) = <&mut [u8; HALF_BYTES]>::try_from(half) {
            *half = *block.first_chunk().expect("a block is twice as long");
        }
        if !tail.is_empty() {
            tail.copy_from_slice(&block[half_bytes..half_bytes + tail.len()]);
        }
    }
}

#[inline(always)]
fn step(first: &mut [u64; LANES], second: &mut [u64; LANES], block: &mut [u8; BLOCK_BYTES]) {
    let mut words = [0; LANES];
    for lane in 0..LANES {
        let (mut a, b) = (first[lane], second[lane]);
        words[lane] = a.wrapping_add(b);
        a ^= a << 23;
        first[lane] = b;
        second[lane] = a ^ b ^ (a >> 18) ^ (b >> 5);
    }
    for (place, word) in block.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_generates_the_same_bytes() {
        for length in [1, 127, 128, 129, 4032] {
            let mut wide = vec![0; length];
            let mut narrow = vec![0; length];
            fill(99, &mut wide);
            fill_lanes(99, &mut narrow);
            assert_eq!(wide, narrow, "{length} bytes");
        }
    }

    #[test]
    fn the_bytes_never_change_between_releases() {
        let mut bytes = [0; 136];
        fill(1, &mut bytes);
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        // The first two steps of the first lane, computed by a model in another language.
        assert_eq!((words[0], words[16]), (0x286263caa599b38f, 0x8c04773fcb5861a7));
    }

    #[test]
    fn neighbouring_seeds_share_no_words() {
        let mut words_so_far = std::collections::HashSet::new();
        for seed in 0..256 {
            let mut bytes = [0; 4032];
            fill(mix64(seed), &mut bytes);
            for word in bytes.chunks_exact(8) {
                assert!(words_so_far.insert(<[u8; 8]>::try_from(word).expect("eight bytes")));
            }
        }
    }
}
