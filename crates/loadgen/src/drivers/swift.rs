//! Driver `swift`: objects of any store with an OpenStack Swift API.

use std::rc::Rc;
use std::sync::Arc;

use crate::driver::{Driver, LogIns, Thread};
use crate::error::Error;
use crate::facts::Facts;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::reactor::Reactor;
use crate::settings::{self, Setting};
use crate::transport::endpoint::{Endpoint, Url};
use crate::transport::failure::Refusal;
use crate::transport::http_store::make_client;
use crate::transport::http_target::{self, HttpClient, HttpTarget, HttpThread};
use crate::transport::tls;
use crate::trial::Trial;

mod auth;
mod containers;
mod facts;
mod objects;
mod target;

use auth::{AuthService, TokenKeeper};
use target::Login;

/// A target with a Swift API.
#[derive(Debug)]
pub(super) struct Swift {
    http: Arc<HttpTarget>,
    /// Path of the account, such as `/v1/AUTH_test`.
    account_path: String,
    tokens: TokenKeeper,
    storage_policy: Option<String>,
    plain_headers: Vec<u8>,
}

/// State that the Swift clients of one load thread share.
pub(super) struct SwiftThread {
    http: Rc<HttpThread>,
    swift: Arc<Swift>,
}

impl Thread for Rc<SwiftThread> {
    fn reactor(&self) -> &Rc<Reactor> {
        &self.http.reactor
    }
}

/// A client of a Swift target.
pub(super) struct SwiftClient {
    http: HttpClient<Self>,
    swift: Arc<Swift>,
    path: Vec<u8>,
    /// Resource of the next request: `CONTAINER` or `CONTAINER/OBJECT`.
    name: Vec<u8>,
    host: Vec<u8>,
    token: String,
    token_generation: u64,
}

impl Driver for Swift {
    const NAME: &'static str = "swift";
    const SUMMARY: &'static str = "an object store that speaks OpenStack Swift";
    const OPERATIONS: &'static [Operation] = http_target::OPERATIONS;
    const SETTINGS: &'static [Setting] = target::SETTINGS;
    const FACTS: Facts = facts::FACTS;
    const ENCRYPTS: bool = true;
    type Thread = Rc<SwiftThread>;
    type Client = SwiftClient;

    fn check(trial: &Trial) -> Vec<String> {
        target::mistakes(trial)
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        let map = &trial.target.settings;
        let parse = |text: &str| {
            Url::parse(text).map_err(|reason| Error::target(format!("use URL \"{text}\""), reason))
        };
        let auth_url = parse(settings::text(map, "auth_url").unwrap_or_default())?;
        let own_storage_url = settings::text(map, "storage_url");
        let service = AuthService {
            tls: auth_url.is_tls.then(|| tls::client_config(map)).transpose()?,
            endpoint: Endpoint::resolve(auth_url)?,
            login: Login::read(map)?,
            region: settings::text(map, "region").map(str::to_owned),
            interface: settings::text(map, "interface").unwrap_or("public").to_owned(),
            has_storage_url: own_storage_url.is_some(),
            timeout_ns: trial.timeout_ns,
            retries: trial.retries.clone(),
        };
        let token = service.log_in_now()?;
        let storage_url = own_storage_url.or(token.storage_url.as_deref()).ok_or_else(|| {
            Error::target("log in", "the answer has no X-Storage-Url")
                .with_hint("give storage_url in the target's settings")
        })?;
        let storage_url = parse(storage_url)?;
        let account_path = storage_url.path.clone();
        let hosts = settings::texts(map, "endpoints");
        let urls = if hosts.is_empty() {
            vec![storage_url]
        } else {
            hosts.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?
        };
        let headers = settings::added_headers(map);
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        Ok(Self {
            http: Arc::new(HttpTarget::open(trial, urls, objects::plain_name, judge)?),
            account_path,
            tokens: TokenKeeper::new(service, &token),
            storage_policy: settings::text(map, "storage_policy").map(str::to_owned),
            plain_headers: lines.collect::<String>().into_bytes(),
        })
    }

    fn features(&self) -> Vec<(String, String)> {
        self.http.features()
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<SwiftThread>, Error> {
        Ok(Rc::new(SwiftThread { http: HttpThread::new(&self.http)?, swift: Arc::clone(self) }))
    }

    fn log_ins(&self) -> LogIns {
        self.tokens.log_ins()
    }

    fn client(
        self: &Arc<Self>,
        thread: &Rc<SwiftThread>,
        index: u32,
    ) -> Result<SwiftClient, Error> {
        make_client(&thread.http, index, |http, url| SwiftClient {
            http,
            swift: Arc::clone(&thread.swift),
            path: Vec::new(),
            name: Vec::new(),
            host: url.host_header().into_bytes(),
            token: String::new(),
            token_generation: 0,
        })
    }
}

/// Maps a refusal to an outcome. A 503 means that a back end failed.
fn judge(status: u16, _: &Refusal) -> Outcome {
    match status {
        _ if facts::FACTS.throttling.statuses.contains(&status) => Outcome::THROTTLED,
        507 => Outcome::NO_SPACE,
        _ => Outcome::http(status),
    }
}
