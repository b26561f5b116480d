//! What a target of driver `s3` is told.

use serde_json::{Map, Value};

use crate::drivers::endpoint::Url;
use crate::drivers::{Setting, SettingKind, limits, settings, tls};
use crate::operation::Operation;
use crate::trial::Trial;

const fn setting(name: &'static str, kind: SettingKind, help: &'static str) -> Setting {
    Setting { name, kind, required: false, default: None, help }
}

/// The keys of a target.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        required: true,
        ..setting(
            "endpoints",
            SettingKind::Texts,
            "URLs of the store; clients spread evenly over them",
        )
    },
    Setting {
        default: Some("us-east-1"),
        ..setting("region", SettingKind::Text, "the region that requests are signed for")
    },
    setting("access_key", SettingKind::TextOrReference, "the access key"),
    setting("secret_key", SettingKind::Secret, "where the secret key is"),
    setting("session_token", SettingKind::Secret, "where the token of temporary keys is"),
    setting("profile", SettingKind::Text, "a profile of ~/.aws/credentials to take keys from"),
    Setting {
        default: Some("path"),
        ..setting(
            "addressing",
            SettingKind::Choice(&["path", "virtual"]),
            "whether the bucket stands in the path or in the host",
        )
    },
    Setting {
        default: Some("unsigned"),
        ..setting(
            "payload_signing",
            SettingKind::Choice(&["unsigned", "signed"]),
            "whether bodies are signed (SHA-256, 0.6 ms a MiB; 0.35 for up to 8 MiB put in order)",
        )
    },
    Setting {
        default: Some("none"),
        ..setting(
            "checksum",
            SettingKind::Choice(&["none", "crc32c", "crc64nvme", "md5"]),
            "the checksum sent with each object",
        )
    },
    setting(
        "tls",
        SettingKind::Map,
        "ca_file: a PEM file to trust instead of this host's authorities; verify: false to trust anybody",
    ),
    setting("headers", SettingKind::Map, "headers added to every request"),
];

/// The checksum that goes with an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checksum {
    None,
    Crc32c,
    Crc64Nvme,
    Md5,
}

/// The settings in the form that requests need.
#[derive(Debug)]
pub(super) struct S3Settings {
    pub(super) is_virtual: bool,
    pub(super) is_payload_signed: bool,
    pub(super) checksum: Checksum,
    /// Additional headers that must be signed: lower case, sorted.
    pub(super) signed_headers: Vec<(String, String)>,
    /// The others, as they go over the wire.
    pub(super) plain_headers: Vec<u8>,
}

impl S3Settings {
    pub(super) fn read(map: &Map<String, Value>) -> Self {
        let mut signed_headers = Vec::new();
        let mut plain_headers = Vec::new();
        for (name, value) in settings::pairs(map, "headers") {
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            if name.starts_with("x-amz-") || name == "content-md5" {
                // A signature covers values with single blanks.
                let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                signed_headers.push((name, value));
            } else {
                plain_headers.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
        }
        signed_headers.sort_unstable();
        Self {
            is_virtual: settings::text(map, "addressing") == Some("virtual"),
            is_payload_signed: settings::text(map, "payload_signing") == Some("signed"),
            checksum: match settings::text(map, "checksum") {
                Some("crc32c") => Checksum::Crc32c,
                Some("crc64nvme") => Checksum::Crc64Nvme,
                Some("md5") => Checksum::Md5,
                _ => Checksum::None,
            },
            signed_headers,
            plain_headers,
        }
    }
}

/// Returns the mistakes that only this driver sees.
pub(super) fn mistakes(trial: &Trial) -> Vec<String> {
    let map = &trial.target.settings;
    let mut mistakes = settings::mistakes(SETTINGS, map);
    mistakes.extend(tls::mistakes(map));
    mistakes.extend(settings::header_mistakes(map));
    let endpoints = settings::texts(map, "endpoints");
    for text in &endpoints {
        match Url::parse(text) {
            Err(reason) => {
                mistakes.push(format!("target.settings.endpoints: \"{text}\": {reason}"));
            }
            Ok(url) if is_virtual_address(map, &url) => mistakes.push(format!(
                "target.settings.addressing: found virtual, but the endpoint \"{text}\" is an \
                 address, allowed: path"
            )),
            Ok(_) => {}
        }
    }
    mistakes.extend(limits::mistakes(trial, endpoints.len()));
    mistakes.extend(option_mistakes(trial, 1000));
    mistakes
}

fn is_virtual_address(map: &Map<String, Value>, url: &Url) -> bool {
    let is_address = url.host.parse::<std::net::IpAddr>().is_ok();
    is_address && settings::text(map, "addressing") == Some("virtual")
}

/// Returns the mistakes in the options of single operations, the same for every HTTP store.
pub(crate) fn option_mistakes(trial: &Trial, bulk_keys_max: u32) -> Vec<String> {
    let options = &trial.options;
    let has = |operation| trial.mix.iter().any(|share| share.operation == operation);
    let mut mistakes = Vec::new();
    for operation in [Operation::RangeGet, Operation::MultiRangeGet] {
        if has(operation) && options.range_bytes.is_none_or(|bytes| bytes == 0) {
            mistakes.push(format!("options.range_bytes: {} needs it", operation.name()));
        }
    }
    if has(Operation::MultipartPut) && options.part_bytes.is_none_or(|bytes| bytes == 0) {
        mistakes.push("options.part_bytes: multipart_put needs it".to_owned());
    }
    if has(Operation::BulkDelete) && !(1..=bulk_keys_max).contains(&options.bulk_keys) {
        mistakes.push(format!(
            "options.bulk_keys: found {}, allowed: 1 to {bulk_keys_max}",
            options.bulk_keys
        ));
    }
    if has(Operation::List) && options.page_keys == 0 {
        mistakes.push("options.page_keys: found 0, allowed: 1 and more".to_owned());
    }
    mistakes
}
