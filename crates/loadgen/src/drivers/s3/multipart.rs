//! Multipart uploads: start, parts and completion; aborted on a failure or a stop.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use loadstone_wire::encode::write_query;
use loadstone_wire::http1::Method;
use loadstone_wire::xml::{self, UploadedPart};

use super::S3Client;
use super::ahead::Ahead;
use super::steps::part_query;
use crate::outcome::{Completion, Outcome};
use crate::ownership::Places;
use crate::requests::Request;
use crate::transport::connection::Reply;
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::{BodyDigest, HeadSpec};
use crate::transport::parts::{InParts, Whole, allow_last_step, hurried, unless_stopped};
use crate::transport::transfer::{Nothing, Payload};

/// Maximum number of pages of uploads to read, with up to a thousand uploads each.
const UPLOAD_PAGES_MAX: usize = 1000;

impl S3Client {
    /// Uploads an object in parts. The times of the completion span all of its HTTP requests.
    ///
    /// A stop takes effect after the store has been told to abort the upload.
    pub(super) async fn put_in_parts(&mut self, request: &Request) -> Completion {
        self.http.helpers.ends.clear();
        let reactor = Rc::clone(&self.http.thread.reactor);
        let pair = Rc::clone(&reactor).begin_pair().await;
        let (mut completion, id) =
            hurried(&reactor, self.start_upload(request.object().index)).await;
        let Some(upload_id) = id else { return completion };
        let last = unless_stopped(&reactor, self.upload(request, &upload_id)).await;
        let Some(last) = last else {
            self.http.connection.close();
            allow_last_step(&reactor);
            self.at_object(request.object().index, b"");
            self.give_up(&upload_id).await;
            drop(pair);
            // The result of this request is unknown, and the reactor drops the task.
            return std::future::pending().await;
        };
        let Completion { outcome, ended_ns, bytes, .. } = last;
        completion = Completion { outcome, ended_ns, bytes, ..completion };
        if !completion.outcome.is_ok() {
            // Keep the description of the failure, which the next request would hide.
            if self.http.error.is_none() {
                self.http.error = self.http.last_error();
            }
            // The request may have failed because of its timeout.
            self.renew_deadline();
            hurried(&reactor, self.give_up(&upload_id)).await;
        }
        completion
    }

    /// Begins the upload of an object; returns its ID if that succeeded.
    pub(super) async fn start_upload(&mut self, index: u64) -> (Completion, Option<String>) {
        self.at_object(index, b"");
        // S3 refuses checksums of parts unless the upload was begun with their algorithm.
        let algorithm = self.thread.s3.settings.checksum.of_parts();
        let headers = algorithm.map(|(name, _)| ("x-amz-checksum-algorithm", name.as_bytes()));
        let thread = Rc::clone(&self.http.thread);
        let named = thread.target.owner_headers(self.http.tag, Self::RUN);
        let kind = self.thread.s3.settings.checksum_type;
        let kind = kind.map(|kind| ("x-amz-checksum-type", kind));
        let headers: Vec<_> = headers.into_iter().chain(kind).chain(named).collect();
        let spec = HeadSpec {
            query: b"uploads",
            headers: &headers,
            ..HeadSpec::new(Method::Post, &[200])
        };
        let mut completion = self.ask_for_body(&spec, &Nothing, &[]).await.completion();
        if !completion.outcome.is_ok() {
            return (completion, None);
        }
        match xml::parse_upload_id(&self.http.collect.body) {
            Ok(id) => (completion, Some(id)),
            Err(error) => {
                completion.outcome = self.misread(&error);
                (completion, None)
            }
        }
    }

    /// Uploads all parts and completes the object.
    async fn upload(&mut self, request: &Request, id: &str) -> Completion {
        let whole = self.upload_parts(request, id).await;
        if !whole.completion.outcome.is_ok() {
            return whole.completion;
        }
        let last = self.complete(id, &whole.values).await;
        Completion { outcome: last.outcome, ended_ns: last.ended_ns, ..whole.completion }
    }

    async fn upload_parts(&mut self, request: &Request, id: &str) -> Whole<UploadedPart> {
        let thread = Rc::clone(&self.thread);
        let http = &thread.http;
        let object = http.dataset.id(request.object());
        let division = self.division(request);
        let body = |part: u64| http.body(object, division.range(part));
        let ahead = RefCell::new(Ahead::default());
        let is_signed = thread.s3.settings.is_payload_signed;
        let upload_part = async |client: &mut Self, part: u64| {
            let upload = body(part);
            let sha256 = is_signed
                .then(|| ahead.borrow_mut().sha256((object.version, part), body, &http.buffers));
            client.send_part_of(request.object().index, id, part, &upload, sha256).await
        };
        // An empty object has one empty part.
        self.in_parts(division.count().max(1), upload_part).await
    }

