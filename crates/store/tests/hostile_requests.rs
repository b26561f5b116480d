//! Requests that are meant to do harm, or do it by chance.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use loadstone_store::{Store, StoreConfig};
use loadstone_wire::http1::Method;

use crate::hostile::{signed_head, start_with, until};

mod hostile;

fn start() -> Store {
    start_with(StoreConfig::default())
}

/// Sends the beginning of a head, and no end.
fn half_a_head(store: &Store, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(store.address()).unwrap();
    let half = [b"GET / HTTP/1.1\r\nhost: a\r\nx-long: ", vec![b'a'; bytes].as_slice()].concat();
    // The store may have closed it meanwhile.
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
fn a_listing_of_keys_that_xml_cannot_carry_is_encoded_and_says_so() {
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
fn a_head_without_end_is_cut_off_before_it_takes_much_memory() {
    let store = start();
    let mut stream = TcpStream::connect(store.address()).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nx-long: ").unwrap();
    // The store answers and closes: it takes no more, however much would come.
    let mut sent = 0;
    while sent < 64 << 20 && stream.write_all(&[b'a'; 16 << 10]).is_ok() {
        sent += 16 << 10;
    }
    assert!(sent < 64 << 20, "all of it was taken");
}

#[test]
fn half_sent_heads_hold_no_more_memory_than_the_store_may_take() {
    const MEMORY: u64 = 1 << 20;
    let store = start_with(StoreConfig { memory_bytes_max: MEMORY, ..StoreConfig::default() });
    let heads: Vec<TcpStream> = (0..40).map(|_| half_a_head(&store, 60 << 10)).collect();
    until("some are closed, for they do not fit", || {
        let counters = store.counters();
        assert!(counters.memory_bytes <= MEMORY);
        counters.connections == 40 && counters.connections_open <= MEMORY / (60 << 10)
    });
    assert!(store.counters().memory_bytes >= MEMORY / 2, "{:?}", store.counters());
    // A head that comes whole is answered even so, once those that do not fit have gone.
    until("a whole head is answered", || ask(&store, Method::Get, "/", "", "").0 == 200);
    drop(heads);
    until("what they held is free again", || store.counters().memory_bytes == 0);
}

#[test]
fn a_connection_without_room_is_refused_in_the_words_of_its_api() {
    const MEMORY: u64 = 1 << 20;
    let store = start_with(StoreConfig { memory_bytes_max: MEMORY, ..StoreConfig::default() });
    let idle: Vec<_> = (0..30).map(|_| TcpStream::connect(store.address()).unwrap()).collect();
    until("all are open, or were refused", || store.counters().connections == idle.len() as u64);
    let ask_unsigned = |path: &str| {
        let mut stream = TcpStream::connect(store.address()).unwrap();
        stream
            .write_all(
                format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").as_bytes(),
            )
            .unwrap();
        std::io::read_to_string(stream).unwrap()
    };
    for path in ["/v1/AUTH_test/container", "/auth/v1.0", "/v3/auth/tokens"] {
        let answer = ask_unsigned(path);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{path}: {answer}");
        assert!(answer.contains("text/html") && answer.contains("memory_bytes_max"), "{answer}");
        assert!(!answer.contains("<Error>"), "{path}: {answer}");
    }
    let (status, answer) = ask(&store, Method::Get, "/bucket", "", "");
    assert!(status == 503 && answer.contains("<Code>SlowDown</Code>"), "{answer}");
    // One that says nothing is closed, and takes no others' place for long.
    let silent = TcpStream::connect(store.address()).unwrap();
    assert!(std::io::read_to_string(silent).unwrap().contains("<Code>SlowDown</Code>"));
    drop(idle);
    until("there is room again", || ask_unsigned("/healthcheck").starts_with("HTTP/1.1 200 "));
}

#[test]
fn half_a_head_is_waited_for_no_longer_than_the_store_was_told() {
    let store = start_with(StoreConfig { head_seconds: 1, ..StoreConfig::default() });
    let mut stream = half_a_head(&store, 100);
    // Much less than it would wait without being told.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    until("its memory is free again", || store.counters().memory_bytes == 0);
}

#[test]
fn half_a_body_is_waited_for_no_longer_than_the_store_was_told() {
    let store = start_with(StoreConfig { head_seconds: 1, ..StoreConfig::default() });
    assert_eq!(ask(&store, Method::Put, "/bucket", "", "").0, 200);
    let before = store.counters().memory_bytes;
    for path in ["/bucket/key", "/bucket/none?uploadId=1&partNumber=1"] {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let head = signed_head(&store, Method::Put, path, query, "content-length: 1000\r\n");
        let mut stream = TcpStream::connect(store.address()).unwrap();
        stream.write_all(&[head.as_slice(), b"some"].concat()).unwrap();
        // Much less than it would wait without being told.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (status, answer) = answer_on(&mut stream);
        assert!((400..500).contains(&status), "{answer}");
        // The connection before may have had its own share still when that was looked at.
        until("its memory is free again", || store.counters().memory_bytes <= before);
    }
    assert_eq!(ask(&store, Method::Head, "/bucket/key", "", "").0, 404);
}
