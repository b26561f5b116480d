//! Lists of a pool's namespaces, on a thread beside the load: librados lists blocking.

use std::ffi::c_int;
use std::sync::Arc;

use super::client::RadosClient;
use crate::outcome::{Completion, Outcome};
use crate::script::Listing;

impl RadosClient {
    /// Lists the first page of a namespace.
    pub(super) async fn list_page(&mut self, bucket: u64) -> Completion {
        let sent_ns = self.reactor.now_ns();
        let (rados, instance) = (Arc::clone(&self.rados), self.instance);
        let list = move || {
            let context = rados.instances[instance].open(&rados, bucket)?;
            let (mut names, mut keys) = (context.list()?, 0);
            while keys < rados.page_keys && names.next()?.is_some() {
                keys += 1;
            }
            Ok::<u32, c_int>(keys)
        };
        let listed = self.seat.run_aside(&self.reactor, list).await;
        let ended_ns = self.reactor.now_ns();
        let error = match listed {
            Ok(Ok(keys)) => {
                let completion = Completion::plain(Outcome::OK, sent_ns, 0, ended_ns);
                return Completion { objects: keys, ..completion };
            }
            Ok(Err(number)) => std::io::Error::from_raw_os_error(number),
            Err(error) => error,
        };
        self.last_error.get_or_insert_with(|| format!("list: {error}"));
        Completion::plain(Outcome::of_io(&error), sent_ns, 0, ended_ns)
    }

    /// Lists a whole namespace, and counts the names under a script's prefix: RADOS knows none.
    pub(super) async fn list_prefix(&mut self, listing: Listing) -> Completion {
        let sent_ns = self.reactor.now_ns();
        let (rados, instance) = (Arc::clone(&self.rados), self.instance);
        let list = move || {
            let dataset = &rados.dataset;
            let bucket = dataset.bucket_of(u64::from(listing.prefix));
            let prefix = dataset.listed_prefix(&listing);
            let context = rados.instances[instance].open(&rados, bucket)?;
            let (mut names, mut check) = (context.list()?, dataset.check_listing(&listing));
            while let Some(name) = names.next()?.filter(|_| !check.has_too_many()) {
                if name.starts_with(&prefix) {
                    check.add(dataset.listed_key(&name).as_deref());
                }
            }
            drop(names);
            Ok::<_, c_int>((check.entries(), Outcome::of_set(check.verdict()), check.describe()))
        };
        let listed = self.seat.run_aside(&self.reactor, list).await;
        let ended_ns = self.reactor.now_ns();
        let (objects, outcome, told) = match listed {
            Ok(Ok(found)) => found,
            Ok(Err(number)) => {
                let error = std::io::Error::from_raw_os_error(number);
                (1, Outcome::of_io(&error), error.to_string())
            }
            Err(error) => (1, Outcome::of_io(&error), error.to_string()),
        };
        if !outcome.is_ok() {
            self.last_error.get_or_insert_with(|| format!("list: {told}"));
        }
        Completion { objects, ..Completion::plain(outcome, sent_ns, 0, ended_ns) }
    }
}
