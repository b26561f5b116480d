//! One raw HTTP request and its whole answer: for the questions of the semantics card.
//!
//! Nothing here is for load: answers are kept whole, whatever their status.

use loadstone_wire::encode::write_query;
use loadstone_wire::http1::{Head, Method};
use serde::{Deserialize, Serialize};

use crate::transport::transfer::Download;

/// The most that is kept of an answer's body.
const BODY_BYTES_MAX: usize = 64 << 20;

/// One request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawRequest {
    /// In capitals.
    pub method: String,
    /// The bucket or container; empty for the store itself.
    #[serde(default)]
    pub place: String,
    /// The object; empty for the place itself.
    #[serde(default)]
    pub key: String,
    /// Parameters, not encoded; one without a value is sent as its bare name.
    #[serde(default)]
    pub query: Vec<(String, Option<String>)>,
    /// Headers, which are signed.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// How it says who asks.
    #[serde(default)]
    pub signing: Signing,
    /// How long ago it claims to have been signed, in seconds.
    #[serde(default)]
    pub signed_ago_s: u64,
    /// The body.
    #[serde(skip)]
    pub body: Vec<u8>,
}

/// How a request says who asks. A protocol with tokens knows the first and the last way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signing {
    /// As the load's requests do.
    #[default]
    Usual,
    /// By its URL, which holds for so many seconds.
    Url(u64),
    /// By a signature that is wrong.
    Wrong,
    /// Not at all.
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

/// What came back, and over which connection.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RawAnswer {
    /// Zero where no head came.
    pub status: u16,
    /// Names in lower case; in their order.
    pub headers: Vec<(String, String)>,
    /// The outcome's name where the whole answer did not come, such as `timeout` or `closed`.
    pub failure: Option<String>,
    /// The same for people.
    pub error: Option<String>,
    /// Whether a connection was opened for it.
    pub is_fresh: bool,
    /// Whether the connection is open still.
    pub is_kept: bool,
    /// Version of TLS and cipher, where there is TLS.
    pub tls: Option<(String, String)>,
    /// Address and port that were asked.
    pub peer: String,
    /// From the first byte sent to the last received.
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
