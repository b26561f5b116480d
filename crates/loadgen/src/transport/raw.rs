//! One raw HTTP request and its whole answer, for the questions of the semantics card.
//!
//! Not used by a load: answers are kept whole, whatever their status.

use loadstone_wire::encode::write_query;
use loadstone_wire::http1::{Head, Method};
use serde::{Deserialize, Serialize};

use crate::transport::transfer::Download;

/// The most that is kept of an answer's body.
const BODY_BYTES_MAX: usize = 64 << 20;

/// A raw HTTP request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawRequest {
    /// Method, in capitals.
    pub method: String,
    /// Bucket or container; empty for the store itself.
    #[serde(default)]
    pub place: String,
    /// Key of the object; empty for the place itself.
    #[serde(default)]
    pub key: String,
    /// Query parameters, not encoded; one without a value is sent as its bare name.
    #[serde(default)]
    pub query: Vec<(String, Option<String>)>,
    /// Headers, which are signed.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// How the request is authenticated.
    #[serde(default)]
    pub signing: Signing,
    /// Age of the signature that the request claims, in seconds.
    #[serde(default)]
    pub signed_ago_s: u64,
    /// The body.
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// How a request is authenticated. A protocol with tokens supports the first and the last way only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signing {
    /// Like the requests of the load.
    #[default]
    Usual,
    /// By a presigned URL, which is valid for this many seconds.
    Url(u64),
    /// With a wrong signature.
    Wrong,
    /// Anonymous.
    Nobody,
}

impl RawRequest {
    /// Returns its method and its encoded query.
    pub(crate) fn line(&self) -> Result<(Method, Vec<u8>), String> {
        let method = Method::named(&self.method)
            .ok_or_else(|| format!("method \"{}\": not one that is sent", self.method))?;
        let broken = |text: &str| text.bytes().any(|byte| byte.is_ascii_control());
        if let Some((name, _)) =
            self.headers.iter().find(|(name, value)| broken(name) || broken(value))
        {
            return Err(format!("header \"{name}\": it has a control character"));
        }
        let mut parameters: Vec<(&str, Option<&[u8]>)> = self
            .query
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref().map(str::as_bytes)))
            .collect();
        parameters.sort_unstable();
        let mut query = Vec::new();
        write_query(&mut query, &parameters);
        Ok((method, query))
    }
}

/// The answer to a raw request, and facts about the connection.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RawAnswer {
    /// HTTP status; zero if no head arrived.
    pub status: u16,
    /// Headers in order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Name of the outcome if the answer is incomplete, such as `timeout` or `closed`.
    pub failure: Option<String>,
    /// The failure as text for people.
    pub error: Option<String>,
    /// Whether a new connection was opened for it.
    pub is_fresh: bool,
    /// Whether the connection is still open.
    pub is_kept: bool,
    /// TLS version and cipher suite, if TLS is used.
    pub tls: Option<(String, String)>,
    /// Address and port of the peer.
    pub peer: String,
    /// From the first byte sent to the last received, in nanoseconds.
    pub took_ns: u64,
    /// The body.
    #[serde(skip)]
    pub body: Vec<u8>,
}

impl Download for RawAnswer {
    fn head(&mut self, head: &Head<'_>) {
        let text = |bytes| String::from_utf8_lossy(bytes);
        self.body.clear();
        self.headers = head
            .headers()
            .map(|(name, value)| (text(name).to_ascii_lowercase(), text(value).into_owned()))
            .collect();
    }

    fn data(&mut self, bytes: &[u8]) {
        let room = BODY_BYTES_MAX.saturating_sub(self.body.len());
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}
