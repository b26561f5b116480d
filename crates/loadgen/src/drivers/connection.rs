//! One keep-alive HTTP/1.1 connection: a request out, its answer in, and what can go wrong.

use std::fmt;
use std::io;
use std::rc::Rc;

use loadstone_wire::http1::{Event, Head, Method, ParseError, ResponseParser};
use loadstone_wire::xml;

use crate::drivers::Traffic;
use crate::drivers::socket::{Buffers, Input, OUTPUT_BYTES, Peer, SocketError, Stream};
use crate::drivers::transfer::{Download, Upload};
use crate::outcome::{Answer, Outcome};
use crate::payload::Evidence;
use crate::reactor::Reactor;

/// Kept of the body of an answer that was not expected: enough for an error document.
const REFUSAL_BYTES_MAX: usize = 4 << 10;
/// The longest pause before connecting again after a row of failures.
const PAUSE_NS_MAX: u64 = 250_000_000;
/// Reads or writes of one request before other requests have a turn.
const TRANSFERS_PER_TURN: u32 = 8;

/// A connection to one endpoint. It is made when it is needed, and again after every failure.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer,
    reactor: Rc<Reactor>,
    buffers: Rc<Buffers>,
    is_per_request: bool,
    stream: Option<Stream>,
    parser: ResponseParser,
    refusal: Refusal,
    failure: Option<Failure>,
    /// Connection attempts that failed one after another.
    refused: u32,
    traffic: Traffic,
}

/// What is sent: the request line and the headers, finished, and statuses that mean success.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending<'a> {
    pub(crate) method: Method,
    pub(crate) head: &'a [u8],
    pub(crate) expected: &'static [u16],
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
    /// Returns the answer to a request that consisted of this one HTTP request.
    pub(crate) fn answer(&self) -> Answer {
        Answer::plain(self.outcome, self.sent_ns, self.first_byte_ns, self.ended_ns)
    }
}

/// An answer that was not the expected one, as far as an error message needs it.
#[derive(Debug, Default)]
struct Refusal {
    body: Vec<u8>,
    location: Option<String>,
    region: Option<String>,
}

/// Why a request failed. Turned into text only when somebody asks.
#[derive(Debug)]
pub(crate) enum Failure {
    Connect(SocketError),
    Transfer(SocketError),
    Parse(ParseError),
    Overlong(u64),
    Status(u16),
    /// The bytes were not those that were written.
    Mismatch(Outcome, Option<Evidence>),
    /// The body had another length than the object has.
    Length {
        found: u64,
        expected: u64,
    },
    /// Said by the driver.
    Told(Outcome, String),
}

impl Failure {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Connect(SocketError::Io(error)) | Self::Transfer(SocketError::Io(error)) => {
                Outcome::of_io(error)
            }
            Self::Connect(SocketError::Tls(_)) | Self::Transfer(SocketError::Tls(_)) => {
                Outcome::TLS
            }
            Self::Parse(ParseError::Closed) => Outcome::CLOSED,
            Self::Parse(ParseError::Truncated) => Outcome::TRUNCATED,
            Self::Parse(_) => Outcome::PROTOCOL,
            Self::Overlong(_) => Outcome::OVERLONG,
            Self::Status(status) => Outcome::http(*status),
            Self::Mismatch(outcome, _) | Self::Told(outcome, _) => *outcome,
            Self::Length { found, expected } if found < expected => Outcome::TRUNCATED,
            Self::Length { .. } => Outcome::OVERLONG,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = |formatter: &mut fmt::Formatter<'_>, error: &SocketError| match error {
            SocketError::Io(error) if error.kind() == io::ErrorKind::TimedOut => {
                write!(formatter, "no answer within the timeout")
            }
            SocketError::Io(error) => write!(formatter, "{error}"),
            SocketError::Tls(error) => write!(formatter, "TLS: {error}"),
        };
        match self {
            Self::Connect(error) => {
                write!(formatter, "connect: ")?;
                socket(formatter, error)
            }
            Self::Transfer(error) => socket(formatter, error),
            Self::Parse(error) => write!(formatter, "{error}"),
            Self::Overlong(bytes) => write!(formatter, "{bytes} bytes follow the answer's end"),
            Self::Status(status) => write!(formatter, "HTTP {status}"),
            Self::Mismatch(_, Some(evidence)) => write!(formatter, "{evidence}"),
            Self::Mismatch(outcome, None) => write!(formatter, "the data is {}", outcome.name()),
            Self::Length { found, expected } => {
                write!(formatter, "{found} bytes came, the object has {expected}")
            }
            Self::Told(_, text) => write!(formatter, "{text}"),
        }
    }
}

