//! Facts about stores with an S3 API.

use crate::facts::{
    Address, AddressKind, BucketNames, Calibration, Facts, Filling, Form, Limits, StandIn,
    Throttling, Variable,
};
use crate::operation::Operation;

const PLACE: &[Variable] = &[
    Variable::new("AWS_ENDPOINT_URL_S3", "endpoints"),
    Variable::new("AWS_ENDPOINT_URL", "endpoints"),
    Variable::new("AWS_REGION", "region"),
    Variable::new("AWS_DEFAULT_REGION", "region"),
    Variable::new("AWS_CA_BUNDLE", "tls.ca_file"),
];
const KEYS: &[Variable] = &[
    Variable::secret("AWS_ACCESS_KEY_ID", "access_key"),
    Variable::secret("AWS_SECRET_ACCESS_KEY", "secret_key"),
    Variable::secret("AWS_SESSION_TOKEN", "session_token"),
];
const PROFILE: &[Variable] = &[Variable::new("AWS_PROFILE", "profile")];

pub(super) const FACTS: Facts = Facts {
    encrypts_paths: true,
    reads_existing: true,
    metadata_follows: true,
    address: Address { kind: AddressKind::Urls, settings: &["endpoints"] },
    connects: true,
    protocol: "S3",
    words: &["s3", "s3+http://HOST:PORT", "http://HOST:PORT"],
    forms: &[Form::Name, Form::NamedUrl("endpoints"), Form::AnyUrl("endpoints")],
    environment: &[PLACE, KEYS, PROFILE],
    fill,
    // DNS labels without dots.
    bucket_names: BucketNames { length_min: 3, length_max: 63, capitals_and_underscores: false },
    limits: Limits {
        put_bytes_max: Some(5 << 30),
        part_bytes_min: Some(5 << 20),
        parts_max: Some(10_000),
        bulk_keys_max: Some(1000),
        key_bytes_max: Some(1024),
        ..Limits::NONE
    },
    throttling: Throttling {
        statuses: &[429],
        // Codes of AWS and of other stores.
        codes: &[
            "SlowDown",
            "SlowDownRead",
            "SlowDownWrite",
            "TooManyRequests",
            "TooManyRequestsException",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestLimitExceeded",
            "RequestThrottled",
            "BandwidthLimitExceeded",
        ],
    },
    calibration: Some(Calibration {
        stand_in: StandIn::Server,
        settings: &[
            ("endpoints", "http://{address}"),
            ("access_key", "null"),
            ("secret_key", "{secret}"),
        ],
        usual: CALIBRATED,
        can: CALIBRATED,
        costs: &["payload_signing", "checksum"],
    }),
    ..Facts::PLAIN
};

const CALIBRATED: &[Operation] =
    &[Operation::Put, Operation::Get, Operation::Head, Operation::Delete];

/// Credentials are filled as a set or not at all, because half from a file and half from the
/// environment are not a valid pair.
fn fill(filling: &mut Filling<'_>) {
    filling.fill(PLACE);
    if filling.has_any(&["access_key", "secret_key", "session_token", "profile"]) {
        return;
    }
    let has_pair = KEYS[..2].iter().all(|variable| filling.variable(variable.name).is_some());
    filling.fill(if has_pair { KEYS } else { PROFILE });
}
