//! Versions: in a bucket that keeps them, a clean-up that is to delete them sees versions and delete
//! markers where it would see objects, so whose a key is, is decided over all of them.

use std::collections::HashSet;

use loadstone_wire::encode::write_query;
use loadstone_wire::http1::Method;
use loadstone_wire::xml;

use super::S3Client;
use super::buckets::{MARK, as_put};
use crate::error::Error;
use crate::ownership::{Page, Places};
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::HeadSpec;
use crate::transport::transfer::Nothing;

/// Versions deleted with one request.
const VERSIONS_AT_ONCE: usize = 1000;
/// Stands between the id and the key in the token of a page; an id has none.
const BETWEEN: char = '\n';

impl S3Client {
    /// Lists one page of a bucket's versions, as the keys that they belong to.
    pub(super) async fn page_of_versions(
        &mut self,
        bucket: &str,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<Page, Error> {
        let page = self.list_versions(bucket, prefix, token).await?;
        let first = page.versions.first().map(|(key, id)| format!("{id}{BETWEEN}{key}"));
        let next = page.next.map(|(key, id)| format!("{id}{BETWEEN}{key}"));
        self.versions.clear();
        let mut keys: Vec<String> = Vec::new();
        for (listed, id) in page.versions {
            let key = as_put(listed, self.title().prefix());
            if keys.last() != Some(&key) {
                keys.push(key.clone());
            }
            self.versions.entry(key).or_default().push(id);
        }
        let page = self.title().sort(bucket, keys, |key| key == MARK, next);
        Ok(Page { first, ..page })
    }

    /// Deletes all versions of keys; returns of how many all that are known are gone.
    pub(super) async fn delete_versions(
        &mut self,
        bucket: &str,
        keys: &[String],
    ) -> Result<u64, Error> {
        let mut all = Vec::new();
        for key in keys {
            let ids = match self.versions.remove(key) {
                Some(ids) => ids,
                None => self.versions_of(bucket, key).await?,
            };
            all.extend(ids.into_iter().map(|id| (key.as_str(), id)));
        }
        let mut failed = HashSet::new();
        // A list of versions is XML, which cannot carry every key.
        let (all, alone): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(key, _)| xml::is_writable(key));
        for (key, id) in &alone {
            let mut query = Vec::new();
            write_query(&mut query, &[("versionId", Some(id.as_bytes()))]);
            self.renew_deadline();
            self.at(bucket, key);
            let spec =
                HeadSpec { query: &query, ..HeadSpec::new(Method::Delete, &[200, 202, 204, 404]) };
            let reply = self.ask(&spec, &Nothing).await;
            if reply.status == 0 {
                return Err(self.refused(format!("delete versions in \"{bucket}\""), &reply));
            }
            if !reply.outcome.is_ok() {
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
                    failed.extend(more.into_iter().map(|one| one.0))
                }
                _ => return Err(self.refused(format!("delete versions in \"{bucket}\""), &reply)),
            }
        }
        Ok(keys.iter().filter(|key| !failed.contains(*key)).count() as u64)
    }

    /// Tells whether a bucket keeps versions; not, if the store does not tell.
    pub(super) async fn is_versioned(&mut self, bucket: &str) -> bool {
        self.renew_deadline();
        self.at(bucket, "");
        let spec = HeadSpec { query: b"versioning", ..HeadSpec::new(Method::Get, &[200]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        reply.outcome.is_ok() && xml::parse_versioning(&self.http.collect.body) == Ok(true)
    }

    async fn versions_of(&mut self, bucket: &str, key: &str) -> Result<Vec<String>, Error> {
        let page = self.list_versions(bucket, key, None).await?;
        Ok(page.versions.into_iter().filter(|(found, _)| found == key).map(|(_, id)| id).collect())
    }

    async fn list_versions(
        &mut self,
        bucket: &str,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<xml::VersionPage, Error> {
        let marker = token.and_then(|token| token.split_once(BETWEEN));
        let (id, key) = marker.unwrap_or_default();
        let parameters = [
            ("encoding-type", Some(b"url".as_slice())),
            ("key-marker", Some(key.as_bytes()).filter(|key| !key.is_empty())),
            ("max-keys", Some(b"1000".as_slice())),
            ("prefix", Some(prefix.as_bytes()).filter(|prefix| !prefix.is_empty())),
            ("version-id-marker", Some(id.as_bytes()).filter(|id| !id.is_empty())),
        ];
        let given = parameters.into_iter().filter(|(_, value)| value.is_some());
        let present: Vec<_> = given.chain([("versions", None)]).collect();
        let mut query = Vec::new();
        write_query(&mut query, &present);
        self.renew_deadline();
        self.at(bucket, "");
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, &[200]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        let what = || format!("list the versions in bucket \"{bucket}\"");
        if reply.status == 404 {
            return Ok(xml::VersionPage::default());
        }
        if !reply.outcome.is_ok() {
            let error = self.refused(what(), &reply);
            return Err(match reply.status {
                400 | 405 | 501 => {
                    error.with_hint("a store without versions needs no delete_versions")
                }
                _ => error,
            });
        }
        xml::parse_version_page(&self.http.collect.body)
            .map_err(|error| Error::target(what(), error.to_string()))
    }
}
