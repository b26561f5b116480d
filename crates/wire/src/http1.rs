//! HTTP/1.1 as a client speaks it: request heads out, responses in.

mod chunked;
mod error;
mod request;
mod response;

pub use error::ParseError;
pub use request::{Method, finish, header, header_number, request_line};
pub use response::{Event, HEAD_BYTES_MAX, Head, INTERIM_MAX, Parsed, ResponseParser};
