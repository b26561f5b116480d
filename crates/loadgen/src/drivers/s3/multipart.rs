//! Uploads in parts: start, parts one after another, completion; given up on failure.

use std::collections::HashSet;
use std::rc::Rc;

use loadstone_wire::encode::{write_number, write_query};
use loadstone_wire::http1::Method;
use loadstone_wire::xml;

use super::S3Client;
use super::ahead::Ahead;
use super::head::HeadSpec;
use crate::drivers::connection::Reply;
use crate::drivers::transfer::{Nothing, Payload};
use crate::outcome::{Answer, Outcome};
use crate::requests::Request;

/// Pages of uploads that are looked through, of up to a thousand each.
const UPLOAD_PAGES_MAX: usize = 1000;

impl S3Client {
    /// Uploads an object in parts. The answer's times span all of its HTTP requests.
    pub(super) async fn multipart_put(&mut self, request: &Request) -> Answer {
        let length = self.thread.dataset.size(request.index);
        self.head.at_object(&self.thread.dataset, request.index);
        let spec = HeadSpec { query: b"uploads", ..HeadSpec::new(Method::Post) };
        let first = self.ask_for_body(&spec, &Nothing, &[]).await;
        let mut answer = Answer { bytes: length, ..first.answer() };
        if !answer.outcome.is_ok() {
            return answer;
        }
        let upload_id = match xml::parse_upload_id(&self.collect.body) {
            Ok(id) => id,
            Err(error) => {
                answer.outcome = self.misread(&error);
                return answer;
            }
        };
        let last = match self.upload_parts(request, &upload_id).await {
            Ok(etags) => self.complete(&upload_id, &etags).await,
            Err(reply) => reply,
        };
        answer.outcome = last.outcome;
        answer.ended_ns = last.ended_ns;
        if !answer.outcome.is_ok() {
            // What the failure was about must be known before the next request hides it.
            self.told = self.connection.last_error(&self.head.bytes);
            self.give_up(&upload_id).await;
        }
        answer
    }

    async fn upload_parts(&mut self, request: &Request, id: &str) -> Result<Vec<String>, Reply> {
        let object = self.thread.object(request.index);
        let part_bytes = self.thread.s3.options.part_bytes.unwrap_or(object.length).max(1);
        let parts = object.length.div_ceil(part_bytes).max(1);
        let (payload, thread) = (self.payload, Rc::clone(&self.thread));
        let sealer = thread.sealer.as_ref();
        let body = |part: u64| {
            let start = object.length.min(part.saturating_mul(part_bytes));
            let length = part_bytes.min(object.length - start);
            Payload { spec: &payload, sealer, object, start, length }
        };
        let (mut etags, mut ahead) = (Vec::new(), Ahead::default());
        for part in 0..parts {
            let upload = body(part);
            let sha256 = thread
                .s3
                .settings
                .is_payload_signed
                .then(|| ahead.sha256(part, body, &thread.buffers));
            let mut number = Vec::new();
            write_number(&mut number, part + 1);
            let mut query = Vec::new();
            let parameters =
                [("partNumber", Some(number.as_slice())), ("uploadId", Some(id.as_bytes()))];
            write_query(&mut query, &parameters);
            let put = HeadSpec::new(Method::Put);
            let spec = HeadSpec { query: &query, is_object: true, sha256, ..put };
            let mut reply = self.ask_for_body(&spec, &upload, &["etag"]).await;
            if !reply.outcome.is_ok() {
                return Err(reply);
            }
            match self.collect.header("etag") {
                Some(etag) => etags.push(etag.to_owned()),
                None => {
                    reply.outcome = self.misread(&xml::XmlError::Missing("ETag"));
                    return Err(reply);
                }
            }
        }
        Ok(etags)
    }

    async fn complete(&mut self, id: &str, etags: &[String]) -> Reply {
        let mut body = Vec::new();
        xml::write_complete_upload(&mut body, etags.iter().map(String::as_str));
        let query = upload_query(id);
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Post) };
        let mut reply = self.ask_for_body(&spec, &body.as_slice(), &[]).await;
        if reply.outcome.is_ok()
            && let Err(error) = xml::check_late_answer(&self.collect.body)
        {
            reply.outcome = self.misread(&error);
        }
        reply
    }

    /// Has the store drop the parts of the dataset's uploads that an interrupted trial has left in
    /// a bucket. Stores that cannot list uploads have none to drop, or keep them.
    pub(super) async fn sweep_uploads(&mut self, bucket: &str) {
        let thread = Rc::clone(&self.thread);
        let prefix = thread.dataset.spec().object_prefix.as_bytes();
        let mut after: Option<(String, String)> = None;
        // A listing that comes back to where it was, or never ends, is given up.
        let mut seen = HashSet::new();
        loop {
            let mut query = Vec::new();
            let (key, id) = after.as_ref().map_or((None, None), |(key, id)| {
                (Some(key.as_bytes()), Some(id.as_bytes()).filter(|id| !id.is_empty()))
            });
            let optional = |name, value: Option<_>| value.map(|value| (name, Some(value)));
            let parameters: Vec<_> = optional("key-marker", key)
                .into_iter()
                .chain([("prefix", Some(prefix))])
                .chain(optional("upload-id-marker", id))
                .chain([("uploads", None)])
                .collect();
            write_query(&mut query, &parameters);
            self.renew_deadline();
            self.head.at(bucket, "");
            let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get) };
            let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
            let page = match xml::parse_upload_page(&self.collect.body) {
                Ok(page) if reply.outcome.is_ok() => page,
                _ => return,
            };
            for (key, id) in &page.uploads {
                if thread.s3.title.owns(bucket, key) {
                    self.renew_deadline();
                    self.head.at(bucket, key);
                    self.give_up(id).await;
                }
            }
            if page.next.is_none()
                || seen.len() >= UPLOAD_PAGES_MAX
                || !seen.insert(page.next.clone())
            {
                return;
            }
            after = page.next;
        }
    }

    /// Has the store drop the parts. If it does not, it keeps them: nothing more can be done here.
    async fn give_up(&mut self, id: &str) -> Outcome {
        let query = upload_query(id);
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Delete) };
        self.ask(&spec, &Nothing, &[200, 204]).await.outcome
    }
}

fn upload_query(id: &str) -> Vec<u8> {
    let mut query = Vec::new();
    write_query(&mut query, &[("uploadId", Some(id.as_bytes()))]);
    query
}
