//! Resolves secrets. The trial refers to them, and they are read only here, when a driver opens.

use loadstone_wire::sigv4;
use serde_json::{Map, Value};

use crate::error::{Error, Kind};
use crate::secrecy::{file_named, remember, variable_named};
use crate::settings::{Setting, SettingKind};

mod aws;
mod given;
mod keeper;
mod sent;
mod service;

use aws::Files;
pub(crate) use keeper::{AccessKeys, KeyKeeper};
use keeper::{Source, had_or_new};
pub use sent::{Sent, keep_sent};

/// Returns the text of a setting, or what it refers to; `None` if the setting is absent.
///
/// # Errors
/// The environment variable is not set, or the file cannot be read.
pub(crate) fn resolve(settings: &Map<String, Value>, key: &str) -> Result<Option<String>, Error> {
    let action = || format!("read setting \"{key}\"");
    // The name of a user is not a secret, and messages need it.
    let is_name = matches!(key, "access_key" | "application_credential_id");
    let checked = if is_name { line } else { secret };
    match settings.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(value) => {
            let reference = |kind| value.get(kind).and_then(Value::as_str);
            if let Some(name) = reference("env") {
                let value = variable(name).ok_or_else(|| {
                    let named = variable_named(name);
                    Error::target(action(), format!("there is no environment variable {named}"))
                        .of(Kind::SecretAbsent)
                        .with_hint(
                            "export it, or refer to a file instead: {env: NAME}, {file: PATH}",
                        )
                })?;
                return checked(value, &format!("environment variable \"{name}\"")).map(Some);
            }
            let Some(path) = reference("file") else {
                return Err(Error::target(action(), "it is neither a text nor a reference"));
            };
            match sent::file(path).map_or_else(|| std::fs::read_to_string(path), Ok) {
                Ok(text) => {
                    let value = text.trim_end_matches(['\r', '\n']).to_owned();
                    checked(value, &format!("file \"{path}\"")).map(Some)
                }
                Err(error) => {
                    let hint = match error.kind() {
                        std::io::ErrorKind::NotFound => {
                            "give the path of a file that is there: {file: PATH}"
                        }
                        _ => "give a text file that this user can read",
                    };
                    Err(Error::target(action(), format!("file {}: {error}", file_named(path)))
                        .of(Kind::SecretAbsent)
                        .with_hint(hint))
                }
            }
        }
    }
}

/// Returns a secret, and remembers it so that it is blotted from all answers.
///
/// # Errors
/// It contains a control character: in a header, a line break would begin another header.
fn secret(value: String, place: &str) -> Result<String, Error> {
    remember(place, &value);
    line(value, place)
}

/// Returns a value that is used in a header.
fn line(value: String, place: &str) -> Result<String, Error> {
    if value.chars().any(char::is_control) {
        return Err(Error::target(
            format!("use the value in {place}"),
            "it holds a line break or another control character",
        )
        .with_hint(
            "a key or password is one line of text: see that nothing else was put in with it",
        ));
    }
    Ok(value)
}

/// Returns the error of the first setting whose reference, such as `{env: NAME}`, cannot be
/// resolved.
pub(crate) fn dangling(settings: &Map<String, Value>, kinds: &[Setting]) -> Option<Error> {
    let may_refer = |kind| matches!(kind, SettingKind::Secret | SettingKind::TextOrReference);
    kinds
        .iter()
        .filter(|setting| may_refer(setting.kind))
        .find_map(|setting| resolve(settings, setting.name).err())
}

/// Credentials and region of an S3 account.
#[derive(Debug)]
pub(crate) struct S3Account {
    /// The access keys, which are renewed as long as this value exists.
    pub keys: KeyKeeper,
    /// The region, if the files or the environment name one.
    pub region: Option<String>,
}

impl S3Account {
    fn of(credentials: sigv4::Credentials, region: Option<String>) -> Result<Self, Error> {
        let keys = AccessKeys { credentials, expires_unix_s: None };
        Ok(Self { keys: KeyKeeper::start(keys, None)?, region })
    }
}

