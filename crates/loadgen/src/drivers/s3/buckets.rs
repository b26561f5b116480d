//! Buckets: the primitives with which `ownership` creates, marks and sweeps them, and operations of
//! the load on buckets.

use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::http1::Method;
use loadstone_wire::xml;

use super::S3Client;
use super::locks::LOCKS;
use super::server_encryption::ServerEncryption;
use crate::error::{Error, Kind};
use crate::outcome::{Completion, Outcome};
use crate::ownership::beside::{IF_NONE, OwnerTag, keys_of_ours, names_writers, try_claim};
use crate::ownership::{self, Look, Made, Page, Places, Removed, Scope, Title};
use crate::reactor::Reactor;
use crate::requests::Request;
use crate::transport::connection::Reply;
use crate::transport::failure::{Refusal, hint_to_reach};
use crate::transport::http_store::{HttpStore, PageSpec};
use crate::transport::http_target::HeadSpec;
use crate::transport::transfer::Nothing;

/// The object that marks a bucket as created by loadstone.
pub(super) const MARK: &str = ".loadstone-mark";
/// Error code of a conflict with another request that the store is still processing.
const BUSY: &str = "OperationAborted";
/// Content of a bucket's object-lock configuration if object lock is enabled.
const LOCK_IS_ON: &[u8] = b"<ObjectLockEnabled>Enabled<";
/// Permissions that a run needs.
const NEEDED: &str = "the keys need s3:CreateBucket, s3:ListBucket, s3:PutObject, s3:GetObject and \
                      s3:DeleteObject here; wrong keys answer so too";

impl Places for S3Client {
    const PLACE: &'static str = "bucket";

    fn title(&self) -> Arc<Title> {
        Arc::clone(&self.http.thread.target.title)
    }

    fn reactor(&self) -> Rc<Reactor> {
        Rc::clone(&self.http.thread.reactor)
    }

    async fn look(&mut self, bucket: &str) -> Result<Look, Error> {
        self.renew_deadline();
        self.at(bucket, "");
        let reply = self.ask(&HeadSpec::new(Method::Head, &[200]), &Nothing).await;
        if reply.outcome.is_ok() {
            return self.read(bucket, MARK).await.map(Look::There);
        }
        let action = || format!("look for bucket \"{bucket}\"");
        let error = self.refused(action(), &reply);
        if reply.status == 0 {
            return Err(error);
        }
        // The answer to HEAD has no body that could give the reason.
        match self.refused_listing(bucket).await {
            Some(listing) if reply.status != 404 => Err(self.refused(action(), &listing)),
            Some(listing) if self.is_absent_otherwise(&listing) => {
                Err(self.refused(action(), &listing))
            }
            _ if reply.status == 404 => Ok(Look::Absent),
            _ => Err(error),
        }
    }

    async fn create(&mut self, bucket: &str) -> Result<Made, Error> {
        self.renew_deadline();
        let reply = self.create_it(bucket).await;
        match reply.status {
            409 if self.http.connection.refused_code() != BUSY => {
                Ok(match self.http.connection.is_in_doubt() {
                    // An earlier attempt may have created it; whether it is empty shows whether it
                    // is ours.
                    true => Made::New,
                    false => Made::Exists,
                })
            }
            _ if reply.outcome.is_ok() => Ok(Made::New),
            _ => Err(self.refused_to_make(format!("create bucket \"{bucket}\""), &reply)),
        }
    }

    /// Versioning is set before the bucket is marked, so that a resumed run finds it set.
    async fn write_mark(&mut self, bucket: &str, text: &str) -> Result<bool, Error> {
        if let Some(versioning) = self.thread.s3.settings.versioning
            && !self.set_versioning(bucket, versioning).await?
        {
            return Ok(false);
        }
        let reply = self.write_text(bucket, MARK, text).await;
        match reply.status {
            404 => Ok(false),
            // A mark exists; the next inspection shows whose it is.
            412 => Ok(true),
            _ if reply.outcome.is_ok() => self.check_encryption(bucket).map(|()| true),
            _ => Err(self.refused(format!("mark bucket \"{bucket}\""), &reply)),
        }
    }

    async fn delete_mark(&mut self, bucket: &str) -> Result<(), Error> {
        if self.thread.s3.settings.deletes_versions {
            return self.delete_versions(bucket, &[MARK.to_owned()]).await.map(drop);
        }
        self.renew_deadline();
        self.at(bucket, MARK);
        let reply = self.ask(&HeadSpec::new(Method::Delete, &[200, 202, 204, 404]), &Nothing).await;
        match reply.outcome.is_ok() {
            true => Ok(()),
            false => Err(self.refused(format!("remove the mark of bucket \"{bucket}\""), &reply)),
        }
    }

