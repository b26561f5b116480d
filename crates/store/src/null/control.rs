//! The state of the null server: buckets, their settings, and the small objects that mark them.
//!
//! A load generator creates buckets, marks them as its own and checks the mark before it deletes
//! anything. So these few requests are answered from a small table; all others are answered without
//! any state.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::request::Request;

/// Maximum length of the body of a stored request.
pub(super) const BODY_BYTES_MAX: usize = 4 << 20;

/// Objects whose name has this prefix are stored.
const MARK_PREFIX: &str = ".loadstone";
/// Swift headers that are stored for a container.
const METADATA_PREFIX: &str = "x-container-meta-";

/// Maximum number of entries; nothing more is stored.
const ENTRIES_MAX: usize = 100_000;

/// The table of buckets and marks.
#[derive(Debug, Default)]
pub(super) struct Memory {
    table: Mutex<BTreeMap<String, Remembered>>,
}

#[derive(Clone, Debug, Default)]
struct Remembered {
    body: Vec<u8>,
    metadata: Vec<(String, String)>,
}

/// An answer that is written for one request.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: &'static str,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    fn new(status: &'static str) -> Answer {
        Answer { status, headers: Vec::new(), body: Vec::new() }
    }

    fn with_body(status: &'static str, content_type: &str, body: impl Into<Vec<u8>>) -> Answer {
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        Answer { status, headers, body: body.into() }
    }

    fn header(mut self, name: &str, value: impl Into<String>) -> Answer {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// Returns whether a request is answered from the table, or concerns tokens.
pub(super) fn is_control(request: &Request<'_>) -> bool {
    let (bucket, key) = request.place();
    if request.path.starts_with("/v3") || request.path.starts_with("/auth/v1.0") {
        return true;
    }
    let name = key.rsplit('/').next().unwrap_or_default();
    bucket.is_empty() || key.is_empty() || name.starts_with(MARK_PREFIX)
}

impl Memory {
    /// Answers a request whose body has been received.
    pub(super) fn answer(
        &self,
        request: &Request<'_>,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Answer {
        let host = headers.iter().find(|(name, _)| name == "host").map_or("localhost", |h| &h.1);
        if request.path.starts_with("/auth/v1.0") {
            return token_v1(host);
        }
        if request.path.starts_with("/v3") {
            return token_v3(request, host);
        }
        let (bucket, key) = request.place();
        if key.is_empty() {
            return self.answer_bucket(request, bucket, headers, body);
        }
        let place = format!("{bucket}/{key}");
        match request.method {
            "PUT" => {
                self.keep(place, Remembered { body: body.to_vec(), metadata: Vec::new() });
                written(request)
            }
            "GET" | "HEAD" => match self.find(&place) {
                Some(stored) => {
                    Answer::with_body("200 OK", "application/octet-stream", stored.body)
                }
                None => missing("NoSuchKey"),
            },
            "DELETE" => match (self.forget(&place), request.is_swift()) {
                (false, true) => missing("NoSuchKey"),
                _ => Answer::new("204 No Content"),
            },
            _ => Answer::new("202 Accepted"),
        }
    }

    fn answer_bucket(
        &self,
        request: &Request<'_>,
        bucket: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Answer {
        let is_bulk =
            request.parameter("delete").is_some() || request.parameter("bulk-delete").is_some();
        if is_bulk && request.method == "POST" {
            return deleted_many(request, body);
        }
        if bucket.is_empty() {
            return match request.is_swift() {
                true => self.list_swift("", request),
                false => self.list_buckets(),
            };
        }
        let settings = request.query.split(['=', '&']).next().unwrap_or_default();
        let is_setting = matches!(settings, "tagging" | "versioning" | "policy" | "lifecycle");
        let place = if is_setting { format!("{bucket}?{settings}") } else { bucket.to_owned() };
        match request.method {
            "PUT" | "POST" => {
                let metadata = headers
                    .iter()
                    .filter(|(name, _)| name.starts_with(METADATA_PREFIX))
                    .cloned()
                    .collect();
                self.keep(place, Remembered { body: body.to_vec(), metadata });
                match (request.is_swift(), request.method) {
                    (true, "PUT") => Answer::new("201 Created"),
                    (true, _) => Answer::new("204 No Content"),
                    (false, _) if is_setting => Answer::new("204 No Content"),
                    (false, _) => Answer::new("200 OK").header("Location", format!("/{bucket}")),
                }
            }
            "DELETE" => {
                let was_there = self.forget(&place);
                match was_there || is_setting {
                    true => Answer::new("204 No Content"),
                    false => missing("NoSuchBucket"),
                }
            }
            _ => match self.find(&place) {
                None if is_setting => missing("NoSuchTagSet"),
                None => missing("NoSuchBucket"),
                Some(stored) if is_setting => {
                    Answer::with_body("200 OK", "application/xml", stored.body)
                }
                Some(stored) => self.show_bucket(request, bucket, stored),
            },
        }
    }

    fn show_bucket(&self, request: &Request<'_>, bucket: &str, stored: Remembered) -> Answer {
        let mut answer = match (request.method, request.is_swift()) {
            ("HEAD", true) => Answer::new("204 No Content"),
            ("HEAD", false) => Answer::new("200 OK"),
            (_, true) => self.list_swift(bucket, request),
            (_, false) => Answer::with_body("200 OK", "application/xml", list_s3(bucket)),
        };
        if request.is_swift() {
            answer = answer
                .header("X-Container-Object-Count", "0")
                .header("X-Container-Bytes-Used", "0");
        }
        answer.headers.extend(stored.metadata);
        answer
    }

    fn list_buckets(&self) -> Answer {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let buckets: String = table
            .keys()
            .filter(|name| !name.contains(['/', '?']))
            .map(|name| format!("<Bucket><Name>{name}</Name></Bucket>"))
            .collect();
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListAllMyBucketsResult>\
             <Buckets>{buckets}</Buckets></ListAllMyBucketsResult>"
        );
        Answer::with_body("200 OK", "application/xml", body)
    }

    /// Lists a container, or the account, as empty: objects are not stored.
    fn list_swift(&self, _container: &str, request: &Request<'_>) -> Answer {
        match (request.method, request.parameter("format")) {
            ("GET", Some("json")) => Answer::with_body("200 OK", "application/json", "[]"),
            _ => Answer::new("204 No Content"),
        }
    }

    fn find(&self, place: &str) -> Option<Remembered> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).get(place).cloned()
    }

    fn keep(&self, place: String, entry: Remembered) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() < ENTRIES_MAX {
            table.insert(place, entry);
        }
    }

    fn forget(&self, place: &str) -> bool {
        self.table.lock().unwrap_or_else(PoisonError::into_inner).remove(place).is_some()
    }
}

