//! Objects whose time ends: readers stop seeing them at once, and they are swept out later.

use std::sync::atomic::Ordering;

use crate::account::Account;
use crate::clock;
use crate::stored::bucket::Bucket;
use crate::stored::object::About;

impl Account {
    /// Remembers that there is something to sweep.
    pub(crate) fn note_expiry(&self, about: &About) {
        if about.expires_at_s.is_some() {
            self.may_expire.store(true, Ordering::Relaxed);
        }
    }

    /// Removes objects whose time is over; readers have not seen them since.
    pub(crate) fn sweep_expired(&self) {
        if !self.may_expire.load(Ordering::Relaxed) {
            return;
        }
        let now_s = clock::now_us() / 1_000_000;
        let buckets: Vec<_> = self.buckets().values().cloned().collect();
        for bucket in buckets {
            self.sweep_bucket(&bucket, now_s);
        }
    }

    /// Removes what expired before `now_s` from one bucket.
    pub(crate) fn sweep_bucket(&self, bucket: &Bucket, now_s: u64) {
        let expired = bucket.index().expired(now_s);
        for (key, object) in expired {
            // What cannot be removed now is invisible, and tried again by the next sweep.
            let _ = self.remove_exactly(bucket, &key, object.id);
        }
    }
}
