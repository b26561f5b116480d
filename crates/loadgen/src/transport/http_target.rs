//! The target of a driver over HTTP: common settings, endpoints and TLS, and the connection of a
//! client with the head and the answer of its last request. `http_store.rs` makes requests with it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use loadstone_history::Listing;
use loadstone_wire::http1::{self, Method};
use rustls::ClientConfig;

use crate::dataset::Dataset;
use crate::driver::Thread;
use crate::error::Error;
use crate::facts::Limits;
use crate::history::listed_of;
use crate::ledger::metadata_value;
use crate::operation::Operation;
use crate::outcome::Completion;
use crate::ownership::Title;
use crate::ownership::beside::{ForeignPlaces, Header, OwnerTag};
use crate::payload::sealed::{Opener, Sealer, SealingKey};
use crate::payload::{ObjectId, PayloadSpec};
use crate::reactor::Reactor;
use crate::settings::{self, Setting, SettingKind, setting};
use crate::transport::connection::{Connection, Judge, Reply, Sending};
use crate::transport::endpoint::{Endpoint, Sources, Url, peer_of};
use crate::transport::parts::{Helpers, connections_of_a_client};
use crate::transport::socket::{self, Buffers};
use crate::transport::stored::{MethodCounts, MethodTotals};
use crate::transport::transfer::{Collect, Payload, Upload};
use crate::transport::{limits, options, tls};
use crate::trial::{Connections, Options, Trial};

/// Every operation of an object store.
pub(crate) const OPERATIONS: &[Operation] = &[
    Operation::Put,
    Operation::Get,
    Operation::RangeGet,
    Operation::MultiRangeGet,
    Operation::Head,
    Operation::List,
    Operation::Delete,
    Operation::BulkDelete,
    Operation::Copy,
    Operation::Post,
    Operation::MultipartPut,
    Operation::MultipartGet,
    Operation::CreateBucket,
    Operation::DeleteBucket,
    Operation::PutIfAbsent,
];

/// Trust in the target's certificate.
pub(crate) const TLS: Setting = setting(
    "tls",
    SettingKind::Map,
    "ca_file: a PEM file to trust instead of this host's authorities; verify: false to trust anybody",
);

/// Additional headers.
pub(crate) const HEADERS: Setting =
    setting("headers", SettingKind::Map, "headers added to every request");

/// Source addresses, which select among several networks.
pub(crate) const SOURCE: Setting = setting(
    "source",
    SettingKind::Texts,
    "addresses of this host that connections leave from; clients spread evenly over them",
);

/// Returns the mistakes that every driver of an object store over HTTP checks for; `urls` are the
/// names of the settings with URLs.
pub(crate) fn mistakes(
    trial: &Trial,
    known: &[Setting],
    urls: &[&str],
    limits: &Limits,
) -> Vec<String> {
    let map = &trial.target.settings;
    let mut mistakes = settings::mistakes(known, map);
    mistakes.extend(tls::mistakes(map));
    mistakes.extend(settings::header_mistakes(map));
    for key in urls {
        for text in settings::texts(map, key) {
            if let Err(reason) = Url::parse(text) {
                mistakes.push(format!("target.settings.{key}: \"{text}\": {reason}"));
            }
        }
    }
    for text in settings::texts(map, "source") {
        if text.parse::<IpAddr>().is_err() {
            mistakes.push(format!(
                "target.settings.source: found \"{text}\", allowed: addresses, such as 10.0.0.1"
            ));
        }
    }
    mistakes.extend(limits::mistakes(trial, settings::texts(map, "endpoints").len()));
    mistakes.extend(options::mistakes(trial, limits));
    mistakes
}

/// A target that speaks HTTP, shared by all load threads of a trial.
#[derive(Debug)]
pub(crate) struct HttpTarget {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) options: Options,
    pub(crate) title: Arc<Title>,
    tls: Option<Arc<ClientConfig>>,
    sources: Sources,
    judge: Judge,
    dataset: Dataset,
    payload: PayloadSpec,
    /// Connections per client.
    pub(super) connections: u32,
    /// Encryption keys, if objects are encrypted.
    sealing: Option<Arc<SealingKey>>,
    /// State of foreign places, if the trial may write to them.
    pub(super) foreign: Option<Arc<ForeignPlaces>>,
    pub(super) timeout_ns: u64,
    pub(crate) is_per_request: bool,
    /// Whether the trial keeps a history: then reads identify versions, and no write is sent twice.
    pub(crate) keeps_history: bool,
    /// Whether the trial reads back what ledgers name.
    pub(super) is_audit: bool,
    /// How reads of objects that others wrote were checked.
    checked: MethodTotals,
}

