//! Requests on a condition: nothing is there, or it still has the ETag that it was last seen with.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use loadstone_wire::http1::Method;
use loadstone_wire::xml::XmlError;

use super::S3Client;
use crate::chance::mix64;
use crate::dataset::Object;
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::{Header, IF_NONE};
use crate::payload::{ANY_VERSION, ObjectId};
use crate::requests::Request;
use crate::transport::connection::{Reply, Sending};
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::{BodyDigest, HeadSpec};
use crate::transport::reading::{Wanted, read_with_etag};
use crate::transport::transfer::Nothing;

/// Objects whose ETag a load thread remembers; of others a client asks for it each time.
const REMEMBERED_MAX: usize = 1 << 16;

/// The ETags that objects had when a load thread last saw them, by the objects' numbers.
#[derive(Debug, Default)]
pub(super) struct Etags(HashMap<u64, Seen, BuildHasherDefault<NumberHasher>>);

/// Hashes the number of an object: that of the standard library costs more than what it protects from.
#[derive(Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = mix64(self.0 ^ number);
    }
}

/// What an object was last seen with.
#[derive(Debug, Clone)]
struct Seen {
    etag: Rc<str>,
    /// Zero where it is not known.
    version: u64,
}

impl Etags {
    fn note(&mut self, Object { index, version }: Object, etag: Option<&str>) {
        match etag {
            Some(etag) if self.0.len() < REMEMBERED_MAX || self.0.contains_key(&index) => {
                self.0.insert(index, Seen { etag: bare(etag), version });
            }
            _ => {
                self.0.remove(&index);
            }
        }
    }

    /// Forgets an ETag that was used, unless the object has been seen with another one since.
    fn forget(&mut self, index: u64, used: &str) {
        if self.0.get(&index).is_some_and(|seen| *seen.etag == *used) {
            self.0.remove(&index);
        }
    }
}

/// Returns an ETag without its quotes: AWS takes it with them and without, Ceph 16 only without.
fn bare(etag: &str) -> Rc<str> {
    etag.trim_matches('"').into()
}

impl S3Client {
    /// Writes an object if there is none.
    pub(super) async fn write_if_absent(&mut self, request: &Request) -> Completion {
        let reply = self.write_on(request, 0, Some(IF_NONE)).await;
        if reply.outcome.is_ok() && self.thread.s3.needs_etags {
            let etag = self.http.collect.header("etag");
            self.thread.etags.borrow_mut().note(request.object(), etag);
        }
        let bytes = self.http.thread.dataset.length(request.object());
        self.unless_lost(Completion { bytes, ..reply.completion() })
    }

    /// Writes an object that has the ETag that this thread last saw it with. The new content differs
    /// from the old one, so that the store's ETag does.
    pub(super) async fn write_if_match(&mut self, request: &Request) -> Completion {
        let index = request.object().index;
        let (Seen { etag, version }, asked) = match self.seen(request).await {
            Ok(known) => known,
            Err(failed) => return failed,
        };
        let writer = (request.chance as u32).max(1);
        let condition = ("if-match", etag.as_bytes());
        let reply = self.write_on(request, writer, Some(condition)).await;
        if reply.outcome.is_ok() {
            let written = self.http.collect.header("etag");
            self.thread.etags.borrow_mut().note(request.object(), written);
        } else {
            self.thread.etags.borrow_mut().forget(index, &etag);
        }
        let bytes = self.http.thread.dataset.length(request.object());
        self.http.connection.version = version;
        self.unless_lost(Completion { bytes, ..reply.completion() }).behind(asked)
    }

    /// Deletes an object that has the ETag that this thread last saw it with.
    pub(super) async fn remove_if_match(&mut self, request: &Request) -> Completion {
        let index = request.object().index;
        let (Seen { etag, version }, asked) = match self.seen(request).await {
            Ok(known) => known,
            Err(failed) => return failed,
        };
        let headers = [("if-match", etag.as_bytes())];
        let delete = HeadSpec::new(Method::Delete, &[200, 202, 204]);
        let spec = HeadSpec { headers: &headers, is_idempotent: false, ..delete };
        self.at_object(index, b"");
        let reply = self.ask(&spec, &Nothing).await;
        self.thread.etags.borrow_mut().forget(index, &etag);
        self.http.connection.version = version;
        self.unless_lost(reply.completion()).behind(asked)
    }

