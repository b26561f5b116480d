//! Writes the signed heads of S3 requests into buffers that are used again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::digest::Base64;
use loadstone_wire::encode::{hex_of_sha256, write_path};
use loadstone_wire::http1::{self, Method};
use loadstone_wire::sigv4::{self, Payload, Signer};

use super::S3;
use super::ahead::Ahead;
use super::body::{checksum_header, sha256};
use super::target::Checksum;
use crate::clock::unix_ns;
use crate::dataset::Dataset;
use crate::driver::Thread;
use crate::payload::sealed::Sealer;
use crate::reactor::Reactor;
use crate::transport::endpoint::Url;
use crate::transport::socket::Buffers;
use crate::transport::transfer::Upload;

/// What the S3 clients of one load thread share.
pub(crate) struct S3Thread {
    pub(super) s3: Arc<S3>,
    pub(super) reactor: Rc<Reactor>,
    pub(super) dataset: Dataset,
    pub(super) buffers: Rc<Buffers>,
    pub(super) sealer: Option<RefCell<Sealer>>,
    /// Of the objects that are put.
    pub(super) ahead: RefCell<Ahead>,
    signer: RefCell<Signer>,
    /// Of the keys that it signs with.
    generation: Cell<u64>,
}

impl Thread for Rc<S3Thread> {
    fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }
}

impl S3Thread {
    pub(super) fn new(s3: &Arc<S3>, reactor: Rc<Reactor>) -> Self {
        Self {
            s3: Arc::clone(s3),
            reactor,
            dataset: s3.dataset.clone(),
            buffers: Rc::default(),
            sealer: s3.sealing.as_ref().map(|key| RefCell::new(Sealer::new(key))),
            ahead: RefCell::default(),
            generation: Cell::new(s3.keys.generation()),
            signer: RefCell::new(Signer::new(s3.keys.credentials(), &s3.region, "s3")),
        }
    }

    /// Signs with new keys if there are any.
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

/// What a head says beyond where it goes.
#[derive(Clone, Copy)]
pub(super) struct HeadSpec<'a> {
    pub(super) method: Method,
    /// Sorted and encoded.
    pub(super) query: &'a [u8],
    /// Headers to sign: lower case, sorted.
    pub(super) headers: &'a [(&'a str, &'a [u8])],
    /// Whether the body is checked by a header: `Content-MD5` where the store demands it.
    pub(super) needs_md5: bool,
    /// Whether the body is an object or a part, which carries the target's checksum.
    pub(super) is_object: bool,
    /// The body's SHA-256, where it is known already.
    pub(super) sha256: Option<[u8; 32]>,
}

impl HeadSpec<'_> {
    pub(super) const fn new(method: Method) -> Self {
        Self { method, query: b"", headers: &[], needs_md5: false, is_object: false, sha256: None }
    }
}

/// The buffers of one client's heads.
#[derive(Debug, Default)]
pub(super) struct HeadWriter {
    pub(super) bytes: Vec<u8>,
    bucket: Vec<u8>,
    key: Vec<u8>,
    path: Vec<u8>,
    host: Vec<u8>,
    /// The host header of the client's endpoint.
    endpoint_host: Vec<u8>,
    /// The path of the client's endpoint.
    endpoint_path: Vec<u8>,
    is_per_request: bool,
    /// The checksum that the head was last written with.
    sum: Option<Base64>,
}

impl HeadWriter {
    pub(super) fn new(url: &Url, is_per_request: bool) -> Self {
        Self {
            endpoint_host: url.host_header().into_bytes(),
            endpoint_path: url.path.clone().into_bytes(),
            is_per_request,
            ..Self::default()
        }
    }

    /// Tells whether the client's endpoint lies below a path.
    pub(super) fn has_path(&self) -> bool {
        !self.endpoint_path.is_empty()
    }

    /// Returns the checksum of the body that the head was last written for.
    pub(super) fn checksum(&self) -> String {
        let sum = self.sum.as_ref().map_or(b"".as_slice(), Base64::as_bytes);
        String::from_utf8_lossy(sum).into_owned()
    }

    /// Points at an object of the dataset.
    #[inline]
    pub(super) fn at_object(&mut self, dataset: &Dataset, index: u64) {
        self.bucket.clear();
        dataset.write_bucket(dataset.bucket_of(index), &mut self.bucket);
        self.key.clear();
        dataset.write_key(index, &mut self.key);
    }

    /// Points at another key in the same bucket.
    pub(super) fn add_to_key(&mut self, suffix: &[u8]) {
        self.key.extend_from_slice(suffix);
    }

    /// Points at a bucket, or at a key in it.
    pub(super) fn at(&mut self, bucket: &str, key: &str) {
        self.bucket.clear();
        self.bucket.extend_from_slice(bucket.as_bytes());
        self.key.clear();
        self.key.extend_from_slice(key.as_bytes());
    }

    /// Writes bucket and key as `x-amz-copy-source` wants them.
    pub(super) fn write_copy_source(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(b'/');
        write_path(out, &self.bucket);
        out.push(b'/');
        write_path(out, &self.key);
    }

    /// Writes the whole head of a request on where this points at, signed now.
    pub(super) fn write<U: Upload>(&mut self, thread: &S3Thread, spec: &HeadSpec<'_>, upload: &U) {
        let settings = &thread.s3.settings;
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
        self.bytes.clear();
        http1::request_line(&mut self.bytes, spec.method, &self.path, spec.query);
        self.sign(thread, spec, upload);
        if matches!(spec.method, Method::Put | Method::Post) {
            http1::header_number(&mut self.bytes, "content-length", upload.length());
        }
        if self.is_per_request {
            http1::header(&mut self.bytes, "connection", b"close");
        }
        self.bytes.extend_from_slice(&settings.plain_headers);
        http1::finish(&mut self.bytes);
    }

    fn sign<U: Upload>(&mut self, thread: &S3Thread, spec: &HeadSpec<'_>, upload: &U) {
        let settings = &thread.s3.settings;
        let checksum = match (spec.is_object, spec.needs_md5) {
            (true, _) => settings.checksum,
            (false, true) => Checksum::Md5,
            (false, false) => Checksum::None,
        };
        let sum = checksum_header(checksum, upload, &thread.buffers);
        let hash = settings.is_payload_signed.then(|| {
            hex_of_sha256(&spec.sha256.unwrap_or_else(|| sha256(upload, &thread.buffers)))
        });
        let payload = match &hash {
            None => Payload::Unsigned,
            Some(hash) => Payload::Sha256(hash),
        };
        let mut request = sigv4::Request {
            method: spec.method,
            path: &self.path,
            query: spec.query,
            host: &self.host,
            headers: spec.headers,
            payload,
        };
        let unix_s = unix_ns() / 1_000_000_000;
        thread.follow_keys();
        let mut signer = thread.signer.borrow_mut();
        if sum.is_none() && settings.signed_headers.is_empty() {
            signer.sign(unix_s, &request, &mut self.bytes);
            return;
        }
        let own = settings.signed_headers.iter();
        let mut headers: Vec<(&str, &[u8])> =
            own.map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        headers.extend_from_slice(spec.headers);
        if let Some((name, value)) = &sum {
            headers.push((name, value.as_bytes()));
        }
        headers.sort_by_key(|(name, _)| *name);
        // What the request itself says goes before what the target's settings add.
        headers.dedup_by_key(|(name, _)| *name);
        request.headers = &headers;
        signer.sign(unix_s, &request, &mut self.bytes);
        drop(headers);
        self.sum = sum.map(|(_, sum)| sum);
    }
}
