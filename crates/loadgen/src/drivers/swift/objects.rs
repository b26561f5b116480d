//! What Swift clients do with objects.

use std::ops::Range;
use std::rc::Rc;

use loadstone_wire::encode::{write_number, write_path, write_query};
use loadstone_wire::http1::Method;
use loadstone_wire::json::{
    ContainerEntry, Segment, parse_bulk_answer, parse_container_page, segment_manifest,
};

use super::{HeadSpec, SwiftClient};
use crate::outcome::{Completion, Outcome};
use crate::requests::{Request, Subject};
use crate::script::Listing;
use crate::transport::reading::{
    Wanted, check_length, choose_ranges, read, read_ranges, read_sealed, write_ranges,
};
use crate::transport::{
    connection::{Failure, Reply, Sending},
    parts::{Division, Helpers, InParts},
    transfer::{Nothing, Payload},
};

/// What is added to an object's name for its copy.
pub(super) const COPY_SUFFIX: &str = ".copy";
/// What is added to an object's name, before a number, for the segments of a large object.
pub(super) const SEGMENT_SUFFIX: &str = ".part-";

/// Returns the name of the object that another is a copy or a segment of, or the name itself.
pub(super) fn plain_name(name: &str) -> &str {
    let plain = name.strip_suffix(COPY_SUFFIX).unwrap_or(name);
    match plain.rsplit_once(SEGMENT_SUFFIX) {
        Some((key, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => key,
        _ => plain,
    }
}

impl SwiftClient {
    pub(super) async fn put(&mut self, request: &Request) -> Completion {
        let object = self.thread.dataset.id(request.object());
        let (spec, thread) = (self.payload, Rc::clone(&self.thread));
        let sealer = thread.sealer.as_ref();
        let upload = Payload { spec: &spec, sealer, object, start: 0, length: object.length };
        self.at_object(request.object().index);
        let headers = thread.swift.headers(self.manner);
        let head = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put, &[201]) };
        let reply = self.ask(&head, &upload).await;
        Completion { bytes: object.length, ..reply.completion() }
    }

    pub(super) async fn get(&mut self, request: &Request) -> Completion {
        let object = self.thread.dataset.id(request.object());
        self.at_object(request.object().index);
        self.write_head(&HeadSpec::new(Method::Get, &[]), &Nothing);
        // An object of no bytes may come without content.
        let expected: &[u16] = if object.length == 0 { &[200, 204] } else { &[200] };
        let sending = Sending { method: Method::Get, head: &self.head, expected };
        let wanted = Wanted { spec: &self.payload, object, is_verified: request.is_verified };
        match &mut self.opener {
            None => read(&mut self.connection, sending, &wanted, 0..object.length).await,
            Some(opener) => read_sealed(&mut self.connection, sending, &wanted, opener).await,
        }
    }

    pub(super) async fn range_get(&mut self, request: &Request) -> Completion {
        let object = self.thread.dataset.id(request.object());
        if object.length == 0 {
            return self.get(request).await;
        }
        let range_bytes = self.thread.swift.options.range_bytes.unwrap_or(object.length);
        choose_ranges(request, object.length, range_bytes, 1, &mut self.ranges);
        let (first, end) = self.ranges[0];
        self.get_stretch(request, first..end).await
    }

    pub(super) async fn multi_range_get(&mut self, request: &Request) -> Completion {
        let object = self.thread.dataset.id(request.object());
        if object.length == 0 {
            return self.get(request).await;
        }
        let options = &self.thread.swift.options;
        let range_bytes = options.range_bytes.unwrap_or(object.length);
        choose_ranges(request, object.length, range_bytes, options.range_count, &mut self.ranges);
        self.write_ranged_head(request);
        let sending = Sending { method: Method::Get, head: &self.head, expected: &[206] };
        let wanted = Wanted { spec: &self.payload, object, is_verified: request.is_verified };
        read_ranges(&mut self.connection, sending, &wanted, &self.ranges).await
    }

    fn write_ranged_head(&mut self, request: &Request) {
        let mut value = std::mem::take(&mut self.scratch);
        value.clear();
        write_ranges(&mut value, &self.ranges);
        self.at_object(request.object().index);
        let headers = [("range", value.as_slice())];
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Get, &[]) };
        self.write_head(&spec, &Nothing);
        self.scratch = value;
    }

    pub(super) async fn head_object(&mut self, request: &Request) -> Completion {
        let expected = self.thread.dataset.length(request.object());
        self.at_object(request.object().index);
        let reply = self.ask(&HeadSpec::new(Method::Head, &[200, 204]), &Nothing).await;
        check_length(&mut self.connection, &reply, request, expected)
    }

    pub(super) async fn delete(&mut self, request: &Request) -> Completion {
        self.at_object(request.object().index);
        self.ask(&HeadSpec::new(Method::Delete, &[200, 202, 204]), &Nothing).await.completion()
    }

    /// Lists the next page of a container; after the last page the first comes again.
    pub(super) async fn list(&mut self, request: &Request) -> Completion {
        if let Subject::Listing(listing) = &request.subject {
            return self.list_prefix(listing).await;
        }
        let thread = Rc::clone(&self.thread);
        let (options, dataset) = (&thread.swift.options, &thread.dataset);
        let container = dataset.bucket(request.bucket());
        let marker = self.list_markers.remove(&request.bucket());
        let page = Page {
            marker: marker.as_deref(),
            prefix: options.prefix.as_deref().unwrap_or(&dataset.spec().object_prefix),
            delimiter: options.delimiter.as_deref(),
            names_max: options.page_keys,
        };
        let (reply, page) = self.ask_for_page(&container, &page).await;
        let mut completion = reply.completion();
        if completion.outcome.is_ok() {
            match page {
                Ok(entries) => {
                    completion.objects = u32::try_from(entries.len()).unwrap_or(u32::MAX);
                    let is_full = completion.objects >= options.page_keys;
                    if let Some(last) = entries.last().filter(|_| is_full) {
                        self.list_markers.insert(request.bucket(), last.name().to_owned());
                    }
                }
                Err(error) => completion.outcome = self.misread(format!("the listing: {error}")),
            }
        }
        completion
    }

    /// Lists all keys under a script's prefix, page by page, as one request.
    async fn list_prefix(&mut self, listing: &Listing) -> Completion {
        let thread = Rc::clone(&self.thread);
        let (options, dataset) = (&thread.swift.options, &thread.dataset);
        let container = dataset.bucket(dataset.bucket_of(u64::from(listing.prefix)));
        let prefix = dataset.listed_prefix(listing);
        let mut found = dataset.find(listing);
        let (mut whole, mut marker) = (None::<Completion>, None::<String>);
        loop {
            let page = Page {
                marker: marker.as_deref(),
                prefix: &prefix,
                delimiter: None,
                names_max: options.page_keys,
            };
            let (reply, page) = self.ask_for_page(&container, &page).await;
            let mut completion = reply.completion().behind(whole);
            let mut next = None;
            if completion.outcome.is_ok() {
                match page {
                    Ok(entries) => {
                        for entry in &entries {
                            found.add(dataset.listed_key(entry.name()).as_deref());
                        }
                        let is_full = entries.len() >= options.page_keys as usize;
                        let last = entries.last().filter(|_| is_full);
                        next = last.map(|last| last.name().to_owned());
                        if next.is_some() && next <= marker {
                            let why = "the listing's page does not begin after the one before it";
                            completion.outcome = self.misread(why.to_owned());
                            return completion;
                        }
                        next = next.filter(|_| !found.has_too_many());
                    }
                    Err(error) => {
                        completion.outcome = self.misread(format!("the listing: {error}"));
                    }
                }
            }
            completion.objects = found.entries();
            if next.is_none() {
                if completion.outcome.is_ok() && !Outcome::of_set(found.verdict()).is_ok() {
                    let failure = Failure::Told(Outcome::of_set(found.verdict()), found.told());
                    completion.outcome = self.connection.object_to(failure);
                }
                return completion;
            }
            (whole, marker) = (Some(completion), next);
        }
    }

    pub(super) async fn ask_for_page(
        &mut self,
        container: &str,
        page: &Page<'_>,
    ) -> (Reply, Result<Vec<ContainerEntry>, serde_json::Error>) {
        let limit = page.names_max.to_string();
        let parameters = [
            ("delimiter", page.delimiter),
            ("format", Some("json")),
            ("limit", Some(limit.as_str())),
            ("marker", page.marker),
            ("prefix", Some(page.prefix).filter(|prefix| !prefix.is_empty())),
        ];
        let present: Vec<_> = parameters
            .into_iter()
            .filter_map(|(name, value)| Some((name, Some(value?.as_bytes()))))
            .collect();
        let mut query = Vec::new();
        write_query(&mut query, &present);
        self.at(container);
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, &[200, 204]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        let body: &[u8] = if self.collect.body.is_empty() { b"[]" } else { &self.collect.body };
        (reply, parse_container_page(body))
    }

    pub(super) async fn bulk_delete(&mut self, request: &Request) -> Completion {
        let mut body = Vec::new();
        let buckets = self.thread.dataset.spec().buckets;
        let (first, keys) = request.batch();
        for number in 0..u64::from(keys) {
            self.at_object(first + number * buckets);
            write_path(&mut body, &self.name);
            body.push(b'\n');
        }
        let (reply, failed) = self.delete_names(&body).await;
        let mut completion = Completion { objects: keys, ..reply.completion() };
        if completion.outcome.is_ok()
            && let Err(text) = failed
        {
            let failure = Failure::Told(Outcome::PARTIAL, text);
            completion.outcome = self.connection.object_to(failure);
        }
        completion
    }

    /// Deletes objects with one request; says what went wrong with some of them.
    pub(super) async fn delete_names(&mut self, body: &[u8]) -> (Reply, Result<u64, String>) {
        let headers = [("accept", b"application/json".as_slice()), ("content-type", b"text/plain")];
        self.at("");
        let spec = HeadSpec {
            query: b"bulk-delete",
            headers: &headers,
            ..HeadSpec::new(Method::Post, &[200])
        };
        let reply = self.ask_for_body(&spec, &body, &[]).await;
        let result = match parse_bulk_answer(&self.collect.body) {
            Err(error) => Err(format!("the answer: {error}")),
            Ok(found) => match found.errors.first() {
                Some((name, status)) => {
                    Err(format!("{} names failed; \"{name}\": {status}", found.errors.len()))
                }
                None if found.status == 200 => Ok(found.deleted + found.not_found),
                None => Err(format!("the bulk request ended with status {}", found.status)),
            },
        };
        (reply, result)
    }

    /// Copies an object to a name beside it.
    pub(super) async fn copy(&mut self, request: &Request) -> Completion {
        self.at_object(request.object().index);
        let mut source = b"/".to_vec();
        write_path(&mut source, &self.name);
        self.name.extend_from_slice(COPY_SUFFIX.as_bytes());
        let thread = Rc::clone(&self.thread);
        let mut all = thread.swift.headers(self.manner);
        all.push(("x-copy-from", source.as_slice()));
        let spec = HeadSpec { headers: &all, ..HeadSpec::new(Method::Put, &[201]) };
        self.ask(&spec, &Nothing).await.completion()
    }

    /// Replaces an object's metadata.
    pub(super) async fn post(&mut self, request: &Request) -> Completion {
        let value = format!("{:016x}", request.chance);
        let thread = Rc::clone(&self.thread);
        let mut all = thread.swift.headers(self.manner);
        all.push(("x-object-meta-loadstone", value.as_bytes()));
        self.at_object(request.object().index);
        let spec = HeadSpec { headers: &all, ..HeadSpec::new(Method::Post, &[200, 202, 204]) };
        self.ask(&spec, &Nothing).await.completion()
    }

    /// Writes an object as segments and a manifest. The times span all of its HTTP requests.
    pub(super) async fn multipart_put(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.thread);
        let (object, payload) = (self.thread.dataset.id(request.object()), self.payload);
        // A manifest cannot name a segment of no bytes: an object of none has no segments.
        let division = self.division(request);
        let named = thread.swift.headers(self.manner);
        let named = named.as_slice();
        let put_segment = async |client: &mut Self, part: u64| {
            let range = division.range(part);
            let length = range.end - range.start;
            let sealer = thread.sealer.as_ref();
            let upload = Payload { spec: &payload, sealer, object, start: range.start, length };
            client.at_object(request.object().index);
            client.name.extend_from_slice(SEGMENT_SUFFIX.as_bytes());
            write_number(&mut client.name, part);
            let path = format!("/{}", String::from_utf8_lossy(&client.name));
            let spec = HeadSpec { headers: named, ..HeadSpec::new(Method::Put, &[201]) };
            let reply = client.ask_for_body(&spec, &upload, &["etag"]).await;
            let completion = Completion { bytes: length, ..reply.completion() };
            let etag = client.collect.header("etag").unwrap_or_default().trim_matches('"');
            let value = Segment { path, etag: etag.to_owned(), size_bytes: length };
            (completion, value)
        };
        let whole = self.in_parts(division.count(), put_segment).await;
        let segments = whole.completion;
        if !segments.outcome.is_ok() {
            return segments;
        }
        let manifest = segment_manifest(&whole.values);
        self.at_object(request.object().index);
        let spec = HeadSpec {
            query: b"multipart-manifest=put",
            headers: named,
            ..HeadSpec::new(Method::Put, &[201])
        };
        let last = self.ask(&spec, &manifest.as_slice()).await.completion();
        let first = if division.count() > 0 { segments } else { last };
        Completion { outcome: last.outcome, ended_ns: last.ended_ns, ..first }
    }
}

