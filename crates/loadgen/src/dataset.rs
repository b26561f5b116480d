//! The objects that a load works on: their names, their sizes, and how they are chosen.
//!
//! Everything is a function of the seed and the object's number, so memory does not grow with the
//! number of objects. Names from a script or a list are looked up there.

use std::borrow::Cow;
use std::sync::Arc;

use crate::chance::{mix64, unit};
use crate::ledger::{Audit, COPIES, MetadataValues, Place};
use crate::object_list::{Listed, ObjectList};
use crate::payload::ObjectId;
use crate::script::{self, Listing, ListingCheck, Script};
use crate::trial::{DatasetSpec, Shards, SizeLaw, Trial};

mod chooser;
mod paths;

pub use chooser::KeyChooser;
use paths::SealedPaths;
pub use paths::{Stored, longest_sealed, sealed_bytes};

/// Suffix of the key of an object's copy.
pub(crate) const COPY_SUFFIX: &str = ".copy";

/// One object of a dataset, in one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Object {
    /// Number of the object, which determines name and size.
    pub(crate) index: u64,
    /// Number of the write that created this version.
    pub(crate) version: u64,
}

/// Names and sizes of a dataset's objects.
#[derive(Debug, Clone)]
pub struct Dataset {
    spec: DatasetSpec,
    seed: u64,
    /// Hash of both prefixes; computed once, because each request needs it.
    prefix_hash: u64,
    /// The audit, which knows the objects that must exist.
    audit: Option<Arc<Audit>>,
    /// The values that this trial's posts write.
    pub(crate) metadata: MetadataValues,
    names: Names,
    /// Maps keys to their encrypted form, if paths are encrypted.
    paths: Option<Arc<SealedPaths>>,
    /// Whether a script's keys are written as file names, which contain no slash.
    is_flat: bool,
}

/// Source of the names and sizes of objects.
#[derive(Debug, Clone)]
enum Names {
    /// Names from numbers; sizes from a distribution.
    Numbered,
    /// As `Numbered`, with a shard before the number.
    Sharded(Shards),
    /// Names and sizes from a script, for each version.
    Scripted(Arc<Script>),
    /// Names and sizes from a list of objects that others wrote.
    Listed(Arc<ObjectList>),
}

impl Dataset {
    /// Creates the dataset of a trial.
    #[must_use]
    pub fn new(trial: &Trial) -> Self {
        let spec = trial.dataset.clone();
        Self {
            prefix_hash: prefix_hash(&spec),
            audit: trial.open_audit.clone(),
            metadata: MetadataValues::of_trial(&trial.run, &trial.id),
            names: match (&trial.open_script, &trial.open_list) {
                (Some(script), _) => Names::Scripted(Arc::clone(script)),
                (None, Some(list)) => Names::Listed(Arc::clone(list)),
                (None, None) => spec.shards.clone().map_or(Names::Numbered, Names::Sharded),
            },
            paths: SealedPaths::of_trial(trial),
            is_flat: false,
            seed: mix64(trial.content_seed() ^ 0x5349_5a45),
            spec,
        }
    }

    /// Returns the trial's description of the dataset.
    #[must_use]
    pub fn spec(&self) -> &DatasetSpec {
        &self.spec
    }

    /// Returns the number of the bucket that contains an object.
    #[inline]
    #[must_use]
    pub fn bucket_of(&self, index: u64) -> u64 {
        match &self.names {
            Names::Numbered | Names::Sharded(_) => index % self.spec.buckets,
            Names::Scripted(script) => script.subjects.place(index) % self.spec.buckets,
            Names::Listed(_) => 0,
        }
    }

    /// Appends the name of a bucket.
    #[inline]
    pub fn write_bucket(&self, bucket: u64, out: &mut Vec<u8>) {
        if let Names::Listed(_) = self.names {
            return out.extend_from_slice(self.spec.bucket_prefix.as_bytes());
        }
        write_bucket_name(&self.spec.bucket_prefix, self.spec.buckets, bucket, out);
    }

    /// Appends the key of an object.
    #[inline]
    pub fn write_key(&self, index: u64, out: &mut Vec<u8>) {
        if let Some(paths) = &self.paths {
            return self.write_sealed_key(paths, index, out);
        }
        match &self.names {
            Names::Numbered => {
                out.extend_from_slice(self.spec.object_prefix.as_bytes());
                write_number(index, out);
            }
            Names::Sharded(shards) => {
                out.extend_from_slice(self.spec.object_prefix.as_bytes());
                write_shard(shards, index / self.spec.buckets, out);
                write_number(index, out);
            }
            Names::Scripted(script) => {
                out.extend_from_slice(self.spec.object_prefix.as_bytes());
                write_scripted(script.subjects.key(index), self.is_flat, out);
            }
            Names::Listed(list) => out.extend_from_slice(list.key(index)),
        }
    }

