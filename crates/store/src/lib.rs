//! The embedded object store: S3 and Swift over one account, in memory or in a directory.
//!
//! It is the target of the demo and of tests: small, quick to start, with clear errors when it is
//! full, and with faults on request ([`FaultConfig`]), so that programs that measure stores can
//! themselves be tested. A bucket of S3 is a container of Swift; objects written by one API can be
//! read by the other. [`NullServer`] stores nothing and answers as fast as the system allows: a
//! load generator measures its own ceiling against it.
//!
//! It is not a storage system: one process, no replication, no TLS.

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
