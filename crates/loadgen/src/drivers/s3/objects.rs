//! What S3 clients do with objects: one HTTP request each.

use std::ops::Range;
use std::rc::Rc;

use loadstone_wire::encode::write_query;
use loadstone_wire::http1::Method;
use loadstone_wire::xml;

use super::S3Client;
use super::head::HeadSpec;
use crate::dataset::Object;
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

/// What is added to a key for the copy of its object.
pub(super) const COPY_SUFFIX: &[u8] = b".copy";

/// Returns the key of the object that another was copied from, or the key itself.
pub(super) fn plain_key(key: &str) -> &str {
    key.strip_suffix(std::str::from_utf8(COPY_SUFFIX).expect("it is ASCII")).unwrap_or(key)
}

impl InParts for S3Client {
    fn helpers(&mut self) -> &mut Helpers<Self> {
        &mut self.helpers
    }

    fn own_error(&self) -> Option<String> {
        self.connection.last_error(&self.head.bytes)
    }

    fn keep_error(&mut self, told: Option<String>) {
        self.told = told;
    }

    fn division(&self, request: &Request) -> Division {
        let thread = &self.thread;
        let bytes = thread.dataset.length(request.object());
        Division::new(bytes, thread.s3.options.part_bytes)
    }

    async fn get_whole(&mut self, request: &Request) -> Completion {
        self.get(request).await
    }

    async fn get_stretch(&mut self, request: &Request, stretch: Range<u64>) -> Completion {
        let object = self.thread.dataset.id(request.object());
        self.ranges.clear();
        self.ranges.push((stretch.start, stretch.end));
        self.write_ranged_head(request);
        let sending = Sending { method: Method::Get, head: &self.head.bytes, expected: &[206] };
        let wanted = Wanted { spec: &self.payload, object, is_verified: request.is_verified };
        read(&mut self.connection, sending, &wanted, stretch).await
    }
}

/// Which page of a listing is asked for.
pub(super) struct Page<'a> {
    pub(super) token: Option<&'a str>,
    pub(super) prefix: &'a str,
    pub(super) delimiter: Option<&'a str>,
    pub(super) keys_max: u32,
    /// Whether names are to come URL-encoded, for XML cannot carry all of them.
    pub(super) is_encoded: bool,
}

impl S3Client {
    pub(super) async fn put(&mut self, request: &Request) -> Completion {
        let (spec, thread) = (self.payload, Rc::clone(&self.thread));
        let Object { index, version } = request.object();
        let body = |index| {
            let object = thread.dataset.id(Object { index, version });
            let sealer = thread.sealer.as_ref();
            Payload { spec: &spec, sealer, object, start: 0, length: object.length }
        };
        let sha256 = thread
            .s3
            .settings
            .is_payload_signed
            .then(|| thread.ahead.borrow_mut().sha256((version, index), body, &thread.buffers));
        let upload = body(index);
        self.head.at_object(&thread.dataset, request.object().index);
        let headers = thread.s3.headers(self.manner);
        let headers = headers.as_slice();
        let head = HeadSpec { is_object: true, sha256, headers, ..HeadSpec::new(Method::Put) };
        let reply = self.ask(&head, &upload, &[200, 201]).await;
        Completion { bytes: upload.length, ..reply.completion() }
    }

    pub(super) async fn get(&mut self, request: &Request) -> Completion {
        let object = self.thread.dataset.id(request.object());
        self.head.at_object(&self.thread.dataset, request.object().index);
        self.head.write(&self.thread, &HeadSpec::new(Method::Get), &Nothing);
        let sending = Sending { method: Method::Get, head: &self.head.bytes, expected: &[200] };
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
        let range_bytes = self.thread.s3.options.range_bytes.unwrap_or(object.length);
        choose_ranges(request, object.length, range_bytes, 1, &mut self.ranges);
        let (first, end) = self.ranges[0];
        self.get_stretch(request, first..end).await
    }

