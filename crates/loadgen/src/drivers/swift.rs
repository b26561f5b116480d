//! Driver `swift`: objects of any store that speaks OpenStack Swift.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::http1::Method;
use rustls::ClientConfig;

use crate::clock::unix_ns;
use crate::dataset::Dataset;
use crate::driver::{Client, Driver, LogIns, Thread, Traffic};
use crate::error::Error;
use crate::facts::Facts;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome, PartEnd};
use crate::ownership::beside::{Beside, Manner};
use crate::ownership::{self, BucketState, Standing, Swept, Title};
use crate::payload::PayloadSpec;
use crate::payload::sealed::{Opener, Sealer, SealingKey};
use crate::reactor::Reactor;
use crate::requests::Request;
use crate::settings::{self, Setting};
use crate::transport::{
    connection::{Connection, Failure, Refusal, Reply, Sending},
    endpoint::{Endpoint, Url, peer_of},
    limits,
    parts::{Helpers, InParts, connections_of_a_client},
    socket::{self, Buffers},
    tls,
    transfer::{Collect, Ignore, Upload},
};
use crate::trial::{Connections, Options, Trial};

mod auth;
mod beside;
mod containers;
mod facts;
mod head;
mod objects;
mod target;

use auth::{AuthService, TokenKeeper};
use target::Login;

/// A target that speaks Swift.
#[derive(Debug)]
pub(super) struct Swift {
    endpoints: Vec<Endpoint>,
    /// The path of the account, such as `/v1/AUTH_test`.
    account_path: String,
    tls: Option<Arc<ClientConfig>>,
    tokens: TokenKeeper,
    storage_policy: Option<String>,
    plain_headers: Vec<u8>,
    dataset: Dataset,
    payload: PayloadSpec,
    /// Connections of one client.
    connections: u32,
    /// What objects are encrypted with, if they are.
    sealing: Option<Arc<SealingKey>>,
    options: Options,
    title: Arc<Title>,
    /// What is known of others' containers, where the trial may write into them.
    beside: Option<Arc<Beside>>,
    timeout_ns: u64,
    is_per_request: bool,
}

/// What the Swift clients of one load thread share.
pub(super) struct SwiftThread {
    swift: Arc<Swift>,
    reactor: Rc<Reactor>,
    dataset: Dataset,
    buffers: Rc<Buffers>,
    sealer: Option<RefCell<Sealer>>,
}

impl Thread for Rc<SwiftThread> {
    fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }
}

/// One client of a Swift target: one connection, and one for each further part in flight.
pub(super) struct SwiftClient {
    thread: Rc<SwiftThread>,
    /// Clients that help with the parts of this one's objects.
    helpers: Helpers<Self>,
    connection: Connection,
    head: Vec<u8>,
    path: Vec<u8>,
    name: Vec<u8>,
    host: Vec<u8>,
    token: String,
    token_generation: u64,
    collect: Collect,
    scratch: Vec<u8>,
    ranges: Vec<(u64, u64)>,
    /// The last name of the page before, by container.
    list_markers: HashMap<u64, String>,
    payload: PayloadSpec,
    opener: Option<Opener>,
    /// What puts say of themselves.
    manner: Manner,
    told: Option<String>,
    /// Whether the last answer was that the token is not taken.
    is_refused: bool,
}

