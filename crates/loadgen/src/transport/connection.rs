//! One keep-alive HTTP/1.1 connection: sends requests, reads answers, and classifies failures.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::http1::{Method, ResponseParser};
use rustls::{CipherSuite, ProtocolVersion};

use crate::driver::Traffic;
use crate::error::HINT;
use crate::outcome::{Completion, Outcome};
use crate::reactor::Reactor;
use crate::secrecy::{cut, foreign_line};
pub(crate) use crate::transport::failure::Failure;
pub(crate) use crate::transport::failure::Refusal;
use crate::transport::{
    exchange::{Exchange, Reading, Received},
    retries::{Answer, Attempts},
    socket::{Buffers, Peer, SocketError, Stream},
    transfer::{Download, Upload},
};

/// Maximum length of a request line in an error, in characters.
const LINE_CHARACTERS: usize = 500;

/// Maximum pause before connecting again after consecutive failures.
const PAUSE_NS_MAX: u64 = 250_000_000;

/// A connection to one endpoint. It is opened when it is needed, and again after every failure.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer,
    reactor: Rc<Reactor>,
    buffers: Rc<Buffers>,
    is_per_request: bool,
    /// Whether a write may be repeated, if its method allows that.
    repeats_writes: bool,
    judge: Judge,
    stream: Option<Stream>,
    parser: ResponseParser,
    refusal: Refusal,
    failure: Option<Failure>,
    /// Number of consecutive failed connection attempts.
    refused: u32,
    traffic: Traffic,
    /// Retries of the last request.
    attempts: Attempts,
    /// Version that the last checked read returned or the last condition named, for a history.
    pub(crate) version: u64,
    /// TLS version and cipher suite of the last handshake.
    tls: Option<(ProtocolVersion, CipherSuite)>,
}

/// Maps a refusal to an outcome: the meaning of a status depends on the protocol above HTTP.
pub(crate) type Judge = fn(u16, &Refusal) -> Outcome;

/// A request to send: complete request line and headers, and the statuses that mean success.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending<'a> {
    pub(crate) method: Method,
    pub(crate) head: &'a [u8],
    pub(crate) expected: &'static [u16],
    /// Whether it may be sent twice.
    pub(crate) is_idempotent: bool,
}

impl<'a> Sending<'a> {
    /// Returns a request whose method alone decides whether it may be sent twice.
    #[inline]
    pub(crate) fn new(method: Method, head: &'a [u8], expected: &'static [u16]) -> Self {
        Self { method, head, expected, is_idempotent: method.is_idempotent() }
    }
}

/// Result of one HTTP request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    /// `OK` if the status was one of those expected and the whole answer arrived.
    pub(crate) outcome: Outcome,
    /// HTTP status; zero if no head arrived.
    pub(crate) status: u16,
    pub(crate) content_length: Option<u64>,
    /// Length of the body without framing.
    pub(crate) body_bytes: u64,
    pub(crate) sent_ns: u64,
    pub(crate) first_byte_ns: u64,
    pub(crate) ended_ns: u64,
}

impl Reply {
    /// Returns the completion of a request that consisted of this one HTTP request.
    pub(crate) fn completion(&self) -> Completion {
        Completion::plain(self.outcome, self.sent_ns, self.first_byte_ns, self.ended_ns)
    }
}

impl Connection {
    pub(crate) fn new(
        peer: Peer,
        reactor: &Rc<Reactor>,
        buffers: &Rc<Buffers>,
        is_per_request: bool,
        judge: Judge,
    ) -> Self {
        Self {
            peer,
            reactor: Rc::clone(reactor),
            buffers: Rc::clone(buffers),
            is_per_request,
            repeats_writes: true,
            version: 0,
            judge,
            stream: None,
            parser: ResponseParser::default(),
            refusal: Refusal::default(),
            failure: None,
            refused: 0,
            traffic: Traffic::default(),
            attempts: Attempts::default(),
            tls: None,
        }
    }

    /// Disables repeated writes: a history requires that each write is executed at most once.
    pub(crate) fn repeat_reads_alone(&mut self) {
        self.repeats_writes = false;
    }

