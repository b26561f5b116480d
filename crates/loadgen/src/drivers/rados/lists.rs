//! Lists a pool's namespaces on a separate thread, because librados lists in blocking calls.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};

use super::call::{Call, OwnerTag};
use super::client::RadosClient;
use super::connection::PoolContext;
use super::namespace::{open, refusal, renew_deadline, shown};
use crate::error::Error;
use crate::object_list::{ListedObject, Lister};
use crate::outcome::{Completion, Outcome};
use crate::script::Listing;

/// Names per batch, whose sizes are requested afterwards.
const NAMES_AT_ONCE: usize = 1000;
/// Maximum number of waiting batches.
const BATCHES_WAITING: usize = 2;

type Batch = Result<Vec<String>, c_int>;

impl RadosClient {
    /// Lists the objects of a namespace whose names begin with a prefix, with their sizes.
    ///
    /// # Errors
    /// The namespace cannot be listed, or the size of an object cannot be read.
    pub(super) async fn list_with_sizes(
        &mut self,
        place: &str,
        prefix: &str,
        lister: &mut Lister,
    ) -> Result<(), Error> {
        let context = open(self, place)?;
        let mut names = Names::of(&context, prefix.to_owned())
            .map_err(|source| Error::Host { what: "start a thread", source })?;
        loop {
            let batch = names
                .next(self)
                .await
                .map_err(|number| refusal(format!("list {}", shown(self, place)), number))?;
            let Some(batch) = batch else { return Ok(()) };
            for name in batch {
                renew_deadline(self);
                self.at(&name);
                let (result, _) = self.perform(context.context, Call::Stat, OwnerTag::None).await;
                match -result {
                    // It was deleted meanwhile.
                    libc::ENOENT => continue,
                    number if number > 0 => {
                        let what = format!("look at \"{name}\" in {}", shown(self, place));
                        return Err(refusal(what, number));
                    }
                    _ => {}
                }
                let size_bytes = Some(self.size_found());
                if !lister.add(&ListedObject { key: name, size_bytes, etag: None }) {
                    return Ok(());
                }
            }
        }
    }

    /// Lists the first page of a namespace, or in an audit all names of the dataset in it.
    pub(super) async fn list_page(&mut self, bucket: u64) -> Completion {
        let sent_ns = self.reactor.now_ns();
        let rados = Arc::clone(&self.rados);
        if let Some(mut keys) = rados.dataset.audit_listing(bucket) {
            let listed = self.list_all(bucket, |name| keys.add(name)).await;
            let mut completion = Completion::plain(Outcome::OK, sent_ns, 0, self.reactor.now_ns());
            completion.objects = u32::try_from(keys.end()).unwrap_or(u32::MAX);
            if let Err(error) = listed {
                completion.outcome = Outcome::of_io(&error);
                self.last_error.get_or_insert_with(|| format!("list: {error}"));
            }
            return completion;
        }
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

    /// Passes the names of the dataset's objects in a namespace to `take`. Each batch has the
    /// timeout of a request.
    async fn list_all(&mut self, bucket: u64, mut take: impl FnMut(&str)) -> std::io::Result<()> {
        let rados = Arc::clone(&self.rados);
        let place = rados.dataset.bucket(bucket);
        let context = open(self, &place).map_err(std::io::Error::other)?;
        let mut names = Names::of(&context, rados.dataset.spec().object_prefix.clone())?;
        while let Some(batch) = names.next(self).await.map_err(std::io::Error::from_raw_os_error)? {
            batch.iter().for_each(|name| take(name));
        }
        Ok(())
    }

    /// Lists a whole namespace, and counts the names under a script's prefix: RADOS has no listing
    /// by prefix.
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
        let (objects, outcome, problem) = match listed {
            Ok(Ok(found)) => found,
            Ok(Err(number)) => {
                let error = std::io::Error::from_raw_os_error(number);
                (1, Outcome::of_io(&error), error.to_string())
            }
            Err(error) => (1, Outcome::of_io(&error), error.to_string()),
        };
        if !outcome.is_ok() {
            self.last_error.get_or_insert_with(|| format!("list: {problem}"));
        }
        Completion { objects, ..Completion::plain(outcome, sent_ns, 0, ended_ns) }
    }
}

/// The names in a namespace that begin with a prefix, listed by a thread and received in batches.
struct Names(Option<Receiver<Batch>>);

impl Names {
    fn of(context: &Arc<PoolContext>, prefix: String) -> std::io::Result<Self> {
        let (sender, batches) = mpsc::sync_channel(BATCHES_WAITING);
        let listed = Arc::clone(context);
        std::thread::Builder::new()
            .name("rados-list".into())
            .spawn(move || hand_over_names(&listed, &prefix, &sender))?;
        Ok(Self(Some(batches)))
    }

    /// Returns the next names, or `None` after the last.
    ///
    /// # Errors
    /// The number of the error that ended the listing: `ETIMEDOUT` if nothing arrived in time.
    async fn next(&mut self, client: &RadosClient) -> Result<Option<Vec<String>>, c_int> {
        let Some(batches) = self.0.take() else { return Ok(None) };
        renew_deadline(client);
        let next = move || (batches.recv(), batches);
        let asked = client.seat.run_aside(&client.reactor, next).await;
        let (batch, batches) = asked.map_err(|_| libc::ETIMEDOUT)?;
        self.0 = Some(batches);
        match batch {
            Ok(names) => names.map(Some),
            Err(mpsc::RecvError) => Ok(None),
        }
    }
}

/// Lists names until they are not needed any more. It blocks.
fn hand_over_names(context: &PoolContext, prefix: &str, batches: &SyncSender<Batch>) {
    let mut names = match context.list() {
        Ok(names) => names,
        Err(number) => return drop(batches.send(Err(number))),
    };
    let mut batch = Vec::with_capacity(NAMES_AT_ONCE);
    loop {
        match names.next() {
            Ok(Some(name)) if name.starts_with(prefix) => batch.push(name),
            Ok(Some(_)) => continue,
            Ok(None) => return drop(batches.send(Ok(batch))),
            Err(number) => return drop(batches.send(Err(number))),
        }
        if batch.len() == NAMES_AT_ONCE && batches.send(Ok(std::mem::take(&mut batch))).is_err() {
            return;
        }
    }
}