    pub(super) async fn multi_range_get(&mut self, request: &Request) -> Completion {
        let object = self.thread.dataset.id(request.object());
        if object.length == 0 {
            return self.get(request).await;
        }
        let options = &self.thread.s3.options;
        let range_bytes = options.range_bytes.unwrap_or(object.length);
        choose_ranges(request, object.length, range_bytes, options.range_count, &mut self.ranges);
        self.write_ranged_head(request);
        let sending = Sending { method: Method::Get, head: &self.head.bytes, expected: &[206] };
        let wanted = Wanted { spec: &self.payload, object, is_verified: request.is_verified };
        read_ranges(&mut self.connection, sending, &wanted, &self.ranges).await
    }

    fn write_ranged_head(&mut self, request: &Request) {
        self.scratch.clear();
        write_ranges(&mut self.scratch, &self.ranges);
        self.head.at_object(&self.thread.dataset, request.object().index);
        let headers = [("range", self.scratch.as_slice())];
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Get) };
        self.head.write(&self.thread, &spec, &Nothing);
    }

    pub(super) async fn head_object(&mut self, request: &Request) -> Completion {
        let expected = self.thread.dataset.length(request.object());
        self.head.at_object(&self.thread.dataset, request.object().index);
        let reply = self.ask(&HeadSpec::new(Method::Head), &Nothing, &[200]).await;
        check_length(&mut self.connection, &reply, request, expected)
    }

    pub(super) async fn delete(&mut self, request: &Request) -> Completion {
        self.head.at_object(&self.thread.dataset, request.object().index);
        let spec = HeadSpec::new(Method::Delete);
        self.ask(&spec, &Nothing, &[200, 202, 204]).await.completion()
    }

    /// Lists the next page of a bucket; after the last page the first comes again.
    pub(super) async fn list(&mut self, request: &Request) -> Completion {
        if let Subject::Listing(listing) = &request.subject {
            return self.list_prefix(listing).await;
        }
        let thread = Rc::clone(&self.thread);
        let (options, dataset) = (&thread.s3.options, &thread.dataset);
        let bucket = dataset.bucket(request.bucket());
        let prefix = options.prefix.as_deref().unwrap_or(&dataset.spec().object_prefix);
        let token = self.list_tokens.remove(&request.bucket());
        let page = Page {
            token: token.as_deref(),
            prefix,
            delimiter: options.delimiter.as_deref(),
            keys_max: options.page_keys,
            // What is measured is the listing that most clients ask for.
            is_encoded: !xml::is_writable(prefix),
        };
        let reply = self.ask_for_page(&bucket, &page).await;
        let mut completion = reply.completion();
        if completion.outcome.is_ok() {
            match xml::parse_list_page(&self.collect.body, |_, _| {}) {
                Ok(page) => {
                    let entries = page.objects + page.prefixes;
                    completion.objects = u32::try_from(entries).unwrap_or(u32::MAX);
                    if let Some(token) = page.next_token.filter(|_| page.is_truncated) {
                        self.list_tokens.insert(request.bucket(), token);
                    }
                }
                Err(error) => completion.outcome = self.misread(&error),
            }
        }
        completion
    }

    /// Lists all keys under a script's prefix, page by page, as one request.
    async fn list_prefix(&mut self, listing: &Listing) -> Completion {
        let thread = Rc::clone(&self.thread);
        let dataset = &thread.dataset;
        let bucket = dataset.bucket(dataset.bucket_of(u64::from(listing.prefix)));
        let prefix = dataset.listed_prefix(listing);
        let mut found = dataset.find(listing);
        let (mut whole, mut token) = (None::<Completion>, None::<String>);
        loop {
            let page = Page {
                token: token.as_deref(),
                prefix: &prefix,
                delimiter: None,
                keys_max: thread.s3.options.page_keys,
                is_encoded: !xml::is_writable(&prefix),
            };
            let mut completion = self.ask_for_page(&bucket, &page).await.completion().behind(whole);
            let mut next = None;
            if completion.outcome.is_ok() {
                match xml::parse_keys(&self.collect.body) {
                    Ok((page, keys)) => {
                        for key in &keys {
                            found.add(dataset.listed_key(key).as_deref());
                        }
                        next = page.next_token.filter(|_| page.is_truncated);
                        if next.is_some() && (keys.is_empty() || next == token) {
                            let why = "the listing goes on, but its last page brought nothing new";
                            let failure = Failure::Told(Outcome::PROTOCOL, why.to_owned());
                            completion.outcome = self.connection.object_to(failure);
                            return completion;
                        }
                        next = next.filter(|_| !found.has_too_many());
                    }
                    Err(error) => completion.outcome = self.misread(&error),
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
            (whole, token) = (Some(completion), next);
        }
    }

    pub(super) async fn ask_for_page(&mut self, bucket: &str, page: &Page<'_>) -> Reply {
        let keys_max = page.keys_max.to_string();
        let parameters = [
            ("continuation-token", page.token.map(str::as_bytes)),
            ("delimiter", page.delimiter.map(str::as_bytes)),
            ("encoding-type", page.is_encoded.then_some(b"url".as_slice())),
            ("list-type", Some(b"2".as_slice())),
            ("max-keys", Some(keys_max.as_bytes())),
            ("prefix", Some(page.prefix.as_bytes()).filter(|prefix| !prefix.is_empty())),
        ];
        let present: Vec<_> = parameters.into_iter().filter(|(_, value)| value.is_some()).collect();
        let mut query = std::mem::take(&mut self.query);
        query.clear();
        write_query(&mut query, &present);
        self.head.at(bucket, "");
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        self.query = query;
        reply
    }

    pub(super) async fn bulk_delete(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.thread);
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
                    let failure = Failure::Told(Outcome::PARTIAL, text);
                    completion.outcome = self.connection.object_to(failure);
                }
            }
        }
        completion
    }

    /// Deletes keys with one request; returns those that failed.
    pub(super) async fn delete_keys(
        &mut self,
        bucket: &str,
        keys: &[String],
    ) -> (Reply, Result<Vec<(String, xml::StoreError)>, xml::XmlError>) {
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        xml::write_delete_objects(&mut body, keys.iter().map(String::as_str));
        self.delete_named(bucket, body).await
    }

    /// Deletes what the body of a DeleteObjects request names; returns what failed.
    pub(super) async fn delete_named(
        &mut self,
        bucket: &str,
        body: Vec<u8>,
    ) -> (Reply, Result<Vec<(String, xml::StoreError)>, xml::XmlError>) {
        self.head.at(bucket, "");
        let spec = HeadSpec { query: b"delete", needs_md5: true, ..HeadSpec::new(Method::Post) };
        let reply = self.ask_for_body(&spec, &body.as_slice(), &[]).await;
        self.scratch = body;
        let failed = xml::parse_delete_answer(&self.collect.body);
        (reply, failed)
    }

    /// Copies an object to a key beside it.
    pub(super) async fn copy(&mut self, request: &Request) -> Completion {
        self.copy_to(request, COPY_SUFFIX, &[]).await
    }

    /// Replaces an object's metadata, which S3 does by copying it onto itself.
    pub(super) async fn post(&mut self, request: &Request) -> Completion {
        let value = format!("{:016x}", request.chance);
        let thread = Rc::clone(&self.thread);
        let mut all = vec![("x-amz-meta-loadstone", value.as_bytes())];
        all.extend(thread.s3.headers(self.manner));
        all.push(("x-amz-metadata-directive", b"REPLACE".as_slice()));
        self.copy_to(request, b"", &all).await
    }

    async fn copy_to(
        &mut self,
        request: &Request,
        suffix: &[u8],
        more: &[(&str, &[u8])],
    ) -> Completion {
        let mut source = std::mem::take(&mut self.scratch);
        self.head.at_object(&self.thread.dataset, request.object().index);
        self.head.write_copy_source(&mut source);
        self.head.add_to_key(suffix);
        let mut headers = vec![("x-amz-copy-source", source.as_slice())];
        headers.extend_from_slice(more);
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        self.scratch = source;
        let mut completion = reply.completion();
        if completion.outcome.is_ok() {
            // A copy may fail after the status of success was sent.
            if let Err(error) = xml::check_late_answer(&self.collect.body) {
                completion.outcome = self.misread(&error);
            }
        }
        completion
    }
}
