//! The query parameters that the store reads. S3 distinguishes operations by them: if unknown ones
//! were ignored, a rename would be taken for a PUT, and a delete of settings for a delete of the
//! bucket.

use http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;
use s3s::{S3Result, s3_error};

use crate::exchange::route;

/// Each parameter, with the methods that read it: of a bucket or the account, and of an object.
const READ: [(&str, &str, &str); 28] = [
    ("bucket-region", "GET", ""),
    ("continuation-token", "GET", ""),
    ("delete", "POST", ""),
    ("delimiter", "GET", ""),
    ("encoding-type", "GET", "GET"),
    ("fetch-owner", "GET", ""),
    ("key-marker", "GET", ""),
    ("legal-hold", "", "PUT"),
    ("list-type", "GET", ""),
    ("location", "GET", ""),
    ("marker", "GET", ""),
    ("max-buckets", "GET", ""),
    ("max-keys", "GET", ""),
    ("max-parts", "", "GET"),
    ("max-uploads", "GET", ""),
    ("object-lock", "GET", ""),
    ("part-number-marker", "", "GET"),
    ("partNumber", "", "GET HEAD PUT"),
    ("prefix", "GET", ""),
    ("retention", "", "PUT"),
    ("start-after", "GET", ""),
    ("upload-id-marker", "GET", ""),
    ("uploadId", "", "DELETE GET POST PUT"),
    ("uploads", "GET", "POST"),
    ("version-id-marker", "GET", ""),
    ("versionId", "", "DELETE GET HEAD"),
    ("versioning", "GET PUT", ""),
    ("versions", "GET", ""),
];

/// Refuses a request with a parameter that this store does not read there.
pub(super) fn check(method: &Method, uri: &Uri, headers: &HeaderMap) -> S3Result<()> {
    let is_of_object = route::has_key(uri, headers);
    let query = uri.query().unwrap_or_default();
    let is_lock = names(query).any(|name| name == "legal-hold" || name == "retention");
    let is_read = |name: &str| {
        let row = READ.iter().find(|(known, ..)| *known == name);
        let methods =
            row.map_or("", |(_, bucket, object)| if is_of_object { object } else { bucket });
        methods.split(' ').any(|known| known == method.as_str())
            // A lock applies to a given version, but a put never does.
            || (name == "versionId" && is_lock)
            // Parameters of signatures, and those that clients add for logs.
            || name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("x-"))
    };
    match names(query).find(|name| !is_read(name)) {
        None => Ok(()),
        Some(name) => {
            Err(s3_error!(NotImplemented, "this store does not do what the parameter {name} asks"))
        }
    }
}

/// Returns the first value of a parameter, in any encoding of its name.
pub(super) fn value(query: &str, name: &str) -> Option<String> {
    pairs(query).find(|(known, _)| decoded(known) == name).map(|(_, value)| decoded(value))
}

fn names(query: &str) -> impl Iterator<Item = String> {
    pairs(query).map(|(name, _)| decoded(name))
}

fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    parts.map(|part| part.split_once('=').unwrap_or((part, "")))
}

fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(line: &str) -> bool {
        let (method, uri) = line.split_once(' ').unwrap();
        check(&method.parse().unwrap(), &uri.parse().unwrap(), &HeaderMap::new()).is_ok()
    }

    #[test]
    fn a_parameter_is_refused_where_no_operation_reads_it() {
        for line in [
            "GET /b?list-type=2&prefix=a&x-id=ListObjectsV2",
            "GET /b?versions&key-marker=k&version-id-marker=v",
            "PUT /b/k?partNumber=1&uploadId=u",
            "DELETE /b/k?versionId=v&X-Amz-Signature=s",
            "PUT /b/k?",
            "PUT /b/k?legal-hold&versionId=v",
        ] {
            assert!(is_allowed(line), "{line}");
        }
        for line in [
            "PUT /b/k?renameObject",
            "PUT /b/k?tagging",
            "PUT /b/k?rename%4Fbject",
            "DELETE /b/k?annotation",
            "DELETE /b?metadataConfiguration",
            "DELETE /b?versioning",
            "DELETE /b/k?versions",
            "PUT /b/k?versionId=v",
            "DELETE /b/k?legal-hold",
            "GET /b/k?uploads",
        ] {
            assert!(!is_allowed(line), "{line}");
        }
    }
}
