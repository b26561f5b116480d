//! Requests with presigned URLs, as a browser or another client sends them that was given the URL.

use std::rc::Rc;

use loadstone_wire::http1::Method;

use super::S3Client;
use crate::outcome::Completion;
use crate::requests::Request;
use crate::transport::http_store::HttpStore;
use crate::transport::http_target::HeadSpec;
use crate::transport::reading::{Wanted, read, read_sealed};
use crate::transport::transfer::Nothing;

impl S3Client {
    pub(super) async fn read_by_url(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let object = thread.dataset.id(request.object());
        self.at_object(request.object().index, b"");
        let expected: &[u16] = if object.length == 0 { &[200, 204] } else { &[200] };
        let spec = HeadSpec::new(Method::Get, expected);
        self.head.write_presigned(&mut self.http.head, &self.thread, &spec, &Nothing);
        let S3Client { http, .. } = self;
        let sending = spec.sending(&http.head);
        let wanted = Wanted { spec: &thread.payload, object, is_verified: request.is_verified };
        match &mut http.opener {
            None => read(&mut http.connection, sending, &wanted, 0..object.length).await,
            Some(opener) => read_sealed(&mut http.connection, sending, &wanted, opener).await,
        }
    }

    pub(super) async fn write_by_url(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let object = thread.dataset.id(request.object());
        let upload = thread.body(object, 0..object.length);
        self.at_object(request.object().index, b"");
        let headers = thread.target.owner_headers(self.http.tag, Self::RUN);
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put, &[200, 201]) };
        self.head.write_presigned(&mut self.http.head, &self.thread, &spec, &upload);
        let reply = self.send_written(&spec, &upload).await;
        Completion { bytes: upload.length, ..reply.completion() }
    }
}
