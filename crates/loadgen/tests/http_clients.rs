//! HTTP clients over several requests: multipart uploads, buckets, tokens, and TLS.

mod scripted;

use std::io::BufReader;
use std::net::TcpStream;
use std::sync::Arc;

use loadstone_loadgen::run::{Control, run_trial};
use loadstone_loadgen::trial::Trial;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use scripted::{Server, Step, answer, payload, run, s3_trial, say, secret_file, trial};
use serde_json::{Value, json};

const CERTIFICATE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates/certificate.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/certificates/key.pem");

/// Answers like a store whose bucket carries our mark.
fn marked(asked: &scripted::Asked) -> Option<Vec<Step>> {
    let mark = br#"{"loadstone": 1, "run": "0123456789abcdef0123456789abcdef"}"#;
    let is_mark = asked.is("GET /b/.loadstone-mark");
    (is_mark || asked.is("HEAD ")).then(|| say("200 OK", "", if is_mark { mark } else { b"" }))
}

#[test]
fn an_upload_in_parts_starts_sends_and_completes() {
    let server = Server::start(|asked| {
        marked(asked).unwrap_or_else(|| match asked.line.as_str() {
            line if line.contains("?uploads ") => {
                let id = "<InitiateMultipartUploadResult><UploadId>a/b</UploadId></InitiateMultipartUploadResult>";
                say("200 OK", "", id.as_bytes())
            }
            line if line.contains("partNumber") => say("200 OK", "ETag: \"e\"\r\n", b""),
            _ => say("200 OK", "", b"<CompleteMultipartUploadResult/>"),
        })
    });
    let summary = run(&s3_trial(&server, "multipart_put", 1, json!({})));
    assert_eq!((summary.failed, summary.bytes), (0, 4096), "{:?}", summary.error_examples);
    let lines = server.lines();
    assert_eq!(
        lines[2..],
        [
            "POST /b/o0?uploads HTTP/1.1",
            "PUT /b/o0?partNumber=1&uploadId=a%2Fb HTTP/1.1",
            "PUT /b/o0?partNumber=2&uploadId=a%2Fb HTTP/1.1",
            "POST /b/o0?uploadId=a%2Fb HTTP/1.1",
        ]
    );
}

#[test]
fn an_upload_that_fails_late_is_aborted_and_reported() {
    let server = Server::start(|asked| {
        marked(asked).unwrap_or_else(|| match asked.line.as_str() {
            line if line.contains("?uploads ") => {
                let id = "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
                say("200 OK", "", id.as_bytes())
            }
            line if line.contains("partNumber") => say("200 OK", "ETag: \"e\"\r\n", b""),
            line if line.starts_with("DELETE") => say("204 No Content", "", b""),
            // Blanks while the store works, then the error, all with a success status.
            _ => say("200 OK", "", b"  \n<Error><Code>SlowDown</Code><Message>later</Message></Error>"),
        })
    });
    let summary = run(&s3_trial(&server, "multipart_put", 1, json!({})));
    let text = &summary.error_examples["throttled"];
    assert!(text.contains("POST /b/o0?uploadId=u") && text.contains("SlowDown"), "{text}");
    assert_eq!(server.lines().last().unwrap(), "DELETE /b/o0?uploadId=u HTTP/1.1");
}

#[test]
fn a_copy_that_fails_after_its_status_is_a_failure() {
    let server = Server::start(|asked| {
        let error = b"<Error><Code>InternalError</Code></Error>";
        marked(asked).unwrap_or_else(|| say("200 OK", "", error))
    });
    let summary = run(&s3_trial(&server, "copy", 2, json!({})));
    assert_eq!(summary.failed, 2);
    assert!(summary.error_examples.contains_key("http_500"), "{:?}", summary.error_examples);
}

