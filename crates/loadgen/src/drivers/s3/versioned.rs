//! Versions as operations of the load: write, read, list and delete a version.

use std::collections::HashMap;
use std::rc::Rc;

use loadstone_wire::http1::Method;
use loadstone_wire::xml::{self, ListedVersion};

use super::S3Client;
use super::locks::version_query;
use super::target::Versioning;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::SharedPlace;
use crate::payload::Verifier;
use crate::requests::Request;
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::HeadSpec;
use crate::transport::reading::judge_read;
use crate::transport::stored::read_unchecked;
use crate::transport::transfer::Nothing;

/// Maximum number of objects whose versions a load thread remembers; for others, a client lists
/// them each time.
const REMEMBERED_MAX: usize = 1 << 16;
/// Larger than the number of writes that a mix remembers, so that the versions it deletes are known
/// here.
const WRITTEN_MAX: usize = 1 << 17;
/// Maximum number of versions to list of one object.
const LISTED_MAX: u32 = 1000;
/// ID of the version of an object that was written without versioning.
const NO_VERSION: &str = "null";

/// The versions of objects that a load thread knows, by the objects' numbers.
#[derive(Debug, Default)]
pub(super) struct KnownVersions {
    /// IDs of the versions that existed when they were first listed, newest first, without delete
    /// markers.
    listed: HashMap<u64, Rc<[Box<str>]>>,
    /// Versions that the thread has written itself, for the deletes of its mix.
    written: HashMap<u64, Vec<Box<str>>>,
    written_count: usize,
}

impl KnownVersions {
    fn note_written(&mut self, index: u64, id: &str) {
        if self.written_count < WRITTEN_MAX {
            self.written.entry(index).or_default().push(id.into());
            self.written_count += 1;
        }
    }

    fn take_written(&mut self, index: u64) -> Option<Box<str>> {
        let ids = self.written.get_mut(&index)?;
        let id = ids.pop();
        if ids.is_empty() {
            self.written.remove(&index);
        }
        self.written_count -= usize::from(id.is_some());
        id
    }
}

impl S3Client {
    /// Writes an object again, which creates a version. It is not retried, because that could
    /// create a second version.
    pub(super) async fn write_version(&mut self, request: &Request) -> Completion {
        let index = request.object().index;
        let reply = self.write_on(request, (request.chance as u32).max(1), None).await;
        let bytes = self.http.thread.dataset.length(request.object());
        let mut completion = Completion { bytes, ..reply.completion() };
        if !completion.outcome.is_ok() {
            return completion;
        }
        let id = self.http.collect.header("x-amz-version-id").map(str::to_owned);
        match id.filter(|id| id != NO_VERSION) {
            Some(id) if self.thread.s3.deletes_own_versions => {
                self.thread.versions.borrow_mut().note_written(index, &id);
            }
            Some(_) => {}
            // Without versioning, a bucket overwrites the version without an ID.
            None if self.thread.s3.settings.versioning == Some(Versioning::Suspended) => {}
            None => {
                let text = "the answer contains no version id: the bucket keeps no versions";
                completion.outcome = self.object_to(Outcome::UNSUPPORTED, text.to_owned());
            }
        }
        completion
    }

