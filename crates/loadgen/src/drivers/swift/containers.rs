//! Containers: made and marked before load, refused when they are not ours, swept afterwards.

use std::rc::Rc;

use loadstone_wire::encode::write_path;
use loadstone_wire::http1::Method;
use loadstone_wire::json::ContainerEntry;

use super::objects::{COPY_SUFFIX, Page, SEGMENT_SUFFIX};
use super::{HeadSpec, SwiftClient};
use crate::drivers::BucketState;
use crate::drivers::connection::{Failure, Reply};
use crate::drivers::failure::hint_to_reach;
use crate::drivers::transfer::Nothing;
use crate::error::Error;
use crate::outcome::{Answer, Outcome};
use crate::requests::Request;

/// The metadata that marks a container as made by loadstone; its value is the run.
const MARK: &str = "x-container-meta-loadstone";
/// Listings of a container may be behind its objects for a while.
const TRIES: u32 = 10;
const TRY_AGAIN_NS: u64 = 300_000_000;

/// What is found where a container may be.
enum Found {
    Nothing,
    Marked,
    Unmarked,
}

impl SwiftClient {
    pub(super) async fn ready(
        &mut self,
        container: &str,
        allow_foreign: bool,
    ) -> Result<BucketState, Error> {
        match self.look_for(container).await? {
            Found::Marked => Ok(BucketState::Ours),
            Found::Unmarked if allow_foreign => Ok(BucketState::Foreign),
            Found::Unmarked => Err(Error::target(
                format!("use container \"{container}\""),
                "it exists, and loadstone did not make it",
            )
            .with_hint("choose another bucket prefix, or allow this target's foreign buckets")),
            Found::Nothing => {
                let reply = self.create(container, true).await;
                match reply.status {
                    // Another host of the same campaign made it in the meantime.
                    202 => Ok(BucketState::Ours),
                    _ if reply.outcome.is_ok() => Ok(BucketState::Created),
                    _ => Err(self.refused(format!("create container \"{container}\""), &reply)),
                }
            }
        }
    }

    async fn look_for(&mut self, container: &str) -> Result<Found, Error> {
        self.renew_deadline();
        self.at(container);
        let spec = HeadSpec::new(Method::Head, &[200, 204]);
        let reply = self.ask_for_body(&spec, &Nothing, &[MARK]).await;
        match reply.status {
            404 => Ok(Found::Nothing),
            _ if !reply.outcome.is_ok() => {
                Err(self.refused(format!("look for container \"{container}\""), &reply))
            }
            _ if self.collect.header(MARK).is_some() => Ok(Found::Marked),
            _ => Ok(Found::Unmarked),
        }
    }

