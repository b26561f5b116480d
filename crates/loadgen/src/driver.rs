//! What a driver is: the seam between the load and a kind of target.

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

/// Why a driver refuses to send a raw HTTP request.
const NO_HTTP: &str = "this driver does not speak HTTP";

/// What reaches one kind of target. One value serves a whole trial and is shared by its load threads.
/// Each load thread has a [`Thread`] and makes its clients with it; each [`Client`] is one of those
/// that the load asks for.
pub(crate) trait Driver: Send + Sync + Sized + 'static {
    /// The name in campaigns.
    const NAME: &'static str;
    /// One line for people.
    const SUMMARY: &'static str;
    /// What it can do. The conformance suite tries each of them.
    const OPERATIONS: &'static [Operation];
    /// Its own keys of a target.
    const SETTINGS: &'static [Setting];
    /// What else is true of it.
    const FACTS: Facts = Facts::PLAIN;
    /// Whether its clients can encrypt objects.
    const ENCRYPTS: bool = false;
    /// Whether its time is not the host's: what the host does to a sleeper then says nothing.
    const ON_VIRTUAL_CLOCK: bool = false;
    /// What one load thread has.
    type Thread: Thread;
    /// One client.
    type Client: Client;

    /// Returns the mistakes in the trial that only this driver sees: settings, connection limits.
    fn check(trial: &Trial) -> Vec<String>;

    /// Returns what a target lacks on this host beside its settings, such as keys, without a
    /// connection.
    fn absent(_settings: &Map<String, Value>) -> Option<Error> {
        None
    }

    /// Readies what all clients share: resolves names and secrets, logs in. It may block.
    ///
    /// # Errors
    /// The target or the credentials are not as they should be.
    fn open(trial: &Trial) -> Result<Self, Error>;

    /// Tells whether a request blocks its thread. If so, each client gets a thread of its own.
    fn is_blocking(&self) -> bool {
        false
    }

    /// Returns what the trial's places lie on, a device or a file system, where the same name may
    /// lead to another one later.
    fn volume(&self) -> Option<&str> {
        None
    }

    /// Looks how much of the dataset is in this host's page cache; `None` where that cannot be seen,
    /// or where requests pass it by.
    fn look_at_page_cache(&self) -> Option<Cached> {
        None
    }

    /// Makes what one load thread has, on that thread. Its reactor decides what the thread waits at.
    ///
    /// # Errors
    /// The kernel gave no descriptor.
    fn thread(self: &Arc<Self>) -> Result<Self::Thread, Error>;

    /// Makes client number `index` (over all load threads) for the thread that calls.
    ///
    /// # Errors
    /// The kernel gave no descriptor or memory.
    fn client(self: &Arc<Self>, thread: &Self::Thread, index: u32) -> Result<Self::Client, Error>;

    /// Returns the log-ins that followed the first, with which the driver opened.
    fn log_ins(&self) -> LogIns {
        LogIns::default()
    }

    /// Returns what the host did not let the driver use, as name and reason, and how the driver did
    /// its work where it has several ways, for the record.
    fn features(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// What one load thread has: its reactor, and what its clients share without a lock.
pub(crate) trait Thread: 'static {
    /// Returns what the thread runs on.
    fn reactor(&self) -> &Rc<Reactor>;
}

/// A load thread whose clients share nothing but its reactor.
impl Thread for Rc<Reactor> {
    fn reactor(&self) -> &Rc<Reactor> {
        self
    }
}

/// One client of a driver: it has at most one request in flight, though perhaps several parts of it.
pub(crate) trait Client: 'static {
    /// Does one request. What the target does wrong is in the completion's outcome.
    fn execute(&mut self, request: &Request) -> impl Future<Output = Completion>;

    /// Looks how a bucket stands to the trial before any is made, so that those that are not there
    /// can be told of first.
    ///
    /// # Errors
    /// The bucket may not be written to.
    async fn look_at_bucket(&mut self, _bucket: &str) -> Result<Standing, Error> {
        Ok(Standing::Unseen)
    }

    /// Tells whether a bucket that the load is to make is not there. Changes nothing: unlike
    /// [`Client::look_at_bucket`] it claims no foreign one.
    ///
    /// # Errors
    /// The target did not answer as it must.
    async fn is_bucket_absent(&mut self, _bucket: &str) -> Result<bool, Error> {
        Ok(false)
    }

    /// Makes sure that a bucket is there and may be written to, and marks it if it made it.
    ///
    /// # Errors
    /// The bucket is foreign (not marked) and `allow_foreign` is not set, or cannot be made.
    async fn ready_bucket(
        &mut self,
        bucket: &str,
        allow_foreign: bool,
    ) -> Result<BucketState, Error>;

    /// Deletes what the run may have written in a bucket, then the mark and the bucket, if the
    /// bucket carries our mark and nothing else is in it.
    ///
    /// # Errors
    /// The bucket cannot be listed.
    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error>;

    /// Sends one HTTP request unchanged, outside of any load; a failure is part of the answer.
    ///
    /// # Errors
    /// The request cannot be sent, or the driver does not speak HTTP.
    async fn ask_raw(&mut self, _request: &RawRequest) -> Result<RawAnswer, String> {
        Err(NO_HTTP.to_owned())
    }

    /// Returns the head of such a request, which others send.
    ///
    /// # Errors
    /// As `ask_raw`.
    fn raw_head(&mut self, _request: &RawRequest) -> Result<Vec<u8>, String> {
        Err(NO_HTTP.to_owned())
    }

    /// Lists the objects of a place whose keys begin with a prefix, until the lister has enough. It
    /// changes nothing.
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

    /// Returns how the parts of the last request went, if it went in parts.
    fn parts(&self) -> &[PartEnd] {
        &[]
    }

    /// Returns the version that the last request read, or that its condition was on, where a driver keeps histories.
    fn version(&self) -> u64 {
        0
    }

    /// Returns which objects the last page of a listing covered, where a driver keeps histories.
    fn listed(&self) -> &[Listing] {
        &[]
    }

    /// Returns connections opened, bytes sent, bytes received and requests repeated so far.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    /// Returns the first text of the last failure, for the record; never a secret.
    fn last_error(&mut self) -> Option<String> {
        None
    }
}

/// Log-ins while load was on.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogIns {
    /// How many, also those that failed.
    #[serde(rename = "log_ins")]
    pub count: u64,
    /// How long they took.
    #[serde(rename = "log_ins_ns")]
    pub took_ns: u64,
}

/// What a client moved, beside payload.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    /// Connections that it opened.
    pub connections_opened: u64,
    /// Bytes written to them.
    pub bytes_sent: u64,
    /// Bytes read from them.
    pub bytes_received: u64,
    /// Requests sent again because a kept connection had gone stale.
    pub requests_repeated: u64,
}

impl Traffic {
    /// Adds what another client moved.
    pub(crate) fn add(&mut self, other: Self) {
        self.connections_opened += other.connections_opened;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.requests_repeated += other.requests_repeated;
    }
}
