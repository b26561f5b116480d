//! Log-ins: TempAuth's v1, and by password in the format of Keystone v3.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Swift;
use super::answer::{Failure, json as json_reply, set, text};
use super::call::Call;
use super::token::Token;
use crate::clock;
use crate::exchange::reply::Reply;

/// Maximum length of a token request.
const REQUEST_BYTES_MAX: usize = 64 << 10;

fn unauthorized() -> Failure {
    Failure::new(StatusCode::UNAUTHORIZED, "the request you have made requires authentication")
}

/// Answers `GET /auth/v1.0`.
pub(super) fn version_1(swift: &Swift, call: &Call) -> Result<Reply, Failure> {
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
    let (name, token) = swift.tokens.issue("AUTH_tk");
    let mut reply = text(StatusCode::OK, "");
    set(&mut reply, "x-storage-url", swift.storage_url(call));
    set(&mut reply, "x-storage-token", &name);
    set(&mut reply, "x-auth-token", &name);
    set(&mut reply, "x-auth-token-expires", (token.expires_us - token.issued_us) / 1_000_000);
    Ok(reply)
}

/// Answers `POST /v3/auth/tokens`.
pub(super) async fn version_3(swift: &Swift, call: &mut Call) -> Result<Reply, Failure> {
    if (&call.method, call.path.trim_end_matches('/')) != (&Method::POST, "/v3/auth/tokens") {
        let problem = "this token service has no such resource";
        return Err(Failure::new(StatusCode::NOT_FOUND, problem));
    }
    let text = call.text(REQUEST_BYTES_MAX).await?;
    let invalid = |problem: &str| Failure::new(StatusCode::BAD_REQUEST, problem);
    let document: Value =
        serde_json::from_slice(&text).map_err(|_| invalid("the body is not JSON"))?;
    let identity = &document["auth"]["identity"];
    if identity["methods"][0].as_str() != Some("password") {
        return Err(invalid("this token service has the method \"password\" only"));
    }
    check_password(swift, &identity["password"]["user"])?;
    check_scope(swift, &document["auth"]["scope"]["project"])?;
    let (name, token) = swift.tokens.issue("gAAAAA");
    let mut reply = json_reply(StatusCode::CREATED, &token_document(swift, call, token));
    set(&mut reply, "x-subject-token", name);
    Ok(reply)
}

fn check_password(swift: &Swift, user: &Value) -> Result<(), Failure> {
    let text = |key: &str| user[key].as_str().unwrap_or_default();
    let domain = &user["domain"];
    let domain = domain["id"].as_str().or(domain["name"].as_str()).unwrap_or_default();
    match domain.eq_ignore_ascii_case("default") && swift.is_known(text("name"), text("password")) {
        true => Ok(()),
        false => Err(unauthorized()),
    }
}

/// Refuses a scope other than the store's project; no scope means that project.
fn check_scope(swift: &Swift, project: &Value) -> Result<(), Failure> {
    match project["name"].as_str() {
        Some(name) if name != swift.project => Err(unauthorized()),
        _ => Ok(()),
    }
}

fn token_document(swift: &Swift, call: &Call, token: Token) -> Value {
    let moment = |unix_us| format!("{}Z", clock::format_iso(unix_us));
    let interfaces = ["public", "internal", "admin"].map(|interface| {
        json!({"id": format!("{interface}-{}", swift.region), "interface": interface,
               "region": swift.region, "region_id": swift.region, "url": swift.storage_url(call)})
    });
    json!({"token": {
        "methods": ["password"],
        "issued_at": moment(token.issued_us),
        "expires_at": moment(token.expires_us),
        "catalog": [{"type": "object-store", "name": "swift", "id": "swift",
                     "endpoints": interfaces}],
    }})
}