impl InParts for SwiftClient {
    fn helpers(&mut self) -> &mut Helpers<Self> {
        &mut self.helpers
    }

    fn own_error(&self) -> Option<String> {
        self.connection.last_error(&self.head)
    }

    fn keep_error(&mut self, told: Option<String>) {
        self.told = told;
    }

    fn division(&self, request: &Request) -> Division {
        let thread = &self.thread;
        let bytes = thread.dataset.length(request.object());
        Division::new(bytes, thread.swift.options.part_bytes)
    }

    async fn get_whole(&mut self, request: &Request) -> Completion {
        self.get(request).await
    }

    async fn get_stretch(&mut self, request: &Request, stretch: Range<u64>) -> Completion {
        let object = self.thread.dataset.id(request.object());
        self.ranges.clear();
        self.ranges.push((stretch.start, stretch.end));
        self.write_ranged_head(request);
        let sending = Sending { method: Method::Get, head: &self.head, expected: &[206] };
        let wanted = Wanted { spec: &self.payload, object, is_verified: request.is_verified };
        read(&mut self.connection, sending, &wanted, stretch).await
    }
}

/// Which page of a listing is asked for.
pub(super) struct Page<'a> {
    pub(super) marker: Option<&'a str>,
    pub(super) prefix: &'a str,
    pub(super) delimiter: Option<&'a str>,
    pub(super) names_max: u32,
}
