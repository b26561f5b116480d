//! The JSON documents of Keystone and Swift.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The user who requests a token from Keystone.
#[derive(Clone, Copy)]
pub enum Identity<'a> {
    /// A user of a domain, with a project of a domain.
    Password {
        /// Name of the user.
        user: &'a str,
        /// Name of the user's domain.
        user_domain: &'a str,
        /// Password of the user.
        password: &'a str,
        /// Name of the project.
        project: &'a str,
        /// Name of the project's domain.
        project_domain: &'a str,
    },
    /// An application credential, which determines user and project.
    ApplicationCredential {
        /// ID of the credential.
        id: &'a str,
        /// Secret of the credential.
        secret: &'a str,
    },
}

/// Returns the body of a token request (Identity API v3).
pub fn token_request(identity: &Identity<'_>) -> Vec<u8> {
    let document = match *identity {
        Identity::Password { user, user_domain, password, project, project_domain } => json!({
            "auth": {
                "identity": {
                    "methods": ["password"],
                    "password": {"user": {
                        "name": user, "domain": {"name": user_domain}, "password": password,
                    }},
                },
                "scope": {"project": {"name": project, "domain": {"name": project_domain}}},
            }
        }),
        Identity::ApplicationCredential { id, secret } => json!({
            "auth": {"identity": {
                "methods": ["application_credential"],
                "application_credential": {"id": id, "secret": secret},
            }}
        }),
    };
    document.to_string().into_bytes()
}

/// Keystone's answer to a token request.
#[derive(Debug, Deserialize)]
pub struct TokenAnswer {
    token: Token,
}

#[derive(Debug, Deserialize)]
struct Token {
    expires_at: Option<String>,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Debug, Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    interface: String,
    region: Option<String>,
    region_id: Option<String>,
    url: String,
}

impl TokenAnswer {
    /// Parses the body of an answer.
    ///
    /// # Errors
    ///
    /// The error of serde for any other body.
    pub fn parse(body: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// Returns when the token expires, in seconds since 1970.
    pub fn expires_unix_s(&self) -> Option<u64> {
        crate::date::parse_iso8601(self.token.expires_at.as_deref()?)
    }

    /// Returns the URL of the object store in the catalogue; in any region if `region` is `None`.
    pub fn object_store_url(&self, interface: &str, region: Option<&str>) -> Option<&str> {
        self.object_stores()
            .find(|endpoint| {
                let its_region = endpoint.region.as_deref().or(endpoint.region_id.as_deref());
                endpoint.interface == interface && (region.is_none() || its_region == region)
            })
            .map(|endpoint| endpoint.url.as_str())
    }

    /// Lists the object stores of the catalogue, for an error message.
    pub fn object_stores_text(&self) -> String {
        let names: Vec<String> = self
            .object_stores()
            .map(|endpoint| {
                let region = endpoint.region.as_deref().or(endpoint.region_id.as_deref());
                format!("{} in region \"{}\"", endpoint.interface, region.unwrap_or(""))
            })
            .collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    fn object_stores(&self) -> impl Iterator<Item = &Endpoint> {
        let services = self.token.catalog.iter().filter(|service| service.kind == "object-store");
        services.flat_map(|service| &service.endpoints)
    }
}

/// One entry of a container's listing: an object, or a common prefix.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum ContainerEntry {
    /// An object.
    Object {
        /// Name of the object.
        name: String,
        /// Size in bytes.
        bytes: u64,
    },
    /// The common start of several names, up to the delimiter.
    Prefix {
        /// The prefix, including the delimiter.
        subdir: String,
    },
}

impl ContainerEntry {
    /// Returns the name or the prefix, which is the marker of the next page.
    pub fn name(&self) -> &str {
        match self {
            Self::Object { name, .. } => name,
            Self::Prefix { subdir } => subdir,
        }
    }
}

/// Parses one page of a container's listing.
///
/// # Errors
///
/// The error of serde for any other body.
pub fn parse_container_page(body: &[u8]) -> Result<Vec<ContainerEntry>, serde_json::Error> {
    serde_json::from_slice(body)
}

/// One object in a container's listing.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub struct ListedObject {
    /// Name of the object; absent for a common prefix.
    pub name: Option<String>,
    /// Size in bytes; for a dynamic large object, that of its manifest.
    pub bytes: Option<u64>,
    /// ETag; for a large object, that of its manifest.
    pub hash: Option<String>,
}

/// Parses a page of a container's listing with all data of its objects.
///
/// # Errors
///
/// The error of serde for any other body.
pub fn parse_objects(body: &[u8]) -> Result<Vec<ListedObject>, serde_json::Error> {
    serde_json::from_slice(body)
}

