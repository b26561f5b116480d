//! Retries of requests outside the measurement after temporary errors.
//!
//! Places are created, datasets filled and cleaned up with retries. A measured request is sent
//! once, and its failure counts. A load thread retries only if its reactor was given [`Retries`].

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::monotonic_ns;

/// Maximum number of retries of a request.
const RETRIES_MAX: u32 = 6;
/// Maximum after a broken connection, because a wrong port or scheme has the same symptom.
const RETRIES_BROKEN_MAX: u32 = 3;
/// First pause; each further one is twice as long.
const PAUSE_NS: u64 = 250_000_000;
/// Maximum total duration of the pauses of one request.
const PAUSES_NS_MAX: u64 = 60_000_000_000;
/// After a request has used up its retries, others get none for this long. Otherwise, with a store
/// that is down, every object of a dataset would wait for the whole time.
const GIVEN_UP_NS: u64 = 10_000_000_000;

/// S3 error codes after which the same request may succeed a moment later.
const TEMPORARY_CODES: [&str; 7] = [
    "InternalError",
    "OperationAborted",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "ThrottlingException",
    "TooManyRequests",
];

/// An answer that may be temporary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    /// Whether the connection broke before the end of the answer.
    pub(crate) is_broken: bool,
    /// Whether the target throttles requests.
    pub(crate) is_throttled: bool,
    /// HTTP status; zero if no head arrived.
    pub(crate) status: u16,
    /// S3 error code, if there is one.
    pub(crate) code: &'a str,
    /// Whether the request may be sent twice.
    pub(crate) is_idempotent: bool,
}

impl Answer<'_> {
    /// Returns whether the same request may succeed a moment later.
    pub(crate) fn is_temporary(&self) -> bool {
        match self.status {
            _ if self.is_broken => self.is_idempotent,
            _ if self.is_throttled => true,
            408 | 425 | 429 | 498 | 500 | 502 | 503 | 504 => true,
            400.. => TEMPORARY_CODES.contains(&self.code),
            _ => false,
        }
    }

    /// Returns whether the request may have been executed despite the error.
    pub(crate) fn leaves_doubt(&self) -> bool {
        self.is_broken || self.status >= 500
    }
}

/// The retries of one request so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attempts {
    pub(crate) count: u32,
    pub(crate) paused_ns: u64,
    /// Whether an attempt before the last one may have been executed.
    pub(crate) is_in_doubt: bool,
}

/// Retry state that all requests of a trial share, with counts by kind of answer.
#[derive(Debug)]
pub(crate) struct Retries {
    /// Timeout of one attempt.
    pub(crate) timeout_ns: u64,
    given_up_ns: AtomicU64,
    made: Mutex<Made>,
}

/// Number of retries, and the total pause before them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Made {
    /// Number of retries by outcome.
    pub(crate) counts: BTreeMap<String, u64>,
    pub(crate) paused_ns: u64,
    /// The last retry, as text for people.
    pub(crate) latest: String,
}

impl Made {
    pub(crate) fn total(&self) -> u64 {
        self.counts.values().sum()
    }
}

impl Retries {
    pub(crate) fn new(timeout_ns: u64) -> Self {
        Self { timeout_ns, given_up_ns: AtomicU64::new(0), made: Mutex::default() }
    }

    /// Returns how long to wait before a retry, or `None` if the answer is final: it is not
    /// temporary, or the retries are used up. `asked_s` is the wait that the answer requests, in
    /// seconds.
    pub(crate) fn pause_ns(
        &self,
        answer: &Answer<'_>,
        attempts: Attempts,
        asked_s: Option<u64>,
    ) -> Option<u64> {
        if !answer.is_temporary() {
            return None;
        }
        let now_ns = monotonic_ns();
        let is_first = attempts.count == 0;
        if is_first && now_ns < self.given_up_ns.load(Ordering::Relaxed) {
            return None;
        }
        let most = if answer.is_broken { RETRIES_BROKEN_MAX } else { RETRIES_MAX };
        let asked_ns = asked_s.unwrap_or(0).saturating_mul(1_000_000_000);
        let pause_ns = (PAUSE_NS << attempts.count.min(RETRIES_MAX)).max(asked_ns);
        if attempts.count >= most || attempts.paused_ns.saturating_add(pause_ns) > PAUSES_NS_MAX {
            self.given_up_ns.store(now_ns + GIVEN_UP_NS, Ordering::Relaxed);
            return None;
        }
        Some(pause_ns)
    }

    /// Records a retry after a pause; `text` describes the failure.
    pub(crate) fn note(&self, outcome: &str, pause_ns: u64, text: &str) {
        let mut made = self.made.lock().expect("no holder of this lock panics");
        *made.counts.entry(outcome.to_owned()).or_default() += 1;
        made.paused_ns += pause_ns;
        let seconds = pause_ns as f64 / 1e9;
        made.latest = format!("{text}: tried again in {seconds} s");
    }

    pub(crate) fn made(&self) -> Made {
        self.made.lock().expect("no holder of this lock panics").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: &str) -> Answer<'_> {
        Answer { is_broken: false, is_throttled: false, status, code, is_idempotent: true }
    }

    #[test]
    fn temporary_errors_are_retried_and_refusals_are_not() {
        let temporary = [(409, "OperationAborted"), (400, "RequestTimeout"), (403, "SlowDown")];
        for (status, code) in temporary {
            assert!(answer(status, code).is_temporary(), "{status} {code}");
        }
        for status in [408, 425, 429, 498, 500, 502, 503, 504] {
            assert!(answer(status, "").is_temporary(), "{status}");
        }
        for (status, code) in
            [(409, "BucketAlreadyExists"), (409, ""), (403, ""), (404, ""), (507, "")]
        {
            assert!(!answer(status, code).is_temporary(), "{status} {code}");
        }
    }

    #[test]
    fn a_broken_connection_is_retried_only_for_idempotent_requests() {
        let broken = Answer { is_broken: true, ..answer(0, "") };
        assert!(broken.is_temporary());
        assert!(!Answer { is_idempotent: false, ..broken }.is_temporary());
        // A target that cannot be reached at all is not a temporary error.
        assert!(!answer(0, "").is_temporary());
    }

    #[test]
    fn retries_are_limited_in_number_and_in_time() {
        let retries = Retries::new(1);
        let mut attempts = Attempts::default();
        while let Some(pause_ns) = retries.pause_ns(&answer(503, ""), attempts, None) {
            attempts.count += 1;
            attempts.paused_ns += pause_ns;
        }
        assert_eq!((attempts.count, attempts.paused_ns), (6, 15_750_000_000));
        // Other requests are then given up at once.
        assert_eq!(retries.pause_ns(&answer(503, ""), Attempts::default(), None), None);

        let retries = Retries::new(1);
        let wait = |asked_s| retries.pause_ns(&answer(503, ""), Attempts::default(), Some(asked_s));
        assert_eq!(wait(1), Some(1_000_000_000));
        assert_eq!(wait(3600), None);
    }
}
