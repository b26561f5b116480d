//! The settings of a target of driver `s3`.

use serde_json::{Map, Value};

use crate::drivers::s3::facts::FACTS;
use crate::drivers::s3::locks;
use crate::drivers::s3::server_encryption::{self, ServerEncryption};
use crate::error::Error;
use crate::operation::Operation;
use crate::settings::{self, Setting, SettingKind, setting};
use crate::transport::endpoint::Url;
use crate::transport::http_target;
use crate::trial::Trial;

/// The driver's keys of a target.
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
            SettingKind::Choice(&["none", "crc32", "crc32c", "crc64nvme", "md5", "sha1", "sha256"]),
            "the checksum sent with each object",
        )
    },
    setting(
        "checksum_type",
        SettingKind::Choice(&["composite", "full_object"]),
        "what the checksum of an object in parts is of: its parts' checksums, or its bytes",
    ),
    setting(
        "check_stored_checksum",
        SettingKind::Flag,
        "whether verified reads of whole objects ask for the store's checksum too, and check it",
    ),
    http_target::TLS,
    http_target::HEADERS,
    http_target::SOURCE,
    setting(
        "server_encryption",
        SettingKind::Choice(&["store", "kms", "customer"]),
        "whose key the store encrypts objects with: its own (SSE-S3), its key service's, the customer's",
    ),
    setting("kms_key", SettingKind::Text, "the key of the key service; otherwise its default"),
    setting(
        "customer_key",
        SettingKind::Secret,
        "where the customer's key is, 32 bytes in base64; it goes with each request for an object",
    ),
    setting(
        "customer_key_over_http",
        SettingKind::Flag,
        "whether the customer's key may go over connections without TLS",
    ),
    setting(
        "versioning",
        SettingKind::Choice(&["enabled", "suspended"]),
        "whether buckets that loadstone makes keep versions; a clean-up deletes all that the run wrote",
    ),
    setting(
        "delete_versions",
        SettingKind::Flag,
        "whether a clean-up deletes all versions and delete markers of what the run wrote",
    ),
    setting(
        "retention_s",
        SettingKind::Number,
        "for how many seconds put_retention locks an object, 2 to 60: buckets that loadstone makes can \
         lock then; a clean-up lifts the locks (governance mode), or waits for their end",
    ),
];

/// The checksum of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checksum {
    None,
    Crc32,
    Crc32c,
    Crc64Nvme,
    Md5,
    Sha1,
    Sha256,
}

impl Checksum {
    /// Returns the name of the algorithm in multipart uploads, and the element with each part's
    /// checksum; `None` if it applies to single requests only.
    pub(super) const fn of_parts(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Crc32 => Some(("CRC32", "ChecksumCRC32")),
            Self::Sha1 => Some(("SHA1", "ChecksumSHA1")),
            Self::Sha256 => Some(("SHA256", "ChecksumSHA256")),
            Self::Crc32c => Some(("CRC32C", "ChecksumCRC32C")),
            Self::Crc64Nvme => Some(("CRC64NVME", "ChecksumCRC64NVME")),
            Self::None | Self::Md5 => None,
        }
    }
}

/// Whether a bucket keeps versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Versioning {
    Enabled,
    Suspended,
}

impl Versioning {
    /// Returns the name in S3.
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::Enabled => "Enabled",
            Self::Suspended => "Suspended",
        }
    }
}

/// The settings in the form that requests need.
#[derive(Debug)]
pub(super) struct S3Settings {
    pub(super) is_virtual: bool,
    pub(super) is_payload_signed: bool,
    pub(super) checksum: Checksum,
    /// Type of the checksum of a multipart object, as named by S3.
    pub(super) checksum_type: Option<&'static [u8]>,
    pub(super) checks_stored_checksum: bool,
    /// Versioning of buckets that loadstone creates.
    pub(super) versioning: Option<Versioning>,
    /// Whether a place consists of all its versions, and not only of the newest ones.
    pub(super) deletes_versions: bool,
    /// Retention of objects in seconds, if buckets that loadstone creates have object lock.
    pub(super) retention_s: Option<u64>,
    pub(super) server_encryption: Option<ServerEncryption>,
    /// Whether requests have additional signed headers.
    pub(super) adds_signed_headers: bool,
    /// Additional headers that must be signed: in lower case, sorted.
    pub(super) signed_headers: Vec<(String, String)>,
    /// Other additional headers, as sent.
    pub(super) plain_headers: Vec<u8>,
}

