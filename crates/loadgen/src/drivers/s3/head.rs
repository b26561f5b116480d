//! Writes the signed heads of S3 requests into reused buffers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::digest::Base64;
use loadstone_wire::encode::{hex_of_sha256, write_path};
use loadstone_wire::http1;
use loadstone_wire::sigv4::{self, Payload, Signer};

use super::S3;
use super::ahead::Ahead;
use super::body::{checksum_header, sha256};
use super::conditional::Etags;
use super::steps::OpenUploads;
use super::target::{Checksum, S3Settings};
use super::versioned::KnownVersions;
use crate::clock::unix_ns;
use crate::dataset::Dataset;
use crate::dataset::Object;
use crate::driver::Thread;
use crate::reactor::Reactor;
use crate::transport::endpoint::Url;
use crate::transport::http_target::{BodyDigest, HeadSpec, HttpThread, finish_head};
use crate::transport::raw::{RawRequest, Signing};
use crate::transport::transfer::Upload;

/// Lifetime of a presigned URL that is used at once, in seconds.
const URL_LIFE_S: u64 = 3600;

/// State that the S3 clients of one load thread share.
pub(crate) struct S3Thread {
    pub(super) http: Rc<HttpThread>,
    pub(super) s3: Arc<S3>,
    /// Digests of the objects that are put.
    pub(super) ahead: RefCell<Ahead>,
    pub(super) etags: RefCell<Etags>,
    pub(super) versions: RefCell<KnownVersions>,
    pub(super) uploads: RefCell<OpenUploads>,
    signer: RefCell<Signer>,
    /// Generation of the keys that it signs with.
    generation: Cell<u64>,
}

impl Thread for Rc<S3Thread> {
    fn reactor(&self) -> &Rc<Reactor> {
        &self.http.reactor
    }
}

impl S3Thread {
    pub(super) fn new(s3: &Arc<S3>, http: Rc<HttpThread>) -> Self {
        Self {
            http,
            s3: Arc::clone(s3),
            ahead: RefCell::default(),
            etags: RefCell::default(),
            versions: RefCell::default(),
            uploads: RefCell::default(),
            generation: Cell::new(s3.keys.generation()),
            signer: RefCell::new(Signer::new(s3.keys.credentials(), &s3.region, "s3")),
        }
    }

    /// Returns the SHA-256 of an object's content, if it is signed, and hashes those of the next
    /// objects with it.
    pub(super) fn sha256_ahead(&self, Object { index, version }: Object) -> Option<[u8; 32]> {
        let body = |index| {
            let object = self.http.dataset.id(Object { index, version });
            self.http.body(object, 0..object.length)
        };
        let is_signed = self.s3.settings.is_payload_signed;
        is_signed
            .then(|| self.ahead.borrow_mut().sha256((version, index), body, &self.http.buffers))
    }

    /// Adopts new keys if there are any.
    #[inline]
    fn follow_keys(&self) {
        let generation = self.s3.keys.generation();
        if generation != self.generation.get() {
            self.take_keys(generation);
        }
    }

    #[cold]
    fn take_keys(&self, generation: u64) {
        self.generation.set(generation);
        self.signer.replace(Signer::new(self.s3.keys.credentials(), &self.s3.region, "s3"));
    }
}

/// Buffers for one client's heads.
#[derive(Debug, Default)]
pub(super) struct HeadWriter {
    bucket: Vec<u8>,
    key: Vec<u8>,
    path: Vec<u8>,
    host: Vec<u8>,
    /// Host header of the client's endpoint.
    endpoint_host: Vec<u8>,
    /// Path of the client's endpoint.
    endpoint_path: Vec<u8>,
    /// Checksum in the head that was written last.
    sum: Option<Base64>,
}

impl HeadWriter {
    pub(super) fn new(url: &Url) -> Self {
        Self {
            endpoint_host: url.host_header().into_bytes(),
            endpoint_path: url.path.clone().into_bytes(),
            ..Self::default()
        }
    }

    /// Returns whether the client's endpoint has a path.
    pub(super) fn has_path(&self) -> bool {
        !self.endpoint_path.is_empty()
    }

