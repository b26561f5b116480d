//! A server on loopback with scripted answers, and functions to run trials against it.

#![expect(dead_code, reason = "each test program uses a part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loadstone_loadgen::run::{Control, Summary, run_trial};
use loadstone_loadgen::trial::Trial;
use serde_json::{Value, json};

/// A request as the server received it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Number of earlier requests on all connections.
    pub(crate) number: u64,
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body_bytes: usize,
    /// The part of the body that was read.
    pub(crate) body: Vec<u8>,
    /// Whether the body was read; before that, the script is asked whether it needs the body.
    pub(crate) is_read: bool,
}

impl Asked {
    pub(crate) fn is(&self, start: &str) -> bool {
        self.line.starts_with(start)
    }
}

/// The next step of the server.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Say(Vec<u8>),
    /// Sends every byte separately.
    Dribble(Vec<u8>),
    Wait(Duration),
    /// Closes the connection normally.
    Close,
    /// Resets the connection.
    Reset,
}

/// Returns the steps for a request.
pub(crate) type Script = dyn Fn(&Asked) -> Vec<Step> + Send + Sync;

/// The server. It ends with the test's process; nothing waits for it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    pub(crate) fn start(script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::start_with(script, |stream| Box::new(stream))
    }

    /// Starts a server that wraps each connection, in TLS for example.
    pub(crate) fn start_with(
        script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static,
        wrap: impl Fn(TcpStream) -> Box<dyn Stream> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (log, numbers) = (Arc::clone(&asked), Arc::new(AtomicU64::new(0)));
        let (script, wrap): (Arc<Script>, _) = (Arc::new(script), Arc::new(wrap));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, log, numbers) =
                    (Arc::clone(&script), Arc::clone(&log), Arc::clone(&numbers));
                let wrap = Arc::clone(&wrap);
                std::thread::spawn(move || {
                    let raw = stream.try_clone().expect("descriptors are left");
                    serve(wrap(stream), &raw, &*script, &log, &numbers);
                });
            }
        });
        Self { address, asked }
    }

    /// Returns the lines of all requests so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|asked| asked.line.clone()).collect()
    }
}

/// A connection, with or without TLS.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

fn serve(
    mut stream: Box<dyn Stream>,
    raw: &TcpStream,
    script: &Script,
    log: &Mutex<Vec<Asked>>,
    numbers: &AtomicU64,
) {
    while let Some(mut asked) = read_request(&mut stream, script) {
        asked.number = numbers.fetch_add(1, Ordering::Relaxed);
        log.lock().unwrap().push(asked.clone());
        for step in script(&asked) {
            let result = match step {
                Step::Say(bytes) => stream.write_all(&bytes),
                Step::Dribble(bytes) => bytes.iter().try_for_each(|byte| {
                    std::thread::sleep(Duration::from_micros(200));
                    stream.write_all(&[*byte])
                }),
                Step::Wait(time) => {
                    std::thread::sleep(time);
                    Ok(())
                }
                Step::Close => {
                    let _ = stream.flush();
                    let _ = raw.shutdown(std::net::Shutdown::Write);
                    // A reset because of unread data must not overtake the answer.
                    std::thread::sleep(Duration::from_millis(100));
                    return;
                }
                Step::Reset => {
                    let linger = Some(Duration::ZERO);
                    socket2::SockRef::from(raw).set_linger(linger).expect("a socket of ours");
                    return;
                }
            };
            if result.is_err() {
                return;
            }
        }
        let _ = stream.flush();
    }
}

/// Reads a head, and the body unless the script answers after the head.
fn read_request(stream: &mut dyn Stream, script: &Script) -> Option<Asked> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("loadstone sends ASCII");
    let line = head.lines().next().expect("a request line").to_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body_bytes: usize = length.map_or(0, |length| length.parse().expect("a number"));
    let mut asked = Asked { number: 0, line, head, body_bytes, body: Vec::new(), is_read: false };
    if !asked.head.contains("x-test-unread") && !answers_early(script, &asked) {
        asked.body = vec![0; body_bytes];
        stream.read_exact(&mut asked.body).ok()?;
    }
    asked.is_read = true;
    Some(asked)
}

/// A script that starts with a wait of zero does not need the body.
fn answers_early(script: &Script, asked: &Asked) -> bool {
    matches!(script(asked).first(), Some(Step::Wait(Duration::ZERO)))
}

/// Answers with a status, headers and a body of known length.
pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(crate) fn say(status: &str, headers: &str, body: &[u8]) -> Vec<Step> {
    vec![Step::Say(answer(status, headers, body))]
}

/// Returns a trial of one client on an S3 target.
pub(crate) fn s3_trial(server: &Server, operation: &str, requests: u64, changes: Value) -> Value {
    let settings = json!({
        "endpoints": format!("http://{}", server.address),
        "access_key": "key",
        "secret_key": {"file": secret_file()},
    });
    trial("s3", settings, operation, requests, changes)
}

pub(crate) fn trial(
    driver: &str,
    settings: Value,
    operation: &str,
    requests: u64,
    changes: Value,
) -> Value {
    let mut document = json!({
        "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
        "phase": operation,
        "target": {"name": "t", "driver": driver, "settings": settings},
        "dataset": {"bucket_prefix": "b", "buckets": 1, "objects": 1, "object_prefix": "o",
                    "size": {"kind": "fixed", "bytes": 4096}},
        "mix": [{"operation": operation}],
        "options": {"range_bytes": 100, "range_count": 3, "part_bytes": 2048},
        "load": {"kind": "closed", "clients": 1},
        "stop": {"requests": requests},
        "timeout_ns": 10_000_000_000_u64,
    });
    let changes = changes.as_object().expect("changes are a map").clone();
    document.as_object_mut().expect("a map").extend(changes);
    document
}

pub(crate) fn secret_file() -> String {
    let path = std::env::temp_dir().join(format!("loadstone-test-{}", std::process::id()));
    std::fs::write(&path, "secret").expect("the temporary directory is writable");
    path.to_str().expect("a plain path").to_owned()
}

/// Runs a trial.
pub(crate) fn run(document: &Value) -> Summary {
    let trial = Trial::parse(&document.to_string()).expect("the test's document is sound");
    run_trial(&trial, &Control::default(), &mut |_| true).expect("the target is as it must be")
}

/// Returns the payload of the only object of a trial.
pub(crate) fn payload(document: &Value) -> Vec<u8> {
    use loadstone_loadgen::dataset::Dataset;
    use loadstone_loadgen::payload::{ObjectId, PayloadSpec, fill};
    let trial = Trial::parse(&document.to_string()).expect("the test's document is sound");
    let dataset = Dataset::new(&trial);
    let object = ObjectId::new(dataset.key_hash(0), 1, dataset.size(0));
    let mut bytes = vec![0; usize::try_from(object.length).expect("small")];
    fill(&PayloadSpec::of_trial(&trial), &object, 0, &mut bytes);
    bytes
}