#[test]
fn each_range_of_an_answer_is_checked() {
    let document = |server: &Server| s3_trial(server, "multi_range_get", 4, json!({}));
    let nowhere = Server { address: "127.0.0.1:1".parse().unwrap(), asked: Default::default() };
    let object = payload(&document(&nowhere));
    let server = Server::start(move |asked| {
        let ranges =
            asked.head.lines().find_map(|line| line.strip_prefix("range: bytes=")).unwrap();
        let mut body = Vec::new();
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            body.extend(format!("\r\n--xyz\r\nContent-Range: bytes {range}/4096\r\n\r\n").bytes());
            body.extend_from_slice(&object[first..=last]);
        }
        body.extend_from_slice(b"\r\n--xyz--\r\n");
        if asked.number == 3 {
            let place = body.len() - 40;
            body[place] ^= 1;
        }
        say("206 Partial Content", "Content-Type: multipart/byteranges; boundary=xyz\r\n", &body)
    });
    let summary = run(&document(&server));
    assert_eq!((summary.requests, summary.failed), (4, 1), "{:?}", summary.error_examples);
    // Three ranges of 100 bytes each, checked in every answer.
    assert_eq!(summary.verified_bytes, 4 * 300);
}

#[test]
fn a_target_without_multiple_ranges_is_unsupported_and_not_a_data_loss() {
    for status in ["200 OK", "206 Partial Content"] {
        for operation in ["multi_range_get", "range_get"] {
            let nowhere =
                Server { address: "127.0.0.1:1".parse().unwrap(), asked: Default::default() };
            let object = payload(&s3_trial(&nowhere, operation, 4, json!({})));
            let server = Server::start(move |asked| {
                let range =
                    asked.head.lines().find_map(|line| line.strip_prefix("range: bytes=")).unwrap();
                if status.starts_with("200") {
                    return say(status, "", &object);
                }
                let range = range.split(',').next().unwrap();
                let (first, last) = range.split_once('-').unwrap();
                let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
                let header = format!("Content-Range: bytes {range}/4096\r\n");
                say(status, &header, &object[first..=last])
            });
            let summary = run(&s3_trial(&server, operation, 4, json!({})));
            let kinds: Vec<&str> = summary.error_examples.keys().map(String::as_str).collect();
            // A single range is the right answer to a request for a single range.
            let is_right = status.starts_with("206") && operation == "range_get";
            let expected: &[&str] = if is_right { &[] } else { &["unsupported"] };
            assert_eq!(kinds, expected, "{operation}, {status}");
            assert_eq!(summary.connections_opened, 1, "the answers were whole");
            let message = summary.error_examples.values().next().map_or("", String::as_str);
            assert!(message.len() < 200, "no payload in a message: {message}");
        }
    }
}

#[test]
fn a_bucket_that_is_not_ours_is_refused_before_load() {
    let claim = Arc::new(std::sync::Mutex::new(false));
    let script = move |asked: &scripted::Asked| {
        let mut is_claimed = claim.lock().unwrap();
        *is_claimed |= asked.is("PUT /b/o.loadstone-claim");
        match asked.line.as_str() {
            line if line.starts_with("GET /b/.loadstone-mark") => say("404 Not Found", "", b""),
            line if line.starts_with("GET /b/o.loadstone-claim") => match *is_claimed {
                true => say(
                    "200 OK",
                    "",
                    br#"{"loadstone": 1, "run": "0123456789abcdef0123456789abcdef"}"#,
                ),
                false => say("404 Not Found", "", b""),
            },
            line if line.starts_with("GET /b?") => say("200 OK", "", b"<ListBucketResult/>"),
            _ => say("200 OK", "", b""),
        }
    };
    let server = Server::start(script);
    let put = |changes| s3_trial(&server, "put", 1, changes);
    let parsed = Trial::parse(&put(json!({})).to_string()).unwrap();
    let error = run_trial(&parsed, &Control::default(), &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("use bucket \"b\": it exists"), "{error}");
    assert!(error.contains("\nhint: "), "{error}");
    assert!(!server.lines().iter().any(|line| line.starts_with("PUT")), "nothing was written");
    assert_eq!(run(&put(json!({"allow_foreign": true}))).buckets_foreign, ["b"]);
}

#[test]
fn a_bucket_in_the_url_of_the_endpoint_is_reported() {
    let server = Server::start(|_| {
        let body = b"<Error><Code>NoSuchBucket</Code><Message>no such bucket</Message></Error>";
        say("404 Not Found", "", body)
    });
    let mut document = s3_trial(&server, "put", 1, json!({}));
    let error_of = |document: &Value| {
        let parsed = Trial::parse(&document.to_string()).unwrap();
        run_trial(&parsed, &Control::default(), &mut |_| true).unwrap_err().to_string()
    };
    assert!(!error_of(&document).contains("has a path"));
    let with_bucket = format!("http://{}/mine", server.address);
    document["target"]["settings"]["endpoints"] = with_bucket.into();
    let error = error_of(&document);
    assert!(error.contains("has a path: a bucket does not belong there"), "{error}");
}

