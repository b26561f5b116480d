//! The driver interface: everything that the load needs from a kind of target.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use loadstone_history::Listing;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::facts::Facts;
use crate::object_list::Lister;
use crate::operation::Operation;
use crate::outcome::{Completion, PartEnd};
use crate::ownership::{BucketState, Standing, Swept};
use crate::reactor::Reactor;
use crate::requests::Request;
use crate::settings::Setting;
use crate::transport::page_cache::Cached;
use crate::transport::raw::{RawAnswer, RawRequest};
use crate::trial::Trial;

/// Why a driver rejects a raw HTTP request.
const NO_HTTP: &str = "this driver does not speak HTTP";

/// The connection to one kind of target. One value serves a whole trial and is shared by its load
/// threads. Each load thread has a [`Thread`] and creates its clients with it; each [`Client`] is
/// one client of the load.
pub(crate) trait Driver: Send + Sync + Sized + 'static {
    /// Name in campaigns.
    const NAME: &'static str;
    /// One line for users.
    const SUMMARY: &'static str;
    /// Supported operations. The conformance suite tries each of them.
    const OPERATIONS: &'static [Operation];
    /// The driver's own keys of a target.
    const SETTINGS: &'static [Setting];
    /// Other facts about the driver.
    const FACTS: Facts = Facts::PLAIN;
    /// Whether its clients can encrypt objects.
    const ENCRYPTS: bool = false;
    /// Whether its time is virtual. The jitter of the host then has no meaning.
    const ON_VIRTUAL_CLOCK: bool = false;
    /// State of one load thread.
    type Thread: Thread;
    /// One client.
    type Client: Client;

    /// Returns the mistakes in the trial that only this driver can find: settings, connection
    /// limits.
    fn check(trial: &Trial) -> Vec<String>;

    /// Returns what a target lacks on this host beside its settings, such as keys. Opens no
    /// connection.
    fn absent(_settings: &Map<String, Value>) -> Option<Error> {
        None
    }

    /// Prepares the state that all clients share: resolves names and secrets, logs in. It may
    /// block.
    ///
    /// # Errors
    /// The target is not in the required state, or the credentials are invalid.
    fn open(trial: &Trial) -> Result<Self, Error>;

    /// Returns whether a request blocks its thread. If so, each client gets its own thread.
    fn is_blocking(&self) -> bool {
        false
    }

    /// Returns the device or file system that holds the trial's places. Later, the same names may
    /// lead to another one.
    fn volume(&self) -> Option<&str> {
        None
    }

    /// Samples how much of the dataset is in this host's page cache; `None` if that cannot be
    /// observed, or if requests bypass the cache.
    fn look_at_page_cache(&self) -> Option<Cached> {
        None
    }

    /// Creates the state of one load thread, on that thread. Its reactor determines what the thread
    /// waits for.
    ///
    /// # Errors
    /// The kernel gave no descriptor.
    fn thread(self: &Arc<Self>) -> Result<Self::Thread, Error>;

    /// Creates client number `index` (over all load threads) for the calling thread.
    ///
    /// # Errors
    /// The kernel gave no descriptor or memory.
    fn client(self: &Arc<Self>, thread: &Self::Thread, index: u32) -> Result<Self::Client, Error>;

    /// Returns the log-ins after the first, which opened the driver.
    fn log_ins(&self) -> LogIns {
        LogIns::default()
    }

    /// Returns features for the record, as name and value: those that the host refused, with the
    /// reason, and the method used where the driver has several.
    fn features(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// State of one load thread: its reactor, and what its clients share without a lock.
pub(crate) trait Thread: 'static {
    /// Returns the reactor of the thread.
    fn reactor(&self) -> &Rc<Reactor>;
}

/// A load thread whose clients share nothing but its reactor.
impl Thread for Rc<Reactor> {
    fn reactor(&self) -> &Rc<Reactor> {
        self
    }
}

