//! The attributes of an object, its parts among them.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use super::Front;
use super::checksum::{checksums_out, of_part, with_checksums};
use super::object::{part_count, shown_version};
use super::translate::{count, etag, timestamp};
use crate::stored::object::Object;

pub(super) async fn get(
    front: &Front,
    request: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let object = front.account.object(&bucket, &input.key, input.version_id.as_deref())?;
    let object = front.account.follow(object)?;
    let content = front.account.content(&object)?;
    // Most clients name all attributes in one header.
    let wanted: Vec<_> =
        input.object_attributes.iter().flat_map(|list| list.as_str().split(',')).collect();
    let wants = |name: &str| wanted.iter().any(|wanted| wanted.trim() == name);
    let checksum = object.about.checksums.as_deref().map(checksums_out);
    let parts = match wants(ObjectAttributes::OBJECT_PARTS) {
        true => parts(&object, input.part_number_marker.unwrap_or(0), input.max_parts)?,
        false => None,
    };
    Ok(S3Response::new(GetObjectAttributesOutput {
        checksum: checksum.filter(|_| wants(ObjectAttributes::CHECKSUM)),
        e_tag: wants(ObjectAttributes::ETAG).then(|| etag(&content.etag)),
        object_parts: parts,
        object_size: wants(ObjectAttributes::OBJECT_SIZE).then(|| content.body.length() as i64),
        storage_class: wants(ObjectAttributes::STORAGE_CLASS)
            .then(|| StorageClass::from_static(StorageClass::STANDARD)),
        last_modified: Some(timestamp(object.modified_us)),
        version_id: shown_version(&object),
        ..Default::default()
    }))
}

/// Lists the parts that an object was put together from.
fn parts(
    object: &Object,
    marker: i32,
    limit: Option<i32>,
) -> S3Result<Option<GetObjectAttributesParts>> {
    let Some(total) = part_count(object) else { return Ok(None) };
    let about = &object.about;
    let all = about.part_bytes.iter().zip(1..).skip(marker.max(0) as usize);
    let page: Vec<_> = all
        .take(count(limit, 1000)?.min(1000))
        .map(|(bytes, number)| {
            let shown = of_part(about, number as usize - 1).unwrap_or_default();
            with_checksums!(shown => ObjectPart {
                part_number: Some(number),
                size: Some(*bytes as i64),
            })
        })
        .collect();
    let last = page.last().and_then(|part| part.part_number).unwrap_or(marker);
    Ok(Some(GetObjectAttributesParts {
        is_truncated: Some(last < total),
        max_parts: Some(limit.unwrap_or(1000)),
        next_part_number_marker: Some(last),
        part_number_marker: Some(marker),
        parts: Some(page),
        total_parts_count: Some(total),
    }))
}
