//! Operations of S3 clients on objects, with one HTTP request each.

use std::rc::Rc;

use loadstone_wire::encode::write_query;
use loadstone_wire::http1::Method;
use loadstone_wire::xml;

use super::S3Client;
use crate::dataset::COPY_SUFFIX;
use crate::error::Error;
use crate::ledger::metadata_text;
use crate::object_list::ListedObject;
use crate::operation::{Operation, joined};
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::Header;
use crate::requests::Request;
use crate::transport::connection::Reply;
use crate::transport::http_store::{HttpStore, ListedPage, PageSpec};
use crate::transport::http_target::{self, BodyDigest, HeadSpec, HttpClient};
use crate::transport::raw::RawRequest;
use crate::transport::transfer::{Nothing, Upload};

/// Operations of S3 in addition to those of every object store.
const OWN_OPERATIONS: &[Operation] = &[
    Operation::PutIfMatch,
    Operation::DeleteIfMatch,
    Operation::CompareAndSwap,
    Operation::VersionedPut,
    Operation::GetVersion,
    Operation::ListVersions,
    Operation::DeleteVersion,
    Operation::CreateUpload,
    Operation::UploadPart,
    Operation::UploadPartCopy,
    Operation::ListParts,
    Operation::ListUploads,
    Operation::CompleteUpload,
    Operation::AbortUpload,
    Operation::PresignedGet,
    Operation::PresignedPut,
    Operation::PutRetention,
    Operation::PutLegalHold,
    Operation::LiftLegalHold,
    Operation::DeleteLocked,
];
const ALL: [Operation; http_target::OPERATIONS.len() + OWN_OPERATIONS.len()] =
    joined(http_target::OPERATIONS, OWN_OPERATIONS);
pub(super) const OPERATIONS: &[Operation] = &ALL;

/// Returns the key of the object from which another was copied, or the key itself.
pub(super) fn plain_key(key: &str) -> &str {
    key.strip_suffix(COPY_SUFFIX).unwrap_or(key)
}

