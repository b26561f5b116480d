//! Reproducible random numbers: functions of a seed and of the purpose.

/// Maps a number to a pseudo-random one (finaliser of splitmix64, Steele et al. 2014).
#[inline]
#[must_use]
pub(crate) fn mix64(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Maps 64 random bits to a number in [0, 1).
#[inline]
#[must_use]
pub(crate) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}
