//! Reads whose `Range` is not a single range of bytes: S3 ignores the header and returns the whole
//! object.

use http::header::{AUTHORIZATION, RANGE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Uri};
use s3s::dto::Range;
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};

use super::door;

/// Forwards such a read without the header, which the `s3s` crate would refuse. A route is called
/// after the signature, which covers the header, was checked; so the service that it forwards to
/// requires none.
pub(super) struct Unranged(pub(super) S3Service);

#[async_trait::async_trait]
impl S3Route for Unranged {
    fn is_match(
        &self,
        method: &Method,
        _: &Uri,
        headers: &HeaderMap,
        _: &mut http::Extensions,
    ) -> bool {
        let is_range =
            |text: &http::HeaderValue| text.to_str().is_ok_and(|t| Range::parse(t).is_ok());
        [Method::GET, Method::HEAD].contains(method)
            && headers.get(RANGE).is_some_and(|text| !is_range(text))
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        let is_signed = request.credentials.is_some();
        door::check(is_signed, &request.method, &request.uri, &request.headers)
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let mut plain = Request::new(request.input);
        *plain.method_mut() = request.method;
        *plain.uri_mut() = unsigned(&request.uri)?;
        *plain.headers_mut() = request.headers;
        plain.headers_mut().remove(RANGE);
        plain.headers_mut().remove(AUTHORIZATION);
        let reply = self.0.call(plain).await.map_err(|_| s3_error!(InternalError))?;
        let (parts, body) = reply.into_parts();
        let mut response = S3Response::with_status(body, parts.status);
        response.headers = parts.headers;
        Ok(response)
    }
}

/// Returns a URL without the signature in its query.
fn unsigned(uri: &Uri) -> S3Result<Uri> {
    let query = uri.query().unwrap_or_default().split('&');
    let parts: Vec<_> = query.filter(|part| !part.starts_with("X-Amz-")).collect();
    let text = format!("{}?{}", uri.path(), parts.join("&"));
    let path: PathAndQuery = text.parse().map_err(|_| s3_error!(InvalidURI))?;
    Ok(path.into())
}
