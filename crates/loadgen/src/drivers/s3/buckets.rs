//! Buckets: made and marked before load, refused when they are not ours, swept afterwards.

use std::rc::Rc;

use loadstone_wire::http1::Method;
use loadstone_wire::xml;

use super::S3Client;
use super::head::HeadSpec;
use super::objects::{COPY_SUFFIX, Page};
use crate::drivers::BucketState;
use crate::drivers::connection::{Failure, Reply};
use crate::drivers::failure::hint_to_reach;
use crate::drivers::transfer::Nothing;
use crate::error::Error;
use crate::outcome::{Answer, Outcome};
use crate::requests::Request;

/// The object that marks a bucket as made by loadstone.
const MARK: &str = ".loadstone-mark";
/// Keys deleted with one request, the most that S3 allows.
const KEYS_AT_ONCE: usize = 1000;
/// A new bucket may take a moment to be seen by all of a store's servers.
const TRIES: u32 = 10;
const TRY_AGAIN_NS: u64 = 300_000_000;

impl S3Client {
    pub(super) async fn ready(
        &mut self,
        bucket: &str,
        allow_foreign: bool,
    ) -> Result<BucketState, Error> {
        self.renew_deadline();
        self.head.at(bucket, "");
        let reply = self.ask(&HeadSpec::new(Method::Head), &Nothing, &[200]).await;
        if reply.status == 404 {
            return self.make(bucket, allow_foreign).await;
        }
        if !reply.outcome.is_ok() {
            return Err(self.refused(format!("look for bucket \"{bucket}\""), &reply));
        }
        self.judge(bucket, allow_foreign).await
    }

    /// Decides whether an existing bucket may be written to.
    async fn judge(&mut self, bucket: &str, allow_foreign: bool) -> Result<BucketState, Error> {
        match self.is_marked(bucket).await? {
            true => Ok(BucketState::Ours),
            false if allow_foreign => Ok(BucketState::Foreign),
            false => Err(Error::target(
                format!("use bucket \"{bucket}\""),
                "it exists, and loadstone did not make it",
            )
            .with_hint("choose another bucket prefix, or allow this target's foreign buckets")),
        }
    }

    async fn make(&mut self, bucket: &str, allow_foreign: bool) -> Result<BucketState, Error> {
        let reply = self.create(bucket).await;
        if reply.status == 409 {
            // Another host of the same campaign was faster, and is about to mark it.
            for _ in 0..TRIES {
                self.renew_deadline();
                if self.is_marked(bucket).await? {
                    return Ok(BucketState::Ours);
                }
                self.wait().await;
            }
            return self.judge(bucket, allow_foreign).await;
        }
        if !reply.outcome.is_ok() {
            return Err(self.refused(format!("create bucket \"{bucket}\""), &reply));
        }
        let mut reply = self.mark(bucket).await;
        for _ in 1..TRIES {
            if reply.status != 404 {
                break;
            }
            self.wait().await;
            reply = self.mark(bucket).await;
        }
        if reply.outcome.is_ok() {
            return Ok(BucketState::Created);
        }
        let error = self.refused(format!("mark bucket \"{bucket}\""), &reply);
        // Without its mark the next trial would refuse it, and nobody would clean it up.
        self.remove(bucket).await;
        Err(error)
    }

    async fn create(&mut self, bucket: &str) -> Reply {
        let region = &self.thread.s3.region;
        let is_aws = self.thread.s3.endpoints.iter().any(|endpoint| {
            endpoint.url.host.ends_with(".amazonaws.com")
                || endpoint.url.host.ends_with(".amazonaws.com.cn")
        });
        // Other stores take a region that they do not know for a mistake.
        let body = if is_aws && region != "us-east-1" {
            xml::create_bucket_body(region)
        } else {
            Vec::new()
        };
        self.head.at(bucket, "");
        self.ask(&HeadSpec::new(Method::Put), &body.as_slice(), &[200, 201]).await
    }

    async fn mark(&mut self, bucket: &str) -> Reply {
        self.renew_deadline();
        let body = format!("made by loadstone, run {}\n", self.thread.s3.run);
        self.head.at(bucket, MARK);
        self.ask(&HeadSpec::new(Method::Put), &body.as_bytes(), &[200, 201]).await
    }