    /// A separate function, so that the hot loop of plain datasets stays small.
    #[inline(never)]
    fn write_sealed_key(&self, paths: &SealedPaths, index: u64, out: &mut Vec<u8>) {
        let Names::Scripted(script) = &self.names else {
            let mut digits = Vec::with_capacity(20);
            write_number(index, &mut digits);
            return paths.seal(std::str::from_utf8(&digits).expect("digits are text"), out);
        };
        let plain_key = script.subjects.key(index);
        if !self.is_flat {
            return paths.seal(plain_key, out);
        }
        let mut stored = Vec::new();
        paths.seal(plain_key, &mut stored);
        let (prefix, sealed_name) = stored.split_at(self.spec.object_prefix.len());
        out.extend_from_slice(prefix);
        write_flat(sealed_name, out);
    }

    /// Returns the name of a bucket.
    #[must_use]
    pub fn bucket(&self, bucket: u64) -> String {
        self.spec.bucket(bucket)
    }

    /// Returns the number of the object that has this key, if the key has the form of this
    /// dataset's keys.
    #[must_use]
    pub fn index_of(&self, key: &str) -> Option<u64> {
        let key = self.listed_key(key)?;
        let number_text = match &self.names {
            Names::Numbered => key.strip_prefix(&self.spec.object_prefix)?,
            Names::Sharded(shards) => {
                let shard = shards.digits as usize;
                let behind = key.strip_prefix(&self.spec.object_prefix)?.get(shard..)?;
                behind.strip_prefix(&shards.tail)?
            }
            Names::Scripted(script) => return script.subjects.with_key(&key).next(),
            // Objects that others wrote are never taken for ours.
            Names::Listed(_) => return None,
        };
        let index = numbered(number_text)?;
        if let Names::Sharded(_) = self.names {
            let mut whole = Vec::with_capacity(key.len());
            self.write_key(index, &mut whole);
            return (whole == key.as_bytes()).then_some(index);
        }
        Some(index)
    }

    /// Returns whether keys consist of a prefix and a number.
    pub(crate) fn is_numbered(&self) -> bool {
        matches!(self.names, Names::Numbered) && self.paths.is_none()
    }

    /// Returns whether a key in this bucket belongs to an object of this dataset: its number is
    /// below `objects` or in a range of `beyond`.
    #[must_use]
    pub(crate) fn holds(&self, bucket: &str, key: &str, beyond: &[(u64, u64)]) -> bool {
        let is_here = |index: u64| {
            let is_numbered = index < self.spec.objects
                || beyond.iter().any(|(first, end)| (*first..*end).contains(&index));
            is_numbered && self.bucket(self.bucket_of(index)) == bucket
        };
        match &self.names {
            Names::Numbered | Names::Sharded(_) | Names::Listed(_) => {
                self.index_of(key).is_some_and(is_here)
            }
            // The same key may exist in several places.
            Names::Scripted(script) => {
                let key = self.listed_key(key);
                key.is_some_and(|key| script.subjects.with_key(&key).any(is_here))
            }
        }
    }

    /// From now on, writes keys of a script as file names, with `%2F` for a slash.
    pub(crate) fn flatten(&mut self) {
        self.is_flat = true;
    }

