//! Time that clients spend on cryptography: what of an action is theirs and not the store's.
//!
//! A load thread runs one client at a time. While one that is counted is polled, the thread has its sum,
//! kind by kind; who runs uncounted reads no clock.

use std::cell::Cell;
use std::ops::AddAssign;
use std::pin::Pin;
use std::task::{Context, Poll};

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

thread_local! {
    /// What the client that runs on this thread has spent since it was last asked, if it is counted.
    static SPENT: Cell<Option<Spent>> = const { Cell::new(None) };
}

/// Does work on another thread for a client of ours, and returns what it spent if that one is counted.
pub(crate) fn aside<T>(is_counted: bool, work: impl FnOnce() -> T) -> (T, Spent) {
    SPENT.set(is_counted.then(Spent::default));
    (work(), SPENT.get().unwrap_or_default())
}

/// Tells whether the client that runs is counted.
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

/// Returns what the client that runs has spent since it was last asked, if it is counted.
#[inline]
pub(crate) fn take() -> Spent {
    let Some(spent) = SPENT.get() else { return Spent::default() };
    SPENT.set(Some(Spent::default()));
    spent
}

/// Does work of a kind, and counts its time if the client that runs is counted.
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

/// A client, or what it does.
type Client<T> = Pin<Box<dyn Future<Output = T>>>;

/// A client that is counted.
struct Counted<T> {
    client: Client<T>,
    own: Spent,
}

/// Has what a client does counted as its own. It comes boxed, so that the loop of a driver's clients is
/// compiled once, whether they are counted or not.
pub(crate) fn counted<T>(client: Client<T>) -> impl Future<Output = T> {
    Counted { client, own: Spent::default() }
}

impl<T> Future for Counted<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        SPENT.set(Some(self.own));
        let polled = self.client.as_mut().poll(context);
        self.own = SPENT.take().unwrap_or_default();
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
    fn a_client_that_is_not_counted_has_spent_nothing() {
        sleep(Kind::Hashing, 1);
        assert!(!is_counted());
        assert_eq!(take(), Spent::default());
    }
}