/// What is known of an answer so far.
#[derive(Debug, Clone, Copy, Default)]
struct Facts {
    status: u16,
    content_length: Option<u64>,
    keep_alive: bool,
    is_expected: bool,
    body_bytes: u64,
    extra_bytes: u64,
    first_ns: u64,
    last_ns: u64,
}

/// Reads an answer while it comes.
struct Reading<'a, D> {
    parser: &'a mut ResponseParser,
    refusal: &'a mut Refusal,
    download: &'a mut D,
    expected: &'static [u16],
    facts: Facts,
    is_over: bool,
    mistake: Option<ParseError>,
}

impl<D: Download> Reading<'_, D> {
    /// Takes bytes as they came off the connection.
    #[inline]
    fn take(&mut self, mut input: &[u8], now_ns: u64) {
        self.facts.last_ns = now_ns;
        if self.facts.first_ns == 0 {
            self.facts.first_ns = now_ns;
        }
        while !self.is_over && self.mistake.is_none() {
            let progress = match self.parser.next(input) {
                Ok(progress) => progress,
                Err(error) => return self.mistake = Some(error),
            };
            let consumed = progress.consumed;
            match progress.event {
                Event::More => return,
                Event::End => self.is_over = true,
                Event::Body(bytes) => {
                    self.facts.body_bytes += bytes.len() as u64;
                    if self.facts.is_expected {
                        self.download.data(bytes);
                    } else {
                        self.refusal.data(bytes);
                    }
                }
                Event::Head(head) => {
                    self.facts.status = head.status;
                    self.facts.content_length = head.content_length;
                    self.facts.keep_alive = head.keep_alive;
                    self.facts.is_expected = self.expected.contains(&head.status);
                    if self.facts.is_expected {
                        self.download.head(&head);
                    } else {
                        self.refusal.head(&head);
                    }
                }
            }
            input = &input[consumed..];
        }
        self.facts.extra_bytes += input.len() as u64;
    }

    fn is_done(&self) -> bool {
        self.is_over || self.mistake.is_some()
    }
}

impl Download for Refusal {
    #[cold]
    fn head(&mut self, head: &Head<'_>) {
        self.body.clear();
        self.location = head.header_text("location").map(str::to_owned);
        self.region = head.header_text("x-amz-bucket-region").map(str::to_owned);
    }

