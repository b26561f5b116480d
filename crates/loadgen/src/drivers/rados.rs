//! Driver `rados`: objects of a Ceph pool, natively, over librados.
//!
//! A bucket is a namespace of the pool, so that datasets stay apart and foreign objects untouched.

use std::collections::HashMap;
use std::ffi::c_char;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::clock::Clock;
use crate::dataset::Dataset;
use crate::drivers::{BucketState, Client, Driver, Setting, SettingKind};
use crate::error::Error;
use crate::operation::Operation;
use crate::outcome::{Answer, Outcome};
use crate::payload::{ObjectId, PayloadSpec, Verifier, fill};
use crate::reactor::Reactor;
use crate::requests::Request;
use crate::trial::Trial;

mod completion;
mod library;

use completion::{Inbox, InboxPark, Slot};
use library::{Access, Connection, Library, PoolContext, text};

/// The object that marks a namespace as ours.
const MARK: &str = ".loadstone-mark";

/// One request larger than this is refused when planning: librados sends an object whole.
const OBJECT_BYTES_MAX: u64 = 128 << 20;

/// How long a client that ends waits for its requests in flight.
const FAREWELL: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    pool: String,
    #[serde(default)]
    conf: Option<String>,
    #[serde(default)]
    keyring: Option<String>,
    #[serde(default = "default_user")]
    user: String,
    #[serde(default = "default_cluster")]
    cluster: String,
    #[serde(default = "one")]
    instances: u32,
}

fn default_user() -> String {
    "client.admin".into()
}

fn default_cluster() -> String {
    "ceph".into()
}

fn one() -> u32 {
    1
}

/// A pool of a cluster.
pub struct Rados {
    settings: Settings,
    connections: Vec<Connection>,
    dataset: Dataset,
    payload: PayloadSpec,
    range_bytes: Option<u64>,
    page_keys: u32,
    /// Whether requests were still in flight when a client's patience ended.
    is_abandoned: AtomicBool,
}

impl std::fmt::Debug for Rados {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rados").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A client of [`Rados`].
pub struct RadosClient {
    rados: Arc<Rados>,
    reactor: Rc<Reactor>,
    inbox: Arc<Inbox>,
    connection: usize,
    contexts: HashMap<u64, PoolContext>,
    slot: Arc<Slot>,
    /// Slots of requests that were given up; librados may still be at work on them.
    given_up: Vec<Arc<Slot>>,
    name: Vec<u8>,
    last_error: Option<String>,
}

impl Drop for RadosClient {
    /// Lets requests in flight end before their pool's context goes away: librados does not keep
    /// it for them. What does not end in time keeps what it needs, at the cost of its memory.
    fn drop(&mut self) {
        self.given_up.push(Arc::clone(&self.slot));
        let deadline = Instant::now() + FAREWELL;
        while self.given_up.iter().any(|slot| slot.result().is_none()) {
            // Waited for once: a thousand clients of a dead cluster do not wait one by one.
            if Instant::now() > deadline || self.rados.is_abandoned.load(Ordering::Relaxed) {
                self.rados.is_abandoned.store(true, Ordering::Relaxed);
                std::mem::forget(std::mem::take(&mut self.contexts));
                std::mem::forget(Arc::clone(&self.rados));
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl std::fmt::Debug for RadosClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RadosClient").finish_non_exhaustive()
    }
}

const fn setting(name: &'static str, default: Option<&'static str>, help: &'static str) -> Setting {
    Setting { name, kind: SettingKind::Text, required: false, default, help }
}

thread_local! {
    /// The inbox of the reactor that this thread made last; its clients are made right after it.
    static INBOX: std::cell::RefCell<Option<Arc<Inbox>>> = const { std::cell::RefCell::new(None) };
}

fn settings_of(trial: &Trial) -> Result<Settings, serde_json::Error> {
    serde_json::from_value(serde_json::Value::Object(trial.target.settings.clone()))
}

impl Driver for Rados {
    const NAME: &'static str = "rados";
    const SUMMARY: &'static str = "objects of a Ceph pool, natively, over librados";
    const OPERATIONS: &'static [Operation] = &[
        Operation::Put,
        Operation::Get,
        Operation::RangeGet,
        Operation::Head,
        Operation::List,
        Operation::Delete,
        Operation::Read,
        Operation::Write,
    ];
    const SETTINGS: &'static [Setting] = &[
        Setting { required: true, ..setting("pool", None, "the pool, which must exist") },
        setting("conf", None, "the Ceph configuration file; CEPH_CONF or /etc/ceph when absent"),
        setting("keyring", None, "the keyring; the configuration's when absent"),
        setting("user", Some("client.admin"), "who connects, with its type"),
        setting("cluster", Some("ceph"), "the cluster's name"),
        Setting {
            kind: SettingKind::Number,
            ..setting("instances", Some("1"), "connections to the cluster, shared by the clients")
        },
    ];
    type Client = RadosClient;

