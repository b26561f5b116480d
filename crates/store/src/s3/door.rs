//! Who may come in, and which requests are refused for what this store does not do.

use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};

/// The only owner of buckets and objects.
pub(super) const OWNER: &str = "loadstone";

/// Beginnings of headers that ask for what this store has not. A store that took no notice of them
/// would promise an encryption, a lock or an access rule that does not hold.
const REFUSED: [&str; 7] = [
    "x-amz-server-side-encryption",
    "x-amz-copy-source-server-side-encryption",
    "x-amz-object-lock-",
    "x-amz-grant-",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
    "x-amz-mfa",
];

/// Headers that may only say what this store does anyhow.
const FIXED: [(&str, &str); 5] = [
    ("x-amz-acl", "private"),
    ("x-amz-storage-class", "STANDARD"),
    ("x-amz-object-ownership", "BucketOwnerEnforced"),
    ("x-amz-bucket-object-lock-enabled", "false"),
    ("x-amz-bucket-namespace", "global"),
];

/// The one pair of keys.
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
        check(context.credentials().is_some(), context.headers())
    }
}

/// Refuses requests without a signature, and those that ask for what this store has not.
pub(super) fn check(is_signed: bool, headers: &http::HeaderMap) -> S3Result<()> {
    if !is_signed {
        return Err(s3_error!(AccessDenied, "a signature is needed"));
    }
    for (name, value) in headers {
        let name = name.as_str();
        let is_fixed = |(fixed, only): &(&str, &str)| {
            *fixed == name && !value.as_bytes().eq_ignore_ascii_case(only.as_bytes())
        };
        if REFUSED.iter().any(|refused| name.starts_with(refused)) || FIXED.iter().any(is_fixed) {
            return Err(s3_error!(NotImplemented, "this store does not do what {name} asks"));
        }
        if name.ends_with("expected-bucket-owner") && value != OWNER {
            return Err(s3_error!(AccessDenied, "buckets of this store belong to \"{OWNER}\""));
        }
    }
    Ok(())
}
