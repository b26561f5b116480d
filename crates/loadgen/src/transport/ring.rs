//! An io_uring on which a load thread waits: concurrent requests for blocks.
//!
//! The ring owns the memory that the kernel reads and writes, in slots. A client whose request has
//! timed out, or whose trial was stopped, leaves its slot behind, which is not reused before the
//! kernel has finished with it.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::task::Poll;

use io_uring::{IoUring, opcode, squeue, types};

use crate::clock::monotonic_ns;
use crate::reactor::{Park, Reactor, TaskIndex};
use crate::transport::disk::{Buffer, PUNCH};

/// Number of queued requests that triggers a submission. Submitting one by one costs a system call
/// each; submitting all at once lets the device run idle meanwhile.
const SUBMIT_AT_ONCE: u32 = 4;
/// Maximum number of requests queued for submission.
const ENTRIES: u32 = 256;
/// The kernel registers no more buffers than this.
const REGISTERED_MAX: usize = 1 << 14;
/// How long a stopped trial waits for requests in flight.
const LAST_WAIT_NS: u64 = 1_000_000_000;
/// Marks completions whose request was abandoned.
const NOBODY: u64 = u64::MAX;

/// Index of a client's slot: its buffer and its one request.
pub(crate) type SlotIndex = u32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    /// In flight; the task waits for it.
    Awaited(TaskIndex),
    /// In flight; the request was abandoned.
    LeftBehind,
    /// Completed with this result at this time.
    Done(i32, u64),
}

#[derive(Debug)]
struct Slot {
    buffer: Buffer,
    state: State,
    is_registered: bool,
}