#[test]
fn nothing_is_written_into_a_bucket_that_the_url_of_the_endpoint_names() {
    // Answers like a store that contains the bucket `mine`: the rest of the path is a key.
    let server = Server::start(|asked| match asked.is("PUT ") {
        true => say("200 OK", "", b""),
        false => {
            let body = b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>";
            say("404 Not Found", "", if asked.is("HEAD ") { b"" } else { body })
        }
    });
    let mut document = s3_trial(&server, "put", 1, json!({}));
    document["target"]["settings"]["endpoints"] = format!("http://{}/mine", server.address).into();
    let trial = Trial::parse(&document.to_string()).unwrap();
    let error = run_trial(&trial, &Control::default(), &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("has a path: a bucket does not belong there"), "{error}");
    assert!(!server.lines().iter().any(|line| line.starts_with("PUT")), "nothing was written");
}

/// Answers like a bucket of ours with an endless listing: page after page.
fn endless(next: impl Fn(u64) -> String + Send + Sync + 'static) -> Server {
    Server::start(move |asked| {
        marked(asked).unwrap_or_else(|| match asked.is("GET /b?") {
            true => say("200 OK", "", next(asked.number).as_bytes()),
            false => say("204 No Content", "", b""),
        })
    })
}

fn page(key: &str, token: &str) -> String {
    format!(
        "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>{key}</Key>\
         <Size>1</Size></Contents><NextContinuationToken>{token}</NextContinuationToken>\
         </ListBucketResult>"
    )
}

#[test]
fn a_clean_up_with_an_endless_listing_ends_and_reports_why() {
    use loadstone_loadgen::run::LeftKind;
    type Next = fn(u64) -> String;
    let repeats: Next = |number| page(&format!("o-{number}"), "again");
    let no_new_keys: Next = |number| page("o-1", &format!("t{number}"));
    let never_ends: Next = |number| page(&format!("o-{number}"), &format!("t{number}"));
    let undeletable: Next = |number| page("o0", &format!("t{number}"));
    for next in [repeats, no_new_keys, never_ends, undeletable] {
        let server = endless(next);
        let stop = json!({"requests": null, "duration_ns": null});
        let changes = json!({"phase": "clean-up", "stop": stop});
        let summary = run(&s3_trial(&server, "delete", 1, changes));
        let [left] = &summary.places_left[..] else { panic!("{:?}", summary.places_left) };
        assert_eq!((left.place.as_str(), left.kind), ("b", LeftKind::Listing), "{left:?}");
        assert_eq!(summary.buckets_left, ["b"]);
        assert!(!server.lines().iter().any(|line| line == "DELETE /b HTTP/1.1"));
    }
}

#[test]
fn an_endless_token_of_a_listing_is_cut_in_the_error() {
    let token: &'static str = "t".repeat(1 << 20).leak();
    let server = Server::start(move |asked| {
        marked(asked).unwrap_or_else(|| match asked.is("GET /b?") {
            _ if asked.line.len() > token.len() => say("414 URI Too Long", "", b""),
            true => say("200 OK", "", page("x", token).as_bytes()),
            false => say("204 No Content", "", b""),
        })
    });
    let changes = json!({"phase": "clean-up", "stop": {"requests": null, "duration_ns": null}});
    let trial = Trial::parse(&s3_trial(&server, "delete", 1, changes).to_string()).unwrap();
    let error = run_trial(&trial, &Control::default(), &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("HTTP 414") && error.len() < 1000, "{error}");
}

#[test]
fn objects_that_are_still_listed_are_not_reported_as_deleted() {
    use loadstone_loadgen::run::LeftKind;
    let server = Server::start(|asked| {
        marked(asked).unwrap_or_else(|| match asked.is("GET /b?") {
            true => say(
                "200 OK",
                "",
                b"<ListBucketResult><Contents><Key>o0</Key><Size>1</Size></Contents></ListBucketResult>",
            ),
            false => say("204 No Content", "", b""),
        })
    });
    let changes = json!({"phase": "clean-up", "stop": {"requests": null, "duration_ns": null}});
    let summary = run(&s3_trial(&server, "delete", 1, changes));
    let [left] = &summary.places_left[..] else { panic!("{:?}", summary.places_left) };
    assert_eq!((left.kind, left.objects), (LeftKind::Undeletable, Some(1)), "{left:?}");
    assert_eq!(summary.objects_swept, 0);
}