impl std::fmt::Debug for SwiftClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = formatter.debug_struct("SwiftClient");
        text.field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Driver for Swift {
    const NAME: &'static str = "swift";
    const SUMMARY: &'static str = "an object store that speaks OpenStack Swift";
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
    type Thread = Rc<SwiftThread>;
    type Client = SwiftClient;

    fn check(trial: &Trial) -> Vec<String> {
        target::mistakes(trial)
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        limits::raise_descriptors();
        let map = &trial.target.settings;
        let parse = |text: &str| {
            Url::parse(text).map_err(|reason| Error::target(format!("use URL \"{text}\""), reason))
        };
        let auth_url = parse(settings::text(map, "auth_url").unwrap_or_default())?;
        let own_storage_url = settings::text(map, "storage_url");
        // Made at once: whether any of the URLs is HTTPS is known only after the log-in.
        let lazy_tls = |is_needed: bool| {
            if is_needed { tls::client_config(map).map(Some) } else { Ok(None) }
        };
        let service = AuthService {
            tls: lazy_tls(auth_url.is_tls)?,
            endpoint: Endpoint::resolve(auth_url)?,
            login: Login::read(map)?,
            region: settings::text(map, "region").map(str::to_owned),
            interface: settings::text(map, "interface").unwrap_or("public").to_owned(),
            has_storage_url: own_storage_url.is_some(),
            timeout_ns: trial.timeout_ns,
            retries: trial.retries.clone(),
        };
        let token = service.log_in_now()?;
        let storage_url = own_storage_url.or(token.storage_url.as_deref()).ok_or_else(|| {
            Error::target("log in", "the answer has no X-Storage-Url")
                .with_hint("give storage_url in the target's settings")
        })?;
        let storage_url = parse(storage_url)?;
        let account_path = storage_url.path.clone();
        let hosts = settings::texts(map, "endpoints");
        let urls = if hosts.is_empty() {
            vec![storage_url]
        } else {
            hosts.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?
        };
        let tls = lazy_tls(urls.iter().any(|url| url.is_tls))?;
        let endpoints = urls.into_iter().map(Endpoint::resolve).collect::<Result<Vec<_>, _>>()?;
        let headers = settings::pairs(map, "headers");
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        Ok(Self {
            endpoints,
            account_path,
            tls,
            tokens: TokenKeeper::new(service, &token),
            storage_policy: settings::text(map, "storage_policy").map(str::to_owned),
            plain_headers: lines.collect::<String>().into_bytes(),
            dataset: Dataset::new(trial),
            payload: PayloadSpec::of_trial(trial),
            connections: connections_of_a_client(trial),
            sealing: SealingKey::of_trial(trial),
            options: trial.options.clone(),
            title: Arc::new(Title::of(trial, objects::plain_name)),
            beside: Beside::of_trial(trial),
            timeout_ns: trial.timeout_ns,
            is_per_request: trial.connections == Connections::PerRequest,
        })
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<SwiftThread>, Error> {
        Ok(Rc::new(SwiftThread {
            swift: Arc::clone(self),
            reactor: socket::reactor()?,
            dataset: self.dataset.clone(),
            buffers: Rc::default(),
            sealer: self.sealing.as_ref().map(|key| RefCell::new(Sealer::new(key))),
        }))
    }

    fn log_ins(&self) -> LogIns {
        self.tokens.log_ins()
    }

    fn client(
        self: &Arc<Self>,
        thread: &Rc<SwiftThread>,
        index: u32,
    ) -> Result<SwiftClient, Error> {
        let helpers = (1..self.connections).map(|_| self.lone_client(thread, index));
        let clients = helpers.collect::<Result<Vec<_>, _>>()?;
        let helpers = Helpers { clients, ..Helpers::default() };
        Ok(SwiftClient { helpers, ..self.lone_client(thread, index)? })
    }
}

impl Swift {
    /// Makes a client without helpers for the parts of an object.
    fn lone_client(&self, thread: &Rc<SwiftThread>, index: u32) -> Result<SwiftClient, Error> {
        let (endpoint, peer) = peer_of(&self.endpoints, self.tls.as_ref(), index)?;
        let (reactor, buffers) = (&thread.reactor, &thread.buffers);
        Ok(SwiftClient {
            connection: Connection::new(peer, reactor, buffers, self.is_per_request, judge),
            thread: Rc::clone(thread),
            helpers: Helpers::default(),
            head: Vec::new(),
            path: Vec::new(),
            name: Vec::new(),
            host: endpoint.url.host_header().into_bytes(),
            token: String::new(),
            token_generation: 0,
            collect: Collect::default(),
            scratch: Vec::new(),
            ranges: Vec::new(),
            list_markers: HashMap::new(),
            payload: self.payload,
            opener: self.sealing.as_ref().map(Opener::new),
            manner: Manner::default(),
            told: None,
            is_refused: false,
        })
    }
}

/// Says what a refusal means. A 503 is a back end that failed.
fn judge(status: u16, _: &Refusal) -> Outcome {
    match status {
        _ if facts::FACTS.throttling.statuses.contains(&status) => Outcome::THROTTLED,
        507 => Outcome::NO_SPACE,
        _ => Outcome::http(status),
    }
}

impl Client for SwiftClient {
    async fn execute(&mut self, request: &Request) -> Completion {
        self.told = None;
        let thread = Rc::clone(&self.thread);
        let tokens = &thread.swift.tokens;
        if tokens.is_old(unix_ns() / 1_000_000_000) {
            // If this fails, the old token may still do; the target will say.
            let _ = self.renew(tokens.generation()).await;
        }
        let completion = self.perform_anywhere(request).await;
        if completion.outcome != Outcome::http(401) {
            return completion;
        }
        match self.renew(self.token_generation).await {
            Ok(true) => self.connection.count_repeat(),
            Ok(false) => return completion,
            Err(error) => {
                self.told = Some(error.to_string());
                return Completion { outcome: Outcome::AUTH, ..completion };
            }
        }
        // The time that the new token took belongs to the request that needed it.
        Completion { sent_ns: completion.sent_ns, ..self.perform_anywhere(request).await }
    }

    async fn look_at_bucket(&mut self, bucket: &str) -> Result<Standing, Error> {
        self.with_taken_token(async |own| ownership::look(own, bucket).await).await
    }

    async fn is_bucket_absent(&mut self, bucket: &str) -> Result<bool, Error> {
        self.with_taken_token(async |client| ownership::is_absent(client, bucket).await).await
    }

    async fn ready_bucket(&mut self, bucket: &str, _: bool) -> Result<BucketState, Error> {
        self.with_taken_token(async |own| ownership::ready(own, bucket).await).await
    }

    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error> {
        self.with_taken_token(async |own| ownership::sweep(own, bucket).await).await
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
        self.told.take().or_else(|| self.connection.last_error(&self.head))
    }
}

/// What a head says beyond where it goes.
#[derive(Clone, Copy)]
struct HeadSpec<'a> {
    method: Method,
    query: &'a [u8],
    headers: &'a [(&'a str, &'a [u8])],
    expected: &'static [u16],
}

