//! Time that clients spend on cryptography: what of an action is theirs and not the store's.
//!
//! A load thread adds up what its clients spend, kind by kind. As one client runs at a time, what the
//! sum grows by while a client is polled is that client's. Threads that do not ask read no clock.

use std::cell::Cell;
use std::ops::{AddAssign, Sub};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::clock::monotonic_ns;

/// What the time goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Encrypting what is sent and decrypting what comes back.
    Encryption,
    /// Making the keys of contents and of users, wrapping and unwrapping the former by the latter.
    Wrapping,
    /// Digests of bodies: the payload's hash in a signature, checksums.
    Hashing,
    /// Sealing and opening the paths of objects.
    Paths,
}

/// Time of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) encryption_ns: u64,
    pub(crate) wrapping_ns: u64,
    pub(crate) hashing_ns: u64,
    pub(crate) paths_ns: u64,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.encryption_ns += other.encryption_ns;
        self.wrapping_ns += other.wrapping_ns;
        self.hashing_ns += other.hashing_ns;
        self.paths_ns += other.paths_ns;
    }
}

impl Sub for Spent {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            encryption_ns: self.encryption_ns - other.encryption_ns,
            wrapping_ns: self.wrapping_ns - other.wrapping_ns,
            hashing_ns: self.hashing_ns - other.hashing_ns,
            paths_ns: self.paths_ns - other.paths_ns,
        }
    }
}

thread_local! {
    /// What this thread has spent since it began to count, if it counts.
    static SPENT: Cell<Option<Spent>> = const { Cell::new(None) };
}

/// Has this thread count from now on, or no longer.
pub(crate) fn count(is_counted: bool) {
    SPENT.set(is_counted.then(Spent::default));
}

/// Does work on another thread for one of ours, and returns what it spent where that one counts.
pub(crate) fn aside<T>(is_counted: bool, work: impl FnOnce() -> T) -> (T, Spent) {
    count(is_counted);
    (work(), SPENT.get().unwrap_or_default())
}

/// Tells whether this thread counts.
pub(crate) fn is_counted() -> bool {
    SPENT.get().is_some()
}

/// Takes what another thread has spent for this one.
pub(crate) fn take_over(other: Spent) {
    if let Some(mut spent) = SPENT.get() {
        spent += other;
        SPENT.set(Some(spent));
    }
}

/// Does work of a kind, and counts its time if this thread counts.
#[inline]
pub(crate) fn spend<T>(kind: Kind, work: impl FnOnce() -> T) -> T {
    let Some(mut spent) = SPENT.get() else { return work() };
    let began_ns = monotonic_ns();
    let made = work();
    let took_ns = monotonic_ns() - began_ns;
    match kind {
        Kind::Encryption => spent.encryption_ns += took_ns,
        Kind::Wrapping => spent.wrapping_ns += took_ns,
        Kind::Hashing => spent.hashing_ns += took_ns,
        Kind::Paths => spent.paths_ns += took_ns,
    }
    SPENT.set(Some(spent));
    made
}

pin_project! {
    /// A client's work that is counted.
    struct Counted<'s, F> {
        #[pin]
        work: F,
        own: Spent,
        spent: &'s Cell<Spent>,
    }
}

/// Runs a client's work to its end, and sets `spent` to what it spent. Written out, since an `async fn` would hold the
/// work twice: as its argument, and pinned.
pub(crate) fn counted<F: Future>(work: F, spent: &Cell<Spent>) -> impl Future<Output = F::Output> {
    Counted { work, own: Spent::default(), spent }
}

impl<F: Future> Future for Counted<'_, F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let now = || SPENT.get().unwrap_or_default();
        let this = self.project();
        let before = now();
        let polled = this.work.poll(context);
        *this.own += now() - before;
        if polled.is_ready() {
            this.spent.set(*this.own);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    fn sleep(kind: Kind, milliseconds: u64) {
        spend(kind, || std::thread::sleep(std::time::Duration::from_millis(milliseconds)));
    }

    /// Two clients of a thread that take turns: each has its own time, and that alone.
    #[test]
    fn clients_that_take_turns_are_told_apart() {
        count(true);
        let client = async |kind, milliseconds| {
            for _ in 0..2 {
                sleep(kind, milliseconds);
                let mut is_second = false;
                std::future::poll_fn(|_| match std::mem::replace(&mut is_second, true) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                })
                .await;
            }
        };
        let spent = Cell::default();
        let mut first = pin!(counted(client(Kind::Encryption, 4), &spent));
        let mut second = pin!(counted(client(Kind::Hashing, 1), &spent));
        let mut context = Context::from_waker(Waker::noop());
        let (mut ends, mut turns) = (Vec::new(), 0);
        while ends.len() < 2 && turns < 10 {
            turns += 1;
            if first.as_mut().poll(&mut context).is_ready() {
                ends.push(spent.get());
            }
            if second.as_mut().poll(&mut context).is_ready() {
                ends.push(spent.get());
            }
        }
        count(false);
        assert_eq!(turns, 3);
        assert!(ends[0].encryption_ns >= 8_000_000 && ends[0].hashing_ns == 0, "{ends:?}");
        assert!(ends[1].hashing_ns >= 2_000_000 && ends[1].encryption_ns == 0, "{ends:?}");
    }

    #[test]
    fn a_thread_that_does_not_count_has_spent_nothing() {
        count(false);
        sleep(Kind::Hashing, 1);
        assert_eq!(SPENT.get(), None);
    }
}
