//! Access control, and requests that are refused because this store lacks a feature.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, Uri};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

use super::parameters;
use crate::stored::object::Algorithm;

/// The only owner of buckets and objects.
pub(super) const OWNER: &str = "loadstone";

/// Prefixes of headers that request features which this store lacks. A store that ignored them
/// would promise an encryption, a lock or an access rule that it does not have.
const REFUSED: [&str; 11] = [
    "x-amz-server-side-encryption",
    "x-amz-copy-source-server-side-encryption",
    "x-amz-object-lock-",
    "x-amz-grant-",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
    "x-amz-mfa",
    "x-amz-if-match-initiated-time",
    "x-amz-if-match-last-modified-time",
    "x-amz-if-match-size",
    "x-amz-tagging",
];

/// Headers that may only have the value that matches the store's behaviour.
const FIXED: [(&str, &str); 4] = [
    ("x-amz-acl", "private"),
    ("x-amz-storage-class", "STANDARD"),
    ("x-amz-object-ownership", "BucketOwnerEnforced"),
    ("x-amz-bucket-namespace", "global"),
];

/// The only pair of keys.
pub(super) struct Keys(pub(super) Option<(String, String)>);

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match &self.0 {
            Some((known, secret)) if known == access_key => Ok(secret.as_str().into()),
            _ => Err(s3_error!(InvalidAccessKeyId, "the access key is not known to this store")),
        }
    }
}

pub(super) struct Door;

#[async_trait::async_trait]
impl S3Access for Door {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let (method, uri, headers) = (context.method(), context.uri(), context.headers());
        check(context.credentials().is_some(), method, uri, headers)
    }
}

/// Refuses requests without a signature, and those for features that this store lacks.
pub(super) fn check(
    is_signed: bool,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> S3Result<()> {
    if !is_signed {
        return Err(s3_error!(AccessDenied, "a signature is needed"));
    }
    check_signed(headers, uri.query().unwrap_or_default())?;
    parameters::check(method, uri, headers)?;
    for (name, value) in headers {
        let name = name.as_str();
        let is_fixed = |(fixed, only): &(&str, &str)| {
            *fixed == name && !value.as_bytes().eq_ignore_ascii_case(only.as_bytes())
        };
        if REFUSED.iter().any(|refused| name.starts_with(refused))
            || FIXED.iter().any(is_fixed)
            || has_unknown_checksum(name, value)
        {
            return Err(s3_error!(NotImplemented, "this store does not do what {name} asks"));
        }
        if name.ends_with("expected-bucket-owner") && value != OWNER {
            return Err(s3_error!(AccessDenied, "buckets of this store belong to \"{OWNER}\""));
        }
    }
    Ok(())
}

/// Returns whether a header is, or announces in the trailer, a checksum that would not be checked.
fn has_unknown_checksum(name: &str, value: &HeaderValue) -> bool {
    let is_unknown = |name: &str| {
        name.trim().strip_prefix("x-amz-checksum-").is_some_and(|rest| {
            let is_sum = Algorithm::ALL.into_iter().any(|algorithm| algorithm.name() == rest);
            !is_sum && !["algorithm", "mode", "type"].contains(&rest)
        })
    };
    match name {
        "x-amz-trailer" => {
            value.to_str().is_ok_and(|names| names.to_ascii_lowercase().split(',').any(is_unknown))
        }
        _ => is_unknown(name),
    }
}

/// Headers that are part of a signature without being named in it.
const NAMELESS: [&str; 2] = ["x-amz-date", "x-amz-content-sha256"];

/// Maximum lifetime of a presigned URL: seven days.
const PRESIGNED_SECONDS_MAX: u64 = 7 * 24 * 60 * 60;

/// Refuses a header that a proxy or the holder of a URL could have added or changed, a URL that was
/// signed for longer than S3 allows, and version 2 of signatures, whose URLs may never expire.
fn check_signed(headers: &HeaderMap, query: &str) -> S3Result<()> {
    let in_header = headers.get(AUTHORIZATION).map(|value| value.to_str().unwrap_or_default());
    if parameters::value(query, "Signature").is_some()
        || in_header.is_some_and(|text| text.starts_with("AWS "))
    {
        return Err(s3_error!(
            AccessDenied,
            "the signature is of version 2, and this store takes version 4 alone: \
             in boto3, Config(signature_version=\"s3v4\")"
        ));
    }
    if let Some(life) = parameters::value(query, "X-Amz-Expires")
        && !life.parse::<u64>().is_ok_and(|life_s| life_s <= PRESIGNED_SECONDS_MAX)
    {
        return Err(s3_error!(
            AuthorizationQueryParametersError,
            "X-Amz-Expires must be at most {PRESIGNED_SECONDS_MAX} seconds"
        ));
    }
    let in_query = parameters::value(query, "X-Amz-SignedHeaders");
    let signed = match (in_header, in_query) {
        (Some(_), Some(_)) => {
            return Err(s3_error!(
                InvalidArgument,
                "the address and a header are signed, only one of them may be"
            ));
        }
        (None, names) => names,
        (Some(text), None) => text
            .split_once("SignedHeaders=")
            .map(|(_, rest)| rest.split(',').next().unwrap_or_default().trim().to_owned()),
    };
    let Some(signed) = signed else {
        return Err(s3_error!(AccessDenied, "the signature does not say which headers it covers"));
    };
    let is_covered = |name: &str| {
        !name.starts_with("x-amz-")
            || NAMELESS.contains(&name)
            || signed.split(';').any(|known| known.eq_ignore_ascii_case(name))
    };
    match headers.keys().find(|name| !is_covered(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(s3_error!(AccessDenied, "the header {name} is not signed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(signed: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-amz-copy-source", "/b/k".parse().unwrap());
        headers.insert("x-amz-date", "20130524T000000Z".parse().unwrap());
        if let Some(signed) = signed {
            let text =
                format!("AWS4-HMAC-SHA256 Credential=k, SignedHeaders={signed}, Signature=s");
            headers.insert("authorization", text.parse().unwrap());
        }
        headers
    }

    #[test]
    fn an_unsigned_header_is_refused_with_any_kind_of_signature() {
        let signed = "host;x-amz-copy-source;x-amz-date";
        assert!(check_signed(&headers(Some(signed)), "").is_ok());
        let refused = check_signed(&headers(Some("host;x-amz-date")), "").unwrap_err();
        assert_eq!(refused.code().as_str(), "AccessDenied");
        assert!(check_signed(&headers(None), "X-Amz-SignedHeaders=host").is_err());
        let query = "X-Amz-SignedHeaders=host%3Bx-amz-copy-source";
        assert!(check_signed(&headers(None), query).is_ok());
        for query in ["", "X-Amz-Signed%48eaders=host"] {
            assert!(check_signed(&headers(None), query).is_err(), "{query}");
        }
        // The signature in the URL is checked, so the signed headers would be trusted.
        let both = check_signed(&headers(Some(signed)), "X-Amz-SignedHeaders=host").unwrap_err();
        assert_eq!(both.code().as_str(), "InvalidArgument");
    }

    #[test]
    fn a_presigned_url_lasts_at_most_seven_days() {
        let life = |text: &str| {
            let query = format!("X-Amz-SignedHeaders=host&X-Amz-Expires={text}");
            check_signed(&HeaderMap::new(), &query)
        };
        assert!(life("604800").is_ok());
        for refused in ["604801", "315360000", "-1", "9e9", "99999999999999999999999"] {
            let error = life(refused).unwrap_err();
            assert_eq!(error.code().as_str(), "AuthorizationQueryParametersError", "{refused}");
        }
    }
}
