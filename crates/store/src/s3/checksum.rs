//! Checksums: those that clients send, and those of multipart uploads.

use std::pin::Pin;

use futures_core::Stream;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::Checksum as _;
use s3s::dto::{Checksum, ChecksumAlgorithm, ChecksumType};
use s3s::{S3Result, TrailingHeaders, s3_error};

use super::translate::decode_base64;
use crate::error::Refusal;
use crate::stored::body::Body;
use crate::stored::object::{About, Algorithm, ChecksumRule, Checksums};

/// The digests that a client sent with a body, to be compared with those of the body.
pub(super) struct Promise {
    pub(super) md5: Option<String>,
    pub(super) checksums: Checksums,
    /// The named algorithm, whose value may be in the trailer.
    pub(super) algorithm: Option<Algorithm>,
    pub(super) trailer: Option<TrailingHeaders>,
}

/// Returns the checksums in an input: each type of S3's inputs has its own fields for them.
macro_rules! checksums_in {
    ($input:ident) => {
        $crate::stored::object::Checksums {
            crc32: $input.checksum_crc32,
            crc32c: $input.checksum_crc32c,
            crc64nvme: $input.checksum_crc64nvme,
            sha1: $input.checksum_sha1,
            sha256: $input.checksum_sha256,
            is_composite: false,
        }
    };
}

/// Creates an output with checksums, of any type that has the fields for them.
macro_rules! with_checksums {
    ($shown:ident => $output:ident { $($fields:tt)* }) => {
        $output {
            checksum_crc32: $shown.checksum_crc32,
            checksum_crc32c: $shown.checksum_crc32c,
            checksum_crc64nvme: $shown.checksum_crc64nvme,
            checksum_sha1: $shown.checksum_sha1,
            checksum_sha256: $shown.checksum_sha256,
            $($fields)*
        }
    };
}

pub(super) use {checksums_in, with_checksums};

impl Promise {
    /// Returns a hasher for the client's checksums and for those that the store needs itself.
    pub(super) fn hasher(
        &self,
        trailer_names: Option<&str>,
        wanted: Option<Algorithm>,
    ) -> ChecksumHasher {
        let trailer_names = trailer_names.unwrap_or_default().to_ascii_lowercase();
        hasher(|algorithm| {
            let header = format!("x-amz-checksum-{}", algorithm.name());
            self.checksums.of(algorithm).is_some()
                || [self.algorithm, wanted].contains(&Some(algorithm))
                || trailer_names.split(',').any(|name| name.trim() == header)
        })
    }

    /// Refuses a body that does not match the client's digests.
    pub(super) fn check(self, md5: &[u8; 16], computed: &Checksums) -> S3Result<()> {
        if let Some(promised) = self.md5 {
            let promised = decode_base64(&promised).filter(|bytes| bytes.len() == 16);
            let promised = promised.ok_or_else(|| s3_error!(InvalidDigest))?;
            if promised != md5 {
                return Err(s3_error!(BadDigest, "the Content-MD5 does not match the body"));
            }
        }
        let trailer = self.trailer.and_then(|trailer| trailer.take());
        for algorithm in Algorithm::ALL {
            let header = format!("x-amz-checksum-{}", algorithm.name());
            let trailed = || trailer.as_ref()?.get(&header)?.to_str().ok();
            let Some(promised) = self.checksums.of(algorithm).or_else(trailed) else { continue };
            if computed.of(algorithm) != Some(promised) {
                return Err(s3_error!(BadDigest, "the {header} does not match the body"));
            }
        }
        Ok(())
    }

    /// Refuses a part whose checksum does not have the upload's algorithm.
    pub(super) fn fits(&self, rule: Option<ChecksumRule>) -> S3Result<()> {
        let Some(rule) = rule else { return Ok(()) };
        let other = Algorithm::ALL
            .into_iter()
            .filter(|algorithm| *algorithm != rule.algorithm)
            .find(|algorithm| {
                self.checksums.of(*algorithm).is_some() || self.algorithm == Some(*algorithm)
            });
        match other {
            None => Ok(()),
            Some(other) => Err(s3_error!(
                InvalidRequest,
                "the upload was begun with the checksum {}, and this part brings {}",
                rule.algorithm.name(),
                other.name()
            )),
        }
    }
}

fn hasher(wants: impl Fn(Algorithm) -> bool) -> ChecksumHasher {
    ChecksumHasher {
        crc32: wants(Algorithm::Crc32).then(s3s::crypto::Crc32::new),
        crc32c: wants(Algorithm::Crc32c).then(s3s::crypto::Crc32c::new),
        crc64nvme: wants(Algorithm::Crc64nvme).then(s3s::crypto::Crc64Nvme::new),
        sha1: wants(Algorithm::Sha1).then(s3s::crypto::Sha1::new),
        sha256: wants(Algorithm::Sha256).then(s3s::crypto::Sha256::new),
    }
}

/// Returns the algorithm that a client names.
pub(super) fn algorithm(name: Option<&ChecksumAlgorithm>) -> Option<Algorithm> {
    let name = name?.as_str();
    Algorithm::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
}

/// Returns the rule of a new upload: CRC-64 has no composite checksum, SHA has nothing else.
pub(super) fn rule(
    name: Option<&ChecksumAlgorithm>,
    kind: Option<&ChecksumType>,
) -> S3Result<Option<ChecksumRule>> {
    let Some(algorithm) = algorithm(name) else {
        return match (name, kind) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(s3_error!(InvalidRequest, "a checksum type needs an algorithm")),
            (Some(_), _) => Err(s3_error!(InvalidRequest, "the checksum algorithm is not known")),
        };
    };
    let is_composite = match kind.map(ChecksumType::as_str) {
        Some(kind) => kind == ChecksumType::COMPOSITE,
        None => algorithm != Algorithm::Crc64nvme,
    };
    let is_possible = match algorithm {
        Algorithm::Crc32 | Algorithm::Crc32c => true,
        Algorithm::Crc64nvme => !is_composite,
        Algorithm::Sha1 | Algorithm::Sha256 => is_composite,
    };
    if is_possible {
        return Ok(Some(ChecksumRule { algorithm, is_composite }));
    }
    Err(s3_error!(InvalidRequest, "{} has no checksum of this type", algorithm.name()))
}

