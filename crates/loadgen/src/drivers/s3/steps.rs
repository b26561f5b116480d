//! Uploads in parts as load, step by step: each step is a request of its own.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use loadstone_wire::encode::{write_number, write_query};
use loadstone_wire::http1::Method;
use loadstone_wire::xml::{self, UploadedPart};

use super::S3Client;
use crate::dataset::Object;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::SharedPlace;
use crate::requests::{LAST_END, Request};
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::HeadSpec;
use crate::transport::parts::InParts;
use crate::transport::transfer::Nothing;

/// The uploads that a load thread has begun, by the numbers of their objects.
pub(super) type OpenUploads = HashMap<u64, OpenUpload>;

/// An upload that was begun, and the parts of it that the store has acknowledged.
#[derive(Debug)]
pub(super) struct OpenUpload {
    id: Rc<str>,
    parts: BTreeMap<u64, UploadedPart>,
}

impl S3Client {
    pub(super) async fn begin_upload(&mut self, request: &Request) -> Completion {
        let index = request.object().index;
        let (completion, id) = self.start_upload(index).await;
        if let Some(id) = id {
            let upload = OpenUpload { id: id.into(), parts: BTreeMap::new() };
            self.thread.uploads.borrow_mut().insert(index, upload);
        }
        completion
    }

    /// Uploads a part, whether or not it is there already.
    pub(super) async fn send_part(&mut self, request: &Request) -> Completion {
        let Some(id) = self.upload_id(request) else { return self.refuse_unbegun() };
        let thread = Rc::clone(&self.thread);
        let http = &thread.http;
        let (object, number) = (request.object(), request.block());
        let upload = http.body(http.dataset.id(object), self.division(request).range(number));
        let sent = self.send_part_of(object.index, &id, number, &upload, None).await;
        self.note_part(request, sent)
    }

    /// Has the store copy a part from an object of the dataset: the bytes that the part has there.
    pub(super) async fn copy_part(&mut self, request: &Request) -> Completion {
        let Some(id) = self.upload_id(request) else { return self.refuse_unbegun() };
        let dataset = self.http.thread.dataset.clone();
        let source = request.chance % dataset.spec().objects.max(1);
        let part = self.division(request).range(request.block());
        let bytes = dataset.length(Object { index: source, ..request.object() });
        let (start, end) = (part.start.min(bytes.saturating_sub(1)), part.end.min(bytes));
        let mut path = std::mem::take(&mut self.http.scratch);
        self.at_object(source, b"");
        self.head.write_copy_source(&mut path);
        // An object of no bytes has no range.
        let range = (start < end).then(|| format!("bytes={start}-{}", end - 1));
        let range = range.as_ref().map(|range| ("x-amz-copy-source-range", range.as_bytes()));
        let headers: Vec<_> =
            [("x-amz-copy-source", path.as_slice())].into_iter().chain(range).collect();
        let query = part_query(&id, request.block());
        let spec =
            HeadSpec { query: &query, headers: &headers, ..HeadSpec::new(Method::Put, &[200]) };
        self.at_object(request.object().index, b"");
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        self.http.scratch = path;
        let mut completion = reply.completion();
        let mut part = UploadedPart::default();
        if completion.outcome.is_ok() {
            let algorithm = self.thread.s3.settings.checksum.of_parts();
            let element = algorithm.map(|(_, element)| element);
            match xml::parse_copied_part(&self.http.collect.body, element) {
                Ok(copied) => part = copied,
                Err(error) => completion.outcome = self.misread(&error),
            }
        }
        self.note_part(request, (completion, part))
    }

    pub(super) async fn list_parts_of_upload(&mut self, request: &Request) -> Completion {
        let Some(id) = self.upload_id(request) else { return self.refuse_unbegun() };
        self.at_object(request.object().index, b"");
        let keys_max = self.http.thread.target.options.page_keys.to_string();
        let mut query = Vec::new();
        let parameters =
            [("max-parts", Some(keys_max.as_bytes())), ("uploadId", Some(id.as_bytes()))];
        write_query(&mut query, &parameters);
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, &[200]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        let mut completion = reply.completion();
        if completion.outcome.is_ok() {
            match xml::count_parts(&self.http.collect.body) {
                Ok(parts) => completion.objects = u32::try_from(parts).unwrap_or(u32::MAX),
                Err(error) => completion.outcome = self.misread(&error),
            }
        }
        self.unless_ended(completion)
    }

