//! Operations of Swift clients on objects.

use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::encode::{write_number, write_path, write_query};
use loadstone_wire::http1::{self, Method};
use loadstone_wire::json::{
    ContainerEntry, Segment, parse_bulk_answer, parse_container_page, parse_objects,
    segment_manifest,
};

use super::SwiftClient;
use crate::clock::unix_ns;
use crate::dataset::COPY_SUFFIX;
use crate::error::Error;
use crate::ledger::metadata_text;
use crate::object_list::ListedObject;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::{Header, IF_NONE};
use crate::requests::Request;
use crate::transport::connection::Reply;
use crate::transport::http_store::{HttpStore, ListedPage, PageSpec};
use crate::transport::http_target::{HeadSpec, HttpClient, finish_head};
use crate::transport::parts::InParts;
use crate::transport::raw::{RawRequest, Signing};
use crate::transport::transfer::{Nothing, Upload};

/// Suffix of an object's name, before a number, for the segments of a large object.
pub(super) const SEGMENT_SUFFIX: &str = ".part-";

/// Returns the name of the object of which another is a copy or a segment, or the name itself.
pub(super) fn plain_name(name: &str) -> &str {
    let plain = name.strip_suffix(COPY_SUFFIX).unwrap_or(name);
    match plain.rsplit_once(SEGMENT_SUFFIX) {
        Some((key, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => key,
        _ => plain,
    }
}

impl HttpStore for SwiftClient {
    const RUN: &'static str = "x-object-meta-loadstone-run";
    const METADATA: &'static str = "x-object-meta-loadstone";

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
        let dataset = &self.http.thread.dataset;
        self.name.clear();
        dataset.write_bucket(dataset.bucket_of(index), &mut self.name);
        self.name.push(b'/');
        dataset.write_key(index, &mut self.name);
        self.name.extend_from_slice(suffix);
    }

    fn at(&mut self, container: &str, name: &str) {
        self.name.clear();
        self.name.extend_from_slice(container.as_bytes());
        if !name.is_empty() {
            self.name.push(b'/');
            self.name.extend_from_slice(name.as_bytes());
        }
    }

    fn write_head<U: Upload>(&mut self, spec: &HeadSpec<'_>, upload: &U) {
        let swift = &self.swift;
        if self.token_generation != swift.tokens.generation() {
            self.token_generation = swift.tokens.generation();
            self.token = swift.tokens.value();
        }
        self.path.clear();
        self.path.extend_from_slice(swift.account_path.as_bytes());
        if !self.name.is_empty() {
            self.path.push(b'/');
            write_path(&mut self.path, &self.name);
        }
        let head = &mut self.http.head;
        head.clear();
        http1::request_line(head, spec.method, &self.path, spec.query);
        http1::header(head, "host", &self.host);
        http1::header(head, "x-auth-token", self.token.as_bytes());
        for (name, value) in spec.headers {
            http1::header(head, name, value);
        }
        let is_per_request = swift.http.is_per_request;
        finish_head(head, spec.method, upload, is_per_request, &swift.plain_headers);
    }

    /// Sends the token, a wrong one, or none.
    fn write_raw_head(&mut self, spec: &HeadSpec<'_>, request: &RawRequest) {
        let token = match request.signing {
            Signing::Usual | Signing::Url(_) => None,
            Signing::Wrong => Some("wrong"),
            Signing::Nobody => Some(""),
        };
        if let Some(token) = token {
            token.clone_into(&mut self.token);
            self.token_generation = self.swift.tokens.generation();
        }
        self.write_head(spec, &request.body.as_slice());
        // The next request loads the token again.
        self.token_generation = if token.is_some() { 0 } else { self.token_generation };
    }

    fn refused(&self, action: String, reply: &Reply) -> Error {
        self.refusal_of(action, reply)
    }

    /// Executes a request with a current token, and once more with a new one after a 401.
    async fn execute_request(&mut self, request: &Request) -> Completion {
        if self.swift.tokens.is_old(unix_ns() / 1_000_000_000) {
            // If this fails, the old token may still be valid; the target will tell.
            let generation = self.swift.tokens.generation();
            let _ = self.renew(generation).await;
        }
        let completion = self.perform_anywhere(request).await;
        if completion.outcome != Outcome::http(401) {
            return completion;
        }
        match self.renew(self.token_generation).await {
            Ok(true) => self.http.connection.count_repeat(),
            Ok(false) => return completion,
            Err(error) => {
                self.http.error = Some(error.to_string());
                return Completion { outcome: Outcome::AUTH, ..completion };
            }
        }
        // The time of the log-in counts for the request that needed it.
        Completion { sent_ns: completion.sent_ns, ..self.perform_anywhere(request).await }
    }

    /// Runs a job, and once more with a new token after a 401.
    async fn with_log_in<T>(
        &mut self,
        job: impl AsyncFn(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let done = job(self).await;
        if done.is_ok() || !self.http.is_unauthorized {
            return done;
        }
        self.renew(self.token_generation).await?;
        job(self).await
    }

    async fn put(&mut self, request: &Request) -> Completion {
        self.put_if(request, None).await
    }

    async fn put_if_absent(&mut self, request: &Request) -> Completion {
        let completion = self.put_if(request, Some(IF_NONE)).await;
        self.unless_lost(completion)
    }

    /// The last name of a full page is the marker of the next one.
    async fn list_page(
        &mut self,
        container: &str,
        page: &PageSpec<'_>,
    ) -> (Reply, Result<ListedPage, Outcome>) {
        let (reply, entries) = self.ask_for_page(container, page).await;
        if !reply.outcome.is_ok() {
            return (reply, Err(reply.outcome));
        }
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                let text = format!("the listing: {error}");
                return (reply, Err(self.object_to(Outcome::PROTOCOL, text)));
            }
        };
        let last = entries.last().filter(|_| entries.len() >= page.keys_max as usize);
        let next = last.map(|last| last.name().to_owned());
        if next.is_some() && next.as_deref() <= page.token {
            let text = "the listing's page does not begin after the one before it".to_owned();
            return (reply, Err(self.object_to(Outcome::PROTOCOL, text)));
        }
        let keys = entries.iter().filter(|_| page.wants_keys);
        let keys = keys.map(|entry| entry.name().to_owned()).collect();
        (reply, Ok(ListedPage { entries: entries.len() as u64, keys, next }))
    }

    async fn object_page(
        &mut self,
        container: &str,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<(Vec<ListedObject>, Option<String>), Error> {
        let page = PageSpec { token, prefix, delimiter: None, keys_max: 1000, wants_keys: true };
        let (reply, body) = self.ask_for_listing(container, &page).await;
        let action = || format!("list container \"{container}\"");
        if !reply.outcome.is_ok() {
            return Err(self.refused(action(), &reply));
        }
        let objects =
            parse_objects(body).map_err(|error| Error::target(action(), error.to_string()))?;
        let objects: Vec<_> = objects
            .into_iter()
            .filter_map(|object| {
                let key = object.name?;
                Some(ListedObject { key, size_bytes: object.bytes, etag: object.hash })
            })
            .collect();
        // A page may be shorter than requested; only an empty one is certainly the end.
        let next = objects.last().map(|last| last.key.clone());
        Ok((objects, next))
    }

    async fn bulk_delete(&mut self, request: &Request) -> Completion {
        let mut body = Vec::new();
        let buckets = self.http.thread.dataset.spec().buckets;
        let (first, keys) = request.batch();
        for number in 0..u64::from(keys) {
            self.at_object(first + number * buckets, b"");
            write_path(&mut body, &self.name);
            body.push(b'\n');
        }
        let (reply, failed) = self.delete_names(&body).await;
        let mut completion = Completion { objects: keys, ..reply.completion() };
        if completion.outcome.is_ok()
            && let Err(text) = failed
        {
            completion.outcome = self.object_to(Outcome::PARTIAL, text);
        }
        completion
    }

    /// Copies an object to a name derived from its own.
    async fn copy(&mut self, request: &Request) -> Completion {
        self.at_object(request.object().index, b"");
        let mut source = b"/".to_vec();
        write_path(&mut source, &self.name);
        self.name.extend_from_slice(COPY_SUFFIX.as_bytes());
        let thread = Rc::clone(&self.http.thread);
        let mut all = thread.target.owner_headers(self.http.tag, Self::RUN);
        all.push(("x-copy-from", source.as_slice()));
        let spec = HeadSpec { headers: &all, ..HeadSpec::new(Method::Put, &[201]) };
        self.ask(&spec, &Nothing).await.completion()
    }

    /// Replaces an object's metadata.
    async fn post(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let value = metadata_text(thread.dataset.metadata.of_object(request.object().index));
        let mut all = thread.target.owner_headers(self.http.tag, Self::RUN);
        all.push((Self::METADATA, value.as_bytes()));
        self.at_object(request.object().index, b"");
        let spec = HeadSpec { headers: &all, ..HeadSpec::new(Method::Post, &[200, 202, 204]) };
        self.ask(&spec, &Nothing).await.completion()
    }

    /// Writes an object as segments and a manifest. The times span all of its HTTP requests.
    async fn multipart_put(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let object = thread.dataset.id(request.object());
        // A manifest cannot contain an empty segment, so an empty object has no segments.
        let division = self.division(request);
        let named = thread.target.owner_headers(self.http.tag, Self::RUN);
        let named = named.as_slice();
        let put_segment = async |client: &mut Self, part: u64| {
            let range = division.range(part);
            let length = range.end - range.start;
            let upload = thread.body(object, range);
            client.at_object(request.object().index, &segment_suffix(part));
            let path = format!("/{}", String::from_utf8_lossy(&client.name));
            let spec = HeadSpec { headers: named, ..HeadSpec::new(Method::Put, &[201]) };
            let reply = client.ask_for_body(&spec, &upload, &["etag"]).await;
            let completion = Completion { bytes: length, ..reply.completion() };
            let etag = client.http.collect.header("etag").unwrap_or_default().trim_matches('"');
            let value = Segment { path, etag: etag.to_owned(), size_bytes: length };
            (completion, value)
        };
        let whole = self.in_parts(division.count(), put_segment).await;
        let segments = whole.completion;
        if !segments.outcome.is_ok() {
            return segments;
        }
        let manifest = segment_manifest(&whole.values);
        self.at_object(request.object().index, b"");
        let spec = HeadSpec {
            query: b"multipart-manifest=put",
            headers: named,
            ..HeadSpec::new(Method::Put, &[201])
        };
        let last = self.ask(&spec, &manifest.as_slice()).await.completion();
        let first = if division.count() > 0 { segments } else { last };
        Completion { outcome: last.outcome, ended_ns: last.ended_ns, ..first }
    }
    async fn create_bucket(&mut self, request: &Request) -> Completion {
        self.create_as_load(request).await
    }

    async fn delete_bucket(&mut self, request: &Request) -> Completion {
        self.delete_as_load(request).await
    }

    /// Segments are separate objects beside the one that they form.
    fn derived(&self, request: &Request) -> Vec<Vec<u8>> {
        if request.operation == Operation::Copy {
            return vec![COPY_SUFFIX.into()];
        }
        let segments = (0..self.division(request).count()).map(segment_suffix);
        std::iter::once(Vec::new()).chain(segments).collect()
    }
}

fn segment_suffix(part: u64) -> Vec<u8> {
    let mut suffix = SEGMENT_SUFFIX.as_bytes().to_vec();
    write_number(&mut suffix, part);
    suffix
}

impl SwiftClient {
    async fn put_if(&mut self, request: &Request, condition: Option<Header<'_>>) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let object = thread.dataset.id(request.object());
        let upload = thread.body(object, 0..object.length);
        self.at_object(request.object().index, b"");
        let owner = thread.target.owner_headers(self.http.tag, Self::RUN);
        let headers: Vec<_> = condition.into_iter().chain(owner).collect();
        let is_idempotent = condition.is_none();
        let put = HeadSpec::new(Method::Put, &[201]);
        let reply = self.ask(&HeadSpec { headers: &headers, is_idempotent, ..put }, &upload).await;
        Completion { bytes: object.length, ..reply.completion() }
    }

    async fn renew(&mut self, generation: u64) -> Result<bool, Error> {
        let (swift, thread) = (Arc::clone(&self.swift), Rc::clone(&self.http.thread));
        Box::pin(swift.tokens.renew(generation, &thread.reactor, &thread.buffers)).await
    }

    pub(super) async fn ask_for_page(
        &mut self,
        container: &str,
        page: &PageSpec<'_>,
    ) -> (Reply, Result<Vec<ContainerEntry>, serde_json::Error>) {
        let (reply, body) = self.ask_for_listing(container, page).await;
        (reply, parse_container_page(body))
    }

    /// Requests a page of a container's listing, and returns the answer's body.
    async fn ask_for_listing(&mut self, container: &str, page: &PageSpec<'_>) -> (Reply, &[u8]) {
        let limit = page.keys_max.to_string();
        let parameters = [
            ("delimiter", page.delimiter),
            ("format", Some("json")),
            ("limit", Some(limit.as_str())),
            ("marker", page.token),
            ("prefix", Some(page.prefix).filter(|prefix| !prefix.is_empty())),
        ];
        let present: Vec<_> = parameters
            .into_iter()
            .filter_map(|(name, value)| Some((name, Some(value?.as_bytes()))))
            .collect();
        let mut query = Vec::new();
        write_query(&mut query, &present);
        self.at(container, "");
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, &[200, 204]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        let body = &self.http.collect.body;
        (reply, if body.is_empty() { b"[]" } else { body })
    }

    /// Deletes objects with one request; returns a description of failures of single objects.
    pub(super) async fn delete_names(&mut self, body: &[u8]) -> (Reply, Result<u64, String>) {
        let headers = [("accept", b"application/json".as_slice()), ("content-type", b"text/plain")];
        self.at("", "");
        let spec = HeadSpec {
            query: b"bulk-delete",
            headers: &headers,
            ..HeadSpec::new(Method::Post, &[200])
        };
        let reply = self.ask_for_body(&spec, &body, &[]).await;
        let result = match parse_bulk_answer(&self.http.collect.body) {
            Err(error) => Err(format!("the answer: {error}")),
            Ok(answer) => match answer.errors.first() {
                Some((name, status)) => {
                    Err(format!("{} names failed; \"{name}\": {status}", answer.errors.len()))
                }
                None if answer.status == 200 => Ok(answer.deleted + answer.not_found),
                None => Err(format!("the bulk request ended with status {}", answer.status)),
            },
        };
        (reply, result)
    }
}
