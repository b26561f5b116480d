//! The protocols that loadstone speaks, without any input or output: bytes in, bytes out.
//!
//! Nothing here opens a socket, reads a clock or a file, or starts a thread. That is why every
//! part can be tested with any bytes, split anywhere.

pub mod credentials;
pub mod date;
pub mod digest;
pub mod encode;
pub mod http1;
pub mod json;
pub mod ranges;
pub mod sigv4;
pub mod xml;
