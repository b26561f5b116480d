//! Faults on request: delays, errors, limits, broken connections, and lies about data.
//!
//! Tests and calibration need a store whose faults are known. All faults are functions of the seed:
//! the n-th request of a class, and the n-th write of a key, always have the same faults.

mod gate;
mod lies;
mod pace;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::error::StoreError;

pub(crate) use gate::{Gate, Verdict};
pub use lies::{Lie, LieKind};
pub(crate) use lies::{Lies, WriteLie};
pub(crate) use pace::Pacer;

/// Classes of requests for faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestClass {
    /// Reads of objects.
    Get,
    /// Writes of objects, copies and parts of multipart uploads.
    Put,
    /// Metadata requests for an object or a bucket.
    Head,
    /// Changes of metadata.
    Post,
    /// Listings.
    List,
    /// Deletes of objects, one or many.
    Delete,
    /// Creating, changing and deleting buckets.
    Bucket,
    /// Tokens; subject to faults only if this class is named.
    Token,
    /// In a configuration: every class, except `token`, that is not named.
    All,
}

pub(crate) const CLASSES: usize = 8;

/// The `faults` of a [`StoreConfig`](crate::StoreConfig); all are absent by default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultConfig {
    /// Seed of all draws.
    pub seed: u64,
    /// Delay before a request is served, by class; accurate to about 1 ms.
    pub latency: BTreeMap<RequestClass, Latency>,
    /// Requests that fail, by class.
    pub errors: BTreeMap<RequestClass, ErrorRate>,
    /// Requests that are delayed for long before they are served, by class.
    pub stalls: BTreeMap<RequestClass, Stall>,
    /// Share of requests whose connection is closed without an answer, by class.
    pub resets: BTreeMap<RequestClass, f64>,
    /// Share of answers that break off within their body, by class.
    pub truncations: BTreeMap<RequestClass, f64>,
    /// CPU time spent on each request before it is served, in rounds of a mixing function of about
    /// a nanosecond each. Simulates a performance regression, for tests that must detect one.
    pub burn_rounds: u64,
    /// Requests per second above which S3 answers 503 SlowDown and Swift 429.
    pub requests_per_s: Option<f64>,
    /// Bytes of bodies per second, in each direction.
    pub bytes_per_s: Option<u64>,
    /// Lies about data.
    pub lies: LieConfig,
}

/// Distribution of a delay.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
pub enum Latency {
    /// Constant.
    Fixed {
        /// Delay, in milliseconds.
        ms: f64,
    },
    /// Lognormal, as is typical of services.
    Lognormal {
        /// Median, in milliseconds.
        median_ms: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
}

/// Requests that fail.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRate {
    /// Share of the requests, 0 to 1.
    pub rate: f64,
    /// HTTP status of the answer.
    #[serde(default = "service_unavailable")]
    pub status: u16,
}

fn service_unavailable() -> u16 {
    503
}

/// Requests that are delayed for long.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Share of the requests, 0 to 1.
    pub probability: f64,
    /// Delay, in milliseconds.
    pub ms: f64,
}

/// Shares of requests about which the store lies, each 0 to 1.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LieConfig {
    /// Writes that are acknowledged and discarded.
    pub lost_write: f64,
    /// Reads that return the version before the current one.
    pub stale_read: f64,
    /// Writes that are stored with one wrong byte.
    pub corrupt_byte: f64,
    /// Writes of which only the beginning is stored; the rest is the old object's.
    pub torn: f64,
    /// Deletes whose object reappears.
    pub resurrect: f64,
    /// Time until it reappears, in milliseconds; 1000 when absent.
    pub resurrect_after_ms: Option<u64>,
    /// Conditional requests that are executed although their condition does not hold.
    pub condition_ignored: f64,
    /// Conditional requests that are executed although another one came first: the condition held
    /// until the last write of the key.
    pub several_winners: f64,
    /// Aborts of uploads that are acknowledged and keep the upload.
    pub abort_ignored: f64,
    /// Writes in a bucket with versions that delete the previous version.
    pub lost_version: f64,
    /// Deletes of locked versions that are executed.
    pub lock_ignored: f64,
    /// Replacements of metadata that are acknowledged and keep what was there.
    pub lost_metadata: f64,
    /// Only keys with this prefix are affected.
    pub prefix: String,
    /// File to which each lie is appended as a line of JSON: the expected result for a detector.
    pub log: Option<PathBuf>,
}