impl HttpTarget {
    /// Resolves the names in a target's URLs and reads what its clients need of the trial.
    /// `plain_key` returns the key of the object from which a key was derived: that of a copy or a
    /// part.
    ///
    /// # Errors
    /// A name has no address, or a file of certificates cannot be read.
    pub(crate) fn open(
        trial: &Trial,
        urls: Vec<Url>,
        plain_key: fn(&str) -> &str,
        judge: Judge,
    ) -> Result<Self, Error> {
        limits::raise_descriptors();
        let tls = match urls.iter().any(|url| url.is_tls) {
            true => Some(tls::client_config(&trial.target.settings)?),
            false => None,
        };
        Ok(Self {
            endpoints: urls.into_iter().map(Endpoint::resolve).collect::<Result<_, _>>()?,
            options: trial.options.clone(),
            title: Arc::new(Title::of(trial, plain_key)),
            tls,
            sources: Sources::of_this_host(&settings::texts(&trial.target.settings, "source"))?,
            judge,
            dataset: Dataset::new(trial),
            payload: PayloadSpec::of_trial(trial),
            connections: connections_of_a_client(trial),
            sealing: SealingKey::of_trial(trial),
            foreign: ForeignPlaces::of_trial(trial),
            timeout_ns: trial.timeout_ns,
            is_per_request: trial.connections == Connections::PerRequest,
            keeps_history: trial.keeps_history,
            is_audit: trial.open_audit.is_some(),
            checked: MethodTotals::default(),
        })
    }

    /// Returns the methods that the load used, for the record.
    pub(crate) fn features(&self) -> Vec<(String, String)> {
        self.checked.feature().into_iter().collect()
    }

    /// Returns the headers that tag a put with its writer, sorted; `name` is that of the metadata.
    pub(crate) fn owner_headers(&self, tag: OwnerTag, name: &'static str) -> Vec<Header<'_>> {
        self.foreign.as_ref().map(|foreign| foreign.headers(tag, name)).unwrap_or_default()
    }
}

/// State that the clients of one load thread share.
pub(crate) struct HttpThread {
    pub(crate) target: Arc<HttpTarget>,
    pub(crate) reactor: Rc<Reactor>,
    pub(crate) dataset: Dataset,
    pub(crate) payload: PayloadSpec,
    pub(crate) buffers: Rc<Buffers>,
    pub(super) checked: MethodCounts,
    sealer: Option<RefCell<Sealer>>,
}

impl HttpThread {
    /// Creates the state of a load thread, on that thread.
    ///
    /// # Errors
    /// The kernel gave no descriptor.
    pub(crate) fn new(target: &Arc<HttpTarget>) -> Result<Rc<Self>, Error> {
        Ok(Rc::new(Self {
            target: Arc::clone(target),
            reactor: socket::reactor()?,
            dataset: target.dataset.clone(),
            payload: target.payload,
            buffers: Rc::default(),
            checked: MethodCounts::default(),
            sealer: target.sealing.as_ref().map(|key| RefCell::new(Sealer::new(key))),
        }))
    }

    /// Returns a range of an object's payload, encrypted if objects are encrypted.
    #[inline]
    pub(crate) fn body(&self, object: ObjectId, range: Range<u64>) -> Payload<'_> {
        let (start, length) = (range.start, range.end - range.start);
        Payload { spec: &self.payload, sealer: self.sealer.as_ref(), object, start, length }
    }
}

impl Drop for HttpThread {
    fn drop(&mut self) {
        self.target.checked.add(&self.checked);
    }
}

/// A load thread whose clients share nothing else.
impl Thread for Rc<HttpThread> {
    fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }
}

/// One client of a store `S`: a connection, and another one for each additional part in flight.
pub(crate) struct HttpClient<S> {
    pub(crate) thread: Rc<HttpThread>,
    /// Clients that help to transfer the parts of this client's objects.
    pub(crate) helpers: Helpers<S>,
    pub(crate) connection: Connection,
    /// Head of the last request.
    pub(crate) head: Vec<u8>,
    /// Body and headers of the last answer that was kept.
    pub(crate) collect: Collect,
    /// Buffer for the value of a header or a body of one request.
    pub(crate) scratch: Vec<u8>,
    pub(super) ranges: Vec<(u64, u64)>,
    /// Token with which the listing of a bucket continues.
    pub(super) next_pages: HashMap<u64, String>,
    /// Last key of a bucket's last page, if a history is kept.
    pub(super) last_keys: HashMap<u64, String>,
    /// Objects covered by the last page, if a history is kept.
    pub(super) listed: Vec<Listing>,
    pub(crate) opener: Option<Opener>,
    /// How puts are tagged.
    pub(crate) tag: OwnerTag,
    /// Text of the last failure, kept if later requests would hide it.
    pub(crate) error: Option<String>,
    /// Whether the last answer to `ask` or `ask_for_body` was 401.
    pub(crate) is_unauthorized: bool,
}