    /// Asks for the ETag of an object and writes it on that condition, until no other write comes
    /// between. The completion's `objects` are the tries.
    pub(super) async fn swap_until_won(&mut self, request: &Request) -> Completion {
        let bytes = self.http.thread.dataset.length(request.object());
        let mut begun = None;
        let mut tries = 0;
        let last = loop {
            tries += 1;
            let (Seen { etag, version }, asked) = match self.look(request).await {
                Ok(answer) => answer,
                Err(failed) => break failed,
            };
            begun.get_or_insert(asked);
            // A lost attempt has written nothing.
            let writer = (request.chance as u32).max(1);
            let condition = ("if-match", etag.as_bytes());
            let reply = self.write_on(request, writer, Some(condition)).await;
            self.http.connection.version = version;
            let written = self.unless_lost(Completion { bytes, ..reply.completion() });
            if written.outcome != Outcome::LOST_RACE {
                break written;
            }
        };
        Completion { objects: tries, ..last.behind(begun) }
    }

    /// Returns what an object was last seen with, and how the question for it went where it had to be asked.
    ///
    /// # Errors
    /// The question's completion, where it failed.
    async fn seen(&mut self, request: &Request) -> Result<(Seen, Option<Completion>), Completion> {
        let Object { index, .. } = request.object();
        if let Some(seen) = self.thread.etags.borrow().0.get(&index) {
            return Ok((seen.clone(), None));
        }
        let (seen, asked) = self.look(request).await?;
        let object = Object { index, version: seen.version };
        self.thread.etags.borrow_mut().note(object, Some(&seen.etag));
        Ok((seen, Some(asked)))
    }

    /// Asks for the ETag that an object has now; for a history it is read, which tells the version.
    ///
    /// # Errors
    /// The question's completion, where it failed.
    async fn look(&mut self, request: &Request) -> Result<(Seen, Completion), Completion> {
        let Object { index, .. } = request.object();
        self.at_object(index, b"");
        if !self.http.thread.target.keeps_history {
            let spec = HeadSpec::new(Method::Head, &[200]);
            let reply = self.ask_for_body(&spec, &Nothing, &["etag"]).await;
            let etag = self.http.collect.header("etag").map(bare);
            return self.seen_in(reply.completion(), etag);
        }
        self.write_head(&HeadSpec::new(Method::Get, &[]), &Nothing);
        let http = &mut self.http;
        let object = http.thread.dataset.id(Object { index, version: ANY_VERSION });
        let wanted = Wanted { spec: &http.thread.payload, object, is_verified: true };
        let sending = Sending::new(Method::Get, &http.head, &[200]);
        let (asked, etag) = read_with_etag(&mut http.connection, sending, &wanted).await;
        self.seen_in(asked, etag.as_deref().map(bare))
    }

    fn seen_in(
        &mut self,
        mut asked: Completion,
        etag: Option<Rc<str>>,
    ) -> Result<(Seen, Completion), Completion> {
        match etag.filter(|_| asked.outcome.is_ok()) {
            Some(etag) => Ok((Seen { etag, version: self.http.connection.version }, asked)),
            None if asked.outcome.is_ok() => {
                asked.outcome = self.misread(&XmlError::Missing("ETag"));
                Err(asked)
            }
            None => Err(asked),
        }
    }

    /// Puts an object, on a condition where there is one, and keeps the answer's ETag and version. A
    /// repetition could meet what the first attempt had written, so there is none.
    pub(super) async fn write_on(
        &mut self,
        request: &Request,
        writer: u32,
        condition: Option<Header<'_>>,
    ) -> Reply {
        let thread = Rc::clone(&self.thread);
        let http = &thread.http;
        let object = ObjectId { writer, ..http.dataset.id(request.object()) };
        self.at_object(request.object().index, b"");
        let owner = http.target.owner_headers(self.http.tag, Self::RUN);
        let both: Vec<_>;
        let headers = if owner.is_empty() {
            condition.as_slice()
        } else {
            both = condition.into_iter().chain(owner).collect();
            &both
        };
        let put = HeadSpec::new(Method::Put, &[200, 201]);
        // Which of several writers of an object comes next is not known ahead.
        let is_alone = writer == 0;
        let sha256 = is_alone.then(|| thread.sha256_ahead(request.object())).flatten();
        let digest = BodyDigest::Object(sha256);
        let spec = HeadSpec { digest, headers, is_idempotent: false, ..put };
        let upload = http.body(object, 0..object.length);
        // The version is of use where a put without a condition makes one.
        match condition {
            Some(_) if !thread.s3.needs_etags => self.ask(&spec, &upload).await,
            Some(_) => self.ask_for_body(&spec, &upload, &["etag"]).await,
            None => self.ask_for_body(&spec, &upload, &["etag", "x-amz-version-id"]).await,
        }
    }
}
