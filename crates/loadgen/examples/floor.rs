//! Measures the minimum cost of the kernel's transport: sends one fixed request on each connection,
//! waits, discards the answer and sends the request again. Nothing is generated, checked or
//! recorded.
//!
//! `cargo run --release --example floor -- epoll get 9000 16 1.5` sends requests to the null server
//! on port 9000 over 16 connections for 1.5 s and prints the number of answers. `put` sends 4 KiB
//! instead, and `io_uring` selects the other interface of the kernel. To compare its CPU time with
//! loadstone's: `python bench/http_vs_peers.py --peer floor --peer floor-io_uring`.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};
use socket2::SockRef;

const USAGE: &str = "usage: floor epoll|io_uring get|put PORT CONNECTIONS SECONDS";
const BODY_BYTES: usize = 4096;
/// As long as those of loadstone; the null server ignores them.
const HEADERS: &str = "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
    x-amz-date: 20260101T000000Z\r\n\
    authorization: AWS4-HMAC-SHA256 Credential=bench/20260101/us-east-1/s3/aws4_request, \
    SignedHeaders=host;x-amz-content-sha256;x-amz-date, \
    Signature=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n";
/// Identifies a sent request in the ring; answers are identified by the index of their connection.
const SENDING: u64 = u64::MAX;
/// `IORING_RECVSEND_POLL_FIRST`: no answer can have arrived yet, so the kernel need not try to read
/// first.
const POLL_FIRST: u16 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, operation, port, connections, seconds] = &words[..] else { return Err(USAGE.into()) };
    let port: u16 = port.parse()?;
    let request = request(operation, port)?;
    let connect = |_| TcpStream::connect(("127.0.0.1", port));
    let sockets =
        (0..connections.parse::<usize>()?).map(connect).collect::<io::Result<Vec<_>>>()?;
    let answer_bytes = answer_bytes(sockets.first().ok_or(USAGE)?, &request)?;
    for socket in &sockets {
        socket.set_nodelay(true)?;
    }
    let end = Instant::now() + Duration::try_from_secs_f64(seconds.parse()?)?;
    let load = Load { sockets, request, answer_bytes, end };
    let answers = match way.as_str() {
        "epoll" => load.by_epoll()?,
        "io_uring" => load.by_io_uring()?,
        _ => return Err(USAGE.into()),
    };
    println!("{answers}");
    Ok(())
}

fn request(operation: &str, port: u16) -> Result<Vec<u8>, Box<dyn Error>> {
    let head =
        |method| format!("{method} /bench/o-1 HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{HEADERS}");
    match operation {
        "get" => Ok(format!("{}\r\n", head("GET")).into_bytes()),
        "put" => {
            let head = format!("{}content-length: {BODY_BYTES}\r\n\r\n", head("PUT"));
            Ok([head.into_bytes(), vec![b'x'; BODY_BYTES]].concat())
        }
        _ => Err(USAGE.into()),
    }
}