    fn check(trial: &Trial) -> Vec<String> {
        let mut mistakes = Vec::new();
        match settings_of(trial) {
            Err(error) => mistakes.push(format!("target.settings: {error}")),
            Ok(settings) if settings.instances == 0 => {
                mistakes.push("target.settings.instances: found 0, allowed: 1 and more".into());
            }
            Ok(_) => {}
        }
        let largest = trial.dataset.size.max();
        if largest > OBJECT_BYTES_MAX {
            mistakes.push(format!(
                "dataset.size: found up to {largest} bytes, allowed: {OBJECT_BYTES_MAX} (what a \
                 cluster takes as one object; see osd_max_object_size)"
            ));
        }
        mistakes
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        let settings = settings_of(trial).map_err(|error| Error::Trial(vec![error.to_string()]))?;
        let library = Arc::new(Library::open()?);
        let access = Access {
            cluster: settings.cluster.clone(),
            user: settings.user.clone(),
            conf: settings.conf.clone(),
            keyring: settings.keyring.clone(),
            timeout_s: trial.timeout_ns as f64 / 1e9,
        };
        let connections: Result<Vec<_>, Error> = (0..settings.instances)
            .map(|_| Connection::open(Arc::clone(&library), &access))
            .collect();
        let rados = Self {
            connections: connections?,
            dataset: Dataset::new(trial),
            payload: PayloadSpec::of_trial(trial),
            range_bytes: trial.options.range_bytes,
            page_keys: trial.options.page_keys,
            is_abandoned: AtomicBool::new(false),
            settings,
        };
        rados.connections[0].context(&rados.settings.pool, "")?;
        Ok(rados)
    }

    fn reactor(&self) -> Result<Rc<Reactor>, Error> {
        let inbox =
            Inbox::new().map_err(|source| Error::Host { what: "open an eventfd", source })?;
        INBOX.set(Some(Arc::clone(&inbox)));
        Ok(Reactor::new(Box::new(InboxPark(inbox)), Clock::real()))
    }

    fn client(self: &Arc<Self>, reactor: &Rc<Reactor>, index: u32) -> Result<RadosClient, Error> {
        let inbox =
            INBOX.with_borrow(Clone::clone).expect("a thread makes its reactor before its clients");
        let connection = index as usize % self.connections.len();
        let library = Arc::clone(&self.connections[connection].library);
        Ok(RadosClient {
            rados: Arc::clone(self),
            reactor: Rc::clone(reactor),
            slot: Slot::new(Arc::clone(&inbox), library),
            inbox,
            connection,
            contexts: HashMap::new(),
            given_up: Vec::new(),
            name: Vec::new(),
            last_error: None,
        })
    }
}

/// What one call of librados is to do.
#[derive(Clone, Copy)]
enum Call {
    WriteFull { length: usize },
    WriteAt { offset: u64, length: usize },
    Read { offset: u64, length: usize },
    Stat,
    Remove,
}

impl Client for RadosClient {
    async fn execute(&mut self, request: &Request) -> Answer {
        if request.operation == Operation::List {
            return self.list(request.index);
        }
        let object = self.object(request.index);
        let (call, is_verified) = self.call(request, &object);
        let bucket = self.rados.dataset.bucket_of(request.index);
        self.name.clear();
        self.rados.dataset.write_key(request.index, &mut self.name);
        self.name.push(0);
        if let Call::WriteFull { length } | Call::WriteAt { length, .. } = call {
            let offset = if let Call::WriteAt { offset, .. } = call { offset } else { 0 };
            // SAFETY: no request is in flight: each one's end is waited for or its slot replaced.
            let buffer = unsafe { self.slot.buffer(length) };
            fill(&self.rados.payload, &object, offset, buffer);
        }
        let sent_ns = self.reactor.now_ns();
        let (result, ended_ns) = match self.submit(bucket, call) {
            Ok(()) => self.wait().await,
            Err(number) => (-number, self.reactor.now_ns()),
        };
        let mut answer = Answer::plain(Outcome::OK, sent_ns, 0, ended_ns);
        self.judge(&mut answer, call, result, is_verified, &object);
        answer
    }

