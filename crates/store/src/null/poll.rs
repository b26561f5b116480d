//! The system calls of the null server, each wrapped once.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

/// A level-triggered epoll instance, told apart by descriptors.
pub(super) struct Poll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Interest {
    Read,
    Write,
}

impl Interest {
    fn bits(self) -> u32 {
        match self {
            Interest::Read => (libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
            Interest::Write => libc::EPOLLOUT as u32,
        }
    }
}

/// Turns a negative result into the error that it stands for.
fn check(result: i64) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Poll {
    pub(super) fn new() -> io::Result<Poll> {
        // SAFETY: no pointer is passed; the result is checked.
        let fd = check(i64::from(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }))?;
        // SAFETY: the kernel just gave us this descriptor and nobody else has it.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        Ok(Poll { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX] })
    }

    /// Returns the epoll's own descriptor, by which another thread can add connections.
    pub(super) fn descriptor(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Waits for events and returns how many there are.
    pub(super) fn wait(&mut self) -> io::Result<usize> {
        let (fd, capacity) = (self.epoll.as_raw_fd(), self.events.len() as i32);
        // SAFETY: the kernel writes at most `capacity` events to memory of ours.
        let count = unsafe { libc::epoll_wait(fd, self.events.as_mut_ptr(), capacity, -1) };
        match check(i64::from(count)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            other => other,
        }
    }

    /// Returns the descriptor that an event is of.
    pub(super) fn event(&self, index: usize) -> RawFd {
        self.events[index].u64 as RawFd
    }
}

/// Starts watching a descriptor in an epoll, perhaps that of another thread.
pub(super) fn watch(epoll: RawFd, fd: RawFd, interest: Interest) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_ADD, fd, interest)
}

/// Changes what a descriptor is watched for.
pub(super) fn rewatch(epoll: RawFd, fd: RawFd, interest: Interest) -> io::Result<()> {
    control(epoll, libc::EPOLL_CTL_MOD, fd, interest)
}

fn control(epoll: RawFd, operation: i32, fd: RawFd, interest: Interest) -> io::Result<()> {
    let mut event = libc::epoll_event { events: interest.bits(), u64: fd as u64 };
    // SAFETY: the kernel reads one event that is ours.
    check(i64::from(unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) })).map(drop)
}

/// An eventfd: one thread wakes another by it.
pub(super) fn wake_channel() -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed; the result is checked.
    let fd = check(i64::from(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }))?;
    // SAFETY: the kernel just gave us this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Makes an eventfd readable, for good.
pub(super) fn wake(channel: &OwnedFd) {
    let one = 1u64;
    // SAFETY: eight bytes of ours are read. A full counter is readable already.
    unsafe { libc::write(channel.as_raw_fd(), (&raw const one).cast(), 8) };
}

/// Accepts a connection: non-blocking, without Nagle's delay.
pub(super) fn accept(listener: RawFd) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let nobody = std::ptr::null_mut();
    // SAFETY: the kernel may be told of no buffer for the peer's address.
    let fd = unsafe { libc::accept4(listener, nobody, std::ptr::null_mut(), flags) };
    let fd = check(i64::from(fd))? as RawFd;
    // SAFETY: the kernel just gave us this descriptor and nobody else has it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel reads one integer of ours. Without the option we are slower, not wrong.
    unsafe {
        libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, (&raw const on).cast(), length)
    };
    Ok(socket)
}

/// Reads into `buffer`; 0 is the end.
pub(super) fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the buffer's length to it.
    check(unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) } as i64)
}

/// Drops up to `length` bytes that have arrived, without copying them; 0 is the end.
pub(super) fn discard(fd: RawFd, length: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC the kernel writes nothing, so there need not be a buffer.
    check(unsafe { libc::recv(fd, std::ptr::null_mut(), length, libc::MSG_TRUNC) } as i64)
}

/// Sends what the socket takes of one piece.
pub(super) fn send(fd: RawFd, bytes: &[u8], is_more_to_come: bool) -> io::Result<usize> {
    // SAFETY: the kernel reads at most the slice's length from it.
    check(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), flags(is_more_to_come)) }
        as i64)
}

fn flags(is_more_to_come: bool) -> libc::c_int {
    libc::MSG_NOSIGNAL | if is_more_to_come { libc::MSG_MORE } else { 0 }
}

/// Sends what the socket takes of two pieces.
pub(super) fn send_both(
    fd: RawFd,
    first: &[u8],
    second: &[u8],
    is_more_to_come: bool,
) -> io::Result<usize> {
    let mut pieces = [
        libc::iovec { iov_base: first.as_ptr().cast_mut().cast(), iov_len: first.len() },
        libc::iovec { iov_base: second.as_ptr().cast_mut().cast(), iov_len: second.len() },
    ];
    // SAFETY: all zero is a valid message without address and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = pieces.len();
    // SAFETY: the kernel reads the pieces, which live until the call returns.
    check(unsafe { libc::sendmsg(fd, &raw const message, flags(is_more_to_come)) } as i64)
}

/// Sends what the socket takes of a file, without copying it through this process.
pub(super) fn send_file(fd: RawFd, file: RawFd, offset: u64, length: usize) -> io::Result<usize> {
    let mut offset = offset as libc::off_t;
    // SAFETY: the kernel updates the offset, which is ours.
    check(unsafe { libc::sendfile(fd, file, &raw mut offset, length) } as i64)
}

/// Makes a file that exists in memory only, with these bytes.
pub(super) fn memory_file(bytes: &[u8]) -> io::Result<std::fs::File> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"loadstone-null".as_ptr(), libc::MFD_CLOEXEC) };
    let fd = check(i64::from(fd))? as RawFd;
    // SAFETY: the kernel just gave us this descriptor and nobody else has it.
    let mut file = unsafe { std::fs::File::from_raw_fd(fd) };
    io::Write::write_all(&mut file, bytes)?;
    Ok(file)
}
