//! Lies about data: writes that are acknowledged and lost, stale, corrupt or torn data, deleted
//! objects that reappear.
//!
//! A detector of lost and damaged data is credible only if it has found some. Which write a lie
//! affects depends on the seed, the key and the number of writes of the key, never on timing.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::LieConfig;
use crate::chance;
use crate::clock;
use crate::error::StoreError;
use crate::stored::object::Object;

/// A lie in an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lie {
    /// Kind of lie.
    pub kind: LieKind,
    /// Bucket of the object.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Number of the write, read or delete of this key, from 0.
    pub number: u64,
    /// Time, in microseconds since 1970.
    pub time_unix_us: u64,
}

/// The kinds of lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LieKind {
    /// A write was acknowledged and discarded.
    LostWrite,
    /// A read returned the version before the current one.
    StaleRead,
    /// A write was stored with one wrong byte.
    CorruptByte,
    /// Only the beginning of a write was stored.
    Torn,
    /// A deleted object is about to reappear.
    Resurrect,
    /// A request was executed although its condition did not hold.
    ConditionIgnored,
    /// A request was executed although another one had already invalidated its condition.
    SeveralWinners,
    /// An upload was kept although its abort was acknowledged.
    AbortIgnored,
    /// A write deleted the previous version.
    LostVersion,
    /// A locked version was deleted.
    LockIgnored,
    /// A replacement of metadata was acknowledged and discarded.
    LostMetadata,
}

/// The lie about a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WriteLie {
    Lost,
    CorruptByte(u64),
    Torn(u64),
}

/// Decides on lies, and records them.
#[derive(Debug)]
pub(crate) struct Lies {
    seed: u64,
    config: LieConfig,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    keys: HashMap<(Box<str>, Box<str>), KeyState>,
    list: Vec<Lie>,
    log: Option<File>,
}

#[derive(Debug, Default)]
struct KeyState {
    writes: u64,
    reads: u64,
    deletes: u64,
    conditions: u64,
    aborts: u64,
    covers: u64,
    locks: u64,
    descriptions: u64,
    /// The version that the last write replaced.
    previous: Option<Arc<Object>>,
}

impl Lies {
    /// Creates the lies, or `None` if none is configured.
    pub(crate) fn new(config: &LieConfig, seed: u64) -> Result<Option<Lies>, StoreError> {
        if config.shares().iter().all(|(_, share)| *share == 0.0) {
            return Ok(None);
        }
        let open = |path| OpenOptions::new().create(true).append(true).open(path);
        let log = config.log.as_ref().map(open).transpose().map_err(|source| {
            StoreError::System { action: "open the log of lies (faults.lies.log)", source }
        })?;
        let state = Mutex::new(State { log, ..State::default() });
        Ok(Some(Lies { seed, config: config.clone(), state }))
    }

    /// Returns the lies so far, oldest first.
    pub(crate) fn list(&self) -> Vec<Lie> {
        self.state().list.clone()
    }

    /// Decides on the next write of a key.
    pub(crate) fn write(&self, bucket: &str, key: &str, length: u64) -> Option<WriteLie> {
        let mut state = self.state();
        let number = next(&mut state.key(bucket, key).writes);
        let falls = |kind, share| self.falls(kind, share, bucket, key, number);
        let place = |kind| chance::fraction(self.seed, &[kind, bucket, key], number);
        let (kind, lie) = if falls("lost_write", self.config.lost_write) {
            (LieKind::LostWrite, WriteLie::Lost)
        } else if length > 1 && falls("torn", self.config.torn) {
            let at = 1 + (place("torn at") * (length - 1) as f64) as u64;
            (LieKind::Torn, WriteLie::Torn(at))
        } else if length > 0 && falls("corrupt_byte", self.config.corrupt_byte) {
            let at = (place("corrupt at") * length as f64) as u64;
            (LieKind::CorruptByte, WriteLie::CorruptByte(at))
        } else {
            return None;
        };
        state.tell(kind, bucket, key, number);
        Some(lie)
    }

    /// Decides on the next read of a key: returns the old version to return, if any.
    pub(crate) fn stale_read(&self, bucket: &str, key: &str) -> Option<Arc<Object>> {
        let mut state = self.state();
        let entry = state.key(bucket, key);
        let number = next(&mut entry.reads);
        let previous = entry.previous.clone()?;
        if !self.falls("stale_read", self.config.stale_read, bucket, key, number) {
            return None;
        }
        state.tell(LieKind::StaleRead, bucket, key, number);
        Some(previous)
    }

    /// Returns whether there may be lies about conditions. Conditions must then not be checked
    /// early.
    pub(crate) fn are_about_conditions(&self) -> bool {
        self.config.condition_ignored > 0.0 || self.config.several_winners > 0.0
    }

    /// Decides on a conditional request whose condition does not hold; `held_for` tests it against
    /// what existed before the last write.
    pub(crate) fn ignores_condition(
        &self,
        bucket: &str,
        key: &str,
        held_for: impl FnOnce(Option<&Object>) -> bool,
    ) -> bool {
        let mut state = self.state();
        let entry = state.key(bucket, key);
        let number = next(&mut entry.conditions);
        let falls = |kind, share| self.falls(kind, share, bucket, key, number);
        let kind = if falls("condition_ignored", self.config.condition_ignored) {
            LieKind::ConditionIgnored
        } else if falls("several_winners", self.config.several_winners)
            && held_for(entry.previous.as_deref())
        {
            LieKind::SeveralWinners
        } else {
            return false;
        };
        state.tell(kind, bucket, key, number);
        true
    }

