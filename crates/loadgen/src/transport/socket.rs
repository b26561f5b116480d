//! A TCP connection to a target on the reactor, with or without TLS on top.

use std::cell::RefCell;
use std::future::Future;
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use rustix::net::{self, RecvFlags, SendFlags};
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ClientConnection, ProtocolVersion};
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Error;
use crate::reactor::{Reactor, Watch};

/// Bytes per read from a socket.
const INPUT_BYTES: usize = 256 << 10;
/// Maximum number of bytes per discard from a socket.
const DISCARDED_BYTES_MAX: usize = 1 << 30;
/// Payload bytes generated and written at a time.
pub(crate) const OUTPUT_BYTES: usize = 128 << 10;
/// Space before the payload for the head. Servers accept heads of 8 KiB.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Maximum number of encrypted bytes that TLS buffers.
const TLS_UNSENT_BYTES_MAX: usize = 256 << 10;

/// Buffers that the connections of one load thread share: each needs them only between two waits.
#[derive(Debug)]
pub(crate) struct Buffers {
    input: RefCell<Box<[u8]>>,
    plain: RefCell<Box<[u8]>>,
    pub(crate) output: RefCell<Output>,
}

/// Buffer in which a request is assembled, so that the kernel takes it in one piece: `sendmsg` of
/// two pieces costs 0.2 µs more than `send` of one.
#[derive(Debug)]
pub(crate) struct Output(Box<[u8]>);

impl Output {
    /// Returns the buffer for this much payload.
    #[inline]
    pub(crate) fn payload(&mut self, length: usize) -> &mut [u8] {
        &mut self.0[HEAD_BYTES_MAX..][..length]
    }

    /// Puts a head before this much payload and returns both, or only the head if it is too long.
    #[inline]
    pub(crate) fn with_head<'a>(&'a mut self, head: &'a [u8], length: usize) -> &'a [u8] {
        let Some(start) = HEAD_BYTES_MAX.checked_sub(head.len()) else { return head };
        self.0[start..HEAD_BYTES_MAX].copy_from_slice(head);
        &self.0[start..HEAD_BYTES_MAX + length]
    }
}

impl Default for Buffers {
    fn default() -> Self {
        let buffer = |bytes| RefCell::new(vec![0; bytes].into_boxed_slice());
        Self {
            input: buffer(INPUT_BYTES),
            plain: buffer(INPUT_BYTES),
            output: RefCell::new(Output(vec![0; HEAD_BYTES_MAX + OUTPUT_BYTES].into_boxed_slice())),
        }
    }
}

/// Creates the reactor of a load thread whose clients wait for sockets.
///
/// # Errors
/// No descriptor is left.
pub(crate) fn reactor() -> Result<Rc<Reactor>, Error> {
    Reactor::for_sockets().map_err(|source| Error::Host { what: "open an epoll instance", source })
}

/// The endpoint of a connection, with its options.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// The local address, if the kernel does not choose it.
    pub(crate) source: Option<IpAddr>,
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// An error on a connection.
#[derive(Debug)]
pub(crate) enum SocketError {
    /// The kernel's error.
    Io(io::Error),
    /// The TLS library's error.
    Tls(rustls::Error),
}

impl From<io::Error> for SocketError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// This many bytes came from the network; their content was passed on.
    Bytes(usize),
    /// Nothing is available yet.
    Nothing,
    /// The peer has closed.
    End,
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Stream {
    // Dropped before the socket, so that the watch ends while we own the descriptor.
    watch: Watch,
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    reactor: Rc<Reactor>,
    buffers: Rc<Buffers>,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
}

