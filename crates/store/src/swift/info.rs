//! What this store can do, as `/info` says it.

use http::StatusCode;
use serde_json::json;

use super::answer::json as json_reply;
use super::listing::LISTING_LIMIT;
use super::objects::{OBJECT_BYTES_MAX, large};
use super::{Swift, bulk, call};
use crate::exchange::reply::Reply;

/// Name of the policy of containers for which none was named.
pub(super) const DEFAULT_POLICY: &str = "default";

/// Answers `GET /info`.
pub(super) fn info(swift: &Swift) -> Reply {
    let document = json!({
        "swift": {
            "version": concat!("loadstone ", env!("CARGO_PKG_VERSION")),
            "max_file_size": OBJECT_BYTES_MAX,
            "max_container_name_length": 256,
            "max_object_name_length": 1024,
            "max_meta_name_length": call::METADATA_NAME_MAX,
            "max_meta_value_length": call::METADATA_VALUE_MAX,
            "max_meta_count": call::METADATA_COUNT_MAX,
            "max_meta_overall_size": call::METADATA_BYTES_MAX,
            "container_listing_limit": LISTING_LIMIT,
            "account_listing_limit": LISTING_LIMIT,
            "policies": [{"name": DEFAULT_POLICY, "aliases": DEFAULT_POLICY, "default": true}],
        },
        "slo": {
            "max_manifest_segments": large::SEGMENTS_MAX,
            "max_manifest_size": large::MANIFEST_BYTES_MAX,
            "min_segment_size": 1,
        },
        "dlo": {"max_segments": LISTING_LIMIT},
        "bulk_delete": {"max_deletes_per_request": bulk::DELETES_MAX, "max_failed_deletes": 1000},
        "bulk_upload": {"max_containers_per_extraction": 10_000},
        "tempurl": {"methods": ["GET", "HEAD", "PUT", "POST", "DELETE"],
                    "allowed_digests": ["sha1", "sha256", "sha512"]},
        "object_versioning": {},
        "symlink": {"symloop_max": 10, "static_links": false},
        "tempauth": {"account_acls": false},
        "loadstone": {"region": swift.region},
    });
    json_reply(StatusCode::OK, &document)
}
