//! Driver `rados`: objects of a Ceph pool, accessed natively with librados.
//!
//! A bucket is a namespace of the pool, so that datasets are separate and foreign objects are not
//! touched. Requests are asynchronous: a load thread submits them and sleeps until a thread of
//! librados wakes it through its inbox. Calls that exist only in a blocking form run on separate
//! threads.

use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use crate::dataset::Dataset;
use crate::driver::{Driver, Thread};
use crate::error::{Error, Kind};
use crate::facts::Facts;
use crate::operation::Operation;
use crate::ownership::Title;
use crate::payload::{Held, PayloadSpec};
use crate::reactor::Reactor;
use crate::settings::Setting;
use crate::transport::{huge, inbox::Inbox, limits};
use crate::trial::Trial;

mod beside;
mod call;
mod client;
mod connection;
mod facts;
mod library;
mod lists;
mod memory;
mod namespace;
mod settings;
mod slot;

use beside::ForeignPlaces;
pub(super) use client::RadosClient;
use connection::{Connection, InFlight, PoolContext};
use library::Context;
use settings::Access;

/// Minimum number of clients, because this many work on buckets before and after the load.
const CLIENTS_MIN: u32 = 16;

/// A pool of a cluster.
pub(super) struct Rados {
    access: Access,
    instances: Vec<Instance>,
    dataset: Dataset,
    title: Arc<Title>,
    /// State of foreign namespaces, if the trial may write to them.
    foreign: Option<ForeignPlaces>,
    payload: PayloadSpec,
    range_bytes: Option<u64>,
    page_keys: u32,
    timeout_ns: u64,
    clients: u32,
    /// Maximum number of bytes that one request writes, and reads.
    bytes_written: usize,
    bytes_read: usize,
    /// Whether requests were still in flight when a client gave up waiting for them.
    is_abandoned: AtomicBool,
}

impl std::fmt::Debug for Rados {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Rados").field("access", &self.access).finish_non_exhaustive()
    }
}

/// One connection and the namespaces that are open on it, one for each bucket of the dataset.
struct Instance {
    contexts: Vec<OnceLock<PoolContext>>,
    connection: Arc<Connection>,
}

impl Instance {
    /// Returns the open namespace of a bucket.
    fn open(&self, rados: &Rados, bucket: u64) -> Result<&PoolContext, c_int> {
        let place = &self.contexts[usize::try_from(bucket).expect("buckets fit in memory")];
        if let Some(context) = place.get() {
            return Ok(context);
        }
        let context = self.connection.namespace(&rados.dataset.bucket(bucket))?;
        Ok(place.get_or_init(|| context))
    }

    /// Returns the handle of a bucket's namespace, which stays open as long as the driver exists.
    fn context(&self, rados: &Rados, bucket: u64) -> Result<Context, c_int> {
        self.open(rados, bucket).map(|context| context.context)
    }
}

impl Rados {
    /// Refuses block sizes for which the pool would refuse each append.
    fn check_appends(&self, largest: u64) -> Result<(), Error> {
        let pool = &self.access.pool;
        let refused = |number| {
            let action = format!("ask for the stripes of pool \"{pool}\"");
            library::refused(action, number)
        };
        let context = self.instances[0].open(self, 0).map_err(refused)?;
        let stripe = context.append_alignment().map_err(refused)?;
        let block = self.range_bytes.unwrap_or(largest);
        // The last block of an object may have any length, because nothing follows it.
        if stripe == 0 || block >= largest || block.is_multiple_of(stripe) {
            return Ok(());
        }
        let action = format!("append blocks of {block} bytes to pool \"{pool}\"");
        let reason = format!("it takes multiples of {stripe} bytes, its stripes' width");
        Err(Error::target(action, reason).of(Kind::Unsupported).with_hint(format!(
            "set \"range\" to a multiple of {stripe}, or allow_ec_overwrites for the pool"
        )))
    }
}

