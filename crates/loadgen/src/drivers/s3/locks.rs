//! Object locks as operations of the load: retention, legal holds, and deletes that a lock must
//! prevent; and how a clean-up deletes locked objects.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use loadstone_wire::date::parse_iso8601;
use loadstone_wire::encode::write_query;
use loadstone_wire::http1::Method;
use loadstone_wire::xml;
use serde_json::{Map, Value};

use super::S3Client;
use crate::clock::unix_ns;
use crate::error::Error;
use crate::outcome::{Completion, Outcome};
use crate::ownership::Places;
use crate::ownership::beside::{Header, SharedPlace};
use crate::requests::Request;
use crate::settings;
use crate::transport::connection::Reply;
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::{BodyDigest, HeadSpec};
use crate::transport::transfer::Nothing;
use crate::trial::{Share, Trial};

/// Header that enables object lock in a new bucket.
pub(super) const LOCKS: Header<'static> = ("x-amz-bucket-object-lock-enabled", b"true");
const BYPASS: Header<'static> = ("x-amz-bypass-governance-retention", b"true");
/// Allowed retention: long enough for a delete to be refused, short enough for a clean-up to wait.
const RETENTION_S: RangeInclusive<u64> = 2..=60;
/// How far a store's clock may be ahead, in seconds.
const MARGIN_S: u64 = 1;
const SHOWN: &[&str] =
    &["x-amz-version-id", "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold"];

impl S3Client {
    /// Locks the newest version of an object for the time that the target's settings give.
    pub(super) async fn retain(&mut self, request: &Request) -> Completion {
        self.retain_until(request).await.0
    }

    async fn retain_until(&mut self, request: &Request) -> (Completion, u64) {
        let retention_s = self.thread.s3.settings.retention_s.unwrap_or_default();
        // Retention ends on a whole second, and lasts at least as long as requested.
        let until_s = unix_ns().div_ceil(1_000_000_000) + retention_s;
        self.at_object(request.object().index, b"");
        let reply = self.change_lock(b"retention", &xml::retention_body(until_s)).await;
        (reply.completion(), until_s)
    }

    /// Puts a legal hold on the newest version of an object, or lifts it.
    pub(super) async fn hold(&mut self, request: &Request, is_held: bool) -> Completion {
        self.at_object(request.object().index, b"");
        self.change_lock(b"legal-hold", xml::legal_hold_body(is_held)).await.completion()
    }

    /// Tries to delete the newest version of an object, which is locked, so the store must refuse.
    /// Before that, outside of the measured time, it checks whether the version is locked, and
    /// locks it if not.
    pub(super) async fn delete_locked(&mut self, request: &Request) -> Completion {
        self.at_object(request.object().index, b"");
        let asked = self.ask_for_body(&HeadSpec::new(Method::Head, &[200]), &Nothing, SHOWN).await;
        if !asked.outcome.is_ok() {
            return asked.completion();
        }
        let answer = |name| self.http.collect.header(name);
        let mut until_s = answer(SHOWN[1]).and_then(parse_iso8601).unwrap_or_default();
        let is_held = answer(SHOWN[2]).is_some_and(|status| status.eq_ignore_ascii_case("ON"));
        let Some(id) = answer(SHOWN[0]).map(str::to_owned) else {
            let text = "the store names no version of the object: the bucket keeps no versions";
            return SharedPlace::refuse(self, Outcome::UNSUPPORTED, text.to_owned());
        };
        let is_locked = |until_s| is_held || until_s > unix_ns() / 1_000_000_000 + MARGIN_S;
        if !is_locked(until_s) {
            self.renew_deadline();
            let (locked, end_s) = self.retain_until(request).await;
            if !locked.outcome.is_ok() {
                return locked;
            }
            until_s = end_s;
        }
        // The request itself has its full timeout.
        self.renew_deadline();
        self.at_object(request.object().index, b"");
        let query = version_query(&id);
        // AWS refuses with 403, others with 400 or 409. A repeated request might find the version
        // deleted.
        let delete = HeadSpec::new(Method::Delete, &[400, 403, 409]);
        let spec = HeadSpec { query: &query, is_idempotent: false, ..delete };
        let mut completion = self.ask(&spec, &Nothing).await.completion();
        if completion.outcome.http_status().is_some_and(|status| (200..300).contains(&status)) {
            completion.outcome = match is_locked(until_s) {
                true => {
                    let text = format!("the store deleted version {id}, which is locked");
                    self.object_to(Outcome::LOCK_IGNORED, text)
                }
                false => {
                    let text = "the lock may have ended before the delete: raise retention_s";
                    self.object_to(completion.outcome, text.to_owned())
                }
            };
        }
        completion
    }

