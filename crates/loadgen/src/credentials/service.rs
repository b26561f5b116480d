//! Sends one HTTP request to a service that issues keys, outside of any load.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loadstone_wire::http1::{self, Method};
use serde_json::{Map, json};

use crate::error::{Error, Kind};
use crate::outcome::Outcome;
use crate::reactor::run_to_end;
use crate::transport::{
    connection::{Connection, Refusal, Sending},
    endpoint::{Endpoint, Url, peer_of},
    socket, tls,
    transfer::{Collect, Nothing},
};

/// Timeout of a request.
const TIMEOUT_NS: u64 = 20_000_000_000;

/// Endpoint of a service.
pub(super) struct Service {
    /// The request, for messages: `assume role "arn:…"`.
    pub(super) what: String,
    pub(super) url: Url,
    /// Hint if the service does not accept the user (401).
    pub(super) hint_unknown: Option<&'static str>,
}

impl Service {
    pub(super) fn at(url: &str, what: impl Into<String>) -> Result<Self, Error> {
        let what = what.into();
        let parse = |reason: String| Error::target(&*what, format!("URL \"{url}\": {reason}"));
        Ok(Self { url: Url::parse(url).map_err(parse)?, what, hint_unknown: None })
    }

    /// Sends a request and returns the body of a successful answer. `head` writes the headers after
    /// the request line, except the length.
    pub(super) fn ask(
        &self,
        stop: &AtomicBool,
        (method, path): (Method, &str),
        head: impl FnOnce(&Url, &mut Vec<u8>),
        body: Vec<u8>,
    ) -> Result<String, Error> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut bytes = Vec::new();
        let path = format!("{}{path}", self.url.path);
        http1::request_line(&mut bytes, method, path.as_bytes(), query.as_bytes());
        head(&self.url, &mut bytes);
        if method != Method::Get {
            http1::header_number(&mut bytes, "content-length", body.len() as u64);
        }
        http1::header(&mut bytes, "connection", b"close");
        http1::finish(&mut bytes);
        let host = |source| Error::Host { what: "wait for events", source };
        let tls = if self.url.is_tls { Some(trusted()?) } else { None };
        let endpoint = Endpoint::resolve(self.url.clone())?;
        let (_, peer) = peer_of(std::slice::from_ref(&endpoint), tls.as_ref(), 0)?;
        let reactor = socket::reactor()?;
        let inner = Rc::clone(&reactor);
        let (what, hint_unknown) = (self.what.clone(), self.hint_unknown);
        let job = async move {
            let mut connection = Connection::new(peer, &inner, &Rc::default(), true, judge);
            let mut collect = Collect::default();
            let sending = Sending::new(method, &bytes, &[200]);
            inner.set_deadline(inner.now_ns() + TIMEOUT_NS);
            let reply = match body.is_empty() {
                true => connection.request(sending, &Nothing, &mut collect).await,
                false => connection.request(sending, &body.as_slice(), &mut collect).await,
            };
            if !reply.outcome.is_ok() {
                let error = Error::target(what, connection.last_error(&bytes).unwrap_or_default())
                    .of(Kind::SecretAbsent);
                return Err(match hint_unknown.filter(|_| reply.status == 401) {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                });
            }
            Ok(String::from_utf8_lossy(&collect.body).into_owned())
        };
        match run_to_end(&reactor, stop, job).map_err(host)? {
            Some(answer) => answer,
            None => Err(Error::target(&*self.what, "it was stopped")),
        }
    }
}

fn judge(status: u16, _: &Refusal) -> Outcome {
    Outcome::http(status)
}

/// The trusted certificate authorities of these services; those of a target's settings do not
/// apply.
fn trusted() -> Result<Arc<rustls::ClientConfig>, Error> {
    let mut settings = Map::new();
    if let Some(file) = super::env("AWS_CA_BUNDLE") {
        settings.insert("tls".to_owned(), json!({"ca_file": file}));
    }
    tls::client_config(&settings)
}
