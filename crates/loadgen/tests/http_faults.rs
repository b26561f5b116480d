//! HTTP clients with targets that misbehave: each fault has its own outcome, is counted once, and
//! does not affect the requests that follow.

mod scripted;

use std::time::Duration;

use loadstone_loadgen::run::Summary;
use scripted::{Asked, Server, Step, answer, payload, run, s3_trial, say};
use serde_json::{Value, json};

fn object() -> Vec<u8> {
    let nowhere = Server { address: "127.0.0.1:1".parse().unwrap(), asked: Default::default() };
    payload(&s3_trial(&nowhere, "get", 1, json!({})))
}

/// Reads four times from a server whose second answer is faulty.
fn second_of_four(
    changes: Value,
    fault: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static,
) -> Got {
    let body = object();
    let server = Server::start(move |asked| match asked.number {
        1 => fault(asked),
        _ => say("200 OK", "", &body),
    });
    let summary = run(&s3_trial(&server, "get", 4, changes));
    assert_eq!(summary.requests, 4);
    Got::of(summary)
}

#[derive(Debug)]
struct Got {
    outcome: String,
    text: String,
    failed: u64,
    connections: u64,
    repeated: u64,
    verified: u64,
}

impl Got {
    fn of(summary: Summary) -> Self {
        let mut examples = summary.error_examples.into_iter();
        let (outcome, text) = examples.next().unwrap_or_else(|| ("ok".to_owned(), String::new()));
        assert_eq!(examples.next(), None, "one fault is one kind of failure");
        Self {
            outcome,
            text,
            failed: summary.failed,
            connections: summary.connections_opened,
            repeated: summary.requests_repeated,
            verified: summary.verified_requests,
        }
    }
}

fn expect_failure(got: &Got, outcome: &str) {
    assert_eq!((got.outcome.as_str(), got.failed), (outcome, 1), "{got:?}");
    assert!(got.verified >= 3, "the others are good: {got:?}");
    assert!(got.text.contains("GET /b/o0"), "{got:?}");
    assert!(!got.text.contains("Signature"), "a signature has leaked: {got:?}");
}

fn half(status: &str, announced: usize) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {announced}\r\n\r\n");
    [head.as_bytes(), &object()[..1000]].concat()
}

#[test]
fn valid_answers_are_verified_over_one_connection() {
    let got = second_of_four(json!({}), |_| say("200 OK", "ETag: \"x\"\r\n", &object()));
    assert_eq!((got.failed, got.verified, got.connections), (0, 4, 1), "{got:?}");
}

#[test]
fn an_answer_sent_byte_by_byte_is_valid() {
    let got = second_of_four(json!({}), |_| vec![Step::Dribble(answer("200 OK", "", &object()))]);
    assert_eq!((got.failed, got.verified, got.connections), (0, 4, 1), "{got:?}");
}

