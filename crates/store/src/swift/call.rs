//! A parsed request to the Swift API.

use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use percent_encoding::percent_decode_str;

use super::answer::Failure;
use crate::exchange::request_body::RequestBody;

/// Maximum length of names in Swift.
const CONTAINER_BYTES_MAX: usize = 256;
const OBJECT_BYTES_MAX: usize = 1024;

/// Swift's limit for the metadata of one container or object.
const METADATA_BYTES_MAX: usize = 4096;

/// A request to the Swift API.
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    /// The path, decoded.
    pub(super) path: String,
    query: Vec<(String, String)>,
    pub(super) body: RequestBody,
}

/// Container and object in the path of a storage request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Place {
    pub(super) account: String,
    pub(super) container: String,
    pub(super) object: String,
}

impl Call {
    pub(super) fn new(parts: Parts, body: RequestBody) -> Result<Call, Failure> {
        let path = decode(parts.uri.path())?;
        let query = parts.uri.query().unwrap_or_default();
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(&name.replace('+', " "))?, decode(&value.replace('+', " "))?))
        });
        let query = pairs.collect::<Result<_, Failure>>()?;
        Ok(Call { method: parts.method, headers: parts.headers, path, query, body })
    }

    /// Parses a path below `/v1/`.
    pub(super) fn place(&self) -> Result<Place, Failure> {
        let mut parts = self.path.splitn(5, '/').skip(2).map(str::to_owned);
        let place = Place {
            account: parts.next().unwrap_or_default(),
            container: parts.next().unwrap_or_default(),
            object: parts.next().unwrap_or_default(),
        };
        if self.path.contains('\0') {
            return Err(Failure::new(
                StatusCode::PRECONDITION_FAILED,
                "Invalid UTF8 or contains NULL",
            ));
        }
        let is_missing = |name: &str, below: &str| name.is_empty() && !below.is_empty();
        if is_missing(&place.account, &place.container)
            || is_missing(&place.container, &place.object)
        {
            return Err(Failure::new(StatusCode::NOT_FOUND, "a part of the path is empty"));
        }
        if place.container.len() > CONTAINER_BYTES_MAX || place.object.len() > OBJECT_BYTES_MAX {
            return Err(Failure::new(StatusCode::BAD_REQUEST, "the name is too long"));
        }
        Ok(place)
    }

    /// Returns a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns a header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header_text(&self.headers, name)
    }

    /// Returns the headers with this prefix, by the rest of their names.
    pub(super) fn prefixed(&self, prefix: &str) -> Vec<(String, String)> {
        self.headers
            .iter()
            .filter_map(|(name, value)| {
                let name = name.as_str().strip_prefix(prefix).filter(|name| !name.is_empty())?;
                Some((name.to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            })
            .collect()
    }

    /// Returns the metadata with this prefix, within Swift's limit.
    pub(super) fn metadata(&self, prefix: &str) -> Result<Vec<(String, String)>, Failure> {
        let pairs = self.prefixed(prefix);
        check_metadata(&pairs)?;
        Ok(pairs)
    }

    /// Returns the host in the request, for addresses in answers.
    pub(super) fn host(&self) -> &str {
        self.header("host").unwrap_or("localhost")
    }

    /// Returns the body's length, if the client declared it.
    pub(super) fn content_length(&self) -> Result<Option<u64>, Failure> {
        let Some(text) = self.header(header::CONTENT_LENGTH.as_str()) else {
            if self.headers.contains_key(header::TRANSFER_ENCODING) {
                return Ok(None);
            }
            return Err(Failure::new(StatusCode::LENGTH_REQUIRED, "Content-Length is missing"));
        };
        let length = text.parse();
        length.map(Some).map_err(|_| Failure::new(StatusCode::BAD_REQUEST, "bad Content-Length"))
    }

    /// Reads the whole body, which must not exceed `bytes_max`.
    pub(super) async fn text(&mut self, bytes_max: usize) -> Result<bytes::Bytes, Failure> {
        let collected = Limited::new(self.body.clone(), bytes_max).collect().await;
        match collected {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                Err(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long"))
            }
            Err(error) => Err(Failure::new(StatusCode::BAD_REQUEST, error)),
        }
    }

    /// Returns whether the client requests JSON.
    pub(super) fn wants_json(&self) -> bool {
        match self.parameter("format") {
            Some(format) => format == "json",
            None => self
                .header(header::ACCEPT.as_str())
                .is_some_and(|accept| accept.contains("application/json")),
        }
    }
}

/// Refuses more metadata than Swift allows.
pub(super) fn check_metadata(pairs: &[(String, String)]) -> Result<(), Failure> {
    let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > METADATA_BYTES_MAX {
        let problem = format!("the metadata has {bytes} bytes, at most {METADATA_BYTES_MAX}");
        return Err(Failure::new(StatusCode::BAD_REQUEST, problem));
    }
    Ok(())
}

/// Returns a header as text.
pub(super) fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
}

/// Decodes `%41`; refuses results that are not UTF-8.
pub(super) fn decode(text: &str) -> Result<String, Failure> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded
        .map_err(|_| Failure::new(StatusCode::PRECONDITION_FAILED, "the name is not UTF-8"))?;
    Ok(decoded.into_owned())
}

/// Sets and removes metadata one by one; an empty value also removes.
pub(super) fn merge(
    metadata: &mut Vec<(String, String)>,
    set: Vec<(String, String)>,
    removed: Vec<(String, String)>,
) {
    for (name, value) in
        set.into_iter().chain(removed.into_iter().map(|(name, _)| (name, String::new())))
    {
        metadata.retain(|(known, _)| *known != name);
        if !value.is_empty() {
            metadata.push((name, value));
        }
    }
}

/// Returns whether a value means true.
pub(super) fn is_true(text: &str) -> bool {
    ["true", "1", "yes", "on", "t", "y"].iter().any(|word| text.eq_ignore_ascii_case(word))
}