    fn data(&mut self, bytes: &[u8]) {
        let room = REFUSAL_BYTES_MAX - self.body.len();
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Connection {
    pub(crate) fn new(
        peer: Peer,
        reactor: &Rc<Reactor>,
        buffers: &Rc<Buffers>,
        is_per_request: bool,
    ) -> Self {
        Self {
            peer,
            reactor: Rc::clone(reactor),
            buffers: Rc::clone(buffers),
            is_per_request,
            stream: None,
            parser: ResponseParser::default(),
            refusal: Refusal::default(),
            failure: None,
            refused: 0,
            traffic: Traffic::default(),
        }
    }

    pub(crate) fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
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
        let mut may_repeat = sending.method.is_idempotent();
        loop {
            let is_kept = self.is_open();
            if !is_kept {
                if let Err(error) = self.connect().await {
                    return self.failed(Failure::Connect(error), Facts::default(), sent_ns);
                }
            }
            let (facts, result) = self.attempt(&sending, upload, download).await;
            let may_keep = facts.keep_alive && !self.is_per_request && facts.extra_bytes == 0;
            if !(may_keep && matches!(result, Ok(true))) {
                self.close();
            }
            return match result {
                Ok(_) if facts.extra_bytes > 0 => {
                    self.failed(Failure::Overlong(facts.extra_bytes), facts, sent_ns)
                }
                Ok(_) if facts.is_expected => reply(Outcome::OK, facts, sent_ns, facts.last_ns),
                Ok(_) => self.failed(Failure::Status(facts.status), facts, sent_ns),
                Err(failure) => {
                    let is_stale = matches!(failure.outcome(), Outcome::CLOSED | Outcome::RESET);
                    if is_kept && facts.first_ns == 0 && is_stale && may_repeat {
                        may_repeat = false;
                        self.traffic.requests_repeated += 1;
                        continue;
                    }
                    self.failed(failure, facts, sent_ns)
                }
            };
        }
    }

    /// Sends once. The flag in the result tells whether all was sent when the answer was over.
    async fn attempt<U: Upload, D: Download>(
        &mut self,
        sending: &Sending<'_>,
        upload: &U,
        download: &mut D,
    ) -> (Facts, Result<bool, Failure>) {
        self.parser.start(sending.method);
        let mut reading = Reading {
            parser: &mut self.parser,
            refusal: &mut self.refusal,
            download,
            expected: sending.expected,
            facts: Facts::default(),
            is_over: false,
            mistake: None,
        };
        let stream = self.stream.as_mut().expect("it was kept, or connected just now");
        let mut exchange = Exchange { stream, reactor: &self.reactor, turns: 0 };
        let result = match exchange.send(sending.head, upload, &mut reading, &self.buffers).await {
            Ok(is_sent) => exchange.receive(&mut reading).await.map(|()| is_sent),
            Err(failure) => Err(failure),
        };
        (reading.facts, result)
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
                self.stream = Some(stream);
                Ok(())
            }
            Err(error) => {
                self.refused = self.refused.saturating_add(1);
                Err(error)
            }
        }
    }

    /// Closes the connection; the next request makes another.
    fn close(&mut self) {
        self.traffic = self.traffic();
        self.stream = None;
    }

    #[cold]
    fn failed(&mut self, failure: Failure, facts: Facts, sent_ns: u64) -> Reply {
        let reply = reply(failure.outcome(), facts, sent_ns, self.reactor.now_ns());
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

    /// Returns what the last failure was about, for people: what was asked of whom, what came
    /// back, and a hint. `head` is the head that was sent.
    pub(crate) fn last_error(&self, head: &[u8]) -> Option<String> {
        let failure = self.failure.as_ref()?;
        // The first line alone: what follows holds signatures and tokens.
        let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line.strip_suffix(b" HTTP/1.1").unwrap_or(line));
        let mut text = format!("{line} at {}: {failure}", self.peer.address);
        if matches!(failure, Failure::Status(_)) {
            self.refusal.describe(&mut text);
        }
        Some(text)
    }

    /// Returns the error document of the last refusal, if it was one of S3's.
    pub(crate) fn refusal_error(&self) -> Option<xml::StoreError> {
        xml::parse_error(&self.refusal.body)
    }
}

impl Refusal {
    fn describe(&self, text: &mut String) {
        use fmt::Write as _;
        // Writing to a text cannot fail.
        let _ = match xml::parse_error(&self.body) {
            Some(error) => write!(text, " {error}"),
            None => match String::from_utf8_lossy(&self.body).trim() {
                "" => Ok(()),
                body => {
                    let line: String = body.chars().take(200).collect();
                    write!(text, " {}", line.replace(['\r', '\n'], " "))
                }
            },
        };
        let instead = xml::parse_error(&self.body).and_then(|error| error.instead);
        if let Some(place) = self.location.as_ref().or(instead.as_ref()).or(self.region.as_ref()) {
            let _ = write!(text, "\nhint: the target says where to go: {place}");
        }
    }
}

fn reply(outcome: Outcome, facts: Facts, sent_ns: u64, ended_ns: u64) -> Reply {
    Reply {
        outcome,
        status: facts.status,
        content_length: facts.content_length,
        body_bytes: facts.body_bytes,
        sent_ns,
        first_byte_ns: facts.first_ns,
        ended_ns,
    }
}

