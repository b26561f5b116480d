//! Implements the client of the load, and of `ownership` in foreign places, for all HTTP stores.

use std::rc::Rc;
use std::sync::Arc;

use loadstone_history::Listing;
use loadstone_wire::http1::Method;

use crate::dataset::Dataset;
use crate::driver::{Client, Traffic};
use crate::error::Error;
use crate::object_list::Lister;
use crate::outcome::{Completion, Outcome, PartEnd};
use crate::ownership::beside::{ForeignPlaces, OwnerTag, SharedPlace, Writer};
use crate::ownership::{self, BucketState, Standing, Swept};
use crate::requests::Request;
use crate::transport::connection::Sending;
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::HeadSpec;
use crate::transport::raw::{RawAnswer, RawRequest};

/// Every status that the parser accepts.
static EVERY_STATUS: [u16; 800] = {
    let mut statuses = [0; 800];
    let mut place = 0;
    while place < statuses.len() {
        statuses[place] = 200 + place as u16;
        place += 1;
    }
    statuses
};

impl<S: HttpStore> Client for S {
    async fn execute(&mut self, request: &Request) -> Completion {
        self.http_mut().error = None;
        self.execute_request(request).await
    }

    async fn look_at_bucket(&mut self, bucket: &str) -> Result<Standing, Error> {
        self.with_log_in(async |client| ownership::look(client, bucket).await).await
    }

    async fn is_bucket_absent(&mut self, bucket: &str) -> Result<bool, Error> {
        self.with_log_in(async |client| ownership::is_absent(client, bucket).await).await
    }

    async fn ready_bucket(&mut self, bucket: &str, _: bool) -> Result<BucketState, Error> {
        self.with_log_in(async |client| ownership::ready(client, bucket).await).await
    }

    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error> {
        self.with_log_in(async |client| ownership::sweep(client, bucket).await).await
    }

    async fn ask_raw(&mut self, request: &RawRequest) -> Result<RawAnswer, String> {
        ask_raw(self, request).await
    }

    fn raw_head(&mut self, request: &RawRequest) -> Result<Vec<u8>, String> {
        raw_head(self, request)
    }

    async fn list_objects(
        &mut self,
        place: &str,
        prefix: &str,
        lister: &mut Lister,
    ) -> Result<(), Error> {
        let mut token = None::<String>;
        loop {
            let page = async |client: &mut Self| {
                client.renew_deadline();
                client.object_page(place, prefix, token.as_deref()).await
            };
            let (objects, next) = self.with_log_in(page).await?;
            if next.is_some() && next == token {
                let action = format!("list {} \"{place}\"", S::PLACE);
                return Err(Error::target(action, "the listing's next page is the last one again"));
            }
            let are_wanted = objects.iter().all(|object| lister.add(object));
            match next.filter(|_| are_wanted) {
                None => return Ok(()),
                next => token = next,
            }
        }
    }

    fn parts(&self) -> &[PartEnd] {
        &self.http().helpers.ends
    }

    fn version(&self) -> u64 {
        self.http().connection.version
    }

    fn is_in_doubt(&self) -> bool {
        self.http().connection.is_in_doubt()
    }

    fn listed(&self) -> &[Listing] {
        &self.http().listed
    }

    fn traffic(&self) -> Traffic {
        let http = self.http();
        let mut traffic = http.connection.traffic();
        http.helpers.clients.iter().for_each(|helper| traffic.add(helper.traffic()));
        traffic
    }

    fn last_error(&mut self) -> Option<String> {
        let error = self.http_mut().error.take().or_else(|| self.http().last_error())?;
        Some(self.explained(error))
    }
}

impl<S: HttpStore> SharedPlace for S {
    fn known(&self) -> Option<&Arc<ForeignPlaces>> {
        self.http().thread.target.foreign.as_ref()
    }

    fn dataset(&self) -> &Dataset {
        &self.http().thread.dataset
    }

    fn put_as(&mut self, tag: OwnerTag) {
        self.http_mut().tag = tag;
    }

