//! Containers: the primitives with which `ownership` creates, marks and sweeps them, and operations
//! of the load on containers.

use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::encode::write_path;
use loadstone_wire::http1::Method;
use loadstone_wire::json::ContainerEntry;

use super::SwiftClient;
use crate::error::Error;
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::{IF_NONE, OwnerTag, keys_of_ours, try_claim};
use crate::ownership::{self, Look, Made, Page, Places, Removed, Scope, Title};
use crate::reactor::Reactor;
use crate::requests::Request;
use crate::transport::connection::Reply;
use crate::transport::failure::hint_to_reach;
use crate::transport::http_store::{HttpStore, PageSpec};
use crate::transport::http_target::HeadSpec;
use crate::transport::transfer::Nothing;

/// The metadata that marks a container as created by loadstone.
const MARK: &str = "x-container-meta-loadstone";
/// Names per page.
const NAMES_MAX: u32 = 1000;

impl Places for SwiftClient {
    const PLACE: &'static str = "container";

    fn title(&self) -> Arc<Title> {
        Arc::clone(&self.http.thread.target.title)
    }

    fn reactor(&self) -> Rc<Reactor> {
        Rc::clone(&self.http.thread.reactor)
    }

    async fn look(&mut self, container: &str) -> Result<Look, Error> {
        self.renew_deadline();
        self.at(container, "");
        let spec = HeadSpec::new(Method::Head, &[200, 204]);
        let reply = self.ask_for_body(&spec, &Nothing, &[MARK]).await;
        if reply.outcome.is_ok() {
            return Ok(Look::There(self.http.collect.header(MARK).map(str::to_owned)));
        }
        if reply.status == 404 {
            return Ok(Look::Absent);
        }
        let action = || format!("look for container \"{container}\"");
        let error = self.refused(action(), &reply);
        // After a rejected token, a new one is obtained and the whole inspection repeated.
        if matches!(reply.status, 0 | 401) {
            return Err(error);
        }
        // The answer to HEAD has no body that could give the reason.
        let page =
            PageSpec { token: None, prefix: "", delimiter: None, keys_max: 1, wants_keys: false };
        match self.ask_for_page(container, &page).await.0 {
            listing if listing.status >= 300 => Err(self.refused(action(), &listing)),
            _ => Err(error),
        }
    }

    /// The mark follows in a separate request: a PUT with the mark would also mark a container that
    /// another has created meanwhile.
    async fn create(&mut self, container: &str) -> Result<Made, Error> {
        self.renew_deadline();
        let reply = self.create_it(container).await;
        match reply.status {
            // An earlier attempt may have created it; whether it is empty shows whether it is ours.
            202 if self.http.connection.is_in_doubt() => Ok(Made::New),
            202 => Ok(Made::Exists),
            _ if reply.outcome.is_ok() => Ok(Made::New),
            _ => Err(self.refused_to_make(format!("create container \"{container}\""), &reply)),
        }
    }