/// One request and its answer on an open connection.
struct Exchange<'a> {
    stream: &'a mut Stream,
    reactor: &'a Rc<Reactor>,
    /// Transfers since others had a turn.
    turns: u32,
}

impl Exchange<'_> {
    /// Sends head and body; false when an answer began before all was sent.
    async fn send<U: Upload, D: Download>(
        &mut self,
        head: &[u8],
        upload: &U,
        reading: &mut Reading<'_, D>,
        buffers: &Buffers,
    ) -> Result<bool, Failure> {
        let total = head.len() as u64 + upload.length();
        let mut sent = 0;
        loop {
            match offer(self.stream, head, upload, sent, buffers) {
                Ok(taken) => sent += taken,
                Err(error) => {
                    // A server that refuses a request need not read it to its end. What it said
                    // before it closed may have come all the same.
                    while !reading.is_done() && matches!(self.read(reading), Ok(Input::Bytes(_))) {}
                    let has_answer = reading.facts.status != 0;
                    return if has_answer { Ok(false) } else { Err(Failure::Transfer(error)) };
                }
            }
            let is_flushed = self.stream.flush().map_err(Failure::Transfer)?;
            if sent == total && is_flushed {
                return Ok(true);
            }
            self.turn().await?;
            if sent < total || !is_flushed {
                self.ready_for_either().await?;
            }
            if self.stream.has_input() {
                match self.read(reading).map_err(Failure::Transfer)? {
                    Input::End => return end(reading).map(|()| false),
                    Input::Bytes(_) if reading.facts.status != 0 || reading.is_done() => {
                        return Ok(false);
                    }
                    _ => {}
                }
            }
        }
    }

    async fn ready_for_either(&mut self) -> Result<(), Failure> {
        let result = self.stream.ready_for_either().await;
        result.map_err(|error| Failure::Transfer(error.into()))
    }

    /// Reads to the end of the answer.
    async fn receive<D: Download>(&mut self, reading: &mut Reading<'_, D>) -> Result<(), Failure> {
        while !reading.is_done() {
            let result = self.stream.readable().await;
            result.map_err(|error| Failure::Transfer(error.into()))?;
            match self.read(reading).map_err(Failure::Transfer)? {
                Input::End if !reading.is_done() => return end(reading),
                _ => {}
            }
            if !reading.is_done() {
                self.turn().await?;
            }
        }
        reading.mistake.map_or(Ok(()), |mistake| Err(Failure::Parse(mistake)))
    }

    #[inline]
    fn read<D: Download>(&mut self, reading: &mut Reading<'_, D>) -> Result<Input, SocketError> {
        let reactor = self.reactor;
        self.stream.read(|bytes| reading.take(bytes, reactor.now_ns()))
    }

    /// Lets others go first once in a while: on a fast path a long transfer never has to wait.
    #[inline]
    async fn turn(&mut self) -> Result<(), Failure> {
        self.turns += 1;
        if self.turns % TRANSFERS_PER_TURN == 0 {
            self.reactor.turn().await;
            if self.reactor.expired() {
                return Err(Failure::Transfer(io::Error::from(io::ErrorKind::TimedOut).into()));
            }
        }
        Ok(())
    }
}

/// Offers the next of head and body to the kernel, both in one call.
#[inline]
fn offer<U: Upload>(
    stream: &mut Stream,
    head: &[u8],
    upload: &U,
    sent: u64,
    buffers: &Buffers,
) -> Result<u64, SocketError> {
    let head_sent = usize::try_from(sent).unwrap_or(usize::MAX).min(head.len());
    let body_sent = sent - head_sent as u64;
    let left = upload.length() - body_sent;
    if left == 0 {
        return Ok(stream.write(&head[head_sent..], &[])? as u64);
    }
    let mut output = buffers.output.borrow_mut();
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(OUTPUT_BYTES);
    let chunk = &mut output[..length];
    upload.write(body_sent, chunk);
    Ok(stream.write(&head[head_sent..], chunk)? as u64)
}

/// The peer has closed: was that the end of the answer?
fn end<D>(reading: &mut Reading<'_, D>) -> Result<(), Failure> {
    reading.parser.close().map_err(Failure::Parse)?;
    reading.is_over = true;
    Ok(())
}
