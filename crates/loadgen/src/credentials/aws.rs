//! Obtains the keys of an AWS profile: static keys, the output of a process, a log-in of `aws sso
//! login`, or a role assumed with the keys of another profile.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use loadstone_wire::credentials::{Section, read_profile, read_section};
use loadstone_wire::date::parse_iso8601;
use loadstone_wire::digest::sha256;
use loadstone_wire::encode::{hex_of_sha256, write_hex, write_query};
use loadstone_wire::http1::{self, Method};
use loadstone_wire::sigv4::{self, Credentials, Payload, Signer};
use serde_json::Value;

use super::given::{missing, of_credential_source, of_process, temporary, written};
use super::keeper::AccessKeys;
use super::service::Service;
use super::{env, secret};
use crate::clock::unix_ns;
use crate::error::{Error, Kind};
use crate::transport::endpoint::Url;

/// Maximum number of profiles that refer to one another.
const CHAIN_MAX: usize = 8;
const SESSION_NAME: &str = "loadstone";
const OF_A_POD: [(&str, &str); 3] = [
    ("role_arn", "AWS_ROLE_ARN"),
    ("web_identity_token_file", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    ("role_session_name", "AWS_ROLE_SESSION_NAME"),
];

/// The text of the user's files, and the relevant environment variables.
#[derive(Debug, Clone)]
pub(super) struct Files {
    credentials: (PathBuf, String),
    config: (PathBuf, String),
}

/// How a profile obtains its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way<'a> {
    Role(&'a str),
    Sso,
    Written,
    Process(&'a str),
    Nothing,
}

impl Way<'_> {
    /// Checks in the same order as AWS's own tools.
    fn of(profile: &Section) -> Way<'_> {
        let value = |key| profile.get(key).map(String::as_str).filter(|value| !value.is_empty());
        if let Some(role) = value("role_arn") {
            Way::Role(role)
        } else if value("sso_account_id").is_some() || value("sso_role_name").is_some() {
            Way::Sso
        } else if value("aws_access_key_id").is_some() {
            Way::Written
        } else {
            value("credential_process").map_or(Way::Nothing, Way::Process)
        }
    }
}

impl Files {
    pub(super) fn read() -> Self {
        // An absent file counts as empty; both may be absent.
        let read = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            (path, text)
        };
        Self {
            credentials: read(aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials")),
            config: read(aws_file("AWS_CONFIG_FILE", "config")),
        }
    }

    /// Returns a text without secrets that identifies the keys of a profile.
    pub(super) fn identity(&self, name: &str) -> String {
        let texts = [&self.credentials.1, &self.config.1].map(|text| sha256(text.as_bytes()));
        let variables = [
            "AWS_ENDPOINT_URL_STS",
            "AWS_ENDPOINT_URL_SSO",
            "AWS_ENDPOINT_URL",
            "AWS_ROLE_ARN",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_ACCESS_KEY_ID",
            "HOME",
        ];
        let variables = variables.map(env);
        format!("{name:?} {texts:?} {variables:?}")
    }

    /// Returns a profile; the default profile may be empty.
    pub(super) fn profile(&self, name: &str) -> Result<Section, Error> {
        match read_profile(&self.credentials.1, &self.config.1, name) {
            None if name != "default" => {
                let (credentials_path, config_path) =
                    (self.credentials.0.display(), self.config.0.display());
                let places = format!("it is not in {credentials_path} or {config_path}");
                Err(Error::target(format!("find profile \"{name}\""), places)
                    .of(Kind::SecretAbsent))
            }
            found => {
                let mut profile = found.unwrap_or_default();
                // In a pod, the environment replaces an empty default profile.
                if name == "default" && Way::of(&profile) == Way::Nothing {
                    for (key, variable) in OF_A_POD {
                        profile.extend(env(variable).map(|value| (key.to_owned(), value)));
                    }
                }
                Ok(profile)
            }
        }
    }

