//! HTTP/1.1 for clients: writes request heads, parses responses.

mod chunked;
mod error;
mod request;
mod response;

pub use error::ParseError;
pub use request::{Method, finish, header, header_number, request_line};
pub use response::{Event, HEAD_BYTES_MAX, Head, INTERIM_MAX, Parsed, ResponseParser};