    async fn ready_bucket(
        &mut self,
        bucket: &str,
        allow_foreign: bool,
    ) -> Result<BucketState, Error> {
        let what = || format!("look into namespace \"{bucket}\" of pool \"{}\"", self.pool());
        let context = self.rados.connections[self.connection].context(self.pool(), bucket)?;
        if has_mark(&context) {
            return Ok(BucketState::Ours);
        }
        let mut first = None;
        let listed = context.for_each_object(|name| {
            first = Some(name.to_owned());
            false
        });
        listed.map_err(|number| Error::target(what(), kernel_text(number)))?;
        if let (Some(name), false) = (&first, allow_foreign) {
            return Err(Error::target(what(), format!("it holds \"{name}\" and no mark of ours"))
                .with_hint("name another bucket prefix, or pass --allow-foreign for this target"));
        }
        if first.is_some() {
            return Ok(BucketState::Foreign);
        }
        let (name, content) = (text(MARK), b"written by loadstone");
        // SAFETY: name and content outlive the call, which waits for its end.
        let result = unsafe {
            (context.library.rados_write_full)(
                context.context,
                name.as_ptr(),
                content.as_ptr().cast(),
                content.len(),
            )
        };
        if result < 0 {
            let what = format!("mark namespace \"{bucket}\" of pool \"{}\"", self.pool());
            return Err(Error::target(what, kernel_text(-result)));
        }
        Ok(BucketState::Created)
    }

    async fn sweep_bucket(&mut self, bucket: &str) -> Result<(u64, bool), Error> {
        let context = self.rados.connections[self.connection].context(self.pool(), bucket)?;
        let (mut ours, mut others) = (Vec::new(), 0_u64);
        let listed = context.for_each_object(|name| {
            match self.rados.dataset.index_of(name) {
                Some(_) => ours.push(text(name)),
                None if name == MARK => {}
                None => others += 1,
            }
            true
        });
        listed.map_err(|number| {
            let what = format!("list namespace \"{bucket}\" of pool \"{}\"", self.pool());
            Error::target(what, kernel_text(number))
        })?;
        if !has_mark(&context) {
            return Ok((0, ours.is_empty() && others == 0));
        }
        let mut swept = 0;
        for name in &ours {
            // SAFETY: the name outlives the call, which waits for its end.
            let result = unsafe { (context.library.rados_remove)(context.context, name.as_ptr()) };
            swept += u64::from(result >= 0);
        }
        let is_empty = others == 0 && swept == ours.len() as u64;
        if is_empty {
            let mark = text(MARK);
            // SAFETY: as above.
            unsafe { (context.library.rados_remove)(context.context, mark.as_ptr()) };
        }
        Ok((swept, is_empty))
    }

    fn last_error(&mut self) -> Option<String> {
        self.last_error.take()
    }
}

impl RadosClient {
    fn pool(&self) -> &str {
        &self.rados.settings.pool
    }

    fn object(&self, index: u64) -> ObjectId {
        let dataset = &self.rados.dataset;
        ObjectId::new(dataset.key_hash(index), dataset.spec().version, dataset.size(index))
    }

    fn call(&self, request: &Request, object: &ObjectId) -> (Call, bool) {
        let whole = usize::try_from(object.length).expect("checked against the limit");
        let block = self.rados.range_bytes.unwrap_or(object.length).min(object.length);
        let length = usize::try_from(block).expect("not more than the object");
        // Blocks lie side by side, so that a write of one never tears another.
        let blocks = object.length.checked_div(block).unwrap_or(1).max(1);
        let offset = request.chance % blocks * block;
        match request.operation {
            Operation::Put => (Call::WriteFull { length: whole }, false),
            Operation::Write => (Call::WriteAt { offset, length }, false),
            Operation::Get => (Call::Read { offset: 0, length: whole }, request.is_verified),
            Operation::RangeGet | Operation::Read => {
                (Call::Read { offset, length }, request.is_verified)
            }
            Operation::Delete => (Call::Remove, false),
            _ => (Call::Stat, false),
        }
    }

