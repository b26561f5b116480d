//! Sums of encoded histograms.
//!
//! A long run has hundreds of thousands of histograms, one for each second, operation and kind of
//! time. The library decodes each into a whole new histogram of 270 KiB, which is then added; here the
//! counts go straight into the sum. Histograms of other bounds are left to the library.
//!
//! The format is V2 of HdrHistogram: a head of 40 bytes, then counts as zig-zag LEB128 numbers of up
//! to nine bytes, in which a negative number stands for so many empty buckets.

use flate2::{Decompress, FlushDecompress, Status};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

const COOKIE: u32 = 0x1c84_9313;
const COOKIE_DEFLATED: u32 = 0x1c84_9314;
const HEAD_BYTES: usize = 40;
/// Of a count.
const BYTES_MAX: usize = 9;

/// Adds encoded histograms to one; its buffers are used again.
pub struct Sum {
    counts: Histogram<u64>,
    inflater: Decompress,
    payload: Vec<u8>,
    found: Vec<(u64, u64)>,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            counts: crate::histogram(),
            inflater: Decompress::new(true),
            payload: Vec::new(),
            found: Vec::new(),
        }
    }
}

impl Sum {
    /// Adds a histogram; one that is damaged, or does not fit, changes nothing.
    ///
    /// # Errors
    /// Says why the bytes are no histogram of nanoseconds up to one hour.
    pub fn add(&mut self, encoded: &[u8]) -> Result<(), String> {
        if self.decode(encoded).is_none() {
            let other: Histogram<u64> = Deserializer::new()
                .deserialize(&mut &encoded[..])
                .map_err(|error| format!("not a V2 HDR histogram: {error}"))?;
            return self.merge(&other);
        }
        for &(value_ns, count) in &self.found {
            self.counts.saturating_record_n(value_ns, count);
        }
        Ok(())
    }

    /// Adds the counts of another histogram.
    ///
    /// # Errors
    /// Says so when it reaches beyond one hour.
    pub fn merge(&mut self, other: &Histogram<u64>) -> Result<(), String> {
        self.counts
            .add(other)
            .map_err(|error| format!("histogram beyond one hour or of other digits: {error}"))
    }

    /// Returns the sum.
    #[must_use]
    pub fn counts(&self) -> &Histogram<u64> {
        &self.counts
    }

    /// Returns the sum, to count in.
    pub fn counts_mut(&mut self) -> &mut Histogram<u64> {
        &mut self.counts
    }

    /// Reads the counts of a histogram with the sum's own bounds; `None` for anything else.
    fn decode(&mut self, encoded: &[u8]) -> Option<()> {
        self.found.clear();
        let (cookie, rest) = u32_of(encoded)?;
        let (length, deflated) = u32_of(rest)?;
        if cookie != COOKIE_DEFLATED || deflated.len() != usize::try_from(length).ok()? {
            return None;
        }
        self.inflate(deflated)?;
        let (head, counts) = self.payload.split_at_checked(HEAD_BYTES)?;
        if head != self.head(counts.len())? {
            return None;
        }
        let mut index = 0_usize;
        let mut at = 0;
        while at < counts.len() {
            let number = number(counts, &mut at)?;
            if let Ok(count) = u64::try_from(number) {
                self.found.push((value_of(index), count));
                index += 1;
            } else {
                index = index.checked_add(usize::try_from(number.unsigned_abs()).ok()?)?;
            }
            if index > self.counts.distinct_values() {
                return None;
            }
        }
        self.found.retain(|&(_, count)| count > 0);
        Some(())
    }

    /// Unpacks into `payload`, of at most the size that all buckets together can take.
    fn inflate(&mut self, deflated: &[u8]) -> Option<()> {
        let most = HEAD_BYTES + self.counts.distinct_values() * BYTES_MAX;
        self.inflater.reset(true);
        self.payload.clear();
        loop {
            self.payload.reserve(4 * deflated.len().max(HEAD_BYTES));
            let at = usize::try_from(self.inflater.total_in()).ok()?;
            let rest = deflated.get(at..)?;
            match self.inflater.decompress_vec(rest, &mut self.payload, FlushDecompress::Finish) {
                Ok(Status::StreamEnd) => return Some(()),
                Ok(_) if self.payload.len() == self.payload.capacity() => {}
                _ => return None,
            }
            if self.payload.len() > most {
                return None;
            }
        }
    }

