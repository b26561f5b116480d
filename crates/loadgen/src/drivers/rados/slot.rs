//! State that a request in flight shares with librados: its buffer and its result.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::library::{AioCompletion, Library};
use crate::clock::monotonic_ns;
use crate::transport::{huge, inbox::Seat};

/// How long the buffer of an abandoned read is kept: librados of release 14 may be receiving into
/// it when the read is cancelled, and does not report when it stops.
const KEPT: Duration = Duration::from_secs(30);

/// A callback may run after the waiting task has given up (a timeout, a stop), so it holds a
/// reference of its own, and an abandoned request leaves its slot behind.
pub(super) struct Slot {
    seat: Seat,
    library: &'static Library,
    is_done: AtomicBool,
    result: AtomicI32,
    ended_ns: AtomicU64,
    /// Buffer of reads; only librados touches it between submission and completion.
    buffer: UnsafeCell<Vec<u8>>,
    /// Where `stat` writes size and time.
    pub(super) stat: UnsafeCell<(u64, i64)>,
}

// SAFETY: only one side at a time touches the cells: the task before submission and after `is_done`
// (acquire), librados in between (its callback sets `is_done` with release).
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    pub(super) fn new(seat: Seat, library: &'static Library) -> Arc<Self> {
        Arc::new(Self {
            seat,
            library,
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
    #[expect(clippy::mut_from_ref, reason = "the caller states that it is the only owner")]
    pub(super) unsafe fn buffer(&self, length: usize) -> &mut [u8] {
        debug_assert!(self.is_done.load(Ordering::Acquire));
        // SAFETY: the caller guarantees that librados does not use it.
        let buffer = unsafe { &mut *self.buffer.get() };
        if buffer.len() < length {
            *buffer = huge::zeroed(length);
        }
        &mut buffer[..length]
    }

    /// Creates a completion of librados that ends in this slot.
    pub(super) fn arm(self: &Arc<Self>) -> Result<AioCompletion, c_int> {
        self.is_done.store(false, Ordering::Relaxed);
        let mut aio = std::ptr::null_mut();
        let argument = Arc::into_raw(Arc::clone(self)).cast_mut().cast::<c_void>();
        // SAFETY: the callback takes the reference that `into_raw` returned.
        let result = unsafe {
            (self.library.rados_aio_create_completion2)(argument, Some(done), &raw mut aio)
        };
        if result < 0 {
            self.disarm(argument);
            return Err(-result);
        }
        Ok(aio)
    }

    /// Releases the completion of [`Slot::arm`] when librados refused the request: no callback
    /// comes.
    pub(super) fn refuse(self: &Arc<Self>, aio: AioCompletion) {
        // SAFETY: we own the completion, and it was not submitted.
        unsafe { (self.library.rados_aio_release)(aio) };
        self.disarm(Arc::as_ptr(self).cast_mut().cast());
    }

    fn disarm(&self, argument: *mut c_void) {
        self.is_done.store(true, Ordering::Release);
        // SAFETY: the reference that `arm` gave away, and no callback will take it.
        drop(unsafe { Arc::from_raw(argument.cast::<Self>()) });
    }

    /// Returns the result and its time, if it has arrived.
    pub(super) fn result(&self) -> Option<(c_int, u64)> {
        self.is_done
            .load(Ordering::Acquire)
            .then(|| (self.result.load(Ordering::Relaxed), self.ended_ns.load(Ordering::Relaxed)))
    }
}

/// Runs on a thread of librados: stores the result and wakes the task.
extern "C" fn done(aio: AioCompletion, argument: *mut c_void) {
    // SAFETY: the reference that `arm` gave away for exactly this call.
    let slot = unsafe { Arc::from_raw(argument.cast::<Slot>().cast_const()) };
    // SAFETY: librados keeps the completion valid during its callback.
    let result = unsafe { (slot.library.rados_aio_get_return_value)(aio) };
    slot.ended_ns.store(monotonic_ns(), Ordering::Relaxed);
    slot.result.store(result, Ordering::Relaxed);
    slot.is_done.store(true, Ordering::Release);
    slot.seat.notify();
}

/// An abandoned request that librados may still be processing.
pub(super) struct GivenUp {
    slot: Arc<Slot>,
    aio: AioCompletion,
    is_read: bool,
    since: Instant,
}

impl GivenUp {
    pub(super) fn new(slot: Arc<Slot>, aio: AioCompletion, is_read: bool) -> Self {
        Self { slot, aio, is_read, since: Instant::now() }
    }

    /// Returns whether librados has called back.
    pub(super) fn has_ended(&self) -> bool {
        self.slot.result().is_some()
    }

    /// Returns whether librados no longer uses the memory kept here.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended() && (!self.is_read || self.since.elapsed() > KEPT)
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if !self.is_over() {
            // Leaks the memory.
            std::mem::forget(Arc::clone(&self.slot));
        }
        if self.has_ended() {
            // SAFETY: we own it, it was submitted and has ended; it is released here only.
            unsafe { (self.slot.library.rados_aio_release)(self.aio) };
        }
    }
}
