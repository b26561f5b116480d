//! Completions from foreign threads, of a library or a runtime.
//!
//! A driver over such threads creates one [`Inbox`] for each load thread, at which its reactor
//! waits. Each client takes a [`Seat`] and calls [`Seat::ask`], which passes the work and a
//! [`Promise`] to the other threads and waits until the promise is kept. Any number of clients can
//! wait on one load thread, independently of the number of threads on the other side. For a tokio
//! runtime:
//!
//! ```ignore
//! seat.ask(&reactor, |promise| {
//!     runtime.spawn(async move { promise.keep(store.get(key).await) });
//!     Ok(())
//! })
//! .await
//! ```

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::thread::Thread;
use std::time::Duration;

use crate::clock::{Clock, monotonic_ns};
use crate::cryptography::{self, Spent};
use crate::reactor::{Park, Reactor, TaskIndex};

/// One bit for each client whose request has ended. Setting it takes no lock, and does not wake a
/// load thread that is awake.
pub(crate) struct Inbox {
    ended: Box<[AtomicU64]>,
    tasks: Box<[AtomicU32]>,
    taken: AtomicU32,
    is_parked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Inbox {
    /// Creates an inbox for at most `clients` clients.
    pub(crate) fn new(clients: usize) -> Arc<Self> {
        Arc::new(Self {
            ended: (0..clients.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            tasks: (0..clients).map(|_| AtomicU32::new(0)).collect(),
            taken: AtomicU32::new(0),
            is_parked: AtomicBool::new(false),
            thread: OnceLock::new(),
        })
    }

    /// Creates a reactor that waits at this inbox.
    pub(crate) fn reactor(self: &Arc<Self>) -> Rc<Reactor> {
        Reactor::new(Box::new(InboxPark(Arc::clone(self))), Clock::real())
    }

    /// Gives a client its seat.
    ///
    /// # Panics
    /// There are more clients than the inbox was made for.
    pub(crate) fn take_seat(self: &Arc<Self>) -> Seat {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!((number as usize) < self.tasks.len(), "made for fewer clients");
        Seat { inbox: Arc::clone(self), number }
    }

    /// Wakes the tasks of all clients whose request has ended; returns whether there was any.
    fn deliver(&self, wake: &mut dyn FnMut(TaskIndex)) -> bool {
        let mut has_any = false;
        for (word, first) in self.ended.iter().zip((0..).step_by(64)) {
            if word.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::SeqCst);
            while bits != 0 {
                let number: usize = first + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                has_any = true;
                wake(self.tasks[number].load(Ordering::Relaxed));
            }
        }
        has_any
    }
}

/// A client's own part of an inbox, which any thread may hold.
#[derive(Clone)]
pub(crate) struct Seat {
    inbox: Arc<Inbox>,
    number: u32,
}

impl Seat {
    /// Sets the task to wake.
    pub(crate) fn expect(&self, task: TaskIndex) {
        self.inbox.tasks[self.number as usize].store(task, Ordering::Relaxed);
    }

    /// Wakes the task, from any thread. The task checks what has ended: after a timeout, the end of
    /// an earlier request may wake it too.
    pub(crate) fn notify(&self) {
        let inbox = &self.inbox;
        inbox.ended[self.number as usize / 64].fetch_or(1 << (self.number % 64), Ordering::SeqCst);
        // The load thread announces that it parks before it checks a last time: either it sees the
        // bit, or we see that it parks.
        if inbox.is_parked.load(Ordering::SeqCst)
            && let Some(thread) = inbox.thread.get()
        {
            thread.unpark();
        }
    }

    /// Starts work on other threads and waits for its value; returns it and the time when it was
    /// ready. At the task's deadline, the work is abandoned.
    ///
    /// # Errors
    /// The work could not be started; `TimedOut` if the deadline came first; or `BrokenPipe` if the
    /// promise was dropped, because the work was cancelled or panicked.
    pub(crate) async fn ask<T>(
        &self,
        reactor: &Reactor,
        start: impl FnOnce(Promise<T>) -> io::Result<()>,
    ) -> io::Result<(T, u64)> {
        let (sender, receiver) = sync_channel(1);
        self.expect(reactor.current_task());
        start(Promise { seat: self.clone(), sender: Some(sender) })?;
        std::future::poll_fn(|_| match receiver.try_recv() {
            Ok(ended) => Poll::Ready(Ok(ended)),
            Err(TryRecvError::Disconnected) => {
                let lost = "the work ended without a result";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, lost)))
            }
            Err(TryRecvError::Empty) if reactor.expired() => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Err(TryRecvError::Empty) => Poll::Pending,
        })
        .await
    }

    /// Runs a blocking call on a new thread, for rare calls, and waits for its value.
    ///
    /// # Errors
    /// As [`Seat::ask`].
    pub(crate) async fn run_aside<T: Send + 'static>(
        &self,
        reactor: &Reactor,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let thread = std::thread::Builder::new().name("aside".into());
        let is_counted = cryptography::is_counted();
        let work = move || cryptography::aside(is_counted, work);
        let started =
            |promise: Promise<(T, Spent)>| thread.spawn(move || promise.keep(work())).map(drop);
        let ((value, spent), _) = self.ask(reactor, started).await?;
        cryptography::take_over(spent);
        Ok(value)
    }
}