    fn submit(&mut self, bucket: u64, call: Call) -> Result<(), i32> {
        if !self.contexts.contains_key(&bucket) {
            let namespace = self.rados.dataset.bucket(bucket);
            let connection = &self.rados.connections[self.connection];
            let context = connection.context(self.pool(), &namespace).map_err(|error| {
                self.last_error = Some(error.to_string());
                libc::ENOENT
            })?;
            self.contexts.insert(bucket, context);
        }
        let context = &self.contexts[&bucket];
        let length = match call {
            Call::WriteFull { length }
            | Call::WriteAt { length, .. }
            | Call::Read { length, .. } => length,
            Call::Stat | Call::Remove => 0,
        };
        // SAFETY: no request is in flight on the slot until `arm`.
        let buffer = unsafe { self.slot.buffer(length) }.as_mut_ptr();
        let completion = self.slot.arm(self.reactor.current_task())?;
        let (library, io) = (&context.library, context.context);
        let name = self.name.as_ptr().cast::<c_char>();
        // SAFETY: librados copies the name; buffer and stat live in the slot, which the callback
        // keeps alive, and nobody else touches them until it has run.
        let result = unsafe {
            match call {
                Call::WriteFull { length } => {
                    (library.rados_aio_write_full)(io, name, completion, buffer.cast(), length)
                }
                Call::WriteAt { offset, length } => {
                    (library.rados_aio_write)(io, name, completion, buffer.cast(), length, offset)
                }
                Call::Read { offset, length } => {
                    (library.rados_aio_read)(io, name, completion, buffer.cast(), length, offset)
                }
                Call::Stat => {
                    let stat = self.slot.stat.get();
                    let (size, time) = (&raw mut (*stat).0, &raw mut (*stat).1);
                    (library.rados_aio_stat)(io, name, completion, size, time)
                }
                Call::Remove => (library.rados_aio_remove)(io, name, completion),
            }
        };
        if result < 0 {
            self.slot.refuse(completion);
            return Err(-result);
        }
        // SAFETY: librados keeps a count of its own until the callback has run.
        unsafe { (library.rados_aio_release)(completion) };
        Ok(())
    }

    /// Waits for the end of the request in flight; at the deadline it gives the request up.
    async fn wait(&mut self) -> (i32, u64) {
        let (slot, reactor) = (Arc::clone(&self.slot), Rc::clone(&self.reactor));
        let result = std::future::poll_fn(|_| match slot.result() {
            Some(result) => std::task::Poll::Ready(Some(result)),
            None if reactor.expired() => std::task::Poll::Ready(None),
            None => std::task::Poll::Pending,
        })
        .await;
        result.unwrap_or_else(|| {
            // The old slot belongs to the callback now; the next request gets a fresh one.
            let library = Arc::clone(&self.rados.connections[self.connection].library);
            let fresh = Slot::new(Arc::clone(&self.inbox), library);
            self.given_up.retain(|slot| slot.result().is_none());
            self.given_up.push(std::mem::replace(&mut self.slot, fresh));
            (-libc::ETIMEDOUT, self.reactor.now_ns())
        })
    }

    fn judge(
        &mut self,
        answer: &mut Answer,
        call: Call,
        result: i32,
        is_verified: bool,
        object: &ObjectId,
    ) {
        if result < 0 {
            answer.outcome = Outcome::of_io(&std::io::Error::from_raw_os_error(-result));
            self.last_error.get_or_insert_with(|| kernel_text(-result));
            return;
        }
        match call {
            Call::WriteFull { length } | Call::WriteAt { length, .. } => {
                answer.bytes = length as u64
            }
            Call::Read { offset, length } => {
                answer.bytes = result as u64;
                answer.first_byte_ns = answer.ended_ns;
                if is_verified {
                    let range = offset..offset + length as u64;
                    let mut verifier = Verifier::for_range(&self.rados.payload, object, range);
                    // SAFETY: the request has ended.
                    verifier.update(unsafe { self.slot.buffer(result as usize) });
                    answer.outcome = Outcome::of_verdict(verifier.finish());
                    answer.verified_bytes = verifier.checked_bytes();
                    if !answer.outcome.is_ok() {
                        self.last_error = verifier.evidence().map(|evidence| evidence.to_string());
                    }
                } else if (result as usize) < length {
                    answer.outcome = Outcome::TRUNCATED;
                }
            }
            Call::Stat | Call::Remove => {}
        }
    }

    /// Lists one page. librados has no asynchronous listing: this blocks its thread meanwhile.
    fn list(&mut self, bucket: u64) -> Answer {
        let sent_ns = self.reactor.now_ns();
        let namespace = self.rados.dataset.bucket(bucket);
        let mut keys = 0;
        let listed = self.rados.connections[self.connection]
            .context(self.pool(), &namespace)
            .map_err(|_| libc::ENOENT)
            .and_then(|context| {
                context.for_each_object(|_| {
                    keys += 1;
                    keys < self.rados.page_keys
                })
            });
        let outcome = listed.map_or_else(
            |number| Outcome::of_io(&std::io::Error::from_raw_os_error(number)),
            |()| Outcome::OK,
        );
        let ended_ns = self.reactor.now_ns();
        Answer { objects: keys, ..Answer::plain(outcome, sent_ns, ended_ns, ended_ns) }
    }
}

fn has_mark(context: &PoolContext) -> bool {
    let (mark, mut size, mut time) = (text(MARK), 0, 0);
    // SAFETY: all three outlive the call, which waits for its end.
    let result = unsafe {
        (context.library.rados_stat)(context.context, mark.as_ptr(), &raw mut size, &raw mut time)
    };
    result >= 0
}

fn kernel_text(number: i32) -> String {
    std::io::Error::from_raw_os_error(number).to_string()
}
