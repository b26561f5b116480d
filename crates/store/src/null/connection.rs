//! One connection of the null server: what arrived, what is to be dropped, what is to be sent.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::content::{Content, PATTERN_BYTES};
use super::control::{self, Memory};
use super::poll;
use super::reply::{self, Reply, Slice};
use super::request::{self, BodyForm, Chunked, Parsed, Request};

/// Bytes of a body that are dropped at once.
const DISCARD_BYTES: usize = 1 << 20;
/// Bytes of an object that are made at once.
pub(super) const MADE_BYTES: usize = 128 << 10;

/// What all threads of a null server share.
pub(super) struct Shared {
    pub(super) content: Content,
    pub(super) memory: Memory,
    /// The whole answer to a read of an object of the usual size, if that is small.
    pub(super) usual: Option<Vec<u8>>,
}

/// What a thread lends to the connection it is busy with.
pub(super) struct Workbench<'w> {
    pub(super) shared: &'w Shared,
    pub(super) counters: &'w super::Counters,
    /// What arrives is read into this.
    pub(super) input: &'w mut [u8],
    /// Bytes of objects are made in this.
    pub(super) made: &'w mut [u8],
}

/// What a connection waits for after it was served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Next {
    Read,
    Write,
    Close,
}

/// A connection.
pub(super) struct Connection {
    socket: OwnedFd,
    /// Bytes that arrived and wait for those that belong to them.
    held: Vec<u8>,
    /// The rest of a body that is dropped, and the answer that follows it.
    body: Option<(Body, Reply)>,
    /// What did not fit into the socket.
    output: Vec<u8>,
    output_at: usize,
    slice: Option<Slice>,
    closes: bool,
    pub(super) is_writing: bool,
}

