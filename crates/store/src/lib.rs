//! The embedded object store: S3 and Swift over one account, in memory or in a directory.
//!
//! It is the target of the demo and of tests: small, quick to start, honest about being full,
//! and able to misbehave on request ([`FaultConfig`]) so that what measures stores can itself be
//! tested. A bucket of S3 is a container of Swift; what is written by one API is read by the
//! other. [`NullServer`] beside it stores nothing at all and answers as fast as the system lets
//! it: the ceiling against which a load generator measures itself.
//!
//! It is no storage system: one process, no replication, no TLS.

mod account;
mod budget;
mod chance;
mod clock;
mod config;
mod directory;
mod disk;
mod error;
mod exchange;
mod faults;
mod hex;
mod null;
mod s3;
mod server;
mod stored;
mod swift;

pub use config::{Secret, StoreConfig};
pub use error::StoreError;
pub use faults::{ErrorRate, FaultConfig, Latency, Lie, LieConfig, LieKind, RequestClass, Stall};
pub use null::{NullConfig, NullCounters, NullServer};
pub use server::{Store, StoreCounters};