    async fn remove(&mut self, bucket: &str) -> Result<Removed, Error> {
        let reply = self.remove_it(bucket).await;
        let is_ok = reply.outcome.is_ok();
        let removed = match is_ok || self.http.connection.refused_code() != BUSY {
            true => Removed::of(reply.status, is_ok),
            false => None,
        };
        removed.ok_or_else(|| self.refused(format!("delete bucket \"{bucket}\""), &reply))
    }

    async fn page(
        &mut self,
        bucket: &str,
        scope: Scope,
        token: Option<&str>,
    ) -> Result<Page, Error> {
        self.renew_deadline();
        let title = self.title();
        let prefix = if scope == Scope::Dataset { title.prefix() } else { "" };
        if self.thread.s3.settings.deletes_versions {
            return self.page_of_versions(bucket, prefix, token).await;
        }
        let page = PageSpec { token, prefix, delimiter: None, keys_max: 1000, wants_keys: true };
        let reply = self.ask_for_page(bucket, &page, true).await;
        let action = || format!("list bucket \"{bucket}\"");
        if reply.status == 404 {
            return Ok(Page::default());
        }
        if !reply.outcome.is_ok() {
            return Err(self.refused(action(), &reply));
        }
        let (page, keys) = xml::parse_keys(&self.http.collect.body)
            .map_err(|error| Error::target(action(), error.to_string()))?;
        let next = page.next_token.filter(|_| page.is_truncated);
        let keys = keys.into_iter().map(|key| as_put(key, title.prefix())).collect();
        Ok(title.sort(bucket, keys, |key| key == MARK, next))
    }

    /// Deletes keys with one request, or one by one if the store does not support that.
    async fn delete(&mut self, bucket: &str, keys: &[String]) -> Result<u64, Error> {
        if self.thread.s3.settings.deletes_versions {
            return self.delete_versions(bucket, keys).await;
        }
        self.renew_deadline();
        let deleted = match keys.iter().all(|key| xml::is_writable(key)) {
            true => Some(self.delete_keys(bucket, keys).await),
            // The list of keys is XML, which cannot contain all characters.
            false => None,
        };
        match deleted {
            Some((reply, Ok(failed))) if reply.outcome.is_ok() => {
                Ok((keys.len() - failed.len()) as u64)
            }
            _ => self.delete_each(bucket, keys).await,
        }
    }

    async fn read(&mut self, bucket: &str, key: &str) -> Result<Option<String>, Error> {
        self.read_text(bucket, key).await
    }

    async fn write(&mut self, bucket: &str, key: &str, text: &str) -> Result<(), Error> {
        let reply = self.write_text(bucket, key, text).await;
        match reply.outcome.is_ok() || reply.status == 412 {
            true => Ok(()),
            false => Err(self.refused(format!("write \"{key}\" to bucket \"{bucket}\""), &reply)),
        }
    }

    async fn write_beside(&mut self, bucket: &str, key: &str, text: &str) -> Result<(), Error> {
        try_claim(self, bucket, key, text).await
    }

    async fn ours_of(&mut self, bucket: &str, keys: &[String]) -> Result<Vec<String>, Error> {
        let sees_versions = self.thread.s3.settings.deletes_versions && !keys.is_empty();
        if sees_versions && names_writers(self, bucket).await? {
            return self.keys_with_versions_of_ours(bucket, keys).await;
        }
        keys_of_ours(self, bucket, keys).await
    }

    async fn upload_alike(&mut self, bucket: &str) -> Result<Option<String>, Error> {
        let title = self.title();
        let uploads = self.uploads(bucket).await;
        Ok(uploads.into_iter().map(|(key, _)| key).find(|key| title.is_alike(key)))
    }

    async fn sweep_hidden(&mut self, bucket: &str) -> Result<(), Error> {
        self.sweep_uploads(bucket).await;
        Ok(())
    }