    /// Returns the head of a histogram with the sum's own bounds.
    fn head(&self, payload_bytes: usize) -> Option<[u8; HEAD_BYTES]> {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&COOKIE.to_be_bytes());
        head[4..8].copy_from_slice(&u32::try_from(payload_bytes).ok()?.to_be_bytes());
        head[12..16].copy_from_slice(&u32::from(self.counts.sigfig()).to_be_bytes());
        head[16..24].copy_from_slice(&self.counts.low().to_be_bytes());
        head[24..32].copy_from_slice(&self.counts.high().to_be_bytes());
        head[32..].copy_from_slice(&1.0_f64.to_be_bytes());
        Some(head)
    }
}

fn u32_of(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*head), rest))
}

/// Reads one number: seven bits a byte, the lowest first; a ninth byte gives all of its bits.
fn number(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut bits = 0_u64;
    for place in 0..BYTES_MAX {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if place == BYTES_MAX - 1 {
            bits |= u64::from(byte) << (7 * place);
            break;
        }
        bits |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
}

/// Returns the least value of a bucket. There are 2,048 of one nanosecond, then 1,024 for each
/// doubling, each twice as wide as those before: three significant digits.
fn value_of(index: usize) -> u64 {
    const HALF: usize = 1024;
    let index = index as u64;
    let half = HALF as u64;
    if index < 2 * half { index } else { (index % half + half) << (index / half - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::mix64;
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer, V2Serializer};

    fn filled(seed: u64, values: u64, up_to: u64) -> Histogram<u64> {
        let mut made = crate::histogram();
        for number in 0..values {
            let chance = mix64(seed ^ number);
            // Even over the magnitudes, as latencies of different targets are.
            let value_ns = (chance >> (chance % 40)) % up_to;
            made.saturating_record_n(value_ns.max(1), 1 + chance % 3);
        }
        made
    }

    #[test]
    fn a_sum_is_that_of_the_library() {
        let mut sum = Sum::default();
        let mut truth = crate::histogram();
        for seed in 0..200 {
            let one = filled(seed, seed * 7, 3_600_000_000_000);
            truth.add(&one).unwrap();
            let encoded = crate::encode(&one, &mut V2DeflateSerializer::new());
            assert!(sum.decode(&encoded).is_some(), "the library had to decode {seed}");
            sum.add(&encoded).unwrap();
        }
        assert_eq!(*sum.counts(), truth);
        assert_eq!((sum.counts().min(), sum.counts().max()), (truth.min(), truth.max()));
        assert_eq!(sum.counts().len(), truth.len());
    }

    #[test]
    fn every_bucket_is_found_again() {
        for number in 0..63 {
            for off in [-1_i64, 0, 1] {
                let value_ns =
                    (1_u64 << number).saturating_add_signed(off).clamp(1, 3_600_000_000_000);
                let mut one = crate::histogram();
                one.saturating_record_n(value_ns, 1);
                let mut sum = Sum::default();
                sum.add(&crate::encode(&one, &mut V2DeflateSerializer::new())).unwrap();
                assert_eq!(*sum.counts(), one, "{value_ns}");
            }
        }
    }

    #[test]
    fn other_bounds_and_the_format_without_deflate_are_the_library_s() {
        let mut other = Histogram::<u64>::new_with_bounds(1, 1_000_000, 2).unwrap();
        other.record_n(999, 5).unwrap();
        let mut sum = Sum::default();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&other, &mut bytes).unwrap();
        sum.add(&bytes).unwrap();
        bytes.clear();
        V2Serializer::new().serialize(&other, &mut bytes).unwrap();
        sum.add(&bytes).unwrap();
        assert_eq!(sum.counts().len(), 10);
    }

    #[test]
    fn what_is_damaged_changes_nothing() {
        let encoded = crate::encode(&filled(1, 500, 1 << 40), &mut V2DeflateSerializer::new());
        for place in 0..encoded.len() {
            for bit in 0..8 {
                let mut damaged = encoded.clone();
                damaged[place] ^= 1 << bit;
                let mut sum = Sum::default();
                // The checksum of the stream finds it; what passes is a head of no consequence.
                if sum.add(&damaged).is_err() {
                    assert!(sum.counts().is_empty(), "byte {place}, bit {bit}");
                }
            }
            // Without the end of the stream and its checksum, the library still takes it.
            if place < encoded.len() - 8 {
                let mut sum = Sum::default();
                assert!(sum.add(&encoded[..place]).is_err(), "cut at {place}");
                assert!(sum.counts().is_empty());
            }
        }
    }
}