    /// Returns the commands to run to obtain the keys of a profile.
    pub(super) fn commands(&self, name: &str) -> Vec<String> {
        let mut name = name.to_owned();
        for _ in 0..CHAIN_MAX {
            let Ok(profile) = self.profile(&name) else { break };
            match Way::of(&profile) {
                Way::Process(command) => return vec![command.to_owned()],
                Way::Role(_) => match profile.get("source_profile") {
                    Some(source) if *source != name => name.clone_from(source),
                    _ => break,
                },
                _ => break,
            }
        }
        Vec::new()
    }

    /// Returns whether a profile defines how to obtain keys.
    pub(super) fn has_way(&self, name: &str) -> Result<bool, Error> {
        Ok(Way::of(&self.profile(name)?) != Way::Nothing)
    }

    /// Obtains the keys of a profile; `None` if it does not define how.
    pub(super) fn keys(&self, name: &str, stop: &AtomicBool) -> Result<Option<AccessKeys>, Error> {
        self.keys_in_chain(name, &self.profile(name)?, &mut Vec::new(), stop)
    }

    fn keys_in_chain(
        &self,
        name: &str,
        outer: &Section,
        chain: &mut Vec<String>,
        stop: &AtomicBool,
    ) -> Result<Option<AccessKeys>, Error> {
        let profile = self.profile(name)?;
        let action = format!("get the keys of profile \"{name}\"");
        if chain.len() >= CHAIN_MAX || chain.iter().any(|earlier| earlier == name) {
            let text = format!(
                "its profiles refer to each other in a circle: {} → {name}",
                chain.join(" → ")
            );
            return Err(Error::target(action, text).with_hint("check the entries source_profile"));
        }
        chain.push(name.to_owned());
        match Way::of(&profile) {
            Way::Nothing => Ok(None),
            Way::Written => written(&action, name, &profile).map(Some),
            Way::Process(command) => of_process(&action, command, stop).map(Some),
            Way::Sso => self.of_sso(&action, &profile, outer, stop).map(Some),
            Way::Role(role) => {
                let role = Role { what: &action, arn: role, profile: &profile, outer };
                if let Some(serial) = profile.get("mfa_serial") {
                    return Err(Error::target(
                        &*action,
                        format!("role \"{}\" requires a code of the device {serial}", role.arn),
                    )
                    .of(Kind::SecretAbsent)
                    .with_hint(
                        "loadstone cannot ask for a code: log in with it beforehand \
                         (aws sts get-session-token) and give the temporary keys",
                    ));
                }
                if let Some(file) = profile.get("web_identity_token_file") {
                    return role.assume_by_token(Path::new(file), stop).map(Some);
                }
                let source = match (profile.get("source_profile"), profile.get("credential_source"))
                {
                    (Some(itself), None) if itself == name => written(&action, name, &profile)?,
                    (Some(source), None) => {
                        self.keys_in_chain(source, outer, chain, stop)?.ok_or_else(|| {
                            missing(&action, &format!("keys in profile \"{source}\""))
                        })?
                    }
                    (None, Some(source)) => of_credential_source(&action, source, stop)?,
                    _ => return Err(missing(&action, "one of source_profile, credential_source")),
                };
                role.assume(source.credentials, stop).map(Some)
            }
        }
    }

