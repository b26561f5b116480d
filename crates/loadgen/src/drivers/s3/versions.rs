//! Clean-up of versions: in a bucket that keeps them, a clean-up that deletes versions lists
//! versions and delete markers instead of objects, so all versions of a key decide whose it is.

use std::collections::HashSet;

use loadstone_wire::encode::write_query;
use loadstone_wire::http1::Method;
use loadstone_wire::xml::{self, ListedVersion};

use super::S3Client;
use super::buckets::{MARK, as_put};
use super::locks::version_query;
use super::target::Versioning;
use crate::error::{Error, Kind};
use crate::ownership::beside::Writer;
use crate::ownership::{Page, Places};
use crate::transport::connection::Reply;
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::{BodyDigest, HeadSpec};
use crate::transport::transfer::Nothing;

/// Versions per delete request.
const VERSIONS_AT_ONCE: usize = 1000;
/// Separates ID and key in the token of a page; an ID does not contain it.
const BETWEEN: char = '\n';

impl S3Client {
    /// Lists one page of a bucket's versions, and returns their keys.
    pub(super) async fn page_of_versions(
        &mut self,
        bucket: &str,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<Page, Error> {
        let page = self.version_page(bucket, prefix, token).await?;
        let first = page.versions.first().map(|version| token_of(&version.key, &version.id));
        let next = page.next.map(|(key, id)| token_of(&key, &id));
        self.versions.clear();
        let mut keys: Vec<String> = Vec::new();
        for version in page.versions {
            let key = as_put(version.key.clone(), self.title().prefix());
            let of_key = self.versions.entry(key.clone()).or_default();
            if of_key.is_empty() {
                keys.push(key);
            }
            of_key.push(version);
        }
        let page = self.title().sort(bucket, keys, |key| key == MARK, next);
        Ok(Page { first, ..page })
    }

    /// Deletes all versions of keys; returns for how many keys all known versions are gone.
    pub(super) async fn delete_versions(
        &mut self,
        bucket: &str,
        keys: &[String],
    ) -> Result<u64, Error> {
        let mut all = Vec::new();
        for key in keys {
            let versions = self.known_versions(bucket, key).await?;
            all.extend(versions.into_iter().map(|version| (key.as_str(), version.id)));
        }
        let mut failed = HashSet::new();
        // The list of versions is XML, which cannot contain every key.
        let (all, alone): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(key, _)| xml::is_writable(key));
        for (key, id) in &alone {
            if !self.delete_version(bucket, key, id).await? {
                failed.insert((*key).to_owned());
            }
        }
        for batch in all.chunks(VERSIONS_AT_ONCE) {
            let mut body = std::mem::take(&mut self.http.scratch);
            body.clear();
            let named = batch.iter().map(|(key, id)| (*key, id.as_str()));
            xml::write_delete_versions(&mut body, named);
            self.renew_deadline();
            let (reply, result) = self.delete_named(bucket, body).await;
            match result {
                Ok(more) if reply.outcome.is_ok() => {
                    failed.extend(more.into_iter().map(|failure| failure.0))
                }
                _ => return Err(self.refused(format!("delete versions in \"{bucket}\""), &reply)),
            }
        }
        let gone = keys.iter().filter(|key| !failed.contains(*key)).count() as u64;
        let failed: Vec<String> = failed.into_iter().collect();
        Ok(gone + self.delete_unlocked(bucket, &failed).await?)
    }

