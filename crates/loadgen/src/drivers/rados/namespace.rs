//! Namespaces: the primitives with which `ownership` marks and sweeps them. A namespace cannot be
//! created or removed: it exists as long as it contains an object, so its mark creates it.

use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;

use super::call::Call;
use super::call::OwnerTag;
use super::client::RadosClient;
use super::connection::PoolContext;
use super::library::refused;
use crate::error::Error;
use crate::ownership::{Look, Made, Page, Places, Removed, Scope, Title};
use crate::reactor::Reactor;

/// The object that marks a namespace as ours.
const MARK: &str = ".loadstone-mark";
/// Maximum length of a mark.
const MARK_BYTES_MAX: usize = 4096;
/// Maximum number of our names to list before they are deleted.
const NAMES_AT_ONCE: usize = 10_000;
/// Maximum number of others' names to count.
const OTHERS_MAX: u64 = 1000;

impl Places for RadosClient {
    const PLACE: &'static str = "namespace";

    fn title(&self) -> Arc<Title> {
        Arc::clone(&self.rados.title)
    }

    fn reactor(&self) -> Rc<Reactor> {
        Rc::clone(&self.reactor)
    }

    async fn look(&mut self, place: &str) -> Result<Look, Error> {
        if let Some(text) = self.read(place, MARK).await? {
            return Ok(Look::There(Some(text)));
        }
        let page = self.page(place, Scope::Everything, None).await?;
        match page.owned.is_empty() && page.others == 0 {
            true => Ok(Look::Absent),
            false => Ok(Look::There(None)),
        }
    }

    async fn create(&mut self, _: &str) -> Result<Made, Error> {
        Ok(Made::New)
    }

    async fn write_mark(&mut self, place: &str, text: &str) -> Result<bool, Error> {
        self.write(place, MARK, text).await.map(|()| true)
    }

    async fn delete_mark(&mut self, place: &str) -> Result<(), Error> {
        self.delete(place, &[MARK.to_owned()]).await.map(drop)
    }

    async fn remove(&mut self, _: &str) -> Result<Removed, Error> {
        Ok(Removed::Gone)
    }