    async fn perform(&mut self, request: &Request) -> Completion {
        self.perform_plainly(request).await
    }

    #[cold]
    fn refuse(&mut self, kind: Outcome, text: String) -> Completion {
        let http = self.http_mut();
        let now_ns = http.thread.reactor.now_ns();
        http.connection.refuse(now_ns, kind, text)
    }

    fn derived(&self, request: &Request) -> Vec<Vec<u8>> {
        HttpStore::derived(self, request)
    }

    async fn writer_of(&mut self, index: u64, suffix: &[u8]) -> Result<Writer, Completion> {
        self.at_object(index, suffix);
        self.writer_here(b"").await.map_err(|reply| reply.completion())
    }

    async fn writer_at(&mut self, place: &str, key: &str) -> Result<Writer, Error> {
        self.renew_deadline();
        self.at(place, key);
        let writer = self.writer_here(b"").await;
        writer.map_err(|reply| {
            self.refused(format!("look at \"{key}\" in {} \"{place}\"", Self::PLACE), &reply)
        })
    }

    async fn writes_over(&mut self, place: &str, key: &str, text: &str) -> Result<bool, Error> {
        let thread = Rc::clone(&self.http().thread);
        let headers = thread.target.owner_headers(OwnerTag::RunIfAbsent, Self::RUN);
        self.renew_deadline();
        self.at(place, key);
        let expected = &[200, 201, 202, 400, 412, 501];
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put, expected) };
        let reply = self.ask(&spec, &text.as_bytes()).await;
        match reply.outcome.is_ok() {
            true => Ok(reply.status != 412),
            false => {
                let action = format!("write \"{key}\" to {} \"{place}\"", Self::PLACE);
                Err(self.refused(action, &reply))
            }
        }
    }
}

/// Sends a request and returns the answer.
///
/// # Errors
/// The request is invalid.
async fn ask_raw<S: HttpStore>(client: &mut S, request: &RawRequest) -> Result<RawAnswer, String> {
    let method = write_raw_head(client, request)?;
    let http = client.http_mut();
    let connection = &mut http.connection;
    let opened = connection.traffic().connections_opened;
    let mut answer = RawAnswer::default();
    // If it is sent twice, a conditional request may fail because of its own effect.
    let is_conditional = request.headers.iter().any(|(name, _)| name.starts_with("if-"));
    let sending = Sending {
        is_idempotent: method.is_idempotent() && !is_conditional,
        ..Sending::new(method, &http.head, &EVERY_STATUS)
    };
    let reply = connection.request(sending, &request.body.as_slice(), &mut answer).await;
    answer.status = reply.status;
    answer.took_ns = reply.ended_ns - reply.sent_ns;
    answer.is_fresh = connection.traffic().connections_opened > opened;
    answer.is_kept = connection.is_kept();
    answer.tls = connection.tls();
    answer.peer = connection.peer().to_string();
    if !reply.outcome.is_ok() {
        answer.failure = Some(reply.outcome.name().into_owned());
        answer.error = connection.last_error(&http.head);
    }
    Ok(answer)
}

/// Returns the head of a request, for callers that send it over their own connection.
///
/// # Errors
/// The request is invalid.
fn raw_head<S: HttpStore>(client: &mut S, request: &RawRequest) -> Result<Vec<u8>, String> {
    write_raw_head(client, request)?;
    Ok(client.http().head.clone())
}

fn write_raw_head<S: HttpStore>(client: &mut S, request: &RawRequest) -> Result<Method, String> {
    let (method, query) = request.line()?;
    let names: Vec<String> =
        request.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let values = request.headers.iter().map(|(_, value)| value.trim().as_bytes());
    let mut headers: Vec<(&str, &[u8])> = names.iter().map(String::as_str).zip(values).collect();
    headers.sort_unstable();
    if headers.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("a header is named twice".to_owned());
    }
    let spec = HeadSpec { query: &query, headers: &headers, ..HeadSpec::new(method, &[]) };
    client.at(&request.place, &request.key);
    client.write_raw_head(&spec, request);
    Ok(method)
}
