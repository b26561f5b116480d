//! One HTTP request and its answer on an open connection.

use std::io;
use std::rc::Rc;

use loadstone_wire::http1::{Event, ParseError, ResponseParser};

use crate::reactor::Reactor;
use crate::transport::{
    failure::{Failure, Refusal},
    socket::{Buffers, Input, OUTPUT_BYTES, SocketError, Stream},
    transfer::{Download, Upload},
};

/// Maximum number of reads or writes of one request before other requests have a turn.
const TRANSFERS_PER_TURN: u32 = 8;

/// State of an answer that is being received.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) content_length: Option<u64>,
    pub(crate) keep_alive: bool,
    pub(crate) is_expected: bool,
    pub(crate) body_bytes: u64,
    pub(crate) extra_bytes: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

/// Processes an answer as it arrives.
pub(crate) struct Reading<'a, D> {
    pub(crate) parser: &'a mut ResponseParser,
    pub(crate) refusal: &'a mut Refusal,
    pub(crate) download: &'a mut D,
    pub(crate) expected: &'static [u16],
    pub(crate) received: Received,
    pub(crate) is_over: bool,
    pub(crate) mistake: Option<ParseError>,
}

impl<D: Download> Reading<'_, D> {
    /// Processes bytes from the connection.
    #[inline]
    fn take(&mut self, mut input: &[u8], now_ns: u64) {
        self.received.last_ns = now_ns;
        if self.received.first_ns == 0 {
            self.received.first_ns = now_ns;
        }
        while !self.is_over && self.mistake.is_none() {
            let parsed = match self.parser.next(input) {
                Ok(parsed) => parsed,
                Err(error) => return self.mistake = Some(error),
            };
            let consumed = parsed.consumed;
            match parsed.event {
                Event::More => return,
                Event::End => self.is_over = true,
                Event::Body(bytes) => {
                    self.received.body_bytes += bytes.len() as u64;
                    if self.received.is_expected {
                        self.download.data(bytes);
                    } else {
                        self.refusal.data(bytes);
                    }
                }
                Event::Head(head) => {
                    self.received.status = head.status;
                    self.received.content_length = head.content_length;
                    self.received.keep_alive = head.keep_alive;
                    self.received.is_expected = self.expected.contains(&head.status);
                    if self.received.is_expected {
                        self.download.head(&head);
                    } else {
                        self.refusal.head(&head);
                    }
                }
            }
            input = &input[consumed..];
        }
        self.received.extra_bytes += input.len() as u64;
    }

    /// Counts bytes that the kernel has discarded, out of `left` remaining bytes of the body.
    #[inline]
    fn pass(&mut self, count: u64, left: u64, now_ns: u64) {
        let passed = count.min(left);
        self.received.last_ns = now_ns;
        self.received.body_bytes += passed;
        self.received.extra_bytes += count - passed;
        self.parser.skip(passed);
        self.is_over = passed == left;
    }

    fn is_done(&self) -> bool {
        self.is_over || self.mistake.is_some()
    }
}

/// One request and its answer on an open connection.
pub(crate) struct Exchange<'a> {
    pub(crate) stream: &'a mut Stream,
    pub(crate) reactor: &'a Rc<Reactor>,
    /// Number of transfers since others had a turn.
    pub(crate) turns: u32,
}

impl Exchange<'_> {
    /// Sends head and body; returns false if an answer began before everything was sent.
    pub(crate) async fn send<U: Upload, D: Download>(
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
                    // A server that refuses a request need not read it to the end. The answer that
                    // it sent before it closed may have arrived nevertheless.
                    while !reading.is_done() && matches!(self.read(reading), Ok(Input::Bytes(_))) {}
                    let has_answer = reading.received.status != 0;
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
                    Input::Bytes(_) if reading.received.status != 0 || reading.is_done() => {
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
    pub(crate) async fn receive<D: Download>(
        &mut self,
        reading: &mut Reading<'_, D>,
    ) -> Result<(), Failure> {
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
        if !D::IS_SEEN
            && let Some(left) = reading.parser.body_left()
            && reading.received.is_expected
            && self.stream.can_discard()
        {
            // Reads one byte more than the answer has left, to detect excess data.
            let most = usize::try_from(left).map_or(usize::MAX, |left| left.saturating_add(1));
            return self.stream.discard(most, |count| reading.pass(count, left, reactor.now_ns()));
        }
        let most = match reading.received.status {
            0 => reading.download.first_read_bytes(),
            _ => usize::MAX,
        };
        self.stream.read(most, |bytes| reading.take(bytes, reactor.now_ns()))
    }

    /// Yields to other tasks from time to time: on a fast path, a long transfer never has to wait.
    #[inline]
    async fn turn(&mut self) -> Result<(), Failure> {
        self.turns += 1;
        if self.turns.is_multiple_of(TRANSFERS_PER_TURN) {
            self.reactor.turn().await;
            if self.reactor.expired() {
                return Err(Failure::Transfer(io::Error::from(io::ErrorKind::TimedOut).into()));
            }
        }
        Ok(())
    }
}

/// Writes the next part of head and body to the socket, both in one piece.
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
        return Ok(stream.write(&head[head_sent..])? as u64);
    }
    let mut output = buffers.output.borrow_mut();
    let most = OUTPUT_BYTES.min(upload.best_bytes(body_sent));
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(most);
    upload.write(body_sent, output.payload(length));
    Ok(stream.write(output.with_head(&head[head_sent..], length))? as u64)
}

/// Handles a close of the peer, which may be the regular end of the answer.
fn end<D>(reading: &mut Reading<'_, D>) -> Result<(), Failure> {
    reading.parser.close().map_err(Failure::Parse)?;
    reading.is_over = true;
    Ok(())
}
