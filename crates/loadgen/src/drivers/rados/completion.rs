//! Completions of librados, from its threads to the task that waits.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::library;
use crate::clock::monotonic_ns;
use crate::reactor::{Park, TaskIndex};

/// Where librados' threads leave word for one load thread.
pub(super) struct Inbox {
    event: OwnedFd,
    woken: Mutex<Vec<TaskIndex>>,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        // SAFETY: takes numbers; the result is checked.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just gave us this descriptor and nobody else has it.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Arc::new(Self { event, woken: Mutex::default() }))
    }

    fn put(&self, task: TaskIndex) {
        let mut woken = self.woken.lock().expect("nobody panics while holding it");
        woken.push(task);
        if woken.len() == 1 {
            let one = 1_u64;
            // SAFETY: eight bytes of ours; the counter cannot overflow at one for each drain.
            unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
        }
    }
}

/// Waits at an [`Inbox`].
pub(super) struct InboxPark(pub(super) Arc<Inbox>);

impl Park for InboxPark {
    fn park(&self, timeout_ns: u64, wake: &mut dyn FnMut(TaskIndex)) -> io::Result<()> {
        let fd = self.0.event.as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: timeout_ns.min(999_999_999) as i64 };
        // SAFETY: one descriptor and one time of ours.
        let ready = unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        if ready > 0 {
            let mut count = 0_u64;
            // SAFETY: eight bytes of ours.
            unsafe { libc::read(fd, (&raw mut count).cast(), 8) };
        }
        let mut woken = self.0.woken.lock().expect("nobody panics while holding it");
        woken.drain(..).for_each(wake);
        Ok(())
    }
}

/// What a request in flight shares with librados: its buffer, and where its result goes.
///
/// A callback may run after the task that waited has given up (a timeout, a stop), and librados
/// may still write to the buffer. So the callback holds a count of its own, and a request that was
/// given up leaves its slot behind.
pub(super) struct Slot {
    inbox: Arc<Inbox>,
    library: Arc<library::Library>,
    task: std::sync::atomic::AtomicU32,
    is_done: AtomicBool,
    result: AtomicI32,
    ended_ns: AtomicU64,
    /// Payload on its way; nobody but librados touches it between submit and done.
    buffer: UnsafeCell<Vec<u8>>,
    /// Where `stat` writes size and time.
    pub(super) stat: UnsafeCell<(u64, i64)>,
}

// SAFETY: the cells are touched by one side at a time: by the task before submitting and after
// `is_done` (acquire), by librados in between (its callback sets `is_done` with release).
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    pub(super) fn new(inbox: Arc<Inbox>, library: Arc<library::Library>) -> Arc<Self> {
        Arc::new(Self {
            inbox,
            library,
            task: 0.into(),
            is_done: AtomicBool::new(true),
            result: AtomicI32::new(0),
            ended_ns: AtomicU64::new(0),
            buffer: UnsafeCell::default(),
            stat: UnsafeCell::new((0, 0)),
        })
    }

    /// Returns the buffer, grown to `length`.
    ///
    /// # Safety
    /// No request may be in flight on this slot.
    #[expect(clippy::mut_from_ref, reason = "the caller states that nobody else has it")]
    pub(super) unsafe fn buffer(&self, length: usize) -> &mut [u8] {
        debug_assert!(self.is_done.load(Ordering::Acquire));
        // SAFETY: the caller states that librados has no hold on it.
        let buffer = unsafe { &mut *self.buffer.get() };
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        &mut buffer[..length]
    }

    /// Makes a completion that ends in this slot and wakes `task`.
    pub(super) fn arm(self: &Arc<Self>, task: TaskIndex) -> Result<library::Completion, c_int> {
        self.task.store(task, Ordering::Relaxed);
        self.is_done.store(false, Ordering::Relaxed);
        let mut completion = std::ptr::null_mut();
        let argument = Arc::into_raw(Arc::clone(self)).cast_mut().cast::<c_void>();
        // SAFETY: the callback takes back the count that `into_raw` gave away.
        let result = unsafe {
            (self.library.rados_aio_create_completion2)(argument, Some(done), &raw mut completion)
        };
        if result < 0 {
            self.disarm(argument);
            return Err(-result);
        }
        Ok(completion)
    }

    /// Takes back what [`Slot::arm`] gave when librados refused the request: no callback comes.
    pub(super) fn refuse(self: &Arc<Self>, completion: library::Completion) {
        // SAFETY: the completion is ours and was not submitted.
        unsafe { (self.library.rados_aio_release)(completion) };
        self.disarm(Arc::as_ptr(self).cast_mut().cast());
    }

    fn disarm(&self, argument: *mut c_void) {
        self.is_done.store(true, Ordering::Release);
        // SAFETY: the count that `arm` gave away, and no callback will take it.
        drop(unsafe { Arc::from_raw(argument.cast::<Self>()) });
    }

    /// Returns the result and when it came, if it has come.
    pub(super) fn result(&self) -> Option<(c_int, u64)> {
        self.is_done
            .load(Ordering::Acquire)
            .then(|| (self.result.load(Ordering::Relaxed), self.ended_ns.load(Ordering::Relaxed)))
    }
}

/// Runs on a thread of librados': notes the result and wakes the task.
extern "C" fn done(completion: library::Completion, argument: *mut c_void) {
    // SAFETY: the count that `arm` gave away for exactly this call.
    let slot = unsafe { Arc::from_raw(argument.cast::<Slot>().cast_const()) };
    // SAFETY: librados lends the completion to its callback.
    let result = unsafe { (slot.library.rados_aio_get_return_value)(completion) };
    slot.ended_ns.store(monotonic_ns(), Ordering::Relaxed);
    slot.result.store(result, Ordering::Relaxed);
    slot.is_done.store(true, Ordering::Release);
    slot.inbox.put(slot.task.load(Ordering::Relaxed));
}
