//! The single-threaded executor of a load thread: tasks, timers, deadlines, and one place to wait.
//!
//! A general async runtime costs 5-9 % of a 4 KiB request and has millisecond timers. In this one,
//! all tasks live on one thread for the whole trial, so waking a task is a push to a queue, without
//! atomics, locks or wakers to clone. A future that waits stores [`Reactor::current_task`] where
//! the event source finds it, and the event source calls [`Reactor::wake`].

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use crate::clock::Clock;
use crate::reactor::oversleep::Oversleep;
use crate::transport::retries::Retries;

mod epoll;
mod oversleep;

use epoll::Epoll;
pub(crate) use epoll::Watch;

/// Index of a task in its reactor, assigned in the order of [`Reactor::spawn`].
pub(crate) type TaskIndex = u32;

/// No deadline is set.
const NEVER: u64 = u64::MAX;
/// The sweep has found the deadline to be over.
const EXPIRED: u64 = 0;
/// Maximum duration of a wait without events, so that a stop is noticed soon.
const WAIT_NS_MAX: u64 = 50_000_000;
/// Maximum time between two checks of deadlines, and so the maximum delay of a timeout.
const SWEEP_NS_MAX: u64 = 100_000_000;

/// Waits for events: epoll for sockets, a ring for files.
pub(crate) trait Park {
    /// Waits until an event comes or `timeout_ns` have passed, and calls `wake` for each task whose
    /// event came. A timeout of zero polls.
    ///
    /// # Errors
    /// The kernel refused to wait; the load thread cannot continue.
    fn park(&self, timeout_ns: u64, wake: &mut dyn FnMut(TaskIndex)) -> io::Result<()>;
}

/// Sleeps: for drivers that wait for nothing but time.
#[derive(Debug, Default)]
pub(crate) struct Sleep;

impl Park for Sleep {
    fn park(&self, timeout_ns: u64, _wake: &mut dyn FnMut(TaskIndex)) -> io::Result<()> {
        if timeout_ns > 0 {
            std::thread::sleep(std::time::Duration::from_nanos(timeout_ns));
        }
        Ok(())
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The executor. The tasks of one thread share it through an `Rc`.
pub(crate) struct Reactor {
    clock: Clock,
    latest_ns: Cell<u64>,
    park: Box<dyn Park>,
    epoll: Option<Epoll>,
    tasks: RefCell<Vec<Option<Task>>>,
    alive: Cell<usize>,
    ready: RefCell<VecDeque<TaskIndex>>,
    timers: RefCell<BinaryHeap<Reverse<(u64, TaskIndex)>>>,
    deadlines: RefCell<Vec<u64>>,
    sweep_ns: Cell<u64>,
    current: Cell<TaskIndex>,
    oversleep: Oversleep,
    /// Number of pairs of steps in progress.
    pairs: Cell<u32>,
    /// Whether a stop is pending until those pairs end.
    is_stopping: Cell<bool>,
    /// Retries of this thread's requests after temporary errors, if enabled.
    retries: OnceCell<Arc<Retries>>,
}

/// Two steps that a stop must not separate. Dropping it ends the pair.
#[derive(Debug)]
pub(crate) struct Pair(Rc<Reactor>);

impl Drop for Pair {
    fn drop(&mut self) {
        self.0.pairs.set(self.0.pairs.get().saturating_sub(1));
    }
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reactor").field("alive", &self.alive.get()).finish_non_exhaustive()
    }
}

impl Reactor {
    /// Creates a reactor that waits at `park` and reads the time from `clock`.
    #[must_use]
    pub(crate) fn new(park: Box<dyn Park>, clock: Clock) -> Rc<Self> {
        Rc::new(Self::with(park, None, clock))
    }

    /// Creates a reactor for sockets.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(crate) fn for_sockets() -> io::Result<Rc<Self>> {
        let epoll = Epoll::new()?;
        Ok(Rc::new(Self::with(Box::new(epoll.clone()), Some(epoll), Clock::real())))
    }