impl HeadSpec<'_> {
    const fn new(method: Method, expected: &'static [u16]) -> Self {
        Self { method, query: b"", headers: &[], expected }
    }
}

impl SwiftClient {
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

    /// Does a job, and once more with a new token where the one that it had is not taken.
    async fn with_taken_token<T>(
        &mut self,
        job: impl AsyncFn(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let done = job(self).await;
        if done.is_ok() || !self.is_refused {
            return done;
        }
        self.renew(self.token_generation).await?;
        job(self).await
    }

    async fn renew(&mut self, generation: u64) -> Result<bool, Error> {
        let thread = Rc::clone(&self.thread);
        let reactor = Rc::clone(self.connection.reactor());
        Box::pin(thread.swift.tokens.renew(generation, &reactor, &thread.buffers)).await
    }

    /// Sends a request on where this points at, and passes over the answer's body.
    async fn ask<U: Upload>(&mut self, spec: &HeadSpec<'_>, upload: &U) -> Reply {
        self.write_head(spec, upload);
        let sending = Sending { method: spec.method, head: &self.head, expected: spec.expected };
        let reply = self.connection.request(sending, upload, &mut Ignore).await;
        self.is_refused = reply.status == 401;
        reply
    }

    /// Sends a request and keeps the answer's body, and these headers.
    async fn ask_for_body<U: Upload>(
        &mut self,
        spec: &HeadSpec<'_>,
        upload: &U,
        headers: &'static [&'static str],
    ) -> Reply {
        self.write_head(spec, upload);
        self.collect.start(headers);
        let sending = Sending { method: spec.method, head: &self.head, expected: spec.expected };
        let reply = self.connection.request(sending, upload, &mut self.collect).await;
        self.is_refused = reply.status == 401;
        reply
    }

    /// Objects to the body of an answer with the status of success.
    #[cold]
    fn misread(&mut self, text: String) -> Outcome {
        self.connection.object_to(Failure::Told(Outcome::PROTOCOL, text))
    }
}