/// One client of a driver. It has at most one request in flight, but possibly several parts of it.
pub(crate) trait Client: 'static {
    /// Executes one request. A failure of the target is in the completion's outcome.
    fn execute(&mut self, request: &Request) -> impl Future<Output = Completion>;

    /// Inspects a bucket before any is created, so that absent ones can be reported first.
    ///
    /// # Errors
    /// The trial may not write to the bucket.
    async fn look_at_bucket(&mut self, _bucket: &str) -> Result<Standing, Error> {
        Ok(Standing::Unseen)
    }

    /// Returns whether a bucket that the load will create is absent. Changes nothing: unlike
    /// [`Client::look_at_bucket`], it does not claim a foreign bucket.
    ///
    /// # Errors
    /// The target did not answer as expected.
    async fn is_bucket_absent(&mut self, _bucket: &str) -> Result<bool, Error> {
        Ok(false)
    }

    /// Makes sure that a bucket exists and may be written to. Creates and marks it if it is absent.
    ///
    /// # Errors
    /// The bucket is foreign (not marked) and `allow_foreign` is not set, or it cannot be created.
    async fn ready_bucket(
        &mut self,
        bucket: &str,
        allow_foreign: bool,
    ) -> Result<BucketState, Error>;

    /// Deletes the objects that the run may have written to a bucket. If the bucket carries our
    /// mark and is otherwise empty, also deletes the mark and the bucket.
    ///
    /// # Errors
    /// The bucket cannot be listed.
    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error>;

    /// Sends one HTTP request unchanged, outside of any load. A failure is part of the answer.
    ///
    /// # Errors
    /// The request cannot be sent, or the driver does not use HTTP.
    async fn ask_raw(&mut self, _request: &RawRequest) -> Result<RawAnswer, String> {
        Err(NO_HTTP.to_owned())
    }

    /// Returns the head of such a request, for callers that send it themselves.
    ///
    /// # Errors
    /// As `ask_raw`.
    fn raw_head(&mut self, _request: &RawRequest) -> Result<Vec<u8>, String> {
        Err(NO_HTTP.to_owned())
    }

    /// Lists the objects of a place whose keys begin with a prefix, until the lister has enough.
    /// Changes nothing.
    ///
    /// # Errors
    /// The place cannot be listed.
    async fn list_objects(
        &mut self,
        _place: &str,
        _prefix: &str,
        _lister: &mut Lister,
    ) -> Result<(), Error> {
        unreachable!("planning refuses drivers without `reads_existing`")
    }

    /// Returns the results of the parts of the last request, if it had parts.
    fn parts(&self) -> &[PartEnd] {
        &[]
    }

    /// Returns the version that the last request read or had in its condition, if the driver
    /// supports histories.
    fn version(&self) -> u64 {
        0
    }

    /// Returns whether the last request was sent twice, so that the first one may still be executed.
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// Returns the objects covered by the last page of a listing, if the driver supports histories.
    fn listed(&self) -> &[Listing] {
        &[]
    }

    /// Returns the connections opened, bytes sent and received, and requests repeated so far.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Returns the message of the last failure, for the record; it never contains a secret.
    fn last_error(&mut self) -> Option<String> {
        None
    }
}

/// Log-ins during the load.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogIns {
    /// Number of log-ins, including failed ones.
    #[serde(rename = "log_ins")]
    pub count: u64,
    /// Total time of the log-ins, in nanoseconds.
    #[serde(rename = "log_ins_ns")]
    pub took_ns: u64,
}

/// Traffic of a client.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    /// Connections opened.
    pub connections_opened: u64,
    /// Bytes written to connections.
    pub bytes_sent: u64,
    /// Bytes read from connections.
    pub bytes_received: u64,
    /// Requests sent again because a kept connection had been closed.
    pub requests_repeated: u64,
}

impl Traffic {
    /// Adds the traffic of another client.
    pub(crate) fn add(&mut self, other: Self) {
        self.connections_opened += other.connections_opened;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.requests_repeated += other.requests_repeated;
    }
}
