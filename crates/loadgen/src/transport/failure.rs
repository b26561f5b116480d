//! Why an HTTP request failed, and the target's description of the failure.

use std::borrow::Cow;
use std::fmt;
use std::io;

use loadstone_wire::date;
use loadstone_wire::http1::{Head, ParseError};
use loadstone_wire::xml;

use crate::clock::unix_ns;
use crate::error::HINT;
use crate::outcome::Outcome;
use crate::payload::Evidence;
use crate::secrecy::{PART_BYTES, cut, foreign_line};
use crate::transport::socket::SocketError;
use crate::transport::transfer::Download;

/// How much of the body of an unexpected answer is kept: enough for an error document.
const REFUSAL_BYTES_MAX: usize = 4 << 10;
/// Maximum length of the target's text in a message, in characters, after blotting.
const SHOWN_CHARACTERS: usize = 200;
/// Number of bytes omitted at the end of a truncated body, because a part of a secret there may be
/// too short to detect.
const LOST_BYTES: usize = 3 * PART_BYTES;

/// Why a request failed. Formatted only when it is shown.
#[derive(Debug)]
pub(crate) enum Failure {
    Connect(SocketError),
    Transfer(SocketError),
    Parse(ParseError),
    Overlong(u64),
    Status(u16),
    /// The content was not what was written.
    Mismatch(Outcome, Option<Evidence>),
    /// The body's length was not that of the object.
    Length {
        found: u64,
        expected: u64,
    },
    /// A failure with a text of the driver.
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
            SocketError::Tls(error) => {
                let text = format!("TLS: {error}");
                write!(formatter, "{text}")?;
                if !text.contains("CaUsedAsEndEntity") {
                    return Ok(());
                }
                write!(
                    formatter,
                    "{HINT}the server shows the certificate of an authority (CA:TRUE) as its own, \
                     which no client may take: have the authority sign a certificate for the server \
                     (CA:FALSE, with its name in subjectAltName), and name the authority in tls.ca_file"
                )
            }
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
            Self::Told(_, text) => write!(formatter, "{}", foreign_line(text)),
        }
    }
}

/// An unexpected answer, as far as an error message needs it.
#[derive(Debug, Default)]
pub(crate) struct Refusal {
    body: Vec<u8>,
    location: Option<String>,
    region: Option<String>,
    /// Value of `Retry-After`.
    retry_after: Option<String>,
    /// The store's clock, and this host's at the same moment, in seconds since 1970.
    clocks: Option<(u64, u64)>,
}

impl Download for Refusal {
    #[cold]
    fn head(&mut self, head: &Head<'_>) {
        self.body.clear();
        self.location = head.header_text("location").map(str::to_owned);
        self.region = head.header_text("x-amz-bucket-region").map(str::to_owned);
        self.retry_after = head.header_text("retry-after").map(str::to_owned);
        let store_s = head.header_text("date").and_then(date::parse_http);
        self.clocks = store_s.map(|store_s| (store_s, unix_ns() / 1_000_000_000));
    }

    fn data(&mut self, bytes: &[u8]) {
        let room = REFUSAL_BYTES_MAX - self.body.len();
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Refusal {
    /// Returns the error document, if the body is one of S3.
    pub(crate) fn error(&self) -> Option<xml::StoreError> {
        xml::parse_error(&self.body)
    }

    /// Returns the code of that document, or an empty text.
    pub(crate) fn code(&self) -> String {
        self.error().map(|error| error.code).unwrap_or_default()
    }

    /// Returns how many seconds the target asks to wait before a retry.
    pub(crate) fn retry_after_s(&self) -> Option<u64> {
        let text = self.retry_after.as_deref()?.trim();
        let until = || Some(date::parse_http(text)?.saturating_sub(self.clocks?.0));
        text.parse().ok().or_else(until)
    }

    /// Describes the difference between the store's clock and this host's; `None` if the answer has
    /// no date.
    pub(crate) fn clocks_apart(&self) -> Option<String> {
        let (store_s, own_s) = self.clocks?;
        let word = if store_s > own_s { "ahead of" } else { "behind" };
        let seconds = store_s.abs_diff(own_s);
        let apart = match seconds {
            0..120 => format!("{seconds} s"),
            120..10_800 => format!("{} min", (seconds + 30) / 60),
            10_800..259_200 => format!("{} h", (seconds + 1800) / 3600),
            _ => format!("{} days", (seconds + 43_200) / 86_400),
        };
        Some(format!("the store's clock is {apart} {word} this host's"))
    }

    /// Appends the target's description to the text of a failure.
    pub(crate) fn describe(&self, text: &mut String) {
        use fmt::Write as _;
        let error = xml::parse_error(&self.body);
        let message = match &error {
            Some(error) => foreign_line(&error.to_string()),
            None if is_page(&self.body) => text_of_page(&foreign_line(&self.text())),
            None => foreign_line(&self.text()).trim().to_owned(),
        };
        if !message.is_empty() {
            // Writing to a text cannot fail.
            let _ = write!(text, " {}", cut(&message, SHOWN_CHARACTERS));
        }
        let instead = error.and_then(|error| error.instead);
        let place = self.location.as_ref().or(instead.as_ref());
        if let Some(place) = place.or(self.region.as_ref()) {
            let is_region = self.location.is_none() && instead.is_none();
            let advice = if is_region {
                "the target says it is in region"
            } else {
                "the target says where to go:"
            };
            let place = foreign_line(place);
            let place = cut(&place, SHOWN_CHARACTERS);
            let _ = write!(text, "{HINT}{advice} {place}");
        }
    }

    /// Returns the body as text.
    fn text(&self) -> Cow<'_, str> {
        let is_cut = self.body.len() == REFUSAL_BYTES_MAX;
        // The end of a truncated body may contain a part of a secret that is too short to detect.
        let whole = self.body.len() - if is_cut { LOST_BYTES } else { 0 };
        String::from_utf8_lossy(&self.body[..whole])
    }
}

/// Returns a hint for a target that did not answer; `setting` is the setting with its address.
pub(crate) fn hint_to_reach(setting: &str, outcome: Outcome) -> String {
    match outcome {
        Outcome::TLS => format!(
            "the address ({setting}) says https: check that its port speaks TLS, and name the \
             authority of its certificate in tls.ca_file; if it is plain HTTP, say http"
        ),
        // Some TLS servers close the connection on plain HTTP; others answer with 400.
        Outcome::RESET | Outcome::CLOSED | Outcome::PROTOCOL => format!(
            "check the address ({setting}), and that the store is up; if its port speaks TLS, say \
             https"
        ),
        _ => format!("check the address ({setting}), and that the store is up"),
    }
}

/// Returns whether a body is an HTML page.
fn is_page(body: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&body[..body.len().min(512)]).to_ascii_lowercase();
    let start = start.trim_start_matches('\u{feff}').trim_start();
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.starts_with("<head")
}