fn written(request: &Request<'_>) -> Answer {
    let status = if request.is_swift() { "201 Created" } else { "200 OK" };
    Answer::new(status).header("ETag", "\"00000000000000000000000000000000\"")
}

fn missing(code: &str) -> Answer {
    let body =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code></Error>");
    Answer::with_body("404 Not Found", "application/xml", body)
}

fn list_s3(bucket: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult><Name>{bucket}</Name>\
         <KeyCount>0</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>\
         </ListBucketResult>"
    )
}

/// Reports that all names were deleted, without reading them.
fn deleted_many(request: &Request<'_>, body: &[u8]) -> Answer {
    if request.is_swift() {
        let count = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        let document = format!(
            "{{\"Number Deleted\": {count}, \"Number Not Found\": 0, \
             \"Response Status\": \"200 OK\", \"Response Body\": \"\", \"Errors\": []}}"
        );
        return Answer::with_body("200 OK", "application/json", document);
    }
    Answer::with_body("200 OK", "application/xml", "<DeleteResult></DeleteResult>")
}

fn token_v1(host: &str) -> Answer {
    Answer::new("200 OK")
        .header("X-Storage-Url", format!("http://{host}/v1/AUTH_null"))
        .header("X-Auth-Token", "AUTH_tknull")
        .header("X-Storage-Token", "AUTH_tknull")
        .header("X-Auth-Token-Expires", "86400")
}