/// Sends one request, and returns the length of the answer, which is the same for all.
fn answer_bytes(mut socket: &TcpStream, request: &[u8]) -> Result<usize, Box<dyn Error>> {
    socket.write_all(request)?;
    let mut answer = BufReader::new(socket);
    let (mut head_bytes, mut body_bytes) = (0, None);
    loop {
        let mut line = String::new();
        head_bytes += answer.read_line(&mut line)?;
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => body_bytes = Some(value.parse::<usize>()?),
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let body_bytes = body_bytes.ok_or("the answer has no content-length")?;
    answer.read_exact(&mut vec![0; body_bytes])?;
    Ok(head_bytes + body_bytes)
}

struct Load {
    sockets: Vec<TcpStream>,
    request: Vec<u8>,
    answer_bytes: usize,
    end: Instant,
}

impl Load {
    fn by_epoll(&self) -> io::Result<u64> {
        // SAFETY: a new descriptor, which only this function closes.
        let epoll = unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(0))?) };
        for (socket, place) in self.sockets.iter().zip(0..) {
            socket.set_nonblocking(true)?;
            let (fd, socket_fd) = (epoll.as_raw_fd(), socket.as_raw_fd());
            let events = (libc::EPOLLIN | libc::EPOLLET) as u32;
            let mut event = libc::epoll_event { events, u64: place };
            // SAFETY: the event is alive, and the kernel copies it.
            checked(unsafe {
                libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, socket_fd, &raw mut event)
            })?;
            self.send(socket)?;
        }
        let mut answers = 0;
        let mut missing = vec![self.answer_bytes; self.sockets.len()];
        let mut discarded = vec![MaybeUninit::<u8>::uninit(); self.answer_bytes];
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        while Instant::now() < self.end {
            let (most, wait_ms) = (events.len() as i32, 100);
            // SAFETY: the kernel writes at most as many events as the buffer holds.
            let ready =
                unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), most, wait_ms) };
            for event in &events[..checked(ready)? as usize] {
                let place = event.u64 as usize;
                let (socket, missing) = (&self.sockets[place], &mut missing[place]);
                // tcp(7): MSG_TRUNC discards the received bytes instead of copying them into a
                // buffer.
                let room = &mut discarded[..*missing];
                match SockRef::from(socket).recv_with_flags(room, libc::MSG_TRUNC) {
                    Ok(0) => return Err(io::ErrorKind::ConnectionReset.into()),
                    Ok(came) => *missing -= came,
                    // The data arrived together with that of the previous event.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    Err(error) => return Err(error),
                }
                if *missing == 0 {
                    *missing = self.answer_bytes;
                    answers += 1;
                    self.send(socket)?;
                }
            }
        }
        Ok(answers)
    }

    fn send(&self, mut socket: &TcpStream) -> io::Result<()> {
        if socket.write(&self.request)? == self.request.len() {
            return Ok(());
        }
        Err(not_sent())
    }

    fn by_io_uring(&self) -> io::Result<u64> {
        // Each connection waits for one answer and sends one request.
        let entries = (2 * self.sockets.len() as u32).next_power_of_two();
        let mut ring: IoUring =
            IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries)?;
        let (submitter, mut submissions, mut completions) = ring.split();
        let full = |_| io::Error::other("the ring has no room");
        for place in 0..self.sockets.len() {
            let asked = [self.sending(place), self.receiving(place, self.answer_bytes)];
            // SAFETY: `sending` and `receiving` explain why the memory they refer to outlives the
            // ring.
            unsafe { submissions.push_multiple(&asked) }.map_err(full)?;
        }
        let mut answers = 0;
        let mut missing = vec![self.answer_bytes; self.sockets.len()];
        while Instant::now() < self.end {
            submissions.sync();
            submitter.submit_and_wait(1)?;
            // Updates the ring: submitted entries free space, and completions become visible.
            submissions.sync();
            completions.sync();
            for completion in &mut completions {
                let came = match completion.result() {
                    // Only a request that was not sent, or not completely, has a completion.
                    _ if completion.user_data() == SENDING => return Err(not_sent()),
                    0 => return Err(io::ErrorKind::ConnectionReset.into()),
                    error @ ..0 => return Err(io::Error::from_raw_os_error(-error)),
                    came => came as usize,
                };
                let place = completion.user_data() as usize;
                missing[place] -= came;
                let is_whole = missing[place] == 0;
                if is_whole {
                    missing[place] = self.answer_bytes;
                    answers += 1;
                    // SAFETY: as above.
                    unsafe { submissions.push(&self.sending(place)) }.map_err(full)?;
                }
                let receiving = self.receiving(place, missing[place]);
                // SAFETY: as above.
                unsafe { submissions.push(&receiving) }.map_err(full)?;
            }
        }
        Ok(answers)
    }

    /// Sends the request, which is neither changed nor freed as long as the ring exists.
    fn sending(&self, place: usize) -> squeue::Entry {
        let fd = types::Fd(self.sockets[place].as_raw_fd());
        opcode::Send::new(fd, self.request.as_ptr(), self.request.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(SENDING)
    }

    /// Discards this many bytes of an answer. Nothing is written to memory, so no buffer is given.
    fn receiving(&self, place: usize, bytes: usize) -> squeue::Entry {
        let fd = types::Fd(self.sockets[place].as_raw_fd());
        opcode::Recv::new(fd, std::ptr::null_mut(), bytes as u32)
            .flags(libc::MSG_TRUNC)
            .ioprio(POLL_FIRST)
            .build()
            .user_data(place as u64)
    }
}

fn not_sent() -> io::Error {
    io::Error::other("a request did not fit the socket at once")
}

fn checked(returned: i32) -> io::Result<i32> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
