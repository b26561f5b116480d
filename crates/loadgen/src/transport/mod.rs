//! Building blocks of drivers: sockets, HTTP exchanges, rings, disks, and completions from foreign
//! threads.

pub(crate) mod connection;
pub(crate) mod disk;
pub(crate) mod endpoint;
pub(crate) mod exchange;
pub(crate) mod failure;
mod http_client;
pub(crate) mod http_store;
pub(crate) mod http_target;
pub(crate) mod huge;
pub(crate) mod identity;
pub(crate) mod inbox;
pub(crate) mod limits;
pub(crate) mod options;
pub(crate) mod page_cache;
pub(crate) mod parts;
pub(crate) mod raw;
pub(crate) mod reading;
pub(crate) mod retries;
pub(crate) mod ring;
pub(crate) mod socket;
pub(crate) mod stored;
pub(crate) mod tls;
pub(crate) mod transfer;