    /// Lists the next page of a bucket's uploads; after the last page the first comes again.
    pub(super) async fn list_page_of_uploads(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let (options, dataset) = (&thread.target.options, &thread.dataset);
        let prefix = options.prefix.as_deref().unwrap_or(&dataset.spec().object_prefix);
        let bucket = dataset.bucket(request.bucket());
        let place = (Operation::ListUploads, request.bucket());
        let marker = self.next_markers.remove(&place);
        let reply =
            self.ask_for_uploads(&bucket, prefix, marker.as_ref(), Some(options.page_keys)).await;
        let mut completion = reply.completion();
        if completion.outcome.is_ok() {
            match xml::parse_upload_page(&self.http.collect.body) {
                Ok(page) => {
                    completion.objects = u32::try_from(page.uploads.len()).unwrap_or(u32::MAX);
                    if let Some(next) = page.next {
                        self.next_markers.insert(place, next);
                    }
                }
                Err(error) => completion.outcome = self.misread(&error),
            }
        }
        completion
    }

    pub(super) async fn end_with_parts(&mut self, request: &Request) -> Completion {
        let Some(id) = self.upload_id(request) else { return self.refuse_unbegun() };
        let index = request.object().index;
        let parts: Vec<UploadedPart> = {
            let uploads = self.thread.uploads.borrow();
            uploads.get(&index).map(|upload| upload.parts.values().cloned().collect())
        }
        .unwrap_or_default();
        self.at_object(index, b"");
        let completion = self.complete(&id, &parts).await.completion();
        self.note_end(request);
        self.unless_ended(completion)
    }

    pub(super) async fn end_without_parts(&mut self, request: &Request) -> Completion {
        let Some(id) = self.upload_id(request) else { return self.refuse_unbegun() };
        self.at_object(request.object().index, b"");
        let completion = self.abandon(&id).await.completion();
        self.note_end(request);
        self.unless_ended(completion)
    }

    fn upload_id(&self, request: &Request) -> Option<Rc<str>> {
        let uploads = self.thread.uploads.borrow();
        uploads.get(&request.object().index).map(|upload| Rc::clone(&upload.id))
    }

    fn note_part(
        &mut self,
        request: &Request,
        (completion, part): (Completion, UploadedPart),
    ) -> Completion {
        if completion.outcome.is_ok()
            && let Some(upload) = self.thread.uploads.borrow_mut().get_mut(&request.object().index)
        {
            upload.parts.insert(request.block(), part);
        }
        self.unless_ended(completion)
    }

    fn note_end(&mut self, request: &Request) {
        if request.block() == LAST_END {
            self.thread.uploads.borrow_mut().remove(&request.object().index);
        }
    }

    /// Returns the completion of a step of an upload that another step may have ended before, where the
    /// trial has steps do so.
    fn unless_ended(&self, completion: Completion) -> Completion {
        let is_raced = self.http.thread.target.options.ended_twice > 0.0;
        let code = || self.http.connection.refused_code();
        let is_lost = match completion.outcome.http_status() {
            Some(404) => code() == "NoSuchUpload",
            Some(409) => true,
            _ => false,
        };
        match is_raced && is_lost {
            true => Completion { outcome: Outcome::LOST_RACE, ..completion },
            false => completion,
        }
    }

    fn refuse_unbegun(&mut self) -> Completion {
        let text = "no upload of this object is open: another step has ended it";
        SharedPlace::refuse(self, Outcome::LOST_RACE, text.to_owned())
    }
}

/// Returns the query of a request for a part, by its number from 0.
pub(super) fn part_query(id: &str, part: u64) -> Vec<u8> {
    let mut number = Vec::new();
    write_number(&mut number, part + 1);
    let mut query = Vec::new();
    let parameters = [("partNumber", Some(number.as_slice())), ("uploadId", Some(id.as_bytes()))];
    write_query(&mut query, &parameters);
    query
}
