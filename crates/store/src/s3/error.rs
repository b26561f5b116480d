//! Converts refusals to errors of S3.

use http::StatusCode;
use s3s::{S3Error, S3ErrorCode};

use crate::error::Refusal;

impl From<Refusal> for S3Error {
    fn from(refusal: Refusal) -> S3Error {
        let custom = |code: &'static str, status| {
            let mut error =
                S3Error::with_message(S3ErrorCode::Custom(code.into()), refusal.to_string());
            error.set_status_code(status);
            error
        };
        if refusal.is_full() {
            return custom("InsufficientStorage", StatusCode::INSUFFICIENT_STORAGE);
        }
        if matches!(refusal, Refusal::NotAsSigned) {
            return custom("XAmzContentSHA256Mismatch", StatusCode::BAD_REQUEST);
        }
        let code = match &refusal {
            Refusal::NoSuchBucket => S3ErrorCode::NoSuchBucket,
            Refusal::NoSuchKey | Refusal::DeleteMarker | Refusal::NothingToMatch => {
                S3ErrorCode::NoSuchKey
            }
            Refusal::NoSuchVersion => S3ErrorCode::NoSuchVersion,
            Refusal::NoVersionName => S3ErrorCode::InvalidArgument,
            Refusal::NoSuchUpload => S3ErrorCode::NoSuchUpload,
            Refusal::BucketExists => S3ErrorCode::BucketAlreadyOwnedByYou,
            Refusal::BucketNotEmpty => S3ErrorCode::BucketNotEmpty,
            Refusal::PreconditionFailed => S3ErrorCode::PreconditionFailed,
            Refusal::Locked => S3ErrorCode::AccessDenied,
            Refusal::InvalidPart => S3ErrorCode::InvalidPart,
            Refusal::InvalidPartOrder => S3ErrorCode::InvalidPartOrder,
            Refusal::Incomplete => S3ErrorCode::IncompleteBody,
            Refusal::TooLarge => S3ErrorCode::EntityTooLarge,
            Refusal::Segment(_) => S3ErrorCode::InvalidObjectState,
            Refusal::Body(_) | Refusal::NotAsSigned => S3ErrorCode::IncompleteBody,
            Refusal::Io(_) | Refusal::Full { .. } => S3ErrorCode::InternalError,
        };
        S3Error::with_message(code, refusal.to_string())
    }
}

/// Messages for errors to which the `s3s` crate gives only a code.
const WORDS: [(&str, &str); 11] = [
    (
        "InvalidBucketName",
        "a bucket's name has 3 to 63 lower-case letters, digits, dots and dashes",
    ),
    ("InvalidDigest", "the Content-MD5 is not the base64 form of 16 bytes"),
    ("InvalidRange", "the range lies behind the end of the object"),
    ("InvalidURI", "the path of the address cannot be read"),
    ("KeyTooLongError", "a key has at most 1024 bytes"),
    ("MalformedXML", "the body is not the document that this request needs"),
    ("MethodNotAllowed", "the version that is named is a delete marker"),
    ("NoSuchKey", "the object does not exist"),
    ("PreconditionFailed", "a precondition failed"),
    ("RequestTimeTooSkewed", "the time of the request is too far from the store's"),
    ("SignatureDoesNotMatch", "the signature is not what the secret key makes of this request"),
];

/// Returns the message for the code in an error document.
pub(super) fn words(document: &str) -> &'static str {
    let code = document.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let row = WORDS.iter().find(|(known, _)| code.is_some_and(|(code, _)| code == *known));
    row.map_or("the request was refused", |(_, words)| words)
}
