//! Every parameter and header that the store reads, with invalid values.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Request, Scene};

/// Requests before their query: one of each route that reads what stands in it.
const LINES: [&str; 33] = [
    "GET /?",
    "GET /bucket?",
    "GET /bucket?list-type=2&",
    "GET /bucket?versions&",
    "GET /bucket?uploads&",
    "PUT /bucket?",
    "PUT /bucket?tagging&",
    "PUT /bucket?versioning&",
    "POST /bucket?delete&",
    "GET /bucket/key?",
    "HEAD /bucket/key?",
    "GET /bucket/key?tagging&",
    "GET /bucket/key?attributes&",
    "GET /bucket/key?uploadId=UPLOAD&",
    "PUT /bucket/key?",
    "PUT /bucket/key?tagging&",
    "DELETE /bucket/key?tagging&",
    "PUT /bucket/key?partNumber=1&uploadId=UPLOAD&",
    "POST /bucket/key?uploads&",
    "POST /bucket/key?uploadId=UPLOAD&",
    "DELETE /bucket/key?uploadId=none&",
    "DELETE /bucket/key?",
    "GET /v1/AUTH_test?",
    "POST /v1/AUTH_test?",
    "GET /v1/AUTH_test/bucket?",
    "PUT /v1/AUTH_test/bucket?",
    "POST /v1/AUTH_test/bucket?",
    "GET /v1/AUTH_test/bucket/key?",
    "HEAD /v1/AUTH_test/bucket/key?",
    "PUT /v1/AUTH_test/bucket/key?",
    "POST /v1/AUTH_test/bucket/key?",
    "COPY /v1/AUTH_test/bucket/key?",
    "DELETE /v1/AUTH_test/bucket/key?",
];

const PARAMETERS: [&str; 37] = [
    "bucket-region",
    "bulk-delete",
    "continuation-token",
    "delimiter",
    "encoding-type",
    "end_marker",
    "extract-archive",
    "fetch-owner",
    "format",
    "key-marker",
    "limit",
    "marker",
    "max-buckets",
    "max-keys",
    "max-parts",
    "max-uploads",
    "multipart-manifest",
    "part-number-marker",
    "partNumber",
    "path",
    "prefix",
    "response-content-type",
    "response-expires",
    "reverse",
    "start-after",
    "symlink",
    "temp_url_expires",
    "temp_url_sig",
    "upload-id-marker",
    "uploadId",
    "version-id",
    "version-id-marker",
    "versionId",
    "versions",
    "X-Amz-Date",
    "X-Amz-Expires",
    "X-Amz-Signature",
];

const HEADERS: [&str; 64] = [
    "accept",
    "authorization",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "content-type",
    "date",
    "destination",
    "etag",
    "expires",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "origin",
    "range",
    "x-account-meta-temp-url-key",
    "x-amz-bucket-object-lock-enabled",
    "x-amz-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-mode",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
    "x-amz-checksum-type",
    "x-amz-content-sha256",
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-range",
    "x-amz-date",
    "x-amz-decoded-content-length",
    "x-amz-expected-bucket-owner",
    "x-amz-if-match-last-modified-time",
    "x-amz-if-match-size",
    "x-amz-max-parts",
    "x-amz-meta-a",
    "x-amz-metadata-directive",
    "x-amz-mp-object-size",
    "x-amz-object-attributes",
    "x-amz-part-number-marker",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-security-token",
    "x-amz-storage-class",
    "x-amz-tagging",
    "x-amz-tagging-directive",
    "x-amz-trailer",
    "x-auth-token",
    "x-container-meta-a",
    "x-container-read",
    "x-copy-from",
    "x-delete-after",
    "x-delete-at",
    "x-object-manifest",
    "x-object-meta-a",
    "x-storage-policy",
    "x-symlink-target",
    "x-timestamp",
    "x-trans-id-extra",
    "x-versions-enabled",
];

/// Values as a header carries them; in a query they are written as percent signs and digits.
const VALUES: [&[u8]; 18] = [
    b"",
    b"x\ty",
    b"\xff\xfe",
    "é\u{2028}".as_bytes(),
    b"%00%0a%ff",
    b"%",
    b"\"",
    b"*",
    b"/",
    b"-1",
    b"0",
    b"18446744073709551616",
    b"9223372036854775807",
    b"bytes=9223372036854775807-18446744073709551615",
    b"Fri, 31 Dec 9999 23:59:59 GMT",
    b"Thu, 01 Jan 0001 00:00:00 GMT",
    b"+300000-12-31T23:59:59Z",
    b"/bucket/key?versionId=\x01",
];

/// Values that only a query can carry.
const CONTROLS: [&[u8]; 3] = [b"\0", b"a\r\nb: c", b"\x7f\x01"];

fn in_query(value: &[u8]) -> String {
    value.iter().map(|byte| format!("%{byte:02X}")).collect()
}

/// Asks; says what was asked where the answer is not as it must be.
fn ask(scene: &mut Scene, text: &[u8]) {
    let request = Request::parse(&scene.filled_in(text)).expect("it is one");
    let asked = catch_unwind(AssertUnwindSafe(|| scene.ask(&request)));
    assert!(asked.is_ok(), "answered wrongly: {}", String::from_utf8_lossy(text));
}

#[test]
fn no_value_of_a_parameter_is_an_error_of_the_stores() {
    for line in LINES {
        let mut scene = Scene::new(line.as_bytes());
        for name in PARAMETERS {
            for value in VALUES.iter().chain(&CONTROLS) {
                let text = format!("{line}{name}={}\n\nbody", in_query(value));
                ask(&mut scene, text.as_bytes());
            }
        }
        scene.end();
    }
}

#[test]
fn no_value_of_a_header_is_an_error_of_the_stores() {
    for line in LINES {
        let mut scene = Scene::new(line.as_bytes());
        let line = line.trim_end_matches(['?', '&']);
        for name in HEADERS {
            for value in VALUES {
                let text = [line.as_bytes(), b"\n", name.as_bytes(), b": ", value, b"\n\nbody"];
                ask(&mut scene, &text.concat());
            }
        }
        scene.end();
    }
}
