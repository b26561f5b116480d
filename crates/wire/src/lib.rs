//! The protocols of loadstone without any input or output: functions from bytes to bytes.
//!
//! Nothing here opens a socket, reads a clock or a file, or starts a thread, so every part can be
//! tested with any bytes, split at any position.

pub mod credentials;
pub mod date;
pub mod digest;
pub mod encode;
pub mod http1;
pub mod json;
pub mod ranges;
pub mod sigv4;
pub mod xml;
