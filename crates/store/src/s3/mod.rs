//! The S3 API: each operation reads its input, works on the account and writes its output.
//!
//! The `s3s` crate implements the protocol itself (routing, signatures, XML).

mod bucket;
mod checksum;
mod copy;
mod delete;
mod door;
mod error;
mod listing;
mod lock;
mod multipart;
mod object;
mod parameters;
mod ranges;
mod translate;

use std::sync::Arc;

use s3s::config::{S3Config, StaticConfigProvider};
use s3s::dto::*;
use s3s::host::{S3Host, VirtualHost};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Request, S3Response, S3Result};

use crate::account::Account;
use crate::exchange::route;
use crate::stored::listing::{is_lost, is_xml};

/// Returns the service of the S3 API.
pub(crate) fn service(
    account: Arc<Account>,
    credentials: Option<(String, String)>,
    region: &str,
) -> S3Service {
    let mut config = S3Config::default();
    // A DeleteObjects request with 1000 keys of 1024 bytes, with room for escapes.
    config.xml_max_body_size = 8 << 20;
    config.normalize_forward_slash_path = false;
    let config = Arc::new(StaticConfigProvider::new(Arc::new(config)));
    let front = || Front { account: account.clone(), region: region.to_owned() };
    let mut within = S3ServiceBuilder::new(front());
    within.set_host(Host);
    within.set_config(config.clone());
    let mut builder = S3ServiceBuilder::new(front());
    builder.set_route(ranges::Unranged(within.build()));
    builder.set_auth(door::Keys(credentials));
    builder.set_access(door::Door);
    builder.set_host(Host);
    builder.set_config(config);
    builder.build()
}

/// Corrects the documents of the `s3s` crate: adds the request's ID to errors, and replaces
/// characters from the request that XML cannot represent, so that the document is well-formed.
pub(crate) fn mend(headers: &mut http::HeaderMap, body: &mut s3s::Body, request_id: &str) {
    let Some(bytes) = body.bytes() else { return };
    let Ok(text) = std::str::from_utf8(&bytes) else { return };
    let carried = match is_xml(text) {
        true => None,
        false => Some(text.replace(is_lost, "\u{fffd}")),
    };
    let text = carried.as_deref().unwrap_or(text);
    let mended = match text.strip_suffix("</Error>") {
        Some(rest) => {
            // An error with its own headers has lost this one.
            let kind = http::HeaderValue::from_static("application/xml");
            headers.entry(http::header::CONTENT_TYPE).or_insert(kind);
            let words = match rest.contains("<Message>") {
                true => String::new(),
                false => format!("<Message>{}</Message>", error::words(rest)),
            };
            format!("{rest}{words}<RequestId>{request_id}</RequestId></Error>")
        }
        None => match carried {
            Some(carried) => carried,
            None => return,
        },
    };
    *body = mended.into();
}

/// Buckets below `localhost`, for clients with virtual-hosted addressing.
struct Host;

impl S3Host for Host {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        Ok(match route::bucket_of_host(host) {
            Some(bucket) => VirtualHost::new("localhost").with_bucket(bucket),
            None => VirtualHost::new(host),
        })
    }
}

/// The S3 API of the account.
struct Front {
    account: Arc<Account>,
    region: String,
}

/// Writes the trait's methods, each of which passes its input to a function of the account.
macro_rules! operations {
    ($($name:ident($input:ty) -> $output:ty = $place:path;)*) => {
        #[async_trait::async_trait]
        impl S3 for Front {
            $(async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                $place(self, request).await
            })*
        }
    };
}

operations! {
    create_bucket(CreateBucketInput) -> CreateBucketOutput = bucket::create;
    delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = bucket::delete;
    head_bucket(HeadBucketInput) -> HeadBucketOutput = bucket::head;
    list_buckets(ListBucketsInput) -> ListBucketsOutput = bucket::list;
    get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = bucket::location;
    get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = bucket::versioning;
    put_bucket_versioning(PutBucketVersioningInput) -> PutBucketVersioningOutput = bucket::set_versioning;
    get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput = lock::configuration;
    put_object_retention(PutObjectRetentionInput) -> PutObjectRetentionOutput = lock::retain;
    put_object_legal_hold(PutObjectLegalHoldInput) -> PutObjectLegalHoldOutput = lock::hold;
    put_object(PutObjectInput) -> PutObjectOutput = object::put;
    get_object(GetObjectInput) -> GetObjectOutput = object::get;
    head_object(HeadObjectInput) -> HeadObjectOutput = object::head;
    delete_object(DeleteObjectInput) -> DeleteObjectOutput = delete::one;
    delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = delete::many;
    copy_object(CopyObjectInput) -> CopyObjectOutput = copy::object;
    upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = copy::part;
    list_objects(ListObjectsInput) -> ListObjectsOutput = listing::version_1;
    list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = listing::version_2;
    list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput = listing::versions;
    create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = multipart::create;
    upload_part(UploadPartInput) -> UploadPartOutput = multipart::part;
    complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = multipart::complete;
    abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = multipart::abort;
    list_parts(ListPartsInput) -> ListPartsOutput = multipart::list_parts;
    list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = multipart::list_uploads;
}