    /// Returns the header with which a clean-up deletes what the run has locked.
    pub(super) fn bypass(&self) -> &'static [Header<'static>] {
        match self.thread.s3.settings.retention_s {
            Some(_) => &[BYPASS],
            None => &[],
        }
    }

    /// Deletes all versions of locked keys: lifts legal holds, and waits for retentions to end if
    /// the store does not let the client bypass them. Returns the number of deleted keys.
    pub(super) async fn delete_unlocked(
        &mut self,
        bucket: &str,
        keys: &[String],
    ) -> Result<u64, Error> {
        let Some(retention_s) = self.thread.s3.settings.retention_s else { return Ok(0) };
        let mut left = Vec::new();
        for key in keys {
            for version in self.known_versions(bucket, key).await? {
                self.renew_deadline();
                self.at(bucket, key);
                if !version.is_marker {
                    // If there is no hold, or no permission to lift it, the delete shows the
                    // result.
                    let id = Some(version.id.as_bytes());
                    let mut query = Vec::new();
                    write_query(&mut query, &[("legal-hold", None), ("versionId", id)]);
                    self.change_lock(&query, xml::legal_hold_body(false)).await;
                }
                if !self.delete_version(bucket, key, &version.id).await? {
                    left.push((key, version.id));
                }
            }
        }
        if !left.is_empty() {
            let reactor = self.reactor();
            let wait_ns = (retention_s + MARGIN_S) * 1_000_000_000;
            self.http.thread.reactor.set_deadline(u64::MAX);
            reactor.sleep_until(reactor.now_ns() + wait_ns).await;
        }
        let mut undeleted = HashSet::new();
        for (key, id) in left {
            if !self.delete_version(bucket, key, &id).await? {
                undeleted.insert(key);
            }
        }
        Ok((keys.len() - undeleted.len()) as u64)
    }

    /// Deletes a version outside of the measurement; returns whether it no longer exists.
    ///
    /// # Errors
    /// There was no answer.
    pub(super) async fn delete_version(
        &mut self,
        bucket: &str,
        key: &str,
        id: &str,
    ) -> Result<bool, Error> {
        self.renew_deadline();
        self.at(bucket, key);
        let query = version_query(id);
        let delete = HeadSpec::new(Method::Delete, &[200, 202, 204, 404]);
        let spec = HeadSpec { query: &query, headers: self.bypass(), ..delete };
        let reply = self.ask(&spec, &Nothing).await;
        match reply.status {
            0 => Err(self.refused(format!("delete versions in \"{bucket}\""), &reply)),
            _ => Ok(reply.outcome.is_ok()),
        }
    }

    async fn change_lock(&mut self, query: &[u8], body: &[u8]) -> Reply {
        let put = HeadSpec::new(Method::Put, &[200, 204]);
        let spec = HeadSpec { query, digest: BodyDigest::Md5, ..put };
        self.ask(&spec, &body).await
    }
}

/// Returns the query with a version's ID.
pub(super) fn version_query(id: &str) -> Vec<u8> {
    let mut query = Vec::new();
    write_query(&mut query, &[("versionId", Some(id.as_bytes()))]);
    query
}

/// Returns the mistakes in a trial's settings of locks.
pub(super) fn mistakes(map: &Map<String, Value>, trial: &Trial) -> Vec<String> {
    let Some(value) = map.get("retention_s") else {
        let locks = trial.mix.iter().find(|share| share.operation.locks());
        let name = |share: &Share| share.operation.name();
        let text = |name| format!("mix: found {name} without retention_s, allowed: with it");
        return locks.map(name).map(text).into_iter().collect();
    };
    let is_suspended = settings::text(map, "versioning") == Some("suspended");
    [
        (
            value.as_u64().is_some_and(|retention_s| RETENTION_S.contains(&retention_s)),
            format!("found {value}, allowed: whole seconds from 2 to 60"),
        ),
        (
            !is_suspended,
            "found it with versioning: suspended, allowed: without, because a bucket that locks \
             objects keeps their versions"
                .into(),
        ),
        (
            !trial.allow_foreign,
            "found it with allow_foreign, allowed: without, because objects are locked in buckets of \
             loadstone's own alone"
                .into(),
        ),
    ]
    .into_iter()
    .filter(|(holds, _)| !holds)
    .map(|(_, text)| format!("target.settings.retention_s: {text}"))
    .collect()
}