    /// Returns the checksum of the body of the last head.
    pub(super) fn checksum(&self) -> String {
        let sum = self.sum.as_ref().map_or(b"".as_slice(), Base64::as_bytes);
        String::from_utf8_lossy(sum).into_owned()
    }

    /// Selects an object of the dataset.
    #[inline]
    pub(super) fn at_object(&mut self, dataset: &Dataset, index: u64) {
        self.bucket.clear();
        dataset.write_bucket(dataset.bucket_of(index), &mut self.bucket);
        self.key.clear();
        dataset.write_key(index, &mut self.key);
    }

    /// Selects another key in the same bucket.
    pub(super) fn add_to_key(&mut self, suffix: &[u8]) {
        self.key.extend_from_slice(suffix);
    }

    /// Selects a bucket, or a key in it.
    pub(super) fn at(&mut self, bucket: &str, key: &str) {
        self.bucket.clear();
        self.bucket.extend_from_slice(bucket.as_bytes());
        self.key.clear();
        self.key.extend_from_slice(key.as_bytes());
    }

    /// Writes bucket and key in the format of `x-amz-copy-source`.
    pub(super) fn write_copy_source(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(b'/');
        write_path(out, &self.bucket);
        out.push(b'/');
        write_path(out, &self.key);
    }

    /// Writes the whole head of a request for the selected resource, signed with the current time.
    pub(super) fn write<U: Upload>(
        &mut self,
        out: &mut Vec<u8>,
        thread: &S3Thread,
        spec: &HeadSpec<'_>,
        upload: &U,
    ) {
        let settings = &thread.s3.settings;
        self.locate(settings);
        out.clear();
        http1::request_line(out, spec.method, &self.path, spec.query);
        self.sign(out, thread, spec, upload, unix_ns() / 1_000_000_000);
        let is_per_request = thread.http.target.is_per_request;
        finish_head(out, spec.method, upload, is_per_request, &settings.plain_headers);
    }

    /// Writes the whole head of a request with another kind of authentication.
    pub(super) fn write_raw(
        &mut self,
        out: &mut Vec<u8>,
        thread: &S3Thread,
        spec: &HeadSpec<'_>,
        request: &RawRequest,
    ) {
        let settings = &thread.s3.settings;
        let upload = request.body.as_slice();
        let unix_s = (unix_ns() / 1_000_000_000).saturating_sub(request.signed_ago_s);
        self.locate(settings);
        out.clear();
        match request.signing {
            Signing::Usual | Signing::Wrong => {
                http1::request_line(out, spec.method, &self.path, spec.query);
                self.sign(out, thread, spec, &upload, unix_s);
                if request.signing == Signing::Wrong {
                    spoil_signature(out);
                }
            }
            Signing::Url(expires_s) => self.write_signed_url(out, thread, spec, unix_s, expires_s),
            Signing::Nobody => {
                http1::request_line(out, spec.method, &self.path, spec.query);
                self.write_unsigned_headers(out, spec);
            }
        }
        let is_per_request = thread.http.target.is_per_request;
        finish_head(out, spec.method, &upload, is_per_request, &settings.plain_headers);
    }

    /// Writes the whole head of a request with a URL that is presigned now.
    pub(super) fn write_presigned<U: Upload>(
        &mut self,
        out: &mut Vec<u8>,
        thread: &S3Thread,
        spec: &HeadSpec<'_>,
        upload: &U,
    ) {
        let settings = &thread.s3.settings;
        self.locate(settings);
        out.clear();
        self.write_signed_url(out, thread, spec, unix_ns() / 1_000_000_000, URL_LIFE_S);
        let is_per_request = thread.http.target.is_per_request;
        finish_head(out, spec.method, upload, is_per_request, &settings.plain_headers);
    }

