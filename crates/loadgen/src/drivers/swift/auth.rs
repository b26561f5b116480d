//! Tokens: obtained at the start, and renewed before they expire or when the target rejects them.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use loadstone_wire::http1::{self, Method};
use loadstone_wire::json::{Identity, TokenAnswer, token_request};
use rustls::ClientConfig;

use super::target::{Login, keystone_path};
use crate::clock::unix_ns;
use crate::driver::LogIns;
use crate::error::{Error, Kind};
use crate::reactor::{Reactor, run_to_end};
use crate::secrecy::remember;
use crate::transport::failure::hint_to_reach;
use crate::transport::socket::{self, Buffers};
use crate::transport::{
    connection::{Connection, Sending},
    endpoint::{Endpoint, peer_of},
    retries::Retries,
    transfer::{Collect, Nothing},
};

/// A token is renewed this long before it expires, or after nine tenths of its lifetime.
const RENEW_EARLY_S: u64 = 60;
/// How often clients check whether another one has renewed the token.
const LOOK_NS: u64 = 5_000_000;
/// Pause after a failed renewal.
const TRY_AGAIN_S: u64 = 5;
/// Minimum time between renewals because the target rejects tokens. If it also rejects new ones,
/// the identity service would otherwise receive as many requests as the target.
const REFUSED_APART_S: u64 = 1;
/// Minimum time between renewals by this host's clock. If it differs from the service's, a new
/// token may seem to have expired already: then the target's 401 decides.
const APART_S: u64 = 10;

/// Result of a log-in.
#[derive(Debug, Clone)]
pub(super) struct Token {
    pub(super) value: String,
    /// URL of the account, from TempAuth or from the catalogue.
    pub(super) storage_url: Option<String>,
    expires_unix_s: Option<u64>,
}

/// The service that issues tokens.
#[derive(Debug, Clone)]
pub(super) struct AuthService {
    pub(super) endpoint: Endpoint,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) login: Login,
    pub(super) region: Option<String>,
    pub(super) interface: String,
    /// Whether the catalogue need not contain an object store.
    pub(super) has_storage_url: bool,
    pub(super) timeout_ns: u64,
    pub(super) retries: Option<Arc<Retries>>,
}

impl AuthService {
    /// Logs in, blocking: for the start, before there are load threads.
    pub(super) fn log_in_now(&self) -> Result<Token, Error> {
        let reactor = socket::reactor()?;
        reactor.expect_timeouts_of(self.timeout_ns);
        reactor.retry(self.retries.as_ref());
        let (inner, service) = (Rc::clone(&reactor), self.clone());
        let job = async move { service.log_in(&inner, &Rc::default()).await };
        let result = run_to_end(&reactor, &AtomicBool::new(false), job);
        let result = result.map_err(|source| Error::Host { what: "wait for events", source })?;
        result.expect("this stop is never set")
    }

    /// Logs in.
    ///
    /// # Errors
    /// The service refused, or its answer contains no token. The text never contains a secret.
    pub(super) async fn log_in(
        &self,
        reactor: &Rc<Reactor>,
        buffers: &Rc<Buffers>,
    ) -> Result<Token, Error> {
        let (endpoint, peer) = peer_of(std::slice::from_ref(&self.endpoint), self.tls.as_ref(), 0)?;
        let mut connection = Connection::new(peer, reactor, buffers, true, super::judge);
        let mut collect = Collect::default();
        let (method, path, headers, body) = self.request_parts();
        let mut head = Vec::new();
        http1::request_line(&mut head, method, path.as_bytes(), b"");
        http1::header(&mut head, "host", endpoint.url.host_header().as_bytes());
        for (name, value) in &headers {
            http1::header(&mut head, name, value.as_bytes());
        }
        if method == Method::Post {
            http1::header_number(&mut head, "content-length", body.len() as u64);
        }
        http1::header(&mut head, "connection", b"close");
        http1::finish(&mut head);
        let sending = Sending::new(method, &head, &[200, 201, 203, 204]);
        collect.start(&[
            "x-auth-token",
            "x-storage-url",
            "x-auth-token-expires",
            "x-subject-token",
        ]);
        reactor.set_deadline(reactor.now_ns() + self.timeout_ns);
        let reply = if body.is_empty() {
            connection.request(sending, &Nothing, &mut collect).await
        } else {
            connection.request(sending, &body.as_slice(), &mut collect).await
        };
        if !reply.outcome.is_ok() {
            let text = connection.last_error(&head).unwrap_or_default();
            let error = Error::target("log in", text).of(reply.outcome.error_kind());
            return Err(match reply.status {
                401 | 403 => error.with_hint(match &self.login {
                    Login::TempAuth { .. } => {
                        "check user, which is mostly ACCOUNT:USER here, and password (from the \
                         environment: ST_USER and ST_KEY)"
                    }
                    Login::Password { .. } => "check user, password, project and domains",
                    Login::ApplicationCredential { .. } => {
                        "check the id and the secret of the application credential, and that it \
                         has not expired"
                    }
                }),
                300 | 404 => error.with_hint("check that auth_url ends in /auth/v1.0 or /v3"),
                0 => error.with_hint(hint_to_reach("auth_url", reply.outcome)),
                _ => error,
            });
        }
        let token = self.read_token(&collect)?;
        remember(&self.place(), &token.value);
        Ok(token)
    }