fn token_v3(request: &Request<'_>, host: &str) -> Answer {
    if request.path.trim_end_matches('/') == "/v3" {
        let document = serde_json::json!({"version": {"id": "v3.14", "status": "stable",
            "links": [{"rel": "self", "href": format!("http://{host}/v3/")}]}});
        return Answer::with_body("200 OK", "application/json", document.to_string());
    }
    let interfaces = ["public", "internal", "admin"];
    // Regions for all clients: the null server does not know which one a client will look for.
    let endpoints: Vec<_> = ["us-east-1", "RegionOne", "default"]
        .iter()
        .flat_map(|region| interfaces.iter().map(move |interface| (region, interface)))
        .map(|(region, interface)| {
            serde_json::json!({"region": region, "region_id": region, "interface": interface,
                "url": format!("http://{host}/v1/AUTH_null")})
        })
        .collect();
    let document = serde_json::json!({"token": {
        "methods": ["password"], "issued_at": "2000-01-01T00:00:00.000000Z",
        "expires_at": "2100-01-01T00:00:00.000000Z",
        "user": {"id": "null", "name": "null"}, "project": {"id": "null", "name": "null"},
        "catalog": [{"type": "object-store", "name": "swift", "endpoints": endpoints}]}});
    Answer::with_body("201 Created", "application/json", document.to_string())
        .header("X-Subject-Token", "null")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null::request::{Parsed, parse};

    fn ask(memory: &Memory, line: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let text = format!("{line} HTTP/1.1\r\n\r\n");
        let Parsed::Request(request) = parse(text.as_bytes()) else { panic!("{line}") };
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers: Vec<_> = headers.iter().map(owned).collect();
        assert!(is_control(&request), "{line}");
        memory.answer(&request, &headers, body.as_bytes())
    }

    #[test]
    fn buckets_exist_from_creation_to_deletion() {
        let memory = Memory::default();
        assert!(ask(&memory, "HEAD /b", &[], "").status.starts_with("404"));
        assert_eq!(ask(&memory, "PUT /b", &[], "").status, "200 OK");
        assert_eq!(ask(&memory, "HEAD /b", &[], "").status, "200 OK");
        assert!(ask(&memory, "GET /b?tagging", &[], "").status.starts_with("404"));
        ask(&memory, "PUT /b?tagging", &[], "<Tagging/>");
        assert_eq!(ask(&memory, "GET /b?tagging", &[], "").body, b"<Tagging/>");
        ask(&memory, "PUT /b/.loadstone-mark", &[], "ours");
        assert_eq!(ask(&memory, "GET /b/.loadstone-mark", &[], "").body, b"ours");
        assert!(ask(&memory, "DELETE /b", &[], "").status.starts_with("204"));
        assert!(ask(&memory, "DELETE /b", &[], "").status.starts_with("404"));
    }

    #[test]
    fn containers_keep_the_metadata_that_marks_them() {
        let memory = Memory::default();
        let mark = [("x-container-meta-loadstone", "run"), ("x-other", "no")];
        assert!(ask(&memory, "PUT /v1/AUTH_null/c", &mark, "").status.starts_with("201"));
        let shown = ask(&memory, "HEAD /v1/AUTH_null/c", &[], "").headers;
        assert!(shown.contains(&("x-container-meta-loadstone".into(), "run".into())));
        assert!(!shown.iter().any(|(name, _)| name == "x-other"));
    }

    #[test]
    fn ordinary_objects_are_not_stored() {
        for line in ["GET /b/k", "PUT /v1/AUTH_null/c/o", "GET /b/dir/loadstone"] {
            let text = format!("{line} HTTP/1.1\r\n\r\n");
            let Parsed::Request(request) = parse(text.as_bytes()) else { panic!("{line}") };
            assert!(!is_control(&request), "{line}");
        }
    }
}