impl LieConfig {
    /// Returns the shares, with their names in a configuration.
    pub(crate) fn shares(&self) -> [(&'static str, f64); 11] {
        [
            ("lies.lost_write", self.lost_write),
            ("lies.stale_read", self.stale_read),
            ("lies.corrupt_byte", self.corrupt_byte),
            ("lies.torn", self.torn),
            ("lies.resurrect", self.resurrect),
            ("lies.condition_ignored", self.condition_ignored),
            ("lies.several_winners", self.several_winners),
            ("lies.abort_ignored", self.abort_ignored),
            ("lies.lost_version", self.lost_version),
            ("lies.lock_ignored", self.lock_ignored),
            ("lies.lost_metadata", self.lost_metadata),
        ]
    }
}

impl FaultConfig {
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let shares = self
            .errors
            .values()
            .map(|errors| ("errors.rate", errors.rate))
            .chain(self.stalls.values().map(|stall| ("stalls.probability", stall.probability)))
            .chain(self.resets.values().map(|share| ("resets", *share)))
            .chain(self.truncations.values().map(|share| ("truncations", *share)))
            .chain(self.lies.shares());
        let times = self
            .latency
            .values()
            .flat_map(|latency| match *latency {
                Latency::Fixed { ms } => [ms, 0.0],
                Latency::Lognormal { median_ms, sigma } => [median_ms, sigma],
            })
            .chain(self.stalls.values().map(|stall| stall.ms));
        let refuse =
            |problem: String, hint| Err(StoreError::Config { key: "faults", problem, hint });
        for (name, share) in shares {
            if !(0.0..=1.0).contains(&share) {
                return refuse(format!("{name} is {share}"), "a share lies between 0 and 1");
            }
        }
        for time in times {
            if !(0.0..=3.6e6).contains(&time) {
                return refuse(
                    format!("a time or sigma is {time}"),
                    "give milliseconds between 0 and an hour",
                );
            }
        }
        for status in self.errors.values().map(|errors| errors.status) {
            if !(400..600).contains(&status) {
                return refuse(format!("errors.status is {status}"), "use 400 to 599");
            }
        }
        if self.requests_per_s.is_some_and(|rate| !(0.001..=1e9).contains(&rate)) {
            return refuse("requests_per_s is out of range".into(), "use 0.001 to 1e9");
        }
        if self.bytes_per_s == Some(0) {
            return refuse("bytes_per_s is 0".into(), "leave it out for no limit");
        }
        Ok(())
    }
}

/// Converts a table by class to an array, applying `all`.
pub(crate) fn by_class<T: Copy>(table: &BTreeMap<RequestClass, T>) -> [Option<T>; CLASSES] {
    let mut spread = [None; CLASSES];
    for (class, value) in table {
        match class {
            RequestClass::All => spread[..RequestClass::Token as usize]
                .iter_mut()
                .for_each(|slot| *slot = slot.or(Some(*value))),
            named => spread[*named as usize] = Some(*value),
        }
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_applies_to_every_unnamed_class_except_tokens() {
        let table = BTreeMap::from([(RequestClass::All, 1), (RequestClass::Put, 2)]);
        let spread = by_class(&table);
        assert_eq!(spread[RequestClass::Get as usize], Some(1));
        assert_eq!(spread[RequestClass::Put as usize], Some(2));
        assert_eq!(spread[RequestClass::Token as usize], None);
    }

    #[test]
    fn shares_above_one_and_statuses_of_success_are_refused() {
        let parse = |json: &str| serde_json::from_str::<FaultConfig>(json).unwrap().check();
        assert!(parse(r#"{"errors": {"get": {"rate": 0.5}}}"#).is_ok());
        assert!(parse(r#"{"errors": {"get": {"rate": 1.5}}}"#).is_err());
        assert!(parse(r#"{"errors": {"get": {"rate": 0.5, "status": 200}}}"#).is_err());
        assert!(parse(r#"{"latency": {"all": {"kind": "fixed", "ms": -1}}}"#).is_err());
        assert!(serde_json::from_str::<FaultConfig>(r#"{"latencies": {}}"#).is_err());
    }
}
