//! Judges the calls of all keys in files, in bounded memory.
//!
//! Keys are hashed into partitions that fit into memory, and the files are read once for each partition.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::call::{Action, CALL_BYTES, Call};
use crate::explain::{Anomaly, Staleness};
use crate::key::{Initial, Model, Standing, judge_key};

/// Bytes per read.
const PIECE_BYTES: usize = CALL_BYTES << 14;

/// The value of each key before the first call.
#[derive(Debug, Clone)]
pub struct Initials {
    /// The first value of all other keys.
    pub usual: Initial,
    /// Keys whose first value is unknown, as sorted half-open ranges.
    pub unknown: Vec<(u64, u64)>,
}

impl Initials {
    fn of(&self, key: u64) -> Initial {
        let before = self.unknown.partition_point(|(first, _)| *first <= key);
        let is_in = before > 0 && key < self.unknown[before - 1].1;
        if is_in { Initial::Unknown } else { self.usual }
    }
}

/// Quantiles of a sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
}

impl Quantiles {
    fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let at = |share: f64| {
            let place = (values.len() as f64 * share).ceil() as usize;
            values.get(place.saturating_sub(1)).copied().unwrap_or_default()
        };
        Self { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

/// The result of judging a history.
#[derive(Debug, Clone, Default)]
pub struct Judgement {
    /// Number of calls.
    pub calls: u64,
    /// Number of keys.
    pub keys: u64,
    /// The first undecided keys.
    pub undecided: Vec<u64>,
    /// The number of all undecided keys.
    pub undecided_keys: u64,
    /// All anomalies, counted by kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// The first anomalies, with the calls that prove them.
    pub anomalies: Vec<Anomaly>,
    /// Stale reads.
    pub stale_reads: u64,
    /// Their age: for how long a newer value had been visible, in nanoseconds.
    pub behind_ns: Quantiles,
    /// Their distance: how many newer writes had been acknowledged.
    pub versions: Quantiles,
}

/// Judges the history in files. At most `calls_max` calls are in memory at a time, unless one key
/// has more.
///
/// # Errors
/// A file cannot be read.
pub fn judge_files(
    files: &[PathBuf],
    initials: &Initials,
    model: Model,
    calls_max: usize,
    anomalies_max: usize,
) -> io::Result<Judgement> {
    let mut count: u64 = 0;
    for file in files {
        read(file, |_| count += 1)?;
    }
    let parts = count.div_ceil(calls_max.max(1) as u64).max(1);
    let mut judgement = Judgement::default();
    let mut staleness = Vec::new();
    for part in 0..parts {
        let mut calls = Vec::new();
        for file in files {
            read(file, |call| {
                if part_of(call.key, parts) == part {
                    calls.push(call);
                }
            })?;
        }
        calls.sort_unstable_by_key(|call: &Call| (call.key, call.called_ns));
        let is_call = |call: &&Call| !matches!(call.action, Action::Listed(_));
        judgement.calls += calls.iter().filter(is_call).count() as u64;
        for of_key in calls.chunk_by(|a, b| a.key == b.key) {
            judgement.add(of_key, initials, model, anomalies_max, &mut staleness);
        }
    }
    judgement.stale_reads = staleness.len() as u64;
    judgement.behind_ns = Quantiles::of(staleness.iter().map(|stale| stale.behind_ns).collect());
    judgement.versions = Quantiles::of(staleness.iter().map(|stale| stale.versions).collect());
    Ok(judgement)
}

impl Judgement {
    fn add(
        &mut self,
        calls: &[Call],
        initials: &Initials,
        model: Model,
        anomalies_max: usize,
        staleness: &mut Vec<Staleness>,
    ) {
        let key = calls[0].key;
        self.keys += 1;
        let mut judged = judge_key(calls.to_vec(), initials.of(key), model);
        if judged.standing == Standing::Undecided {
            self.undecided_keys += 1;
            if self.undecided.len() < anomalies_max {
                self.undecided.push(key);
            }
        }
        staleness.append(&mut judged.staleness);
        for mut anomaly in judged.anomalies {
            *self.counts.entry(anomaly.kind.name()).or_default() += 1;
            if self.anomalies.len() < anomalies_max {
                // The first value is not a call of the history.
                anomaly.calls.retain(|call| call.called_ns > 0);
                self.anomalies.push(anomaly);
            }
        }
    }
}

fn part_of(key: u64, parts: u64) -> u64 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % parts
}

/// Reads a file of calls. Skips a truncated record at the end, and records that do not decode.
fn read(path: &Path, mut take: impl FnMut(Call)) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut held = 0;
    loop {
        let count = file.read(&mut piece[held..])?;
        if count == 0 {
            return Ok(());
        }
        held += count;
        let (whole, rest) = piece[..held].as_chunks::<CALL_BYTES>();
        let rest_bytes = rest.len();
        for record in whole {
            Call::decode(record, &mut take);
        }
        piece.copy_within(held - rest_bytes..held, 0);
        held = rest_bytes;
    }
}
