//! Driver `s3`: objects of any S3-compatible store.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::xml::{self, ListedVersion};
use serde_json::{Map, Value};

use crate::credentials::{KeyKeeper, keyless, s3_account};
use crate::driver::{Driver, LogIns};
use crate::error::Error;
use crate::facts::Facts;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::settings::{self, Setting};
use crate::transport::endpoint::Url;
use crate::transport::failure::{Failure, Refusal};
use crate::transport::http_store::make_client;
use crate::transport::http_target::{HttpClient, HttpTarget, HttpThread};
use crate::trial::Trial;

mod ahead;
mod body;
mod buckets;
mod conditional;
mod facts;
mod head;
mod locks;
mod multipart;
mod objects;
mod presigned;
mod server_encryption;
mod steps;
mod target;
mod versioned;
mod versions;

use head::{HeadWriter, S3Thread};
use target::S3Settings;

/// A target with an S3 API.
#[derive(Debug)]
pub(super) struct S3 {
    http: Arc<HttpTarget>,
    keys: KeyKeeper,
    region: String,
    settings: S3Settings,
    /// Whether the trial has several operations.
    is_mixed: bool,
    /// Whether the mix has conditions on ETags.
    needs_etags: bool,
    /// Whether the mix deletes the versions that it writes.
    deletes_own_versions: bool,
}

/// A client of an S3 target.
pub(super) struct S3Client {
    http: HttpClient<Self>,
    thread: Rc<S3Thread>,
    head: HeadWriter,
    /// Versions of the keys on the last page, if a clean-up deletes versions.
    versions: HashMap<String, Vec<ListedVersion>>,
    /// Markers with which the listing of a bucket's versions or uploads continues, by the bucket's
    /// number.
    next_markers: HashMap<(Operation, u64), (String, String)>,
}

impl Driver for S3 {
    const NAME: &'static str = "s3";
    const SUMMARY: &'static str = "an object store that speaks S3";
    const OPERATIONS: &'static [Operation] = objects::OPERATIONS;
    const SETTINGS: &'static [Setting] = target::SETTINGS;
    const FACTS: Facts = facts::FACTS;
    const ENCRYPTS: bool = true;
    type Thread = Rc<S3Thread>;
    type Client = S3Client;

    fn check(trial: &Trial) -> Vec<String> {
        target::mistakes(trial)
    }

    fn absent(settings: &Map<String, Value>) -> Option<Error> {
        keyless(settings)
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        let map = &trial.target.settings;
        let account = s3_account(map)?;
        let urls: Result<Vec<Url>, String> =
            settings::texts(map, "endpoints").into_iter().map(Url::parse).collect();
        let urls = urls.map_err(|reason| Error::Trial(vec![format!("endpoints: {reason}")]))?;
        let region = settings::text(map, "region").map(str::to_owned).or(account.region);
        let has = |operation| trial.mix.iter().any(|share| share.operation == operation);
        Ok(Self {
            http: Arc::new(HttpTarget::open(trial, urls, objects::plain_key, judge)?),
            keys: account.keys,
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
            settings: S3Settings::read(map)?,
            is_mixed: trial.mix.len() > 1,
            needs_etags: [
                Operation::PutIfMatch,
                Operation::DeleteIfMatch,
                Operation::CompareAndSwap,
            ]
            .into_iter()
            .any(has),
            deletes_own_versions: trial.mix.len() > 1 && has(Operation::DeleteVersion),
        })
    }

    fn log_ins(&self) -> LogIns {
        self.keys.renewals()
    }

    fn features(&self) -> Vec<(String, String)> {
        self.http.features()
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<S3Thread>, Error> {
        Ok(Rc::new(S3Thread::new(self, HttpThread::new(&self.http)?)))
    }

    fn client(self: &Arc<Self>, thread: &Rc<S3Thread>, index: u32) -> Result<S3Client, Error> {
        make_client(&thread.http, index, |http, url| S3Client {
            http,
            thread: Rc::clone(thread),
            head: HeadWriter::new(url),
            versions: HashMap::new(),
            next_markers: HashMap::new(),
        })
    }
}

/// Maps a refusal to an outcome. A 503 without a throttling code is a failure of the store.
fn judge(status: u16, refusal: &Refusal) -> Outcome {
    match status {
        _ if facts::FACTS.throttling.statuses.contains(&status) => Outcome::THROTTLED,
        503 if refusal.error().is_some_and(|error| is_throttling(&error.code)) => {
            Outcome::THROTTLED
        }
        507 => Outcome::NO_SPACE,
        _ => Outcome::http(status),
    }
}

/// Returns whether an error code means throttling.
fn is_throttling(code: &str) -> bool {
    facts::FACTS.throttling.codes.contains(&code)
}

impl S3Client {
    /// Maps an error body that was sent with a success status to an outcome.
    #[cold]
    fn misread(&mut self, error: &xml::XmlError) -> Outcome {
        let outcome = match error {
            // Returns the status that the same error has when it is sent in time.
            xml::XmlError::Store(error) => match error.code.as_str() {
                code if is_throttling(code) => Outcome::THROTTLED,
                "ServiceUnavailable" => Outcome::http(503),
                "NoSuchKey" | "NoSuchUpload" | "NoSuchBucket" => Outcome::http(404),
                "AccessDenied" => Outcome::http(403),
                _ => Outcome::http(500),
            },
            _ => Outcome::PROTOCOL,
        };
        self.http.connection.object_to(Failure::Told(outcome, error.to_string()))
    }
}
