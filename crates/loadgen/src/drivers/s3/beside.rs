//! In another's bucket: which headers say whose an object is, and what `ownership::beside` asks for.

use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::http1::Method;

use super::head::HeadSpec;
use super::objects::COPY_SUFFIX;
use super::{S3, S3Client};
use crate::dataset::Dataset;
use crate::error::Error;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::{Beside, Header, Manner, Neighbour, Writer};
use crate::requests::Request;
use crate::transport::connection::Reply;
use crate::transport::transfer::Nothing;

/// The metadata that says which run wrote an object.
const RUN: &str = "x-amz-meta-loadstone-run";

impl S3 {
    /// Returns what puts say of themselves, as headers, sorted.
    pub(super) fn headers(&self, manner: Manner) -> Vec<Header<'_>> {
        self.beside.as_ref().map(|beside| beside.headers(manner, RUN)).unwrap_or_default()
    }
}

impl Neighbour for S3Client {
    fn known(&self) -> Option<&Arc<Beside>> {
        self.thread.s3.beside.as_ref()
    }

    fn dataset(&self) -> &Dataset {
        &self.thread.dataset
    }

    fn put_as(&mut self, manner: Manner) {
        self.manner = manner;
    }

    async fn perform(&mut self, request: &Request) -> Completion {
        self.perform_plainly(request).await
    }

    #[cold]
    fn refuse(&mut self, kind: Outcome, text: String) -> Completion {
        let now_ns = self.connection.reactor().now_ns();
        self.connection.refuse(now_ns, kind, text)
    }

    fn derived(&self, request: &Request) -> Vec<Vec<u8>> {
        let suffix = if request.operation == Operation::Copy { COPY_SUFFIX } else { b"" };
        vec![suffix.to_vec()]
    }

    async fn writer_of(&mut self, index: u64, suffix: &[u8]) -> Result<Writer, Completion> {
        let thread = Rc::clone(&self.thread);
        self.head.at_object(&thread.dataset, index);
        self.head.add_to_key(suffix);
        self.writer_here().await.map_err(|reply| reply.completion())
    }

    async fn writer_at(&mut self, bucket: &str, key: &str) -> Result<Writer, Error> {
        self.renew_deadline();
        self.head.at(bucket, key);
        let found = self.writer_here().await;
        found.map_err(|reply| {
            self.refused(format!("look at \"{key}\" in bucket \"{bucket}\""), &reply)
        })
    }

    async fn writes_over(&mut self, bucket: &str, key: &str, text: &str) -> Result<bool, Error> {
        let s3 = Arc::clone(&self.thread.s3);
        let headers = s3.headers(Manner::First);
        self.renew_deadline();
        self.head.at(bucket, key);
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put) };
        let reply = self.ask(&spec, &text.as_bytes(), &[200, 201, 400, 412, 501]).await;
        match reply.outcome.is_ok() {
            true => Ok(reply.status != 412),
            false => Err(self.refused(format!("write \"{key}\" to bucket \"{bucket}\""), &reply)),
        }
    }
}

impl S3Client {
    /// Asks who has written the object that the head writer points at.
    async fn writer_here(&mut self) -> Result<Writer, Reply> {
        let reply = self.ask_for_body(&HeadSpec::new(Method::Head), &Nothing, &[RUN]).await;
        let run = self.collect.header(RUN);
        Writer::of(reply.status, reply.outcome.is_ok(), run).ok_or(reply)
    }
}
