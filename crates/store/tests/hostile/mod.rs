//! What tests of hostile clients begin with: a store, signed heads, and waiting.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loadstone_store::{Secret, Store, StoreConfig};
use loadstone_wire::http1::Method;
use loadstone_wire::sigv4::{Credentials, Payload, Request, Signer};

/// Starts a store of one thread that knows a key.
pub(crate) fn start_with(config: StoreConfig) -> Store {
    Store::start(StoreConfig {
        access_key: Some("key".to_owned()),
        secret_key: Some(Secret::Literal("secret".to_owned())),
        threads: Some(1),
        ..config
    })
    .unwrap()
}

/// Waits until something is so; a minute is long enough for any machine.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let over = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < over, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Signs a request; `unsigned` header lines are added behind the signature.
pub(crate) fn signed_head(
    store: &Store,
    method: Method,
    path: &str,
    query: &str,
    unsigned: &str,
) -> Vec<u8> {
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
