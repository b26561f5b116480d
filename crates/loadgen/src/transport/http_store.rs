//! Object stores over HTTP: all operations that differ between stores only in the head of a
//! request. A driver keeps an [`HttpTarget`](crate::transport::http_target::HttpTarget) for the
//! trial, an [`HttpThread`] on each load thread and an [`HttpClient`] in each client. It implements
//! [`HttpStore`], which writes heads and parses listings, and [`Places`]. `drivers/toy_http.rs` is
//! a complete example.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use loadstone_wire::http1::Method;

use crate::error::Error;
use crate::object_list::{Listed, ListedObject};
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::{self, Header, Writer};
use crate::ownership::{self, Places};
use crate::payload::Verifier;
use crate::requests::{Request, Subject};
use crate::script::Listing;
use crate::transport::connection::{Failure, Reply, Sending};
use crate::transport::endpoint::Url;
use crate::transport::http_target::{HeadSpec, HttpClient, HttpThread};
use crate::transport::parts::{Helpers, InParts};
use crate::transport::raw::RawRequest;
use crate::transport::reading::{
    Wanted, check_length, choose_ranges, read, read_ranges, read_sealed, write_ranges,
};
use crate::transport::stored::{
    StoredCheck, check_head, read_checked, read_unchecked, read_with_checksum,
};
use crate::transport::transfer::{Ignore, Nothing, Upload};
use crate::trial::Division;

/// Selects a page of a listing.
pub(crate) struct PageSpec<'a> {
    pub(crate) token: Option<&'a str>,
    pub(crate) prefix: &'a str,
    pub(crate) delimiter: Option<&'a str>,
    pub(crate) keys_max: u32,
    /// Whether the keys are needed, and not only their number.
    pub(crate) wants_keys: bool,
}

/// A page of a listing.
#[derive(Debug, Default)]
pub(crate) struct ListedPage {
    /// Number of keys and common prefixes.
    pub(crate) entries: u64,
    /// The keys, if they were requested.
    pub(crate) keys: Vec<String>,
    /// Token of the next page, if there is one.
    pub(crate) next: Option<String>,
}

/// Creates client number `index`, with the helpers that transfer parts of its objects. `wrap`
/// creates the store's client from an HTTP client and the URL that it uses.
///
/// # Errors
/// The host in the URL is not a valid name for a certificate.
pub(crate) fn make_client<S: HttpStore>(
    thread: &Rc<HttpThread>,
    index: u32,
    wrap: impl Fn(HttpClient<S>, &Url) -> S,
) -> Result<S, Error> {
    let lone_client = || HttpClient::new(thread, index).map(|(http, url)| wrap(http, url));
    let mut client = lone_client()?;
    let helpers = (1..thread.target.connections).map(|_| lone_client());
    client.http_mut().helpers.clients = helpers.collect::<Result<_, Error>>()?;
    Ok(client)
}

