//! The data of a store: bytes in pages or files, objects in versions, buckets with their indexes,
//! and multipart uploads.

pub(crate) mod body;
pub(crate) mod bucket;
pub(crate) mod index;
pub(crate) mod listing;
pub(crate) mod object;
pub(crate) mod upload;