    /// Returns the source of the tokens, for [`secrecy`](crate::secrecy): the service and the user.
    /// It is the same in every trial.
    fn place(&self) -> String {
        let user = match &self.login {
            Login::TempAuth { user, .. } | Login::Password { user, .. } => user,
            Login::ApplicationCredential { id, .. } => id,
        };
        let url = &self.endpoint.url;
        format!("the log-in of \"{user}\" at {}{}", url.host_header(), url.path)
    }

    fn request_parts(&self) -> (Method, String, Vec<(&'static str, String)>, Vec<u8>) {
        let path = &self.endpoint.url.path;
        let identity = match &self.login {
            Login::TempAuth { user, key } => {
                let path = if path.is_empty() { "/" } else { path };
                let headers = vec![("x-auth-user", user.clone()), ("x-auth-key", key.clone())];
                return (Method::Get, path.to_owned(), headers, Vec::new());
            }
            Login::Password { user, user_domain, password, project, project_domain } => {
                Identity::Password { user, user_domain, password, project, project_domain }
            }
            Login::ApplicationCredential { id, secret } => {
                Identity::ApplicationCredential { id, secret }
            }
        };
        let headers = vec![("content-type", "application/json".to_owned())];
        let path = keystone_path(path);
        (Method::Post, format!("{path}/auth/tokens"), headers, token_request(&identity))
    }

    fn read_token(&self, collect: &Collect) -> Result<Token, Error> {
        let now_s = unix_ns() / 1_000_000_000;
        let missing = |name| Error::target("log in", format!("the answer has no {name}"));
        if let Login::TempAuth { .. } = self.login {
            let life_s = collect.header("x-auth-token-expires").and_then(|s| s.parse().ok());
            return Ok(Token {
                value: collect.header("x-auth-token").ok_or(missing("X-Auth-Token"))?.to_owned(),
                storage_url: collect.header("x-storage-url").map(str::to_owned),
                expires_unix_s: life_s.map(|life_s: u64| now_s.saturating_add(life_s)),
            });
        }
        let value = collect.header("x-subject-token").ok_or(missing("X-Subject-Token"))?;
        let answer = TokenAnswer::parse(&collect.body)
            .map_err(|error| Error::target("log in", format!("the answer: {error}")))?;
        let region = self.region.as_deref();
        let storage_url = answer.object_store_url(&self.interface, region).map(str::to_owned);
        if storage_url.is_none() && !self.has_storage_url {
            let asked = region.map_or(String::new(), |region| format!(" in region \"{region}\""));
            return Err(Error::target(
                format!("find the {} object store{asked} in the catalogue", self.interface),
                format!("it has {}", answer.object_stores_text()),
            )
            .of(Kind::TargetAbsent)
            .with_hint("set region and interface, or give storage_url"));
        }
        Ok(Token { value: value.to_owned(), storage_url, expires_unix_s: answer.expires_unix_s() })
    }
}

/// The token that all threads use. A request only reads two numbers of it.
#[derive(Debug)]
pub(super) struct TokenKeeper {
    service: AuthService,
    token: Mutex<String>,
    generation: AtomicU64,
    renew_unix_s: AtomicU64,
    is_renewing: AtomicBool,
    /// Earliest time of the next renewal, by the reactors' clock.
    next_ns: AtomicU64,
    /// Error of the last renewal, if it failed.
    failure: Mutex<Option<String>>,
    log_ins: AtomicU64,
    log_ins_ns: AtomicU64,
}

impl TokenKeeper {
    pub(super) fn new(service: AuthService, token: &Token) -> Self {
        Self {
            service,
            token: Mutex::new(token.value.clone()),
            generation: AtomicU64::new(1),
            renew_unix_s: AtomicU64::new(renewal_of(token)),
            is_renewing: AtomicBool::new(false),
            next_ns: AtomicU64::new(0),
            failure: Mutex::new(None),
            log_ins: AtomicU64::new(0),
            log_ins_ns: AtomicU64::new(0),
        }
    }

