//! The Swift API: TempAuth and Keystone tokens, accounts, containers, objects, large objects.

mod access;
mod account;
mod answer;
mod archive;
mod bulk;
mod call;
mod container;
mod info;
mod listing;
mod objects;
mod refused;

use std::sync::{Arc, PoisonError, RwLock};

use http::request::Parts;
use http::{Method, StatusCode, header};
use md5::{Digest, Md5};

use self::access::identity::ApplicationCredential;
use self::access::token::Tokens;
use self::access::{identity, temp_url};
use self::answer::{Failure, empty, text};
use self::call::{Call, Place};
use crate::account::Account;
use crate::config::StoreConfig;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::request_body::RequestBody;
use crate::hex::hex;

/// The Swift face of the account.
pub(crate) struct Swift {
    account: Arc<Account>,
    /// User and password; without them no one can log in.
    user: Option<(String, String)>,
    project: String,
    region: String,
    tokens: Tokens,
    application_credentials: RwLock<Vec<ApplicationCredential>>,
}

impl Swift {
    pub(crate) fn new(
        account: Arc<Account>,
        user: Option<(String, String)>,
        config: &StoreConfig,
    ) -> Swift {
        Swift {
            user,
            project: config.project.clone(),
            region: config.region.clone(),
            tokens: Tokens::new(config.token_seconds, account.storage.budget.clone()),
            application_credentials: RwLock::default(),
            account,
        }
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, parts: Parts, body: RequestBody) -> Reply {
        let is_head = parts.method == Method::HEAD;
        let answered = match Call::new(parts, body) {
            Ok(mut call) => self.dispatch(&mut call).await,
            Err(failure) => Err(failure),
        };
        let reply = answered.unwrap_or_else(Failure::into_reply);
        // The text of a refusal is no body of a HEAD.
        if is_head { reply.map(|_| ReplyBody::empty()) } else { reply }
    }

    async fn dispatch(&self, call: &mut Call) -> Result<Reply, Failure> {
        let first = call.path[1..].split('/').next().unwrap_or_default();
        match first {
            "auth" if call.method == Method::GET => identity::version_1(self, call),
            "v3" => identity::version_3(self, call).await,
            "info" => Ok(info::info(self)),
            "healthcheck" => Ok(text(StatusCode::OK, "OK")),
            "v1" => self.store(call).await,
            _ => Err(not_allowed()),
        }
    }

    async fn store(&self, call: &mut Call) -> Result<Reply, Failure> {
        let place = call.place()?;
        refused::check(call)?;
        self.authorize(call, &place)?;
        if let Some(format) = call.parameter("extract-archive").map(str::to_owned)
            && call.method == Method::PUT
        {
            return archive::extract(self, call, &place, &format).await;
        }
        if call.parameter("bulk-delete").is_some()
            && matches!(call.method, Method::POST | Method::DELETE)
        {
            return bulk::delete(self, call).await;
        }
        let level = (!place.container.is_empty(), !place.object.is_empty());
        match (level, call.method.as_str()) {
            ((false, _), "GET" | "HEAD") => account::show(self, call),
            ((false, _), "POST") => account::change(self, call),
            ((true, false), "GET" | "HEAD") => container::show(self, call, &place),
            ((true, false), "PUT") => container::create(self, call, &place),
            ((true, false), "POST") => container::change(self, call, &place),
            ((true, false), "DELETE") => container::delete(self, &place),
            (_, "OPTIONS") => Ok(empty(StatusCode::OK)),
            ((true, true), _) => objects::answer(self, call, &place).await,
            _ => Err(not_allowed()),
        }
    }

    /// Refuses who may not do this: a token, a signed URL or an open container is needed.
    fn authorize(&self, call: &Call, place: &Place) -> Result<(), Failure> {
        if let Some(signature) = call.parameter("temp_url_sig") {
            return temp_url::check(self, call, place, signature);
        }
        let token = call.header("x-auth-token").or_else(|| call.header("x-storage-token"));
        if token.and_then(|name| self.tokens.find(name)).is_some() {
            if place.account == self.account_name() {
                return Ok(());
            }
            return Err(Failure::new(StatusCode::FORBIDDEN, "this is not your account"));
        }
        if self.is_open(call, place) {
            return Ok(());
        }
        Err(Failure {
            header: Some((
                header::WWW_AUTHENTICATE,
                format!("Swift realm=\"{}\"", self.account_name()),
            )),
            ..Failure::new(StatusCode::UNAUTHORIZED, "a token is needed that has not expired")
        })
    }

    /// Returns whether everybody may read this.
    fn is_open(&self, call: &Call, place: &Place) -> bool {
        if !matches!(call.method, Method::GET | Method::HEAD)
            || place.account != self.account_name()
        {
            return false;
        }
        let Ok(bucket) = self.account.bucket(&place.container) else { return false };
        let acl = bucket.settings().read_acl.unwrap_or_default();
        let allows = |what: &str| acl.split(',').any(|rule| rule.trim() == what);
        if place.object.is_empty() { allows(".rlistings") } else { allows(".r:*") }
    }

    fn account_name(&self) -> String {
        format!("AUTH_{}", self.project)
    }

    fn storage_url(&self, call: &Call) -> String {
        format!("http://{}/v1/{}", call.host(), self.account_name())
    }

    fn is_known(&self, user: &str, password: &str) -> bool {
        self.user.as_ref().is_some_and(|known| known.0 == user && known.1 == password)
    }

    fn user_name(&self) -> &str {
        self.user.as_ref().map_or("", |(name, _)| name)
    }

    fn user_id(&self) -> String {
        hex(&Md5::digest(format!("user {}", self.user_name())))
    }

    fn project_id(&self) -> String {
        hex(&Md5::digest(format!("project {}", self.project)))
    }

    fn knows_credential(&self, is_it: impl Fn(&ApplicationCredential) -> bool) -> bool {
        let known = &self.application_credentials;
        known.read().unwrap_or_else(PoisonError::into_inner).iter().any(is_it)
    }

    fn add_credential(&self, credential: ApplicationCredential) {
        let known = &self.application_credentials;
        known.write().unwrap_or_else(PoisonError::into_inner).push(credential);
    }
}

fn not_allowed() -> Failure {
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "the method is not allowed for this resource")
}