    /// Watches a non-blocking descriptor.
    ///
    /// # Errors
    /// The kernel refused, or this reactor is not one for sockets.
    pub(crate) fn watch(&self, fd: &impl std::os::fd::AsFd) -> io::Result<Watch> {
        match &self.epoll {
            Some(epoll) => epoll.watch(fd),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn with(park: Box<dyn Park>, epoll: Option<Epoll>, clock: Clock) -> Self {
        Self {
            latest_ns: Cell::new(clock.now_ns()),
            clock,
            park,
            epoll,
            tasks: RefCell::default(),
            alive: Cell::new(0),
            ready: RefCell::default(),
            timers: RefCell::default(),
            deadlines: RefCell::default(),
            sweep_ns: Cell::new(SWEEP_NS_MAX),
            current: Cell::new(0),
            oversleep: Oversleep::default(),
            pairs: Cell::new(0),
            is_stopping: Cell::new(false),
            retries: OnceCell::new(),
        }
    }

    /// Begins a pair of steps, which a stop does not interrupt. After a stop, no new pair begins: a
    /// client that asks for one waits, and is dropped when the pairs in progress have ended.
    pub(crate) async fn begin_pair(self: Rc<Self>) -> Pair {
        std::future::poll_fn(
            |_| if self.is_stopping.get() { Poll::Pending } else { Poll::Ready(()) },
        )
        .await;
        self.pairs.set(self.pairs.get() + 1);
        Pair(self)
    }

    /// Returns whether a stop is pending. It takes effect once no pair of steps is in progress.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    /// Lets the next stop interrupt pairs, as a kill would.
    #[cfg(test)]
    pub(crate) fn forget_pairs(&self) {
        self.pairs.set(0);
    }

    /// Returns whether a stop was requested and no pair of steps delays it.
    fn must_stop(&self, stop: &AtomicBool) -> bool {
        let is_asked = stop.load(Ordering::Relaxed);
        if is_asked && !self.is_stopping.replace(true) {
            // Wakes all tasks, so that one that delays the stop notices it.
            self.ready.borrow_mut().extend(0..self.tasks.borrow().len() as TaskIndex);
        }
        is_asked && self.pairs.get() == 0
    }

    /// Returns the monotonic time in nanoseconds.
    #[inline]
    #[must_use]
    pub(crate) fn now_ns(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        self.latest_ns.set(now_ns);
        now_ns
    }

    /// Advances a virtual clock, as work of this thread would.
    pub(crate) fn work(&self, length_ns: u64) {
        self.clock.advance_to(self.clock.now_ns() + length_ns);
    }

    /// Returns the last time that was read, which saves 20 ns. For a task that has neither waited
    /// nor worked since it was polled, this is the current time.
    #[inline]
    #[must_use]
    pub(crate) fn latest_ns(&self) -> u64 {
        self.latest_ns.get()
    }

    /// Adds a task; it is first polled by [`Reactor::run`].
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) -> TaskIndex {
        let mut tasks = self.tasks.borrow_mut();
        let index = tasks.len() as TaskIndex;
        tasks.push(Some(Box::pin(task)));
        self.deadlines.borrow_mut().push(NEVER);
        self.alive.set(self.alive.get() + 1);
        self.ready.borrow_mut().push_back(index);
        index
    }

    /// Adds a task that [`Reactor::run`] does not wait for.
    pub(crate) fn spawn_daemon(&self, task: impl Future<Output = ()> + 'static) {
        self.spawn(task);
        self.alive.set(self.alive.get() - 1);
    }

    /// Returns the task that is being polled.
    #[inline]
    #[must_use]
    pub(crate) fn current_task(&self) -> TaskIndex {
        self.current.get()
    }

    /// Schedules the task to be polled again. Waking a task that has ended is harmless.
    #[inline]
    pub(crate) fn wake(&self, task: TaskIndex) {
        self.ready.borrow_mut().push_back(task);
    }

    /// Sets the deadline of the current task's waits; see [`Reactor::expired`].
    #[inline]
    pub(crate) fn set_deadline(&self, deadline_ns: u64) {
        self.deadlines.borrow_mut()[self.current.get() as usize] = deadline_ns;
    }

    /// Returns whether the current task's deadline has passed. Every wait for the network checks
    /// this when it is polled, and fails with `TimedOut`.
    #[inline]
    #[must_use]
    pub(crate) fn expired(&self) -> bool {
        self.deadlines.borrow()[self.current.get() as usize] == EXPIRED
    }

    /// Checks deadlines often enough for timeouts of this length.
    pub(crate) fn expect_timeouts_of(&self, timeout_ns: u64) {
        self.sweep_ns.set((timeout_ns / 16).clamp(1_000_000, SWEEP_NS_MAX));
    }

    /// Makes timers accurate to the microsecond by staying awake before they are due.
    pub(crate) fn expect_to_be_on_time(&self) {
        self.oversleep.watch();
    }

    /// Enables retries after temporary errors, for requests that are not measured.
    pub(crate) fn retry(&self, retries: Option<&Arc<Retries>>) {
        if let Some(retries) = retries {
            // Set once, before the thread's first request.
            let _ = self.retries.set(Arc::clone(retries));
        }
    }

    /// Returns the retries of requests that are not measured; `None` if requests are measured.
    pub(crate) fn retries(&self) -> Option<&Arc<Retries>> {
        self.retries.get()
    }

    /// Returns the CPU time spent staying awake.
    #[must_use]
    pub(crate) fn awake_ns(&self) -> u64 {
        self.oversleep.awake_ns()
    }

    /// Waits until a time; returns at once if it has passed.
    pub(crate) async fn sleep_until(&self, due_ns: u64) {
        if self.now_ns() >= due_ns {
            return;
        }
        self.timers.borrow_mut().push(Reverse((due_ns, self.current.get())));
        // A task that was woken for another reason (a deadline) must continue to sleep.
        std::future::poll_fn(
            |_| {
                if self.now_ns() >= due_ns { Poll::Ready(()) } else { Poll::Pending }
            },
        )
        .await;
    }

    /// Like [`Reactor::sleep_until`], but returns early on a stop.
    pub(crate) async fn rest_until(&self, due_ns: u64) {
        self.timers.borrow_mut().push(Reverse((due_ns, self.current.get())));
        std::future::poll_fn(|_| {
            let is_over = self.is_stopping() || self.now_ns() >= due_ns;
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Lets every other ready task run first.
    pub(crate) async fn turn(&self) {
        let mut turned = false;
        std::future::poll_fn(|_| {
            if turned {
                return Poll::Ready(());
            }
            turned = true;
            self.wake(self.current.get());
            Poll::Pending
        })
        .await;
    }

    /// Runs until all tasks have ended, or until `stop` is set and every pair of steps has ended.
    /// Then drops the remaining tasks.
    ///
    /// # Errors
    /// Waiting failed.
    pub(crate) fn run(&self, stop: &AtomicBool) -> io::Result<()> {
        let mut next_sweep_ns = self.now_ns() + self.sweep_ns.get();
        self.is_stopping.set(false);
        while self.alive.get() > 0 && !self.must_stop(stop) {
            self.poll_ready(stop);
            if self.alive.get() == 0 {
                break;
            }
            let now_ns = self.now_ns();
            self.wake_due_timers(now_ns);
            if now_ns >= next_sweep_ns {
                self.wake_expired(now_ns);
                next_sweep_ns = now_ns + self.sweep_ns.get();
            }
            self.park_until_something(now_ns)?;
        }
        // Dropping a task may use the reactor (closing sockets), so no borrow may be held.
        let left = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(left);
        self.alive.set(0);
        self.ready.borrow_mut().clear();
        self.timers.borrow_mut().clear();
        self.deadlines.borrow_mut().clear();
        Ok(())
    }

    fn poll_ready(&self, stop: &AtomicBool) {
        let mut context = Context::from_waker(Waker::noop());
        // One round only: tasks woken meanwhile wait until events have been polled.
        let round = self.ready.borrow().len();
        for _ in 0..round {
            let Some(index) = self.ready.borrow_mut().pop_front() else { return };
            let Some(mut task) = self.tasks.borrow_mut()[index as usize].take() else { continue };
            self.current.set(index);
            if task.as_mut().poll(&mut context).is_ready() {
                self.alive.set(self.alive.get() - 1);
                drop(task);
            } else {
                self.tasks.borrow_mut()[index as usize] = Some(task);
            }
            if self.must_stop(stop) {
                return;
            }
        }
    }

    fn wake_due_timers(&self, now_ns: u64) {
        let mut timers = self.timers.borrow_mut();
        while let Some(&Reverse((due_ns, task))) = timers.peek() {
            if due_ns > now_ns {
                return;
            }
            timers.pop();
            self.wake(task);
        }
    }

    fn wake_expired(&self, now_ns: u64) {
        for (index, deadline_ns) in self.deadlines.borrow_mut().iter_mut().enumerate() {
            if *deadline_ns <= now_ns {
                *deadline_ns = EXPIRED;
                self.wake(index as TaskIndex);
            }
        }
    }

    fn park_until_something(&self, now_ns: u64) -> io::Result<()> {
        let mut timeout_ns = WAIT_NS_MAX;
        if !self.ready.borrow().is_empty() {
            return self.park.park(0, &mut |task| self.wake(task));
        }
        if let Some(&Reverse((due_ns, _))) = self.timers.borrow().peek() {
            if self.clock.advance_to(due_ns) {
                return self.park.park(0, &mut |task| self.wake(task));
            }
            timeout_ns = timeout_ns.min(self.oversleep.sleep_ns(due_ns - now_ns));
        }
        self.park.park(timeout_ns, &mut |task| self.wake(task))?;
        if self.ready.borrow().is_empty() {
            let took_ns = self.now_ns() - now_ns;
            if timeout_ns == 0 {
                self.oversleep.note_look(took_ns);
            } else if let Some(late_ns) = took_ns.checked_sub(timeout_ns) {
                self.oversleep.note_sleep(late_ns);
            }
        }
        Ok(())
    }
}

/// Runs one future to completion on the reactor and returns its output, or `None` on a stop.
///
/// # Errors
/// Waiting failed.
pub(crate) fn run_to_end<T: 'static>(
    reactor: &Rc<Reactor>,
    stop: &AtomicBool,
    future: impl Future<Output = T> + 'static,
) -> io::Result<Option<T>> {
    let slot = Rc::new(RefCell::new(None));
    let result = Rc::clone(&slot);
    reactor.spawn(async move {
        let value = future.await;
        *result.borrow_mut() = Some(value);
    });
    reactor.run(stop)?;
    Ok(slot.take())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_on_a_virtual_clock() {
        let reactor = Reactor::new(Box::new(Sleep), Clock::virtual_at(0));
        let order = Rc::new(RefCell::new(Vec::new()));
        for due_ns in [3_000_000_000_u64, 1_000_000_000, 2_000_000_000] {
            let (inner, order) = (Rc::clone(&reactor), Rc::clone(&order));
            reactor.spawn(async move {
                inner.sleep_until(due_ns).await;
                order.borrow_mut().push((due_ns, inner.now_ns()));
            });
        }
        reactor.run(&AtomicBool::new(false)).expect("sleeping cannot fail");
        let seconds: Vec<u64> = order.borrow().iter().map(|(due, _)| due / 1_000_000_000).collect();
        assert_eq!(seconds, [1, 2, 3]);
        assert!(order.borrow().iter().all(|(due, woke)| due == woke));
    }

    #[test]
    fn a_stop_drops_tasks_that_would_wait_for_ever() {
        let reactor = Reactor::new(Box::new(Sleep), Clock::real());
        reactor.spawn(std::future::pending());
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let setter = std::sync::Arc::clone(&stop);
        let thread = std::thread::spawn(move || setter.store(true, Ordering::Relaxed));
        reactor.run(&stop).expect("sleeping cannot fail");
        thread.join().expect("the setter does not panic");
    }

    #[test]
    fn a_turn_lets_other_tasks_run_first() {
        let reactor = Reactor::new(Box::new(Sleep), Clock::real());
        let order = Rc::new(RefCell::new(Vec::new()));
        for name in ["a", "b"] {
            let (inner, order) = (Rc::clone(&reactor), Rc::clone(&order));
            reactor.spawn(async move {
                for _ in 0..2 {
                    order.borrow_mut().push(name);
                    inner.turn().await;
                }
            });
        }
        reactor.run(&AtomicBool::new(false)).expect("sleeping cannot fail");
        assert_eq!(*order.borrow(), ["a", "b", "a", "b"]);
    }
}
