//! Keys that expire: shared by all trials of this process, and renewed during the load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loadstone_wire::sigv4::Credentials;

use crate::clock::unix_ns;
use crate::driver::LogIns;
use crate::error::Error;

/// Keys are renewed this long before they expire, or after three quarters of their lifetime.
const RENEW_EARLY_S: u64 = 300;
/// Minimum time between renewals, whatever the clocks say.
const APART_S: u64 = 1;
/// Pause after a failed renewal.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Keys and their expiry.
#[derive(Debug, Clone)]
pub(crate) struct AccessKeys {
    pub credentials: Credentials,
    /// When they expire, in seconds since 1970; `None` if they do not.
    pub expires_unix_s: Option<u64>,
}

impl AccessKeys {
    /// Returns when to renew them, in seconds since 1970.
    fn renew_unix_s(&self, now_s: u64) -> Option<u64> {
        let expires_s = self.expires_unix_s?;
        let life_s = expires_s.saturating_sub(now_s);
        Some((expires_s - RENEW_EARLY_S.min(life_s.div_ceil(4))).max(now_s + APART_S))
    }
}

/// A source of keys. It gives up soon after the flag is set.
pub(super) type Source = dyn Fn(&AtomicBool) -> Result<AccessKeys, Error> + Send + Sync;

/// Keys and the time of their renewal, by identity.
type Known = HashMap<String, (AccessKeys, Option<u64>)>;

/// The keys of this process.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

/// Returns the keys of an identity, from the cache or from its source. Each trial opens its driver
/// again, and a process that prints keys need not run for each.
pub(super) fn had_or_new(identity: &str, source: &Source) -> Result<AccessKeys, Error> {
    let now_s = unix_ns() / 1_000_000_000;
    let known = KNOWN.lock().expect("the lock is not poisoned");
    if let Some((keys, renew_s)) = known.as_ref().and_then(|known| known.get(identity))
        && renew_s.is_none_or(|renew_s| now_s < renew_s)
    {
        return Ok(keys.clone());
    }
    // A source may be slow, and another target's thread may need the lock.
    drop(known);
    let keys = source(&AtomicBool::new(false))?;
    note(identity, &keys, keys.renew_unix_s(now_s));
    Ok(keys)
}

fn note(identity: &str, keys: &AccessKeys, renew_s: Option<u64>) {
    let mut known = KNOWN.lock().expect("the lock is not poisoned");
    known.get_or_insert_default().insert(identity.to_owned(), (keys.clone(), renew_s));
}

/// The keys of a target in use. A request only reads their generation.
#[derive(Debug)]
pub(crate) struct KeyKeeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    credentials: Mutex<Credentials>,
    generation: AtomicU64,
    renewals: AtomicU64,
    renewals_ns: AtomicU64,
    failure: Mutex<Option<String>>,
    stop: AtomicBool,
    is_stopped: Mutex<bool>,
    woken: Condvar,
}

impl KeyKeeper {
    /// Keeps keys. A separate thread renews those that expire.
    ///
    /// # Errors
    /// The host cannot create a thread.
    pub(super) fn start(
        keys: AccessKeys,
        renewed_by: Option<(String, Box<Source>)>,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            credentials: Mutex::new(keys.credentials.clone()),
            generation: AtomicU64::new(1),
            renewals: AtomicU64::new(0),
            renewals_ns: AtomicU64::new(0),
            failure: Mutex::default(),
            stop: AtomicBool::new(false),
            is_stopped: Mutex::new(false),
            woken: Condvar::new(),
        });
        let renewed_by = renewed_by.filter(|_| keys.expires_unix_s.is_some());
        let thread = renewed_by.map(|(identity, source)| {
            let shared = Arc::clone(&shared);
            let renew = move || shared.renew_in_time(&keys, &identity, &*source);
            std::thread::Builder::new().name("keys".into()).spawn(renew)
        });
        let thread = thread.transpose();
        let thread = thread
            .map_err(|source| Error::Host { what: "start a thread that renews keys", source })?;
        Ok(Self { shared, thread })
    }

    /// Returns the generation, which grows with each renewal.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Returns the current keys.
    pub(crate) fn credentials(&self) -> Credentials {
        self.shared.credentials.lock().expect("the lock is not poisoned").clone()
    }

    /// Returns the number of renewals, and their total time.
    pub(crate) fn renewals(&self) -> LogIns {
        LogIns {
            count: self.shared.renewals.load(Ordering::Relaxed),
            took_ns: self.shared.renewals_ns.load(Ordering::Relaxed),
        }
    }

    /// Returns why the last renewal failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.failure.lock().expect("the lock is not poisoned").clone()
    }
}

impl Drop for KeyKeeper {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        *self.shared.is_stopped.lock().expect("the lock is not poisoned") = true;
        self.shared.woken.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn renew_in_time(&self, keys: &AccessKeys, identity: &str, source: &Source) {
        let now_s = unix_ns() / 1_000_000_000;
        let wait_of = |renew_s: u64, now_s: u64| Duration::from_secs(renew_s.saturating_sub(now_s));
        let Some(renew_s) = keys.renew_unix_s(now_s) else { return };
        let mut wait = wait_of(renew_s, now_s);
        while self.sleep(wait) {
            let began = Instant::now();
            let result = source(&self.stop);
            let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.renewals.fetch_add(1, Ordering::Relaxed);
            self.renewals_ns.fetch_add(took_ns, Ordering::Relaxed);
            let mut failure = self.failure.lock().expect("the lock is not poisoned");
            match result {
                Err(error) => {
                    *failure = Some(error.to_string());
                    wait = TRY_AGAIN;
                }
                Ok(keys) => {
                    *failure = None;
                    let now_s = unix_ns() / 1_000_000_000;
                    let renew_s = keys.renew_unix_s(now_s);
                    note(identity, &keys, renew_s);
                    *self.credentials.lock().expect("the lock is not poisoned") = keys.credentials;
                    self.generation.fetch_add(1, Ordering::Release);
                    let Some(renew_s) = renew_s else { return };
                    wait = wait_of(renew_s, now_s);
                }
            }
        }
    }

    /// Sleeps; returns false if the keys are no longer used.
    fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut is_stopped = self.is_stopped.lock().expect("the lock is not poisoned");
        while !*is_stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let waited = self.woken.wait_timeout(is_stopped, left);
            is_stopped = waited.expect("the lock is not poisoned").0;
        }
        false
    }
}