/// Held by other threads for a request in flight.
pub(crate) struct Promise<T> {
    seat: Seat,
    sender: Option<SyncSender<(T, u64)>>,
}

impl<T> Promise<T> {
    /// Gives the client its value.
    pub(crate) fn keep(mut self, value: T) {
        if let Some(sender) = self.sender.take() {
            // The client may have given up.
            let _ = sender.send((value, monotonic_ns()));
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        // Dropped first, so that the task sees that nothing will come.
        self.sender = None;
        self.seat.notify();
    }
}

/// Waits at an [`Inbox`].
struct InboxPark(Arc<Inbox>);

impl Park for InboxPark {
    fn park(&self, timeout_ns: u64, wake: &mut dyn FnMut(TaskIndex)) -> io::Result<()> {
        let inbox = &self.0;
        if inbox.deliver(wake) || timeout_ns == 0 {
            return Ok(());
        }
        inbox.thread.get_or_init(std::thread::current);
        inbox.is_parked.store(true, Ordering::SeqCst);
        if !inbox.deliver(wake) {
            std::thread::park_timeout(Duration::from_nanos(timeout_ns));
            inbox.deliver(wake);
        }
        inbox.is_parked.store(false, Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::run_to_end;

    #[test]
    fn a_completion_is_noticed_at_any_time() {
        let inbox = Inbox::new(100);
        let seats: Vec<Seat> = (0..100).map(|_| inbox.take_seat()).collect();
        seats.iter().zip(1000..).for_each(|(seat, task)| seat.expect(task));
        let sender = std::thread::spawn(move || {
            for seat in seats {
                seat.notify();
                std::thread::yield_now();
            }
        });
        let (park, mut woken) = (InboxPark(inbox), Vec::new());
        while woken.len() < 100 {
            park.park(u64::MAX, &mut |task| woken.push(task)).expect("parking cannot fail");
        }
        sender.join().expect("the sender does not panic");
        woken.sort_unstable();
        assert_eq!(woken, (1000..1100).collect::<Vec<_>>());
    }

    #[test]
    fn a_timeout_of_zero_does_not_wait() {
        let park = InboxPark(Inbox::new(1));
        park.park(0, &mut |_| panic!("nothing has ended")).expect("looking cannot fail");
    }

    /// Calls `ask` with a deadline, and returns the value or the kind of the error.
    fn asked(
        timeout_ns: u64,
        start: impl FnOnce(Promise<u32>) + 'static,
    ) -> Result<u32, io::ErrorKind> {
        let inbox = Inbox::new(1);
        let (reactor, seat) = (inbox.reactor(), inbox.take_seat());
        reactor.expect_timeouts_of(timeout_ns);
        let inner = Rc::clone(&reactor);
        let job = async move {
            inner.set_deadline(inner.now_ns().saturating_add(timeout_ns));
            let ended = seat.ask(&inner, |promise| {
                start(promise);
                Ok(())
            });
            ended.await.map(|(value, _)| value).map_err(|error| error.kind())
        };
        let ended = run_to_end(&reactor, &AtomicBool::new(false), job);
        ended.expect("parking cannot fail").expect("nothing stops it")
    }

    #[test]
    fn a_promise_may_be_kept_broken_or_late() {
        assert_eq!(asked(u64::MAX / 2, |promise| promise.keep(7)), Ok(7));
        let elsewhere = |promise: Promise<u32>| {
            std::thread::spawn(move || promise.keep(8));
        };
        assert_eq!(asked(u64::MAX / 2, elsewhere), Ok(8));
        assert_eq!(asked(u64::MAX / 2, drop), Err(io::ErrorKind::BrokenPipe));
        let (sender, receiver) = std::sync::mpsc::channel();
        let kept_back = move |promise| sender.send(promise).expect("the test listens");
        assert_eq!(asked(1_000_000, kept_back), Err(io::ErrorKind::TimedOut));
        // The request was given up, so its completion is dropped.
        receiver.recv().expect("the promise").keep(9);
    }
}