    /// Obtains keys for the token that `aws sso login` has stored.
    fn of_sso(
        &self,
        action: &str,
        profile: &Section,
        outer: &Section,
        stop: &AtomicBool,
    ) -> Result<AccessKeys, Error> {
        let session = match profile.get("sso_session") {
            None => None,
            Some(name) => {
                let section = read_section(&self.config.1, &format!("sso-session {name}"));
                let section = section
                    .ok_or_else(|| missing(action, &format!("a section [sso-session {name}]")))?;
                Some((name, section))
            }
        };
        let of = |key: &str| {
            let value_of_session = session.as_ref().and_then(|(_, section)| section.get(key));
            value_of_session
                .or_else(|| profile.get(key))
                .cloned()
                .ok_or_else(|| missing(action, key))
        };
        let (account, role, region) =
            (of("sso_account_id")?, of("sso_role_name")?, of("sso_region")?);
        let cached_as = match &session {
            Some((name, _)) => (*name).clone(),
            None => of("sso_start_url")?,
        };
        let mut name = Vec::new();
        write_hex(&mut name, digest(&SHA1_FOR_LEGACY_USE_ONLY, cached_as.as_bytes()).as_ref());
        let name = format!("{}.json", String::from_utf8_lossy(&name));
        let path = home().join(".aws/sso/cache").join(name);
        let log_in = "run: aws sso login, with this profile";
        let text = std::fs::read_to_string(&path).map_err(|error| {
            Error::target(action, format!("token \"{}\": {error}", path.display()))
                .of(Kind::SecretAbsent)
                .with_hint(log_in)
        })?;
        let token: Value = serde_json::from_str(&text).unwrap_or_default();
        let of_token = |key: &str| token.get(key).and_then(Value::as_str);
        let value = of_token("accessToken").ok_or_else(|| missing(action, "accessToken"))?;
        // Older versions write the time zone as a word.
        let expires_s = of_token("expiresAt").map(|text| text.replace("UTC", "Z"));
        let expires_s = expires_s.as_deref().and_then(parse_iso8601);
        if expires_s.is_some_and(|expires_s| expires_s <= unix_ns() / 1_000_000_000) {
            let text = format!("the token in \"{}\" has ended", path.display());
            return Err(Error::target(action, text).of(Kind::SecretAbsent).with_hint(log_in));
        }
        let place = format!("the token of aws sso login \"{}\"", path.display());
        let value = secret(value.to_owned(), &place)?;
        let url = endpoint(outer, "SSO")
            .unwrap_or_else(|| format!("https://portal.sso.{region}.{}", suffix(&region)));
        let service = Service { hint_unknown: Some(log_in), ..Service::at(&url, action)? };
        let mut query = Vec::new();
        let parameters =
            [("account_id", Some(account.as_bytes())), ("role_name", Some(role.as_bytes()))];
        write_query(&mut query, &parameters);
        let path = format!("/federation/credentials?{}", String::from_utf8_lossy(&query));
        let body = service.ask(
            stop,
            (Method::Get, &path),
            |url, head| {
                http1::header(head, "host", url.host_header().as_bytes());
                http1::header(head, "x-amz-sso_bearer_token", value.as_bytes());
            },
            Vec::new(),
        )?;
        let answer: Value = serde_json::from_str(&body).unwrap_or_default();
        let keys = answer.get("roleCredentials").cloned().unwrap_or_default();
        let of = |key: &str| keys.get(key).and_then(Value::as_str).map(str::to_owned);
        let expires_s = keys.get("expiration").and_then(Value::as_u64).map(|ms| ms / 1000);
        temporary(action, [of("accessKeyId"), of("secretAccessKey"), of("sessionToken")], expires_s)
    }
}

/// A role, and the settings of its profile.
struct Role<'a> {
    what: &'a str,
    arn: &'a str,
    profile: &'a Section,
    /// The profile that was requested, which defines the endpoints of services.
    outer: &'a Section,
}

