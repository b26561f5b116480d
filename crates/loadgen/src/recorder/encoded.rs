//! Adds up encoded histograms and computes statistics of the sum.
//!
//! A long run has hundreds of thousands of histograms, one for each second, operation and kind of
//! time. The library decodes each into a new histogram of 270 KiB and then adds it. Here the counts
//! are added to the sum directly, and the sum has only the buckets from its smallest value to its
//! largest. Histograms with other bounds are left to the library.
//!
//! The format is V2 of HdrHistogram: a head of 40 bytes, then counts as zig-zag LEB128 numbers of
//! up to nine bytes. A negative number stands for that many empty buckets.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::recorder::LATENCY_NS_MAX;

const COOKIE: u32 = 0x1c84_9313;
const COOKIE_DEFLATED: u32 = 0x1c84_9314;
const HEAD_BYTES: usize = 40;
const DIGITS: u32 = 3;
/// Maximum number of bytes of an encoded count.
const BYTES_MAX: usize = 9;

/// Three significant digits: 2,048 buckets of one nanosecond, then 1,024 for each power of two,
/// each twice as wide as those before.
const HALF: usize = 1024;
const BUCKETS: usize = 33 * HALF;

/// The sum of histograms of nanoseconds, 1 to one hour, with three significant digits.
///
/// Its statistics equal those of the library exactly.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    /// Counts of the buckets from `first` to the last that is not empty.
    counts: Vec<u64>,
    first: usize,
    total: u64,
}

/// A bucket that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Smallest value in the bucket.
    pub least_ns: u64,
    /// Largest value in the bucket.
    pub greatest_ns: u64,
    /// Number of values in the bucket.
    pub count: u64,
}

impl Bucket {
    fn middle_ns(self) -> f64 {
        (self.least_ns + (self.greatest_ns - self.least_ns).div_ceil(2)) as f64
    }
}

impl Sum {
    /// Adds a histogram. A damaged or incompatible one leaves the sum unchanged.
    ///
    /// # Errors
    /// The reason why the bytes are not a histogram of nanoseconds up to one hour.
    pub fn add(&mut self, encoded: &[u8]) -> Result<(), String> {
        DECODER.with_borrow_mut(|decoder| {
            if decoder.decode(encoded).is_some() {
                self.add_counts(&decoder.nonempty);
                return Ok(());
            }
            let other: Histogram<u64> = Deserializer::new()
                .deserialize(&mut &encoded[..])
                .map_err(|error| format!("not a V2 HDR histogram: {error}"))?;
            if !other.is_empty() && other.max() > value_of(BUCKETS) - 1 {
                return Err("histogram beyond one hour or of other digits".into());
            }
            for step in other.iter_recorded() {
                let least_ns = other.lowest_equivalent(step.value_iterated_to());
                self.record(least_ns, step.count_at_value());
            }
            Ok(())
        })
    }