fn swift_settings(server: &Server) -> Value {
    json!({
        "auth_url": format!("http://{}/auth/v1.0", server.address),
        "user": "test:tester",
        "password": {"file": secret_file()},
    })
}

#[test]
fn a_token_that_seems_expired_causes_no_storm_of_log_ins() {
    // Expired at once, an expiry that overflows, and an invalid one.
    for life in ["0", "18446744073709551615", "-5"] {
        let server = Server::start(move |asked| {
            let host = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            if asked.is("GET /auth/v1.0") {
                let headers = format!(
                    "X-Storage-Url: http://{host}/v1/AUTH_test\r\nX-Auth-Token: token\r\n\
                     X-Auth-Token-Expires: {life}\r\n"
                );
                return say("200 OK", &headers, b"");
            }
            say("200 OK", "", b"")
        });
        let changes = json!({"load": {"kind": "closed", "clients": 4}, "verify": 0.0});
        let summary = run(&trial("swift", swift_settings(&server), "head", 200, changes));
        let asked = server.lines().iter().filter(|line| line.contains("/auth/v1.0")).count();
        assert_eq!((asked, summary.log_ins.count, summary.requests), (1, 0, 200), "{life}");
    }
}

#[test]
fn a_target_that_rejects_every_token_causes_no_storm_of_log_ins() {
    // The identity service continues to issue tokens, or fails after the first.
    for (lasts, kind) in [(true, "http_401"), (false, "auth")] {
        let server = Server::start(move |asked| {
            let host = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            if !asked.is("GET /auth/v1.0") {
                // Containers exist: only the requests of the load are refused.
                let is_object = asked.head.lines().next().unwrap().matches('/').count() > 4;
                return say(if is_object { "401 Unauthorized" } else { "200 OK" }, "", b"");
            }
            if !lasts && asked.number > 0 {
                return say("503 Service Unavailable", "", b"");
            }
            let headers =
                format!("X-Storage-Url: http://{host}/v1/AUTH_test\r\nX-Auth-Token: token\r\n");
            say("200 OK", &headers, b"")
        });
        let began = std::time::Instant::now();
        let changes = json!({"load": {"kind": "closed", "clients": 4}, "verify": 0.0});
        let summary = run(&trial("swift", swift_settings(&server), "head", 200, changes));
        let seconds = began.elapsed().as_secs();
        let asked = server.lines().iter().filter(|line| line.contains("/auth/v1.0")).count();
        assert_eq!(summary.log_ins.count + 1, asked as u64);
        assert!(summary.log_ins.count >= 1 && summary.log_ins.took_ns > 0, "{:?}", summary.log_ins);
        assert!(summary.log_ins.count <= 1 + seconds, "{:?} in {seconds} s", summary.log_ins);
        assert_eq!(summary.error_examples.keys().collect::<Vec<_>>(), [kind]);
    }
}

#[test]
fn only_429_and_498_mean_throttling_in_swift() {
    for (status, kind) in [
        ("429 Too Many Requests", "throttled"),
        ("498 Rate Limited", "throttled"),
        ("503 Service Unavailable", "http_503"),
        ("507 Insufficient Storage", "no_space"),
    ] {
        let server = Server::start(move |asked| {
            let host = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            if asked.is("GET /auth/v1.0") {
                let headers =
                    format!("X-Storage-Url: http://{host}/v1/AUTH_test\r\nX-Auth-Token: token\r\n");
                return say("200 OK", &headers, b"");
            }
            say(status, "", b"")
        });
        let changes = json!({"verify": 0.0});
        let summary = run(&trial("swift", swift_settings(&server), "get", 2, changes));
        assert_eq!(summary.error_examples.keys().collect::<Vec<_>>(), [kind]);
    }
}

#[test]
fn a_log_in_that_echoes_its_request_reveals_no_secret() {
    let secret = std::fs::read_to_string(secret_file()).unwrap();
    let server = Server::start(|asked| {
        let body = format!("{}: you sent {}", ".".repeat(170), asked.head);
        say("403 Forbidden", "", body.as_bytes())
    });
    let document = trial("swift", swift_settings(&server), "get", 1, json!({}));
    let parsed = Trial::parse(&document.to_string()).unwrap();
    let error = run_trial(&parsed, &Control::default(), &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("HTTP 403"), "{error}");
    for start in 0..secret.trim().len() - 3 {
        assert!(!error.contains(&secret[start..start + 4]), "{error}");
    }
}