impl HttpStore for S3Client {
    const RUN: &'static str = "x-amz-meta-loadstone-run";
    const METADATA: &'static str = "x-amz-meta-loadstone";
    const WITH_CHECKSUM: &'static [Header<'static>] = &[("x-amz-checksum-mode", b"ENABLED")];

    #[inline]
    fn http(&self) -> &HttpClient<Self> {
        &self.http
    }

    #[inline]
    fn http_mut(&mut self) -> &mut HttpClient<Self> {
        &mut self.http
    }

    #[inline]
    fn at_object(&mut self, index: u64, suffix: &[u8]) {
        self.head.at_object(&self.http.thread.dataset, index);
        self.head.add_to_key(suffix);
    }

    fn at(&mut self, bucket: &str, key: &str) {
        self.head.at(bucket, key);
    }

    #[inline]
    fn write_head<U: Upload>(&mut self, spec: &HeadSpec<'_>, upload: &U) {
        self.head.write(&mut self.http.head, &self.thread, spec, upload);
    }

    fn write_raw_head(&mut self, spec: &HeadSpec<'_>, request: &RawRequest) {
        self.head.write_raw(&mut self.http.head, &self.thread, spec, request);
    }

    fn refused(&self, action: String, reply: &Reply) -> Error {
        self.refusal_of(action, reply)
    }

    /// Adds that keys were not renewed, which may explain a refusal.
    fn explained(&self, error: String) -> String {
        match self.thread.s3.keys.failure() {
            Some(failure) => format!("{error}\nthe keys were not renewed: {failure}"),
            None => error,
        }
    }

    #[inline]
    fn checks_stored_checksum(&self) -> bool {
        self.thread.s3.settings.checks_stored_checksum
    }

    async fn put(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.thread);
        let http = &thread.http;
        let object = http.dataset.id(request.object());
        let upload = http.body(object, 0..object.length);
        self.at_object(request.object().index, b"");
        let headers = http.target.owner_headers(self.http.tag, Self::RUN);
        let digest = BodyDigest::Object(thread.sha256_ahead(request.object()));
        let put = HeadSpec::new(Method::Put, &[200, 201]);
        let reply = self.ask(&HeadSpec { digest, headers: &headers, ..put }, &upload).await;
        Completion { bytes: upload.length, ..reply.completion() }
    }

    async fn list_page(
        &mut self,
        bucket: &str,
        page: &PageSpec<'_>,
    ) -> (Reply, Result<ListedPage, Outcome>) {
        // The measurement uses the form of listing that most clients use.
        let reply = self.ask_for_page(bucket, page, !xml::is_writable(page.prefix)).await;
        if !reply.outcome.is_ok() {
            return (reply, Err(reply.outcome));
        }
        let body = &self.http.collect.body;
        let parsed = match page.wants_keys {
            true => xml::parse_keys(body),
            false => xml::parse_list_page(body, |_, _| {}).map(|page| (page, Vec::new())),
        };
        let listed = parsed.map(|(page, keys)| ListedPage {
            entries: page.objects + page.prefixes,
            keys,
            next: page.next_token.filter(|_| page.is_truncated),
        });
        (reply, listed.map_err(|error| self.misread(&error)))
    }

    async fn object_page(
        &mut self,
        bucket: &str,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<(Vec<ListedObject>, Option<String>), Error> {
        let page = PageSpec { token, prefix, delimiter: None, keys_max: 1000, wants_keys: true };
        let reply = self.ask_for_page(bucket, &page, true).await;
        let action = || format!("list bucket \"{bucket}\"");
        if !reply.outcome.is_ok() {
            return Err(self.refused(action(), &reply));
        }
        let (page, objects) = xml::parse_objects(&self.http.collect.body)
            .map_err(|error| Error::target(action(), error.to_string()))?;
        Ok((objects, page.next_token.filter(|_| page.is_truncated)))
    }

    async fn bulk_delete(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let dataset = &thread.dataset;
        let buckets = dataset.spec().buckets;
        let (first, keys) = request.batch();
        let key = |number: u64| {
            let mut key = Vec::new();
            dataset.write_key(first + number * buckets, &mut key);
            String::from_utf8(key).expect("a prefix and digits are text")
        };
        let names: Vec<String> = (0..u64::from(keys)).map(key).collect();
        let bucket = dataset.bucket(dataset.bucket_of(first));
        let (reply, failed) = self.delete_keys(&bucket, &names).await;
        let mut completion = Completion { objects: keys, ..reply.completion() };
        match failed {
            _ if !completion.outcome.is_ok() => {}
            Err(error) => completion.outcome = self.misread(&error),
            Ok(failed) => {
                if let Some((key, error)) = failed.first() {
                    let text = format!(
                        "{} of {} keys failed; \"{key}\": {error}",
                        failed.len(),
                        names.len()
                    );
                    completion.outcome = self.object_to(Outcome::PARTIAL, text);
                }
            }
        }
        completion
    }

    /// Copies an object to a key derived from its own.
    async fn copy(&mut self, request: &Request) -> Completion {
        self.copy_to(request, COPY_SUFFIX.as_bytes(), &[]).await
    }

    /// Replaces an object's metadata, which in S3 is a copy onto itself.
    async fn post(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let value = metadata_text(thread.dataset.metadata.of_object(request.object().index));
        let mut all = vec![(Self::METADATA, value.as_bytes())];
        all.extend(thread.target.owner_headers(self.http.tag, Self::RUN));
        all.push(("x-amz-metadata-directive", b"REPLACE".as_slice()));
        self.copy_to(request, b"", &all).await
    }

    async fn multipart_put(&mut self, request: &Request) -> Completion {
        self.put_in_parts(request).await
    }

    async fn put_if_absent(&mut self, request: &Request) -> Completion {
        self.write_if_absent(request).await
    }

    async fn own_operation(&mut self, request: &Request) -> Completion {
        match request.operation {
            Operation::PutIfMatch => self.write_if_match(request).await,
            Operation::DeleteIfMatch => self.remove_if_match(request).await,
            Operation::CompareAndSwap => self.swap_until_won(request).await,
            Operation::VersionedPut => self.write_version(request).await,
            Operation::GetVersion => self.read_version(request).await,
            Operation::ListVersions => self.list_page_of_versions(request).await,
            Operation::DeleteVersion => self.remove_version(request).await,
            Operation::CreateUpload => self.begin_upload(request).await,
            Operation::UploadPart => self.send_part(request).await,
            Operation::UploadPartCopy => self.copy_part(request).await,
            Operation::ListParts => self.list_parts_of_upload(request).await,
            Operation::ListUploads => self.list_page_of_uploads(request).await,
            Operation::CompleteUpload => self.end_with_parts(request).await,
            Operation::AbortUpload => self.end_without_parts(request).await,
            Operation::PresignedGet => self.read_by_url(request).await,
            Operation::PresignedPut => self.write_by_url(request).await,
            Operation::PutRetention => self.retain(request).await,
            Operation::PutLegalHold => self.hold(request, true).await,
            Operation::LiftLegalHold => self.hold(request, false).await,
            Operation::DeleteLocked => self.delete_locked(request).await,
            _ => unreachable!("OPERATIONS names no other"),
        }
    }

    async fn create_bucket(&mut self, request: &Request) -> Completion {
        self.create_as_load(request).await
    }

    async fn delete_bucket(&mut self, request: &Request) -> Completion {
        self.delete_as_load(request).await
    }

    fn derived(&self, request: &Request) -> Vec<Vec<u8>> {
        let suffix = if request.operation == Operation::Copy { COPY_SUFFIX } else { "" };
        vec![suffix.into()]
    }
}

