//! The server: threads that accept connections, and the processing of requests.

use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use http::{HeaderValue, Request, StatusCode, header};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::service::S3Service;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use crate::account::{Account, Storage};
use crate::budget::Budget;
use crate::config::StoreConfig;
use crate::directory::Directory;
use crate::error::StoreError;
use crate::exchange::failure::failure;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::request_body::RequestBody;
use crate::exchange::route::{self, Api};
use crate::faults::{Gate, Lie, Lies, Pacer, Verdict};
use crate::s3;
use crate::swift::Swift;

/// Maximum length of a request head; the largest metadata of Swift takes half of it.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum number of bytes that a connection buffers.
const READ_BYTES_MAX: usize = 2 * HEAD_BYTES_MAX;

/// A running store; it stops when it is dropped.
#[derive(Debug)]
pub struct Store {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    service: Arc<Service>,
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// Received requests, including refused ones.
    pub requests: u64,
    /// Accepted connections.
    pub connections: u64,
    /// Open connections.
    pub connections_open: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Objects, parts, uploads and buckets that were found damaged at the start.
    pub damaged: u64,
}

/// State that all threads of a store share.
pub(crate) struct Service {
    account: Arc<Account>,
    s3: S3Service,
    swift: Swift,
    gate: Option<Gate>,
    pacer: Option<Arc<Pacer>>,
    head_time_max: Duration,
    /// Damaged items in the data directory that cannot be served, one per line.
    damage: Vec<String>,
    requests: AtomicU64,
    connections: AtomicU64,
    /// Number of open connections of each thread.
    open: Vec<AtomicUsize>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Service").finish_non_exhaustive()
    }
}