    async fn create(&mut self, container: &str, is_marked: bool) -> Reply {
        let thread = Rc::clone(&self.thread);
        let mut headers = Vec::new();
        if is_marked {
            headers.push((MARK, thread.swift.run.as_bytes()));
        }
        if let Some(policy) = &thread.swift.storage_policy {
            headers.push(("x-storage-policy", policy.as_bytes()));
        }
        self.at(container);
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put, &[201, 202]) };
        self.ask(&spec, &Nothing).await
    }

    async fn remove(&mut self, container: &str) -> Reply {
        self.renew_deadline();
        self.at(container);
        self.ask(&HeadSpec::new(Method::Delete, &[200, 202, 204]), &Nothing).await
    }

    pub(super) async fn sweep(&mut self, container: &str) -> Result<(u64, bool), Error> {
        match self.look_for(container).await? {
            Found::Nothing => return Ok((0, true)),
            Found::Unmarked => return Ok((0, false)),
            Found::Marked => {}
        }
        let mut swept = self.sweep_names(container).await?;
        for _ in 0..TRIES {
            let reply = self.remove(container).await;
            if reply.outcome.is_ok() || reply.status == 404 {
                return Ok((swept, true));
            }
            if reply.status != 409 {
                break;
            }
            let found = self.names_of(container, "", 2, None).await?;
            if !found.is_empty() {
                let more = self.sweep_names(container).await?;
                if more == 0 {
                    break;
                }
                swept += more;
            }
            let reactor = self.connection.reactor();
            reactor.sleep_until(reactor.now_ns() + TRY_AGAIN_NS).await;
        }
        Ok((swept, false))
    }

    /// Deletes the dataset's objects, the copies of them, and segments.
    async fn sweep_names(&mut self, container: &str) -> Result<u64, Error> {
        let thread = Rc::clone(&self.thread);
        let prefix = &thread.dataset.spec().object_prefix;
        let is_ours = |name: &str| {
            let plain = name.strip_suffix(COPY_SUFFIX).unwrap_or(name);
            let plain = match plain.rsplit_once(SEGMENT_SUFFIX) {
                Some((key, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => key,
                _ => plain,
            };
            thread.dataset.index_of(plain).is_some()
        };
        let (mut swept, mut marker) = (0, None);
        loop {
            let names = self.names_of(container, prefix, 1000, marker.as_deref()).await?;
            let Some(last) = names.last().cloned() else { return Ok(swept) };
            let ours: Vec<&String> = names.iter().filter(|name| is_ours(name)).collect();
            if !ours.is_empty() {
                swept += self.delete_batch(container, &ours).await;
            }
            marker = Some(last);
        }
    }

    /// Deletes objects at once, or one by one where the store cannot; returns how many are gone.
    async fn delete_batch(&mut self, container: &str, names: &[&String]) -> u64 {
        self.renew_deadline();
        let mut body = Vec::new();
        for name in names {
            write_path(&mut body, format!("{container}/{name}").as_bytes());
            body.push(b'\n');
        }
        let (reply, result) = self.delete_names(&body).await;
        match result {
            Ok(gone) if reply.outcome.is_ok() => gone,
            _ => {
                let mut gone = 0;
                for name in names {
                    self.renew_deadline();
                    self.at(&format!("{container}/{name}"));
                    let spec = HeadSpec::new(Method::Delete, &[200, 202, 204, 404]);
                    gone += u64::from(self.ask(&spec, &Nothing).await.outcome.is_ok());
                }
                gone
            }
        }
    }

    async fn names_of(
        &mut self,
        container: &str,
        prefix: &str,
        names_max: u32,
        marker: Option<&str>,
    ) -> Result<Vec<String>, Error> {
        self.renew_deadline();
        let page = Page { marker, prefix, delimiter: None, names_max };
        let (reply, entries) = self.ask_for_page(container, &page).await;
        let what = || format!("list container \"{container}\"");
        if !reply.outcome.is_ok() {
            return Err(self.refused(what(), &reply));
        }
        let entries = entries.map_err(|error| Error::target(what(), error.to_string()))?;
        Ok(entries.iter().map(ContainerEntry::name).map(str::to_owned).collect())
    }

    /// Creates a container as load; the mark follows outside of the time that is taken, so that
    /// one that is there already is not marked by the attempt.
    pub(super) async fn create_bucket(&mut self, request: &Request) -> Answer {
        let container = self.thread.dataset.bucket(request.index);
        let reply = self.create(&container, false).await;
        let mut answer = reply.answer();
        match reply.status {
            201 => {
                let run = self.thread.swift.run.clone();
                let headers = [(MARK, run.as_bytes())];
                self.at(&container);
                let spec =
                    HeadSpec { headers: &headers, ..HeadSpec::new(Method::Post, &[200, 202, 204]) };
                self.renew_deadline();
                self.ask(&spec, &Nothing).await;
            }
            202 => {
                let text = format!("container \"{container}\" was there already");
                let failure = Failure::Told(Outcome::EXISTS, text);
                answer.outcome = self.connection.object_to(failure);
            }
            _ => {}
        }
        answer
    }

    /// Deletes a container as load, if it carries our mark.
    pub(super) async fn delete_bucket(&mut self, request: &Request) -> Answer {
        let container = self.thread.dataset.bucket(request.index);
        let started_ns = self.connection.reactor().now_ns();
        let text = match self.look_for(&container).await {
            Ok(Found::Unmarked) => format!("container \"{container}\" does not carry our mark"),
            Ok(_) => return self.remove(&container).await.answer(),
            Err(error) => error.to_string(),
        };
        let outcome = self.connection.object_to(Failure::Told(Outcome::DENIED, text));
        Answer::plain(outcome, started_ns, 0, self.connection.reactor().now_ns())
    }

    /// Gives each step of a longer job the time of one request.
    fn renew_deadline(&self) {
        let reactor = self.connection.reactor();
        reactor.set_deadline(reactor.now_ns() + self.thread.swift.timeout_ns);
    }

    /// Makes the error of a target that did not do what must be done before load starts.
    fn refused(&self, what: String, reply: &Reply) -> Error {
        let text = self.connection.last_error(&self.head).unwrap_or_default();
        let error = Error::target(what, text);
        match reply.status {
            401 => error.with_hint("the token is not taken here: check storage_url and region"),
            403 => error.with_hint("the user needs a role that may make and write containers"),
            400 => error.with_hint("check storage_policy, and that names are allowed"),
            0 => error.with_hint(hint_to_reach("storage_url", reply.outcome)),
            _ => error,
        }
    }
}