/// Returns the maximum number of bytes that one request of a trial writes, and reads.
fn bytes_moved(trial: &Trial) -> (usize, usize) {
    let largest = trial.dataset.size.max();
    let block = trial.options.range_bytes.map_or(largest, |bytes| bytes.min(largest));
    let of = |operation| match operation {
        Operation::Put | Operation::PutIfAbsent => (largest, 0),
        Operation::Write | Operation::Append => (block, 0),
        Operation::Get => (0, largest),
        Operation::Read | Operation::RangeGet => (0, block),
        _ => (0, 0),
    };
    let moved = trial.mix.iter().map(|share| of(share.operation));
    let (written, read) =
        moved.fold((0, 0), |most, request| (most.0.max(request.0), most.1.max(request.1)));
    let in_memory = |bytes| usize::try_from(bytes).expect("checked against the limit");
    (in_memory(written), in_memory(read))
}

/// State that the clients of one load thread share.
pub(super) struct RadosThread {
    reactor: Rc<Reactor>,
    inbox: Arc<Inbox>,
    content: Content,
}

impl Thread for RadosThread {
    fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }
}

/// The content of a write while it is passed to librados. All clients of a thread share it:
/// librados copies it at once, so a single buffer stays in the processor's cache, unlike one buffer
/// for each client.
type Content = Rc<RefCell<Draft>>;

/// A buffer and the payload in it.
#[derive(Debug, Default)]
struct Draft {
    bytes: Vec<u8>,
    held: Held,
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
        Operation::Append,
        Operation::PutIfAbsent,
    ];
    const SETTINGS: &'static [Setting] = settings::SETTINGS;
    const FACTS: Facts = facts::FACTS;
    type Thread = RadosThread;
    type Client = RadosClient;

    fn check(trial: &Trial) -> Vec<String> {
        settings::check(trial)
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        limits::raise_descriptors();
        let access = Access::of(&trial.target.settings);
        let clients = trial.load.clients().max(CLIENTS_MIN);
        let on_each = u64::from(clients).div_ceil(access.instances as u64);
        // Twice the requirement: an abandoned request may still count for a moment.
        let bytes = on_each.saturating_mul(trial.dataset.size.max().max(4096)).saturating_mul(2);
        let in_flight = InFlight { requests: 2 * on_each, bytes };
        let (bytes_written, bytes_read) = bytes_moved(trial);
        memory::keep_freed(bytes_written.max(bytes_read));
        let buckets = usize::try_from(trial.dataset.buckets).expect("buckets fit in memory");
        let open = |_| {
            let connection = Arc::new(Connection::open(&access, in_flight)?);
            let contexts = std::iter::repeat_with(OnceLock::new).take(buckets).collect();
            Ok(Instance { contexts, connection })
        };
        let instances: Vec<_> = (0..access.instances).map(open).collect::<Result<_, Error>>()?;
        let dataset = Dataset::new(trial);
        let rados = Self {
            access,
            instances,
            foreign: trial.allow_foreign.then(|| ForeignPlaces::new(&dataset)),
            dataset,
            title: Arc::new(Title::of(trial, |key| key)),
            payload: PayloadSpec::of_trial(trial),
            range_bytes: trial.options.range_bytes,
            page_keys: trial.options.page_keys,
            timeout_ns: trial.timeout_ns,
            clients,
            bytes_written,
            bytes_read,
            is_abandoned: AtomicBool::new(false),
        };
        let is_unknown =
            |index| rados.dataset.listed(index).is_some_and(|it| it.size_bytes.is_none());
        if rados.dataset.is_listed() && (0..trial.dataset.objects).any(is_unknown) {
            return Err(Error::Trial(vec![
                "dataset.existing: found objects without sizes in the list, allowed: sizes of all, \
                 as a listing of the namespace has them"
                    .to_owned(),
            ]));
        }
        if trial.mix.iter().any(|share| share.operation == Operation::Append) {
            rados.check_appends(trial.dataset.size.max())?;
        }
        Ok(rados)
    }

    fn thread(self: &Arc<Self>) -> Result<RadosThread, Error> {
        let inbox = Inbox::new(self.clients as usize);
        memory::reserve(self.clients as usize, self.bytes_written);
        let content = Draft { bytes: huge::zeroed(self.bytes_written), held: Held::default() };
        let content = Rc::new(RefCell::new(content));
        Ok(RadosThread { reactor: inbox.reactor(), inbox, content })
    }

    fn client(self: &Arc<Self>, thread: &RadosThread, index: u32) -> Result<RadosClient, Error> {
        Ok(RadosClient::new(self, thread, index))
    }
}
