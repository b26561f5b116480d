//! Signs HTTP requests with AWS Signature Version 4.
//!
//! The parts that successive requests share are cached: the key of the day, the text of the second,
//! and the hash states derived from them. Eight or so SHA-256 blocks remain per request.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use crate::{
    date::Calendar,
    digest::SHA256_OF_NOTHING,
    encode::{hex_of_sha256, write_query},
    http1::{self, Method},
};

type HmacSha256 = Hmac<Sha256>;

const ALGORITHM: &[u8] = b"AWS4-HMAC-SHA256";

/// Credentials for signatures. `Debug` omits the secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// ID of the key.
    pub access_key: String,
    /// Secret key.
    pub secret_key: String,
    /// Session token of temporary credentials.
    pub session_token: Option<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let access_key = &self.access_key;
        formatter
            .debug_struct("Credentials")
            .field("access_key", access_key)
            .finish_non_exhaustive()
    }
}

/// How the signature covers the body.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// The body is not signed.
    Unsigned,
    /// There is no body.
    Nothing,
    /// The body has this SHA-256, in hexadecimal.
    Sha256(&'a [u8; 64]),
}

impl Payload<'_> {
    fn text(&self) -> &[u8] {
        match self {
            Self::Unsigned => b"UNSIGNED-PAYLOAD",
            Self::Nothing => SHA256_OF_NOTHING,
            Self::Sha256(hex) => *hex,
        }
    }
}

/// A request to sign, as it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Method.
    pub method: Method,
    /// Path, encoded as it is sent.
    pub path: &'a [u8],
    /// Query, encoded as it is sent and sorted by name; empty if there is none.
    pub query: &'a [u8],
    /// Value of the host header.
    pub host: &'a [u8],
    /// Additional headers to sign: names in lower case, sorted; values without surrounding blanks.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// How the signature covers the body.
    pub payload: Payload<'a>,
}

/// Signs successive requests with one set of credentials for one region.
pub struct Signer {
    credentials: Credentials,
    region: String,
    service: String,
    second: Option<u64>,
    day: u64,
    amz_date: [u8; 16],
    /// HMAC with the key of the day.
    keyed: Option<HmacSha256>,
    /// HMAC state after the common start of every string to sign in this second.
    begun: Option<HmacSha256>,
    /// `20130524/us-east-1/s3/aws4_request`
    scope: Vec<u8>,
    canonical: Vec<u8>,
    signed_names: Vec<u8>,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Signer")
            .field("credentials", &self.credentials)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// Creates a signer; `service` is `s3` for object stores.
    pub fn new(credentials: Credentials, region: &str, service: &str) -> Self {
        Self {
            credentials,
            region: region.to_owned(),
            service: service.to_owned(),
            second: None,
            day: 0,
            amz_date: [0; 16],
            keyed: None,
            begun: None,
            scope: Vec::new(),
            canonical: Vec::with_capacity(1024),
            signed_names: Vec::with_capacity(128),
        }
    }

    /// Writes the header lines `host`, `x-amz-…`, the request's own and `authorization`.
    ///
    /// `unix_s` is the current time. The caller must have written the request line, and writes the
    /// rest of the head afterwards.
    pub fn sign(&mut self, unix_s: u64, request: &Request<'_>, head: &mut Vec<u8>) {
        if self.second != Some(unix_s) {
            self.turn_to(unix_s);
        }
        self.write_canonical(request, head);
        head.extend_from_slice(b"authorization: ");
        head.extend_from_slice(ALGORITHM);
        head.extend_from_slice(b" Credential=");
        head.extend_from_slice(self.credentials.access_key.as_bytes());
        head.push(b'/');
        head.extend_from_slice(&self.scope);
        head.extend_from_slice(b", SignedHeaders=");
        head.extend_from_slice(&self.signed_names);
        head.extend_from_slice(b", Signature=");
        head.extend_from_slice(&self.signature());
        head.extend_from_slice(b"\r\n");
    }

    /// Writes the query of a presigned URL, which anybody may use for some seconds from `unix_s`
    /// on, instead of headers. The body is not signed; `host` and the request's own headers must be
    /// sent as given here.
    pub fn presign(
        &mut self,
        unix_s: u64,
        expires_s: u64,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) {
        if self.second != Some(unix_s) {
            self.turn_to(unix_s);
        }
        let headers =
            || std::iter::once(("host", request.host)).chain(request.headers.iter().copied());
        let names = headers().map(|(name, _)| name).collect::<Vec<_>>().join(";");
        let scope = [self.credentials.access_key.as_bytes(), b"/", &self.scope].concat();
        let expires = expires_s.to_string();
        let token = self.credentials.session_token.as_deref();
        let fixed = [
            ("X-Amz-Algorithm", Some(ALGORITHM)),
            ("X-Amz-Credential", Some(scope.as_slice())),
            ("X-Amz-Date", Some(self.amz_date.as_slice())),
            ("X-Amz-Expires", Some(expires.as_bytes())),
            ("X-Amz-Security-Token", token.map(str::as_bytes)),
            ("X-Amz-SignedHeaders", Some(names.as_bytes())),
        ];
        let mut query = Vec::new();
        write_canonical_query(&mut query, request.query);
        for (name, value) in fixed {
            let Some(value) = value else { continue };
            if !query.is_empty() {
                query.push(b'&');
            }
            write_query(&mut query, &[(name, Some(value))]);
        }
        let mut parameters: Vec<&[u8]> = query.split(|&byte| byte == b'&').collect();
        parameters.sort_by_key(|parameter| parameter.split(|&byte| byte == b'=').next());
        let query = parameters.join(&b'&');

        let canonical = &mut self.canonical;
        canonical.clear();
        for line in [request.method.name().as_bytes(), request.path, &query] {
            canonical.extend_from_slice(line);
            canonical.push(b'\n');
        }
        for (name, value) in headers() {
            canonical.extend_from_slice(&[name.as_bytes(), b":", value, b"\n"].concat());
        }
        canonical.extend_from_slice(&[b"\n", names.as_bytes(), b"\nUNSIGNED-PAYLOAD"].concat());
        out.extend_from_slice(&query);
        out.extend_from_slice(b"&X-Amz-Signature=");
        out.extend_from_slice(&self.signature());
    }