    /// Returns the address of the peer.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer.address
    }

    /// Returns whether the connection is still open after the last request.
    pub(crate) fn is_kept(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns the TLS version and cipher suite of the last handshake.
    pub(crate) fn tls(&self) -> Option<(String, String)> {
        let (version, cipher) = self.tls?;
        let word = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
        Some((word(version.as_str()), word(cipher.as_str())))
    }

    /// Counts a request that was repeated for another reason than a stale connection.
    pub(crate) fn count_repeat(&mut self) {
        self.traffic.requests_repeated += 1;
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let mut traffic = self.traffic;
        if let Some(stream) = &self.stream {
            traffic.bytes_sent += stream.bytes_sent;
            traffic.bytes_received += stream.bytes_received;
        }
        traffic
    }

    /// Sends a request and reads its answer.
    ///
    /// A server may close a kept connection just when the next request is sent on it. The target is
    /// then not at fault, and the request is sent once more on a new connection, if it may be sent
    /// twice.
    ///
    /// After a temporary error, the request is retried if the reactor has retries enabled, that is,
    /// outside of the measurement.
    pub(crate) async fn request<U: Upload, D: Download>(
        &mut self,
        sending: Sending<'_>,
        upload: &U,
        download: &mut D,
    ) -> Reply {
        if self.refused > 0 {
            self.pause().await;
        }
        let sent_ns = self.reactor.now_ns();
        let is_read = matches!(sending.method, Method::Get | Method::Head);
        let mut may_repeat = sending.is_idempotent && (self.repeats_writes || is_read);
        self.attempts = Attempts::default();
        loop {
            let is_kept = self.is_open();
            if !is_kept && let Err(error) = self.connect().await {
                let failure = Failure::Connect(error);
                let reply = self.failed(failure, Received::default(), sent_ns);
                if self.rest_before_retry(&sending, &reply).await {
                    continue;
                }
                return reply;
            }
            let (received, result) = self.attempt(&sending, upload, download).await;
            let may_keep = received.keep_alive && !self.is_per_request && received.extra_bytes == 0;
            if !(may_keep && matches!(result, Ok(true))) {
                self.close();
            }
            let reply = match result {
                Ok(_) if received.extra_bytes > 0 => {
                    self.failed(Failure::Overlong(received.extra_bytes), received, sent_ns)
                }
                Ok(_) if received.is_expected => {
                    reply(Outcome::OK, received, sent_ns, received.last_ns)
                }
                Ok(_) => self.failed(Failure::Status(received.status), received, sent_ns),
                Err(failure) => {
                    let is_stale = matches!(failure.outcome(), Outcome::CLOSED | Outcome::RESET);
                    if is_kept && received.first_ns == 0 && is_stale && may_repeat {
                        may_repeat = false;
                        self.attempts.is_in_doubt = true;
                        self.traffic.requests_repeated += 1;
                        continue;
                    }
                    self.failed(failure, received, sent_ns)
                }
            };
            if !reply.outcome.is_ok() && self.rest_before_retry(&sending, &reply).await {
                continue;
            }
            return reply;
        }
    }

    /// Pauses before a failed request is retried; returns false if the answer is final.
    #[cold]
    async fn rest_before_retry(&mut self, sending: &Sending<'_>, reply: &Reply) -> bool {
        let Some(retries) = self.reactor.retries() else { return false };
        let retries = Arc::clone(retries);
        let code = self.refused_code();
        let answer = Answer {
            is_broken: matches!(
                reply.outcome,
                Outcome::RESET | Outcome::CLOSED | Outcome::TRUNCATED
            ),
            is_throttled: reply.outcome == Outcome::THROTTLED,
            status: reply.status,
            code: &code,
            is_idempotent: sending.is_idempotent,
        };
        let asked_s = self.refusal().and_then(Refusal::retry_after_s);
        let Some(pause_ns) = retries.pause_ns(&answer, self.attempts, asked_s) else {
            return false;
        };
        let text = self.last_error(sending.head).unwrap_or_default();
        retries.note(&reply.outcome.name(), pause_ns, &text);
        self.attempts.count += 1;
        self.attempts.paused_ns += pause_ns;
        self.attempts.is_in_doubt |= answer.leaves_doubt();
        self.reactor.rest_until(self.reactor.now_ns() + pause_ns).await;
        self.reactor.set_deadline(self.reactor.now_ns() + retries.timeout_ns);
        !self.reactor.is_stopping()
    }

    /// Returns whether an attempt of the last request before the final one may have been executed.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.attempts.is_in_doubt
    }

    /// Sends once. The flag in the result tells whether the whole request was sent when the answer
    /// ended.
    async fn attempt<U: Upload, D: Download>(
        &mut self,
        sending: &Sending<'_>,
        upload: &U,
        download: &mut D,
    ) -> (Received, Result<bool, Failure>) {
        self.parser.start(sending.method);
        let mut reading = Reading {
            parser: &mut self.parser,
            refusal: &mut self.refusal,
            download,
            expected: sending.expected,
            received: Received::default(),
            is_over: false,
            mistake: None,
        };
        let stream = self.stream.as_mut().expect("it was kept, or connected just now");
        let mut exchange = Exchange { stream, reactor: &self.reactor, turns: 0 };
        let result = match exchange.send(sending.head, upload, &mut reading, &self.buffers).await {
            Ok(is_sent) => exchange.receive(&mut reading).await.map(|()| is_sent),
            Err(failure) => Err(failure),
        };
        (reading.received, result)
    }

    /// Pauses before the next attempt after a failure. Otherwise, a target that refuses connections
    /// would be contacted as fast as this host can.
    #[cold]
    async fn pause(&mut self) {
        let pause_ns = (1_000_000 << self.refused.min(8)).min(PAUSE_NS_MAX);
        let due_ns = self.reactor.now_ns() + pause_ns;
        self.reactor.sleep_until(due_ns).await;
    }

    /// Returns whether there is a usable connection; drops a stale one.
    #[inline]
    fn is_open(&mut self) -> bool {
        match &mut self.stream {
            None => false,
            Some(stream) if !stream.has_input() => true,
            Some(stream) => {
                let is_stale = stream.is_stale();
                if is_stale {
                    self.close();
                }
                !is_stale
            }
        }
    }

    async fn connect(&mut self) -> Result<(), SocketError> {
        let result = Stream::connect(&self.peer, &self.reactor, &self.buffers).await;
        match result {
            Ok(stream) => {
                self.refused = 0;
                self.traffic.connections_opened += 1;
                self.tls = stream.session();
                self.stream = Some(stream);
                Ok(())
            }
            Err(error) => {
                self.refused = self.refused.saturating_add(1);
                Err(error)
            }
        }
    }

    /// Closes the connection; the next request opens another. Required if the future of a request
    /// was dropped: the rest of its answer would be taken for the next one.
    pub(crate) fn close(&mut self) {
        self.traffic = self.traffic();
        self.stream = None;
    }

    #[cold]
    fn failed(&mut self, failure: Failure, received: Received, sent_ns: u64) -> Reply {
        let outcome = match failure {
            Failure::Status(status) => (self.judge)(status, &self.refusal),
            _ => failure.outcome(),
        };
        let reply = reply(outcome, received, sent_ns, self.reactor.now_ns());
        self.failure = Some(failure);
        reply
    }

    /// Turns a complete but wrong answer into a failure; returns the outcome.
    #[cold]
    pub(crate) fn object_to(&mut self, failure: Failure) -> Outcome {
        let outcome = failure.outcome();
        self.failure = Some(failure);
        outcome
    }

    /// Fails a request that began at `began_ns`, without sending anything more.
    #[cold]
    pub(crate) fn refuse(&mut self, began_ns: u64, outcome: Outcome, text: String) -> Completion {
        let outcome = self.object_to(Failure::Told(outcome, text));
        Completion::plain(outcome, began_ns, 0, self.reactor.now_ns())
    }

    /// Returns the last failure as text: the request and the peer, the answer, and a hint. `head`
    /// is the head that was sent.
    pub(crate) fn last_error(&self, head: &[u8]) -> Option<String> {
        let failure = self.failure.as_ref()?;
        // Only the first line: the headers contain signatures and tokens.
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line.strip_suffix(b" HTTP/1.1").unwrap_or(line));
        // The target chooses the token of a listing.
        let line = foreign_line(&line);
        let line = cut(&line, LINE_CHARACTERS);
        let mut text = format!("{line} at {}: {failure}", self.peer.address);
        // The body of an answer with a success status is data, and must not appear in a message.
        if matches!(failure, Failure::Status(300..)) {
            self.refusal.describe(&mut text);
        }
        let Attempts { count, paused_ns, .. } = self.attempts;
        if count > 0 {
            let note =
                format!(" (sent {} times in {} s)", count + 1, paused_ns.div_ceil(1_000_000_000));
            // Insert the note before the hint.
            text.insert_str(text.find(HINT).unwrap_or(text.len()), &note);
        }
        Some(text)
    }

    /// Returns the answer if the last request failed because of its status.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        matches!(self.failure, Some(Failure::Status(_))).then_some(&self.refusal)
    }

    /// Returns the S3 error code of the last failed request; empty if there was none.
    pub(crate) fn refused_code(&self) -> String {
        self.refusal().map(Refusal::code).unwrap_or_default()
    }
}

fn reply(outcome: Outcome, received: Received, sent_ns: u64, ended_ns: u64) -> Reply {
    Reply {
        outcome,
        status: received.status,
        content_length: received.content_length,
        body_bytes: received.body_bytes,
        sent_ns,
        first_byte_ns: received.first_ns,
        ended_ns,
    }
}