    /// A listing cannot be continued, so a page contains all names of ours up to a maximum, and the
    /// next page starts from the beginning, after their deletion.
    async fn page(
        &mut self,
        place: &str,
        scope: Scope,
        token: Option<&str>,
    ) -> Result<Page, Error> {
        let context = open(self, place)?;
        renew_deadline(self);
        let (title, name_of_place) = (self.title(), place.to_owned());
        let list = move || {
            let (mut names, mut page) = (context.list()?, Page::default());
            let mut is_over = true;
            while let Some(name) = names.next()? {
                title.sort_key(&name_of_place, name, |name| name == MARK, &mut page);
                let is_enough = match scope {
                    Scope::Dataset => page.owned.len() >= NAMES_AT_ONCE,
                    Scope::Everything => !page.owned.is_empty() || page.others >= OTHERS_MAX,
                };
                if is_enough {
                    is_over = false;
                    break;
                }
            }
            drop(names);
            Ok::<(Page, bool), c_int>((page, is_over))
        };
        let what = || format!("list {}", shown(self, place));
        let (page, is_over) = match self.seat.run_aside(&self.reactor, list).await {
            Ok(found) => found.map_err(|number| refusal(what(), number))?,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                return Err(refusal(what(), libc::ETIMEDOUT));
            }
            Err(source) => return Err(Error::Host { what: "start a thread", source }),
        };
        let round = token.and_then(|round| round.parse::<u64>().ok()).unwrap_or(0);
        let next = (!is_over).then(|| (round + 1).to_string());
        Ok(Page { first: page.owned.first().cloned(), next, ..page })
    }

    async fn delete(&mut self, place: &str, keys: &[String]) -> Result<u64, Error> {
        let context = open(self, place)?;
        let is_bound = self.bound.iter().any(|bound| bound == place);
        let mut gone = 0;
        for name in keys {
            renew_deadline(self);
            let removed = match is_bound {
                true => self.remove_ours(context.context, name).await,
                false => {
                    let call = (Call::Remove, OwnerTag::None);
                    self.ask(context.context, name, call, &[]).await.map(|()| true)
                }
            };
            match removed {
                // Deleted meanwhile is fine.
                Ok(true) | Err(libc::ENOENT) => gone += 1,
                Ok(false) => {}
                Err(number) => {
                    let action = format!("remove \"{name}\" from {}", shown(self, place));
                    return Err(refusal(action, number));
                }
            }
        }
        Ok(gone)
    }

    async fn read(&mut self, place: &str, key: &str) -> Result<Option<String>, Error> {
        let context = open(self, place)?;
        renew_deadline(self);
        match self.read_text(context.context, key, MARK_BYTES_MAX).await {
            Ok(text) => Ok(Some(text)),
            Err(libc::ENOENT) => Ok(None),
            Err(number) => {
                Err(refusal(format!("read \"{key}\" in {}", shown(self, place)), number))
            }
        }
    }

    async fn write(&mut self, place: &str, key: &str, text: &str) -> Result<(), Error> {
        let context = open(self, place)?;
        renew_deadline(self);
        let call = (Call::WriteFull { length: text.len() }, OwnerTag::First);
        match self.ask(context.context, key, call, text.as_bytes()).await {
            // Another client was first; the caller reads the object to see whose it is.
            Ok(()) | Err(libc::EEXIST) => Ok(()),
            Err(number) => {
                Err(refusal(format!("write \"{key}\" to {}", shown(self, place)), number))
            }
        }
    }

    async fn write_beside(&mut self, place: &str, key: &str, _: &str) -> Result<(), Error> {
        let rados = Arc::clone(&self.rados);
        if let Some(foreign) = &rados.foreign
            && names_its_run(self, place, key).await?
        {
            foreign.note(&rados.dataset, place);
        }
        Ok(())
    }

    async fn ours_of(&mut self, place: &str, keys: &[String]) -> Result<Vec<String>, Error> {
        // If the claim does not name its owner, no object does.
        let claim = self.title().claim_key();
        if !self.bound.iter().any(|bound| bound == place) {
            if !names_its_run(self, place, &claim).await? {
                return Ok(keys.to_vec());
            }
            self.bound.push(place.to_owned());
        }
        let (context, title) = (open(self, place)?, self.title());
        let mut ours = Vec::with_capacity(keys.len());
        for key in keys {
            renew_deadline(self);
            match self.run_at(context.context, key).await {
                Ok(Some(run)) if title.is_ours(&run) => ours.push(key.clone()),
                Ok(_) => {}
                Err(libc::ENOENT) => ours.push(key.clone()),
                Err(number) => {
                    return Err(refusal(
                        format!("look at \"{key}\" in {}", shown(self, place)),
                        number,
                    ));
                }
            }
        }
        Ok(ours)
    }
}

/// Returns whether an object names the run that wrote it; those of earlier builds do not.
async fn names_its_run(client: &mut RadosClient, place: &str, key: &str) -> Result<bool, Error> {
    let context = open(client, place)?;
    renew_deadline(client);
    match client.run_at(context.context, key).await {
        Ok(run) => Ok(run.is_some()),
        Err(libc::ENOENT) => Ok(false),
        Err(number) => {
            Err(refusal(format!("look at \"{key}\" in {}", shown(client, place)), number))
        }
    }
}

pub(super) fn shown(client: &RadosClient, bucket: &str) -> String {
    format!("namespace \"{bucket}\" of pool \"{}\"", client.rados.access.pool)
}

pub(super) fn open(client: &mut RadosClient, bucket: &str) -> Result<Arc<PoolContext>, Error> {
    if let Some((_, context)) = client.contexts.iter().find(|(name, _)| name == bucket) {
        return Ok(Arc::clone(context));
    }
    let context = client.rados.instances[client.instance].connection.namespace(bucket);
    let context =
        context.map_err(|number| refusal(format!("open {}", shown(client, bucket)), number))?;
    let context = Arc::new(context);
    // It must stay open as long as a request may be in flight on it.
    client.contexts.push((bucket.to_owned(), Arc::clone(&context)));
    Ok(context)
}

pub(super) fn refusal(action: String, number: c_int) -> Error {
    let error = refused(action, number);
    match number {
        libc::ETIMEDOUT => {
            error.with_hint("are the pool's placement groups active? see: ceph health detail")
        }
        libc::EPERM | libc::EACCES => error.with_hint(
            "the user's capabilities do not allow this: ceph auth get; loadstone needs \"osd\" \
             capabilities rwx on the pool",
        ),
        libc::ENOSPC | libc::EDQUOT => error.with_hint("the pool is full: ceph df detail"),
        _ => error,
    }
}

/// Each step of a long job has the timeout of a request.
pub(super) fn renew_deadline(client: &RadosClient) {
    client.reactor.set_deadline(client.reactor.now_ns() + client.rados.timeout_ns);
}
