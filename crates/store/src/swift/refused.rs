//! What Swift has and this store has not: refused by name, so that no client relies on it.

use http::StatusCode;

use super::answer::Failure;
use super::call::Call;

/// Headers, or beginnings of headers, of what this store does not do.
const HEADERS: [&str; 15] = [
    "x-account-access-control",
    "x-account-meta-quota-",
    "x-account-quota-",
    "x-container-meta-access-control-",
    "x-container-meta-quota-",
    "x-container-meta-web-",
    "x-container-sync-",
    "x-copy-from-account",
    "x-delete-at-container",
    "x-destination-account",
    "destination-account",
    "x-history-location",
    "x-symlink-target-account",
    "x-symlink-target-etag",
    "x-versions-location",
];

/// Parameters of what this store does not do.
const PARAMETERS: [&str; 5] =
    ["part-number", "version_marker", "temp_url_prefix", "temp_url_ip_range", "heartbeat"];

/// Refuses what this store does not do.
pub(super) fn check(call: &Call) -> Result<(), Failure> {
    // An empty value takes away what is not there.
    let given = call.headers.iter().filter(|(_, value)| !value.is_empty());
    let mut names = given.map(|(name, _)| name.as_str());
    let header = names.find(|name| HEADERS.iter().any(|refused| name.starts_with(refused)));
    let parameter = PARAMETERS.iter().find(|name| call.parameter(name).is_some()).copied();
    let has_version = call.parameter("version-id").is_some();
    if has_version && call.method == http::Method::POST {
        // As Swift answers: what is said of a version is said when it is written.
        return Err(Failure::new(StatusCode::BAD_REQUEST, "a POST changes no version by its name"));
    }
    let version =
        (has_version && call.method == http::Method::PUT).then_some("PUT with version-id");
    let form = call
        .header("content-type")
        .filter(|kind| call.method == http::Method::POST && kind.starts_with("multipart/form-data"))
        .map(|_| "an upload by a form");
    match header.or(parameter).or(version).or(form) {
        None => Ok(()),
        Some(what) => Err(Failure::new(
            StatusCode::NOT_IMPLEMENTED,
            format!("this store has no {what}; its reference lists what it has"),
        )),
    }
}
