//! Concurrent requests for the parts of one object: their order, their times, and failures.

mod scripted;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use loadstone_loadgen::run::{Control, Output, Summary, run_trial};
use loadstone_loadgen::trial::Trial;
use scripted::{Asked, Server, Step, payload, s3_trial, say, trial};
use serde_json::{Value, json};

/// Answers like a store whose bucket is ours and which accepts uploads; `part` answers requests for
/// parts, by number.
fn store(part: impl Fn(usize, &Asked) -> Vec<Step> + Send + Sync + 'static) -> Server {
    Server::start(move |asked| {
        if !asked.is_read {
            return Vec::new();
        }
        let mark = br#"{"loadstone": 1, "run": "0123456789abcdef0123456789abcdef"}"#;
        let id = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
        match asked.line.as_str() {
            line if line.starts_with("GET /b/.loadstone-mark") => say("200 OK", "", mark),
            line if line.starts_with("HEAD ") => say("200 OK", "", b""),
            line if line.contains("?uploads ") => say("200 OK", "", id),
            line if line.contains("partNumber=") => part(number(line), asked),
            line if line.starts_with("DELETE ") => say("204 No Content", "", b""),
            _ => say("200 OK", "", b"<CompleteMultipartUploadResult/>"),
        }
    })
}

fn number(line: &str) -> usize {
    let text = line.split("partNumber=").nth(1).expect("a request for a part");
    text.split('&').next().unwrap().parse().expect("a number")
}

fn good(part: usize) -> Vec<Step> {
    say("200 OK", &format!("ETag: \"e{part}\"\r\n"), b"")
}

/// A trial of one client on objects of eight parts, four of them in flight.
fn document(server: &Server, operation: &str, requests: u64, changes: Value) -> Value {
    let mut whole = json!({"options": {"part_bytes": 512, "part_concurrency": 4}});
    let changes = changes.as_object().expect("a map").clone();
    whole.as_object_mut().expect("a map").extend(changes);
    s3_trial(server, operation, requests, whole)
}

/// Parts in the record: those in histograms, failed ones, and bytes of all.
type Parts = (u64, u64, u64);

fn run(document: &Value) -> (Summary, Parts) {
    run_with(document, &Control::default())
}

fn run_with(document: &Value, control: &Control) -> (Summary, Parts) {
    let trial = Trial::parse(&document.to_string()).expect("the test's document is sound");
    let mut parts = (0, 0, 0);
    let mut sink = |output: Output<'_>| {
        let Output::Seconds(Some(batch), _) = output else { return true };
        let encoded = batch.column_by_name("part").expect("a column").as_binary::<i32>();
        for bytes in encoded.iter().flatten() {
            let mut reader = hdrhistogram::serialization::Deserializer::new();
            let histogram: hdrhistogram::Histogram<u64> =
                reader.deserialize(&mut &*bytes).expect("a histogram");
            parts.0 += histogram.len();
        }
        let sum = |name| {
            let column = batch.column_by_name(name).expect("a column");
            column.as_primitive::<Int64Type>().values().iter().sum::<i64>() as u64
        };
        parts.1 += sum("parts_failed");
        parts.2 += sum("bytes");
        true
    };
    let summary = run_trial(&trial, control, &mut sink).expect("the target is as it must be");
    (summary, parts)
}

fn lines_of(server: &Server, start: &str) -> usize {
    server.lines().iter().filter(|line| line.starts_with(start)).count()
}

#[test]
fn four_parts_are_in_flight_and_end_out_of_order() {
    // The first four are answered only after all four have arrived, and then the later ones first.
    let four = Barrier::new(4);
    let server = store(move |part, _| {
        four.wait();
        let late = Duration::from_millis(5 * (8 - part as u64));
        [vec![Step::Wait(late)], good(part)].concat()
    });
    let (summary, parts) = run(&document(&server, "multipart_put", 2, json!({})));
    assert_eq!((summary.requests, summary.failed), (2, 0), "{:?}", summary.error_examples);
    assert_eq!((summary.bytes, parts), (2 * 4096, (16, 0, 2 * 4096)));
    // One more connection prepared the bucket.
    assert_eq!(summary.connections_opened, 4);
    let asked = server.asked.lock().unwrap();
    let mut bodies = asked.iter().filter(|asked| asked.is("POST /b/o0?uploadId"));
    let body = String::from_utf8(bodies.next().expect("a completion").body.clone()).unwrap();
    let places: Vec<_> = (1..=8).map(|part| body.find(&format!("e{part}")).unwrap()).collect();
    assert!(places.is_sorted(), "{body}");
    let object = payload(&document(&server, "multipart_put", 1, json!({})));
    for asked in asked.iter().filter(|asked| asked.line.contains("partNumber")) {
        let start = (number(&asked.line) - 1) * 512;
        assert!(asked.body == object[start..start + 512], "{}", asked.line);
    }
}