/// A client of an object store over HTTP: writes heads and implements the specifics of its
/// protocol.
///
/// A driver implements the operations that it declares; the provided methods suit every store.
pub(crate) trait HttpStore: Places + Sized + 'static {
    /// Name of the metadata with the run that wrote an object.
    const RUN: &'static str;
    /// Name of the metadata that a post writes; empty if the store has no posts.
    const METADATA: &'static str = "";
    /// Headers that make the answer to a GET include the store's checksums.
    const WITH_CHECKSUM: &'static [Header<'static>] = &[];

    fn http(&self) -> &HttpClient<Self>;
    fn http_mut(&mut self) -> &mut HttpClient<Self>;
    /// Selects an object of the dataset, or the object whose key is that key plus a suffix.
    fn at_object(&mut self, index: u64, suffix: &[u8]);
    /// Selects a place, or a key in it.
    fn at(&mut self, place: &str, key: &str);
    /// Writes the head of a request for the selected resource into `http().head`.
    fn write_head<U: Upload>(&mut self, spec: &HeadSpec<'_>, upload: &U);
    /// Writes the head of a raw request; each protocol adds its own credentials.
    fn write_raw_head(&mut self, spec: &HeadSpec<'_>, request: &RawRequest) {
        self.write_head(spec, &request.body.as_slice());
    }
    /// Returns the error of a request outside of the measurement that was refused, with a hint.
    fn refused(&self, action: String, reply: &Reply) -> Error;
    /// Returns the error of a refused creation of a place, and whether it certainly was not
    /// created.
    fn refused_to_make(&self, action: String, reply: &Reply) -> Error {
        let error = self.refused(action, reply);
        // An earlier attempt may still create the place.
        let is_no = ownership::says_no(reply.status) && !self.http().connection.is_in_doubt();
        error.refused_if(is_no)
    }

    async fn put(&mut self, request: &Request) -> Completion;
    /// Requests a page of a listing.
    ///
    /// # Errors
    /// The request failed, or the answer is not a listing.
    async fn list_page(
        &mut self,
        place: &str,
        page: &PageSpec<'_>,
    ) -> (Reply, Result<ListedPage, Outcome>);
    /// Lists a page of the objects of a place, and returns the token of the next page. Outside of
    /// the measurement.
    ///
    /// # Errors
    /// The target does not list them.
    async fn object_page(
        &mut self,
        _place: &str,
        _prefix: &str,
        _token: Option<&str>,
    ) -> Result<(Vec<ListedObject>, Option<String>), Error> {
        unreachable!("planning refuses drivers without `reads_existing`")
    }
    async fn bulk_delete(&mut self, _: &Request) -> Completion {
        undeclared()
    }
    async fn copy(&mut self, _: &Request) -> Completion {
        undeclared()
    }
    async fn post(&mut self, _: &Request) -> Completion {
        undeclared()
    }
    async fn multipart_put(&mut self, _: &Request) -> Completion {
        undeclared()
    }
    /// Executes an operation that is specific to one protocol.
    async fn own_operation(&mut self, _: &Request) -> Completion {
        undeclared()
    }
    async fn put_if_absent(&mut self, _: &Request) -> Completion {
        undeclared()
    }
    async fn create_bucket(&mut self, _: &Request) -> Completion {
        undeclared()
    }
    async fn delete_bucket(&mut self, _: &Request) -> Completion {
        undeclared()
    }
    /// Returns the suffixes of the keys that a copy or a multipart upload writes for its object.
    fn derived(&self, _: &Request) -> Vec<Vec<u8>> {
        vec![Vec::new()]
    }

    /// Executes a request of the load; a store whose log-ins expire repeats it after a new one.
    async fn execute_request(&mut self, request: &Request) -> Completion {
        self.perform_anywhere(request).await
    }
    /// Executes a job outside of the measurement; a store whose log-ins expire repeats it once.
    async fn with_log_in<T>(
        &mut self,
        job: impl AsyncFn(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        job(self).await
    }
    /// Adds what a store knows about a failure beyond the answer.
    fn explained(&self, error: String) -> String {
        error
    }

    /// Executes a request, with the precautions for foreign places if necessary.
    async fn perform_anywhere(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http().thread);
        match &thread.target.foreign {
            Some(foreign) if foreign.concerns(request, &thread.dataset) => {
                Box::pin(beside::perform(self, request, foreign)).await
            }
            _ => self.perform_plainly(request).await,
        }
    }

    async fn perform_plainly(&mut self, request: &Request) -> Completion {
        match request.operation {
            Operation::Put => self.put(request).await,
            Operation::Get => self.get(request).await,
            Operation::RangeGet => self.range_get(request).await,
            Operation::MultiRangeGet => self.multi_range_get(request).await,
            Operation::Head => self.head_object(request).await,
            Operation::List => self.list(request).await,
            Operation::Delete => self.delete_object(request).await,
            Operation::BulkDelete => self.bulk_delete(request).await,
            Operation::Copy => self.copy(request).await,
            Operation::Post => self.post(request).await,
            // These need many exchanges. Boxed, because otherwise the largest would determine the
            // size of every client.
            Operation::MultipartPut => Box::pin(self.multipart_put(request)).await,
            Operation::MultipartGet => Box::pin(self.get_in_parts(request)).await,
            Operation::CreateBucket => Box::pin(self.create_bucket(request)).await,
            Operation::DeleteBucket => Box::pin(self.delete_bucket(request)).await,
            Operation::PutIfAbsent => Box::pin(self.put_if_absent(request)).await,
            _ => Box::pin(self.own_operation(request)).await,
        }
    }

    /// Sends a request for the selected resource, and ignores the answer's body.
    async fn ask<U: Upload>(&mut self, spec: &HeadSpec<'_>, upload: &U) -> Reply {
        self.write_head(spec, upload);
        self.send_written(spec, upload).await
    }

    /// Sends a request whose head is written, and ignores the answer's body.
    async fn send_written<U: Upload>(&mut self, spec: &HeadSpec<'_>, upload: &U) -> Reply {
        let http = self.http_mut();
        let sending = spec.sending(&http.head);
        let reply = http.connection.request(sending, upload, &mut Ignore).await;
        http.is_unauthorized = reply.status == 401;
        reply
    }

    /// Sends a request, and keeps the answer's body and the given headers.
    async fn ask_for_body<U: Upload>(
        &mut self,
        spec: &HeadSpec<'_>,
        upload: &U,
        headers: &'static [&'static str],
    ) -> Reply {
        self.write_head(spec, upload);
        let http = self.http_mut();
        http.collect.start(headers);
        let sending = spec.sending(&http.head);
        let reply = http.connection.request(sending, upload, &mut http.collect).await;
        http.is_unauthorized = reply.status == 401;
        reply
    }

    /// Maps an error in an answer with a success status to an outcome.
    #[cold]
    fn object_to(&mut self, outcome: Outcome, text: String) -> Outcome {
        self.http_mut().connection.object_to(Failure::Told(outcome, text))
    }

    /// Returns the completion of a conditional request, which may have lost a race.
    fn unless_lost(&self, completion: Completion) -> Completion {
        let code = || self.http().connection.refused_code();
        let has_lost = match completion.outcome.http_status() {
            Some(412) => true,
            Some(409) => code() == "ConditionalRequestConflict",
            // The object existed when its ETag was read.
            Some(404) => code() == "NoSuchKey",
            _ => false,
        };
        let outcome = if has_lost { Outcome::LOST_RACE } else { completion.outcome };
        Completion { outcome, ..completion }
    }

    /// Restarts the deadline for each step of a longer job.
    fn renew_deadline(&self) {
        let (reactor, target) = (&self.http().thread.reactor, &self.http().thread.target);
        reactor.set_deadline(reactor.now_ns() + target.timeout_ns);
    }

    /// Returns whether verified reads of whole objects also check the store's checksum.
    fn checks_stored_checksum(&self) -> bool {
        false
    }

    async fn get(&mut self, request: &Request) -> Completion {
        if let Some(listed) = self.http().thread.dataset.listed(request.object().index) {
            return Box::pin(self.get_listed(request, listed)).await;
        }
        if self.checks_stored_checksum() && request.is_verified {
            return Box::pin(self.get_with_checksum(request)).await;
        }
        let object = self.http().thread.dataset.id(request.object());
        self.at_object(request.object().index, request.suffix().as_bytes());
        self.write_head(&HeadSpec::new(Method::Get, &[]), &Nothing);
        // An empty object may be returned without content.
        let expected: &[u16] = if object.length == 0 { &[200, 204] } else { &[200] };
        let http = self.http_mut();
        let sending = Sending::new(Method::Get, &http.head, expected);
        let spec = &http.thread.payload;
        let wanted = Wanted { spec, object, is_verified: request.is_verified };
        match &mut http.opener {
            None => read(&mut http.connection, sending, &wanted, 0..object.length).await,
            Some(opener) => read_sealed(&mut http.connection, sending, &wanted, opener).await,
        }
    }

    /// Reads an object of the dataset, and checks its content and the store's checksum.
    async fn get_with_checksum(&mut self, request: &Request) -> Completion {
        let object = self.http().thread.dataset.id(request.object());
        self.at_object(request.object().index, request.suffix().as_bytes());
        let expected: &[u16] = if object.length == 0 { &[200, 204] } else { &[200] };
        let spec =
            HeadSpec { headers: Self::WITH_CHECKSUM, ..HeadSpec::new(Method::Get, expected) };
        self.write_head(&spec, &Nothing);
        let http = self.http_mut();
        let sending = spec.sending(&http.head);
        let verifier = Verifier::new(&http.thread.payload, &object, 0);
        read_with_checksum(&mut http.connection, sending, verifier, &http.thread.checked).await
    }

    /// Reads an object that others wrote.
    async fn get_listed(&mut self, request: &Request, listed: Listed) -> Completion {
        self.at_object(request.object().index, b"");
        let headers = if request.is_verified { Self::WITH_CHECKSUM } else { &[] };
        let spec = HeadSpec { headers, ..HeadSpec::new(Method::Get, &[]) };
        self.write_head(&spec, &Nothing);
        let may_be_empty = listed.size_bytes.is_none_or(|bytes| bytes == 0);
        let expected: &[u16] = if may_be_empty { &[200, 204] } else { &[200] };
        let http = self.http_mut();
        let sending = Sending::new(Method::Get, &http.head, expected);
        if !request.is_verified {
            return read_unchecked(&mut http.connection, sending, listed.size_bytes).await;
        }
        let check = StoredCheck::new(listed, None);
        read_checked(&mut http.connection, sending, check, &http.thread.checked).await
    }

    async fn range_get(&mut self, request: &Request) -> Completion {
        let http = self.http_mut();
        let bytes = http.thread.dataset.length(request.object());
        if bytes == 0 {
            return self.get(request).await;
        }
        let range_bytes = http.thread.target.options.range_bytes.unwrap_or(bytes);
        choose_ranges(request, bytes, range_bytes, 1, &mut http.ranges);
        let (first, end) = http.ranges[0];
        self.get_stretch(request, first..end).await
    }

    async fn multi_range_get(&mut self, request: &Request) -> Completion {
        let http = self.http_mut();
        let object = http.thread.dataset.id(request.object());
        if object.length == 0 {
            return self.get(request).await;
        }
        let options = &http.thread.target.options;
        let range_bytes = options.range_bytes.unwrap_or(object.length);
        choose_ranges(request, object.length, range_bytes, options.range_count, &mut http.ranges);
        self.write_ranged_head(request);
        let http = self.http_mut();
        let sending = Sending::new(Method::Get, &http.head, &[206]);
        let is_verified = request.is_verified && !http.thread.dataset.is_listed();
        let wanted = Wanted { spec: &http.thread.payload, object, is_verified };
        read_ranges(&mut http.connection, sending, &wanted, &http.ranges).await
    }

    /// Writes the head of a GET for the chosen ranges.
    fn write_ranged_head(&mut self, request: &Request) {
        let http = self.http_mut();
        let mut value = std::mem::take(&mut http.scratch);
        value.clear();
        write_ranges(&mut value, &http.ranges);
        self.at_object(request.object().index, b"");
        let headers = [("range", value.as_slice())];
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Get, &[]) };
        self.write_head(&spec, &Nothing);
        self.http_mut().scratch = value;
    }

    async fn head_object(&mut self, request: &Request) -> Completion {
        if let Some(listed) = self.http().thread.dataset.listed(request.object().index)
            && request.is_verified
        {
            return Box::pin(self.head_listed(request, listed)).await;
        }
        self.at_object(request.object().index, request.suffix().as_bytes());
        let spec = HeadSpec::new(Method::Head, &[200, 204]);
        if self.http().thread.target.is_audit {
            let reply = Box::pin(self.ask_for_body(&spec, &Nothing, &[Self::METADATA])).await;
            return self.http_mut().with_metadata(&reply, Self::METADATA);
        }
        let expected = self.http().thread.dataset.length(request.object());
        let reply = self.ask(&spec, &Nothing).await;
        check_length(&mut self.http_mut().connection, &reply, request, expected)
    }

    /// Requests the metadata of an object that others wrote.
    async fn head_listed(&mut self, request: &Request, listed: Listed) -> Completion {
        self.at_object(request.object().index, b"");
        let spec = HeadSpec::new(Method::Head, &[200, 204]);
        let reply = self.ask_for_body(&spec, &Nothing, &["etag"]).await;
        let http = self.http_mut();
        check_head(&mut http.connection, &reply, listed, http.collect.header("etag"))
    }

    async fn delete_object(&mut self, request: &Request) -> Completion {
        self.at_object(request.object().index, b"");
        self.ask(&HeadSpec::new(Method::Delete, &[200, 202, 204]), &Nothing).await.completion()
    }

    /// Lists the next page of a place; after the last page, starts again with the first.
    async fn list(&mut self, request: &Request) -> Completion {
        if let Subject::Listing(listing) = &request.subject {
            return self.list_prefix(listing).await;
        }
        let thread = Rc::clone(&self.http().thread);
        let (options, dataset) = (&thread.target.options, &thread.dataset);
        let place = dataset.bucket(request.bucket());
        if let Some(mut keys) = dataset.audit_listing(request.bucket()) {
            let prefix = &dataset.spec().object_prefix;
            let mut completion = self.list_whole(&place, prefix, |key| keys.add(key)).await;
            completion.objects = u32::try_from(keys.end()).unwrap_or(u32::MAX);
            return completion;
        }
        let (token, after) = self.http_mut().page_after(request.bucket());
        let page = PageSpec {
            token: token.as_deref(),
            prefix: options.prefix.as_deref().unwrap_or(&dataset.spec().object_prefix),
            delimiter: options.delimiter.as_deref(),
            keys_max: options.page_keys,
            wants_keys: thread.target.keeps_history,
        };
        let (reply, listed) = self.list_page(&place, &page).await;
        let mut completion = reply.completion();
        match listed {
            Ok(page) => {
                let (bucket, is_last) = (request.bucket(), page.next.is_none());
                self.http_mut().note_listed(bucket, after.as_deref(), &page.keys, is_last);
                completion.objects = u32::try_from(page.entries).unwrap_or(u32::MAX);
                if let Some(next) = page.next {
                    self.http_mut().next_pages.insert(request.bucket(), next);
                }
            }
            Err(outcome) => completion.outcome = outcome,
        }
        completion
    }

    /// Lists all keys under a script's prefix, page by page, as one request.
    async fn list_prefix(&mut self, listing: &Listing) -> Completion {
        let thread = Rc::clone(&self.http().thread);
        let dataset = &thread.dataset;
        let place = dataset.bucket(dataset.bucket_of(u64::from(listing.prefix)));
        let prefix = dataset.listed_prefix(listing);
        let check = RefCell::new(dataset.check_listing(listing));
        let take = |key: &str| check.borrow_mut().add(dataset.listed_key(key).as_deref());
        let is_enough = || check.borrow().has_too_many();
        let mut completion = self.list_pages(&place, &prefix, take, is_enough, false).await;
        let check = check.into_inner();
        completion.objects = check.entries();
        let outcome = Outcome::of_set(check.verdict());
        if completion.outcome.is_ok() && !outcome.is_ok() {
            completion.outcome = self.object_to(outcome, check.describe());
        }
        completion
    }

    /// Lists all keys under a prefix as one request; each page has the timeout of a request.
    async fn list_whole(
        &mut self,
        place: &str,
        prefix: &str,
        take: impl FnMut(&str),
    ) -> Completion {
        self.list_pages(place, prefix, take, || false, true).await
    }

    /// Passes the keys under a prefix to `take`, page by page, until it has enough.
    async fn list_pages(
        &mut self,
        place: &str,
        prefix: &str,
        mut take: impl FnMut(&str),
        is_enough: impl Fn() -> bool,
        is_long: bool,
    ) -> Completion {
        let keys_max = self.http().thread.target.options.page_keys;
        let (mut whole, mut token) = (None::<Completion>, None::<String>);
        loop {
            if is_long {
                self.renew_deadline();
            }
            let at = token.as_deref();
            let page = PageSpec { token: at, prefix, delimiter: None, keys_max, wants_keys: true };
            let (reply, listed) = self.list_page(place, &page).await;
            let mut completion = reply.completion().behind(whole);
            let mut next = None;
            match listed {
                Ok(page) => {
                    page.keys.iter().for_each(|key| take(key));
                    next = page.next;
                    if next.is_some() && (page.keys.is_empty() || next == token) {
                        let text = "the listing goes on, but its last page brought nothing new";
                        completion.outcome = self.object_to(Outcome::PROTOCOL, text.to_owned());
                        return completion;
                    }
                    next = next.filter(|_| !is_enough());
                }
                Err(outcome) => completion.outcome = outcome,
            }
            if next.is_none() {
                return completion;
            }
            (whole, token) = (Some(completion), next);
        }
    }

    /// Deletes keys one by one; returns how many no longer exist. Outside of the measurement.
    async fn delete_each(&mut self, place: &str, keys: &[String]) -> Result<u64, Error> {
        let mut gone = 0;
        for key in keys {
            self.renew_deadline();
            self.at(place, key);
            let spec = HeadSpec::new(Method::Delete, &[200, 202, 204, 404]);
            let reply = self.ask(&spec, &Nothing).await;
            if reply.status == 0 {
                let action = format!("delete from {} \"{place}\"", Self::PLACE);
                return Err(self.refused(action, &reply));
            }
            gone += u64::from(reply.outcome.is_ok());
        }
        Ok(gone)
    }

    /// Reads a small object, if it exists. Outside of the measurement.
    async fn read_text(&mut self, place: &str, key: &str) -> Result<Option<String>, Error> {
        self.renew_deadline();
        self.at(place, key);
        let reply = self.ask_for_body(&HeadSpec::new(Method::Get, &[200]), &Nothing, &[]).await;
        match reply.status {
            404 => Ok(None),
            _ if reply.outcome.is_ok() => {
                Ok(Some(String::from_utf8_lossy(&self.http().collect.body).into_owned()))
            }
            _ => {
                let action = format!("read \"{key}\" in {} \"{place}\"", Self::PLACE);
                Err(self.refused(action, &reply))
            }
        }
    }

    /// Asks for the writer of the selected object, or of the version that the query names.
    ///
    /// # Errors
    /// The answer, if it does not reveal the writer.
    async fn writer_here(&mut self, query: &[u8]) -> Result<Writer, Reply> {
        let spec = HeadSpec { query, ..HeadSpec::new(Method::Head, &[200, 204]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[Self::RUN]).await;
        let run = self.http().collect.header(Self::RUN);
        Writer::of(reply.status, reply.outcome.is_ok(), run).ok_or(reply)
    }
}