    /// Adds the counts of another sum.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.is_empty() {
            return;
        }
        self.reach(other.first, other.first + other.counts.len() - 1);
        let mine = &mut self.counts[other.first - self.first..];
        for (mine, theirs) in mine.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.total = self.total.saturating_add(other.total);
    }

    /// Adds a value `count` times; values above one hour count as one hour.
    pub fn record(&mut self, value_ns: u64, count: u64) {
        let index = index_of(value_ns);
        let index = if index < BUCKETS { index } else { index_of(LATENCY_NS_MAX) };
        self.add_counts(&[(index, count)]);
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Returns whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Returns the buckets that are not empty, in order of value.
    pub fn buckets(&self) -> impl DoubleEndedIterator<Item = Bucket> {
        let held = self.counts.iter().enumerate().filter(|&(_, &count)| count > 0);
        held.map(|(place, &count)| self.bucket(place, count))
    }

    /// Returns the minimum to the resolution of buckets, in nanoseconds; 0 if there are no values.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.buckets().next().map_or(0, |bucket| bucket.least_ns)
    }

    /// Returns the maximum to the resolution of buckets, in nanoseconds; 0 if there are no values.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.buckets().next_back().map_or(0, |bucket| bucket.greatest_ns)
    }

    /// Returns the mean in nanoseconds; 0 if there are no values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let total = self.total as f64;
        let share = |bucket: Bucket| bucket.middle_ns() * bucket.count as f64 / total;
        self.buckets().fold(0.0, |mean, bucket| mean + share(bucket))
    }

    /// Returns the standard deviation in nanoseconds; 0 if there are no values.
    #[must_use]
    pub fn stdev(&self) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let mean = self.mean();
        let squares = self.buckets().fold(0.0, |squares, bucket| {
            let off = bucket.middle_ns() - mean;
            squares + (off * off) * bucket.count as f64
        });
        (squares / self.total as f64).sqrt()
    }

    /// Returns the largest value of the bucket that contains this quantile, 0 to 1.
    #[must_use]
    pub fn value_at_quantile(&self, quantile: f64) -> u64 {
        let wanted = ((quantile.min(1.0) * self.total as f64).ceil() as u64).max(1);
        if quantile <= 0.0 { self.min() } else { self.at_ranks(&[wanted]).pop().unwrap_or(0) }
    }

    /// Returns the largest values of the buckets that contain the values with these ranks. Ranks
    /// are in ascending order; rank 1 is the smallest value.
    #[must_use]
    pub fn at_ranks(&self, ranks: &[u64]) -> Vec<u64> {
        let mut values = Vec::with_capacity(ranks.len());
        let mut reached = 0_u64;
        for (place, &count) in self.counts.iter().enumerate() {
            reached = reached.saturating_add(count);
            while ranks.get(values.len()).is_some_and(|&rank| rank <= reached) {
                values.push(self.bucket(place, count).greatest_ns);
            }
            if values.len() == ranks.len() {
                break;
            }
        }
        values
    }

    /// Encodes the counts in the compressed V2 format of HdrHistogram.
    ///
    /// # Panics
    /// Never: it writes to memory.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let plain = self.pack();
        let mut bytes = Vec::with_capacity(2 * HEAD_BYTES + plain.len() + plain.len() / 8);
        bytes.extend(COOKIE_DEFLATED.to_be_bytes());
        bytes.extend([0; 4]);
        let mut deflater = Compress::new(Compression::default(), true);
        loop {
            let at = usize::try_from(deflater.total_in()).expect("it is in memory");
            let status = deflater.compress_vec(&plain[at..], &mut bytes, FlushCompress::Finish);
            if status.expect("nothing of ours is wrong") == Status::StreamEnd {
                break;
            }
            bytes.reserve(HEAD_BYTES + bytes.len());
        }
        let length = u32::try_from(bytes.len() - 8).expect("buckets are few");
        bytes[4..8].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    /// Encodes the counts in the same format without compression: larger, and ten times as fast.
    ///
    /// # Panics
    /// Never: the number of buckets fits into the length field.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.counts.len());
        bytes.extend([0; HEAD_BYTES]);
        let held = self.counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let mut empty = self.first as i64;
        for &count in &self.counts[..held] {
            if count == 0 {
                empty += 1;
                continue;
            }
            match empty {
                0 => {}
                1 => write_number(&mut bytes, 0),
                _ => write_number(&mut bytes, -empty),
            }
            empty = 0;
            write_number(&mut bytes, i64::try_from(count).unwrap_or(i64::MAX));
        }
        if held == 0 {
            write_number(&mut bytes, 0);
        }
        let head = head(bytes.len() - HEAD_BYTES).expect("buckets are few");
        bytes[..HEAD_BYTES].copy_from_slice(&head);
        bytes
    }

    fn bucket(&self, place: usize, count: u64) -> Bucket {
        let index = self.first + place;
        Bucket { least_ns: value_of(index), greatest_ns: value_of(index + 1) - 1, count }
    }

    /// Adds counts of buckets, which are in ascending order.
    fn add_counts(&mut self, nonempty: &[(usize, u64)]) {
        let (Some(&(least, _)), Some(&(greatest, _))) = (nonempty.first(), nonempty.last()) else {
            return;
        };
        self.reach(least, greatest);
        for &(index, count) in nonempty {
            let total = &mut self.counts[index - self.first];
            *total = total.saturating_add(count);
            self.total = self.total.saturating_add(count);
        }
    }

    /// Extends the range of buckets to include these.
    fn reach(&mut self, least: usize, greatest: usize) {
        if self.counts.is_empty() {
            self.first = least;
        }
        if least < self.first {
            // Reserves as many buckets again below, so that a series of falling values rarely moves
            // the counts.
            let first = least.saturating_sub(self.counts.len().min(HALF));
            self.counts.splice(..0, std::iter::repeat_n(0, self.first - first));
            self.first = first;
        }
        if greatest - self.first >= self.counts.len() {
            self.counts.resize(greatest - self.first + 1, 0);
        }
    }
}

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::default();
}

