//! Facts about stores with a Swift API.

use serde_json::{Value, json};

use crate::facts::{
    Address, AddressKind, Calibration, Facts, Filling, Form, Limits, StandIn, Throttling, Variable,
};
use crate::operation::Operation;

const PLACE: &[Variable] = &[
    Variable::new("OS_AUTH_URL", "auth_url"),
    Variable::new("OS_STORAGE_URL", "storage_url"),
    Variable::new("OS_PROJECT_NAME", "project"),
    Variable::new("OS_TENANT_NAME", "project"),
    Variable::new("OS_USER_DOMAIN_NAME", "user_domain"),
    Variable::new("OS_PROJECT_DOMAIN_NAME", "project_domain"),
    Variable::new("OS_REGION_NAME", "region"),
    Variable::new("OS_CACERT", "tls.ca_file"),
];
const INTERFACE: &[Variable] =
    &[Variable::new("OS_INTERFACE", "interface"), Variable::new("OS_ENDPOINT_TYPE", "interface")];
const PASSWORD: &[Variable] =
    &[Variable::new("OS_USERNAME", "user"), Variable::secret("OS_PASSWORD", "password")];
const APPLICATION: &[Variable] = &[
    Variable::new("OS_APPLICATION_CREDENTIAL_ID", "application_credential_id"),
    Variable::secret("OS_APPLICATION_CREDENTIAL_SECRET", "application_credential_secret"),
];
const VERSION_1: &[Variable] = &[
    Variable::new("ST_AUTH", "auth_url"),
    Variable::new("ST_USER", "user"),
    Variable::secret("ST_KEY", "password"),
];

pub(super) const FACTS: Facts = Facts {
    encrypts_paths: true,
    reads_existing: true,
    metadata_follows: true,
    // The segments of an object are replaced one by one.
    tears: &[Operation::MultipartPut],
    place: "container",
    address: Address {
        kind: AddressKind::Urls,
        settings: &["endpoints", "storage_url", "auth_url"],
    },
    connects: true,
    protocol: "Swift",
    words: &["swift", "swift+http://HOST:PORT/v3", "swift+http://HOST/auth/v1.0"],
    forms: &[
        Form::Name,
        Form::NamedUrl("auth_url"),
        Form::KnownUrl("auth_url", |url| is_version_1(url) || is_keystone(url)),
    ],
    environment: &[PLACE, INTERFACE, PASSWORD, APPLICATION, VERSION_1],
    fill,
    limits: Limits {
        put_bytes_max: Some(5 << 30),
        parts_max: Some(1000),
        bulk_keys_max: Some(10_000),
        key_bytes_max: Some(1024),
        ..Limits::NONE
    },
    // Older versions of its rate limiter answer 498.
    throttling: Throttling { statuses: &[429, 498], codes: &[] },
    calibration: Some(Calibration {
        stand_in: StandIn::Server,
        settings: &[
            ("auth_url", "http://{address}/v3"),
            ("project", "null"),
            ("user", "null"),
            ("password", "{secret}"),
        ],
        usual: CALIBRATED,
        can: CALIBRATED,
        costs: &[],
    }),
    ..Facts::PLAIN
};

const CALIBRATED: &[Operation] =
    &[Operation::Put, Operation::Get, Operation::Head, Operation::Delete];

/// Returns whether a URL is one of version 1 authentication, such as TempAuth.
fn is_version_1(url: &str) -> bool {
    url.contains("/auth/v1")
}

/// Returns whether a URL is Keystone's, by its version or by its port.
fn is_keystone(url: &str) -> bool {
    let port = url.split_once(":5000").map(|(_, rest)| rest);
    url.trim_end_matches('/').ends_with("/v3")
        || port.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Credentials are filled as a set or not at all.
fn fill(filling: &mut Filling<'_>) {
    let auth_url = filling.setting("auth_url").and_then(Value::as_str);
    let says_version_1 = filling.setting("auth_version").and_then(Value::as_u64) == Some(1)
        || auth_url.is_some_and(is_version_1);
    let has = |name| filling.variable(name).is_some();
    let means_version_1 = auth_url.is_none() && !has("OS_AUTH_URL") && has("ST_AUTH");
    if says_version_1 || means_version_1 {
        filling.fill(VERSION_1);
        return;
    }
    filling.fill(PLACE);
    if !filling.has_any(&["user", "password", "application_credential_id"]) {
        let is_application = filling.variable(APPLICATION[0].name).is_some();
        filling.fill(if is_application { APPLICATION } else { PASSWORD });
    } else if filling.has_any(&["user"]) {
        // Another user's password would only cause a confusing refusal.
        let owner = filling.variable(PASSWORD[0].name).map(|name| json!(name));
        if owner.is_none() || filling.setting("user") == owner.as_ref() {
            filling.fill(PASSWORD);
        }
    }
    // python-openstackclient says "internal", older programs "internalURL".
    if let Some(name) = INTERFACE.iter().find_map(|variable| filling.variable(variable.name)) {
        filling.add("interface", json!(name.strip_suffix("URL").unwrap_or(name)));
    }
}

/// Returns the variable that fills a setting, for authentication of a version.
pub(super) fn variable_of(setting: &str, version: u64) -> &'static str {
    let of_version = if version == 1 { VERSION_1 } else { PASSWORD };
    let all = of_version.iter().chain(PLACE).chain(APPLICATION);
    all.filter(|variable| variable.setting == setting)
        .map(|variable| variable.name)
        .next()
        .unwrap_or_default()
}
