//! Driver `s3`: objects of any store that speaks S3.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::xml;
use rustls::ClientConfig;
use serde_json::{Map, Value};

use crate::credentials::{KeyKeeper, keyless, s3_account};
use crate::dataset::Dataset;
use crate::driver::{Client, Driver, LogIns, Traffic};
use crate::error::Error;
use crate::facts::Facts;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome, PartEnd};
use crate::ownership::beside::{Beside, Manner};
use crate::ownership::{self, BucketState, Standing, Swept, Title};
use crate::payload::PayloadSpec;
use crate::payload::sealed::{Opener, SealingKey};
use crate::requests::Request;
use crate::settings::{self, Setting};
use crate::transport::{
    connection::{Connection, Failure, Refusal, Reply, Sending},
    endpoint::{Endpoint, Url, peer_of},
    limits,
    parts::{Helpers, InParts, connections_of_a_client},
    socket, tls,
    transfer::{Collect, Ignore, Upload},
};
use crate::trial::{Connections, Options, Trial};

mod ahead;
mod beside;
mod body;
mod buckets;
mod facts;
mod head;
mod multipart;
mod objects;
mod target;
mod versions;

use head::{HeadSpec, HeadWriter, S3Thread};
use target::S3Settings;

/// A target that speaks S3.
#[derive(Debug)]
pub(super) struct S3 {
    endpoints: Vec<Endpoint>,
    tls: Option<Arc<ClientConfig>>,
    keys: KeyKeeper,
    region: String,
    settings: S3Settings,
    dataset: Dataset,
    payload: PayloadSpec,
    /// Connections of one client.
    connections: u32,
    /// What objects are encrypted with, if they are.
    sealing: Option<Arc<SealingKey>>,
    options: Options,
    title: Arc<Title>,
    /// What is known of others' buckets, where the trial may write into them.
    beside: Option<Arc<Beside>>,
    timeout_ns: u64,
    is_per_request: bool,
}

/// One client of an S3 target: one connection, and one for each further part in flight.
pub(super) struct S3Client {
    thread: Rc<S3Thread>,
    /// Clients that help with the parts of this one's objects.
    helpers: Helpers<Self>,
    connection: Connection,
    head: HeadWriter,
    collect: Collect,
    /// What is put together for one request: a header's value, a body.
    scratch: Vec<u8>,
    query: Vec<u8>,
    ranges: Vec<(u64, u64)>,
    /// Where the listing of a bucket goes on.
    list_tokens: HashMap<u64, String>,
    /// Which versions the keys of the last page have, where a clean-up deletes versions.
    versions: HashMap<String, Vec<String>>,
    payload: PayloadSpec,
    opener: Option<Opener>,
    /// What puts say of themselves.
    manner: Manner,
    /// What the last failure was about, where later requests would hide it.
    told: Option<String>,
}

impl std::fmt::Debug for S3Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("S3Client")
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl Driver for S3 {
    const NAME: &'static str = "s3";
    const SUMMARY: &'static str = "an object store that speaks S3";
    const OPERATIONS: &'static [Operation] = &[
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
    ];
    const SETTINGS: &'static [Setting] = target::SETTINGS;
    const FACTS: Facts = facts::FACTS;
    const ENCRYPTS: bool = true;
    type Thread = Rc<S3Thread>;
    type Client = S3Client;

    fn check(trial: &Trial) -> Vec<String> {
        target::mistakes(trial)
    }

    fn absent(settings: &Map<String, Value>) -> Option<Error> {
        keyless(settings)
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        limits::raise_descriptors();
        let map = &trial.target.settings;
        let account = s3_account(map)?;
        let urls: Result<Vec<Url>, String> =
            settings::texts(map, "endpoints").into_iter().map(Url::parse).collect();
        let urls = urls.map_err(|reason| Error::Trial(vec![format!("endpoints: {reason}")]))?;
        let tls = match urls.iter().any(|url| url.is_tls) {
            true => Some(tls::client_config(map)?),
            false => None,
        };
        let endpoints: Result<Vec<Endpoint>, Error> =
            urls.into_iter().map(Endpoint::resolve).collect();
        let region = settings::text(map, "region").map(str::to_owned).or(account.region);
        Ok(Self {
            endpoints: endpoints?,
            tls,
            keys: account.keys,
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
            settings: S3Settings::read(map),
            dataset: Dataset::new(trial),
            payload: PayloadSpec::of_trial(trial),
            connections: connections_of_a_client(trial),
            sealing: SealingKey::of_trial(trial),
            options: trial.options.clone(),
            title: Arc::new(Title::of(trial, objects::plain_key)),
            beside: Beside::of_trial(trial),
            timeout_ns: trial.timeout_ns,
            is_per_request: trial.connections == Connections::PerRequest,
        })
    }

    fn log_ins(&self) -> LogIns {
        self.keys.renewals()
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<S3Thread>, Error> {
        Ok(Rc::new(S3Thread::new(self, socket::reactor()?)))
    }

    fn client(self: &Arc<Self>, thread: &Rc<S3Thread>, index: u32) -> Result<S3Client, Error> {
        let helpers = (1..self.connections).map(|_| self.lone_client(thread, index));
        let clients = helpers.collect::<Result<Vec<_>, _>>()?;
        let helpers = Helpers { clients, ..Helpers::default() };
        Ok(S3Client { helpers, ..self.lone_client(thread, index)? })
    }
}