    fn write_signed_url(
        &self,
        out: &mut Vec<u8>,
        thread: &S3Thread,
        spec: &HeadSpec<'_>,
        unix_s: u64,
        expires_s: u64,
    ) {
        let mut query = Vec::new();
        let signed = sigv4::Request {
            method: spec.method,
            path: &self.path,
            query: spec.query,
            host: &self.host,
            headers: spec.headers,
            payload: Payload::Unsigned,
        };
        thread.follow_keys();
        thread.signer.borrow_mut().presign(unix_s, expires_s, &signed, &mut query);
        http1::request_line(out, spec.method, &self.path, &query);
        self.write_unsigned_headers(out, spec);
    }

    fn write_unsigned_headers(&self, out: &mut Vec<u8>, spec: &HeadSpec<'_>) {
        http1::header(out, "host", &self.host);
        for (name, value) in spec.headers {
            http1::header(out, name, value);
        }
    }

    /// Determines host and path of a request for the selected resource.
    fn locate(&mut self, settings: &S3Settings) {
        self.path.clear();
        self.path.extend_from_slice(&self.endpoint_path);
        self.host.clear();
        if settings.is_virtual && !self.bucket.is_empty() {
            self.host.extend_from_slice(&self.bucket);
            self.host.push(b'.');
        } else {
            self.path.push(b'/');
            write_path(&mut self.path, &self.bucket);
        }
        self.host.extend_from_slice(&self.endpoint_host);
        if !self.key.is_empty() || self.path.is_empty() {
            self.path.push(b'/');
            write_path(&mut self.path, &self.key);
        }
    }

    fn sign<U: Upload>(
        &mut self,
        out: &mut Vec<u8>,
        thread: &S3Thread,
        spec: &HeadSpec<'_>,
        upload: &U,
        unix_s: u64,
    ) {
        let settings = &thread.s3.settings;
        let (checksum, known) = match spec.digest {
            BodyDigest::Object(sha256) => (settings.checksum, sha256),
            BodyDigest::Md5 => (Checksum::Md5, None),
            BodyDigest::None => (Checksum::None, None),
        };
        let buffers = &thread.http.buffers;
        let sum = checksum_header(checksum, upload, buffers);
        let hash = settings
            .is_payload_signed
            .then(|| hex_of_sha256(&known.unwrap_or_else(|| sha256(upload, buffers))));
        let payload = match &hash {
            None => Payload::Unsigned,
            Some(hash) => Payload::Sha256(hash),
        };
        // Headers are sorted, so those that need no signature come first.
        let plain = spec.headers.iter().take_while(|(name, _)| is_unsigned(name)).count();
        let (plain, signed) = spec.headers.split_at(plain);
        for (name, value) in plain {
            http1::header(out, name, value);
        }
        let mut request = sigv4::Request {
            method: spec.method,
            path: &self.path,
            query: spec.query,
            host: &self.host,
            headers: signed,
            payload,
        };
        thread.follow_keys();
        let mut signer = thread.signer.borrow_mut();
        if sum.is_none() && !settings.adds_signed_headers {
            signer.sign(unix_s, &request, out);
            return;
        }
        let settings_headers = settings.signed_headers.iter();
        let mut headers: Vec<(&str, &[u8])> =
            settings_headers.map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        if let Some(encryption) = &settings.server_encryption
            && !self.key.is_empty()
        {
            encryption.add_headers(spec, &mut headers);
        }
        headers.extend_from_slice(signed);
        if let Some((name, value)) = &sum {
            headers.push((name, value.as_bytes()));
        }
        headers.sort_by_key(|(name, _)| *name);
        // The request's own headers take precedence over those of the target's settings.
        headers.dedup_by_key(|(name, _)| *name);
        request.headers = &headers;
        signer.sign(unix_s, &request, out);
        drop(headers);
        self.sum = sum.map(|(_, sum)| sum);
    }
}

/// Returns whether a header need not be signed. S3 requires a signature of `host`, of headers that
/// begin with `x-amz-`, and of those that describe the body. Each additional line could add a block
/// to hash.
fn is_unsigned(name: &str) -> bool {
    matches!(name, "if-match" | "if-none-match" | "range")
}

/// Changes the last digit of the signature that was just written.
fn spoil_signature(head: &mut [u8]) {
    let place = head.len() - b"0\r\n".len();
    head[place] = if head[place] == b'0' { b'1' } else { b'0' };
}
