//! Obtains keys from a file, the environment, a container's service or a process.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use loadstone_wire::credentials::Section;
use loadstone_wire::date::parse_iso8601;
use loadstone_wire::http1::{self, Method};
use loadstone_wire::sigv4::Credentials;
use serde_json::Value;

use super::keeper::AccessKeys;
use super::service::Service;
use super::{env, line, secret};
use crate::error::{Error, Kind};
use crate::transport::endpoint::Url;

/// Timeout of a process that prints keys.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum number of bytes read from its output.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// Returns keys as they were given.
pub(super) fn temporary(
    action: &str,
    [access_key, secret_key, session_token]: [Option<String>; 3],
    expires_unix_s: Option<u64>,
) -> Result<AccessKeys, Error> {
    let (Some(access_key), Some(secret_key)) = (access_key, secret_key) else {
        return Err(missing(action, "a pair of keys in the answer"));
    };
    let place = |name| format!("the {name} that came back ({action})");
    let token = session_token.map(|token| secret(token, &place("session token"))).transpose()?;
    Ok(AccessKeys {
        credentials: Credentials {
            access_key: line(access_key, &place("access key"))?,
            secret_key: secret(secret_key, &place("secret key"))?,
            session_token: token,
        },
        expires_unix_s,
    })
}

/// Returns keys from a file.
pub(super) fn written(action: &str, name: &str, profile: &Section) -> Result<AccessKeys, Error> {
    let of = |key: &str| profile.get(key).cloned();
    let (Some(access_key), Some(secret_key)) =
        (of("aws_access_key_id"), of("aws_secret_access_key"))
    else {
        return Err(missing(action, "aws_access_key_id and aws_secret_access_key"));
    };
    let place = format!("profile \"{name}\"");
    let token = of("aws_session_token").map(|token| secret(token, &place)).transpose()?;
    Ok(AccessKeys {
        credentials: Credentials {
            access_key: line(access_key, &place)?,
            secret_key: secret(secret_key, &place)?,
            session_token: token,
        },
        expires_unix_s: None,
    })
}

pub(super) fn of_credential_source(
    action: &str,
    source: &str,
    stop: &AtomicBool,
) -> Result<AccessKeys, Error> {
    match source {
        "Environment" => {
            let [access_key, secret_key, token] =
                ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"].map(env);
            temporary(action, [access_key, secret_key, token], None)
        }
        "EcsContainer" => {
            let url = env("AWS_CONTAINER_CREDENTIALS_FULL_URI").or_else(|| {
                let path = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")?;
                Some(format!("http://169.254.170.2{path}"))
            });
            let url = url.ok_or_else(|| missing(action, "AWS_CONTAINER_CREDENTIALS_FULL_URI"))?;
            let token = env("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(|token| {
                secret(token, "environment variable \"AWS_CONTAINER_AUTHORIZATION_TOKEN\"")
            });
            let token = token.transpose()?;
            // A query is not allowed in the URL of a service.
            let (url, query) =
                url.split_once('?').map_or((&*url, None), |(url, query)| (url, Some(query)));
            let path = query.map_or(String::new(), |query| format!("?{query}"));
            let head = |url: &Url, head: &mut Vec<u8>| {
                http1::header(head, "host", url.host_header().as_bytes());
                if let Some(token) = &token {
                    http1::header(head, "authorization", token.as_bytes());
                }
            };
            let answer =
                Service::at(url, action)?.ask(stop, (Method::Get, &path), head, Vec::new())?;
            of_document(action, &answer, "Token")
        }
        other => Err(Error::target(
            action,
            format!("credential_source {other}, allowed: Environment, EcsContainer"),
        )
        .with_hint("get the keys by credential_process")),
    }
}

/// Parses keys from JSON in the format of processes and containers.
fn of_document(action: &str, text: &str, token: &str) -> Result<AccessKeys, Error> {
    let document: Value =
        serde_json::from_str(text).map_err(|_| Error::target(action, "the answer is not JSON"))?;
    let of = |key: &str| document.get(key).and_then(Value::as_str).map(str::to_owned);
    let expires_s =
        match of("Expiration") {
            None => None,
            Some(text) => Some(parse_iso8601(&text).ok_or_else(|| {
                Error::target(action, format!("Expiration \"{text}\" is no time"))
            })?),
        };
    temporary(action, [of("AccessKeyId"), of("SecretAccessKey"), of(token)], expires_s)
}

/// Runs a command that prints keys, without a shell, like AWS's own tools.
pub(super) fn of_process(
    action: &str,
    command: &str,
    stop: &AtomicBool,
) -> Result<AccessKeys, Error> {
    let hint = "run it by hand: it must print keys as JSON, Version 1";
    let failed = |text: String| Error::target(action, text).of(Kind::SecretAbsent).with_hint(hint);
    let words = shlex::split(command).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| failed(format!("credential_process: {command}")))?;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Its stderr may contain secrets that are unknown here and so cannot be blotted.
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(format!("credential_process \"{}\": {error}", words[0])))?;
    let mut output = child.stdout.take().expect("it was asked for");
    let (sender, receiver) = mpsc::channel();
    // Not joined: children of the process may keep its output open after it has ended.
    std::thread::spawn(move || {
        let mut text = String::new();
        let _ = output.by_ref().take(OUTPUT_BYTES_MAX).read_to_string(&mut text);
        let _ = sender.send(text);
    });
    let began = Instant::now();
    let mut printed = None;
    let (status, text) = loop {
        printed = printed.or_else(|| receiver.try_recv().ok());
        match (child.try_wait(), printed.take()) {
            (Ok(Some(status)), Some(text)) => break (status, text),
            (Ok(_), text) if began.elapsed() < PROCESS_TIMEOUT && !stop.load(Ordering::Relaxed) => {
                printed = text;
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("credential_process \"{}\" did not end", words[0])));
            }
        }
    };
    if !status.success() {
        return Err(failed(format!("credential_process \"{}\" ended with {status}", words[0])));
    }
    let document: Value = serde_json::from_str(&text).unwrap_or_default();
    if document.get("Version").and_then(Value::as_u64) != Some(1) {
        return Err(failed(format!("credential_process \"{}\" printed no Version 1", words[0])));
    }
    of_document(action, &text, "SessionToken")
}

pub(super) fn missing(action: &str, name: &str) -> Error {
    Error::target(action, format!("there is no {name}")).of(Kind::SecretAbsent)
}