/// The rest of a body.
#[derive(Clone, Copy, Debug)]
enum Body {
    Length(u64),
    Chunked(Chunked),
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Connection {
        Connection {
            socket,
            held: Vec::new(),
            body: None,
            output: Vec::new(),
            output_at: 0,
            slice: None,
            closes: false,
            is_writing: false,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Goes on after the socket became ready.
    pub(super) fn advance(&mut self, bench: &mut Workbench<'_>) -> Next {
        let advanced = if self.is_writing { self.resume(bench) } else { self.read(bench) };
        match advanced {
            Ok(next) => next,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Next::Read,
            Err(_) => Next::Close,
        }
    }

    fn read(&mut self, bench: &mut Workbench<'_>) -> io::Result<Next> {
        if let Some((Body::Length(left), _)) = &mut self.body {
            let dropped = poll::discard(
                self.socket.as_fd(),
                DISCARD_BYTES.min(usize::try_from(*left).unwrap_or(DISCARD_BYTES)),
            )?;
            if dropped == 0 {
                return Ok(Next::Close);
            }
            bench.counters.add_received(dropped);
            *left -= dropped as u64;
            return if *left == 0 { self.end_body(bench) } else { Ok(Next::Read) };
        }
        let arrived = poll::receive(self.fd(), bench.input)?;
        if arrived == 0 {
            return Ok(Next::Close);
        }
        bench.counters.add_received(arrived);
        let input = std::mem::take(&mut bench.input);
        let served = self.take(&input[..arrived], bench);
        bench.input = input;
        served
    }

    /// Goes on with output, then with what arrived meanwhile.
    fn resume(&mut self, bench: &mut Workbench<'_>) -> io::Result<Next> {
        match self.flush(bench)? {
            Next::Read => {
                let held = std::mem::take(&mut self.held);
                self.take(&held, bench)
            }
            next => Ok(next),
        }
    }

    /// Serves what arrived, behind what was held.
    fn take(&mut self, arrived: &[u8], bench: &mut Workbench<'_>) -> io::Result<Next> {
        if self.held.is_empty() {
            return self.serve_all(arrived, bench);
        }
        let mut held = std::mem::take(&mut self.held);
        held.extend_from_slice(arrived);
        self.serve_all(&held, bench)
    }

    /// Serves requests one after the other; the beginning of one that is not whole is held.
    fn serve_all(&mut self, mut bytes: &[u8], bench: &mut Workbench<'_>) -> io::Result<Next> {
        loop {
            if let Some((Body::Chunked(mut state), reply)) =
                self.body.take_if(|(body, _)| matches!(body, Body::Chunked(_)))
            {
                let Some(passed) = state.pass(bytes) else { return Ok(Next::Close) };
                bytes = &bytes[passed..];
                self.body = Some((Body::Chunked(state), reply));
                if state != Chunked::Done {
                    return Ok(Next::Read);
                }
                match self.end_body(bench)? {
                    Next::Read => continue,
                    next => return Ok(self.hold(bytes, next)),
                }
            }
            if bytes.is_empty() {
                return Ok(Next::Read);
            }
            match request::parse(bytes) {
                Parsed::Partial => return Ok(self.hold(bytes, Next::Read)),
                Parsed::Invalid => return self.refuse(reply::BAD_REQUEST, bench),
                Parsed::Request(request) => match self.serve(&request, bytes, bench)? {
                    Served::Whole(used, Next::Read) => bytes = &bytes[used..],
                    Served::Whole(used, next) => return Ok(self.hold(&bytes[used..], next)),
                    Served::NeedsMore => return Ok(self.hold(bytes, Next::Read)),
                },
            }
        }
    }

    fn hold(&mut self, bytes: &[u8], next: Next) -> Next {
        self.held.extend_from_slice(bytes);
        next
    }

    fn refuse(&mut self, answer: &'static [u8], bench: &mut Workbench<'_>) -> io::Result<Next> {
        self.closes = true;
        self.send(Reply::Ready(answer), bench)
    }

    /// Serves one request, which stands at the beginning of `bytes`.
    fn serve(
        &mut self,
        request: &Request<'_>,
        bytes: &[u8],
        bench: &mut Workbench<'_>,
    ) -> io::Result<Served> {
        let arrived = &bytes[request.head_bytes..];
        let is_control = control::is_control(request);
        let is_here = match request.body {
            BodyForm::Length(length) => length <= arrived.len() as u64,
            BodyForm::Chunked => false,
        };
        if request.waits_for_continue && !is_here && arrived.is_empty() && self.held.is_empty() {
            poll::send(self.fd(), reply::CONTINUE, false)?;
        }
        let length = match (request.body, is_control) {
            (BodyForm::Chunked, true) => {
                return self
                    .refuse(reply::TOO_LARGE, bench)
                    .map(|next| Served::Whole(bytes.len(), next));
            }
            (BodyForm::Length(length), true) if length > control::BODY_BYTES_MAX as u64 => {
                return self
                    .refuse(reply::TOO_LARGE, bench)
                    .map(|next| Served::Whole(bytes.len(), next));
            }
            (BodyForm::Length(_), true) if !is_here => return Ok(Served::NeedsMore),
            (BodyForm::Length(length), _) => length,
            (BodyForm::Chunked, false) => 0,
        };
        bench.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.closes |= request.closes;
        let reply = match is_control {
            false => reply::to_object(request, &bench.shared.content),
            true => {
                let body = &arrived[..length as usize];
                let headers = header_pairs(bytes);
                let answer = bench.shared.memory.answer(request, &headers, body);
                reply::of_control(answer, request.method)
            }
        };
        if request.body == BodyForm::Chunked {
            self.body = Some((Body::Chunked(Chunked::default()), reply));
            return Ok(Served::Whole(request.head_bytes, Next::Read));
        }
        let here = length.min(arrived.len() as u64);
        let used = request.head_bytes + here as usize;
        if here < length {
            self.body = Some((Body::Length(length - here), reply));
            return Ok(Served::Whole(used, Next::Read));
        }
        Ok(Served::Whole(used, self.send(reply, bench)?))
    }

    /// Sends the answer that was waiting for the end of a body.
    fn end_body(&mut self, bench: &mut Workbench<'_>) -> io::Result<Next> {
        match self.body.take() {
            Some((_, reply)) => self.send(reply, bench),
            None => Ok(Next::Read),
        }
    }

    fn send(&mut self, reply: Reply, bench: &mut Workbench<'_>) -> io::Result<Next> {
        match reply {
            Reply::Ready(bytes) => self.send_ready(bytes, bench),
            Reply::UsualObject => match &bench.shared.usual {
                Some(ready) => self.send_ready(ready, bench),
                None => {
                    let bytes = bench.shared.content.usual_bytes();
                    let object = bench.shared.content.object("", bytes);
                    let Some(object) = object else { return Ok(Next::Close) };
                    self.output.extend(reply::object_head(object.bytes, None));
                    self.slice = Some(Slice { object, at: 0, end: object.bytes });
                    self.flush(bench)
                }
            },
            Reply::Written { head, body } => {
                self.output = head;
                self.slice = body;
                self.flush(bench)
            }
        }
    }

    /// Sends bytes that need no copy unless the socket is full.
    fn send_ready(&mut self, bytes: &[u8], bench: &mut Workbench<'_>) -> io::Result<Next> {
        let sent = match poll::send(self.fd(), bytes, false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            other => other?,
        };
        bench.counters.add_sent(sent);
        if sent == bytes.len() {
            return Ok(if self.closes { Next::Close } else { Next::Read });
        }
        self.output.extend_from_slice(&bytes[sent..]);
        Ok(Next::Write)
    }

    /// Sends what is to be sent, as far as the socket takes it.
    fn flush(&mut self, bench: &mut Workbench<'_>) -> io::Result<Next> {
        loop {
            let head = &self.output[self.output_at..];
            if head.is_empty() && self.slice.is_none() {
                self.output.clear();
                self.output_at = 0;
                return Ok(if self.closes { Next::Close } else { Next::Read });
            }
            let sent = match self.slice {
                None => poll::send(self.fd(), head, false),
                Some(slice) => send_slice(self.fd(), head, slice, bench),
            };
            let sent = match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Next::Write),
                other => other?,
            };
            bench.counters.add_sent(sent);
            let of_head = sent.min(head.len());
            self.output_at += of_head;
            if let Some(slice) = &mut self.slice {
                slice.at += (sent - of_head) as u64;
                if slice.at == slice.end {
                    self.slice = None;
                }
            }
        }
    }
}

