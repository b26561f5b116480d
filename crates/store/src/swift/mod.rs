//! The part of the Swift API that the load generator's driver uses: TempAuth and Keystone tokens,
//! accounts, containers with versions, objects, static large objects, bulk deletes.

mod account;
mod answer;
mod bulk;
mod call;
mod container;
mod identity;
mod large;
mod listing;
mod object;
mod ranges;
mod read;
mod refused;
mod token;
mod write;

use std::sync::Arc;

use http::request::Parts;
use http::{Method, StatusCode, header};

use self::answer::{Failure, text};
use self::call::{Call, Place};
use self::token::Tokens;
use crate::account::Account;
use crate::config::StoreConfig;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::request_body::RequestBody;

/// The Swift API of the account.
pub(crate) struct Swift {
    account: Arc<Account>,
    /// User and password; without them, no one can log in.
    user: Option<(String, String)>,
    project: String,
    region: String,
    tokens: Tokens,
}

impl Swift {
    pub(crate) fn new(
        account: Arc<Account>,
        user: Option<(String, String)>,
        config: &StoreConfig,
    ) -> Swift {
        Swift {
            account,
            user,
            project: config.project.clone(),
            region: config.region.clone(),
            tokens: Tokens::new(config.token_seconds),
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
        // The text of a refusal is not sent in answer to a HEAD.
        if is_head { reply.map(|_| ReplyBody::empty()) } else { reply }
    }

    async fn dispatch(&self, call: &mut Call) -> Result<Reply, Failure> {
        let first = call.path[1..].split('/').next().unwrap_or_default();
        match first {
            "auth" if call.method == Method::GET => identity::version_1(self, call),
            "v3" => identity::version_3(self, call).await,
            "healthcheck" => Ok(text(StatusCode::OK, "OK")),
            "v1" => self.store(call).await,
            _ => Err(not_allowed()),
        }
    }

    async fn store(&self, call: &mut Call) -> Result<Reply, Failure> {
        let place = call.place()?;
        refused::check(call)?;
        self.authorize(call, &place)?;
        if call.parameter("bulk-delete").is_some() && call.method == Method::POST {
            return bulk::delete(self, call).await;
        }
        let level = (!place.container.is_empty(), !place.object.is_empty());
        match (level, call.method.as_str()) {
            ((false, _), "GET" | "HEAD") => account::show(self, call),
            ((true, false), "GET" | "HEAD") => container::show(self, call, &place),
            ((true, false), "PUT") => container::create(self, call, &place),
            ((true, false), "POST") => container::change(self, call, &place),
            ((true, false), "DELETE") => container::delete(self, &place),
            ((true, true), _) => object::answer(self, call, &place).await,
            _ => Err(not_allowed()),
        }
    }

    /// Refuses a request without a token of this account.
    fn authorize(&self, call: &Call, place: &Place) -> Result<(), Failure> {
        let token = call.header("x-auth-token").or_else(|| call.header("x-storage-token"));
        if token.is_none_or(|name| self.tokens.find(name).is_none()) {
            let realm = format!("Swift realm=\"{}\"", self.account_name());
            return Err(Failure {
                header: Some((header::WWW_AUTHENTICATE, realm)),
                ..Failure::new(StatusCode::UNAUTHORIZED, "a token is needed that has not expired")
            });
        }
        match place.account == self.account_name() {
            true => Ok(()),
            false => Err(Failure::new(StatusCode::FORBIDDEN, "this is not your account")),
        }
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
}

fn not_allowed() -> Failure {
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "the method is not allowed for this resource")
}
