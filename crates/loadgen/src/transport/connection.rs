//! One keep-alive HTTP/1.1 connection: a request out, its answer in, and what can go wrong.

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

/// The most of a request's line in an error.
const LINE_CHARACTERS: usize = 500;

/// The longest pause before connecting again after a row of failures.
const PAUSE_NS_MAX: u64 = 250_000_000;

/// A connection to one endpoint. It is made when it is needed, and again after every failure.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer,
    reactor: Rc<Reactor>,
    buffers: Rc<Buffers>,
    is_per_request: bool,
    /// Whether a write may be sent twice, if its method allows it.
    repeats_writes: bool,
    judge: Judge,
    stream: Option<Stream>,
    parser: ResponseParser,
    refusal: Refusal,
    failure: Option<Failure>,
    /// Connection attempts that failed one after another.
    refused: u32,
    traffic: Traffic,
    /// The retries of the last request.
    attempts: Attempts,
    /// The version that the last checked read returned, or that the last condition named: a history has it.
    pub(crate) version: u64,
    /// What the last handshake agreed on.
    tls: Option<(ProtocolVersion, CipherSuite)>,
}

/// Says what a refusal means: what a status tells is a matter of the protocol above HTTP.
pub(crate) type Judge = fn(u16, &Refusal) -> Outcome;

/// What is sent: the request line and the headers, finished, and statuses that mean success.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending<'a> {
    pub(crate) method: Method,
    pub(crate) head: &'a [u8],
    pub(crate) expected: &'static [u16],
    /// Whether it may be sent twice.
    pub(crate) is_idempotent: bool,
}

impl<'a> Sending<'a> {
    /// Returns what is sent by a method that alone says whether it may be sent twice.
    #[inline]
    pub(crate) fn new(method: Method, head: &'a [u8], expected: &'static [u16]) -> Self {
        Self { method, head, expected, is_idempotent: method.is_idempotent() }
    }
}

/// How one HTTP request went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    /// `OK` when the status was among those expected and the whole answer came.
    pub(crate) outcome: Outcome,
    /// Zero when no head came.
    pub(crate) status: u16,
    pub(crate) content_length: Option<u64>,
    /// Bytes of the body, framing apart.
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

    /// Sends no write twice: for a history, each of its writes is carried out once or never.
    pub(crate) fn repeat_reads_alone(&mut self) {
        self.repeats_writes = false;
    }

    /// Returns whom it leads to.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer.address
    }

    /// Tells whether the last request has left it open.
    pub(crate) fn is_kept(&self) -> bool {
        self.stream.is_some()
    }

    /// Returns the version of TLS and the cipher that the last handshake agreed on.
    pub(crate) fn tls(&self) -> Option<(String, String)> {
        let (version, cipher) = self.tls?;
        let word = |text: Option<&str>| text.unwrap_or("unknown").to_owned();
        Some((word(version.as_str()), word(cipher.as_str())))
    }

    /// Counts a request that was sent again for another reason than a stale connection.
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
    /// A server may close a kept connection at the moment at which the next request is sent on
    /// it. Then the request was not answered for no fault of the target's, and is sent once more
    /// on a fresh connection, if sending it twice does no harm.
    ///
    /// After a temporary answer it is sent again where the reactor has retries: outside of the
    /// measurement.
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

    /// Rests before a failed request is sent again; false when its answer is final.
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

    /// Tells whether an attempt of the last request before its last one may have been carried out.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.attempts.is_in_doubt
    }

    /// Sends once. The flag in the result tells whether all was sent when the answer was over.
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

    /// Waits a little before trying again what has failed: a target that refuses connections
    /// would else be asked as fast as this host can ask.
    #[cold]
    async fn pause(&mut self) {
        let pause_ns = (1_000_000 << self.refused.min(8)).min(PAUSE_NS_MAX);
        let due_ns = self.reactor.now_ns() + pause_ns;
        self.reactor.sleep_until(due_ns).await;
    }

    /// Tells whether there is a connection that can be used; drops one that has gone stale.
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

    /// Closes the connection; the next request makes another. Needed where the future of a request
    /// was dropped: the rest of its answer would be taken for that of the next.
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

    /// Notes that an answer was whole, but not as it should be; returns what that makes of it.
    #[cold]
    pub(crate) fn object_to(&mut self, failure: Failure) -> Outcome {
        let outcome = failure.outcome();
        self.failure = Some(failure);
        outcome
    }

    /// Ends a request that began then with a failure, without having asked for more.
    #[cold]
    pub(crate) fn refuse(&mut self, began_ns: u64, outcome: Outcome, text: String) -> Completion {
        let outcome = self.object_to(Failure::Told(outcome, text));
        Completion::plain(outcome, began_ns, 0, self.reactor.now_ns())
    }

    /// Returns what the last failure was about, for people: what was asked of whom, what came
    /// back, and a hint. `head` is the head that was sent.
    pub(crate) fn last_error(&self, head: &[u8]) -> Option<String> {
        let failure = self.failure.as_ref()?;
        // The first line alone: what follows holds signatures and tokens.
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line.strip_suffix(b" HTTP/1.1").unwrap_or(line));
        // Where a listing goes on was the target's to say.
        let line = foreign_line(&line);
        let line = cut(&line, LINE_CHARACTERS);
        let mut text = format!("{line} at {}: {failure}", self.peer.address);
        // What came with a status of success is data, and has no place in a message.
        if matches!(failure, Failure::Status(300..)) {
            self.refusal.describe(&mut text);
        }
        let Attempts { count, paused_ns, .. } = self.attempts;
        if count > 0 {
            let note =
                format!(" (sent {} times in {} s)", count + 1, paused_ns.div_ceil(1_000_000_000));
            // A hint follows what it is about.
            text.insert_str(text.find(HINT).unwrap_or(text.len()), &note);
        }
        Some(text)
    }

    /// Returns what came back when the last request failed by a status, and nothing otherwise.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        matches!(self.failure, Some(Failure::Status(_))).then_some(&self.refusal)
    }

    /// Returns the code of S3's error by which the last request failed, or nothing.
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