    /// Returns whether a bucket keeps versions; false if the store does not tell.
    pub(super) async fn is_versioned(&mut self, bucket: &str) -> bool {
        self.renew_deadline();
        self.at(bucket, "");
        let spec = HeadSpec { query: b"versioning", ..HeadSpec::new(Method::Get, &[200]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        reply.outcome.is_ok() && xml::parse_versioning(&self.http.collect.body) == Ok(true)
    }

    /// Enables or suspends versioning of a bucket; returns whether the bucket exists.
    ///
    /// # Errors
    /// The store refuses, or ignores the request.
    pub(super) async fn set_versioning(
        &mut self,
        bucket: &str,
        versioning: Versioning,
    ) -> Result<bool, Error> {
        self.renew_deadline();
        self.at(bucket, "");
        let spec = HeadSpec {
            query: b"versioning",
            digest: BodyDigest::Md5,
            ..HeadSpec::new(Method::Put, &[200])
        };
        let body = xml::versioning_body(versioning.status());
        let reply = self.ask(&spec, &body.as_slice()).await;
        let action = || format!("set versioning of bucket \"{bucket}\" to {}", versioning.status());
        match reply.status {
            404 => Ok(false),
            _ if !reply.outcome.is_ok() => Err(self.refused(action(), &reply)),
            _ if self.is_versioned(bucket).await => Ok(true),
            _ => Err(Error::target(
                action(),
                "the store accepted the setting, but keeps no versions",
            )
            .of(Kind::Unsupported)),
        }
    }

    /// Returns those of `keys` in a foreign bucket that have versions of ours, and excludes the
    /// versions of others from deletion. A delete marker over another's version belongs to the
    /// other.
    pub(super) async fn keys_with_versions_of_ours(
        &mut self,
        bucket: &str,
        keys: &[String],
    ) -> Result<Vec<String>, Error> {
        let mut ours = Vec::with_capacity(keys.len());
        for key in keys {
            // A page may have ended between two versions of a key.
            self.versions.remove(key);
            let (markers, versions): (Vec<_>, Vec<_>) = self
                .known_versions(bucket, key)
                .await?
                .into_iter()
                .partition(|version| version.is_marker);
            let all = versions.len();
            let mut owned = Vec::with_capacity(all);
            for version in versions {
                if self.is_version_of_ours(bucket, &version).await? {
                    owned.push(version);
                }
            }
            if owned.len() == all {
                owned.extend(markers);
            }
            if !owned.is_empty() {
                self.versions.insert(key.clone(), owned);
                ours.push(key.clone());
            }
        }
        Ok(ours)
    }

    async fn is_version_of_ours(
        &mut self,
        bucket: &str,
        version: &ListedVersion,
    ) -> Result<bool, Error> {
        self.renew_deadline();
        self.at(bucket, &version.key);
        let query = version_query(&version.id);
        match self.writer_here(&query).await {
            Ok(Writer::Absent) => Ok(true),
            Ok(Writer::Run(run)) => Ok(self.title().is_ours(&run)),
            Ok(Writer::Unnamed) => Ok(false),
            Err(reply) => {
                let action = format!("check the owner of a version of \"{}\"", version.key);
                Err(self.refused(action, &reply))
            }
        }
    }

    /// Returns the versions of a key from the last page, or lists them.
    pub(super) async fn known_versions(
        &mut self,
        bucket: &str,
        key: &str,
    ) -> Result<Vec<ListedVersion>, Error> {
        if let Some(versions) = self.versions.remove(key) {
            return Ok(versions);
        }
        let page = self.version_page(bucket, key, None).await?;
        Ok(page.versions.into_iter().filter(|version| version.key == key).collect())
    }

    async fn version_page(
        &mut self,
        bucket: &str,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<xml::VersionPage, Error> {
        let (id, key) = token.and_then(|token| token.split_once(BETWEEN)).unwrap_or_default();
        let marker = (key.to_owned(), id.to_owned());
        let reply = self.ask_for_versions(bucket, prefix, &marker, 1000).await;
        let action = || format!("list the versions in bucket \"{bucket}\"");
        if reply.status == 404 {
            return Ok(xml::VersionPage::default());
        }
        if !reply.outcome.is_ok() {
            let error = self.refused(action(), &reply);
            return Err(match reply.status {
                400 | 405 | 501 => {
                    error.with_hint("a store without versions needs no delete_versions")
                }
                _ => error,
            });
        }
        xml::parse_version_page(&self.http.collect.body)
            .map_err(|error| Error::target(action(), error.to_string()))
    }
    /// Requests a page of a bucket's versions, after the given key and ID if there are any.
    pub(super) async fn ask_for_versions(
        &mut self,
        bucket: &str,
        prefix: &str,
        (key, id): &(String, String),
        versions_max: u32,
    ) -> Reply {
        let versions_max = versions_max.to_string();
        let parameters = [
            ("encoding-type", "url"),
            ("key-marker", key),
            ("max-keys", &versions_max),
            ("prefix", prefix),
            ("version-id-marker", id),
        ];
        let given = parameters.into_iter().filter(|(_, value)| !value.is_empty());
        let given = given.map(|(name, value)| (name, Some(value.as_bytes())));
        let present: Vec<_> = given.chain([("versions", None)]).collect();
        let mut query = Vec::new();
        write_query(&mut query, &present);
        self.renew_deadline();
        self.at(bucket, "");
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, &[200]) };
        self.ask_for_body(&spec, &Nothing, &[]).await
    }
}

fn token_of(key: &str, id: &str) -> String {
    format!("{id}{BETWEEN}{key}")
}
