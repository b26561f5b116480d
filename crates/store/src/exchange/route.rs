//! Determines the API and the class of a request.

use http::{HeaderMap, Method, Uri, header};

use crate::faults::RequestClass;

/// An API of the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Api {
    S3,
    Swift,
}

/// Returns the API of a request.
///
/// Swift's paths cannot be buckets (`v1` and `v3` are too short), except for `auth` and `info`: a
/// request with an S3 signature is never Swift's.
pub(crate) fn api(uri: &Uri, headers: &HeaderMap) -> Api {
    let path = uri.path();
    let first = path[1.min(path.len())..].split('/').next().unwrap_or_default();
    let is_swift = match first {
        "v1" | "v3" => true,
        "auth" => path.starts_with("/auth/v1.0"),
        "info" | "healthcheck" => path.len() == first.len() + 1,
        _ => false,
    };
    let is_signed = headers
        .get(header::AUTHORIZATION)
        .is_some_and(|value| value.as_bytes().starts_with(b"AWS"))
        || uri.query().is_some_and(|query| query.contains("Signature="));
    if is_swift && !is_signed { Api::Swift } else { Api::S3 }
}

/// Returns the bucket in a host name like `bucket.localhost:8000`.
pub(crate) fn bucket_of_host(host: &str) -> Option<&str> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.strip_suffix(".localhost").filter(|bucket| !bucket.is_empty())
}

/// Returns whether a request to S3 is for an object, rather than for a bucket or the account.
pub(crate) fn has_key(uri: &Uri, headers: &HeaderMap) -> bool {
    let path = uri.path().strip_prefix('/').unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match bucket_of_host(host) {
        Some(_) => !path.is_empty(),
        None => path.split_once('/').is_some_and(|(_, key)| !key.is_empty()),
    }
}

/// Returns the class of a request.
pub(crate) fn class(api: Api, method: &Method, uri: &Uri, headers: &HeaderMap) -> RequestClass {
    match api {
        Api::S3 => class_of_s3(method, uri, headers),
        Api::Swift => class_of_swift(method, uri),
    }
}

fn class_of_s3(method: &Method, uri: &Uri, headers: &HeaderMap) -> RequestClass {
    let has_key = has_key(uri, headers);
    let names = |wanted: &[&str]| {
        uri.query().is_some_and(|query| {
            query.split('&').any(|pair| {
                let name = pair.split('=').next().unwrap_or_default();
                wanted.contains(&name)
            })
        })
    };
    let is_about = names(&["location", "versioning"]);
    match *method {
        Method::GET if has_key && names(&["uploadId"]) => RequestClass::List,
        Method::GET if is_about => RequestClass::Head,
        Method::GET if has_key => RequestClass::Get,
        Method::GET => RequestClass::List,
        Method::HEAD => RequestClass::Head,
        Method::PUT if has_key && is_about => RequestClass::Post,
        Method::PUT if has_key => RequestClass::Put,
        Method::POST if names(&["delete"]) => RequestClass::Delete,
        Method::POST => RequestClass::Put,
        Method::DELETE if has_key => RequestClass::Delete,
        _ => RequestClass::Bucket,
    }
}

fn class_of_swift(method: &Method, uri: &Uri) -> RequestClass {
    let mut parts = uri.path().splitn(5, '/').skip(1);
    if parts.next() != Some("v1") {
        return RequestClass::Token;
    }
    let container = parts.nth(1).unwrap_or_default();
    let has_object = parts.next().is_some_and(|object| !object.is_empty());
    let is_bulk_delete = uri.query().is_some_and(|query| query.contains("bulk-delete"));
    match method.as_str() {
        "POST" | "DELETE" if is_bulk_delete => RequestClass::Delete,
        "GET" if has_object => RequestClass::Get,
        "GET" => RequestClass::List,
        "HEAD" => RequestClass::Head,
        "PUT" | "COPY" if has_object => RequestClass::Put,
        "POST" if has_object || container.is_empty() => RequestClass::Post,
        "DELETE" if has_object => RequestClass::Delete,
        _ => RequestClass::Bucket,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(method: &str, uri: &str, is_signed: bool) -> (Api, RequestClass) {
        let mut headers = HeaderMap::new();
        if is_signed {
            headers.insert(header::AUTHORIZATION, "AWS4-HMAC-SHA256 x".parse().unwrap());
        }
        let (method, uri) = (method.parse().unwrap(), uri.parse().unwrap());
        let api = api(&uri, &headers);
        (api, class(api, &method, &uri, &headers))
    }

    #[test]
    fn requests_go_to_the_api_whose_path_or_signature_they_carry() {
        assert_eq!(routed("GET", "/v1/AUTH_test/c/o", false), (Api::Swift, RequestClass::Get));
        assert_eq!(routed("GET", "/auth/v1.0", false), (Api::Swift, RequestClass::Token));
        assert_eq!(routed("POST", "/v3/auth/tokens", false), (Api::Swift, RequestClass::Token));
        assert_eq!(routed("GET", "/info", false).0, Api::Swift);
        assert_eq!(routed("GET", "/info", true).0, Api::S3);
        assert_eq!(routed("GET", "/info/key", false).0, Api::S3);
        assert_eq!(routed("GET", "/auth/key?X-Amz-Signature=1", false).0, Api::S3);
        assert_eq!(routed("GET", "/", false).0, Api::S3);
    }

    #[test]
    fn requests_have_classes() {
        let class = |method, uri| routed(method, uri, true).1;
        assert_eq!(class("GET", "/bucket"), RequestClass::List);
        assert_eq!(class("GET", "/bucket/?prefix=a/b"), RequestClass::List);
        assert_eq!(class("GET", "/bucket/key"), RequestClass::Get);
        assert_eq!(class("GET", "/bucket/key?uploadId=1"), RequestClass::List);
        assert_eq!(class("PUT", "/bucket/key?partNumber=1&uploadId=1"), RequestClass::Put);
        assert_eq!(class("PUT", "/bucket"), RequestClass::Bucket);
        assert_eq!(class("POST", "/bucket?delete"), RequestClass::Delete);
        let class = |method, uri| routed(method, uri, false).1;
        assert_eq!(class("COPY", "/v1/AUTH_t/c/o"), RequestClass::Put);
        assert_eq!(class("POST", "/v1/AUTH_t?bulk-delete"), RequestClass::Delete);
        assert_eq!(class("POST", "/v1/AUTH_t/c"), RequestClass::Bucket);
        assert_eq!(class("DELETE", "/v1/AUTH_t/c/o/p"), RequestClass::Delete);
        assert_eq!(class("HEAD", "/v1/AUTH_t/c"), RequestClass::Head);
    }

    #[test]
    fn a_host_below_localhost_names_a_bucket() {
        assert_eq!(bucket_of_host("a.b.localhost:80"), Some("a.b"));
        assert_eq!(bucket_of_host("localhost:80"), None);
        assert_eq!(bucket_of_host("127.0.0.1:80"), None);
    }
}
