//! In another's container: which headers say whose an object is, and what `ownership::beside` asks for.

use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::encode::write_number;
use loadstone_wire::http1::Method;

use super::objects::{COPY_SUFFIX, SEGMENT_SUFFIX};
use super::{HeadSpec, Swift, SwiftClient};
use crate::dataset::Dataset;
use crate::error::Error;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::{self, Beside, Header, Manner, Neighbour, Writer};
use crate::requests::Request;
use crate::transport::connection::Reply;
use crate::transport::parts::InParts;
use crate::transport::transfer::Nothing;

/// The metadata that says which run wrote an object.
const RUN: &str = "x-object-meta-loadstone-run";

impl Swift {
    /// Returns what puts say of themselves, as headers.
    pub(super) fn headers(&self, manner: Manner) -> Vec<Header<'_>> {
        self.beside.as_ref().map(|beside| beside.headers(manner, RUN)).unwrap_or_default()
    }
}

impl Neighbour for SwiftClient {
    fn known(&self) -> Option<&Arc<Beside>> {
        self.thread.swift.beside.as_ref()
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

    /// Segments are objects beside the one that they make up.
    fn derived(&self, request: &Request) -> Vec<Vec<u8>> {
        if request.operation == Operation::Copy {
            return vec![COPY_SUFFIX.as_bytes().to_vec()];
        }
        let segments = (0..self.division(request).count()).map(|part| {
            let mut suffix = SEGMENT_SUFFIX.as_bytes().to_vec();
            write_number(&mut suffix, part);
            suffix
        });
        std::iter::once(Vec::new()).chain(segments).collect()
    }

    async fn writer_of(&mut self, index: u64, suffix: &[u8]) -> Result<Writer, Completion> {
        self.at_object(index);
        self.name.extend_from_slice(suffix);
        self.writer_here().await.map_err(|reply| reply.completion())
    }

    async fn writer_at(&mut self, container: &str, name: &str) -> Result<Writer, Error> {
        self.renew_deadline();
        self.at(&format!("{container}/{name}"));
        let found = self.writer_here().await;
        found.map_err(|reply| self.refused(format!("look at \"{container}/{name}\""), &reply))
    }

    async fn writes_over(
        &mut self,
        container: &str,
        name: &str,
        text: &str,
    ) -> Result<bool, Error> {
        let thread = Rc::clone(&self.thread);
        let headers = thread.swift.headers(Manner::First);
        self.renew_deadline();
        self.at(&format!("{container}/{name}"));
        let expected = &[200, 201, 202, 400, 412, 501];
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put, expected) };
        let reply = self.ask(&spec, &text.as_bytes()).await;
        match reply.outcome.is_ok() {
            true => Ok(reply.status != 412),
            false => Err(self.refused(format!("write \"{container}/{name}\""), &reply)),
        }
    }
}

impl SwiftClient {
    /// Does a request, with regard to others where the container is theirs.
    pub(super) async fn perform_anywhere(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.thread);
        match &thread.swift.beside {
            Some(beside) if beside.concerns(request, &thread.dataset) => {
                beside::perform(self, request, beside).await
            }
            _ => self.perform_plainly(request).await,
        }
    }

    /// Asks who has written the object that this points at.
    async fn writer_here(&mut self) -> Result<Writer, Reply> {
        let spec = HeadSpec::new(Method::Head, &[200, 204]);
        let reply = self.ask_for_body(&spec, &Nothing, &[RUN]).await;
        let run = self.collect.header(RUN);
        Writer::of(reply.status, reply.outcome.is_ok(), run).ok_or(reply)
    }
}