#[test]
fn a_chunked_answer_is_read_and_verified() {
    let got = second_of_four(json!({}), |_| {
        let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for piece in object().chunks(1000) {
            bytes.extend(format!("{:x};x=y\r\n", piece.len()).bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\nX-Trailer: 1\r\n\r\n");
        vec![Step::Say(bytes)]
    });
    assert_eq!((got.failed, got.verified, got.connections), (0, 4, 1), "{got:?}");
}

#[test]
fn an_answer_that_ends_with_its_connection_is_valid() {
    let got = second_of_four(json!({}), |_| {
        let bytes = [b"HTTP/1.1 200 OK\r\n\r\n".as_slice(), &object()].concat();
        vec![Step::Say(bytes), Step::Close]
    });
    assert_eq!((got.failed, got.verified, got.connections), (0, 4, 2), "{got:?}");
}

#[test]
fn a_server_that_announces_the_close_gets_a_new_connection() {
    let got = second_of_four(json!({}), |_| {
        vec![Step::Say(answer("200 OK", "Connection: close\r\n", &object())), Step::Close]
    });
    assert_eq!((got.failed, got.connections, got.repeated), (0, 2, 0), "{got:?}");
}

#[test]
fn interim_answers_are_ignored() {
    let got = second_of_four(json!({}), |_| {
        let mut bytes = b"HTTP/1.1 102 Processing\r\n\r\n".to_vec();
        bytes.extend(answer("200 OK", "", &object()));
        vec![Step::Say(bytes)]
    });
    assert_eq!((got.failed, got.verified), (0, 4), "{got:?}");
}

#[test]
fn a_stale_kept_connection_is_not_a_failure() {
    // The server takes the request and closes without an answer, as if it had closed just before.
    let got = second_of_four(json!({}), |_| vec![Step::Close]);
    assert_eq!((got.failed, got.connections, got.repeated), (0, 2, 1), "{got:?}");
}

#[test]
fn a_fresh_connection_that_is_closed_unanswered_is_a_failure() {
    let server = Server::start(|_| vec![Step::Close]);
    let summary = run(&s3_trial(&server, "get", 3, json!({"verify": 0.0})));
    assert_eq!((summary.failed, summary.requests_repeated), (3, 0));
    assert!(summary.error_examples.contains_key("closed"), "{:?}", summary.error_examples);
}

#[test]
fn a_reset_in_the_middle_of_a_body_is_a_reset() {
    let got = second_of_four(json!({}), |_| {
        vec![Step::Say(half("200 OK", 4096)), Step::Wait(Duration::from_millis(50)), Step::Reset]
    });
    expect_failure(&got, "reset");
}

#[test]
fn a_close_in_the_middle_of_a_body_truncates_it() {
    let got = second_of_four(json!({}), |_| vec![Step::Say(half("200 OK", 4096)), Step::Close]);
    expect_failure(&got, "truncated");
}

#[test]
fn an_answer_that_stalls_times_out_and_leaves_the_connection() {
    // Long enough for the successful answers on a busy machine.
    let got = second_of_four(json!({"timeout_ns": 2_000_000_000}), |_| {
        vec![Step::Say(half("200 OK", 4096)), Step::Wait(Duration::from_secs(600))]
    });
    expect_failure(&got, "timeout");
    assert_eq!(got.connections, 2);
}

#[test]
fn a_body_shorter_than_the_object_is_truncated_even_if_its_length_is_announced() {
    let got = second_of_four(json!({}), |_| say("200 OK", "", &object()[..4000]));
    expect_failure(&got, "truncated");
}

#[test]
fn bytes_after_the_answer_are_overlong() {
    let got = second_of_four(json!({}), |_| {
        let bytes = [answer("200 OK", "", &object()).as_slice(), b"more"].concat();
        vec![Step::Say(bytes)]
    });
    expect_failure(&got, "overlong");
    assert_eq!(got.connections, 2, "a connection out of step is not used again");
}

#[test]
fn a_body_longer_than_the_object_is_overlong() {
    let got =
        second_of_four(json!({}), |_| say("200 OK", "", &[object(), b"more".to_vec()].concat()));
    expect_failure(&got, "overlong");
}

#[test]
fn garbage_is_a_protocol_violation() {
    for garbage in ["SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"] {
        let got = second_of_four(json!({}), move |_| vec![Step::Say(garbage.into())]);
        expect_failure(&got, "protocol");
    }
}

#[test]
fn wrong_bytes_are_detected_and_described() {
    let got = second_of_four(json!({}), |_| {
        let mut body = object();
        body[2000] ^= 1;
        say("200 OK", "", &body)
    });
    assert_eq!((got.outcome.as_str(), got.failed), ("corrupt", 1), "{got:?}");
    assert!(got.text.contains("corrupt at offset"), "{got:?}");
}

#[test]
fn a_redirect_is_an_outcome_with_its_destination() {
    let got = second_of_four(json!({}), |_| {
        let headers = "Location: http://b.elsewhere.example/o0\r\n";
        say("307 Temporary Redirect", headers, b"")
    });
    expect_failure(&got, "http_307");
    assert!(got.text.contains("hint: the target says where to go: http://b.elsewhere"), "{got:?}");
    assert_eq!(got.connections, 1);
}

#[test]
fn an_error_document_is_reported_and_the_connection_kept() {
    let got = second_of_four(json!({}), |_| {
        let body = b"<Error><Code>SlowDown</Code><Message>reduce your rate</Message></Error>";
        say("503 Slow Down", "Retry-After: 1\r\n", body)
    });
    expect_failure(&got, "throttled");
    assert!(got.text.contains("HTTP 503 SlowDown: reduce your rate"), "{got:?}");
    assert_eq!(got.connections, 1);
}

#[test]
fn throttling_is_distinguished_from_failures() {
    let error = |code| format!("<Error><Code>{code}</Code><Message>m</Message></Error>");
    for (status, body, kind) in [
        ("429 Too Many Requests", String::new(), "throttled"),
        ("503 Slow Down", error("SlowDown"), "throttled"),
        ("503 Busy", error("SlowDownWrite"), "throttled"),
        ("503 Service Unavailable", error("ServiceUnavailable"), "http_503"),
        ("503 Service Unavailable", "<html>no healthy upstream</html>".to_owned(), "http_503"),
        ("503 Service Unavailable", String::new(), "http_503"),
        ("507 Insufficient Storage", String::new(), "no_space"),
    ] {
        let got = second_of_four(json!({}), move |_| say(status, "", body.as_bytes()));
        expect_failure(&got, kind);
    }
}

#[test]
fn data_with_a_success_status_never_appears_in_messages() {
    let got = second_of_four(json!({}), |_| say("203 Other", "", b"payload-of-somebody"));
    expect_failure(&got, "http_203");
    assert!(!got.text.contains("payload"), "{got:?}");
}

#[test]
fn an_html_page_is_reported_by_its_text() {
    let page = b"<!DOCTYPE html><html><head><style>h1 {color: red}</style></head>\
        <body><h1>Bad Gateway</h1></body></html>";
    let got = second_of_four(json!({}), move |_| say("502 Bad Gateway", "", page));
    expect_failure(&got, "http_502");
    assert!(got.text.contains("HTTP 502 Bad Gateway") && !got.text.contains('<'), "{got:?}");
}

#[test]
fn bursts_of_refusals_are_counted_one_by_one() {
    let body = object();
    let server = Server::start(move |asked| match asked.number / 10 % 2 {
        0 => say("200 OK", "", &body),
        _ => say("503 Busy", "", b""),
    });
    let summary = run(&s3_trial(&server, "get", 100, json!({})));
    assert_eq!((summary.requests, summary.failed, summary.connections_opened), (100, 50, 1));
}

#[test]
fn a_port_without_listener_is_refused() {
    let server = Server::start(|_| Vec::new());
    // Bound, so that the port is in use, but never listening.
    let bound = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    bound.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let address = bound.local_addr().unwrap().as_socket().expect("it is of IPv4");
    let summary = run(&s3_trial(&Server { address, ..server }, "get", 3, json!({})));
    assert_eq!(summary.failed, 3);
    assert!(summary.error_examples.contains_key("refused"), "{:?}", summary.error_examples);
}

#[test]
fn a_connection_per_request_opens_one_for_each() {
    let server = Server::start(|asked| {
        assert!(asked.head.contains("connection: close"), "{}", asked.head);
        vec![Step::Say(answer("200 OK", "", &object())), Step::Close]
    });
    let summary = run(&s3_trial(&server, "get", 7, json!({"connections": "per_request"})));
    assert_eq!((summary.failed, summary.connections_opened), (0, 7));
}

#[test]
fn an_answer_that_comes_before_the_end_of_an_upload_counts() {
    let mark = br#"{"loadstone": 1, "run": "0123456789abcdef0123456789abcdef"}"#;
    let server = Server::start(|asked| match asked.is("PUT ") {
        false => say("200 OK", "", if asked.is("HEAD ") { b"" } else { mark }),
        // Answered after the head: the body is never read.
        true => vec![
            Step::Wait(Duration::ZERO),
            Step::Say(answer("403 Forbidden", "", b"<Error><Code>AccessDenied</Code></Error>")),
            // A close with an unread body resets the connection, which must not overtake the
            // answer.
            Step::Wait(Duration::from_secs(600)),
        ],
    });
    let size = json!({"kind": "fixed", "bytes": 64 << 20});
    let dataset = json!({"bucket_prefix": "b", "buckets": 1, "objects": 1, "object_prefix": "o",
                         "size": size});
    let summary = run(&s3_trial(&server, "put", 1, json!({"dataset": dataset})));
    assert!(summary.error_examples.contains_key("http_403"), "{:?}", summary.error_examples);
}

const LARGE_BYTES: usize = 200_000;

/// Reads large objects four times, unverified, so that the kernel discards them.
fn large_unseen(fault: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> (Got, u64) {
    let body = vec![b'x'; LARGE_BYTES];
    let server = Server::start(move |asked| match asked.number {
        1 => fault(asked),
        _ => say("200 OK", "", &body),
    });
    let changes = json!({
        "verify": 0.0,
        "dataset": {"bucket_prefix": "b", "buckets": 1, "objects": 1, "object_prefix": "o",
                    "size": {"kind": "fixed", "bytes": LARGE_BYTES}},
    });
    let summary = run(&s3_trial(&server, "get", 4, changes));
    assert_eq!((summary.requests, summary.verified_bytes), (4, 0));
    let bytes = summary.bytes;
    (Got::of(summary), bytes)
}

#[test]
fn a_discarded_body_is_counted_to_the_byte() {
    let (got, bytes) = large_unseen(|_| {
        let answer_bytes = answer("200 OK", "", &vec![b'x'; LARGE_BYTES]);
        let (start, rest) = answer_bytes.split_at(70_000);
        let pause = Step::Wait(Duration::from_millis(30));
        vec![Step::Say(start.to_vec()), pause, Step::Say(rest.to_vec())]
    });
    assert_eq!((got.failed, got.connections), (0, 1), "{got:?}");
    assert_eq!(bytes, 4 * LARGE_BYTES as u64);
}

#[test]
fn a_discarded_body_must_not_be_short_long_or_late() {
    let cut = |bytes: Vec<u8>, end: Step| {
        move |_: &Asked| {
            vec![Step::Say(bytes.clone()), Step::Wait(Duration::from_millis(30)), end.clone()]
        }
    };
    let whole = answer("200 OK", "", &vec![b'x'; LARGE_BYTES]);
    let half = whole[..LARGE_BYTES / 2].to_vec();
    let cases = [
        ("truncated", half.clone(), Step::Close),
        ("reset", half, Step::Reset),
        ("overlong", [whole.as_slice(), b"more"].concat(), Step::Wait(Duration::ZERO)),
        ("truncated", answer("200 OK", "", &[b'x'; 150_000]), Step::Wait(Duration::ZERO)),
    ];
    for (outcome, bytes, end) in cases {
        let (got, _) = large_unseen(cut(bytes, end));
        assert_eq!((got.outcome.as_str(), got.failed), (outcome, 1), "{got:?}");
    }
}
