//! Clients that make a store hold as much as they can: it stays below what it may take.
//!
//! One test, in a process of its own: the memory of the process is looked at, which is that of the
//! store and of the clients, whose bytes all lie in one array.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use loadstone_store::{Secret, Store, StoreConfig};
use loadstone_wire::digest::sha256;
use loadstone_wire::encode::hex_of_sha256;
use loadstone_wire::http1::Method;
use sha2::Sha256;

use crate::hostile::{signed_head, start_with, until};

mod hostile;

const MEMORY: u64 = 16 << 20;
/// What the process may take besides what the store accounts for: code that is used for the first
/// time, what the allocator keeps free between what is in use, sockets of clients.
const BESIDES: u64 = 4 << 20;
static FILLER: [u8; 64 << 10] = [b'a'; 64 << 10];

/// A connection on which something comes, and then no more.
struct Client {
    stream: TcpStream,
    /// What is sent first, and how many bytes of filler behind it.
    head: Rc<[u8]>,
    filler: usize,
    sent: usize,
}

impl Client {
    fn new(store: &Store, head: impl Into<Rc<[u8]>>, filler: usize) -> Client {
        let stream = TcpStream::connect(store.address()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, head: head.into(), filler, sent: 0 }
    }

    /// Sends what goes at once; returns whether that was anything.
    fn send(&mut self) -> bool {
        let rest = self.head.get(self.sent..).filter(|rest| !rest.is_empty());
        let beyond = (self.head.len() + self.filler).saturating_sub(self.sent);
        let next = rest.unwrap_or(&FILLER[..beyond.min(FILLER.len())]);
        match self.stream.write(next) {
            Ok(length) => {
                self.sent += length;
                length > 0
            }
            Err(error) => {
                // The store may have refused and closed it; then nothing goes any more.
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                    ),
                    "{error}"
                );
                false
            }
        }
    }
}

