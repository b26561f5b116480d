//! The drivers: one file for each way of reaching a kind of target, and the table of them.

use std::future::Future;
use std::rc::Rc;

use crate::error::Error;
use crate::operation::Operation;
use crate::outcome::Answer;
use crate::ownership::{Standing, Swept};
use crate::reactor::Reactor;
use crate::requests::Request;
use crate::run::{Control, OutputSink, Summary};
use crate::trial::Trial;

pub mod block;
pub mod file;
pub mod null;
pub mod rados;
pub mod s3;
pub mod simulated;
pub mod swift;

mod connection;
pub(crate) mod disk;
mod encryption;
mod endpoint;
mod exchange;
mod failure;
mod huge;
mod limits;
mod reading;
mod settings;
mod socket;
mod thread;
mod tls;
mod transfer;

pub(crate) use encryption::mistakes as encryption_mistakes;

/// What reaches one kind of target. One value serves a whole trial and is shared by its threads;
/// each client in it has a [`Client`] of its own.
pub trait Driver: Send + Sync + Sized + 'static {
    /// The name in campaigns.
    const NAME: &'static str;
    /// One line for people.
    const SUMMARY: &'static str;
    /// What it can do. The conformance suite tries each of them.
    const OPERATIONS: &'static [Operation];
    /// Its own keys of a target.
    const SETTINGS: &'static [Setting];
    /// Whether its clients can encrypt objects.
    const ENCRYPTS: bool = false;
    /// Whether its time is not the host's: what the host does to a sleeper then says nothing.
    const ON_VIRTUAL_CLOCK: bool = false;
    /// One client.
    type Client: Client;

    /// Returns the mistakes in the trial that only this driver sees: settings, connection limits.
    fn check(trial: &Trial) -> Vec<String>;

    /// Readies what all clients share: resolves names and secrets, logs in. It may block.
    ///
    /// # Errors
    /// The target or the credentials are not as they should be.
    fn open(trial: &Trial) -> Result<Self, Error>;

    /// Tells whether a request blocks its thread. If so, each client gets a thread of its own.
    fn is_blocking(&self) -> bool {
        false
    }

    /// Makes the reactor of one load thread: it decides what that thread waits at.
    ///
    /// # Errors
    /// The kernel gave no descriptor.
    fn reactor(&self) -> Result<Rc<Reactor>, Error>;

    /// Makes client number `index` (over all threads), which lives on the reactor's thread.
    ///
    /// # Errors
    /// The kernel gave no descriptor or memory.
    fn client(
        self: &std::sync::Arc<Self>,
        reactor: &Rc<Reactor>,
        index: u32,
    ) -> Result<Self::Client, Error>;

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

/// What was found, or done, when a bucket was readied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketState {
    /// It was not there; we made and marked it.
    Created,
    /// It was there and carries our mark.
    Ours,
    /// It was there without our mark, and the campaign allows it.
    Foreign,
}

/// One client of a driver: it has at most one request in flight.
#[expect(async_fn_in_trait, reason = "clients never leave their thread")]
pub trait Client: 'static {
    /// Does one request. What the target does wrong is in the answer's outcome.
    fn execute(&mut self, request: &Request) -> impl Future<Output = Answer>;

    /// Looks how a bucket stands to the trial before any is made, so that those that are not there
    /// can be told of first.
    ///
    /// # Errors
    /// The bucket may not be written to.
    async fn look_at_bucket(&mut self, _bucket: &str) -> Result<Standing, Error> {
        Ok(Standing::Unseen)
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
pub struct Traffic {
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

/// One key of a driver's settings.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The key.
    pub name: &'static str,
    /// What may stand there.
    pub kind: SettingKind,
    /// Whether it must be there.
    pub required: bool,
    /// What is taken when it is absent, as text.
    pub default: Option<&'static str>,
    /// One line for people.
    pub help: &'static str,
}

/// What may stand at a setting's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingKind {
    /// A text.
    Text,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A text, or a reference to one in the environment or a file.
    TextOrReference,
    /// A reference to a secret in the environment or a file, never the secret.
    Secret,
    /// Yes or no.
    Flag,
    /// A number.
    Number,
    /// One text or several.
    Texts,
    /// Names and values.
    Map,
}

impl SettingKind {
    /// Returns the kind's name for other programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Choice(_) => "choice",
            Self::TextOrReference => "text_or_reference",
            Self::Secret => "secret",
            Self::Flag => "flag",
            Self::Number => "number",
            Self::Texts => "texts",
            Self::Map => "map",
        }
    }
}

/// A row of the table: what the rest of the program needs of a driver, already monomorphised.
#[derive(Clone, Copy)]
pub struct DriverInfo {
    /// The name in campaigns.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// What it can do.
    pub operations: &'static [Operation],
    /// Its own keys of a target.
    pub settings: &'static [Setting],
    /// Whether its clients can encrypt objects.
    pub encrypts: bool,
    /// Whether only tests use it.
    pub is_for_tests: bool,
    /// Returns the mistakes that only the driver sees.
    pub check: fn(&Trial) -> Vec<String>,
    /// Runs a trial.
    pub run: RunTrial,
}

/// How a trial is run, once its driver is known.
pub type RunTrial = fn(&Trial, &Control, &mut OutputSink<'_>) -> Result<Summary, Error>;

/// Every driver. To add one, write its file and add its line.
pub const DRIVERS: &[DriverInfo] = &[
    DriverInfo::of::<rados::Rados>(),
    DriverInfo::of::<s3::S3>(),
    DriverInfo::of::<swift::Swift>(),
    DriverInfo::of::<file::FileTree>(),
    DriverInfo::of::<block::Block>(),
    DriverInfo::of::<null::Null>(),
    DriverInfo::of::<simulated::Simulated>().for_tests(),
];

impl DriverInfo {
    const fn of<D: Driver>() -> Self {
        Self {
            name: D::NAME,
            summary: D::SUMMARY,
            operations: D::OPERATIONS,
            settings: D::SETTINGS,
            encrypts: D::ENCRYPTS,
            is_for_tests: false,
            check: D::check,
            run: crate::run::run::<D>,
        }
    }

    const fn for_tests(mut self) -> Self {
        self.is_for_tests = true;
        self
    }

    /// Returns the row of a driver.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        DRIVERS.iter().find(|info| info.name == name)
    }

    /// Returns the names of all drivers.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        DRIVERS.iter().filter(|info| !info.is_for_tests).map(|info| info.name).collect()
    }

    /// Tells whether the driver can do an operation.
    #[must_use]
    pub fn can(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }

    /// Returns the names of what the driver can do.
    #[must_use]
    pub fn operation_names(&self) -> Vec<&'static str> {
        self.operations.iter().map(|operation| operation.name()).collect()
    }
}
