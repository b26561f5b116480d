//! Reproducible random numbers: the same arguments always give the same result.

/// Mixes a word so that every bit affects all bits (finalizer of splitmix64).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns 64 random bits for `subject`, a list of strings, and `number`.
pub(crate) fn bits(seed: u64, subject: &[&str], number: u64) -> u64 {
    let mut state = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
    for text in subject {
        for piece in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            state = mix(state ^ u64::from_le_bytes(word)).wrapping_add(piece.len() as u64);
        }
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
    }
    mix(state ^ mix(number.wrapping_add(1)))
}

/// Returns a number in [0, 1).
pub(crate) fn fraction(seed: u64, subject: &[&str], number: u64) -> f64 {
    (bits(seed, subject, number) >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a number from the normal distribution with mean 0 and standard deviation 1.
pub(crate) fn normal(seed: u64, subject: &[&str], number: u64) -> f64 {
    // The Box-Muller transform; 1 - u keeps the logarithm finite.
    let radius = (-2.0 * (1.0 - fraction(seed, subject, number * 2)).ln()).sqrt();
    radius * (std::f64::consts::TAU * fraction(seed, subject, number * 2 + 1)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_functions_of_seed_subject_and_number() {
        let draw = fraction(1, &["read"], 5);
        assert_eq!(draw, fraction(1, &["read"], 5));
        assert_ne!(draw, fraction(2, &["read"], 5));
        assert_ne!(draw, fraction(1, &["write"], 5));
        assert_ne!(draw, fraction(1, &["read"], 6));
        assert_ne!(bits(1, &["ab", "c"], 0), bits(1, &["a", "bc"], 0));
    }

    #[test]
    fn numbers_have_the_right_mean_and_variance() {
        let count = 100_000;
        let mean = (0..count).map(|n| fraction(7, &["x"], n)).sum::<f64>() / count as f64;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        let squares = (0..count).map(|n| normal(7, &["x"], n).powi(2)).sum::<f64>();
        assert!((squares / count as f64 - 1.0).abs() < 0.03, "{squares}");
    }
}