impl Store {
    /// Starts a store on its own threads; it is listening when this returns.
    pub fn start(config: StoreConfig) -> Result<Store, StoreError> {
        let threads = config.threads.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, |threads| threads.get())
        });
        let service = Arc::new(Service::new(&config, threads)?);
        let listener = listen(&config.bind, config.port)?;
        let address = listener
            .local_addr()
            .map_err(|source| StoreError::System { action: "name the listening socket", source })?;
        let (stop, stopped) = watch::channel(false);
        let mut store = Store { address, stop, threads: Vec::new(), service };
        let mut inboxes = Vec::new();
        for thread in 0..threads {
            let (sender, receiver) = mpsc::unbounded_channel();
            inboxes.push(sender);
            let service = store.service.clone();
            let (stopped, runtime) = (stopped.clone(), runtime()?);
            store.spawn("store", move || serve(runtime, thread, &service, receiver, stopped))?;
        }
        let (service, runtime) = (store.service.clone(), runtime()?);
        store.spawn("store-accept", move || {
            accept(&runtime, listener, &service, &inboxes, stopped);
        })?;
        Ok(store)
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), StoreError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = thread.map_err(|source| StoreError::System {
            action: "start a thread of the store",
            source,
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Returns the port that the store listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the address that the store listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> StoreCounters {
        let service = &self.service;
        let open: usize = service.open.iter().map(|open| open.load(Ordering::Relaxed)).sum();
        StoreCounters {
            requests: service.requests.load(Ordering::Relaxed),
            connections: service.connections.load(Ordering::Relaxed),
            connections_open: open as u64,
            memory_bytes: service.memory_bytes(),
            damaged: service.damage.len() as u64,
        }
    }

    /// Returns the damaged items in the data directory, one per line. They are left unchanged, and
    /// everything else is served.
    pub fn damage(&self) -> &[String] {
        &self.service.damage
    }

    /// Returns the lies so far, oldest first: the expected result for a detector.
    pub fn lies(&self) -> Vec<Lie> {
        self.service.account.lies.as_ref().map(Lies::list).unwrap_or_default()
    }

    /// Stops the store: closes its connections and waits for its threads.
    pub fn stop(&mut self) {
        // Without a receiver, every thread has ended already.
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            // A panic of a thread was reported; the others must still be joined.
            let _ = thread.join();
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Opens the account; also returns the damage.
fn open_account(config: &StoreConfig) -> Result<(Account, Vec<String>), StoreError> {
    let budget = Budget::new(config.memory_bytes_max);
    let lies = Lies::new(&config.faults.lies, config.faults.seed)?;
    let Some(root) = &config.data else {
        return Ok((Account::new(Storage::new(budget, None), lies), Vec::new()));
    };
    std::fs::create_dir_all(root).map_err(|error| StoreError::Directory {
        path: root.clone(),
        problem: error.to_string(),
        hint: "name a directory that can be made and written to",
    })?;
    let directory = Directory::open(root, config.fsync)?;
    let mut content = directory.load()?;
    let damage = std::mem::take(&mut content.damage);
    let account = Account::new(Storage::new(budget, Some(directory)), lies);
    account.restore(content)?;
    Ok((account, damage))
}

fn listen(bind: &str, port: u16) -> Result<StdListener, StoreError> {
    let failed = |source| StoreError::Listen { address: format!("{bind}:{port}"), source };
    let listener = StdListener::bind((bind, port)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Creates the runtime of a thread, which reads the environment. This must happen in the thread
/// that starts the store: the process may change its environment as soon as that thread continues,
/// and reading it at the same time would crash the process.
fn runtime() -> Result<Runtime, StoreError> {
    let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
    made.map_err(|source| StoreError::System { action: "make a runtime of the store", source })
}

/// Accepts connections and gives each to the thread with the fewest.
fn accept(
    runtime: &Runtime,
    listener: StdListener,
    service: &Arc<Service>,
    inboxes: &[mpsc::UnboundedSender<StdStream>],
    mut stopped: watch::Receiver<bool>,
) {
    runtime.block_on(async {
        let Ok(listener) = TcpListener::from_std(listener) else { return };
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stopped.changed() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    service.connections.fetch_add(1, Ordering::Relaxed);
                    let Ok(stream) = stream.into_std() else { continue };
                    let load = |thread: &usize| service.open[*thread].load(Ordering::Relaxed);
                    let thread = (0..inboxes.len()).min_by_key(load).unwrap_or(0);
                    service.open[thread].fetch_add(1, Ordering::Relaxed);
                    if inboxes[thread].send(stream).is_err() {
                        return;
                    }
                }
                // No descriptor is left: connections wait in the backlog until others are closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
}

/// Serves the connections of one thread.
fn serve(
    runtime: Runtime,
    thread: usize,
    service: &Arc<Service>,
    mut inbox: mpsc::UnboundedReceiver<StdStream>,
    mut stopped: watch::Receiver<bool>,
) {
    runtime.block_on(async {
        loop {
            let accepted = tokio::select! {
                accepted = inbox.recv() => accepted,
                _ = stopped.changed() => None,
            };
            let Some(stream) = accepted else { return };
            let service = service.clone();
            tokio::spawn(async move {
                let _open = Open { service: &service, thread };
                // An error of a connection concerns its client only, which sees it.
                let _ = serve_connection(&service, stream).await;
            });
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
}

/// Counts an open connection of a thread until it is dropped.
struct Open<'s> {
    service: &'s Service,
    thread: usize,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.service.open[self.thread].fetch_sub(1, Ordering::Relaxed);
    }
}

async fn serve_connection(
    service: &Arc<Service>,
    stream: StdStream,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let stream = TokioIo::new(TcpStream::from_std(stream)?);
    let answer = service_fn(|request| service.clone().answer(request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(service.head_time_max)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(READ_BYTES_MAX)
        .serve_connection(stream, answer);
    Ok(served.await?)
}

/// Closes the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("connection closed on request")]
struct Reset;

impl Service {
    /// Creates the state that `threads` threads of a store share.
    pub(crate) fn new(config: &StoreConfig, threads: usize) -> Result<Service, StoreError> {
        config.check()?;
        let credentials = config.resolve_credentials()?;
        let (account, damage) = open_account(config)?;
        let account = Arc::new(account);
        Ok(Service {
            s3: s3::service(account.clone(), credentials.s3, &config.region),
            swift: Swift::new(account.clone(), credentials.swift, config),
            gate: Gate::new(&config.faults),
            pacer: config.faults.bytes_per_s.map(|bytes| Arc::new(Pacer::new(bytes))),
            head_time_max: Duration::from_secs(config.head_seconds),
            requests: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            open: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            account,
            damage,
        })
    }

    /// Returns the number of bytes in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.account.storage.budget.bytes()
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Reset> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let (parts, incoming) = request.into_parts();
        let api = route::api(&parts.uri, &parts.headers);
        let verdict = match &self.gate {
            Some(gate) => {
                gate.burn();
                gate.draw(route::class(api, &parts.method, &parts.uri, &parts.headers))
            }
            None => Verdict::default(),
        };
        let waits_for_continue = parts.headers.contains_key(header::EXPECT);
        let body = RequestBody::new(incoming, self.pacer.clone());
        if !verdict.delay.is_zero() {
            tokio::time::sleep(verdict.delay).await;
        }
        if verdict.is_reset {
            return Err(Reset);
        }
        let mut reply = match (verdict.status, api) {
            (Some(status), _) => failure(api, status, verdict.is_throttled),
            (None, Api::Swift) => self.swift.answer(parts, body.clone()).await,
            (None, Api::S3) => {
                let body = s3s::Body::http_body(body.clone());
                match self.s3.call(Request::from_parts(parts, body)).await {
                    Ok(reply) => reply.map(ReplyBody::s3),
                    Err(_) => failure(Api::S3, 500, false),
                }
            }
        };
        if !waits_for_continue {
            body.drain().await;
        }
        // Unread data makes the connection unusable, so the client must know before it sends
        // another request.
        if !body.is_end_stream() {
            reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.finish(&mut reply, api, number, verdict);
        Ok(reply)
    }

    fn finish(&self, reply: &mut Reply, api: Api, number: u64, verdict: Verdict) {
        let name = match api {
            Api::S3 => "x-amz-request-id",
            Api::Swift => "x-trans-id",
        };
        let request_id = format!("tx{number:020x}");
        let mut body = std::mem::replace(reply.body_mut(), ReplyBody::empty());
        if let Some(document) = body.of_s3() {
            s3::mend(reply.headers_mut(), document, &request_id);
        }
        if api == Api::S3 && reply.status() == StatusCode::NOT_MODIFIED {
            // A cache would take it for the object's type.
            reply.headers_mut().remove(header::CONTENT_TYPE);
        }
        *reply.body_mut() = body;
        if let Ok(value) = HeaderValue::from_str(&request_id) {
            if api == Api::Swift {
                reply.headers_mut().insert("x-openstack-request-id", value.clone());
            }
            reply.headers_mut().insert(name, value);
        }
        if let Some(share) = verdict.truncate_at {
            reply.body_mut().truncate(share);
        }
        if let Some(pacer) = &self.pacer {
            reply.body_mut().pace(pacer);
        }
    }
}
