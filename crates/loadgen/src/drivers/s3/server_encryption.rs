//! Server-side encryption (SSE): which requests carry its headers, and with which values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loadstone_wire::digest::md5;
use loadstone_wire::http1::Method;
use serde_json::{Map, Value};

use crate::credentials;
use crate::error::{Error, Kind};
use crate::ownership::beside::Header;
use crate::settings;
use crate::transport::http_target::HeadSpec;

/// Length of a customer's key, for AES-256.
const KEY_BYTES: usize = 32;

/// The key with which the store encrypts objects.
#[derive(Debug)]
pub(super) enum ServerEncryption {
    /// The store's own key.
    Store,
    /// A key of its key service: this one, or the default.
    Service(Option<String>),
    /// The customer's key, which each request for an object carries, with its MD5, both in base64.
    Customer { key: String, md5: String },
}

impl ServerEncryption {
    /// The headers of an answer that confirm that an object was encrypted.
    pub(super) const CONFIRMED: &[&str] =
        &["x-amz-server-side-encryption", "x-amz-server-side-encryption-customer-algorithm"];

    /// Returns the header of an answer that confirms this encryption.
    pub(super) fn confirmation(&self) -> &'static str {
        Self::CONFIRMED[usize::from(matches!(self, Self::Customer { .. }))]
    }

    /// Reads the settings of a target, which must have been checked.
    ///
    /// # Errors
    /// The customer's key is missing or invalid.
    pub(super) fn of(map: &Map<String, Value>) -> Result<Option<Self>, Error> {
        match settings::text(map, "server_encryption") {
            Some("store") => Ok(Some(Self::Store)),
            Some("kms") => {
                Ok(Some(Self::Service(settings::text(map, "kms_key").map(str::to_owned))))
            }
            Some("customer") => {
                let key = credentials::resolve(map, "customer_key")?.unwrap_or_default();
                let bytes = STANDARD.decode(&key).ok().filter(|bytes| bytes.len() == KEY_BYTES);
                let Some(bytes) = bytes else {
                    let reason = "it is not 32 bytes in base64";
                    return Err(Error::target("read setting \"customer_key\"", reason)
                        .of(Kind::SecretAbsent)
                        .with_hint("make one with: openssl rand -base64 32"));
                };
                Ok(Some(Self::Customer { key, md5: STANDARD.encode(md5(&bytes)) }))
            }
            _ => Ok(None),
        }
    }

    /// Adds the headers of a request for an object. Stores refuse them on other requests: requests
    /// that write an object name the store's keys; the customer's key also goes with requests that
    /// read one.
    pub(super) fn add_headers<'a>(&'a self, spec: &HeadSpec<'_>, headers: &mut Vec<Header<'a>>) {
        let begins = match spec.method {
            Method::Put => spec.query.is_empty(),
            Method::Post => spec.query == b"uploads",
            _ => false,
        };
        match self {
            Self::Store if begins => headers.push(("x-amz-server-side-encryption", b"AES256")),
            Self::Service(key) if begins => {
                headers.push(("x-amz-server-side-encryption", b"aws:kms"));
                if let Some(key) = key {
                    let name = "x-amz-server-side-encryption-aws-kms-key-id";
                    headers.push((name, key.as_bytes()));
                }
            }
            Self::Store | Self::Service(_) => {}
            Self::Customer { key, md5 } => {
                let is_part = spec.method == Method::Put && spec.query.starts_with(b"partNumber=");
                let is_read = matches!(spec.method, Method::Get | Method::Head)
                    && (spec.query.is_empty() || spec.query.starts_with(b"versionId="));
                let (key, md5) = (key.as_bytes(), md5.as_bytes());
                if begins || is_part || is_read {
                    headers.extend([
                        ("x-amz-server-side-encryption-customer-algorithm", &b"AES256"[..]),
                        ("x-amz-server-side-encryption-customer-key", key),
                        ("x-amz-server-side-encryption-customer-key-md5", md5),
                    ]);
                }
                if spec.headers.iter().any(|(name, _)| *name == "x-amz-copy-source") {
                    let algorithm = &b"AES256"[..];
                    headers.extend([
                        ("x-amz-copy-source-server-side-encryption-customer-algorithm", algorithm),
                        ("x-amz-copy-source-server-side-encryption-customer-key", key),
                        ("x-amz-copy-source-server-side-encryption-customer-key-md5", md5),
                    ]);
                }
            }
        }
    }
}