impl S3 {
    /// Makes a client without helpers for the parts of an object.
    fn lone_client(&self, thread: &Rc<S3Thread>, index: u32) -> Result<S3Client, Error> {
        let (endpoint, peer) = peer_of(&self.endpoints, self.tls.as_ref(), index)?;
        let head = HeadWriter::new(&endpoint.url, self.is_per_request);
        let (reactor, buffers) = (&thread.reactor, &thread.buffers);
        Ok(S3Client {
            connection: Connection::new(peer, reactor, buffers, self.is_per_request, judge),
            thread: Rc::clone(thread),
            helpers: Helpers::default(),
            head,
            collect: Collect::default(),
            scratch: Vec::new(),
            query: Vec::new(),
            ranges: Vec::new(),
            list_tokens: HashMap::new(),
            versions: HashMap::new(),
            payload: self.payload,
            opener: self.sealing.as_ref().map(Opener::new),
            manner: Manner::default(),
            told: None,
        })
    }
}

/// Says what a refusal means. A 503 without such a code is a failure of the store's.
fn judge(status: u16, refusal: &Refusal) -> Outcome {
    match status {
        _ if facts::FACTS.throttling.statuses.contains(&status) => Outcome::THROTTLED,
        503 if refusal.error().is_some_and(|error| is_throttling(&error.code)) => {
            Outcome::THROTTLED
        }
        507 => Outcome::NO_SPACE,
        _ => Outcome::http(status),
    }
}

/// Tells whether an error's code asks for fewer requests.
fn is_throttling(code: &str) -> bool {
    facts::FACTS.throttling.codes.contains(&code)
}

impl Client for S3Client {
    async fn execute(&mut self, request: &Request) -> Completion {
        self.told = None;
        let thread = Rc::clone(&self.thread);
        match &thread.s3.beside {
            Some(beside) if beside.concerns(request, &thread.dataset) => {
                Box::pin(ownership::beside::perform(self, request, beside)).await
            }
            _ => self.perform_plainly(request).await,
        }
    }

    async fn look_at_bucket(&mut self, bucket: &str) -> Result<Standing, Error> {
        ownership::look(self, bucket).await
    }

    async fn is_bucket_absent(&mut self, bucket: &str) -> Result<bool, Error> {
        ownership::is_absent(self, bucket).await
    }

    async fn ready_bucket(&mut self, bucket: &str, _: bool) -> Result<BucketState, Error> {
        ownership::ready(self, bucket).await
    }

    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error> {
        ownership::sweep(self, bucket).await
    }

    fn parts(&self) -> &[PartEnd] {
        &self.helpers.ends
    }

    fn traffic(&self) -> Traffic {
        let mut traffic = self.connection.traffic();
        self.helpers.clients.iter().for_each(|helper| traffic.add(helper.traffic()));
        traffic
    }

    fn last_error(&mut self) -> Option<String> {
        let told = self.told.take().or_else(|| self.connection.last_error(&self.head.bytes));
        // Refusals that come of it are to be known by it.
        match self.thread.s3.keys.failure() {
            Some(failure) => {
                told.map(|told| format!("{told}\nthe keys were not renewed: {failure}"))
            }
            None => told,
        }
    }
}

impl S3Client {
    async fn perform_plainly(&mut self, request: &Request) -> Completion {
        match request.operation {
            Operation::Put => self.put(request).await,
            Operation::Get => self.get(request).await,
            Operation::RangeGet => self.range_get(request).await,
            Operation::MultiRangeGet => self.multi_range_get(request).await,
            Operation::Head => self.head_object(request).await,
            Operation::List => self.list(request).await,
            Operation::Delete => self.delete(request).await,
            Operation::BulkDelete => self.bulk_delete(request).await,
            Operation::Copy => self.copy(request).await,
            Operation::Post => self.post(request).await,
            // Many exchanges each. Kept in place, the largest would be what every client holds.
            Operation::MultipartPut => Box::pin(self.multipart_put(request)).await,
            Operation::MultipartGet => Box::pin(self.get_in_parts(request)).await,
            Operation::CreateBucket => Box::pin(self.create_bucket(request)).await,
            Operation::DeleteBucket => Box::pin(self.delete_bucket(request)).await,
            Operation::Read | Operation::Write | Operation::Append => {
                unreachable!("Trial::check refused what is not in OPERATIONS")
            }
        }
    }

    /// Sends a request on where the head writer points at, and passes over the answer's body.
    async fn ask<U: Upload>(
        &mut self,
        spec: &HeadSpec<'_>,
        upload: &U,
        expected: &'static [u16],
    ) -> Reply {
        self.head.write(&self.thread, spec, upload);
        let sending = Sending { method: spec.method, head: &self.head.bytes, expected };
        self.connection.request(sending, upload, &mut Ignore).await
    }

    /// Sends a request and keeps the answer's body.
    async fn ask_for_body<U: Upload>(
        &mut self,
        spec: &HeadSpec<'_>,
        upload: &U,
        headers: &'static [&'static str],
    ) -> Reply {
        self.head.write(&self.thread, spec, upload);
        self.collect.start(headers);
        let sending = Sending { method: spec.method, head: &self.head.bytes, expected: &[200] };
        self.connection.request(sending, upload, &mut self.collect).await
    }

    /// Objects to the body of an answer with the status of success.
    #[cold]
    fn misread(&mut self, error: &xml::XmlError) -> Outcome {
        let outcome = match error {
            // The status that the same error has when it comes in time.
            xml::XmlError::Store(error) => match error.code.as_str() {
                code if is_throttling(code) => Outcome::THROTTLED,
                "ServiceUnavailable" => Outcome::http(503),
                "NoSuchKey" | "NoSuchUpload" | "NoSuchBucket" => Outcome::http(404),
                "AccessDenied" => Outcome::http(403),
                _ => Outcome::http(500),
            },
            _ => Outcome::PROTOCOL,
        };
        self.connection.object_to(Failure::Told(outcome, error.to_string()))
    }
}
