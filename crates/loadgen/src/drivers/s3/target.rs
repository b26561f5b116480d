//! The settings of a target of driver `s3`.

use serde_json::{Map, Value};

use crate::drivers::s3::facts::FACTS;
use crate::settings::{self, Setting, SettingKind, setting};
use crate::transport::endpoint::Url;
use crate::transport::http_target;
use crate::trial::Trial;

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
    setting(
        "profile",
        SettingKind::Text,
        "a profile of ~/.aws/credentials or ~/.aws/config to have keys by",
    ),
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
    http_target::TLS,
    http_target::HEADERS,
    http_target::SOURCE,
    setting(
        "delete_versions",
        SettingKind::Flag,
        "whether a clean-up deletes all versions and delete markers of what the run wrote",
    ),
];

/// The checksum that goes with an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checksum {
    None,
    Crc32c,
    Crc64Nvme,
    Md5,
}

impl Checksum {
    /// How uploads in parts call it, and the element of each part's; None where it is of one
    /// request alone.
    pub(super) const fn of_parts(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Crc32c => Some(("CRC32C", "ChecksumCRC32C")),
            Self::Crc64Nvme => Some(("CRC64NVME", "ChecksumCRC64NVME")),
            Self::None | Self::Md5 => None,
        }
    }
}

/// The settings in the form that requests need.
#[derive(Debug)]
pub(super) struct S3Settings {
    pub(super) is_virtual: bool,
    pub(super) is_payload_signed: bool,
    pub(super) checksum: Checksum,
    /// Whether a place is what its versions are, and not only its newest ones.
    pub(super) deletes_versions: bool,
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
            deletes_versions: map.get("delete_versions").and_then(Value::as_bool) == Some(true),
            signed_headers,
            plain_headers,
        }
    }
}

/// Returns the mistakes that only this driver sees.
pub(super) fn mistakes(trial: &Trial) -> Vec<String> {
    let map = &trial.target.settings;
    let mut mistakes = http_target::mistakes(trial, SETTINGS, &["endpoints"], &FACTS.limits);
    for text in settings::texts(map, "endpoints") {
        if Url::parse(text).is_ok_and(|url| is_virtual_address(map, &url)) {
            mistakes.push(format!(
                "target.settings.addressing: found virtual, but the endpoint \"{text}\" is an \
                 address, allowed: path"
            ));
        }
    }
    mistakes
}

fn is_virtual_address(map: &Map<String, Value>, url: &Url) -> bool {
    let is_address = url.host.parse::<std::net::IpAddr>().is_ok();
    is_address && settings::text(map, "addressing") == Some("virtual")
}
