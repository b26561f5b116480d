//! Requests that are harmful, deliberately or by accident.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loadstone_store::{Secret, Store, StoreConfig};
use loadstone_wire::http1::Method;
use loadstone_wire::sigv4::{Credentials, Payload, Request, Signer};

fn start() -> Store {
    start_with(StoreConfig::default())
}

/// Sends the beginning of a head without its end.
fn half_a_head(store: &Store, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(store.address()).unwrap();
    let half = [b"GET / HTTP/1.1\r\nhost: a\r\nx-long: ", vec![b'a'; bytes].as_slice()].concat();
    // The store may have closed the connection meanwhile.
    let _ = stream.write_all(&half);
    stream
}

/// Sends a request without a body.
fn ask(store: &Store, method: Method, path: &str, query: &str, unsigned: &str) -> (u16, String) {
    let head = signed_head(store, method, path, query, &format!("{unsigned}content-length: 0\r\n"));
    let mut stream = TcpStream::connect(store.address()).unwrap();
    stream.write_all(&head).unwrap();
    answer_on(&mut stream)
}

fn answer_on(stream: &mut TcpStream) -> (u16, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[test]
fn a_copy_source_that_was_not_signed_is_refused() {
    let store = start();
    assert_eq!(ask(&store, Method::Put, "/bucket", "", "").0, 200);
    assert_eq!(ask(&store, Method::Put, "/bucket/a", "", "").0, 200);
    let (status, answer) =
        ask(&store, Method::Put, "/bucket/b", "", "x-amz-copy-source: /bucket/a\r\n");
    assert_eq!(status, 403, "{answer}");
    assert_eq!(ask(&store, Method::Head, "/bucket/b", "", "").0, 404);
}

#[test]
fn a_listing_of_keys_that_xml_cannot_represent_is_encoded() {
    let store = start();
    assert_eq!(ask(&store, Method::Put, "/bucket", "", "").0, 200);
    assert_eq!(ask(&store, Method::Put, "/bucket/a%01b%0Dc", "", "").0, 200);
    for query in ["", "list-type=2", "versions="] {
        let (status, answer) = ask(&store, Method::Get, "/bucket", query, "");
        assert_eq!(status, 200, "{answer}");
        assert!(answer.contains("<Key>a%01b%0Dc</Key>"), "{query}: {answer}");
        assert!(answer.contains("<EncodingType>url</EncodingType>"), "{query}: {answer}");
    }
    let (_, answer) = ask(&store, Method::Get, "/bucket", "list-type=2&prefix=plain", "");
    assert!(!answer.contains("EncodingType"), "{answer}");
}

#[test]
fn an_endless_head_is_rejected_before_it_takes_much_memory() {
    let store = start();
    let mut stream = TcpStream::connect(store.address()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nx-long: ").unwrap();
    // The store answers and closes: it reads no more, however much is sent.
    let mut sent = 0;
    while sent < 64 << 20 && stream.write_all(&[b'a'; 16 << 10]).is_ok() {
        sent += 16 << 10;
    }
    assert!(sent < 64 << 20, "all of it was taken");
}

#[test]
fn an_incomplete_head_times_out_as_configured() {
    let store = start_with(StoreConfig { head_seconds: 1, ..StoreConfig::default() });
    let mut stream = half_a_head(&store, 100);
    // Much shorter than the default timeout of the store.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
}

/// Starts a store with one thread and a key.
fn start_with(config: StoreConfig) -> Store {
    Store::start(StoreConfig {
        access_key: Some("key".to_owned()),
        secret_key: Some(Secret::Literal("secret".to_owned())),
        threads: Some(1),
        ..config
    })
    .unwrap()
}

/// Signs a request; `unsigned` header lines are added after signing.
fn signed_head(store: &Store, method: Method, path: &str, query: &str, unsigned: &str) -> Vec<u8> {
    let credentials = Credentials {
        access_key: "key".to_owned(),
        secret_key: "secret".to_owned(),
        session_token: None,
    };
    let host = store.address().to_string();
    let mut head = Vec::new();
    loadstone_wire::http1::request_line(&mut head, method, path.as_bytes(), query.as_bytes());
    let request = Request {
        method,
        path: path.as_bytes(),
        query: query.as_bytes(),
        host: host.as_bytes(),
        headers: &[],
        payload: Payload::Unsigned,
    };
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    Signer::new(credentials, "us-east-1", "s3").sign(now_s, &request, &mut head);
    head.extend_from_slice(unsigned.as_bytes());
    head.extend_from_slice(b"connection: close\r\n\r\n");
    head
}
