//! System calls of the null server: polling for ready connections, and transferring bytes.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::net::{self, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, sockopt};

/// Maximum number of events per call of the kernel.
const EVENTS_MAX: usize = 256;

/// A level-triggered epoll instance; events are identified by descriptor.
pub(super) struct Poll {
    watches: Watches,
    /// Numbers of the descriptors that are ready.
    ready: Vec<usize>,
}

/// Lets any thread change what an epoll instance watches.
#[derive(Clone)]
pub(super) struct Watches(Arc<OwnedFd>);

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Interest {
    Read,
    Write,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Interest::Read => EventFlags::IN | EventFlags::RDHUP,
            Interest::Write => EventFlags::OUT,
        }
    }
}

impl Poll {
    pub(super) fn new() -> io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poll { watches: Watches(Arc::new(epoll)), ready: Vec::new() })
    }

    pub(super) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Waits for events and returns their number.
    pub(super) fn wait(&mut self) -> io::Result<usize> {
        // Created here: events may contain pointers, so they cannot be sent between threads.
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS_MAX];
        self.ready.clear();
        match epoll::wait(&self.watches.0, &mut events[..], None) {
            Ok((events_there, _)) => {
                self.ready.extend(events_there.iter().map(|event| event.data.u64() as usize));
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.ready.len())
    }

    /// Returns the number of an event's descriptor.
    pub(super) fn event(&self, index: usize) -> usize {
        self.ready[index]
    }
}

impl Watches {
    /// Starts watching a descriptor.
    pub(super) fn add(&self, fd: impl AsFd, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.0, &fd, data(&fd), interest.flags())?)
    }

    /// Changes the events for which a descriptor is watched.
    pub(super) fn change(&self, fd: impl AsFd, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.0, &fd, data(&fd), interest.flags())?)
    }
}

fn data(fd: &impl AsFd) -> EventData {
    EventData::new_u64(number(fd) as u64)
}

/// Returns the number of a descriptor, which identifies its events.
pub(super) fn number(fd: &impl AsFd) -> usize {
    usize::try_from(fd.as_fd().as_raw_fd()).expect("an open descriptor is not negative")
}

/// An eventfd, with which one thread wakes another.
pub(super) fn wake_channel() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Makes an eventfd permanently readable.
pub(super) fn wake(channel: &OwnedFd) {
    // It fails only if the counter is full, and then the eventfd is already readable.
    let _ = rustix::io::write(channel, &1_u64.to_ne_bytes());
}

/// Accepts a connection: non-blocking, without Nagle's algorithm.
pub(super) fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    let socket = net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    // Without this option, connections are slower but correct.
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    Ok(socket)
}

/// Reads into `buffer`; returns 0 at the end.
pub(super) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(net::recv(fd, buffer, RecvFlags::empty())?.0)
}

/// Drops up to `length` received bytes without copying them; returns 0 at the end.
pub(super) fn discard(fd: BorrowedFd<'_>, length: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC, the kernel writes nothing, so no buffer is necessary.
    let dropped =
        unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), length, libc::MSG_TRUNC) };
    usize::try_from(dropped).map_err(|_| io::Error::last_os_error())
}

/// Sends as much of one piece as the socket accepts.
pub(super) fn send(fd: BorrowedFd<'_>, bytes: &[u8], is_more_to_come: bool) -> io::Result<usize> {
    Ok(net::send(fd, bytes, flags(is_more_to_come))?)
}

fn flags(is_more_to_come: bool) -> SendFlags {
    let more = if is_more_to_come { SendFlags::MORE } else { SendFlags::empty() };
    SendFlags::NOSIGNAL | more
}

/// Sends as much of two pieces as the socket accepts.
pub(super) fn send_both(
    fd: BorrowedFd<'_>,
    first: &[u8],
    second: &[u8],
    is_more_to_come: bool,
) -> io::Result<usize> {
    let pieces = [IoSlice::new(first), IoSlice::new(second)];
    Ok(net::sendmsg(fd, &pieces, &mut SendAncillaryBuffer::default(), flags(is_more_to_come))?)
}

/// Sends as much of a file as the socket accepts, without copying it through this process.
pub(super) fn send_file(
    fd: BorrowedFd<'_>,
    file: impl AsFd,
    mut offset: u64,
    length: usize,
) -> io::Result<usize> {
    Ok(sendfile(fd, file, Some(&mut offset), length)?)
}

/// Creates a file in memory with these bytes.
pub(super) fn memory_file(bytes: &[u8]) -> io::Result<std::fs::File> {
    let mut file = std::fs::File::from(memfd_create(c"loadstone-null", MemfdFlags::CLOEXEC)?);
    io::Write::write_all(&mut file, bytes)?;
    Ok(file)
}
