//! Listings of objects and versions.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Front;
use super::translate::{count, decode_base64, encode_base64, etag, owner, timestamp};
use crate::stored::bucket;
use crate::stored::listing::{Entry, Query, is_xml};
use crate::stored::object;

/// Maximum number of lines per page.
const PAGE_KEYS_MAX: usize = 1000;

/// Characters that S3 does not encode in the keys of a listing with `encoding-type=url`.
const KEPT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'*').remove(b'/');

/// Writes keys as the client requests: unchanged, or encoded for XML.
#[derive(Clone, Copy)]
pub(super) struct Writer {
    is_encoded: bool,
}

impl Writer {
    /// Encodes if the client requests it, and also if XML cannot represent one of `names`: the
    /// answer then declares that it is encoded, and is well-formed.
    pub(super) fn new<'n>(
        encoding: Option<&EncodingType>,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Writer {
        let is_asked = encoding.is_some_and(|e| e.as_str() == EncodingType::URL);
        Writer { is_encoded: is_asked || !names.into_iter().all(is_xml) }
    }

    pub(super) fn write(self, key: &str) -> String {
        match self.is_encoded {
            true => utf8_percent_encode(key, KEPT).to_string(),
            false => key.to_owned(),
        }
    }

    /// Returns the encoding that the answer declares.
    pub(super) fn encoding(self) -> Option<EncodingType> {
        self.is_encoded.then(|| EncodingType::from_static(EncodingType::URL))
    }
}

/// The lines of a page, divided into objects and common prefixes.
fn lines(
    entries: &[Entry<Arc<object::Object>>],
    writer: Writer,
    shows_owner: bool,
) -> (Vec<Object>, Vec<CommonPrefix>) {
    let (mut objects, mut prefixes) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            Entry::Prefix(prefix) => {
                prefixes.push(CommonPrefix { prefix: Some(writer.write(prefix)) });
            }
            Entry::Key(key, object) => objects.push(Object {
                key: Some(writer.write(key)),
                e_tag: Some(etag(&object.etag)),
                last_modified: Some(timestamp(object.modified_us)),
                owner: shows_owner.then(owner),
                size: Some(object.length() as i64),
                storage_class: Some(ObjectStorageClass::from_static(ObjectStorageClass::STANDARD)),
                ..Default::default()
            }),
        }
    }
    (objects, prefixes)
}

pub(super) async fn version_1(
    front: &Front,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let page = bucket.index().list(Query {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        delimiter: input.delimiter.as_deref().unwrap_or_default(),
        after: input.marker.as_deref().unwrap_or_default(),
        limit: count(input.max_keys, 1000)?.min(PAGE_KEYS_MAX),
    });
    let asked = [&input.prefix, &input.delimiter, &input.marker].into_iter().flatten();
    let names = page.entries.iter().map(Entry::name).chain(asked.map(String::as_str));
    let writer = Writer::new(input.encoding_type.as_ref(), names);
    let (contents, prefixes) = lines(&page.entries, writer, true);
    let next = page.entries.last().filter(|_| page.is_truncated && input.delimiter.is_some());
    Ok(S3Response::new(ListObjectsOutput {
        name: Some(input.bucket),
        // Clients decode every name of this older listing except the prefix.
        prefix: Some(match input.prefix {
            Some(prefix) if !is_xml(&prefix) => writer.write(&prefix),
            prefix => prefix.unwrap_or_default(),
        }),
        marker: Some(writer.write(input.marker.as_deref().unwrap_or_default())),
        max_keys: Some(input.max_keys.unwrap_or(1000)),
        is_truncated: Some(page.is_truncated),
        next_marker: next.map(|entry| writer.write(entry.name())),
        contents: (!contents.is_empty()).then_some(contents),
        common_prefixes: (!prefixes.is_empty()).then_some(prefixes),
        delimiter: input
            .delimiter
            .filter(|text| !text.is_empty())
            .map(|delimiter| writer.write(&delimiter)),
        encoding_type: writer.encoding(),
        request_charged: None,
    }))
}

pub(super) async fn version_2(
    front: &Front,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let continued = match &input.continuation_token {
        None => None,
        Some(token) => {
            let after = decode_base64(token).and_then(|bytes| String::from_utf8(bytes).ok());
            let invalid = || s3_error!(InvalidArgument, "the continuation token is not ours");
            Some(after.ok_or_else(invalid)?)
        }
    };
    let after = continued.as_deref().or(input.start_after.as_deref()).unwrap_or_default();
    let page = bucket.index().list(Query {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        delimiter: input.delimiter.as_deref().unwrap_or_default(),
        after,
        limit: count(input.max_keys, 1000)?.min(PAGE_KEYS_MAX),
    });
    let asked = [&input.prefix, &input.delimiter, &input.start_after].into_iter().flatten();
    let names = page.entries.iter().map(Entry::name).chain(asked.map(String::as_str));
    let writer = Writer::new(input.encoding_type.as_ref(), names);
    let (contents, prefixes) = lines(&page.entries, writer, input.fetch_owner == Some(true));
    let next = page.entries.last().filter(|_| page.is_truncated);
    Ok(S3Response::new(ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(writer.write(input.prefix.as_deref().unwrap_or_default())),
        max_keys: Some(input.max_keys.unwrap_or(1000)),
        key_count: Some(page.entries.len() as i32),
        continuation_token: input.continuation_token,
        is_truncated: Some(page.is_truncated),
        next_continuation_token: next.map(|entry| encode_base64(entry.name().as_bytes())),
        contents: (!contents.is_empty()).then_some(contents),
        common_prefixes: (!prefixes.is_empty()).then_some(prefixes),
        delimiter: input
            .delimiter
            .filter(|text| !text.is_empty())
            .map(|delimiter| writer.write(&delimiter)),
        encoding_type: writer.encoding(),
        start_after: input.start_after.map(|after| writer.write(&after)),
        request_charged: None,
    }))
}

