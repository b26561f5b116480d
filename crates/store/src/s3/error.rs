//! Refusals in the words of S3.

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
