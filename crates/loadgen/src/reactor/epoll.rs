//! Waiting for sockets: edge-triggered epoll with nanosecond timeouts.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::reactor::{Park, Reactor, TaskIndex};

/// Maximum number of events per call of the kernel.
const EVENTS_MAX: usize = 512;
const NO_TASK: TaskIndex = TaskIndex::MAX;

/// State of one descriptor: whether it is readable and writable, and which tasks wait for it.
#[derive(Debug)]
struct Readiness {
    readable: Cell<bool>,
    writable: Cell<bool>,
    /// The peer has closed its side. Epoll reports that once; later reads detect it.
    hung_up: Cell<bool>,
    reader: Cell<TaskIndex>,
    writer: Cell<TaskIndex>,
}

#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Option<Rc<Readiness>>>,
    free: Vec<usize>,
}

/// The epoll instance of one load thread. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Epoll {
    descriptor: Rc<OwnedFd>,
    slots: Rc<RefCell<Slots>>,
    events: Rc<RefCell<Vec<libc::epoll_event>>>,
}

/// A watched descriptor. Dropping it ends the watch and leaves the descriptor open.
#[derive(Debug)]
pub(crate) struct Watch {
    epoll: Epoll,
    fd: RawFd,
    slot: usize,
    readiness: Rc<Readiness>,
}

impl Epoll {
    /// Opens an epoll instance.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn new() -> io::Result<Self> {
        let descriptor = Rc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        Ok(Self { descriptor, slots: Rc::default(), events: Rc::new(RefCell::new(events)) })
    }

    /// Watches a non-blocking descriptor, edge-triggered, in both directions.
    ///
    /// # Errors
    /// The kernel refused, for example because it is a regular file.
    pub(crate) fn watch(&self, fd: &impl AsFd) -> io::Result<Watch> {
        let readiness = Rc::new(Readiness {
            readable: Cell::new(false),
            writable: Cell::new(false),
            hung_up: Cell::new(false),
            reader: Cell::new(NO_TASK),
            writer: Cell::new(NO_TASK),
        });
        let mut slots = self.slots.borrow_mut();
        let slot = slots.free.pop().unwrap_or(slots.slots.len());
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if let Err(error) = epoll::add(&self.descriptor, fd, EventData::new_u64(slot as u64), flags)
        {
            slots.free.push(slot);
            return Err(error.into());
        }
        if slot == slots.slots.len() {
            slots.slots.push(Some(Rc::clone(&readiness)));
        } else {
            slots.slots[slot] = Some(Rc::clone(&readiness));
        }
        drop(slots);
        Ok(Watch { epoll: self.clone(), fd: fd.as_fd().as_raw_fd(), slot, readiness })
    }

    /// Waits with nanosecond resolution, which rustix supports only on kernels that it knows to be
    /// new.
    fn wait(&self, events: &mut [libc::epoll_event], timeout_ns: u64) -> io::Result<usize> {
        /// Set once the kernel has reported that it has no `epoll_pwait2` (before 5.11).
        static IS_COARSE: AtomicBool = AtomicBool::new(false);
        let fd = self.descriptor.as_raw_fd();
        let events_max = events.len() as libc::c_int;
        let count = if IS_COARSE.load(Ordering::Relaxed) || timeout_ns == 0 {
            let timeout_ms = i32::try_from(timeout_ns.div_ceil(1_000_000)).unwrap_or(i32::MAX);
            // SAFETY: the kernel writes at most `events_max` events to memory that we own.
            i64::from(unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), events_max, timeout_ms) })
        } else {
            let timeout = libc::timespec {
                tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
                tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
            };
            // SAFETY: as above; the timeout lives until the call returns; no signal mask is given.
            unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    fd,
                    events.as_mut_ptr(),
                    events_max,
                    &raw const timeout,
                    std::ptr::null::<libc::sigset_t>(),
                    0_usize,
                )
            }
        };
        if let Ok(count) = usize::try_from(count) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => Ok(0),
            Some(libc::ENOSYS) => {
                IS_COARSE.store(true, Ordering::Relaxed);
                Ok(0)
            }
            _ => Err(error),
        }
    }
}

impl Park for Epoll {
    fn park(&self, timeout_ns: u64, wake: &mut dyn FnMut(TaskIndex)) -> io::Result<()> {
        let mut events = self.events.borrow_mut();
        let count = self.wait(&mut events, timeout_ns)?;
        let slots = self.slots.borrow();
        for event in &events[..count] {
            let (flags, slot) = (event.events, event.u64);
            let Some(Some(readiness)) = slots.slots.get(slot as usize) else { continue };
            let (input, hangup, output, both) = (
                (libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
                libc::EPOLLRDHUP as u32,
                libc::EPOLLOUT as u32,
                (libc::EPOLLERR | libc::EPOLLHUP) as u32,
            );
            if flags & (hangup | both) != 0 {
                readiness.hung_up.set(true);
            }
            if flags & (input | both) != 0 {
                readiness.readable.set(true);
                let reader = readiness.reader.replace(NO_TASK);
                if reader != NO_TASK {
                    wake(reader);
                }
            }
            if flags & (output | both) != 0 {
                readiness.writable.set(true);
                let writer = readiness.writer.replace(NO_TASK);
                if writer != NO_TASK {
                    wake(writer);
                }
            }
        }
        Ok(())
    }
}

impl Watch {
    /// Waits until the descriptor is readable, has failed or was closed; a read tells which.
    ///
    /// # Errors
    /// `TimedOut` when the task's deadline has passed.
    pub(crate) async fn readable(&self, reactor: &Reactor) -> io::Result<()> {
        wait_for(reactor, &self.readiness.readable, &self.readiness.reader).await
    }

    /// Waits until the descriptor is writable, or a connect has completed.
    ///
    /// # Errors
    /// `TimedOut` when the task's deadline has passed.
    pub(crate) async fn writable(&self, reactor: &Reactor) -> io::Result<()> {
        wait_for(reactor, &self.readiness.writable, &self.readiness.writer).await
    }

    /// Records that a read returned nothing or less than requested. The next read must wait for an
    /// event, unless the peer has closed, after which no more events come.
    #[inline]
    pub(crate) fn drained(&self) {
        self.readiness.readable.set(self.readiness.hung_up.get());
    }

    /// Records that a write took less than offered. The next write must wait for an event.
    #[inline]
    pub(crate) fn filled(&self) {
        self.readiness.writable.set(false);
    }

    /// Returns whether data or the end of the stream is available and not read yet.
    #[inline]
    #[must_use]
    pub(crate) fn has_input(&self) -> bool {
        self.readiness.readable.get()
    }
}

#[inline]
async fn wait_for(
    reactor: &Reactor,
    is_ready: &Cell<bool>,
    waiter: &Cell<TaskIndex>,
) -> io::Result<()> {
    std::future::poll_fn(|_| {
        if is_ready.get() {
            return Poll::Ready(Ok(()));
        }
        if reactor.expired() {
            waiter.set(NO_TASK);
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        waiter.set(reactor.current_task());
        Poll::Pending
    })
    .await
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: the descriptor is used for this call only; a closed one only causes an error.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        let _ = epoll::delete(&self.epoll.descriptor, fd);
        let mut slots = self.epoll.slots.borrow_mut();
        slots.slots[self.slot] = None;
        slots.free.push(self.slot);
    }
}