/// One line of a listing of versions, before it is cut to a page.
enum Line {
    Prefix(Box<str>),
    Version { key: Box<str>, object: Arc<object::Object>, is_latest: bool },
}

pub(super) async fn versions(
    front: &Front,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let limit = count(input.max_keys, 1000)?.min(PAGE_KEYS_MAX);
    let key_marker = input.key_marker.as_deref().unwrap_or_default();
    let query = Query {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        delimiter: input.delimiter.as_deref().unwrap_or_default(),
        after: key_marker,
        limit: limit + 1,
    };
    let mut all = version_lines(&bucket, query, input.version_id_marker.as_deref());
    let is_truncated = all.len() > limit;
    all.truncate(limit);
    let asked = [&input.prefix, &input.delimiter, &input.key_marker].into_iter().flatten();
    let names = all.iter().map(Line::name).chain(asked.map(String::as_str));
    let writer = Writer::new(input.encoding_type.as_ref(), names);
    let mut output = ListObjectVersionsOutput {
        name: Some(input.bucket),
        prefix: Some(writer.write(input.prefix.as_deref().unwrap_or_default())),
        key_marker: Some(writer.write(key_marker)),
        version_id_marker: input.version_id_marker,
        max_keys: Some(input.max_keys.unwrap_or(1000)),
        is_truncated: Some(is_truncated),
        delimiter: input
            .delimiter
            .filter(|text| !text.is_empty())
            .map(|delimiter| writer.write(&delimiter)),
        encoding_type: writer.encoding(),
        ..Default::default()
    };
    if is_truncated {
        match all.last() {
            Some(Line::Prefix(prefix)) => output.next_key_marker = Some(writer.write(prefix)),
            Some(Line::Version { key, object, .. }) => {
                output.next_key_marker = Some(writer.write(key));
                output.next_version_id_marker = Some(object.version_id());
            }
            None => {}
        }
    }
    for line in all {
        write_line(&mut output, line, writer);
    }
    Ok(S3Response::new(output))
}

impl Line {
    fn name(&self) -> &str {
        match self {
            Line::Prefix(name) | Line::Version { key: name, .. } => name,
        }
    }
}

/// Lists versions from the marker on; the last keys may exceed the limit.
fn version_lines(bucket: &bucket::Bucket, query: Query<'_>, version_id: Option<&str>) -> Vec<Line> {
    let mut all = Vec::new();
    let index = bucket.index();
    // The key in which the previous page ended.
    if let Some(version_id) = version_id {
        let inside = Query { prefix: query.after, limit: 1, ..Query::default() };
        for entry in index.list_versions(inside).entries {
            let Entry::Key(key, versions) = entry else { continue };
            if *key != *query.after {
                continue;
            }
            let at = versions.iter().position(|object| object.version_id() == *version_id);
            push_versions(&mut all, &key, versions, at.map_or(usize::MAX, |at| at + 1));
        }
    }
    for entry in index.list_versions(query).entries {
        match entry {
            Entry::Prefix(prefix) => all.push(Line::Prefix(prefix)),
            Entry::Key(key, versions) => push_versions(&mut all, &key, versions, 0),
        }
    }
    all
}

fn push_versions(
    all: &mut Vec<Line>,
    key: &str,
    versions: Vec<Arc<object::Object>>,
    skipped: usize,
) {
    all.extend(versions.into_iter().enumerate().skip(skipped).map(|(age, object)| Line::Version {
        key: key.into(),
        object,
        is_latest: age == 0,
    }));
}

fn write_line(output: &mut ListObjectVersionsOutput, line: Line, writer: Writer) {
    let (key, object, is_latest) = match line {
        Line::Prefix(prefix) => {
            let prefix = CommonPrefix { prefix: Some(writer.write(&prefix)) };
            return output.common_prefixes.get_or_insert_default().push(prefix);
        }
        Line::Version { key, object, is_latest } => (key, object, is_latest),
    };
    if object.is_delete_marker() {
        output.delete_markers.get_or_insert_default().push(DeleteMarkerEntry {
            key: Some(writer.write(&key)),
            is_latest: Some(is_latest),
            last_modified: Some(timestamp(object.modified_us)),
            owner: Some(owner()),
            version_id: Some(object.version_id()),
        });
        return;
    }
    output.versions.get_or_insert_default().push(ObjectVersion {
        key: Some(writer.write(&key)),
        is_latest: Some(is_latest),
        e_tag: Some(etag(&object.etag)),
        last_modified: Some(timestamp(object.modified_us)),
        owner: Some(owner()),
        size: Some(object.length() as i64),
        version_id: Some(object.version_id()),
        storage_class: Some(ObjectVersionStorageClass::from_static(
            ObjectVersionStorageClass::STANDARD,
        )),
        ..Default::default()
    });
}