impl S3Settings {
    /// # Errors
    /// A customer's key that is referred to does not exist.
    pub(super) fn read(map: &Map<String, Value>) -> Result<Self, Error> {
        let mut signed_headers = Vec::new();
        let mut plain_headers = Vec::new();
        for (name, value) in settings::added_headers(map) {
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            if name.starts_with("x-amz-") || name == "content-md5" {
                // A signature covers values with runs of blanks collapsed.
                let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                signed_headers.push((name, value));
            } else {
                plain_headers.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
        }
        signed_headers.sort_unstable();
        let versioning = match settings::text(map, "versioning") {
            Some("enabled") => Some(Versioning::Enabled),
            Some("suspended") => Some(Versioning::Suspended),
            _ => None,
        };
        let flag = |key| flag_of(map, key);
        let retention_s = map.get("retention_s").and_then(Value::as_u64);
        let deletes_versions = flag("delete_versions");
        let server_encryption = ServerEncryption::of(map)?;
        Ok(Self {
            is_virtual: settings::text(map, "addressing") == Some("virtual"),
            is_payload_signed: settings::text(map, "payload_signing") == Some("signed"),
            checksum: match settings::text(map, "checksum") {
                Some("crc32") => Checksum::Crc32,
                Some("sha1") => Checksum::Sha1,
                Some("sha256") => Checksum::Sha256,
                Some("crc32c") => Checksum::Crc32c,
                Some("crc64nvme") => Checksum::Crc64Nvme,
                Some("md5") => Checksum::Md5,
                _ => Checksum::None,
            },
            checksum_type: match settings::text(map, "checksum_type") {
                Some("composite") => Some(b"COMPOSITE"),
                Some("full_object") => Some(b"FULL_OBJECT"),
                _ => None,
            },
            checks_stored_checksum: flag("check_stored_checksum"),
            versioning,
            deletes_versions: deletes_versions || versioning.is_some() || retention_s.is_some(),
            retention_s,
            adds_signed_headers: !signed_headers.is_empty() || server_encryption.is_some(),
            server_encryption,
            signed_headers,
            plain_headers,
        })
    }
}

/// Returns the mistakes that only this driver can find.
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
    let of_parts = (settings::text(map, "checksum_type"), settings::text(map, "checksum"));
    let allowed: &[&str] = match of_parts.0 {
        Some("full_object") => &["crc32", "crc32c", "crc64nvme"],
        _ => &["crc32", "crc32c", "sha1", "sha256"],
    };
    if let (Some(kind), checksum) = of_parts
        && !allowed.contains(&checksum.unwrap_or("none"))
    {
        mistakes.push(format!(
            "target.settings.checksum_type: found {kind} with checksum {}, allowed: it with {}",
            checksum.unwrap_or("none"),
            allowed.join(", ")
        ));
    }
    let has = |operation| trial.mix.iter().any(|share| share.operation == operation);
    if has(Operation::DeleteVersion) && settings::text(map, "versioning") == Some("suspended") {
        mistakes.push(
            "mix: found delete_version on a target with versioning: suspended, which keeps one \
             version of an object: allowed with versioning: enabled"
                .into(),
        );
    }
    mistakes.extend(locks::mistakes(map, trial));
    let has_presigned = has(Operation::PresignedGet) || has(Operation::PresignedPut);
    mistakes.extend(server_encryption::mistakes(map, has_presigned));
    if flag_of(map, "check_stored_checksum") && trial.dataset.encryption.is_some() {
        mistakes.push(
            "target.settings.check_stored_checksum: found it with encrypted objects, allowed: with \
             plain ones"
                .into(),
        );
    }
    if has(Operation::GetVersion) && trial.dataset.encryption.is_some() {
        mistakes.push("mix: found get_version of encrypted objects: allowed of plain ones".into());
    }
    mistakes
}

fn flag_of(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool) == Some(true)
}

fn is_virtual_address(map: &Map<String, Value>, url: &Url) -> bool {
    let is_address = url.host.parse::<std::net::IpAddr>().is_ok();
    is_address && settings::text(map, "addressing") == Some("virtual")
}