/// Finds the keys of an S3 target: in its settings, else in its profile, else in the environment,
/// else in the default profile.
///
/// # Errors
/// No complete pair of keys is found, or a reference cannot be resolved.
pub(crate) fn s3_account(settings: &Map<String, Value>) -> Result<S3Account, Error> {
    let access_key = resolve(settings, "access_key")?;
    let secret_key = resolve(settings, "secret_key")?;
    let session_token = resolve(settings, "session_token")?;
    let env_region = || env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION"));
    match (access_key, secret_key) {
        (Some(access_key), Some(secret_key)) => {
            let credentials = sigv4::Credentials { access_key, secret_key, session_token };
            return S3Account::of(credentials, None);
        }
        (None, None) => {}
        (access_key, _) => {
            let missing = if access_key.is_some() { "secret_key" } else { "access_key" };
            return Err(Error::target("find the keys of the target", format!("no {missing}"))
                .of(Kind::SecretAbsent)
                .with_hint("give both keys, or neither and a profile"));
        }
    }
    let named = settings.get("profile").and_then(Value::as_str);
    if named.is_none()
        && let (Some(access_key), Some(secret_key)) =
            (env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"))
    {
        let of = |name: &str| format!("environment variable \"{name}\"");
        let access_key = line(access_key, &of("AWS_ACCESS_KEY_ID"))?;
        let secret_key = secret(secret_key, &of("AWS_SECRET_ACCESS_KEY"))?;
        let session_token = env("AWS_SESSION_TOKEN")
            .map(|token| secret(token, &of("AWS_SESSION_TOKEN")))
            .transpose()?;
        let credentials = sigv4::Credentials { access_key, secret_key, session_token };
        return S3Account::of(credentials, env_region());
    }
    let name = named.map(str::to_owned).or_else(|| env("AWS_PROFILE"));
    let name = name.unwrap_or_else(|| "default".to_owned());
    let files = Files::read();
    let region = files.profile(&name)?.get("region").cloned().or_else(env_region);
    let identity = files.identity(&name);
    let source: Box<Source> =
        Box::new(move |stop| files.keys(&name, stop)?.ok_or_else(|| no_keys(&name)));
    let keys = had_or_new(&identity, &*source)?;
    Ok(S3Account { keys: KeyKeeper::start(keys, Some((identity, source)))?, region })
}

/// Returns why an S3 target has no keys on this host, according to its settings, the environment
/// and AWS's files. Runs no command and contacts no server.
pub(crate) fn keyless(settings: &Map<String, Value>) -> Option<Error> {
    let is_given = |key| settings.get(key).is_some_and(|value| !value.is_null());
    if is_given("access_key") || is_given("secret_key") {
        return None;
    }
    let named = settings.get("profile").and_then(Value::as_str);
    let variables = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    if named.is_none() && variables.into_iter().all(|name| env(name).is_some()) {
        return None;
    }
    let name = named.map(str::to_owned).or_else(|| env("AWS_PROFILE"));
    let name = name.unwrap_or_else(|| "default".to_owned());
    match Files::read().has_way(&name) {
        Ok(true) => None,
        Ok(false) => Some(no_keys(&name)),
        Err(error) => Some(error),
    }
}

fn no_keys(profile: &str) -> Error {
    let variables = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    let environment = match variables.map(|name| env(name).is_some()) {
        [true, false] => "AWS_ACCESS_KEY_ID without AWS_SECRET_ACCESS_KEY in the environment",
        [false, true] => "AWS_SECRET_ACCESS_KEY without AWS_ACCESS_KEY_ID in the environment",
        _ => "none in the environment",
    };
    let reason =
        format!("no access_key in the settings, {environment}, and profile \"{profile}\" has none");
    Error::target("find the keys of the target", reason).of(Kind::SecretAbsent).with_hint(
        "give access_key and secret_key: {env: NAME}, or export AWS_ACCESS_KEY_ID and \
         AWS_SECRET_ACCESS_KEY",
    )
}

/// Returns the commands that this host would run to obtain the keys of a profile.
#[must_use]
pub fn profile_commands(profile: &str) -> Vec<String> {
    Files::read().commands(profile)
}

fn env(name: &str) -> Option<String> {
    variable(name).filter(|value| !value.is_empty())
}

/// Returns an environment variable: the controller's value if it sent one, else this host's own.
fn variable(name: &str) -> Option<String> {
    sent::variable(name).or_else(|| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else { panic!("the test's settings are a map") };
        map
    }

    #[test]
    fn a_file_is_read_without_its_last_line_break() {
        let path = std::env::temp_dir().join(format!("loadstone-secret-{}", std::process::id()));
        std::fs::write(&path, "hunter2\n").expect("the temporary directory is writable");
        let settings = map(json!({"password": {"file": path.to_str()}}));
        let password = resolve(&settings, "password");
        std::fs::remove_file(&path).expect("it was just written");
        assert_eq!(password.expect("it is readable").as_deref(), Some("hunter2"));
    }

    #[test]
    fn an_unresolved_reference_is_named_in_the_error() {
        let settings =
            map(json!({"a": {"env": "LOADSTONE_NO_SUCH"}, "b": {"file": "/tmp/no/such"}}));
        let text = |key| resolve(&settings, key).expect_err("nothing is there").to_string();
        assert!(text("a").contains("LOADSTONE_NO_SUCH"), "{}", text("a"));
        assert!(text("b").contains("/tmp/no/such"), "{}", text("b"));
    }

    #[test]
    fn a_secret_in_place_of_a_path_is_not_repeated() {
        for secret in ["hunter2", "wJalrXUtnFEMI/K7MDENG", "/wJalrXUtnFEMI", "Tr0ub4dor.3"] {
            let settings = map(json!({"password": {"file": secret}}));
            let error = resolve(&settings, "password").expect_err("nothing is there").to_string();
            assert!(!error.contains(secret), "{error}");
        }
    }

    #[test]
    fn a_line_break_inside_a_secret_is_refused_and_not_repeated() {
        let path = std::env::temp_dir().join(format!("loadstone-broken-{}", std::process::id()));
        for value in ["hunter\r\nX-Evil: 1", "hunter\nx", "hunter\0x", "hunter\x1b[31m"] {
            std::fs::write(&path, value).expect("the temporary directory is writable");
            let settings = map(json!({"password": {"file": path.to_str()}}));
            let error = resolve(&settings, "password").expect_err(value).to_string();
            assert!(error.contains("control character") && !error.contains("hunter"), "{error}");
        }
        std::fs::remove_file(&path).expect("it was just written");
    }

    #[test]
    fn keys_in_the_settings_take_precedence_and_half_a_pair_is_refused() {
        let account = s3_account(&map(json!({"access_key": "a", "secret_key": "s"})));
        assert_eq!(account.expect("both are there").keys.credentials().access_key, "a");
        let error = s3_account(&map(json!({"access_key": "a"}))).expect_err("half a pair");
        assert!(error.to_string().contains("no secret_key"), "{error}");
    }
}