    fn unflattened<'a>(&self, key: &'a str) -> Cow<'a, str> {
        if !self.is_flat || !key.contains('%') {
            return Cow::Borrowed(key);
        }
        let (prefix, name) = key.split_at(self.spec.object_prefix.len().min(key.len()));
        // In this order, so that a decoded percent sign does not begin another escape.
        Cow::Owned(format!("{prefix}{}", name.replace("%2F", "/").replace("%25", "%")))
    }

    /// Returns the full prefix of a script's listing, including the prefix of all keys.
    pub(crate) fn listed_prefix(&self, listing: &Listing) -> String {
        let mut prefix = Vec::new();
        self.write_key(u64::from(listing.prefix), &mut prefix);
        String::from_utf8_lossy(&prefix).into_owned()
    }

    /// Starts to check the keys that a script's listing returns.
    ///
    /// # Panics
    /// The dataset does not come from a script.
    pub(crate) fn check_listing(&self, listing: &Listing) -> ListingCheck<'_> {
        let Names::Scripted(script) = &self.names else {
            unreachable!("only a script lists prefixes")
        };
        script.subjects.check_listing(*listing)
    }

    /// Starts to compare the keys of a bucket's listing with the ledgers, in an audit.
    pub(crate) fn audit_listing(&self, bucket: u64) -> Option<ListedKeys<'_>> {
        let audit = self.audit.as_ref()?;
        Some(ListedKeys { audit, dataset: self, bucket, keys: 0 })
    }

    /// Returns the number of the write that created a version, for messages.
    pub(crate) fn write_of(&self, version: u64) -> u64 {
        match &self.names {
            Names::Scripted(_) => script::write_of(version),
            Names::Numbered | Names::Sharded(_) | Names::Listed(_) => version,
        }
    }

    /// Returns where an object lies, for messages, and its length in a version; an upper bound if
    /// the exact length is unknown.
    pub(crate) fn place_of(&self, index: u64, version: u64) -> Place {
        let mut key = Vec::new();
        self.write_key(index, &mut key);
        let key = String::from_utf8_lossy(&key).into_owned();
        let is_unknown = version == 0 && matches!(self.names, Names::Scripted(_));
        let size_bytes =
            if is_unknown { self.spec.size.max() } else { self.length(Object { index, version }) };
        Place { bucket: self.bucket(self.bucket_of(index)), key, size_bytes }
    }

    /// Returns the key of a listed name; `None` if names are encrypted and this one does not
    /// decrypt.
    pub(crate) fn listed_key<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        let name = self.unflattened(name);
        match &self.paths {
            None => Some(name),
            Some(paths) => paths.open(&name).map(Cow::Owned),
        }
    }

    /// Returns a hash of bucket and key for payloads.
    #[inline]
    #[must_use]
    pub fn key_hash(&self, index: u64) -> u64 {
        mix64(self.prefix_hash ^ mix64(index))
    }

    /// Returns an object in the version that the trial writes and expects to read.
    #[inline]
    pub(crate) fn object(&self, index: u64) -> Object {
        Object { index, version: self.spec.version }
    }

    /// Returns the parameters of an object's payload.
    #[inline]
    pub(crate) fn id(&self, object: Object) -> ObjectId {
        let id = ObjectId::new(self.key_hash(object.index), object.version, self.length(object));
        match &self.names {
            Names::Numbered | Names::Sharded(_) | Names::Listed(_) => id,
            Names::Scripted(script) => {
                ObjectId { reader: script.subjects.reader(object.index), ..id }
            }
        }
    }

    /// Returns the size of an object in its version, in bytes.
    #[inline]
    pub(crate) fn length(&self, object: Object) -> u64 {
        match &self.names {
            Names::Numbered | Names::Sharded(_) => self.size(object.index),
            Names::Scripted(_) => script::length_of(object.version),
            Names::Listed(list) => list.size(object.index),
        }
    }

    /// Returns the listed facts of an object that others wrote; `None` for our own objects.
    #[inline]
    pub(crate) fn listed(&self, index: u64) -> Option<Listed> {
        match &self.names {
            Names::Numbered | Names::Sharded(_) | Names::Scripted(_) => None,
            Names::Listed(list) => Some(list.listed(index)),
        }
    }

    /// Returns whether others wrote the objects, so that their content cannot be checked.
    pub(crate) fn is_listed(&self) -> bool {
        matches!(self.names, Names::Listed(_))
    }

    /// Returns the size of one of our objects, in bytes.
    #[inline]
    #[must_use]
    pub fn size(&self, index: u64) -> u64 {
        match &self.spec.size {
            SizeLaw::Fixed { bytes } => *bytes,
            law => law.draw(mix64(self.seed ^ mix64(index))),
        }
    }
}

/// Compares the keys of one bucket's listing with the ledgers as they arrive.
#[derive(Debug)]
pub(crate) struct ListedKeys<'a> {
    audit: &'a Audit,
    dataset: &'a Dataset,
    bucket: u64,
    keys: u64,
}

impl ListedKeys<'_> {
    /// Records a key. A key that no object of the dataset can have belongs to another writer.
    pub(crate) fn add(&mut self, key: &str) {
        self.keys += 1;
        let source = key.strip_suffix(COPY_SUFFIX);
        if let Some(index) = self.dataset.index_of(source.unwrap_or(key))
            && self.dataset.bucket_of(index) == self.bucket
        {
            self.audit.note_listed(if source.is_some() { index | COPIES } else { index });
        }
    }

    /// Returns the number of keys.
    pub(crate) fn end(&self) -> u64 {
        self.audit.note_keys(self.keys);
        self.keys
    }
}

