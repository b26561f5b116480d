//! Misbehaviour on request: delays, errors, limits, broken connections, and lies about data.
//!
//! Tests and calibration need a store whose faults are known. Everything here is drawn from the
//! seed: the n-th request of a class, and the n-th write of a key, always meet the same fate.

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

/// The kinds of request that faults tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestClass {
    /// Reads of objects.
    Get,
    /// Writes of objects, copies and parts of multipart uploads.
    Put,
    /// Questions about an object or a bucket.
    Head,
    /// Changes of metadata.
    Post,
    /// Listings.
    List,
    /// Deletes of objects, one or many.
    Delete,
    /// Making, changing and deleting buckets.
    Bucket,
    /// Tokens; faults strike them only where this class is named.
    Token,
    /// In a configuration: every class but `token` that is not named itself.
    All,
}

pub(crate) const CLASSES: usize = 8;

/// The `faults` of a [`StoreConfig`](crate::StoreConfig); all absent by default.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultConfig {
    /// Decides every draw.
    pub seed: u64,
    /// Time added before a request is served, by class; steps of about 1 ms.
    pub latency: BTreeMap<RequestClass, Latency>,
    /// Requests that fail, by class.
    pub errors: BTreeMap<RequestClass, ErrorRate>,
    /// Requests that wait long before they are served, by class.
    pub stalls: BTreeMap<RequestClass, Stall>,
    /// Share of requests whose connection is closed without an answer, by class.
    pub resets: BTreeMap<RequestClass, f64>,
    /// Share of answers that break off in the middle of their body, by class.
    pub truncations: BTreeMap<RequestClass, f64>,
    /// Processor time spent on each request before it is served: rounds of a mixing function, about a
    /// nanosecond each. A store that got slower, for those who look for that.
    pub burn_rounds: u64,
    /// Requests a second beyond which S3 answers 503 SlowDown and Swift 429.
    pub requests_per_s: Option<f64>,
    /// Bytes of bodies a second, in each direction.
    pub bytes_per_s: Option<u64>,
    /// Lies about data.
    pub lies: LieConfig,
}

/// A distribution of added time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
pub enum Latency {
    /// Always the same.
    Fixed {
        /// The time, in milliseconds.
        ms: f64,
    },
    /// Lognormal, as services behave.
    Lognormal {
        /// The median, in milliseconds.
        median_ms: f64,
        /// The deviation of the logarithm.
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

/// Requests that wait long.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// Share of the requests, 0 to 1.
    pub probability: f64,
    /// How long they wait, in milliseconds.
    pub ms: f64,
}

/// Shares of requests about which the store lies, 0 to 1 each.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LieConfig {
    /// Writes that are acknowledged and thrown away.
    pub lost_write: f64,
    /// Reads that get the version before the current one.
    pub stale_read: f64,
    /// Writes of which one byte is kept wrong.
    pub corrupt_byte: f64,
    /// Writes of which only the beginning is kept; the rest is the old object's.
    pub torn: f64,
    /// Deletes whose object comes back.
    pub resurrect: f64,
    /// How long after, in milliseconds; 1000 when absent.
    pub resurrect_after_ms: Option<u64>,
    /// Conditional requests that are carried out although their condition does not hold.
    pub condition_ignored: f64,
    /// Conditional requests that are carried out although another came first: the condition held
    /// until the last write of the key.
    pub several_winners: f64,
    /// Aborts of uploads that are acknowledged and leave the upload.
    pub abort_ignored: f64,
    /// Writes in a bucket with versions after which the version before is gone.
    pub lost_version: f64,
    /// Deletes of locked versions that are carried out.
    pub lock_ignored: f64,
    /// Only keys with this beginning are lied about.
    pub prefix: String,
    /// File to which each lie is appended as a line of JSON: the truth for a detector's test.
    pub log: Option<PathBuf>,
}

impl LieConfig {
    /// Returns the shares, each with its name in a configuration.
    pub(crate) fn shares(&self) -> [(&'static str, f64); 10] {
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

/// Spreads a table by class, with its `all`, over an array.
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
    fn all_fills_every_class_that_is_not_named_but_never_tokens() {
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