impl S3Client {
    /// Requests a page of a listing. With `is_encoded`, keys are URL-encoded, because XML cannot
    /// contain all characters.
    pub(super) async fn ask_for_page(
        &mut self,
        bucket: &str,
        page: &PageSpec<'_>,
        is_encoded: bool,
    ) -> Reply {
        let keys_max = page.keys_max.to_string();
        let parameters = [
            ("continuation-token", page.token.map(str::as_bytes)),
            ("delimiter", page.delimiter.map(str::as_bytes)),
            ("encoding-type", is_encoded.then_some(b"url".as_slice())),
            ("list-type", Some(b"2".as_slice())),
            ("max-keys", Some(keys_max.as_bytes())),
            ("prefix", Some(page.prefix.as_bytes()).filter(|prefix| !prefix.is_empty())),
        ];
        let present: Vec<_> = parameters.into_iter().filter(|(_, value)| value.is_some()).collect();
        let mut query = std::mem::take(&mut self.http.scratch);
        query.clear();
        write_query(&mut query, &present);
        self.at(bucket, "");
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, &[200]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        self.http.scratch = query;
        reply
    }

    /// Deletes keys with one request; returns those that failed.
    pub(super) async fn delete_keys(
        &mut self,
        bucket: &str,
        keys: &[String],
    ) -> (Reply, Result<Vec<(String, xml::StoreError)>, xml::XmlError>) {
        let mut body = std::mem::take(&mut self.http.scratch);
        body.clear();
        xml::write_delete_objects(&mut body, keys.iter().map(String::as_str));
        self.delete_named(bucket, body).await
    }

    /// Deletes the keys in the body of a DeleteObjects request; returns those that failed.
    pub(super) async fn delete_named(
        &mut self,
        bucket: &str,
        body: Vec<u8>,
    ) -> (Reply, Result<Vec<(String, xml::StoreError)>, xml::XmlError>) {
        self.at(bucket, "");
        let spec = HeadSpec {
            query: b"delete",
            headers: self.bypass(),
            digest: BodyDigest::Md5,
            ..HeadSpec::new(Method::Post, &[200])
        };
        let reply = self.ask_for_body(&spec, &body.as_slice(), &[]).await;
        self.http.scratch = body;
        let failed = xml::parse_delete_answer(&self.http.collect.body);
        (reply, failed)
    }

    async fn copy_to(
        &mut self,
        request: &Request,
        suffix: &[u8],
        more: &[(&str, &[u8])],
    ) -> Completion {
        let mut source = std::mem::take(&mut self.http.scratch);
        self.at_object(request.object().index, b"");
        self.head.write_copy_source(&mut source);
        self.head.add_to_key(suffix);
        let mut headers = vec![("x-amz-copy-source", source.as_slice())];
        headers.extend_from_slice(more);
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put, &[200]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        self.http.scratch = source;
        let mut completion = reply.completion();
        if completion.outcome.is_ok() {
            // A copy may fail after a success status was sent.
            if let Err(error) = xml::check_late_answer(&self.http.collect.body) {
                completion.outcome = self.misread(&error);
            }
        }
        completion
    }
}