impl Role<'_> {
    fn assume(&self, with: Credentials, stop: &AtomicBool) -> Result<AccessKeys, Error> {
        let body = self.form("AssumeRole", &[("ExternalId", self.value("external_id"))]);
        self.ask(body, Some(with), stop)
    }

    fn assume_by_token(&self, file: &Path, stop: &AtomicBool) -> Result<AccessKeys, Error> {
        let token = std::fs::read_to_string(file).map_err(|error| {
            Error::target(self.what, format!("token \"{}\": {error}", file.display()))
                .of(Kind::SecretAbsent)
        })?;
        let place = format!("the web identity token \"{}\"", file.display());
        let token = secret(token.trim().to_owned(), &place)?;
        let more = [("WebIdentityToken", Some(token.as_str()))];
        self.ask(self.form("AssumeRoleWithWebIdentity", &more), None, stop)
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.profile.get(key).map(String::as_str)
    }

    fn form(&self, action: &str, more: &[(&str, Option<&str>)]) -> Vec<u8> {
        let session = self.value("role_session_name").unwrap_or(SESSION_NAME);
        let mut form = vec![
            ("Action", Some(action)),
            ("Version", Some("2011-06-15")),
            ("RoleArn", Some(self.arn)),
            ("RoleSessionName", Some(session)),
            ("DurationSeconds", self.value("duration_seconds")),
        ];
        form.extend_from_slice(more);
        form.sort_unstable_by_key(|(name, _)| *name);
        let present: Vec<_> = form
            .into_iter()
            .filter_map(|(name, value)| Some((name, Some(value?.as_bytes()))))
            .collect();
        let mut body = Vec::new();
        write_query(&mut body, &present);
        body
    }

    fn ask(
        &self,
        body: Vec<u8>,
        with: Option<Credentials>,
        stop: &AtomicBool,
    ) -> Result<AccessKeys, Error> {
        let region = env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION"));
        let region = self.outer.get("region").cloned().or(region);
        let region = region.as_deref();
        let url = endpoint(self.outer, "STS").unwrap_or_else(|| match region {
            Some(region) => format!("https://sts.{region}.{}", suffix(region)),
            None => "https://sts.amazonaws.com".to_owned(),
        });
        let service = Service::at(&url, format!("{}: assume role \"{}\"", self.what, self.arn))?;
        let hash = hex_of_sha256(&sha256(&body));
        let head = |url: &Url, head: &mut Vec<u8>| {
            let (kind, host) =
                ("application/x-www-form-urlencoded; charset=utf-8", url.host_header());
            match with {
                None => http1::header(head, "host", host.as_bytes()),
                Some(with) => {
                    let path = format!("{}/", url.path);
                    let request = sigv4::Request {
                        method: Method::Post,
                        path: path.as_bytes(),
                        query: b"",
                        host: host.as_bytes(),
                        headers: &[],
                        payload: Payload::Sha256(&hash),
                    };
                    let mut signer = Signer::new(with, region.unwrap_or("us-east-1"), "sts");
                    signer.sign(unix_ns() / 1_000_000_000, &request, head);
                }
            }
            http1::header(head, "content-type", kind.as_bytes());
        };
        let answer = service.ask(stop, (Method::Post, "/"), head, body)?;
        let of = |name: &str| between(&answer, name);
        let expires_s = of("Expiration").as_deref().and_then(parse_iso8601);
        temporary(
            &service.what,
            [of("AccessKeyId"), of("SecretAccessKey"), of("SessionToken")],
            expires_s,
        )
    }
}

/// Returns the text of the first element with this name in an answer of STS, which contains no
/// entities.
fn between(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0.trim().to_owned())
}

/// Returns the endpoint that replaces AWS's own service, with the precedence of AWS's tools.
fn endpoint(profile: &Section, service: &str) -> Option<String> {
    env(&format!("AWS_ENDPOINT_URL_{service}"))
        .or_else(|| env("AWS_ENDPOINT_URL"))
        .or_else(|| profile.get("endpoint_url").cloned())
}

fn suffix(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

fn home() -> PathBuf {
    // Not the working directory, which may contain files of a stranger.
    PathBuf::from(env("HOME").unwrap_or_else(|| "/nonexistent".to_owned()))
}

fn aws_file(variable: &str, name: &str) -> PathBuf {
    env(variable).map_or_else(|| home().join(".aws").join(name), PathBuf::from)
}