    /// Decides on the next abort of an upload of a key: returns whether to ignore it.
    pub(crate) fn ignores_abort(&self, bucket: &str, key: &str) -> bool {
        let mut state = self.state();
        let number = next(&mut state.key(bucket, key).aborts);
        let is_ignored =
            self.falls("abort_ignored", self.config.abort_ignored, bucket, key, number);
        if is_ignored {
            state.tell(LieKind::AbortIgnored, bucket, key, number);
        }
        is_ignored
    }

    /// Decides on the next write over a version: returns whether to delete that version.
    pub(crate) fn loses_version(&self, bucket: &str, key: &str) -> bool {
        let mut state = self.state();
        let number = next(&mut state.key(bucket, key).covers);
        let is_lost = self.falls("lost_version", self.config.lost_version, bucket, key, number);
        if is_lost {
            state.tell(LieKind::LostVersion, bucket, key, number);
        }
        is_lost
    }

    /// Decides on the next delete of a locked version of a key: returns whether to execute it.
    pub(crate) fn ignores_lock(&self, bucket: &str, key: &str) -> bool {
        let mut state = self.state();
        let number = next(&mut state.key(bucket, key).locks);
        let is_ignored = self.falls("lock_ignored", self.config.lock_ignored, bucket, key, number);
        if is_ignored {
            state.tell(LieKind::LockIgnored, bucket, key, number);
        }
        is_ignored
    }

    /// Decides on the next replacement of a key's metadata: returns whether to discard it.
    pub(crate) fn loses_metadata(&self, bucket: &str, key: &str) -> bool {
        let mut state = self.state();
        let number = next(&mut state.key(bucket, key).descriptions);
        let is_lost = self.falls("lost_metadata", self.config.lost_metadata, bucket, key, number);
        if is_lost {
            state.tell(LieKind::LostMetadata, bucket, key, number);
        }
        is_lost
    }

    /// Keeps the version that a write replaced, for stale reads and for conditions.
    pub(crate) fn keep_previous(&self, bucket: &str, key: &str, replaced: Option<&Arc<Object>>) {
        if self.config.stale_read > 0.0 || self.config.several_winners > 0.0 {
            self.state().key(bucket, key).previous = replaced.cloned();
        }
    }

    /// Decides on the next delete of a key: returns after what time the object reappears, if at
    /// all.
    pub(crate) fn resurrect(&self, bucket: &str, key: &str) -> Option<Duration> {
        let mut state = self.state();
        let number = next(&mut state.key(bucket, key).deletes);
        if !self.falls("resurrect", self.config.resurrect, bucket, key, number) {
            return None;
        }
        state.tell(LieKind::Resurrect, bucket, key, number);
        Some(Duration::from_millis(self.config.resurrect_after_ms.unwrap_or(1000)))
    }

    fn falls(&self, kind: &str, share: f64, bucket: &str, key: &str, number: u64) -> bool {
        share > 0.0
            && key.starts_with(&self.config.prefix)
            && chance::fraction(self.seed, &[kind, bucket, key], number) < share
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn key(&mut self, bucket: &str, key: &str) -> &mut KeyState {
        self.keys.entry((bucket.into(), key.into())).or_default()
    }

    fn tell(&mut self, kind: LieKind, bucket: &str, key: &str, number: u64) {
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let lie = Lie { kind, bucket, key, number, time_unix_us: clock::now_us() };
        if let Some(log) = &mut self.log
            && let Ok(mut line) = serde_json::to_vec(&lie)
        {
            line.push(b'\n');
            // The list in memory is complete even if the file cannot grow.
            let _ = log.write_all(&line);
        }
        self.list.push(lie);
    }
}

fn next(counter: &mut u64) -> u64 {
    *counter += 1;
    *counter - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lies(config: LieConfig) -> Lies {
        Lies::new(&config, 3).unwrap().unwrap()
    }

    #[test]
    fn which_write_is_lost_does_not_depend_on_the_order_of_other_keys() {
        let lost = |order: [&str; 2]| {
            let lies = lies(LieConfig { lost_write: 0.2, ..LieConfig::default() });
            let mut lost = Vec::new();
            for n in 0..100 {
                for key in order {
                    if lies.write("b", key, 10).is_some() {
                        lost.push((key.to_owned(), n));
                    }
                }
            }
            lost.sort();
            assert_eq!(lies.list().len(), lost.len());
            lost
        };
        assert_eq!(lost(["x", "y"]), lost(["y", "x"]));
        assert!((20..60).contains(&lost(["x", "y"]).len()));
    }

    #[test]
    fn positions_of_damage_are_inside_the_object() {
        let lies = lies(LieConfig { torn: 0.5, corrupt_byte: 1.0, ..LieConfig::default() });
        for length in [1, 2, 3, 4096] {
            for _ in 0..200 {
                match lies.write("b", "k", length).unwrap() {
                    WriteLie::Torn(at) => assert!((1..length).contains(&at)),
                    WriteLie::CorruptByte(at) => assert!(at < length),
                    WriteLie::Lost => unreachable!(),
                }
            }
        }
        assert_eq!(lies.write("b", "k", 0), None);
    }

    #[test]
    fn there_are_no_lies_about_keys_outside_the_prefix() {
        let prefix = "data/".to_owned();
        let lies = lies(LieConfig { lost_write: 1.0, prefix, ..LieConfig::default() });
        assert_eq!(lies.write("b", "mark", 5), None);
        assert_eq!(lies.write("b", "data/1", 5), Some(WriteLie::Lost));
    }
}