    async fn is_marked(&mut self, bucket: &str) -> Result<bool, Error> {
        self.renew_deadline();
        self.head.at(bucket, MARK);
        let reply = self.ask(&HeadSpec::new(Method::Head), &Nothing, &[200]).await;
        match reply.status {
            200 => Ok(true),
            404 => Ok(false),
            _ => Err(self.refused(format!("look for the mark in bucket \"{bucket}\""), &reply)),
        }
    }

    async fn remove(&mut self, bucket: &str) -> Reply {
        self.renew_deadline();
        self.head.at(bucket, "");
        self.ask(&HeadSpec::new(Method::Delete), &Nothing, &[200, 202, 204]).await
    }

    async fn remove_mark(&mut self, bucket: &str) -> Reply {
        self.renew_deadline();
        self.head.at(bucket, MARK);
        self.ask(&HeadSpec::new(Method::Delete), &Nothing, &[200, 202, 204]).await
    }

    pub(super) async fn sweep(&mut self, bucket: &str) -> Result<(u64, bool), Error> {
        self.renew_deadline();
        self.head.at(bucket, "");
        let reply = self.ask(&HeadSpec::new(Method::Head), &Nothing, &[200]).await;
        if reply.status == 404 {
            return Ok((0, true));
        }
        if !reply.outcome.is_ok() {
            return Err(self.refused(format!("look for bucket \"{bucket}\""), &reply));
        }
        if !self.is_marked(bucket).await? {
            return Ok((0, false));
        }
        let swept = self.sweep_keys(bucket).await?;
        self.sweep_uploads(bucket).await;
        let (_, others, _) = self.keys_of(bucket, "", 2, None).await?;
        if others.iter().any(|key| key != MARK) {
            return Ok((swept, false));
        }
        if !self.remove_mark(bucket).await.outcome.is_ok() {
            return Ok((swept, false));
        }
        let reply = self.remove(bucket).await;
        if reply.outcome.is_ok() || reply.status == 404 {
            return Ok((swept, true));
        }
        // It stays, so it must stay known as ours.
        self.mark(bucket).await;
        Ok((swept, false))
    }

    /// Deletes the dataset's objects, and the copies of them.
    async fn sweep_keys(&mut self, bucket: &str) -> Result<u64, Error> {
        let thread = Rc::clone(&self.thread);
        let prefix = &thread.dataset.spec().object_prefix;
        let copy = std::str::from_utf8(COPY_SUFFIX).expect("it is ASCII");
        let is_ours = |key: &str| {
            let plain = key.strip_suffix(copy).unwrap_or(key);
            thread.dataset.index_of(plain).is_some()
        };
        let (mut swept, mut token) = (0, None);
        loop {
            let found = self.keys_of(bucket, prefix, 1000, token.as_deref()).await?;
            let (next, keys, is_truncated) = found;
            let ours: Vec<String> = keys.into_iter().filter(|key| is_ours(key)).collect();
            for batch in ours.chunks(KEYS_AT_ONCE) {
                swept += self.delete_batch(bucket, batch).await;
            }
            if !is_truncated || next.is_none() {
                return Ok(swept);
            }
            token = next;
        }
    }

    /// Deletes keys at once, or one by one where the store cannot; returns how many are gone.
    async fn delete_batch(&mut self, bucket: &str, keys: &[String]) -> u64 {
        self.renew_deadline();
        let (reply, failed) = self.delete_keys(bucket, keys).await;
        match failed {
            Ok(failed) if reply.outcome.is_ok() => (keys.len() - failed.len()) as u64,
            _ => {
                let mut gone = 0;
                for key in keys {
                    self.renew_deadline();
                    self.head.at(bucket, key);
                    let spec = HeadSpec::new(Method::Delete);
                    let reply = self.ask(&spec, &Nothing, &[200, 202, 204, 404]).await;
                    gone += u64::from(reply.outcome.is_ok());
                }
                gone
            }
        }
    }