/// Extracts the text of an HTML page; falls back to the title if the page has no other text.
fn text_of_page(page: &str) -> String {
    // The title usually repeats the first heading.
    let words = words_of(page, &["style", "script", "title"]);
    if words.is_empty() { words_of(page, &["style", "script"]) } else { words }
}

/// Returns the text of a page, except inside some tags.
fn words_of(page: &str, unseen: &[&str]) -> String {
    let mut words = String::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        words.push_str(&rest[..start]);
        words.push(' ');
        let tag = rest[start..].to_ascii_lowercase();
        let skipped = unseen.iter().find(|name| tag[1..].starts_with(**name));
        // Hidden content ends with its closing tag.
        let end = match skipped {
            Some(name) => tag.find(&format!("</{name}")),
            None => tag.find('>').map(|end| end + 1),
        };
        rest = end.map_or("", |end| &rest[start + end.max(1)..]);
    }
    words.push_str(rest);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(body: &str) -> String {
        let mut refusal = Refusal::default();
        refusal.data(body.as_bytes());
        let mut text = String::new();
        refusal.describe(&mut text);
        text
    }

    #[test]
    fn only_the_text_of_an_html_page_is_shown() {
        let page = "<html><head><title>413 Too large</title><style>b {x: 1}</style></head>\r\n\
            <body><center><h1>413 Too large</h1></center><hr>nginx</body></html>";
        assert_eq!(message_of(page), " 413 Too large nginx");
        let title = "<html><head><title>Gone</title></head></html>";
        assert_eq!(message_of(title), " Gone");
        assert_eq!(
            message_of("<html><h1>Unauthorized</h1><p>Who?</p></html>"),
            " Unauthorized Who?"
        );
        assert_eq!(message_of("a < b, and no page"), " a < b, and no page");
        assert_eq!(message_of("<html><style>never closed"), "");
    }

    #[test]
    fn no_part_of_a_secret_remains_where_a_text_is_cut() {
        let secret = "canary-2f61b0d7a9e84c35";
        crate::secrecy::remember("a test", secret);
        for filler in (150..210).chain(REFUSAL_BYTES_MAX - 40..REFUSAL_BYTES_MAX + 1) {
            for body in [format!("{:filler$}{secret}", ""), format!("{:.>filler$}{secret}", "")] {
                let text = message_of(&body);
                let part = (3..secret.len()).find(|&end| text.contains(&secret[..end]));
                assert_eq!(part, None, "{filler}: {text}");
            }
        }
    }

    #[test]
    fn escape_sequences_and_forged_lines_are_removed() {
        let text = message_of("\x1b]0;owned\x07 ok\r\nerror: forged\nhint: rm");
        assert!(!text.contains(['\x1b', '\x07', '\n', '\r']), "{text:?}");
    }

    #[test]
    fn using_http_for_https_or_the_reverse_gets_a_hint() {
        for outcome in [Outcome::RESET, Outcome::CLOSED, Outcome::PROTOCOL] {
            assert!(hint_to_reach("endpoints", outcome).ends_with("say https"));
        }
        assert!(hint_to_reach("endpoints", Outcome::TLS).ends_with("say http"));
        assert!(!hint_to_reach("endpoints", Outcome::REFUSED).contains("https"));
    }
}
