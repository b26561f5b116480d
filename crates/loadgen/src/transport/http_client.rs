//! What a client of an HTTP store is to the load, and to `ownership` in another's place.

use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::http1::Method;

use crate::dataset::Dataset;
use crate::driver::{Client, Traffic};
use crate::error::Error;
use crate::outcome::{Completion, Outcome, PartEnd};
use crate::ownership::beside::{ForeignPlaces, OwnerTag, SharedPlace, Writer};
use crate::ownership::{self, BucketState, Standing, Swept};
use crate::requests::Request;
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::HeadSpec;

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

    fn parts(&self) -> &[PartEnd] {
        &self.http().helpers.ends
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
        self.writer_here().await.map_err(|reply| reply.completion())
    }

    async fn writer_at(&mut self, place: &str, key: &str) -> Result<Writer, Error> {
        self.renew_deadline();
        self.at(place, key);
        let writer = self.writer_here().await;
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