/// Decodes histograms and reuses its buffers.
struct Decoder {
    inflater: Decompress,
    payload: Vec<u8>,
    /// Buckets that are not empty, with their counts.
    nonempty: Vec<(usize, u64)>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { inflater: Decompress::new(true), payload: Vec::new(), nonempty: Vec::new() }
    }
}

impl Decoder {
    /// Decodes the counts of a histogram with the bounds of a sum; `None` for anything else.
    fn decode(&mut self, encoded: &[u8]) -> Option<()> {
        self.nonempty.clear();
        let (cookie, rest) = u32_of(encoded)?;
        if cookie == COOKIE {
            return Self::read(encoded, &mut self.nonempty);
        }
        let (length, deflated) = u32_of(rest)?;
        if cookie != COOKIE_DEFLATED || deflated.len() != usize::try_from(length).ok()? {
            return None;
        }
        self.inflate(deflated)?;
        Self::read(&self.payload, &mut self.nonempty)
    }

    fn read(plain: &[u8], nonempty: &mut Vec<(usize, u64)>) -> Option<()> {
        let (begin, counts) = plain.split_at_checked(HEAD_BYTES)?;
        if begin != head(counts.len())? {
            return None;
        }
        let mut index = 0_usize;
        let mut at = 0;
        while at < counts.len() {
            let number = number(counts, &mut at)?;
            if let Ok(count) = u64::try_from(number) {
                if count > 0 {
                    nonempty.push((index, count));
                }
                index += 1;
            } else {
                index = index.checked_add(usize::try_from(number.unsigned_abs()).ok()?)?;
            }
            if index > BUCKETS {
                return None;
            }
        }
        Some(())
    }

    /// Inflates into `payload`, up to the maximum size that all buckets can take.
    fn inflate(&mut self, deflated: &[u8]) -> Option<()> {
        let most = HEAD_BYTES + BUCKETS * BYTES_MAX;
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
}

/// Returns the head of a histogram with the bounds of a sum.
fn head(payload_bytes: usize) -> Option<[u8; HEAD_BYTES]> {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&COOKIE.to_be_bytes());
    head[4..8].copy_from_slice(&u32::try_from(payload_bytes).ok()?.to_be_bytes());
    head[12..16].copy_from_slice(&DIGITS.to_be_bytes());
    head[16..24].copy_from_slice(&1_u64.to_be_bytes());
    head[24..32].copy_from_slice(&LATENCY_NS_MAX.to_be_bytes());
    head[32..].copy_from_slice(&1.0_f64.to_be_bytes());
    Some(head)
}

fn u32_of(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*head), rest))
}

/// Decodes one number: seven bits per byte, the lowest first; a ninth byte contributes all eight
/// bits.
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