/// Sends all that the store takes, and waits until it has done all that it does with it: what lies
/// in sockets is not in its memory.
fn send(clients: &mut [Client]) {
    let mut quiet = 0;
    while quiet < 20 {
        let mut has_sent = false;
        for client in clients.iter_mut() {
            has_sent |= client.send();
        }
        quiet = if has_sent || !others_sleep() { 0 } else { quiet + 1 };
        if !has_sent {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Tells whether each thread of this process but this one waits for something.
fn others_sleep() -> bool {
    let own = std::fs::read_link("/proc/thread-self").unwrap();
    std::fs::read_dir("/proc/self/task").unwrap().all(|task| {
        let task = task.unwrap();
        let is_own = Some(task.file_name().as_os_str()) == own.file_name();
        // One that has ended meanwhile does nothing any more.
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        is_own || stat.rsplit_once(") ").is_none_or(|(_, facts)| facts.starts_with('S'))
    })
}

fn put(store: &Store, target: &str, more: &str) -> Vec<u8> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    signed_head(store, Method::Put, path, query, more)
}

fn get(store: &Store, path: &str, query: &str) -> Vec<u8> {
    let head = signed_head(store, Method::Get, path, query, "");
    String::from_utf8(head).unwrap().replace("connection: close\r\n", "").into_bytes()
}

/// Sends a request that is answered; returns its answer.
fn ask(store: &Store, head: &[u8], body: &[u8]) -> String {
    let mut stream = TcpStream::connect(store.address()).unwrap();
    stream.write_all(head).unwrap();
    stream.write_all(body).unwrap();
    std::io::read_to_string(stream).unwrap()
}

/// Asks for more and more to be kept, until the store says that it is full.
fn fill(store: &Store, request: impl Fn(usize) -> (Vec<u8>, Vec<u8>)) -> Vec<Client> {
    for number in 0..600 {
        let (head, body) = request(number);
        let answer = ask(store, &head, &body);
        let is_refused =
            ["HTTP/1.1 503 ", "HTTP/1.1 507 "].iter().any(|begin| answer.starts_with(begin));
        if is_refused {
            return Vec::new();
        }
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    }
    panic!("the store takes all of it");
}

/// Logs in to Swift; returns the field that says so.
fn token(store: &Store) -> String {
    let head = "GET /auth/v1.0 HTTP/1.1\r\nhost: a\r\nx-auth-user: test:tester\r\n\
                x-auth-key: testing\r\nconnection: close\r\n\r\n";
    let answer = ask(store, head.as_bytes(), b"");
    let token = answer.lines().find(|line| line.starts_with("x-auth-token:"));
    format!("{}\r\n", token.expect("it knows us"))
}

fn swift_head(store: &Store, line: &str, token: &str, more: &str) -> Vec<u8> {
    let host = store.address();
    format!("{line} HTTP/1.1\r\nhost: {host}\r\n{token}{more}connection: close\r\n\r\n")
        .into_bytes()
}

/// The head of a PUT whose body comes in chunks of its own.
fn chunked_head(store: &Store, path: &str, length: usize) -> Vec<u8> {
    const KIND: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    const NAMES: &str = "host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length";
    let hex = |bytes: &[u8]| String::from_utf8(hex_of_sha256(&sha256(bytes)).to_vec()).unwrap();
    let now = time::OffsetDateTime::now_utc();
    let (date, clock) = (now.date().to_string().replace('-', ""), now.time());
    let (hour, minute, second) = clock.as_hms();
    let moment = format!("{date}T{hour:02}{minute:02}{second:02}Z");
    let host = store.address();
    let headers = format!(
        "host:{host}\nx-amz-content-sha256:{KIND}\nx-amz-date:{moment}\n\
         x-amz-decoded-content-length:{length}\n"
    );
    let canonical = format!("PUT\n{path}\n\n{headers}\n{NAMES}\n{KIND}");
    let scope = format!("{date}/us-east-1/s3/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hex(canonical.as_bytes()));
    let key = scope.split('/').fold(b"AWS4secret".to_vec(), |key, part| mac(&key, part));
    let signature: String = mac(&key, &to_sign).iter().map(|byte| format!("{byte:02x}")).collect();
    let lines = headers.replace('\n', "\r\n");
    format!(
        "PUT {path} HTTP/1.1\r\n{lines}content-encoding: aws-chunked\r\ncontent-length: {}\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=key/{scope}, SignedHeaders={NAMES}, \
         Signature={signature}\r\n\r\n{length:x}\r\n",
        length + 100
    )
    .into_bytes()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Returns the memory of this process that is in use.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// What clients do, with its name.
type Attack = (&'static str, fn(&Store) -> Vec<Client>);

fn clients(count: usize, client: impl Fn(usize) -> Client) -> Vec<Client> {
    (0..count).map(client).collect()
}

const ATTACKS: &[Attack] = &[
    ("idle connections", |store| clients(1500, |_| Client::new(store, Vec::new(), 0))),
    ("half-sent heads", |store| {
        let head: Rc<[u8]> = b"GET / HTTP/1.1\r\nhost: a\r\nx-long: "[..].into();
        clients(400, |_| Client::new(store, head.clone(), 60 << 10))
    }),
    ("half-sent bodies", |store| {
        let more = "content-length: 1000000\r\n";
        clients(400, |number| {
            Client::new(store, put(store, &format!("/bucket/{number}"), more), 900_000)
        })
    }),
    ("half-sent bodies behind long heads", |store| {
        let long = "a".repeat(58 << 10);
        let more = format!("content-length: 100\r\nx-long: {long}\r\n");
        let head: Rc<[u8]> = put(store, "/bucket/long", &more).into();
        clients(400, |_| Client::new(store, head.clone(), 50))
    }),
    ("half-sent parts", |store| {
        let begun =
            ask(store, &signed_head(store, Method::Post, "/bucket/parts", "uploads=", ""), b"");
        let id = begun.split("<UploadId>").nth(1).unwrap().split('<').next().unwrap();
        let more = "content-length: 5242880\r\n";
        clients(400, |number| {
            let target = format!("/bucket/parts?partNumber={}&uploadId={id}", number + 1);
            Client::new(store, put(store, &target, more), 5_000_000)
        })
    }),
    ("half-sent documents", |store| {
        let more = "content-length: 8000000\r\ncontent-md5: AAAAAAAAAAAAAAAAAAAAAA==\r\n";
        let head: Rc<[u8]> = signed_head(store, Method::Post, "/bucket", "delete=", more).into();
        clients(40, |_| Client::new(store, head.clone(), 7_000_000))
    }),
    ("documents that come byte by byte", |store| {
        // Each is a piece of its own, however many of them the store reads at once.
        let (line, more) = ("POST /v1/AUTH_test?bulk-delete", "transfer-encoding: chunked\r\n");
        let mut text = swift_head(store, line, &token(store), more);
        text.extend(b"1\r\na\r\n".repeat(20_000));
        let text: Rc<[u8]> = text.into();
        clients(40, |_| Client::new(store, text.clone(), 0))
    }),
    ("half-sent chunks", |store| {
        clients(40, |number| {
            let head = chunked_head(store, &format!("/bucket/{number}"), 64 << 20);
            Client::new(store, head, 4 << 20)
        })
    }),
    ("listings that stay unread", |store| {
        let key = "k".repeat(900);
        for number in 0..600 {
            let path = format!("/bucket/{key}{number}");
            let answer = ask(store, &put(store, &path, "content-length: 0\r\n"), b"");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        let listings: Rc<[u8]> = get(store, "/bucket", "list-type=2").repeat(8).into();
        clients(100, |_| Client::new(store, listings.clone(), 0))
    }),
    ("objects that are deleted while they are read", |store| {
        let mut readers = Vec::new();
        for number in 0..60 {
            let path = format!("/bucket/{number}");
            let body = vec![b'a'; 1 << 20];
            let more = format!("content-length: {}\r\n", body.len());
            let head = put(store, &path, &more);
            let mut writer = TcpStream::connect(store.address()).unwrap();
            writer.write_all(&head).unwrap();
            // A store that is full of what the readers hold refuses it.
            let _ = writer.write_all(&body);
            let _ = std::io::read_to_string(writer);
            let mut reader = [Client::new(store, get(store, &path, "").repeat(8), 0)];
            send(&mut reader);
            readers.extend(reader);
            let head = signed_head(store, Method::Delete, &path, "", "content-length: 0\r\n");
            ask(store, &head, b"");
        }
        readers
    }),
    ("objects of long types", |store| {
        let long = "a".repeat(58 << 10);
        fill(store, |number| {
            let more = format!("content-length: 0\r\ncontent-type: {long}\r\n");
            (put(store, &format!("/bucket/{number}"), &more), Vec::new())
        })
    }),
    ("containers with long lists of readers", |store| {
        let (token, long) = (token(store), "a".repeat(58 << 10));
        fill(store, |number| {
            let line = format!("PUT /v1/AUTH_test/container-{number}");
            let more = format!("content-length: 0\r\nx-container-read: {long}\r\n");
            (swift_head(store, &line, &token, &more), Vec::new())
        })
    }),
    ("long lists of readers of containers that are there", |store| {
        let (token, long) = (token(store), "a".repeat(58 << 10));
        let line = |what: &str, number| format!("{what} /v1/AUTH_test/container-{number}");
        for number in 0..400 {
            let head = swift_head(store, &line("PUT", number), &token, "content-length: 0\r\n");
            ask(store, &head, b"");
        }
        fill(store, |number| {
            let more = format!("content-length: 0\r\nx-container-read: {long}\r\n");
            (swift_head(store, &line("POST", number), &token, &more), Vec::new())
        })
    }),
    ("application credentials", |store| {
        let (token, long) = (token(store), "a".repeat(58 << 10));
        let body = format!("{{\"application_credential\": {{\"name\": \"{long}\"}}}}").into_bytes();
        fill(store, |_| {
            let more = format!("content-length: {}\r\n", body.len());
            let line = "POST /v3/users/a/application_credentials";
            (swift_head(store, line, &token, &more), body.clone())
        })
    }),
];

#[test]
fn whatever_clients_make_a_store_hold_stays_below_what_it_may_take() {
    let chosen = std::env::var("LOADSTONE_ATTACK").unwrap_or_default();
    for (name, attack) in ATTACKS.iter().filter(|(name, _)| name.contains(&chosen)) {
        let store = start_with(StoreConfig {
            memory_bytes_max: MEMORY,
            user: Some("tester".to_owned()),
            password: Some(Secret::Literal("testing".to_owned())),
            ..StoreConfig::default()
        });
        ask(&store, &put(&store, "/bucket", "content-length: 0\r\n"), b"");
        let before = resident_bytes();
        let mut clients = attack(&store);
        send(&mut clients);
        let counters = store.counters();
        let taken = resident_bytes().saturating_sub(before);
        println!(
            "{name}: {} KiB accounted, {} KiB more in use, {} of {} connections open",
            counters.memory_bytes >> 10,
            taken >> 10,
            counters.connections_open,
            counters.connections
        );
        assert!(counters.memory_bytes <= MEMORY, "{name}: {counters:?}");
        assert!(taken <= MEMORY + BESIDES, "{name}: {} KiB", taken >> 10);
        if clients.is_empty() {
            continue;
        }
        drop(clients);
        until("what the clients held is free again", || {
            store.counters().memory_bytes < MEMORY / 2 && store.counters().connections_open == 0
        });
    }
}
