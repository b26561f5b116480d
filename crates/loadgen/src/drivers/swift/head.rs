//! Heads of requests: what a client points at, and what it says of the request.

use loadstone_wire::encode::write_path;
use loadstone_wire::http1::{self, Method};

use super::{HeadSpec, SwiftClient};
use crate::transport::transfer::Upload;

impl SwiftClient {
    /// Points at an object of the dataset.
    #[inline]
    pub(super) fn at_object(&mut self, index: u64) {
        let dataset = &self.thread.dataset;
        self.name.clear();
        dataset.write_bucket(dataset.bucket_of(index), &mut self.name);
        self.name.push(b'/');
        dataset.write_key(index, &mut self.name);
    }

    /// Points at a container, or at an object in it, by `CONTAINER` or `CONTAINER/OBJECT`.
    pub(super) fn at(&mut self, name: &str) {
        self.name.clear();
        self.name.extend_from_slice(name.as_bytes());
    }

    /// Writes the head of a request on where this points at.
    pub(super) fn write_head<U: Upload>(&mut self, spec: &HeadSpec<'_>, upload: &U) {
        let swift = &self.thread.swift;
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
        self.head.clear();
        http1::request_line(&mut self.head, spec.method, &self.path, spec.query);
        http1::header(&mut self.head, "host", &self.host);
        http1::header(&mut self.head, "x-auth-token", self.token.as_bytes());
        for (name, value) in spec.headers {
            http1::header(&mut self.head, name, value);
        }
        if matches!(spec.method, Method::Put | Method::Post) {
            http1::header_number(&mut self.head, "content-length", upload.length());
        }
        if swift.is_per_request {
            http1::header(&mut self.head, "connection", b"close");
        }
        self.head.extend_from_slice(&swift.plain_headers);
        http1::finish(&mut self.head);
    }
}