/// Returns the name of a rule's algorithm in S3.
pub(super) fn shown_algorithm(rule: ChecksumRule) -> ChecksumAlgorithm {
    ChecksumAlgorithm::from(rule.algorithm.name().to_ascii_uppercase())
}

pub(super) fn shown_type(is_composite: bool) -> ChecksumType {
    ChecksumType::from_static(match is_composite {
        true => ChecksumType::COMPOSITE,
        false => ChecksumType::FULL_OBJECT,
    })
}

/// Computes the checksum of joined parts, and refuses the request if the client sent another one.
pub(super) async fn of_parts(
    rule: Option<ChecksumRule>,
    promised: &Checksums,
    kind: Option<&ChecksumType>,
    body: &Body,
    parts: &[Checksums],
) -> S3Result<Option<(ChecksumRule, Checksums)>> {
    let named = Algorithm::ALL.into_iter().find(|algorithm| promised.of(*algorithm).is_some());
    let claims_composite = kind.map(|kind| kind.as_str() == ChecksumType::COMPOSITE);
    if let Some(rule) = rule
        && (named.is_some_and(|named| named != rule.algorithm)
            || claims_composite.is_some_and(|claimed| claimed != rule.is_composite))
    {
        return Err(s3_error!(InvalidRequest, "the upload was begun with another checksum"));
    }
    // A value of the form "…-2" is a checksum of checksums.
    let is_counted = named.and_then(|named| promised.of(named)).is_some_and(|v| v.contains('-'));
    let implied = named.map(|algorithm| ChecksumRule {
        algorithm,
        is_composite: claims_composite.unwrap_or(is_counted),
    });
    let Some(rule) = rule.or(implied) else { return Ok(None) };
    let missing = || s3_error!(InvalidRequest, "a part has no {} checksum", rule.algorithm.name());
    let computed = match rule.is_composite {
        true => composite(rule, parts).ok_or_else(missing)?,
        false => of_body(rule.algorithm, body).await?,
    };
    let value = computed.of(rule.algorithm).unwrap_or_default();
    let bare = value.split('-').next();
    if let Some(promised) = promised.of(rule.algorithm)
        && promised != value
        // Some clients omit the number of parts.
        && Some(promised) != bare
    {
        return Err(s3_error!(BadDigest, "the checksum announced is not that of the parts joined"));
    }
    Ok(Some((rule, computed)))
}

/// Returns the checksum of the parts' checksums, with their number.
fn composite(rule: ChecksumRule, parts: &[Checksums]) -> Option<Checksums> {
    let mut hasher = hasher(|algorithm| algorithm == rule.algorithm);
    for part in parts {
        hasher.update(&decode_base64(part.of(rule.algorithm)?)?);
    }
    let computed = Checksums::from(hasher.finalize());
    let value = format!("{}-{}", computed.of(rule.algorithm)?, parts.len());
    Some(Checksums::one(rule, value))
}

/// Computes the checksum of a stored body.
pub(super) async fn of_body(algorithm: Algorithm, body: &Body) -> S3Result<Checksums> {
    let mut hasher = hasher(|wanted| wanted == algorithm);
    let mut stream = body.stream();
    while let Some(piece) =
        std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await
    {
        hasher.update(&piece.map_err(|error| Refusal::Body(error.to_string()))?);
    }
    Ok(hasher.finalize().into())
}

/// Returns the checksums in the format of S3.
pub(super) fn checksums_out(checksums: &Checksums) -> Checksum {
    let mut shown = Checksum::default();
    shown.checksum_crc32.clone_from(&checksums.crc32);
    shown.checksum_crc32c.clone_from(&checksums.crc32c);
    shown.checksum_crc64nvme.clone_from(&checksums.crc64nvme);
    shown.checksum_sha1.clone_from(&checksums.sha1);
    shown.checksum_sha256.clone_from(&checksums.sha256);
    shown.checksum_type = Some(shown_type(checksums.is_composite));
    shown
}

/// Returns the checksum of a part of a multipart object, in the format of S3.
pub(super) fn of_part(about: &About, index: usize) -> Option<Checksum> {
    let whole = about.checksums.as_deref()?;
    let algorithm = Algorithm::ALL.into_iter().find(|name| whole.of(*name).is_some())?;
    let rule = ChecksumRule { algorithm, is_composite: whole.is_composite };
    let value = about.part_checksums.get(index)?.clone();
    Some(checksums_out(&Checksums::one(rule, value)))
}

#[cfg(test)]
mod tests {
    use super::super::translate::encode_base64;
    use super::*;

    #[test]
    fn a_composite_is_the_checksum_of_the_parts_checksums_with_their_number() {
        let rule = ChecksumRule { algorithm: Algorithm::Crc32, is_composite: true };
        let part = |bytes: [u8; 4]| Checksums::one(rule, encode_base64(&bytes));
        let computed = composite(rule, &[part([1, 2, 3, 4]), part([5, 6, 7, 8])]).unwrap();
        // The CRC-32 of the bytes 1 to 8.
        assert_eq!(computed.of(Algorithm::Crc32), Some("P8qIxQ==-2"));
        assert!(composite(rule, &[Checksums::default()]).is_none());
    }
}