/// Parses a number without leading zeroes.
fn numbered(digits: &str) -> Option<u64> {
    let is_canonical = digits == "0" || !digits.starts_with('0');
    if !is_canonical || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Appends the shard of an object by its number in its bucket, and the constant text that follows.
fn write_shard(shards: &Shards, number: u64, out: &mut Vec<u8>) {
    let base = u64::from(shards.base);
    let mut divisor = base.pow(shards.digits.saturating_sub(1));
    for _ in 0..shards.digits {
        out.push(b"0123456789abcdef"[(number / divisor % base) as usize]);
        divisor = (divisor / base).max(1);
    }
    out.extend_from_slice(shards.tail.as_bytes());
}

/// Writes a key of a script, as a file name if `is_flat`.
fn write_scripted(key: &str, is_flat: bool, out: &mut Vec<u8>) {
    if is_flat {
        write_flat(key.as_bytes(), out);
    } else {
        out.extend_from_slice(key.as_bytes());
    }
}

fn write_flat(key: &[u8], out: &mut Vec<u8>) {
    for byte in key {
        match byte {
            b'/' => out.extend_from_slice(b"%2F"),
            b'%' => out.extend_from_slice(b"%25"),
            byte => out.push(*byte),
        }
    }
}

/// Returns the length of a key as a file name.
fn flat_bytes(key: &str) -> usize {
    let mut flat = Vec::with_capacity(key.len());
    write_flat(key.as_bytes(), &mut flat);
    flat.len()
}

/// Hashes the prefixes by FNV-1a (Fowler, Noll, Vo). The object's number is mixed in separately.
fn prefix_hash(spec: &DatasetSpec) -> u64 {
    let bytes = spec.bucket_prefix.bytes().chain([0]).chain(spec.object_prefix.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl SizeLaw {
    /// Returns the size for 64 random bits.
    #[must_use]
    fn draw(&self, bits: u64) -> u64 {
        match self {
            Self::Fixed { bytes } => *bytes,
            Self::Uniform { min, max } => {
                min + ((u128::from(bits) * u128::from(max - min + 1)) >> 64) as u64
            }
            Self::Lognormal { median, sigma, min, max } => {
                // The Box-Muller transform yields a normal deviate.
                let radius = (-2.0 * (1.0 - unit(bits)).ln()).sqrt();
                let deviate = radius * (std::f64::consts::TAU * unit(mix64(bits))).cos();
                let size = (median.ln() + sigma * deviate).exp();
                (size.round() as u64).clamp(*min, *max)
            }
            Self::Weighted { choices } => {
                let total: f64 = choices.iter().map(|(_, weight)| weight).sum();
                let mut left = unit(bits) * total;
                for (bytes, weight) in choices {
                    left -= weight;
                    if left < 0.0 {
                        return *bytes;
                    }
                }
                choices.last().map_or(0, |(bytes, _)| *bytes)
            }
            Self::Listed { .. } => unreachable!("the list says how large each object is"),
        }
    }

    /// Returns the smallest possible size, in bytes.
    #[must_use]
    pub(crate) fn min(&self) -> u64 {
        match self {
            Self::Fixed { bytes } => *bytes,
            Self::Uniform { min, .. } | Self::Lognormal { min, .. } | Self::Listed { min, .. } => {
                *min
            }
            Self::Weighted { choices } => {
                choices.iter().map(|(bytes, _)| *bytes).min().unwrap_or(0)
            }
        }
    }

    /// Returns the largest possible size, in bytes.
    #[must_use]
    pub fn max(&self) -> u64 {
        match self {
            Self::Fixed { bytes } => *bytes,
            Self::Uniform { max, .. } | Self::Lognormal { max, .. } | Self::Listed { max, .. } => {
                *max
            }
            Self::Weighted { choices } => {
                choices.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0)
            }
        }
    }

    /// Returns the mistakes in the distribution, for the check of the trial.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        match self {
            Self::Fixed { .. } => Vec::new(),
            Self::Uniform { min, max } | Self::Listed { min, max, .. } if min <= max => Vec::new(),
            Self::Lognormal { median, sigma, min, max }
                if *median > 0.0 && *sigma >= 0.0 && min <= max =>
            {
                Vec::new()
            }
            Self::Weighted { choices }
                if !choices.is_empty() && choices.iter().all(|(_, weight)| *weight > 0.0) =>
            {
                Vec::new()
            }
            law => vec![format!(
                "dataset.size: found {law:?}, allowed: min up to max, a median and weights above 0"
            )],
        }
    }
}