impl Stream {
    /// Connects, and performs the TLS handshake if TLS is used.
    ///
    /// # Errors
    /// The error of the kernel or the TLS library; `TimedOut` if the task's deadline has passed.
    pub(crate) async fn connect(
        peer: &Peer,
        reactor: &Rc<Reactor>,
        buffers: &Rc<Buffers>,
    ) -> Result<Self, SocketError> {
        let domain = Domain::for_address(peer.address);
        let socket =
            Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = peer.source {
            bind_to(&socket, source)?;
        }
        match socket.connect(&peer.address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
                return Err(error.into());
            }
            _ => {}
        }
        let watch = reactor.watch(&socket)?;
        watch.writable(reactor).await?;
        if let Some(error) = socket.take_error()? {
            return Err(error.into());
        }
        let tls = match &peer.tls {
            None => None,
            Some((config, name)) => {
                let tls = ClientConnection::new(Arc::clone(config), name.clone());
                let mut tls = Box::new(tls.map_err(SocketError::Tls)?);
                tls.set_buffer_limit(Some(TLS_UNSENT_BYTES_MAX));
                Some(tls)
            }
        };
        let (reactor, buffers) = (Rc::clone(reactor), Rc::clone(buffers));
        let mut stream =
            Self { watch, socket, tls, reactor, buffers, bytes_sent: 0, bytes_received: 0 };
        stream.shake_hands().await?;
        Ok(stream)
    }

    /// Returns the TLS version and cipher suite of the handshake.
    pub(crate) fn session(&self) -> Option<(ProtocolVersion, CipherSuite)> {
        let tls = self.tls.as_ref()?;
        Some((tls.protocol_version()?, tls.negotiated_cipher_suite()?.suite()))
    }

    async fn shake_hands(&mut self) -> Result<(), SocketError> {
        loop {
            let is_flushed = self.flush()?;
            let is_busy = self.tls.as_ref().is_some_and(|tls| tls.is_handshaking());
            match (is_busy, is_flushed) {
                (false, true) => return Ok(()),
                (true, true) => self.readable().await?,
                (_, false) => self.ready_for_either().await?,
            }
            if is_busy && self.has_input() && self.read(usize::MAX, |_| {})? == Input::End {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Writes bytes in one call of the kernel; returns how many it took, possibly none.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, SocketError> {
        let Some(tls) = &mut self.tls else {
            return match net::send(&self.socket, bytes, SendFlags::NOSIGNAL)
                .map_err(io::Error::from)
            {
                Ok(sent) => {
                    self.bytes_sent += sent as u64;
                    if sent < bytes.len() {
                        self.watch.filled();
                    }
                    Ok(sent)
                }
                Err(error) if is_later(&error) => {
                    self.watch.filled();
                    Ok(0)
                }
                Err(error) => Err(error.into()),
            };
        };
        let taken = tls.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    /// Writes encrypted data of TLS to the kernel; returns true if nothing is left.
    pub(crate) fn flush(&mut self) -> Result<bool, SocketError> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            match tls.write_tls(&mut NoSignal(&self.socket)) {
                Ok(sent) => self.bytes_sent += sent as u64,
                Err(error) if is_later(&error) => {
                    self.watch.filled();
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Reads once from the kernel, up to a maximum, and passes on what arrived.
    pub(crate) fn read(
        &mut self,
        most: usize,
        mut take: impl FnMut(&[u8]),
    ) -> Result<Input, SocketError> {
        let buffers = Rc::clone(&self.buffers);
        let mut input = buffers.input.borrow_mut();
        let most = most.min(input.len());
        let received = net::recv(&self.socket, &mut input[..most], RecvFlags::empty());
        let result = received.map(|(count, _)| count).map_err(io::Error::from);
        let input_read = self.note_input(result, most)?;
        let Input::Bytes(count) = input_read else { return Ok(input_read) };
        match &mut self.tls {
            None => take(&input[..count]),
            Some(tls) => {
                if decrypt(tls, &input[..count], &buffers, take)? {
                    return Ok(Input::End);
                }
            }
        }
        Ok(input_read)
    }

    /// Returns whether the kernel can discard received data: not with TLS, which must decrypt it.
    #[inline]
    pub(crate) fn can_discard(&self) -> bool {
        self.tls.is_none()
    }

    /// Lets the kernel discard received data without copying it, up to a maximum, and returns how
    /// many bytes it discarded.
    pub(crate) fn discard(
        &mut self,
        most: usize,
        take: impl FnOnce(u64),
    ) -> Result<Input, SocketError> {
        let most = most.min(DISCARDED_BYTES_MAX);
        // tcp(7): MSG_TRUNC discards the received bytes instead of copying them into a buffer.
        // SAFETY: the kernel writes nothing, so the buffer may be absent.
        let count = unsafe {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&self.socket);
            libc::recv(fd, std::ptr::null_mut(), most, libc::MSG_TRUNC)
        };
        let result = usize::try_from(count).map_err(|_| io::Error::last_os_error());
        let input = self.note_input(result, most)?;
        if let Input::Bytes(count) = input {
            take(count as u64);
        }
        Ok(input)
    }

    /// Records the result of a read, and whether more data may be available.
    #[inline]
    fn note_input(&mut self, result: io::Result<usize>, most: usize) -> Result<Input, SocketError> {
        match result {
            Ok(0) => Ok(Input::End),
            Ok(count) => {
                if count < most {
                    self.watch.drained();
                }
                self.bytes_received += count as u64;
                Ok(Input::Bytes(count))
            }
            Err(error) if is_later(&error) => {
                self.watch.drained();
                Ok(Input::Nothing)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until input may be available.
    ///
    /// # Errors
    /// `TimedOut` if the task's deadline has passed.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.watch.readable(&self.reactor).await
    }

    /// Waits until there may be input or room for output: an answer may arrive before the end of a
    /// request.
    ///
    /// # Errors
    /// `TimedOut` if the task's deadline has passed.
    pub(crate) async fn ready_for_either(&self) -> io::Result<()> {
        let mut writable = pin!(self.watch.writable(&self.reactor));
        let mut readable = pin!(self.watch.readable(&self.reactor));
        std::future::poll_fn(|context| match writable.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => readable.as_mut().poll(context),
        })
        .await
    }

    /// Returns whether received data has not been read yet.
    #[inline]
    pub(crate) fn has_input(&self) -> bool {
        self.watch.has_input()
    }

    /// Returns whether an idle connection was closed or received unexpected data, so that it is
    /// unusable. TLS may send data on its own, for example session tickets.
    pub(crate) fn is_stale(&mut self) -> bool {
        while self.watch.has_input() {
            let mut is_spoken_to = false;
            match self.read(usize::MAX, |_| is_spoken_to = true) {
                Ok(Input::Nothing) => return false,
                Ok(Input::Bytes(_)) if !is_spoken_to => {}
                _ => return true,
            }
        }
        false
    }
}

/// Decrypts received data and passes on the plaintext; returns true if the peer has closed.
fn decrypt(
    tls: &mut ClientConnection,
    mut ciphertext: &[u8],
    buffers: &Buffers,
    mut take: impl FnMut(&[u8]),
) -> Result<bool, SocketError> {
    let mut plain = buffers.plain.borrow_mut();
    while !ciphertext.is_empty() {
        tls.read_tls(&mut ciphertext)?;
        let state = tls.process_new_packets().map_err(SocketError::Tls)?;
        let mut left = state.plaintext_bytes_to_read();
        while left > 0 {
            let count = tls.reader().read(&mut plain)?;
            take(&plain[..count]);
            left -= count.min(left);
        }
        if state.peer_has_closed() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Binds a socket to a local address.
fn bind_to(socket: &Socket, source: IpAddr) -> io::Result<()> {
    // Delays the choice of a port until the connect. Otherwise, ports could not be shared between
    // targets and would run out.
    const BIND_ADDRESS_NO_PORT: libc::c_int = 24;
    let enabled: libc::c_int = 1;
    let length = size_of_val(&enabled) as libc::socklen_t;
    // SAFETY: the option's value is an integer of this length. If the kernel does not know the
    // option, the port is chosen early.
    unsafe {
        let value = std::ptr::from_ref(&enabled).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, BIND_ADDRESS_NO_PORT, value, length);
    }
    socket.bind(&SocketAddr::new(source, 0).into())
}

/// Writes without the signal that a closed connection would otherwise raise.
struct NoSignal<'a>(&'a Socket);

impl Write for NoSignal<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send_with_flags(bytes, libc::MSG_NOSIGNAL)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored_with_flags(slices, libc::MSG_NOSIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_uses_its_source_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let to = listener.local_addr().expect("it is bound");
        let socket =
            Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
        let source: IpAddr = "127.0.0.2".parse().expect("an address");
        bind_to(&socket, source).expect("an address of this host");
        socket.connect(&to.into()).expect("it listens");
        let (_, from) = listener.accept().expect("it has connected");
        assert_eq!(from.ip(), source);
    }

    #[test]
    fn a_head_goes_before_the_payload_or_alone_if_it_is_too_long() {
        let mut output = Buffers::default().output.into_inner();
        output.payload(3).copy_from_slice(b"abc");
        for length in [0, 1, HEAD_BYTES_MAX] {
            let head = vec![b'h'; length];
            assert_eq!(output.with_head(&head, 3), [&head[..], b"abc"].concat());
        }
        let too_long = vec![b'h'; HEAD_BYTES_MAX + 1];
        assert_eq!(output.with_head(&too_long, 3), too_long);
    }
}