    /// Reads a version of an object by its ID. The IDs are listed before, outside of the measured
    /// time. If the mix deletes versions, it reads the oldest one, which the mix does not delete.
    pub(super) async fn read_version(&mut self, request: &Request) -> Completion {
        let ids = match self.ids_of(request).await {
            Ok(ids) => ids,
            Err(failed) => return failed,
        };
        let number = match self.thread.s3.deletes_own_versions {
            true => ids.len() - 1,
            false => (request.chance % ids.len() as u64) as usize,
        };
        let thread = Rc::clone(&self.http.thread);
        let object = thread.dataset.id(request.object());
        let query = version_query(&ids[number]);
        self.at_object(request.object().index, b"");
        let expected: &[u16] = if object.length == 0 { &[200, 204] } else { &[200] };
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, expected) };
        self.write_head(&spec, &Nothing);
        let S3Client { http, .. } = self;
        let sending = spec.sending(&http.head);
        if !request.is_verified {
            return read_unchecked(&mut http.connection, sending, Some(object.length)).await;
        }
        // The content of an older version is known except for its version number.
        let mut verifier = Verifier::new(&thread.payload, &object, 0).allow_since(1);
        let reply = http.connection.request(sending, &Nothing, &mut verifier).await;
        judge_read(&mut http.connection, &reply, &mut verifier)
    }

    /// Lists the next page of the versions of a bucket; after the last page, starts again with the
    /// first.
    pub(super) async fn list_page_of_versions(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let (options, dataset) = (&thread.target.options, &thread.dataset);
        let prefix = options.prefix.as_deref().unwrap_or(&dataset.spec().object_prefix);
        let bucket = dataset.bucket(request.bucket());
        let place = (Operation::ListVersions, request.bucket());
        let marker = self.next_markers.remove(&place).unwrap_or_default();
        let reply = self.ask_for_versions(&bucket, prefix, &marker, options.page_keys).await;
        let mut completion = reply.completion();
        if completion.outcome.is_ok() {
            match xml::parse_version_page(&self.http.collect.body) {
                Ok(page) => {
                    completion.objects = u32::try_from(page.versions.len()).unwrap_or(u32::MAX);
                    if let Some(next) = page.next {
                        self.next_markers.insert(place, next);
                    }
                }
                Err(error) => completion.outcome = self.misread(&error),
            }
        }
        completion
    }

    /// Deletes a version of an object that keeps others: in a mix, one that the mix has written;
    /// otherwise the oldest, which is never the newest. The IDs are listed outside of the measured
    /// time.
    pub(super) async fn remove_version(&mut self, request: &Request) -> Completion {
        let index = request.object().index;
        let written = self.thread.versions.borrow_mut().take_written(index);
        let id = match written {
            Some(id) => id,
            None => {
                let versions = match self.listed_versions(index).await {
                    Ok(versions) => versions,
                    Err(failed) => return failed,
                };
                let old = versions.into_iter().rfind(|version| !version.is_latest);
                match old {
                    Some(version) => version.id.into(),
                    None => {
                        return self.refuse_absent("the object has no version except its newest");
                    }
                }
            }
        };
        let query = version_query(&id);
        self.at_object(index, b"");
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Delete, &[200, 202, 204]) };
        self.ask(&spec, &Nothing).await.completion()
    }

    /// Returns the IDs of an object's versions, at least one, newest first.
    ///
    /// # Errors
    /// The completion of a failed listing, or of a request for an object without versions.
    async fn ids_of(&mut self, request: &Request) -> Result<Rc<[Box<str>]>, Completion> {
        let index = request.object().index;
        if let Some(ids) = self.thread.versions.borrow().listed.get(&index) {
            return Ok(Rc::clone(ids));
        }
        let versions = self.listed_versions(index).await?;
        let ids: Rc<[Box<str>]> = versions.into_iter().map(|version| version.id.into()).collect();
        if ids.is_empty() {
            return Err(self.refuse_absent("the object has no version"));
        }
        let known = &mut self.thread.versions.borrow_mut().listed;
        if known.len() < REMEMBERED_MAX {
            known.insert(index, Rc::clone(&ids));
        }
        Ok(ids)
    }

    /// Lists the versions of an object, newest first, without delete markers.
    ///
    /// # Errors
    /// The completion of a failed listing.
    async fn listed_versions(&mut self, index: u64) -> Result<Vec<ListedVersion>, Completion> {
        let thread = Rc::clone(&self.http.thread);
        let mut key = Vec::new();
        thread.dataset.write_key(index, &mut key);
        let key = String::from_utf8(key).expect("a prefix and digits are text");
        let bucket = thread.dataset.bucket(thread.dataset.bucket_of(index));
        let reply = self.ask_for_versions(&bucket, &key, &Default::default(), LISTED_MAX).await;
        let mut asked = reply.completion();
        if !asked.outcome.is_ok() {
            return Err(asked);
        }
        let page = match xml::parse_version_page(&self.http.collect.body) {
            Ok(page) => page,
            Err(error) => {
                asked.outcome = self.misread(&error);
                return Err(asked);
            }
        };
        // The request itself has its full timeout.
        self.renew_deadline();
        let is_meant = |version: &ListedVersion| version.key == key && !version.is_marker;
        Ok(page.versions.into_iter().filter(is_meant).collect())
    }

    fn refuse_absent(&mut self, text: &str) -> Completion {
        SharedPlace::refuse(self, Outcome::NOT_FOUND, text.to_owned())
    }
}
