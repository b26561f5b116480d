//! Why an HTTP request failed, and what the target said about it.

use std::fmt;
use std::io;

use loadstone_wire::http1::{Head, ParseError};
use loadstone_wire::xml;

use crate::drivers::socket::SocketError;
use crate::drivers::transfer::Download;
use crate::outcome::Outcome;
use crate::payload::Evidence;

/// Kept of the body of an answer that was not expected: enough for an error document.
const REFUSAL_BYTES_MAX: usize = 4 << 10;

/// Why a request failed. Turned into text only when somebody asks.
#[derive(Debug)]
pub(crate) enum Failure {
    Connect(SocketError),
    Transfer(SocketError),
    Parse(ParseError),
    Overlong(u64),
    Status(u16),
    /// The bytes were not those that were written.
    Mismatch(Outcome, Option<Evidence>),
    /// The body had another length than the object has.
    Length {
        found: u64,
        expected: u64,
    },
    /// Said by the driver.
    Told(Outcome, String),
}

impl Failure {
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Connect(SocketError::Io(error)) | Self::Transfer(SocketError::Io(error)) => {
                Outcome::of_io(error)
            }
            Self::Connect(SocketError::Tls(_)) | Self::Transfer(SocketError::Tls(_)) => {
                Outcome::TLS
            }
            Self::Parse(ParseError::Closed) => Outcome::CLOSED,
            Self::Parse(ParseError::Truncated) => Outcome::TRUNCATED,
            Self::Parse(_) => Outcome::PROTOCOL,
            Self::Overlong(_) => Outcome::OVERLONG,
            Self::Status(status) => Outcome::http(*status),
            Self::Mismatch(outcome, _) | Self::Told(outcome, _) => *outcome,
            Self::Length { found, expected } if found < expected => Outcome::TRUNCATED,
            Self::Length { .. } => Outcome::OVERLONG,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = |formatter: &mut fmt::Formatter<'_>, error: &SocketError| match error {
            SocketError::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
                write!(formatter, "no answer within the timeout")
            }
            SocketError::Io(error) => write!(formatter, "{error}"),
            SocketError::Tls(error) => write!(formatter, "TLS: {error}"),
        };
        match self {
            Self::Connect(error) => {
                write!(formatter, "connect: ")?;
                socket(formatter, error)
            }
            Self::Transfer(error) => socket(formatter, error),
            Self::Parse(error) => write!(formatter, "{error}"),
            Self::Overlong(bytes) => write!(formatter, "{bytes} bytes follow the answer's end"),
            Self::Status(status) => write!(formatter, "HTTP {status}"),
            Self::Mismatch(_, Some(evidence)) => write!(formatter, "{evidence}"),
            Self::Mismatch(outcome, None) => write!(formatter, "the data is {}", outcome.name()),
            Self::Length { found, expected } => {
                write!(formatter, "{found} bytes came, the object has {expected}")
            }
            Self::Told(_, text) => write!(formatter, "{text}"),
        }
    }
}

/// An answer that was not the expected one, as far as an error message needs it.
#[derive(Debug, Default)]
pub(crate) struct Refusal {
    body: Vec<u8>,
    location: Option<String>,
    region: Option<String>,
}

impl Download for Refusal {
    #[cold]
    fn head(&mut self, head: &Head<'_>) {
        self.body.clear();
        self.location = head.header_text("location").map(str::to_owned);
        self.region = head.header_text("x-amz-bucket-region").map(str::to_owned);
    }

    fn data(&mut self, bytes: &[u8]) {
        let room = REFUSAL_BYTES_MAX - self.body.len();
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Refusal {
    /// Returns the error document, if the body was one of S3's.
    pub(crate) fn error(&self) -> Option<xml::StoreError> {
        xml::parse_error(&self.body)
    }

    /// Adds what the target said to the text of a failure.
    pub(crate) fn describe(&self, text: &mut String) {
        use fmt::Write as _;
        // Writing to a text cannot fail.
        let _ = match xml::parse_error(&self.body) {
            Some(error) => write!(text, " {error}"),
            None => match String::from_utf8_lossy(&self.body).trim() {
                "" => Ok(()),
                body => {
                    let line: String = body.chars().take(200).collect();
                    write!(text, " {}", line.replace(['\r', '\n'], " "))
                }
            },
        };
        let instead = xml::parse_error(&self.body).and_then(|error| error.instead);
        if let Some(place) = self.location.as_ref().or(instead.as_ref()).or(self.region.as_ref()) {
            let _ = write!(text, "\nhint: the target says where to go: {place}");
        }
    }
}