/// How far a request got.
enum Served {
    /// Answered, or its answer waits for the rest of the body; this many bytes are used up.
    Whole(usize, Next),
    /// Its body has to be whole first.
    NeedsMore,
}

/// Sends a head and the beginning of the bytes behind it.
fn send_slice(
    fd: BorrowedFd<'_>,
    head: &[u8],
    slice: Slice,
    bench: &mut Workbench<'_>,
) -> io::Result<usize> {
    let left = slice.end - slice.at;
    if let Content::Fixed { file, .. } = &bench.shared.content
        && left > MADE_BYTES as u64
    {
        // Large bodies go from the file to the socket without passing through this process.
        if !head.is_empty() {
            return poll::send(fd, head, true);
        }
        let at = slice.at % PATTERN_BYTES as u64;
        let length = left.min(PATTERN_BYTES as u64 - at) as usize;
        return poll::send_file(fd, file, at, length);
    }
    let made = &mut bench.made[..left.min(MADE_BYTES as u64) as usize];
    bench.shared.content.fill(slice.object, slice.at, made);
    poll::send_both(fd, head, made, left > made.len() as u64)
}

/// Returns the headers of a request, names in lower case.
fn header_pairs(bytes: &[u8]) -> Vec<(String, String)> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    // It was parsed before: this cannot fail.
    let _ = head.parse(bytes);
    head.headers
        .iter()
        .map(|header| {
            let value = String::from_utf8_lossy(header.value).into_owned();
            (header.name.to_ascii_lowercase(), value)
        })
        .collect()
}