    /// Signs the canonical request.
    fn signature(&self) -> [u8; 64] {
        let digest: [u8; 32] = Sha256::digest(&self.canonical).into();
        let mut mac = self.begun.clone().expect("turn_to() began it");
        mac.update(&hex_of_sha256(&digest));
        hex_of_sha256(&mac.finalize().into_bytes().into())
    }

    /// Updates the cached values that depend on the second, and on a new day the key.
    fn turn_to(&mut self, unix_s: u64) {
        self.amz_date = Calendar::from_unix(unix_s).basic();
        let day = unix_s / 86_400;
        if self.keyed.is_none() || self.day != day {
            self.turn_to_day(day);
        }
        let mut begun = self.keyed.clone().expect("turn_to_day() made it");
        begun.update(ALGORITHM);
        begun.update(b"\n");
        begun.update(&self.amz_date);
        begun.update(b"\n");
        begun.update(&self.scope);
        begun.update(b"\n");
        self.begun = Some(begun);
        self.second = Some(unix_s);
    }

    fn turn_to_day(&mut self, day: u64) {
        let date = &self.amz_date[..8];
        let secret = ["AWS4", &self.credentials.secret_key].concat();
        let mut key = hmac(secret.as_bytes(), date);
        for part in [&self.region, &self.service, "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        self.keyed = Some(keyed(&key));
        self.day = day;
        self.scope.clear();
        self.scope.extend_from_slice(date);
        for part in [&self.region, &self.service, "aws4_request"] {
            self.scope.push(b'/');
            self.scope.extend_from_slice(part.as_bytes());
        }
    }

    /// Writes the canonical request, and every signed header into the head.
    fn write_canonical(&mut self, request: &Request<'_>, head: &mut Vec<u8>) {
        debug_assert!(
            request.headers.is_sorted_by(|first, second| first.0 < second.0),
            "headers to sign must be sorted, or the signature will not match"
        );
        let payload = request.payload.text();
        let canonical = &mut self.canonical;
        canonical.clear();
        canonical.extend_from_slice(request.method.name().as_bytes());
        canonical.push(b'\n');
        canonical.extend_from_slice(request.path);
        canonical.push(b'\n');
        write_canonical_query(canonical, request.query);
        canonical.push(b'\n');

        self.signed_names.clear();
        let token = self.credentials.session_token.as_deref().unwrap_or("");
        let protocol: [(&str, &[u8]); 4] = [
            ("host", request.host),
            ("x-amz-content-sha256", payload),
            ("x-amz-date", &self.amz_date),
            ("x-amz-security-token", token.as_bytes()),
        ];
        let mut protocol = protocol[..if token.is_empty() { 3 } else { 4 }].iter().peekable();
        let mut more = request.headers.iter().peekable();
        loop {
            let is_own_first = match (protocol.peek(), more.peek()) {
                (None, None) => break,
                (Some(protocol), Some(more)) => protocol.0 < more.0,
                (protocol, _) => protocol.is_some(),
            };
            let next = if is_own_first { protocol.next() } else { more.next() };
            let &(name, value) = next.expect("the one that was peeked at is there");
            http1::header(head, name, value);
            canonical.extend_from_slice(name.as_bytes());
            canonical.push(b':');
            canonical.extend_from_slice(value);
            canonical.push(b'\n');
            if !self.signed_names.is_empty() {
                self.signed_names.push(b';');
            }
            self.signed_names.extend_from_slice(name.as_bytes());
        }
        canonical.push(b'\n');
        canonical.extend_from_slice(&self.signed_names);
        canonical.push(b'\n');
        canonical.extend_from_slice(payload);
    }
}

/// A parameter without a value is sent as `name`, and signed as `name=`.
fn write_canonical_query(canonical: &mut Vec<u8>, query: &[u8]) {
    if query.is_empty() {
        return;
    }
    for (position, parameter) in query.split(|&byte| byte == b'&').enumerate() {
        if position > 0 {
            canonical.push(b'&');
        }
        canonical.extend_from_slice(parameter);
        if !parameter.contains(&b'=') {
            canonical.push(b'=');
        }
    }
}

fn keyed(key: &[u8]) -> HmacSha256 {
    HmacSha256::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = keyed(key);
    mac.update(text);
    mac.finalize().into_bytes().into()
}