#[test]
fn a_part_that_fails_ends_the_upload_when_those_in_flight_have_ended() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ended);
    let server = store(move |part, _| {
        if part == 2 {
            return say("500 Internal Server Error", "", b"");
        }
        std::thread::sleep(Duration::from_millis(100));
        counter.fetch_add(1, Ordering::Relaxed);
        good(part)
    });
    let (summary, parts) = run(&document(&server, "multipart_put", 1, json!({})));
    assert_eq!((summary.requests, summary.failed), (1, 1));
    let text = &summary.error_examples["http_500"];
    assert!(text.contains("PUT /b/o0?partNumber=2"), "{text}");
    // Four parts of 512 bytes were sent, and no more.
    assert_eq!((ended.load(Ordering::Relaxed), parts), (3, (3, 1, 4 * 512)));
    assert_eq!(server.lines().last().unwrap(), "DELETE /b/o0?uploadId=u HTTP/1.1");
    assert_eq!(lines_of(&server, "POST /b/o0?uploadId"), 0, "nothing is completed");
}

#[test]
fn an_upload_that_times_out_is_aborted() {
    let server = store(|part, _| match part {
        3 => vec![Step::Wait(Duration::from_secs(3))],
        _ => good(part),
    });
    let changes = json!({"timeout_ns": 300_000_000});
    let (summary, parts) = run(&document(&server, "multipart_put", 1, changes));
    assert!(summary.error_examples.contains_key("timeout"), "{:?}", summary.error_examples);
    assert_eq!(parts.1, 1);
    assert_eq!(lines_of(&server, "DELETE /b/o0?uploadId=u"), 1);
}

#[test]
fn a_part_is_sent_again_if_its_kept_connection_is_reset() {
    let is_reset = Mutex::new(false);
    let server = store(move |part, _| {
        // The connections of parts 5 to 8 have served other parts.
        let mut is_reset = is_reset.lock().unwrap();
        if part != 7 || *is_reset {
            return good(part);
        }
        *is_reset = true;
        vec![Step::Reset]
    });
    let (summary, parts) = run(&document(&server, "multipart_put", 1, json!({})));
    assert_eq!((summary.failed, parts), (0, (8, 0, 4096)), "{:?}", summary.error_examples);
    assert_eq!(summary.requests_repeated, 1);
}

#[test]
fn a_part_fails_if_its_new_connection_is_reset() {
    let server = store(|part, _| if part == 2 { vec![Step::Reset] } else { good(part) });
    let (summary, parts) = run(&document(&server, "multipart_put", 1, json!({})));
    assert_eq!((summary.failed, parts.1), (1, 1));
    assert!(summary.error_examples.contains_key("reset"), "{:?}", summary.error_examples);
    assert_eq!(lines_of(&server, "DELETE /b/o0?uploadId=u"), 1);
}

#[test]
fn a_stop_in_the_middle_leaves_no_upload() {
    let control = Control::default();
    let (stopper, begun) = (control.clone(), AtomicUsize::new(0));
    let server = store(move |_, _| {
        if begun.fetch_add(1, Ordering::Relaxed) == 3 {
            stopper.stop();
        }
        vec![Step::Wait(Duration::from_secs(5))]
    });
    let (summary, _) = run_with(&document(&server, "multipart_put", 5, json!({})), &control);
    assert_eq!((summary.requests, lines_of(&server, "PUT /b/o0?partNumber")), (0, 4));
    assert_eq!(server.lines().last().unwrap(), "DELETE /b/o0?uploadId=u HTTP/1.1");
}