/// Encodes one number in that format.
fn write_number(bytes: &mut Vec<u8>, number: i64) {
    let mut bits = ((number << 1) ^ (number >> 63)).cast_unsigned();
    for _ in 0..BYTES_MAX - 1 {
        if bits < 0x80 {
            break;
        }
        bytes.push((bits & 0x7f) as u8 | 0x80);
        bits >>= 7;
    }
    bytes.push(bits as u8);
}

/// Returns the smallest value of a bucket.
fn value_of(index: usize) -> u64 {
    let (index, half) = (index as u64, HALF as u64);
    if index < 2 * half { index } else { (index % half + half) << (index / half - 1) }
}

/// Returns the bucket of a value; the index may exceed the last bucket.
fn index_of(value_ns: u64) -> usize {
    let doublings = (u64::BITS - 11).saturating_sub(value_ns.leading_zeros()) as usize;
    doublings * HALF + (value_ns >> doublings) as usize
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
            // Uniform over the orders of magnitude, like latencies of different targets.
            let value_ns = (chance >> (chance % 40)) % up_to;
            made.saturating_record_n(value_ns.max(1), 1 + chance % 3);
        }
        made
    }

    /// Compares the statistics with those that the library computes from the same counts.
    fn assert_reads_as(sum: &Sum, truth: &Histogram<u64>) {
        assert_eq!(sum.len(), truth.len());
        assert_eq!((sum.mean(), sum.stdev()), (truth.mean(), truth.stdev()));
        if !truth.is_empty() {
            assert_eq!((sum.min(), sum.max()), (truth.min(), truth.max()));
        }
        for share in [0.0, 1e-9, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            assert_eq!(sum.value_at_quantile(share), truth.value_at_quantile(share), "{share}");
        }
        let buckets: Vec<(u64, u64)> = (sum.buckets()).map(|b| (b.greatest_ns, b.count)).collect();
        let theirs: Vec<(u64, u64)> = truth
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect();
        assert_eq!(buckets, theirs);
        let mut plain = Vec::new();
        V2Serializer::new().serialize(truth, &mut plain).unwrap();
        assert_eq!(sum.pack(), plain);
        let unpacked: Histogram<u64> =
            Deserializer::new().deserialize(&mut &sum.encode()[..]).unwrap();
        assert_eq!(unpacked, *truth);
    }

    #[test]
    fn a_sum_equals_that_of_the_library() {
        let (mut sum, mut merged) = (Sum::default(), Sum::default());
        let mut truth = crate::histogram();
        assert_reads_as(&sum, &truth);
        for seed in 0..80 {
            let up_to = [3_600_000_000_000, 1, 5_000, 1 << 30][seed as usize % 4];
            let histogram = filled(seed, seed * 7, up_to);
            truth.add(&histogram).unwrap();
            let encoded = crate::recorder::encode(&histogram, &mut V2DeflateSerializer::new());
            let is_read = DECODER.with_borrow_mut(|decoder| decoder.decode(&encoded).is_some());
            assert!(is_read, "the library had to decode {seed}");
            let mut alone = Sum::default();
            alone.add(&encoded).unwrap();
            assert_reads_as(&alone, &histogram);
            let mut again = Sum::default();
            again.add(&alone.pack()).unwrap();
            assert_reads_as(&again, &histogram);
            sum.add(&encoded).unwrap();
            merged.merge(&alone);
        }
        assert_reads_as(&sum, &truth);
        assert_reads_as(&merged, &truth);
    }

    #[test]
    fn values_are_counted_in_the_same_buckets_as_by_the_library() {
        let mut sum = Sum::default();
        let mut truth = crate::histogram();
        for number in (0..63).rev() {
            for off in [-1_i64, 0, 1] {
                let value_ns = (1_u64 << number).saturating_add_signed(off);
                sum.record(value_ns, 1 + number);
                truth.saturating_record_n(value_ns, 1 + number);
            }
        }
        sum.record(u64::MAX, u64::MAX);
        truth.saturating_record_n(u64::MAX, u64::MAX);
        assert_eq!(sum.len(), truth.len());
        assert_eq!((sum.min(), sum.max()), (truth.min(), truth.max()));
        let counts: Vec<u64> = sum.buckets().map(|bucket| bucket.count).collect();
        let theirs: Vec<u64> = truth.iter_recorded().map(|step| step.count_at_value()).collect();
        assert_eq!(counts, theirs);
    }

    #[test]
    fn every_bucket_is_found_again() {
        for index in 0..BUCKETS {
            assert_eq!(index_of(value_of(index)), index);
            assert_eq!(index_of(value_of(index + 1) - 1), index);
        }
        for number in 0..63 {
            for off in [-1_i64, 0, 1] {
                let value_ns =
                    (1_u64 << number).saturating_add_signed(off).clamp(1, LATENCY_NS_MAX);
                let mut histogram = crate::histogram();
                histogram.saturating_record_n(value_ns, 1);
                let mut sum = Sum::default();
                sum.add(&crate::recorder::encode(&histogram, &mut V2DeflateSerializer::new()))
                    .unwrap();
                assert_reads_as(&sum, &histogram);
            }
        }
    }

    #[test]
    fn ranks_are_read_in_one_pass() {
        let histogram = filled(3, 1000, 1 << 40);
        let mut sum = Sum::default();
        sum.add(&crate::recorder::encode(&histogram, &mut V2DeflateSerializer::new())).unwrap();
        let ranks: Vec<u64> = (1..=histogram.len()).collect();
        let mut truth = Vec::new();
        for step in histogram.iter_recorded() {
            truth.resize(truth.len() + step.count_at_value() as usize, step.value_iterated_to());
        }
        assert_eq!(sum.at_ranks(&ranks), truth);
        assert!(sum.at_ranks(&[histogram.len() + 1]).is_empty());
    }

    #[test]
    fn histograms_with_other_bounds_use_the_library() {
        let mut other = Histogram::<u64>::new_with_bounds(1, 1_000_000, 2).unwrap();
        other.record_n(999, 5).unwrap();
        let mut sum = Sum::default();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&other, &mut bytes).unwrap();
        sum.add(&bytes).unwrap();
        bytes.clear();
        V2Serializer::new().serialize(&other, &mut bytes).unwrap();
        sum.add(&bytes).unwrap();
        let mut truth = crate::histogram();
        truth.add(&other).unwrap();
        truth.add(&other).unwrap();
        assert_reads_as(&sum, &truth);
        let mut beyond = Histogram::<u64>::new_with_bounds(1, 1 << 50, 3).unwrap();
        beyond.record_n(1 << 49, 1).unwrap();
        bytes.clear();
        V2Serializer::new().serialize(&beyond, &mut bytes).unwrap();
        assert!(sum.add(&bytes).unwrap_err().contains("beyond one hour"));
        assert_eq!(sum.len(), 10);
    }

    #[test]
    fn damaged_input_changes_nothing() {
        let encoded =
            crate::recorder::encode(&filled(1, 500, 1 << 40), &mut V2DeflateSerializer::new());
        for place in 0..encoded.len() {
            for bit in 0..8 {
                let mut damaged = encoded.clone();
                damaged[place] ^= 1 << bit;
                let mut sum = Sum::default();
                // The checksum of the stream detects the damage; otherwise it is in a field of the
                // head that has no effect.
                if sum.add(&damaged).is_err() {
                    assert!(sum.is_empty(), "byte {place}, bit {bit}");
                }
            }
            // The library accepts a stream that lacks its end and checksum.
            if place < encoded.len() - 8 {
                let mut sum = Sum::default();
                assert!(sum.add(&encoded[..place]).is_err(), "cut at {place}");
                assert!(sum.is_empty());
            }
        }
    }
}