/// Panics: the driver does not declare this operation.
fn undeclared() -> ! {
    unreachable!("Trial::check refused what is not in OPERATIONS")
}

impl<S: HttpStore> InParts for S {
    fn helpers(&mut self) -> &mut Helpers<Self> {
        &mut self.http_mut().helpers
    }

    fn own_error(&self) -> Option<String> {
        self.http().last_error()
    }

    fn keep_error(&mut self, error: Option<String>) {
        self.http_mut().error = error;
    }

    fn division(&self, request: &Request) -> Division {
        let thread = &self.http().thread;
        let bytes = thread.dataset.length(request.object());
        Division::new(bytes, thread.target.options.part_bytes)
    }

    async fn get_whole(&mut self, request: &Request) -> Completion {
        self.get(request).await
    }

    async fn get_stretch(&mut self, request: &Request, stretch: Range<u64>) -> Completion {
        let http = self.http_mut();
        let object = http.thread.dataset.id(request.object());
        http.ranges.clear();
        http.ranges.push((stretch.start, stretch.end));
        self.write_ranged_head(request);
        let http = self.http_mut();
        let sending = Sending::new(Method::Get, &http.head, &[206]);
        if request.is_verified
            && let Some(listed) = http.thread.dataset.listed(request.object().index)
        {
            let check = StoredCheck::new(listed, Some(stretch));
            let job = read_checked(&mut http.connection, sending, check, &http.thread.checked);
            return Box::pin(job).await;
        }
        let spec = &http.thread.payload;
        let wanted = Wanted { spec, object, is_verified: request.is_verified };
        read(&mut http.connection, sending, &wanted, stretch).await
    }
}
