//! Features of Swift that this store does not have: refused by name, so that no client relies on
//! them.

use http::{Method, StatusCode};

use super::answer::Failure;
use super::call::Call;

/// Headers, or prefixes of headers, of features that this store does not have.
const HEADERS: [&str; 16] = [
    "x-account-meta-",
    "x-container-meta-access-control-",
    "x-container-meta-quota-",
    "x-container-meta-web-",
    "x-container-read",
    "x-container-sync-",
    "x-container-write",
    "x-copy-from-account",
    "x-delete-after",
    "x-delete-at",
    "x-fresh-metadata",
    "x-history-location",
    "x-object-manifest",
    "x-symlink-target",
    "x-versions-location",
    "destination",
];

/// Parameters of features that this store does not have.
const PARAMETERS: [&str; 10] = [
    "end_marker",
    "extract-archive",
    "heartbeat",
    "part-number",
    "path",
    "reverse",
    "symlink",
    "temp_url_sig",
    "temp_url_prefix",
    "version_marker",
];

/// Refuses features that this store does not have.
pub(super) fn check(call: &Call) -> Result<(), Failure> {
    // An empty value removes something that does not exist.
    let given = call.headers.iter().filter(|(_, value)| !value.is_empty());
    let mut names = given.map(|(name, _)| name.as_str());
    let header = names.find(|name| HEADERS.iter().any(|refused| name.starts_with(refused)));
    let parameter = PARAMETERS.iter().find(|name| call.parameter(name).is_some()).copied();
    let writes = matches!(call.method, Method::POST | Method::PUT);
    let version = ["version-id"].into_iter().find(|name| writes && call.parameter(name).is_some());
    let manifest = call.parameter("multipart-manifest").filter(|action| *action != "put");
    let manifest = manifest.map(|_| "multipart-manifest but \"put\"");
    match header.or(parameter).or(version).or(manifest) {
        None => Ok(()),
        Some(name) => Err(Failure::new(
            StatusCode::NOT_IMPLEMENTED,
            format!("this store has no {name}; its reference lists what it has"),
        )),
    }
}
