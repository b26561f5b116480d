//! Where librados' threads leave word for one load thread, and where that thread waits.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use crate::reactor::{Park, TaskIndex};

/// The number of a client among those of its load thread.
pub(crate) type Place = u32;

/// One bit for each client whose request has ended: leaving word takes no lock, and a load thread
/// that is awake is not woken.
pub(crate) struct Inbox {
    ended: Box<[AtomicU64]>,
    tasks: Box<[AtomicU32]>,
    taken: AtomicU32,
    is_parked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Inbox {
    /// Makes an inbox for at most so many clients.
    pub(crate) fn new(clients: usize) -> Arc<Self> {
        Arc::new(Self {
            ended: (0..clients.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            tasks: (0..clients).map(|_| AtomicU32::new(0)).collect(),
            taken: AtomicU32::new(0),
            is_parked: AtomicBool::new(false),
            thread: OnceLock::new(),
        })
    }

    /// Gives a new client its place.
    pub(crate) fn take_place(&self) -> Place {
        let place = self.taken.fetch_add(1, Ordering::Relaxed);
        assert!((place as usize) < self.tasks.len(), "made for fewer clients");
        place
    }

    /// Says which task is to be woken for the client at `place`.
    pub(crate) fn expect(&self, place: Place, task: TaskIndex) {
        self.tasks[place as usize].store(task, Ordering::Relaxed);
    }

    /// Leaves word that something has ended for the client at `place`.
    pub(crate) fn put(&self, place: Place) {
        self.ended[place as usize / 64].fetch_or(1 << (place % 64), Ordering::SeqCst);
        // The load thread says that it parks before it looks a last time: either it sees the bit
        // or we see that it parks.
        if self.is_parked.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Wakes the tasks of all clients with word; tells whether there was any.
    fn deliver(&self, wake: &mut dyn FnMut(TaskIndex)) -> bool {
        let mut has_any = false;
        for (word, first) in self.ended.iter().zip((0..).step_by(64)) {
            if word.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let mut bits = word.swap(0, Ordering::SeqCst);
            while bits != 0 {
                let place: usize = first + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                has_any = true;
                wake(self.tasks[place].load(Ordering::Relaxed));
            }
        }
        has_any
    }
}

/// Waits at an [`Inbox`].
pub(crate) struct InboxPark(pub(crate) Arc<Inbox>);

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

    #[test]
    fn word_left_at_any_time_is_found() {
        let inbox = Inbox::new(100);
        let places: Vec<Place> = (0..100).map(|_| inbox.take_place()).collect();
        places.iter().for_each(|place| inbox.expect(*place, place + 1000));
        let other = Arc::clone(&inbox);
        let sender = std::thread::spawn(move || {
            for place in 0..100 {
                other.put(place);
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
    fn nothing_is_waited_for_with_a_timeout_of_zero() {
        let park = InboxPark(Inbox::new(1));
        park.park(0, &mut |_| panic!("nobody left word")).expect("looking cannot fail");
    }
}
