//! Multipart uploads step by step: each step is an operation of the load.
//!
//! In a mix, steps apply to the uploads that their load thread has begun. In a phase with a single
//! step, they apply to the object's open upload on the store, which another client may have begun,
//! so that several hosts can write the parts of one object.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use loadstone_wire::encode::{write_number, write_query};
use loadstone_wire::http1::Method;
use loadstone_wire::xml::{self, PartPage, UploadedPart};

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

/// Number of parts per request of a listing.
const PARTS_AT_ONCE: u32 = 1000;

/// The uploads that a load thread knows, by the numbers of their objects.
pub(super) type OpenUploads = HashMap<u64, OpenUpload>;

/// An upload in progress, and the parts that the store has acknowledged.
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

    /// Uploads a part, whether or not it exists already.
    pub(super) async fn send_part(&mut self, request: &Request) -> Completion {
        let id = match self.upload_id(request).await {
            Ok(id) => id,
            Err(refused) => return refused,
        };
        let thread = Rc::clone(&self.thread);
        let http = &thread.http;
        let (object, number) = (request.object(), request.block());
        let upload = http.body(http.dataset.id(object), self.division(request).range(number));
        let sent = self.send_part_of(object.index, &id, number, &upload, None).await;
        self.note_part(request, sent)
    }

    /// Lets the store copy a part from an object of the dataset: the bytes at the same position.
    pub(super) async fn copy_part(&mut self, request: &Request) -> Completion {
        let id = match self.upload_id(request).await {
            Ok(id) => id,
            Err(refused) => return refused,
        };
        let dataset = self.http.thread.dataset.clone();
        let source = request.chance % dataset.spec().objects.max(1);
        let part = self.division(request).range(request.block());
        let bytes = dataset.length(Object { index: source, ..request.object() });
        let (start, end) = (part.start.min(bytes.saturating_sub(1)), part.end.min(bytes));
        let mut path = std::mem::take(&mut self.http.scratch);
        self.at_object(source, b"");
        self.head.write_copy_source(&mut path);
        // An empty object has no range.
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
        let id = match self.upload_id(request).await {
            Ok(id) => id,
            Err(refused) => return refused,
        };
        let parts_max = self.http.thread.target.options.page_keys;
        let (completion, page) =
            self.page_of_parts(request.object().index, &id, parts_max, None).await;
        let objects = u32::try_from(page.parts.len()).unwrap_or(u32::MAX);
        self.unless_ended(Completion { objects, ..completion })
    }

    async fn page_of_parts(
        &mut self,
        index: u64,
        id: &str,
        parts_max: u32,
        after: Option<u64>,
    ) -> (Completion, PartPage) {
        self.at_object(index, b"");
        let (parts_max, after) = (parts_max.to_string(), after.map(|number| number.to_string()));
        let parameters = [
            ("max-parts", Some(parts_max.as_bytes())),
            ("part-number-marker", after.as_ref().map(String::as_bytes)),
            ("uploadId", Some(id.as_bytes())),
        ];
        let parameters: Vec<_> =
            parameters.into_iter().filter(|(_, value)| value.is_some()).collect();
        let mut query = Vec::new();
        write_query(&mut query, &parameters);
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, &[200]) };
        let mut completion = self.ask_for_body(&spec, &Nothing, &[]).await.completion();
        let mut page = PartPage::default();
        if completion.outcome.is_ok() {
            let element = self.thread.s3.settings.checksum.of_parts().map(|(_, element)| element);
            match xml::parse_part_page(&self.http.collect.body, element) {
                Ok(read) => page = read,
                Err(error) => completion.outcome = self.misread(&error),
            }
        }
        (completion, page)
    }

    /// Requests all parts of an upload, outside of the measured time.
    ///
    /// # Errors
    /// The completion of a failed listing.
    async fn listed_parts(
        &mut self,
        index: u64,
        id: &str,
    ) -> Result<Vec<UploadedPart>, Completion> {
        let (mut parts, mut after) = (Vec::new(), None);
        loop {
            self.renew_deadline();
            let (completion, page) = self.page_of_parts(index, id, PARTS_AT_ONCE, after).await;
            if !completion.outcome.is_ok() {
                return Err(completion);
            }
            parts.extend(page.parts);
            match page.next.filter(|next| after.is_none_or(|after| *next > after)) {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        // The request itself has its full timeout.
        self.renew_deadline();
        Ok(parts)
    }

    /// Lists the next page of a bucket's uploads; after the last page, starts again with the first.
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
        let id = match self.upload_id(request).await {
            Ok(id) => id,
            Err(refused) => return refused,
        };
        let index = request.object().index;
        let parts: Vec<UploadedPart> = if self.thread.s3.is_mixed {
            let uploads = self.thread.uploads.borrow();
            let parts = |upload: &OpenUpload| upload.parts.values().cloned().collect();
            uploads.get(&index).map(parts).unwrap_or_default()
        } else {
            match self.listed_parts(index, &id).await {
                Ok(parts) => parts,
                Err(failed) => return failed,
            }
        };
        self.at_object(index, b"");
        let completion = self.complete(&id, &parts).await.completion();
        self.note_end(request);
        self.unless_ended(completion)
    }

    pub(super) async fn end_without_parts(&mut self, request: &Request) -> Completion {
        let id = match self.upload_id(request).await {
            Ok(id) => id,
            Err(refused) => return refused,
        };
        self.at_object(request.object().index, b"");
        let completion = self.abandon(&id).await.completion();
        self.note_end(request);
        self.unless_ended(completion)
    }

    /// Returns the ID of the upload that a step applies to. Outside of a mix, each load thread asks
    /// the store once which one is open, outside of the measured time; if there are several, the
    /// one begun last is used.
    ///
    /// # Errors
    /// There is none, or the listing failed.
    async fn upload_id(&mut self, request: &Request) -> Result<Rc<str>, Completion> {
        let index = request.object().index;
        if let Some(upload) = self.thread.uploads.borrow().get(&index) {
            return Ok(Rc::clone(&upload.id));
        }
        if self.thread.s3.is_mixed {
            let text = "no upload of this object is open: another step has ended it";
            return Err(SharedPlace::refuse(self, Outcome::LOST_RACE, text.to_owned()));
        }
        let thread = Rc::clone(&self.http.thread);
        let mut key = Vec::new();
        thread.dataset.write_key(index, &mut key);
        let key = String::from_utf8(key).expect("a prefix and digits are text");
        let bucket = thread.dataset.bucket(thread.dataset.bucket_of(index));
        let reply = self.ask_for_uploads(&bucket, &key, None, None).await;
        let mut asked = reply.completion();
        if !asked.outcome.is_ok() {
            return Err(asked);
        }
        let page = match xml::parse_upload_page(&self.http.collect.body) {
            Ok(page) => page,
            Err(error) => {
                asked.outcome = self.misread(&error);
                return Err(asked);
            }
        };
        self.renew_deadline();
        let Some((_, id)) = page.uploads.into_iter().rfind(|(listed, _)| *listed == key) else {
            let text = "no upload of this object is open: create_upload begins one";
            return Err(SharedPlace::refuse(self, Outcome::NOT_FOUND, text.to_owned()));
        };
        let id: Rc<str> = id.into();
        let upload = OpenUpload { id: Rc::clone(&id), parts: BTreeMap::new() };
        self.thread.uploads.borrow_mut().insert(index, upload);
        Ok(id)
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

    /// Returns the completion of a step whose upload another step may already have ended, if the
    /// trial allows such races.
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