    async fn write_mark(&mut self, container: &str, text: &str) -> Result<bool, Error> {
        self.renew_deadline();
        let headers = [(MARK, text.as_bytes())];
        self.at(container, "");
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Post, &[200, 202, 204]) };
        let reply = self.ask(&spec, &Nothing).await;
        match reply.status {
            404 => Ok(false),
            _ if reply.outcome.is_ok() => Ok(true),
            _ => Err(self.refused(format!("mark container \"{container}\""), &reply)),
        }
    }

    /// The mark is deleted with its container.
    async fn delete_mark(&mut self, _: &str) -> Result<(), Error> {
        Ok(())
    }

    async fn remove(&mut self, container: &str) -> Result<Removed, Error> {
        let reply = self.remove_it(container).await;
        let removed = Removed::of(reply.status, reply.outcome.is_ok());
        removed.ok_or_else(|| self.refused(format!("delete container \"{container}\""), &reply))
    }

    async fn page(
        &mut self,
        container: &str,
        scope: Scope,
        token: Option<&str>,
    ) -> Result<Page, Error> {
        self.renew_deadline();
        let title = self.title();
        let prefix = if scope == Scope::Dataset { title.prefix() } else { "" };
        let page =
            PageSpec { token, prefix, delimiter: None, keys_max: NAMES_MAX, wants_keys: true };
        let (reply, entries) = self.ask_for_page(container, &page).await;
        let action = || format!("list container \"{container}\"");
        if reply.status == 404 {
            return Ok(Page::default());
        }
        if !reply.outcome.is_ok() {
            return Err(self.refused(action(), &reply));
        }
        let entries = entries.map_err(|error| Error::target(action(), error.to_string()))?;
        let names: Vec<String> =
            entries.iter().map(ContainerEntry::name).map(str::to_owned).collect();
        // A server may return shorter pages than requested, so only an empty page is the last.
        let is_followed = scope == Scope::Dataset || names.len() >= NAMES_MAX as usize;
        let next = names.last().filter(|_| is_followed).cloned();
        Ok(title.sort(container, names, |_| false, next))
    }

    /// Deletes objects with one request, or one by one if the store does not support that.
    async fn delete(&mut self, container: &str, names: &[String]) -> Result<u64, Error> {
        self.renew_deadline();
        let mut body = Vec::new();
        for name in names {
            write_path(&mut body, format!("{container}/{name}").as_bytes());
            body.push(b'\n');
        }
        let (reply, result) = self.delete_names(&body).await;
        match result {
            Ok(gone) if reply.outcome.is_ok() => Ok(gone.min(names.len() as u64)),
            _ => self.delete_each(container, names).await,
        }
    }

    async fn read(&mut self, container: &str, name: &str) -> Result<Option<String>, Error> {
        self.read_text(container, name).await
    }

    async fn write(&mut self, container: &str, name: &str, text: &str) -> Result<(), Error> {
        self.renew_deadline();
        let thread = Rc::clone(&self.http.thread);
        let named = thread.target.owner_headers(OwnerTag::Run, Self::RUN);
        let headers: Vec<_> = [IF_NONE].into_iter().chain(named).collect();
        self.at(container, name);
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put, &[201]) };
        let reply = self.ask(&spec, &text.as_bytes()).await;
        match reply.outcome.is_ok() || reply.status == 412 {
            true => Ok(()),
            false => Err(self.refused(format!("write \"{container}/{name}\""), &reply)),
        }
    }

    async fn write_beside(&mut self, container: &str, name: &str, text: &str) -> Result<(), Error> {
        try_claim(self, container, name, text).await
    }

    async fn ours_of(&mut self, container: &str, names: &[String]) -> Result<Vec<String>, Error> {
        keys_of_ours(self, container, names).await
    }
}

impl SwiftClient {
    async fn create_it(&mut self, container: &str) -> Reply {
        let swift = Arc::clone(&self.swift);
        let policy = swift.storage_policy.as_ref();
        let headers: Vec<_> =
            policy.map(|policy| ("x-storage-policy", policy.as_bytes())).into_iter().collect();
        self.at(container, "");
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put, &[201, 202]) };
        self.ask(&spec, &Nothing).await
    }

    async fn remove_it(&mut self, container: &str) -> Reply {
        self.renew_deadline();
        self.at(container, "");
        self.ask(&HeadSpec::new(Method::Delete, &[200, 202, 204]), &Nothing).await
    }

    /// Creates a container as an operation of the load. The mark follows outside of the measured
    /// time, and before a stop takes effect. An existing container is not marked.
    pub(super) async fn create_as_load(&mut self, request: &Request) -> Completion {
        let container = self.http.thread.dataset.bucket(request.bucket());
        let pair = self.reactor().begin_pair().await;
        let reply = self.create_it(&container).await;
        let mut completion = reply.completion();
        let text = match reply.status {
            201 => match ownership::mark_new(self, &container, pair).await {
                Ok(_) => return completion,
                Err(error) => error.to_string(),
            },
            202 => format!("container \"{container}\" was there already"),
            _ => return completion,
        };
        completion.outcome = self.object_to(Outcome::EXISTS, text);
        completion
    }

    /// Deletes a container as an operation of the load, if it carries our mark.
    pub(super) async fn delete_as_load(&mut self, request: &Request) -> Completion {
        let container = self.http.thread.dataset.bucket(request.bucket());
        let started_ns = self.http.thread.reactor.now_ns();
        match ownership::mark_of(self, &container).await {
            Ok(_) => self.remove_it(&container).await.completion(),
            Err(error) => {
                self.http.connection.refuse(started_ns, Outcome::DENIED, error.to_string())
            }
        }
    }

    /// Returns the error of a refused request outside of the measurement, with a hint.
    pub(super) fn refusal_of(&self, action: String, reply: &Reply) -> Error {
        let text = self.http.last_error().unwrap_or_default();
        let error = Error::target(action, text).of(reply.outcome.error_kind());
        match reply.status {
            401 => error.with_hint("the token is not taken here: check storage_url and region"),
            403 => error.with_hint("the user needs a role that may make and write containers"),
            400 => error.with_hint("check storage_policy, and that names are allowed"),
            0 => error.with_hint(hint_to_reach("storage_url", reply.outcome)),
            _ => error,
        }
    }
}
