//! The configuration of a store: one JSON document, checked once at the start.

use std::env;
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;

use crate::error::StoreError;
use crate::faults::FaultConfig;

/// The configuration of a [`Store`](crate::Store).
///
/// At least one pair of credentials is required: `access_key` with `secret_key` for S3, `user`
/// with `password` for Swift. The API whose pair is absent answers every request with 401 or 403.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// Address to listen on; loopback by default.
    pub bind: String,
    /// Port to listen on; 0 selects a free one.
    pub port: u16,
    /// S3 access key.
    pub access_key: Option<String>,
    /// S3 secret key.
    pub secret_key: Option<Secret>,
    /// Swift user; a log-in may also use `PROJECT:USER`.
    pub user: Option<String>,
    /// Swift password.
    pub password: Option<Secret>,
    /// Swift project; its account is `AUTH_PROJECT`.
    pub project: String,
    /// Region in the catalogue and in bucket locations.
    pub region: String,
    /// Directory for the objects; without it, they are in memory.
    pub data: Option<PathBuf>,
    /// Whether to flush each object to the disk before it is acknowledged; only with `data`.
    pub fsync: bool,
    /// Maximum number of bytes in memory, including the records of objects.
    pub memory_bytes_max: u64,
    /// Lifetime of a Swift or Keystone token, in seconds.
    pub token_seconds: u64,
    /// Timeout of a connection without a complete head, whether idle or in the middle of a head,
    /// and without another byte of a body in progress, in seconds.
    pub head_seconds: u64,
    /// Number of serving threads; one for each allowed processor when absent.
    pub threads: Option<usize>,
    /// Faults, for tests and calibration.
    pub faults: FaultConfig,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            bind: "127.0.0.1".to_owned(),
            port: 0,
            access_key: None,
            secret_key: None,
            user: None,
            password: None,
            project: "test".to_owned(),
            region: "us-east-1".to_owned(),
            data: None,
            fsync: false,
            memory_bytes_max: 4 << 30,
            token_seconds: 3600,
            head_seconds: 120,
            threads: None,
            faults: FaultConfig::default(),
        }
    }
}

/// A secret: literal, or a reference to an environment variable or a file.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub enum Secret {
    /// The secret itself.
    Literal(String),
    /// The environment variable with the secret.
    Environment {
        /// Name of the variable.
        env: String,
    },
    /// The file with the secret; a line end at its end is removed.
    File {
        /// Path of the file.
        file: PathBuf,
    },
}

// A secret must not reach a log through the configuration's Debug output.
impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Secret::Literal(_) => formatter.write_str("Literal(..)"),
            Secret::Environment { env } => write!(formatter, "Environment({env})"),
            Secret::File { file } => write!(formatter, "File({})", file.display()),
        }
    }
}

impl Secret {
    fn resolve(&self, key: &'static str) -> Result<String, StoreError> {
        let secret = match self {
            Secret::Literal(text) => text.clone(),
            Secret::Environment { env } => env::var(env).map_err(|_| StoreError::Config {
                key,
                problem: format!("environment variable \"{env}\" is not set"),
                hint: "set it, or give the secret by {\"file\": PATH}",
            })?,
            Secret::File { file } => fs::read_to_string(file)
                .map_err(|error| StoreError::Config {
                    key,
                    problem: format!("cannot read \"{}\": {error}", file.display()),
                    hint: "check the path and its permissions",
                })?
                .trim_end_matches(['\n', '\r'])
                .to_owned(),
        };
        if secret.is_empty() {
            return Err(StoreError::Config {
                key,
                problem: "is empty".to_owned(),
                hint: "a store does not start with an empty secret",
            });
        }
        Ok(secret)
    }
}

/// The resolved credentials of both APIs.
#[derive(Clone)]
pub(crate) struct Credentials {
    /// Access key and secret key.
    pub(crate) s3: Option<(String, String)>,
    /// User and password.
    pub(crate) swift: Option<(String, String)>,
}