    /// Returns the generation, which grows with every new token.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns whether the token is due for renewal.
    #[inline]
    pub(super) fn is_old(&self, unix_s: u64) -> bool {
        unix_s >= self.renew_unix_s.load(Ordering::Relaxed)
    }

    /// Returns the number and the duration of the log-ins.
    pub(super) fn log_ins(&self) -> LogIns {
        LogIns {
            count: self.log_ins.load(Ordering::Relaxed),
            took_ns: self.log_ins_ns.load(Ordering::Relaxed),
        }
    }

    /// Returns the token.
    pub(super) fn value(&self) -> String {
        self.token.lock().expect("the lock is not poisoned").clone()
    }

    /// Makes sure that there is a newer token than that of `generation`: logs in, or waits for
    /// another client that does. Returns whether there is one; false if the last log-in was only a
    /// moment ago.
    pub(super) async fn renew(
        &self,
        generation: u64,
        reactor: &Rc<Reactor>,
        buffers: &Rc<Buffers>,
    ) -> Result<bool, Error> {
        while self.generation() == generation {
            if self.is_renewing.swap(true, Ordering::Acquire) {
                if reactor.expired() {
                    return Err(Error::target("renew the token", "no answer within the timeout"));
                }
                reactor.sleep_until(reactor.now_ns() + LOOK_NS).await;
                continue;
            }
            // If the future is dropped (by a stop), the flag must be cleared.
            let _guard = LowerFlag(&self.is_renewing);
            if self.generation() != generation {
                return Ok(true);
            }
            let began_ns = reactor.now_ns();
            if began_ns < self.next_ns.load(Ordering::Relaxed) {
                let failure = self.failure.lock().expect("the lock is not poisoned").clone();
                return failure
                    .map_or(Ok(false), |text| Err(Error::target("renew the token", text)));
            }
            let result = self.service.log_in(reactor, buffers).await;
            self.log_ins.fetch_add(1, Ordering::Relaxed);
            let ended_ns = reactor.now_ns();
            self.log_ins_ns.fetch_add(ended_ns - began_ns, Ordering::Relaxed);
            let apart_s = if result.is_ok() { REFUSED_APART_S } else { TRY_AGAIN_S };
            self.next_ns.store(ended_ns + apart_s * 1_000_000_000, Ordering::Relaxed);
            *self.failure.lock().expect("the lock is not poisoned") =
                result.as_ref().err().map(ToString::to_string);
            match result {
                Ok(token) => {
                    self.renew_unix_s.store(renewal_of(&token), Ordering::Relaxed);
                    *self.token.lock().expect("the lock is not poisoned") = token.value;
                    self.generation.fetch_add(1, Ordering::Release);
                }
                Err(error) => {
                    let next_s = unix_ns() / 1_000_000_000 + TRY_AGAIN_S;
                    self.renew_unix_s.store(next_s, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(true)
    }
}

struct LowerFlag<'a>(&'a AtomicBool);

impl Drop for LowerFlag<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn renewal_of(token: &Token) -> u64 {
    let Some(expires_s) = token.expires_unix_s else { return u64::MAX };
    let now_s = unix_ns() / 1_000_000_000;
    let life_s = expires_s.saturating_sub(now_s);
    (expires_s - RENEW_EARLY_S.min(life_s.div_ceil(10))).max(now_s + APART_S)
}
