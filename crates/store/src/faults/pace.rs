//! A limit of the bytes of bodies per second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The two directions of a link with limited bandwidth.
#[derive(Debug)]
pub(crate) struct Pacer {
    started: Instant,
    ns_per_byte: f64,
    incoming_free_ns: AtomicU64,
    outgoing_free_ns: AtomicU64,
}

impl Pacer {
    pub(crate) fn new(bytes_per_s: u64) -> Pacer {
        Pacer {
            started: Instant::now(),
            ns_per_byte: 1e9 / bytes_per_s as f64,
            incoming_free_ns: AtomicU64::new(0),
            outgoing_free_ns: AtomicU64::new(0),
        }
    }

    /// Queues received bytes; returns when the link has transferred them.
    pub(crate) fn incoming(&self, bytes: usize) -> Duration {
        self.queue(&self.incoming_free_ns, bytes, self.started.elapsed())
    }

    /// Queues bytes to send; returns when the link has transferred them.
    pub(crate) fn outgoing(&self, bytes: usize) -> Duration {
        self.queue(&self.outgoing_free_ns, bytes, self.started.elapsed())
    }

    fn queue(&self, free_ns: &AtomicU64, bytes: usize, now: Duration) -> Duration {
        let now_ns = now.as_nanos() as u64;
        let needed_ns = (bytes as f64 * self.ns_per_byte) as u64;
        let done = |free: u64| free.max(now_ns) + needed_ns;
        let before =
            free_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| Some(done(free)));
        let (Ok(before) | Err(before)) = before;
        Duration::from_nanos(done(before) - now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_one_direction_queue_behind_each_other() {
        let pacer = Pacer::new(1000);
        let at = Duration::from_secs(5);
        let first = pacer.queue(&pacer.incoming_free_ns, 500, at);
        let second = pacer.queue(&pacer.incoming_free_ns, 500, at);
        assert_eq!((first.as_millis(), second.as_millis()), (500, 1000));
        assert_eq!(pacer.queue(&pacer.outgoing_free_ns, 500, at).as_millis(), 500);
        let later = pacer.queue(&pacer.incoming_free_ns, 500, Duration::from_secs(60));
        assert_eq!(later.as_millis(), 500);
    }
}