    async fn why_kept(&mut self, bucket: &str) -> Option<&'static str> {
        self.renew_deadline();
        self.at(bucket, "");
        let spec = HeadSpec { query: b"object-lock", ..HeadSpec::new(Method::Get, &[200]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        let is_locked = reply.outcome.is_ok()
            && self.http.collect.body.windows(LOCK_IS_ON.len()).any(|text| text == LOCK_IS_ON);
        is_locked.then_some(
            "it locks its objects (S3 Object Lock): the store deletes them once their retention has \
             ended and no legal hold is on them",
        )
    }

    async fn keeps_versions(&mut self, bucket: &str) -> bool {
        !self.thread.s3.settings.deletes_versions && self.is_versioned(bucket).await
    }
}

impl S3Client {
    /// Requests a listing of a bucket, whose answer has a body; returns it if it was refused.
    async fn refused_listing(&mut self, bucket: &str) -> Option<Reply> {
        self.renew_deadline();
        self.at(bucket, "");
        let spec =
            HeadSpec { query: b"list-type=2&max-keys=0", ..HeadSpec::new(Method::Get, &[200]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        (reply.status >= 300).then_some(reply)
    }

    /// Returns whether a listing was refused with 404 for another reason than that the bucket does
    /// not exist. Some stores answer like that to an unknown access key. A missing key means that
    /// the URL of the endpoint itself names a bucket: creating a bucket would create an object in
    /// that bucket.
    fn is_absent_otherwise(&self, listing: &Reply) -> bool {
        let is_another = match self.http.connection.refused_code().as_str() {
            "" | "NoSuchBucket" => false,
            "NoSuchKey" => self.head.has_path(),
            _ => true,
        };
        listing.status == 404 && is_another
    }

    async fn create_it(&mut self, bucket: &str) -> Reply {
        let region = &self.thread.s3.region;
        let is_aws = self.http.thread.target.endpoints.iter().any(|endpoint| {
            endpoint.url.host.ends_with(".amazonaws.com")
                || endpoint.url.host.ends_with(".amazonaws.com.cn")
        });
        // Other stores treat an unknown region as a mistake.
        let body = if is_aws && region != "us-east-1" {
            xml::create_bucket_body(region)
        } else {
            Vec::new()
        };
        let locks = [LOCKS];
        let headers = if self.thread.s3.settings.retention_s.is_some() { &locks[..] } else { &[] };
        self.at(bucket, "");
        let spec = HeadSpec { headers, ..HeadSpec::new(Method::Put, &[200, 201]) };
        self.ask(&spec, &body.as_slice()).await
    }

    /// Writes a small object if it does not exist; stores without conditional writes overwrite it.
    async fn write_text(&mut self, bucket: &str, key: &str, text: &str) -> Reply {
        self.renew_deadline();
        let thread = Rc::clone(&self.http.thread);
        let named = thread.target.owner_headers(OwnerTag::Run, Self::RUN);
        let headers: Vec<_> = [IF_NONE].into_iter().chain(named.iter().copied()).collect();
        self.at(bucket, key);
        let spec = HeadSpec { headers: &headers, ..HeadSpec::new(Method::Put, &[200, 201]) };
        let reply = self.ask_for_body(&spec, &text.as_bytes(), ServerEncryption::CONFIRMED).await;
        // Some stores treat a key with a delete marker as existing.
        let is_hidden = reply.status == 412 && matches!(self.read(bucket, key).await, Ok(None));
        if !is_hidden && reply.status != 501 && reply.status != 400 {
            return reply;
        }
        self.renew_deadline();
        self.at(bucket, key);
        let spec = HeadSpec { headers: &named, ..HeadSpec::new(Method::Put, &[200, 201]) };
        self.ask_for_body(&spec, &text.as_bytes(), ServerEncryption::CONFIRMED).await
    }

    /// Checks that the answer to the mark's put confirms the encryption that the target's settings
    /// ask for. Some stores ignore its headers, and would be measured without encryption.
    fn check_encryption(&self, bucket: &str) -> Result<(), Error> {
        let Some(encryption) = &self.thread.s3.settings.server_encryption else { return Ok(()) };
        let header = encryption.confirmation();
        if self.http.collect.header(header).is_some() {
            return Ok(());
        }
        let reason = format!("the answer has no header {header}: the target ignores the setting");
        Err(Error::target(format!("put an encrypted object into bucket \"{bucket}\""), reason)
            .with_hint("leave out server_encryption to measure it without encryption"))
    }

    async fn remove_it(&mut self, bucket: &str) -> Reply {
        self.renew_deadline();
        self.at(bucket, "");
        self.ask(&HeadSpec::new(Method::Delete, &[200, 202, 204]), &Nothing).await
    }

    /// Creates a bucket as an operation of the load. The mark follows outside of the measured time,
    /// and before a stop takes effect.
    pub(super) async fn create_as_load(&mut self, request: &Request) -> Completion {
        let bucket = self.http.thread.dataset.bucket(request.bucket());
        let pair = self.reactor().begin_pair().await;
        let mut completion = self.create_it(&bucket).await.completion();
        if completion.outcome.is_ok() {
            if let Err(error) = ownership::mark_new(self, &bucket, pair).await {
                completion.outcome = self.object_to(Outcome::EXISTS, error.to_string());
            }
        } else {
            self.http.error = self.http.last_error();
        }
        completion
    }

    /// Deletes a bucket as an operation of the load, if it carries our mark, which is deleted
    /// first, outside of the measured time.
    pub(super) async fn delete_as_load(&mut self, request: &Request) -> Completion {
        let bucket = self.http.thread.dataset.bucket(request.bucket());
        let _pair = self.reactor().begin_pair().await;
        let started_ns = self.http.thread.reactor.now_ns();
        let text = match ownership::mark_of(self, &bucket).await {
            Ok(text) => text,
            Err(error) => {
                return self.http.connection.refuse(started_ns, Outcome::DENIED, error.to_string());
            }
        };
        let completion = match self.delete_mark(&bucket).await {
            Ok(()) => self.remove_it(&bucket).await.completion(),
            Err(error) => {
                self.http.connection.refuse(started_ns, Outcome::DENIED, error.to_string())
            }
        };
        if !completion.outcome.is_ok() {
            self.http.error = self.http.last_error();
            // The bucket stays, so it must remain marked as ours; the clean-up shows whether this
            // failed.
            let _ = self.write_mark(&bucket, &text).await;
        }
        completion
    }

    /// Returns the error of a refused request outside of the measurement, with a hint.
    pub(super) fn refusal_of(&self, action: String, reply: &Reply) -> Error {
        let text = self.http.last_error().unwrap_or_default();
        let code = self.http.connection.refused_code();
        let kind = match code.as_str() {
            "QuotaExceeded" => Kind::NoSpace,
            "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" => Kind::SecretAbsent,
            "InvalidAccessKeyId" | "XAdminUserNotFound" => Kind::UnknownKey,
            "SignatureDoesNotMatch" => Kind::WrongSignature,
            "RequestTimeTooSkewed" | "RequestExpired" => Kind::Clock,
            "NotImplemented" => Kind::Unsupported,
            _ => reply.outcome.error_kind(),
        };
        let error = Error::target(action, text).of(kind);
        let hint = match (code.as_str(), reply.status) {
            ("RequestTimeTooSkewed" | "RequestExpired", _) => {
                let apart = self.http.connection.refusal().and_then(Refusal::clocks_apart);
                let apart = apart.map_or_else(String::new, |apart| format!("{apart}: "));
                return error.with_hint(format!("{apart}set the clock that is wrong (by NTP)"));
            }
            ("ExpiredToken" | "TokenRefreshRequired", _) => {
                "the session_token has expired: get new keys that are valid for the whole run"
            }
            ("InvalidToken", _) => {
                "the session_token does not belong to access_key and secret_key, or has expired: take \
                 all three from one place"
            }
            ("InvalidAccessKeyId" | "XAdminUserNotFound", _) => {
                "the store does not know this access_key: check it, and that endpoints lead to the \
                 store that gave it out"
            }
            ("SignatureDoesNotMatch", _) => {
                return error.with_hint(format!(
                    "check secret_key, and the region that requests are signed for (\"{}\"); a proxy \
                     that changes the path or the Host header spoils signatures, too",
                    self.thread.s3.region
                ));
            }
            ("AuthorizationHeaderMalformed" | "InvalidRegion", _) => {
                return error.with_hint(format!(
                    "set region to the store's own: requests are signed for \"{}\"",
                    self.thread.s3.region
                ));
            }
            (_, 401) => {
                "check access_key and secret_key, and the region that requests are signed for"
            }
            (_, 403) => NEEDED,
            (_, 301 | 307 | 308) => "set the endpoint and the region to those of the bucket",
            (_, 0) => return error.with_hint(hint_to_reach("endpoints", reply.outcome)),
            ("NoSuchBucket" | "NoSuchKey", _) if self.head.has_path() => {
                "the URL of the endpoint has a path: a bucket does not belong there, buckets are \
                 named by the dataset (its prefix)"
            }
            // The answer to HEAD has no body with details.
            ("", 400) => {
                return error.with_hint(format!(
                    "a store answers so when the region is not its own (requests are signed for \
                     \"{}\"): set region; when it does not accept the keys or the bucket's \
                     name; or when the port speaks TLS: use https",
                    self.thread.s3.region
                ));
            }
            _ => return error,
        };
        error.with_hint(hint)
    }
}

/// Returns a listed key as the dataset has it. If keys are not URL-encoded, a store replaces
/// characters of our prefix that XML cannot contain.
pub(super) fn as_put(listed: String, prefix: &str) -> String {
    if xml::is_writable(prefix) {
        return listed;
    }
    match listed.strip_prefix(&xml::replaced(prefix)) {
        Some(rest) => format!("{prefix}{rest}"),
        None => listed,
    }
}