impl StoreConfig {
    /// Parses a configuration from JSON; unknown keys are errors.
    pub fn parse(json: &str) -> Result<StoreConfig, StoreError> {
        Ok(serde_json::from_str(json)?)
    }

    /// Returns the credentials, or an error that names the missing one.
    pub(crate) fn resolve_credentials(&self) -> Result<Credentials, StoreError> {
        let s3 = resolve_pair("access_key", &self.access_key, "secret_key", &self.secret_key)?;
        let swift = resolve_pair("user", &self.user, "password", &self.password)?;
        if s3.is_none() && swift.is_none() {
            return Err(StoreError::Config {
                key: "access_key",
                problem: "no credentials given".to_owned(),
                hint: "set access_key and secret_key (S3), or user and password (Swift)",
            });
        }
        Ok(Credentials { s3, swift })
    }

    /// Refuses a configuration that no store can use.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let refuse = |key, problem: &str, hint| {
            Err(StoreError::Config { key, problem: problem.to_owned(), hint })
        };
        if self.threads == Some(0) {
            return refuse("threads", "is 0", "leave it out to use every allowed processor");
        }
        if self.token_seconds == 0 {
            return refuse("token_seconds", "is 0", "a token must live for at least one second");
        }
        if self.head_seconds == 0 {
            return refuse("head_seconds", "is 0", "no request is that quick");
        }
        if self.memory_bytes_max < 1 << 20 {
            return refuse("memory_bytes_max", "is below 1 MiB", "give it at least 1048576");
        }
        if self.fsync && self.data.is_none() {
            return refuse("fsync", "is set without data", "name a directory in \"data\"");
        }
        if self.project.is_empty() || self.project.contains(['/', ':']) {
            return refuse("project", "is not a name", "use a name without \"/\" and \":\"");
        }
        self.faults.check()
    }
}

fn resolve_pair(
    name_key: &'static str,
    name: &Option<String>,
    secret_key: &'static str,
    secret: &Option<Secret>,
) -> Result<Option<(String, String)>, StoreError> {
    let missing = |key| StoreError::Config {
        key,
        problem: "is missing while its other half is given".to_owned(),
        hint: "credentials come in pairs: access_key with secret_key, user with password",
    };
    match (name, secret) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(missing(secret_key)),
        (None, Some(_)) => Err(missing(name_key)),
        (Some(name), Some(_)) if name.is_empty() => Err(missing(name_key)),
        (Some(name), Some(secret)) => Ok(Some((name.clone(), secret.resolve(secret_key)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_credentials_does_not_start() {
        let error = StoreConfig::parse("{}").unwrap().resolve_credentials().err().unwrap();
        assert!(error.to_string().contains("no credentials"), "{error}");
    }

    #[test]
    fn half_a_pair_of_credentials_is_refused_and_the_other_half_named() {
        let config = StoreConfig::parse(r#"{"access_key": "a"}"#).unwrap();
        let error = config.resolve_credentials().err().unwrap();
        assert!(error.to_string().contains("secret_key"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let error = StoreConfig::parse(r#"{"acces_key": "a"}"#).unwrap_err();
        assert!(error.to_string().contains("acces_key"), "{error}");
    }

    #[test]
    fn a_secret_can_come_from_a_file_and_never_shows_in_debug_output() {
        let path = env::temp_dir().join(format!("loadstone-secret-{}", std::process::id()));
        fs::write(&path, "hidden\n").unwrap();
        let json = format!(
            r#"{{"access_key": "a", "secret_key": {{"file": {:?}}}, "user": "u", "password": "p4ss"}}"#,
            path
        );
        let config = StoreConfig::parse(&json).unwrap();
        let credentials = config.resolve_credentials().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(credentials.s3.unwrap().1, "hidden");
        assert!(!format!("{config:?}").contains("p4ss"));
    }
}
