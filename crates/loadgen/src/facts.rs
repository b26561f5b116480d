//! What is true of a driver, said once, beside the driver. Planning, checks, calibration and the
//! reference read it from here, so that no other place knows a driver by its name.

use serde::Serialize;

use crate::operation::Operation;

mod environment;
mod words;

pub use environment::{Filling, Variable};
pub use words::{Form, Word};

/// What is true of a driver beside its operations and settings.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Facts {
    /// What holds objects is called: a bucket, a container, a namespace.
    pub place: &'static str,
    /// Which settings say where the target is.
    pub address: Address,
    /// Whether each client has a connection of its own to the target.
    pub connects: bool,
    /// The protocol whose questions a card asks; empty where there are none.
    pub protocol: &'static str,
    /// Whether objects stay when they are written. Of a target that keeps nothing, whatever is asked
    /// for is there, nothing has to be prepared, and nothing stays.
    pub keeps: bool,
    /// Whether its objects have keys, whose paths clients can encrypt.
    pub encrypts_paths: bool,
    /// Whether it can list and read objects that others wrote.
    pub reads_existing: bool,
    /// Whether its place is a pool of a Ceph cluster, of which Ceph's own programs can be asked.
    pub is_ceph_pool: bool,
    /// What one word for a target may look like, for people.
    pub words: &'static [&'static str],
    /// How such a word is read.
    #[serde(skip)]
    pub forms: &'static [Form],
    /// The variables of the environment that fill settings, in groups that go together.
    pub environment: &'static [&'static [Variable]],
    /// Fills from them what a target does not say.
    #[serde(skip)]
    pub fill: fn(&mut Filling<'_>),
    /// What the names of buckets may look like.
    pub bucket_names: BucketNames,
    /// What one request or object may be.
    pub limits: Limits,
    /// Which answers ask for fewer requests.
    pub throttling: Throttling,
    /// How the driver is calibrated, if it can be.
    pub calibration: Option<Calibration>,
}

impl Facts {
    /// A driver of which nothing special is true; each says what it has beside that.
    pub const PLAIN: Self = Self {
        place: "bucket",
        address: Address { kind: AddressKind::None, settings: &[] },
        connects: false,
        protocol: "",
        keeps: true,
        encrypts_paths: false,
        reads_existing: false,
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

/// The settings that say where a target is, the most telling first.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Address {
    /// What stands in them.
    pub kind: AddressKind,
    /// Their names. Two targets are at different places only if they differ in one that both have.
    pub settings: &'static [&'static str],
}

/// What kind of place an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressKind {
    /// There is no place.
    None,
    /// URLs of servers.
    Urls,
    /// A path on this host.
    Path,
    /// A name that only the target's own configuration resolves.
    Name,
}

/// What the name of a bucket may look like. It begins with a letter or digit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct BucketNames {
    /// The fewest characters.
    pub length_min: usize,
    /// The most characters.
    pub length_max: usize,
    /// Whether letters may be capitals, and underscores may stand between them.
    pub capitals_and_underscores: bool,
}

impl BucketNames {
    /// As long as the strictest store allows, so that a campaign can change its target.
    pub const ANY: Self = Self { length_min: 1, length_max: 63, capitals_and_underscores: true };
}

/// What the target's protocol allows; `None` where it sets no limit that matters.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Limits {
    /// The largest object that one request writes; larger ones are written in parts.
    pub put_bytes_max: Option<u64>,
    /// The largest object at all.
    pub object_bytes_max: Option<u64>,
    /// The smallest part of an object, but for the last.
    pub part_bytes_min: Option<u64>,
    /// The most parts of an object.
    pub parts_max: Option<u64>,
    /// The most objects that one `bulk_delete` names.
    pub bulk_keys_max: Option<u32>,
    /// The longest key of an object, in bytes.
    pub key_bytes_max: Option<usize>,
    /// The longest name between two slashes of a key, in bytes.
    pub name_bytes_max: Option<usize>,
}

impl Limits {
    /// No limit.
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

/// The answers that ask for fewer requests.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Throttling {
    /// Those that say so by their status.
    pub statuses: &'static [u16],
    /// Codes of errors that say so whatever their status.
    pub codes: &'static [&'static str],
}

/// How the load generator's own limit with a driver is measured.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Calibration {
    /// What stands for the target.
    pub stand_in: StandIn,
    /// The settings that lead there; `{address}` stands for its host and port.
    pub settings: &'static [(&'static str, &'static str)],
    /// The operations that a calibration tries by default.
    pub usual: &'static [Operation],
    /// All that can be tried.
    pub can: &'static [Operation],
    /// The settings that decide what a request costs the client.
    pub costs: &'static [&'static str],
}

/// What stands for a target that does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StandIn {
    /// The driver itself, which does nothing.
    Itself,
    /// A server that stores nothing, on this host.
    Server,
    /// A directory in memory, which keeps each object.
    ObjectsInMemory,
    /// One file in memory, which keeps a few large objects.
    BlocksInMemory,
}
