//! Facts about a driver, stated once, in the driver. Planning, checks, calibration and the
//! reference read them from here, so that no other code names a driver.

use serde::Serialize;

use crate::operation::Operation;

mod environment;
mod words;

pub use environment::{Filling, Variable};
pub use words::{Form, Word};

/// Facts about a driver other than its operations and settings.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Facts {
    /// What the driver calls a place: a bucket, a container, a namespace.
    pub place: &'static str,
    /// The settings that locate the target.
    pub address: Address,
    /// Whether each client has its own connection to the target.
    pub connects: bool,
    /// The protocol that a card asks about; empty if there is none.
    pub protocol: &'static str,
    /// Whether the target keeps objects. On a target that keeps nothing, every requested object
    /// exists, nothing has to be prepared, and nothing remains.
    pub keeps: bool,
    /// Whether objects have keys, whose paths clients can encrypt.
    pub encrypts_paths: bool,
    /// Whether the driver can list and read objects that others wrote.
    pub reads_existing: bool,
    /// Whether a put replaces an object's metadata, and a copy includes it.
    pub metadata_follows: bool,
    /// Operations that may leave a part of what they write if they fail.
    pub tears: &'static [Operation],
    /// Whether a place is a pool of a Ceph cluster, which Ceph's own programs can query.
    pub is_ceph_pool: bool,
    /// Examples of the word that names a target on the command line, for users.
    pub words: &'static [&'static str],
    /// How such a word is parsed.
    #[serde(skip)]
    pub forms: &'static [Form],
    /// Environment variables that fill settings, in groups that belong together.
    pub environment: &'static [&'static [Variable]],
    /// Fills settings that a target does not give from those variables.
    #[serde(skip)]
    pub fill: fn(&mut Filling<'_>),
    /// Rules for names of buckets.
    pub bucket_names: BucketNames,
    /// Limits of requests and objects.
    pub limits: Limits,
    /// Answers that mean throttling.
    pub throttling: Throttling,
    /// How to calibrate the driver, if that is possible.
    pub calibration: Option<Calibration>,
}

impl Facts {
    /// The defaults; each driver states what differs.
    pub const PLAIN: Self = Self {
        place: "bucket",
        address: Address { kind: AddressKind::None, settings: &[] },
        connects: false,
        protocol: "",
        keeps: true,
        encrypts_paths: false,
        reads_existing: false,
        metadata_follows: false,
        tears: &[],
        is_ceph_pool: false,
        words: &[],
        forms: &[],
        environment: &[],
        fill: |_| {},
        bucket_names: BucketNames::ANY,
        limits: Limits::NONE,
        throttling: Throttling { statuses: &[], codes: &[] },
        calibration: None,
    };
}

/// The settings that locate a target, the most specific first.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Address {
    /// Kind of address.
    pub kind: AddressKind,
    /// Names of the settings. Two targets have different addresses only if a setting that both give
    /// differs.
    pub settings: &'static [&'static str],
}

/// Kind of address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressKind {
    /// No address.
    None,
    /// URLs of servers.
    Urls,
    /// A path on this host.
    Path,
    /// A name that only the target's own configuration resolves.
    Name,
}

/// Rules for names of buckets. A name begins with a letter or digit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct BucketNames {
    /// Minimum length in characters.
    pub length_min: usize,
    /// Maximum length in characters.
    pub length_max: usize,
    /// Whether capital letters are allowed, and underscores inside the name.
    pub capitals_and_underscores: bool,
}

impl BucketNames {
    /// The length limit of the strictest store, so that a campaign can change its target.
    pub const ANY: Self = Self { length_min: 1, length_max: 63, capitals_and_underscores: true };
}

/// Limits of the target's protocol; `None` where there is none that matters.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Limits {
    /// Largest object in one request, in bytes; larger objects are written in parts.
    pub put_bytes_max: Option<u64>,
    /// Largest object, in bytes.
    pub object_bytes_max: Option<u64>,
    /// Smallest part of an object except the last, in bytes.
    pub part_bytes_min: Option<u64>,
    /// Maximum number of parts of an object.
    pub parts_max: Option<u64>,
    /// Maximum number of objects in one `bulk_delete`.
    pub bulk_keys_max: Option<u32>,
    /// Longest key of an object, in bytes.
    pub key_bytes_max: Option<usize>,
    /// Longest path segment of a key, in bytes.
    pub name_bytes_max: Option<usize>,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        put_bytes_max: None,
        object_bytes_max: None,
        part_bytes_min: None,
        parts_max: None,
        bulk_keys_max: None,
        key_bytes_max: None,
        name_bytes_max: None,
    };
}

/// Answers that mean throttling.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Throttling {
    /// HTTP statuses that mean throttling.
    pub statuses: &'static [u16],
    /// Error codes that mean throttling, with any status.
    pub codes: &'static [&'static str],
}

/// How to measure the load generator's own ceiling with a driver.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Calibration {
    /// The stand-in for the target.
    pub stand_in: StandIn,
    /// Settings that lead to the stand-in; `{address}` is replaced by its host and port.
    pub settings: &'static [(&'static str, &'static str)],
    /// Operations that a calibration tries by default.
    pub usual: &'static [Operation],
    /// Operations that a calibration can try.
    pub can: &'static [Operation],
    /// Settings that affect the client's cost per request.
    pub costs: &'static [&'static str],
}

/// The stand-in for a target that does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StandIn {
    /// The driver itself, which does nothing.
    Itself,
    /// A server on this host that stores nothing.
    Server,
    /// A directory in memory, which keeps each object.
    ObjectsInMemory,
    /// One file in memory, which keeps a few large objects.
    BlocksInMemory,
}