    /// Lists one page: the token of the next, the keys, and whether there is a next.
    async fn keys_of(
        &mut self,
        bucket: &str,
        prefix: &str,
        keys_max: u32,
        token: Option<&str>,
    ) -> Result<(Option<String>, Vec<String>, bool), Error> {
        self.renew_deadline();
        let page = Page { token, prefix, delimiter: None, keys_max };
        let reply = self.ask_for_page(bucket, &page).await;
        let what = || format!("list bucket \"{bucket}\"");
        if !reply.outcome.is_ok() {
            return Err(self.refused(what(), &reply));
        }
        let mut keys = Vec::new();
        let page = xml::parse_list_page(&self.collect.body, |key, _| keys.push(key.to_owned()))
            .map_err(|error| Error::target(what(), error.to_string()))?;
        Ok((page.next_token, keys, page.is_truncated))
    }

    /// Creates a bucket as load; the mark follows outside of the time that is taken.
    pub(super) async fn create_bucket(&mut self, request: &Request) -> Answer {
        let bucket = self.thread.dataset.bucket(request.index);
        let answer = self.create(&bucket).await.answer();
        if answer.outcome.is_ok() {
            self.mark(&bucket).await;
        } else {
            self.told = self.connection.last_error(&self.head.bytes);
        }
        answer
    }

    /// Deletes a bucket as load, if it carries our mark, which goes first and untimed.
    pub(super) async fn delete_bucket(&mut self, request: &Request) -> Answer {
        let bucket = self.thread.dataset.bucket(request.index);
        let started_ns = self.connection.reactor().now_ns();
        match self.is_marked(&bucket).await {
            Ok(true) => {}
            Ok(false) => {
                let text = format!("bucket \"{bucket}\" does not carry our mark");
                let failure = Failure::Told(Outcome::DENIED, text);
                let outcome = self.connection.object_to(failure);
                let now_ns = self.connection.reactor().now_ns();
                return Answer::plain(outcome, started_ns, 0, now_ns);
            }
            Err(error) => {
                let failure = Failure::Told(Outcome::DENIED, error.to_string());
                let outcome = self.connection.object_to(failure);
                let now_ns = self.connection.reactor().now_ns();
                return Answer::plain(outcome, started_ns, 0, now_ns);
            }
        }
        self.remove_mark(&bucket).await;
        let answer = self.remove(&bucket).await.answer();
        if !answer.outcome.is_ok() {
            self.told = self.connection.last_error(&self.head.bytes);
            self.mark(&bucket).await;
        }
        answer
    }

    /// Gives each step of a longer job the time of one request.
    pub(super) fn renew_deadline(&self) {
        let reactor = self.connection.reactor();
        reactor.set_deadline(reactor.now_ns() + self.thread.s3.timeout_ns);
    }

    async fn wait(&self) {
        let reactor = self.connection.reactor();
        reactor.sleep_until(reactor.now_ns() + TRY_AGAIN_NS).await;
    }

    /// Makes the error of a target that did not do what must be done before load starts.
    fn refused(&self, what: String, reply: &Reply) -> Error {
        let text = self.connection.last_error(&self.head.bytes).unwrap_or_default();
        let error = Error::target(what, text);
        let code = self.connection.refusal_error().map(|error| error.code).unwrap_or_default();
        let hint = match (code.as_str(), reply.status) {
            ("SignatureDoesNotMatch" | "InvalidAccessKeyId" | "InvalidToken", _) | (_, 401) => {
                "check access_key and secret_key, and the region that requests are signed for"
            }
            ("RequestTimeTooSkewed", _) => "set this host's clock",
            (_, 403) => {
                "the keys need s3:CreateBucket, s3:ListBucket, s3:PutObject, s3:GetObject and s3:DeleteObject here; wrong keys answer so too"
            }
            (_, 301 | 307 | 308) => "set the endpoint and the region to those of the bucket",
            (_, 0) => return error.with_hint(hint_to_reach("endpoints", reply.outcome)),
            ("NoSuchBucket", _) if self.head.has_path() => {
                "the URL of the endpoint has a path: a bucket does not belong there, buckets are \
                 named by the dataset"
            }
            // An answer to HEAD has no body that could say more.
            ("", 400) => {
                return error.with_hint(format!(
                    "stores answer so to a region that is not theirs (requests are signed for \
                 \"{}\"): set region; or to keys or a bucket's name that they do not like",
                    self.thread.s3.region
                ));
            }
            _ => return error,
        };
        error.with_hint(hint)
    }
}
