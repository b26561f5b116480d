//! Log-ins: TempAuth's v1 log-in and a token service in the shape of Keystone v3.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::token::{Token, random_name};
use crate::budget::Reservation;
use crate::clock;
use crate::exchange::reply::Reply;
use crate::swift::Swift;
use crate::swift::answer::{Failure, empty, json as json_reply, set, text};
use crate::swift::call::Call;

/// A document that asks for a token is never longer.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// An application credential.
#[derive(Debug)]
pub(in crate::swift) struct ApplicationCredential {
    id: String,
    name: String,
    secret: String,
    _record: Reservation,
}

/// What a credential takes besides its name and its secret.
const CREDENTIAL_BYTES: usize = 256;

fn unauthorized() -> Failure {
    Failure::new(StatusCode::UNAUTHORIZED, "the request you have made requires authentication")
}

/// Answers `GET /auth/v1.0`.
pub(in crate::swift) fn version_1(swift: &Swift, call: &Call) -> Result<Reply, Failure> {
    let given = |names: [&str; 2]| names.iter().find_map(|name| call.header(name));
    let user = given(["x-auth-user", "x-storage-user"]).ok_or_else(unauthorized)?;
    let password = given(["x-auth-key", "x-storage-pass"]).ok_or_else(unauthorized)?;
    let name = match user.split_once(':') {
        Some((project, name)) if project == swift.project => name,
        Some(_) => return Err(unauthorized()),
        None => user,
    };
    if !swift.is_known(name, password) {
        return Err(unauthorized());
    }
    let (token, facts) = swift.tokens.issue("AUTH_tk", "password");
    let mut reply = text(StatusCode::OK, "");
    set(&mut reply, "x-storage-url", swift.storage_url(call));
    set(&mut reply, "x-storage-token", &token);
    set(&mut reply, "x-auth-token", &token);
    set(&mut reply, "x-auth-token-expires", (facts.expires_us - facts.issued_us) / 1_000_000);
    Ok(reply)
}

/// Answers requests below `/v3`.
pub(in crate::swift) async fn version_3(swift: &Swift, call: &mut Call) -> Result<Reply, Failure> {
    let path = call.path.trim_end_matches('/').to_owned();
    let parts: Vec<_> = path.split('/').skip(2).collect();
    match (call.method.clone(), parts.as_slice()) {
        (Method::GET, []) => Ok(version_document(call)),
        (Method::POST, ["auth", "tokens"]) => issue(swift, call).await,
        (Method::GET | Method::HEAD, ["auth", "tokens"]) => validate(swift, call),
        (Method::DELETE, ["auth", "tokens"]) => revoke(swift, call),
        (Method::GET, ["auth", "catalog"]) => {
            authenticated(swift, call)?;
            Ok(json_reply(StatusCode::OK, &json!({"catalog": catalogue(swift, call)})))
        }
        (Method::GET, ["auth", "projects"] | ["projects"]) => {
            authenticated(swift, call)?;
            Ok(json_reply(StatusCode::OK, &json!({"projects": [project(swift)]})))
        }
        (Method::POST, ["users", _, "application_credentials"]) => {
            create_credential(swift, call).await
        }
        _ => Err(Failure::new(StatusCode::NOT_FOUND, "this token service has no such resource")),
    }
}

fn version_document(call: &Call) -> Reply {
    let url = format!("http://{}/v3/", call.host());
    let version = json!({
        "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": url}],
        "media-types": [{"base": "application/json",
                         "type": "application/vnd.openstack.identity-v3+json"}],
    });
    json_reply(StatusCode::OK, &json!({"version": version}))
}

fn authenticated(swift: &Swift, call: &Call) -> Result<Token, Failure> {
    call.header("x-auth-token").and_then(|name| swift.tokens.find(name)).ok_or_else(unauthorized)
}

/// Answers `POST /v3/auth/tokens`.
async fn issue(swift: &Swift, call: &mut Call) -> Result<Reply, Failure> {
    let text = call.text(REQUEST_BYTES_MAX).await?;
    let invalid = |what: &str| Failure::new(StatusCode::BAD_REQUEST, what);
    let document: Value =
        serde_json::from_slice(&text).map_err(|_| invalid("the body is not JSON"))?;
    let identity = &document["auth"]["identity"];
    let methods = identity["methods"].as_array().ok_or_else(|| invalid("methods are missing"))?;
    let method = match methods.first().and_then(Value::as_str) {
        Some("password") => {
            check_password(swift, &identity["password"]["user"])?;
            "password"
        }
        Some("token") => {
            let name = identity["token"]["id"].as_str().unwrap_or_default();
            swift.tokens.find(name).ok_or_else(unauthorized)?;
            "token"
        }
        Some("application_credential") => {
            check_credential(swift, &identity["application_credential"])?;
            "application_credential"
        }
        _ => return Err(invalid("the method is not one of this token service")),
    };
    check_scope(swift, &document["auth"]["scope"])?;
    let (name, token) = swift.tokens.issue("gAAAAA", method);
    let mut reply = json_reply(StatusCode::CREATED, &token_document(swift, call, token));
    set(&mut reply, "x-subject-token", name);
    Ok(reply)
}