impl<S> HttpClient<S> {
    /// Returns the completion of a HEAD that kept a header with metadata, whose value an audit takes
    /// for the version that was read.
    pub(super) fn with_metadata(&mut self, reply: &Reply, header: &str) -> Completion {
        self.connection.version = metadata_value(self.collect.header(header));
        reply.completion()
    }

    /// Creates client number `index` without helpers; also returns the URL that it uses.
    ///
    /// # Errors
    /// The host in the URL is not a valid name for a certificate.
    pub(super) fn new(thread: &Rc<HttpThread>, index: u32) -> Result<(Self, &Url), Error> {
        let target = &thread.target;
        let (endpoint, mut peer) = peer_of(&target.endpoints, target.tls.as_ref(), index)?;
        peer.source = target.sources.of_client(index, target.endpoints.len(), peer.address)?;
        let (reactor, buffers) = (&thread.reactor, &thread.buffers);
        let mut connection =
            Connection::new(peer, reactor, buffers, target.is_per_request, target.judge);
        if target.keeps_history {
            connection.repeat_reads_alone();
        }
        let client = Self {
            connection,
            thread: Rc::clone(thread),
            helpers: Helpers::default(),
            head: Vec::new(),
            collect: Collect::default(),
            scratch: Vec::new(),
            ranges: Vec::new(),
            next_pages: HashMap::new(),
            last_keys: HashMap::new(),
            listed: Vec::new(),
            opener: target.sealing.as_ref().map(Opener::new),
            tag: OwnerTag::default(),
            error: None,
            is_unauthorized: false,
        };
        Ok((client, &endpoint.url))
    }

    /// Takes the token of a bucket's next page, and the last key of the previous page.
    pub(super) fn page_after(&mut self, bucket: u64) -> (Option<String>, Option<String>) {
        (self.next_pages.remove(&bucket), self.last_keys.remove(&bucket))
    }

    /// Records which objects a page of a bucket's listing covers and shows, if a history is kept.
    pub(super) fn note_listed(
        &mut self,
        bucket: u64,
        after: Option<&str>,
        keys: &[String],
        is_last: bool,
    ) {
        let target = &self.thread.target;
        self.listed.clear();
        let is_plain = target.options.delimiter.is_none() && target.options.prefix.is_none();
        if !target.keeps_history || !is_plain {
            return;
        }
        let listed = listed_of(&self.thread.dataset, bucket, after, keys, is_last);
        self.listed = listed.unwrap_or_default();
        if let Some(last) = keys.last().filter(|_| !is_last) {
            self.last_keys.insert(bucket, last.clone());
        }
    }

    /// Returns the text of the last failure of this client's own requests.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.connection.last_error(&self.head)
    }
}

/// The contents of a head other than the resource.
#[derive(Clone, Copy)]
pub(crate) struct HeadSpec<'a> {
    pub(crate) method: Method,
    /// Sorted and encoded.
    pub(crate) query: &'a [u8],
    /// In lower case, sorted.
    pub(crate) headers: &'a [Header<'a>],
    /// Statuses that mean success.
    pub(crate) expected: &'static [u16],
    pub(crate) digest: BodyDigest,
    /// Whether it may be sent twice.
    pub(crate) is_idempotent: bool,
}

/// Digest of the body that a request carries, if the protocol has headers for it.
#[derive(Clone, Copy)]
pub(crate) enum BodyDigest {
    None,
    /// `Content-MD5`, which the store requires.
    Md5,
    /// The target's checksum, for an object or a part; with its SHA-256 if that is known already.
    Object(Option<[u8; 32]>),
}

impl HeadSpec<'_> {
    pub(crate) const fn new(method: Method, expected: &'static [u16]) -> Self {
        let is_idempotent = method.is_idempotent();
        Self { method, query: b"", headers: &[], expected, digest: BodyDigest::None, is_idempotent }
    }

    /// Returns the request to send once the head has been written.
    #[inline]
    pub(crate) fn sending<'a>(&self, head: &'a [u8]) -> Sending<'a> {
        let Self { method, expected, is_idempotent, .. } = *self;
        Sending { method, head, expected, is_idempotent }
    }
}

/// Completes a head: the length of a body if there may be one, and the headers that the target adds
/// to every request.
#[inline]
pub(crate) fn finish_head<U: Upload>(
    head: &mut Vec<u8>,
    method: Method,
    upload: &U,
    is_per_request: bool,
    plain_headers: &[u8],
) {
    if matches!(method, Method::Put | Method::Post) {
        http1::header_number(head, "content-length", upload.length());
    }
    if is_per_request {
        http1::header(head, "connection", b"close");
    }
    head.extend_from_slice(plain_headers);
    http1::finish(head);
}