/// Action of a request on the ring's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Read into the slot's buffer.
    Read {
        /// Offset in the file.
        offset: u64,
        /// Number of bytes.
        bytes: u32,
    },
    /// Write the slot's buffer.
    Write {
        /// Offset in the file.
        offset: u64,
        /// Number of bytes.
        bytes: u32,
    },
    /// Wait until written data is on the device.
    Flush {
        /// Whether metadata such as times may be lost.
        is_data_only: bool,
    },
    /// Release space.
    Discard {
        /// Offset in the file.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

/// The ring of one load thread, on one file.
pub(crate) struct Ring {
    ring: RefCell<IoUring>,
    file: RawFd,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<SlotIndex>>,
    is_sealed: Cell<bool>,
    is_file_registered: Cell<bool>,
    queued: Cell<u32>,
    in_flight: Cell<u32>,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Ring")
            .field("slots", &self.slots.borrow().len())
            .field("in_flight", &self.in_flight.get())
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Creates a ring for a file that outlives it.
    ///
    /// # Errors
    /// The kernel has no io_uring, or refuses it to this process.
    pub(crate) fn new(file: RawFd) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            ring: RefCell::new(build()?),
            file,
            slots: RefCell::default(),
            free: RefCell::default(),
            is_sealed: Cell::new(false),
            is_file_registered: Cell::new(false),
            queued: Cell::new(0),
            in_flight: Cell::new(0),
        }))
    }

    /// Returns why this host cannot create a ring, or `None` if it can.
    #[must_use]
    pub(crate) fn refusal() -> Option<io::Error> {
        build().err()
    }

    /// Gives a client a slot with a buffer of `bytes`.
    pub(crate) fn take_slot(&self, bytes: usize) -> SlotIndex {
        if let Some(slot) = self.free.borrow_mut().pop() {
            return slot;
        }
        let mut slots = self.slots.borrow_mut();
        let slot = Slot { buffer: Buffer::new(bytes), state: State::Idle, is_registered: false };
        slots.push(slot);
        slots.len() as SlotIndex - 1
    }

    /// Returns a slot to the ring, now or when the kernel has finished with it.
    pub(crate) fn leave_slot(&self, slot: SlotIndex) {
        let state = &mut self.slots.borrow_mut()[slot as usize].state;
        if let State::Awaited(_) = state {
            *state = State::LeftBehind;
        } else {
            *state = State::Idle;
            self.free.borrow_mut().push(slot);
        }
    }

    /// Gives access to the buffer of a slot without a request in flight.
    ///
    /// # Panics
    /// The slot has one.
    #[inline]
    pub(crate) fn with_buffer<T>(&self, slot: SlotIndex, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let slot = &mut self.slots.borrow_mut()[slot as usize];
        assert!(slot.state == State::Idle, "the kernel has this buffer");
        work(&mut slot.buffer)
    }

    /// Executes one action and returns its result and the time at which its completion was seen.
    ///
    /// # Errors
    /// `TimedOut` if the task's deadline has passed: the caller then no longer owns the slot. An
    /// error of the action itself is its (negative) result.
    pub(crate) async fn run(
        &self,
        reactor: &Reactor,
        slot: SlotIndex,
        action: Action,
    ) -> io::Result<(i32, u64)> {
        self.start(slot, action, reactor.current_task())?;
        std::future::poll_fn(|_| {
            let state = &mut self.slots.borrow_mut()[slot as usize].state;
            match *state {
                State::Done(result, ended_ns) => {
                    *state = State::Idle;
                    Poll::Ready(Ok((result, ended_ns)))
                }
                _ if reactor.expired() => {
                    *state = State::LeftBehind;
                    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
                }
                _ => Poll::Pending,
            }
        })
        .await
    }

    #[inline]
    fn start(&self, slot: SlotIndex, action: Action, task: TaskIndex) -> io::Result<()> {
        if !self.is_sealed.get() {
            self.seal();
        }
        let entry = self.entry(slot, action).user_data(u64::from(slot));
        let mut ring = self.ring.borrow_mut();
        // SAFETY: the buffer belongs to the slot, which is kept until the completion has arrived,
        // and `entry` limits the transfer to the buffer's length.
        while unsafe { ring.submission().push(&entry) }.is_err() {
            ring.submit()?;
            self.queued.set(0);
        }
        self.slots.borrow_mut()[slot as usize].state = State::Awaited(task);
        self.in_flight.set(self.in_flight.get() + 1);
        self.queued.set(self.queued.get() + 1);
        if self.queued.get() >= SUBMIT_AT_ONCE {
            self.queued.set(0);
            ring.submit()?;
        }
        Ok(())
    }

    fn entry(&self, slot: SlotIndex, action: Action) -> squeue::Entry {
        let mut slots = self.slots.borrow_mut();
        let Slot { buffer, is_registered, .. } = &mut slots[slot as usize];
        if let Action::Read { bytes, .. } | Action::Write { bytes, .. } = action {
            assert!(bytes as usize <= buffer.len(), "{bytes} bytes do not fit the slot's buffer");
        }
        let start = buffer.as_mut_ptr();
        let registered = is_registered.then(|| u16::try_from(slot).expect("below the maximum"));
        let is_file_registered = self.is_file_registered.get();
        let file = types::Fd(if is_file_registered { 0 } else { self.file });
        let entry = match (action, registered) {
            (Action::Read { offset, bytes }, Some(number)) => {
                opcode::ReadFixed::new(file, start, bytes, number).offset(offset).build()
            }
            (Action::Read { offset, bytes }, None) => {
                opcode::Read::new(file, start, bytes).offset(offset).build()
            }
            (Action::Write { offset, bytes }, Some(number)) => {
                opcode::WriteFixed::new(file, start, bytes, number).offset(offset).build()
            }
            (Action::Write { offset, bytes }, None) => {
                opcode::Write::new(file, start, bytes).offset(offset).build()
            }
            (Action::Flush { is_data_only }, _) => {
                let flags = if is_data_only {
                    types::FsyncFlags::DATASYNC
                } else {
                    types::FsyncFlags::empty()
                };
                opcode::Fsync::new(file).flags(flags).build()
            }
            (Action::Discard { offset, bytes }, _) => opcode::Fallocate::new(file, bytes)
                .offset(offset)
                .mode(PUNCH.bits().cast_signed())
                .build(),
        };
        if is_file_registered { entry.flags(squeue::Flags::FIXED_FILE) } else { entry }
    }

    /// Registers file and buffers, once all clients have theirs, so that the kernel need not look
    /// them up for each request. If it refuses (locked memory is limited), it looks them up.
    fn seal(&self) {
        self.is_sealed.set(true);
        let ring = self.ring.borrow();
        self.is_file_registered.set(ring.submitter().register_files(&[self.file]).is_ok());
        let mut slots = self.slots.borrow_mut();
        let count = slots.len().min(REGISTERED_MAX);
        let buffers: Vec<libc::iovec> = slots[..count]
            .iter_mut()
            .map(|slot| libc::iovec {
                iov_base: slot.buffer.as_mut_ptr().cast(),
                iov_len: slot.buffer.len(),
            })
            .collect();
        // SAFETY: the buffers live as long as their slots, and the slots as long as the ring.
        if unsafe { ring.submitter().register_buffers(&buffers) }.is_ok() {
            slots[..count].iter_mut().for_each(|slot| slot.is_registered = true);
        }
    }

    /// Submits queued requests and takes completions: those available, or the first within
    /// `timeout_ns`.
    fn turn(&self, timeout_ns: u64, wake: &mut dyn FnMut(TaskIndex)) -> io::Result<()> {
        let mut ring = self.ring.borrow_mut();
        self.queued.set(0);
        let wanted = usize::from(timeout_ns > 0);
        let timeout = types::Timespec::new()
            .sec(timeout_ns / 1_000_000_000)
            .nsec(u32::try_from(timeout_ns % 1_000_000_000).expect("below a second"));
        let arguments = types::SubmitArgs::new().timespec(&timeout);
        let waited = ring.submitter().submit_with_args(wanted, &arguments);
        match waited.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => {}
            Err((_, error)) => return Err(error),
        }
        let mut slots = self.slots.borrow_mut();
        let now_ns = monotonic_ns();
        for completion in ring.completion() {
            let number = completion.user_data();
            if number == NOBODY {
                continue;
            }
            self.in_flight.set(self.in_flight.get() - 1);
            let slot = SlotIndex::try_from(number).expect("a number that we gave");
            let state = &mut slots[slot as usize].state;
            if let State::Awaited(task) = *state {
                *state = State::Done(completion.result(), now_ns);
                wake(task);
            } else {
                *state = State::Idle;
                self.free.borrow_mut().push(slot);
            }
        }
        Ok(())
    }
}