/// Returns the mistakes in the settings of server-side encryption.
pub(super) fn mistakes(map: &Map<String, Value>, has_presigned: bool) -> Vec<String> {
    let mut mistakes = Vec::new();
    let whose = settings::text(map, "server_encryption");
    let mut demand = |holds: bool, text: &str| {
        if !holds {
            mistakes.push(format!("target.settings.{text}"));
        }
    };
    let with = |key: &str, kind| map.contains_key(key) == (whose == Some(kind));
    demand(
        with("customer_key", "customer"),
        "customer_key: allowed, and needed, with server_encryption: customer",
    );
    demand(
        !map.contains_key("kms_key") || whose == Some("kms"),
        "kms_key: found it without server_encryption: kms",
    );
    let is_plain = settings::texts(map, "endpoints").iter().any(|url| !url.starts_with("https://"));
    let is_allowed = map.get("customer_key_over_http").and_then(Value::as_bool) == Some(true);
    demand(
        whose != Some("customer") || !is_plain || is_allowed,
        "server_encryption: found customer with an endpoint of http, over which everybody on the way \
         reads the key: allowed with https, or with customer_key_over_http: true",
    );
    demand(
        whose.is_none() || !has_presigned,
        "server_encryption: found it with presigned_get or presigned_put, allowed: with operations \
         that send headers of their own",
    );
    mistakes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers_of(encryption: &ServerEncryption, spec: &HeadSpec<'_>) -> Vec<String> {
        let mut headers = Vec::new();
        encryption.add_headers(spec, &mut headers);
        headers.into_iter().map(|(name, _)| name.to_owned()).collect()
    }

    fn spec(method: Method, query: &[u8]) -> HeadSpec<'_> {
        HeadSpec { query, ..HeadSpec::new(method, &[200]) }
    }

    #[test]
    fn only_writes_name_the_stores_key() {
        let requests = [
            (Method::Put, &b""[..], 1),
            (Method::Post, b"uploads", 1),
            (Method::Put, b"partNumber=1&uploadId=x", 0),
            (Method::Post, b"uploadId=x", 0),
            (Method::Get, b"", 0),
            (Method::Head, b"", 0),
            (Method::Delete, b"", 0),
        ];
        for (method, query, count) in requests {
            let spec = spec(method, query);
            assert_eq!(headers_of(&ServerEncryption::Store, &spec).len(), count, "{query:?}");
            let service = ServerEncryption::Service(Some("a-key".to_owned()));
            assert_eq!(headers_of(&service, &spec).len(), 2 * count, "{query:?}");
        }
    }

    #[test]
    fn a_customers_key_goes_with_reads_and_parts_too() {
        let customer = ServerEncryption::Customer { key: "k".to_owned(), md5: "m".to_owned() };
        let requests = [
            (Method::Put, &b""[..], 3),
            (Method::Post, b"uploads", 3),
            (Method::Put, b"partNumber=1&uploadId=x", 3),
            (Method::Get, b"versionId=1", 3),
            (Method::Get, b"uploadId=x", 0),
            (Method::Head, b"", 3),
            (Method::Delete, b"", 0),
        ];
        for (method, query, count) in requests {
            assert_eq!(headers_of(&customer, &spec(method, query)).len(), count, "{query:?}");
        }
        let copy =
            HeadSpec { headers: &[("x-amz-copy-source", b"/b/k")], ..spec(Method::Put, b"") };
        assert_eq!(headers_of(&customer, &copy).len(), 6);
    }

    #[test]
    fn a_customers_key_is_sent_over_http_only_if_allowed() {
        let settings = |value: Value| match value {
            Value::Object(map) => map,
            _ => panic!("a map"),
        };
        let of = |endpoint: &str, more: Value| {
            let mut map = settings(json!({
                "endpoints": [endpoint], "server_encryption": "customer", "customer_key": "x"
            }));
            map.extend(settings(more));
            mistakes(&map, false).len()
        };
        assert_eq!(of("https://a", json!({})), 0);
        assert_eq!(of("http://a", json!({})), 1);
        assert_eq!(of("http://a", json!({"customer_key_over_http": true})), 0);
        assert_eq!(mistakes(&settings(json!({"kms_key": "x"})), false).len(), 1);
        assert_eq!(mistakes(&settings(json!({"server_encryption": "customer"})), false).len(), 1);
    }

    #[test]
    fn an_invalid_customers_key_is_not_repeated_in_the_error() {
        let Value::Object(map) =
            json!({"server_encryption": "customer", "customer_key": "c2hvcnQ="})
        else {
            panic!("a map")
        };
        let error = ServerEncryption::of(&map).expect_err("it is too short").to_string();
        assert!(!error.contains("c2hvcnQ="), "{error}");
    }
}
