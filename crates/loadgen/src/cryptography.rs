//! Time that clients spend on cryptography, so that actions are split into client time and target
//! time.
//!
//! A load thread runs one client at a time. While a counted client is polled, the thread-local sum
//! is that client's. Clients that are not counted read no clock.

use std::cell::Cell;
use std::ops::AddAssign;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::clock::monotonic_ns;

/// Kind of cryptographic work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Encrypting objects that are sent and decrypting objects that are received.
    Encryption,
    /// Generating the keys of objects and users; wrapping and unwrapping the former with the
    /// latter.
    Wrapping,
    /// Digests of bodies: the payload's hash in a signature, checksums.
    Hashing,
    /// Encrypting and decrypting the paths of objects.
    Paths,
}

/// Time spent on each kind, in nanoseconds.
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

thread_local! {
    /// Time that the running client has spent since the last query, if it is counted.
    static SPENT: Cell<Option<Spent>> = const { Cell::new(None) };
}

/// Runs work for one of our clients on another thread, and returns the time spent if the client is
/// counted.
pub(crate) fn aside<T>(is_counted: bool, work: impl FnOnce() -> T) -> (T, Spent) {
    SPENT.set(is_counted.then(Spent::default));
    (work(), SPENT.get().unwrap_or_default())
}

/// Returns whether the running client is counted.
pub(crate) fn is_counted() -> bool {
    SPENT.get().is_some()
}

/// Adds time that another thread has spent for the running client.
pub(crate) fn take_over(other: Spent) {
    if let Some(mut spent) = SPENT.get() {
        spent += other;
        SPENT.set(Some(spent));
    }
}

/// Returns and resets the time that the running client has spent, if it is counted.
#[inline]
pub(crate) fn take() -> Spent {
    let Some(spent) = SPENT.get() else { return Spent::default() };
    SPENT.set(Some(Spent::default()));
    spent
}

/// Runs work of a kind, and counts its time if the running client is counted.
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

/// The future of a client.
type Client<T> = Pin<Box<dyn Future<Output = T>>>;

/// A counted client.
struct Counted<T> {
    client: Client<T>,
    spent: Spent,
}

/// Counts the time of a client separately. The future is boxed, so that a driver's client loop is
/// compiled once for counted and uncounted clients.
pub(crate) fn counted<T>(client: Client<T>) -> impl Future<Output = T> {
    Counted { client, spent: Spent::default() }
}

impl<T> Future for Counted<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        SPENT.set(Some(self.spent));
        let polled = self.client.as_mut().poll(context);
        self.spent = SPENT.take().unwrap_or_default();
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

    /// Two clients of a thread that take turns are counted separately.
    #[test]
    fn clients_that_take_turns_are_counted_separately() {
        async fn client(kind: Kind, milliseconds: u64) -> [Spent; 2] {
            for _ in 0..2 {
                sleep(kind, milliseconds);
                let mut is_second = false;
                std::future::poll_fn(|_| match std::mem::replace(&mut is_second, true) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                })
                .await;
            }
            [take(), take()]
        }
        let mut first = pin!(counted(Box::pin(client(Kind::Encryption, 4))));
        let mut second = pin!(counted(Box::pin(client(Kind::Hashing, 1))));
        let mut context = Context::from_waker(Waker::noop());
        let (mut ends, mut turns) = (Vec::new(), 0);
        while ends.len() < 2 && turns < 10 {
            turns += 1;
            for client in [first.as_mut() as Pin<&mut dyn Future<Output = _>>, second.as_mut()] {
                if let Poll::Ready([spent, again]) = client.poll(&mut context) {
                    assert_eq!(again, Spent::default(), "it is taken once");
                    ends.push(spent);
                }
            }
            sleep(Kind::Paths, 1);
        }
        assert_eq!(turns, 3);
        assert!(ends[0].encryption_ns >= 8_000_000 && ends[0].hashing_ns == 0, "{ends:?}");
        assert!(ends[1].hashing_ns >= 2_000_000 && ends[1].encryption_ns == 0, "{ends:?}");
        assert!(ends.iter().all(|spent| spent.paths_ns == 0), "what is no client's: {ends:?}");
    }

    #[test]
    fn an_uncounted_client_spends_nothing() {
        sleep(Kind::Hashing, 1);
        assert!(!is_counted());
        assert_eq!(take(), Spent::default());
    }
}