impl DatasetSpec {
    /// Returns the name of a bucket.
    #[must_use]
    pub fn bucket(&self, bucket: u64) -> String {
        if self.existing.is_some() {
            // A bucket of others keeps its exact name, which may end in a dash.
            return self.bucket_prefix.clone();
        }
        bucket_name(&self.bucket_prefix, self.buckets, bucket)
    }
}

/// Returns the name of a bucket in a dataset with this many buckets.
///
/// # Panics
/// Never: names are valid UTF-8.
#[must_use]
pub fn bucket_name(prefix: &str, buckets: u64, bucket: u64) -> String {
    let mut name = Vec::new();
    write_bucket_name(prefix, buckets, bucket, &mut name);
    String::from_utf8(name).expect("a prefix and digits are text")
}

/// Appends the name of a bucket. A single bucket has no number.
#[inline]
fn write_bucket_name(prefix: &str, buckets: u64, bucket: u64, out: &mut Vec<u8>) {
    if buckets == 1 {
        out.extend_from_slice(prefix.trim_end_matches('-').as_bytes());
    } else {
        out.extend_from_slice(prefix.as_bytes());
        write_number(bucket, out);
    }
}

/// Appends a number in decimal digits, without the formatter's cost.
#[inline]
pub fn write_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        let digit = (number % 10) as u8;
        digits[first] = b'0' + digit;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_their_distribution() {
        let mean = |law: &SizeLaw| {
            (0..100_000_u64).map(|index| law.draw(mix64(index)) as f64).sum::<f64>() / 1e5
        };
        let uniform = SizeLaw::Uniform { min: 1000, max: 3000 };
        assert!((mean(&uniform) / 2000.0 - 1.0).abs() < 0.01);
        let weighted = SizeLaw::Weighted { choices: vec![(100, 3.0), (500, 1.0)] };
        assert!((mean(&weighted) / 200.0 - 1.0).abs() < 0.02);
        let (median, sigma) = (10_000.0, 0.5_f64);
        let lognormal = SizeLaw::Lognormal { median, sigma, min: 1, max: u64::MAX };
        let truth = median * (sigma * sigma / 2.0).exp();
        assert!((mean(&lognormal) / truth - 1.0).abs() < 0.01);
    }

    #[test]
    fn keys_are_spread_over_shards_and_read_back() {
        let trial: Trial = serde_json::from_str(
            r#"{"format":1,"id":"0001","run":"00000000000000000000000000000001","seed":7,
                "phase":"put","target":{"name":"t","driver":"null"},
                "dataset":{"bucket_prefix":"b-","buckets":3,"objects":9000,"object_prefix":"o-",
                           "shards":{"digits":2,"base":16,"tail":"/"},
                           "size":{"kind":"fixed","bytes":1}},
                "mix":[{"operation":"put"}],"stop":{"requests":1},
                "load":{"kind":"closed","clients":1}}"#,
        )
        .expect("the test's document is sound");
        let dataset = Dataset::new(&trial);
        let key = |index| {
            let mut key = Vec::new();
            dataset.write_key(index, &mut key);
            String::from_utf8(key).expect("ASCII")
        };
        assert_eq!([key(0), key(50), key(770)], ["o-00/0", "o-10/50", "o-00/770"]);
        let shards: std::collections::BTreeSet<String> =
            (0..9000).step_by(3).map(|index| key(index)[..5].to_owned()).collect();
        assert_eq!(shards.len(), 256);
        assert!((0..9000).all(|index| dataset.index_of(&key(index)) == Some(index)));
        // Keys of others do not match, however similar.
        for other in ["o-0/0", "o-01/0", "o-00/00", "o-00/", "o-0ü/0", "o-00-0", "o-000"] {
            assert_eq!(dataset.index_of(other), None, "{other}");
        }
    }

    #[test]
    fn numbers_are_written_in_digits() {
        for number in [0, 7, 10, 12_345, u64::MAX] {
            let mut out = b"x".to_vec();
            write_number(number, &mut out);
            assert_eq!(String::from_utf8(out).expect("digits"), format!("x{number}"));
        }
    }
}