fn check_password(swift: &Swift, user: &Value) -> Result<(), Failure> {
    let password = user["password"].as_str().unwrap_or_default();
    let name = match (user["name"].as_str(), user["id"].as_str()) {
        (Some(name), _) if is_default_domain(&user["domain"]) => name,
        (None, Some(id)) if id == swift.user_id() => swift.user_name(),
        _ => return Err(unauthorized()),
    };
    if swift.is_known(name, password) { Ok(()) } else { Err(unauthorized()) }
}

fn is_default_domain(domain: &Value) -> bool {
    let named = |key: &str| domain[key].as_str();
    match (named("id"), named("name")) {
        (Some(id), _) => id == "default",
        (None, Some(name)) => name.eq_ignore_ascii_case("default"),
        (None, None) => false,
    }
}

fn check_credential(swift: &Swift, given: &Value) -> Result<(), Failure> {
    let secret = given["secret"].as_str().unwrap_or_default();
    let (id, name) = (given["id"].as_str(), given["name"].as_str());
    let is_known = swift.knows_credential(|credential| {
        let is_named = match (id, name) {
            (Some(id), _) => credential.id == id,
            (None, Some(name)) => credential.name == name,
            (None, None) => false,
        };
        is_named && credential.secret == secret
    });
    if is_known { Ok(()) } else { Err(unauthorized()) }
}

/// Refuses a scope that is not the one project; no scope means that project.
fn check_scope(swift: &Swift, scope: &Value) -> Result<(), Failure> {
    let wanted = &scope["project"];
    let is_ours = match (wanted["id"].as_str(), wanted["name"].as_str()) {
        (Some(id), _) => id == swift.project_id(),
        (None, Some(name)) => name == swift.project,
        (None, None) => true,
    };
    if is_ours { Ok(()) } else { Err(unauthorized()) }
}

fn validate(swift: &Swift, call: &Call) -> Result<Reply, Failure> {
    authenticated(swift, call)?;
    let name = call.header("x-subject-token").unwrap_or_default();
    let missing = || Failure::new(StatusCode::NOT_FOUND, "the token is not known");
    let token = swift.tokens.find(name).ok_or_else(missing)?;
    let mut reply = json_reply(StatusCode::OK, &token_document(swift, call, token));
    set(&mut reply, "x-subject-token", name);
    Ok(reply)
}

fn revoke(swift: &Swift, call: &Call) -> Result<Reply, Failure> {
    authenticated(swift, call)?;
    if swift.tokens.revoke(call.header("x-subject-token").unwrap_or_default())? {
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    Err(Failure::new(StatusCode::NOT_FOUND, "the token is not known"))
}

async fn create_credential(swift: &Swift, call: &mut Call) -> Result<Reply, Failure> {
    authenticated(swift, call)?;
    let text = call.text(REQUEST_BYTES_MAX).await?;
    let document: Value = serde_json::from_slice(&text)
        .map_err(|_| Failure::new(StatusCode::BAD_REQUEST, "the body is not JSON"))?;
    let given = &document["application_credential"];
    let name = given["name"].as_str().unwrap_or_default().to_owned();
    let secret = given["secret"].as_str().map_or_else(random_name, str::to_owned);
    let bytes = CREDENTIAL_BYTES + name.len() + secret.len();
    let record = swift.account.storage.budget.reserve(bytes as u64)?;
    let credential = ApplicationCredential { id: random_name(), name, secret, _record: record };
    let shown = json!({
        "id": credential.id, "name": credential.name, "secret": credential.secret,
        "project_id": swift.project_id(), "unrestricted": false, "roles": [{"name": "member"}],
    });
    swift.add_credential(credential);
    Ok(json_reply(StatusCode::CREATED, &json!({"application_credential": shown})))
}

fn project(swift: &Swift) -> Value {
    json!({"id": swift.project_id(), "name": swift.project, "enabled": true,
           "domain": {"id": "default", "name": "Default"}})
}

fn token_document(swift: &Swift, call: &Call, token: Token) -> Value {
    let moment = |unix_us| format!("{}Z", clock::format_iso(unix_us));
    json!({"token": {
        "methods": [token.method],
        "user": {"id": swift.user_id(), "name": swift.user_name(),
                 "domain": {"id": "default", "name": "Default"}},
        "project": project(swift),
        "is_domain": false,
        "roles": [{"id": "member", "name": "member"}],
        "audit_ids": [format!("{:x}", token.issued_us)],
        "issued_at": moment(token.issued_us),
        "expires_at": moment(token.expires_us),
        "catalog": catalogue(swift, call),
    }})
}

fn catalogue(swift: &Swift, call: &Call) -> Value {
    let endpoints = |url: &str| -> Value {
        ["public", "internal", "admin"]
            .iter()
            .map(|interface| {
                json!({"id": format!("{interface}-{}", swift.region), "interface": interface,
                       "region": swift.region, "region_id": swift.region, "url": url})
            })
            .collect()
    };
    json!([
        {"type": "object-store", "name": "swift", "id": "swift",
         "endpoints": endpoints(&swift.storage_url(call))},
        {"type": "identity", "name": "keystone", "id": "keystone",
         "endpoints": endpoints(&format!("http://{}/v3", call.host()))},
    ])
}