/// Lets a load thread wait on its ring.
#[derive(Debug, Clone)]
pub(crate) struct RingPark(pub Rc<Ring>);

impl Park for RingPark {
    fn park(&self, timeout_ns: u64, wake: &mut dyn FnMut(TaskIndex)) -> io::Result<()> {
        if self.0.in_flight.get() > 0 {
            return self.0.turn(timeout_ns, wake);
        }
        if timeout_ns > 0 {
            std::thread::sleep(std::time::Duration::from_nanos(timeout_ns));
        }
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let over_ns = monotonic_ns() + LAST_WAIT_NS;
        while self.in_flight.get() > 0 && monotonic_ns() < over_ns {
            if self.turn(LAST_WAIT_NS / 10, &mut |_| {}).is_err() {
                break;
            }
        }
        if self.in_flight.get() > 0 {
            // The kernel may still write to these buffers, so they are leaked rather than reused.
            std::mem::forget(std::mem::take(&mut *self.slots.borrow_mut()));
        } else if self.is_file_registered.get() {
            // The kernel destroys a ring asynchronously, and would keep a device open until then.
            drop(self.ring.get_mut().submitter().unregister_files());
        }
    }
}

/// Creates a ring for one thread that polls its completions itself, so that the kernel does not
/// interrupt that thread to deliver them. Older kernels do not support all of these flags.
fn build() -> io::Result<IoUring> {
    let with = |set_up: fn(&mut io_uring::Builder)| {
        let mut builder = IoUring::builder();
        set_up(&mut builder);
        builder.build(ENTRIES)
    };
    let newest = with(|builder| {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    });
    let ring = match newest {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => with(|builder| {
            builder.setup_coop_taskrun();
        })
        .or_else(|_| with(|_| {})),
        result => result,
    }?;
    // Without this feature (before Linux 5.11), a wait cannot have a timeout.
    if ring.params().is_feature_ext_arg() {
        Ok(ring)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}