    /// Uploads a part of an object, by its number from 0; also returns what the completion needs.
    pub(super) async fn send_part_of(
        &mut self,
        index: u64,
        id: &str,
        part: u64,
        upload: &Payload<'_>,
        sha256: Option<[u8; 32]>,
    ) -> (Completion, UploadedPart) {
        let query = part_query(id, part);
        let digest = BodyDigest::Object(sha256);
        let spec = HeadSpec { query: &query, digest, ..HeadSpec::new(Method::Put, &[200]) };
        self.at_object(index, b"");
        let reply = self.ask_for_body(&spec, upload, &["etag"]).await;
        let mut completion = Completion { bytes: upload.length, ..reply.completion() };
        let etag = self.http.collect.header("etag").map(str::to_owned);
        if completion.outcome.is_ok() && etag.is_none() {
            completion.outcome = self.misread(&xml::XmlError::Missing("ETag"));
        }
        let algorithm = self.thread.s3.settings.checksum.of_parts();
        let value = UploadedPart {
            etag: etag.unwrap_or_default(),
            checksum: algorithm.map(|(_, element)| (element, self.head.checksum())),
        };
        (completion, value)
    }

    pub(super) async fn complete(&mut self, id: &str, parts: &[UploadedPart]) -> Reply {
        let mut body = Vec::new();
        xml::write_complete_upload(&mut body, parts.iter());
        let query = upload_query(id);
        let kind = self.thread.s3.settings.checksum_type;
        let kind = kind.map(|kind| ("x-amz-checksum-type", kind));
        let spec = HeadSpec {
            query: &query,
            headers: kind.as_slice(),
            ..HeadSpec::new(Method::Post, &[200])
        };
        let mut reply = self.ask_for_body(&spec, &body.as_slice(), &[]).await;
        if reply.outcome.is_ok()
            && let Err(error) = xml::check_late_answer(&self.http.collect.body)
        {
            reply.outcome = self.misread(&error);
        }
        reply
    }

    /// Aborts the dataset's uploads that an interrupted trial has left in a bucket. Stores that
    /// cannot list uploads have none, or keep them.
    pub(super) async fn sweep_uploads(&mut self, bucket: &str) {
        let title = self.title();
        for (key, id) in self.uploads(bucket).await {
            if title.owns(bucket, &key) {
                self.renew_deadline();
                self.at(bucket, &key);
                self.give_up(&id).await;
            }
        }
    }

    /// Returns the keys and IDs of the uploads in progress in a bucket, as far as the store lists
    /// them.
    pub(super) async fn uploads(&mut self, bucket: &str) -> Vec<(String, String)> {
        let thread = Rc::clone(&self.http.thread);
        let mut all_uploads = Vec::new();
        let mut after: Option<(String, String)> = None;
        // A listing that repeats itself, or never ends, is abandoned.
        let mut markers = HashSet::new();
        loop {
            let prefix = &thread.dataset.spec().object_prefix;
            let reply = self.ask_for_uploads(bucket, prefix, after.as_ref(), None).await;
            let page = match xml::parse_upload_page(&self.http.collect.body) {
                Ok(page) if reply.outcome.is_ok() => page,
                _ => return all_uploads,
            };
            all_uploads.extend(page.uploads);
            if page.next.is_none()
                || markers.len() >= UPLOAD_PAGES_MAX
                || !markers.insert(page.next.clone())
            {
                return all_uploads;
            }
            after = page.next;
        }
    }

    /// Requests a page of a bucket's uploads, after the given key and ID if there are any.
    pub(super) async fn ask_for_uploads(
        &mut self,
        bucket: &str,
        prefix: &str,
        after: Option<&(String, String)>,
        uploads_max: Option<u32>,
    ) -> Reply {
        let (key, id) = after.map_or(("", ""), |(key, id)| (key, id));
        let uploads_max = uploads_max.map_or_else(String::new, |most| most.to_string());
        let parameters = [
            ("encoding-type", "url"),
            ("key-marker", key),
            ("max-uploads", &uploads_max),
            ("prefix", prefix),
            ("upload-id-marker", id),
        ];
        let parameters = parameters.into_iter().filter(|(_, value)| !value.is_empty());
        let parameters = parameters.map(|(name, value)| (name, Some(value.as_bytes())));
        let parameters: Vec<_> = parameters.chain([("uploads", None)]).collect();
        let mut query = Vec::new();
        write_query(&mut query, &parameters);
        self.renew_deadline();
        self.at(bucket, "");
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, &[200]) };
        self.ask_for_body(&spec, &Nothing, &[]).await
    }

    /// Aborts the upload. If that fails, the store keeps the parts: nothing more can be done here.
    async fn give_up(&mut self, id: &str) -> Outcome {
        self.abandon(id).await.outcome
    }

    pub(super) async fn abandon(&mut self, id: &str) -> Reply {
        let query = upload_query(id);
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Delete, &[200, 204]) };
        self.ask(&spec, &Nothing).await
    }
}

pub(super) fn upload_query(id: &str) -> Vec<u8> {
    let mut query = Vec::new();
    write_query(&mut query, &[("uploadId", Some(id.as_bytes()))]);
    query
}