#[test]
fn a_rejected_token_is_renewed_once_for_all_clients() {
    let server = Server::start(|asked| {
        let host = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        if asked.is("GET /auth/v1.0") {
            let number = if asked.number == 0 { 1 } else { 2 };
            let headers = format!(
                "X-Storage-Url: http://{host}/v1/AUTH_test\r\nX-Auth-Token: token{number}\r\n"
            );
            return say("200 OK", &headers, b"");
        }
        match asked.head.contains("x-auth-token: token2") {
            true => say("201 Created", "", b""),
            false => say("401 Unauthorized", "", b""),
        }
    });
    let settings = swift_settings(&server);
    let changes = json!({"load": {"kind": "closed", "clients": 8}, "verify": 0.0});
    let document = trial("swift", settings, "get", 64, changes);
    let summary = run(&document);
    let log_ins = server.lines().iter().filter(|line| line.contains("/auth/v1.0")).count();
    assert_eq!(log_ins, 2, "one at the start and one renewal");
    assert!(summary.requests_repeated >= 1);
    // The script answers reads with 201, which is unexpected; none may be 401.
    assert_eq!(summary.error_examples.keys().collect::<Vec<_>>(), ["http_201"]);
}

#[test]
fn a_log_in_that_is_refused_names_no_secret() {
    let server = Server::start(|_| say("401 Unauthorized", "", b"no"));
    let document = trial("swift", swift_settings(&server), "get", 1, json!({}));
    let parsed = Trial::parse(&document.to_string()).unwrap();
    let error = run_trial(&parsed, &Control::default(), &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("log in") && error.contains("HTTP 401"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

fn tls_server(body: Vec<u8>) -> Server {
    let certificate = CertificateDer::from_pem_file(CERTIFICATE).expect("the test's certificate");
    let key = PrivateKeyDer::from_pem_file(KEY).expect("the test's key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key is the certificate's");
    let config = Arc::new(config);
    let wrap = move |stream: TcpStream| -> Box<dyn scripted::Stream> {
        let session = rustls::ServerConnection::new(Arc::clone(&config)).expect("a session");
        Box::new(rustls::StreamOwned::new(session, stream))
    };
    Server::start_with(move |_| vec![Step::Say(answer("200 OK", "", &body))], wrap)
}

fn over_tls(server: &Server, tls: Value, size: u64) -> Value {
    let mut settings = json!({
        "endpoints": format!("https://{}", server.address),
        "access_key": "key", "secret_key": {"file": secret_file()},
    });
    settings["tls"] = tls;
    let dataset = json!({"bucket_prefix": "b", "buckets": 1, "objects": 1, "object_prefix": "o",
                         "size": {"kind": "fixed", "bytes": size}});
    trial("s3", settings, "get", 5, json!({"dataset": dataset}))
}

#[test]
fn tls_trusts_the_given_authority() {
    let nowhere = Server { address: "127.0.0.1:1".parse().unwrap(), asked: Default::default() };
    let size = 3_000_000;
    let server = tls_server(payload(&over_tls(&nowhere, json!({}), size)));
    let trusted = run(&over_tls(&server, json!({"ca_file": CERTIFICATE}), size));
    assert_eq!((trusted.failed, trusted.verified_bytes), (0, 5 * size), "{trusted:?}");
    assert_eq!(trusted.connections_opened, 1);
    let anybody = run(&over_tls(&server, json!({"verify": false}), size));
    assert_eq!(anybody.failed, 0, "{:?}", anybody.error_examples);
}

#[test]
fn an_untrusted_certificate_has_its_own_outcome() {
    let server = tls_server(Vec::new());
    let summary = run(&over_tls(&server, json!({}), 0));
    assert_eq!(summary.failed, 5);
    let text = &summary.error_examples["tls"];
    assert!(text.contains("certificate"), "{text}");
}

#[test]
fn the_test_certificate_is_readable() {
    let file = std::fs::File::open(CERTIFICATE).expect("it is in the tree");
    assert_eq!(CertificateDer::pem_reader_iter(BufReader::new(file)).count(), 1);
}