#[test]
fn a_stop_does_not_wait_for_a_silent_store() {
    let control = Control::default();
    let stopper = control.clone();
    let server = Server::start(move |asked| {
        let mark = br#"{"loadstone": 1, "run": "0123456789abcdef0123456789abcdef"}"#;
        match asked.line.as_str() {
            line if line.starts_with("GET /b/.loadstone-mark") => say("200 OK", "", mark),
            line if line.starts_with("HEAD ") => say("200 OK", "", b""),
            _ => {
                stopper.stop();
                vec![Step::Wait(Duration::from_secs(120))]
            }
        }
    });
    let changes = json!({"timeout_ns": 100_000_000_000_u64});
    let (summary, _) = run_with(&document(&server, "multipart_put", 5, changes), &control);
    let took_ns = summary.ended_unix_ns - summary.started_unix_ns;
    assert!(took_ns < 60_000_000_000, "it waited for its timeout: {took_ns}");
}

#[test]
fn an_object_is_read_in_parts_and_each_is_checked() {
    let nowhere = Server { address: "127.0.0.1:1".parse().unwrap(), asked: Arc::default() };
    for (breaks, mismatches) in [(false, 0), (true, 1)] {
        let object = payload(&document(&nowhere, "multipart_get", 1, json!({})));
        let four = Barrier::new(4);
        let server = Server::start(move |asked| {
            if !asked.is_read {
                return Vec::new();
            }
            let range =
                asked.head.lines().find_map(|line| line.strip_prefix("range: bytes=")).unwrap();
            let (first, last) = range.split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            if !breaks {
                four.wait();
            }
            let mut body = object[first..=last].to_vec();
            if breaks && first == 512 {
                body[100] ^= 1;
            }
            let header = format!("Content-Range: bytes {range}/4096\r\n");
            say("206 Partial Content", &header, &body)
        });
        let (summary, parts) = run(&document(&server, "multipart_get", 1, json!({})));
        assert_eq!(summary.mismatches.values().sum::<u64>(), mismatches, "{breaks}");
        if !breaks {
            assert_eq!((summary.bytes, summary.verified_bytes, parts), (4096, 4096, (8, 0, 4096)));
        }
    }
}

#[test]
fn segments_of_a_large_object_are_sent_concurrently_and_the_manifest_last() {
    let four = Barrier::new(4);
    let server = Server::start(move |asked| {
        if !asked.is_read {
            return Vec::new();
        }
        let address = asked.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        let mark = "X-Container-Meta-Loadstone: {\"loadstone\": 1, \"run\": \"0123456789abcdef0123456789abcdef\"}\r\n";
        match asked.line.as_str() {
            line if line.starts_with("GET /auth") => say(
                "200 OK",
                &format!("X-Auth-Token: t\r\nX-Storage-Url: http://{address}/v1/a\r\n"),
                b"",
            ),
            line if line.starts_with("HEAD ") => say("204 No Content", mark, b""),
            line if line.contains(".part-") => {
                four.wait();
                let number = line.split(".part-").nth(1).unwrap().split(' ').next().unwrap();
                say("201 Created", &format!("ETag: e{number}\r\n"), b"")
            }
            line if line.contains("multipart-manifest=put") => say("201 Created", "", b""),
            _ => say("204 No Content", "", b""),
        }
    });
    let settings = json!({
        "auth_url": format!("http://{}/auth/v1.0", server.address),
        "user": "u", "password": {"file": scripted::secret_file()},
    });
    let options = json!({"options": {"part_bytes": 512, "part_concurrency": 4}});
    let (summary, parts) = run(&trial("swift", settings, "multipart_put", 1, options));
    assert_eq!(
        (summary.failed, summary.bytes, parts),
        (0, 4096, (8, 0, 4096)),
        "{:?}",
        summary.error_examples
    );
    let asked = server.asked.lock().unwrap();
    let manifest = asked.last().unwrap();
    assert!(manifest.line.contains("multipart-manifest=put"), "{}", manifest.line);
    let body = String::from_utf8(manifest.body.clone()).unwrap();
    let places: Vec<_> = (0..8).map(|part| body.find(&format!("\"e{part}\"")).unwrap()).collect();
    assert!(places.is_sorted(), "{body}");
}