/// One segment of a static large object.
#[derive(Clone, Debug, Serialize)]
pub struct Segment {
    /// Path of the segment: `/container/object`
    pub path: String,
    /// MD5 that the store returned for it.
    pub etag: String,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// Returns the manifest of a static large object.
pub fn segment_manifest(segments: &[Segment]) -> Vec<u8> {
    serde_json::to_vec(segments).expect("texts and numbers always have a JSON form")
}

/// Result of a bulk request of Swift, whose HTTP status is always 200.
#[derive(Debug, PartialEq, Eq)]
pub struct BulkAnswer {
    /// Actual status, such as 200 or 400.
    pub status: u16,
    /// Number of deleted objects.
    pub deleted: u64,
    /// Number of objects that did not exist.
    pub not_found: u64,
    /// Failures of single objects: name and status line.
    pub errors: Vec<(String, String)>,
}

/// Parses the answer to a bulk delete.
///
/// # Errors
///
/// The error of serde for any other body.
pub fn parse_bulk_answer(body: &[u8]) -> Result<BulkAnswer, serde_json::Error> {
    // During a long request, Swift keeps the connection alive with blanks before the document.
    let document: Value = serde_json::from_slice(body.trim_ascii())?;
    let count = |key: &str| document[key].as_u64().unwrap_or(0);
    let status = document["Response Status"].as_str().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let errors = document["Errors"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(BulkAnswer {
        status: status.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(0),
        deleted: count("Number Deleted"),
        not_found: count("Number Not Found"),
        errors: errors.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_requests_a_token_for_its_project() {
        let identity = Identity::Password {
            user: "tester",
            user_domain: "Default",
            password: "se\"cret",
            project: "test",
            project_domain: "lab",
        };
        let document: Value = serde_json::from_slice(&token_request(&identity)).unwrap();
        let auth = &document["auth"];
        assert_eq!(auth["identity"]["methods"], json!(["password"]));
        assert_eq!(auth["identity"]["password"]["user"]["password"], "se\"cret");
        assert_eq!(auth["scope"]["project"]["domain"]["name"], "lab");
    }

    #[test]
    fn an_application_credential_requests_no_scope() {
        let identity = Identity::ApplicationCredential { id: "i", secret: "s" };
        let document: Value = serde_json::from_slice(&token_request(&identity)).unwrap();
        assert_eq!(document["auth"]["identity"]["application_credential"]["id"], "i");
        assert_eq!(document["auth"].get("scope"), None);
    }

    const ANSWER: &str = r#"{"token": {"methods": ["password"],
        "expires_at": "2013-05-24T00:00:00.000000Z", "catalog": [
        {"type": "identity", "name": "keystone", "endpoints": []},
        {"type": "object-store", "endpoints": [
            {"interface": "public", "region": "one", "region_id": "one", "url": "http://p1/v1/A"},
            {"interface": "internal", "region_id": "one", "url": "http://i1/v1/A"},
            {"interface": "public", "region": "two", "url": "http://p2/v1/A"}]}]}}"#;

    #[test]
    fn the_catalogue_is_searched_by_interface_and_region() {
        let answer = TokenAnswer::parse(ANSWER.as_bytes()).unwrap();
        assert_eq!(answer.expires_unix_s(), Some(1_369_353_600));
        assert_eq!(answer.object_store_url("public", None), Some("http://p1/v1/A"));
        assert_eq!(answer.object_store_url("public", Some("two")), Some("http://p2/v1/A"));
        assert_eq!(answer.object_store_url("internal", Some("one")), Some("http://i1/v1/A"));
        assert_eq!(answer.object_store_url("admin", None), None);
        assert!(answer.object_stores_text().contains("internal in region \"one\""));
    }

    #[test]
    fn a_token_without_a_catalogue_has_no_object_store() {
        let answer = TokenAnswer::parse(br#"{"token": {"expires_at": null}}"#).unwrap();
        assert_eq!(answer.object_store_url("public", None), None);
        assert_eq!((answer.expires_unix_s(), answer.object_stores_text().as_str()), (None, "none"));
        assert!(TokenAnswer::parse(b"<html>").is_err());
    }

    #[test]
    fn a_page_holds_objects_and_prefixes() {
        let page = parse_container_page(
            br#"[{"hash": "x", "name": "a/1", "bytes": 10, "content_type": "t"}, {"subdir": "b/"}]"#,
        )
        .unwrap();
        assert_eq!(page[0], ContainerEntry::Object { name: "a/1".to_owned(), bytes: 10 });
        assert_eq!(page[1].name(), "b/");
    }

    #[test]
    fn a_bulk_answer_has_the_actual_status() {
        let answer = parse_bulk_answer(
            br#"   {"Number Not Found": 1, "Response Status": "400 Bad Request",
            "Number Deleted": 9, "Errors": [["/c/o", "503 Busy"]], "Response Body": ""}"#,
        )
        .unwrap();
        assert_eq!((answer.status, answer.deleted, answer.not_found), (400, 9, 1));
        assert_eq!(answer.errors, [("/c/o".to_owned(), "503 Busy".to_owned())]);
    }

    #[test]
    fn a_manifest_names_its_segments_in_order() {
        let segment = |number: u64| Segment {
            path: format!("/c/s{number}"),
            etag: "e".to_owned(),
            size_bytes: number,
        };
        let manifest = segment_manifest(&[segment(1), segment(2)]);
        let document: Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(document[1], json!({"path": "/c/s2", "etag": "e", "size_bytes": 2}));
    }
}
