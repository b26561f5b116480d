//! The settings of a target of driver `swift`.

use serde_json::{Map, Value};

use crate::credentials::resolve;
use crate::drivers::swift::facts::{FACTS, variable_of};
use crate::error::Error;
use crate::settings::{self, Setting, SettingKind, setting};
use crate::transport::http_target;
use crate::trial::Trial;

/// The driver's keys of a target.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        required: true,
        ..setting(
            "auth_url",
            SettingKind::Text,
            "the authentication URL: .../auth/v1.0 for TempAuth, .../v3 for Keystone",
        )
    },
    setting("auth_version", SettingKind::Number, "1 or 3; guessed from auth_url when absent"),
    setting("user", SettingKind::Text, "the user; for TempAuth ACCOUNT:USER"),
    setting("password", SettingKind::Secret, "where the password, or TempAuth's key, is"),
    setting("project", SettingKind::Text, "the project"),
    Setting {
        default: Some("Default"),
        ..setting("user_domain", SettingKind::Text, "the user's domain")
    },
    setting("project_domain", SettingKind::Text, "the project's domain; the user's when absent"),
    setting(
        "application_credential_id",
        SettingKind::TextOrReference,
        "the id of an application credential, instead of user and password",
    ),
    setting(
        "application_credential_secret",
        SettingKind::Secret,
        "where the application credential's secret is",
    ),
    setting("region", SettingKind::Text, "the region in the catalogue; any when absent"),
    Setting {
        default: Some("public"),
        ..setting(
            "interface",
            SettingKind::Choice(&["public", "internal", "admin"]),
            "the interface in the catalogue",
        )
    },
    setting("storage_url", SettingKind::Text, "the account's URL, instead of the catalogue's"),
    setting(
        "endpoints",
        SettingKind::Texts,
        "proxies that clients spread over, instead of the storage URL's host",
    ),
    setting("storage_policy", SettingKind::Text, "the policy of containers that are made"),
    http_target::TLS,
    http_target::HEADERS,
    http_target::SOURCE,
];

/// Credentials of a log-in.
#[derive(Clone)]
pub(super) enum Login {
    TempAuth {
        user: String,
        key: String,
    },
    Password {
        user: String,
        user_domain: String,
        password: String,
        project: String,
        project_domain: String,
    },
    ApplicationCredential {
        id: String,
        secret: String,
    },
}

impl std::fmt::Debug for Login {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::TempAuth { .. } => "TempAuth",
            Self::Password { .. } => "Password",
            Self::ApplicationCredential { .. } => "ApplicationCredential",
        })
    }
}

impl Login {
    /// Reads the settings, and the secrets that they refer to.
    pub(super) fn read(map: &Map<String, Value>) -> Result<Self, Error> {
        let text = |key: &str| settings::text(map, key).unwrap_or_default().to_owned();
        let secret = |key: &str| resolve(map, key).map(Option::unwrap_or_default);
        if let Some(id) = resolve(map, "application_credential_id")? {
            let secret = secret("application_credential_secret")?;
            return Ok(Self::ApplicationCredential { id, secret });
        }
        if auth_version(map) == 1 {
            return Ok(Self::TempAuth { user: text("user"), key: secret("password")? });
        }
        let user_domain = settings::text(map, "user_domain").unwrap_or("Default").to_owned();
        let project_domain = settings::text(map, "project_domain").unwrap_or(&user_domain);
        Ok(Self::Password {
            user: text("user"),
            password: secret("password")?,
            project: text("project"),
            project_domain: project_domain.to_owned(),
            user_domain,
        })
    }
}

fn auth_version(map: &Map<String, Value>) -> u64 {
    let url = settings::text(map, "auth_url").unwrap_or_default().trim_end_matches('/');
    // Keystone's URL is often given without its version, with its port or its path on a web server.
    let is_keystone = [":5000", ":35357", "/identity", "/keystone"];
    let guessed = match url {
        _ if url.ends_with("/v3") => 3,
        _ if url.contains("/v1") => 1,
        _ if is_keystone.iter().any(|end| url.ends_with(end)) => 3,
        _ if ["project", "user_domain"].iter().any(|key| map.contains_key(*key)) => 3,
        _ => 1,
    };
    map.get("auth_version").and_then(Value::as_u64).unwrap_or(guessed)
}

/// Returns the authentication URL of Keystone for a path.
pub(super) fn keystone_path(path: &str) -> String {
    if path.ends_with("/v3") { path.to_owned() } else { format!("{path}/v3") }
}

/// Returns the mistakes that only this driver can find.
pub(super) fn mistakes(trial: &Trial) -> Vec<String> {
    let map = &trial.target.settings;
    let urls = ["auth_url", "storage_url", "endpoints"];
    let mut mistakes = http_target::mistakes(trial, SETTINGS, &urls, &FACTS.limits);
    let version = auth_version(map);
    if version != 1 && version != 3 {
        mistakes.push(format!("target.settings.auth_version: found {version}, allowed: 1, 3"));
    }
    if let Some(url) = settings::text(map, "auth_url")
        && url.trim_end_matches('/').ends_with("/v2.0")
    {
        mistakes.push(format!(
            "target.settings.auth_url: found \"{url}\", which is of Keystone's version 2, allowed: \
             version 3, as in .../v3"
        ));
    }
    let needed: &[&str] = match (map.contains_key("application_credential_id"), version) {
        (true, _) => &["application_credential_secret"],
        (false, 3) => &["user", "password", "project"],
        (false, _) => &["user", "password"],
    };
    let is_there = |key: &str| map.get(key).is_some_and(|value| !value.is_null());
    for key in needed.iter().filter(|key| !is_there(key)) {
        let variable = variable_of(key, version);
        mistakes.push(format!(
            "target.settings.{key}: missing; authentication of version {version} needs it: give \
             it here, or export {variable}"
        ));
    }
    mistakes
}
