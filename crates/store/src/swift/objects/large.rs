//! Static large objects: a manifest of segments that reads as one object.

use http::{StatusCode, header};
use md5::{Digest, Md5};
use serde::Deserialize;
use serde_json::{Value, json};

use super::headers::{check_etag, created, describe, read_about, where_to};
use crate::account::content::Content;
use crate::account::intake::take_in_bytes;
use crate::clock;
use crate::exchange::reply::Reply;
use crate::hex::hex;
use crate::stored::body::Body;
use crate::stored::object::{Draft, Form, Object, Segment};
use crate::swift::answer::{Failure, document, set};
use crate::swift::call::{Call, Place};
use crate::swift::{Swift, bulk};

pub(in crate::swift) const SEGMENTS_MAX: usize = 10_000;
pub(in crate::swift) const MANIFEST_BYTES_MAX: usize = 8 << 20;

/// A segment as a client names it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(default)]
    path: String,
    /// Bytes that stand in the manifest itself, in base64.
    #[serde(default)]
    data: Option<String>,
    #[serde(default)]
    etag: Option<String>,
    #[serde(default)]
    size_bytes: Option<u64>,
    #[serde(default)]
    range: Option<String>,
}

/// Answers PUT with `multipart-manifest=put`.
pub(super) async fn put(swift: &Swift, call: &mut Call, place: &Place) -> Result<Reply, Failure> {
    call.content_length()?;
    let (bucket, precondition) = where_to(swift, call, place)?;
    let text = call.text(MANIFEST_BYTES_MAX).await?;
    let invalid = |problem: String| Failure::new(StatusCode::BAD_REQUEST, problem);
    let named: Vec<Named> = serde_json::from_slice(&text)
        .map_err(|error| invalid(format!("the manifest is not understood: {error}")))?;
    if named.is_empty() || named.len() > SEGMENTS_MAX {
        return Err(invalid(format!("a manifest has 1 to {SEGMENTS_MAX} segments")));
    }
    let (mut segments, mut problems) = (Vec::with_capacity(named.len()), Vec::new());
    let mut inline = Vec::new();
    for segment in &named {
        let found = match &segment.data {
            Some(data) => take_inline(segment, data, &mut inline),
            None if is_itself(segment, place) => {
                Err("a manifest cannot be its own segment".to_owned())
            }
            None => find(swift, segment),
        };
        match found {
            Ok(found) => segments.push(found),
            Err(problem) => problems.push(format!("{}, {problem}", segment.path)),
        }
    }
    if segments.iter().all(Segment::is_inline) {
        problems.push("a manifest needs at least one segment that is an object".to_owned());
    }
    if !problems.is_empty() {
        return Err(invalid(format!("Errors:\n{}", problems.join("\n"))));
    }
    let mut md5 = Md5::new();
    for segment in &segments {
        md5.update(match segment.range {
            Some((first, last)) if !segment.is_inline() => {
                format!("{}:{first}-{last};", segment.etag)
            }
            _ => segment.etag.clone(),
        });
    }
    let etag = hex(&md5.finalize());
    check_etag(call, &etag)?;
    let mut about = read_about(call)?;
    about.form = Form::StaticLarge(segments);
    let body = match inline.is_empty() {
        true => Body::empty(),
        false => take_in_bytes(&swift.account.storage, inline.into()).await?.body,
    };
    let draft = Draft { body, etag: etag.as_str().into(), about };
    let object = swift.account.put(&bucket, &place.object, draft, &precondition).await?;
    Ok(created(&object, &format!("\"{etag}\"")))
}

/// Appends the bytes of a segment that stand in the manifest to those of the manifest's own.
fn take_inline(named: &Named, data: &str, inline: &mut Vec<u8>) -> Result<Segment, String> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default();
    let has_more = named.etag.is_some() || named.size_bytes.is_some() || named.range.is_some();
    if bytes.is_empty() || has_more || !named.path.is_empty() {
        return Err("a segment has either a path or data in base64".to_owned());
    }
    let first = inline.len() as u64;
    inline.extend_from_slice(&bytes);
    Ok(Segment {
        container: String::new(),
        object: String::new(),
        etag: hex(&Md5::digest(&bytes)),
        bytes: bytes.len() as u64,
        range: Some((first, inline.len() as u64 - 1)),
    })
}

/// Returns whether a segment is the object that the manifest is about to become.
fn is_itself(named: &Named, place: &Place) -> bool {
    let path = named.path.trim_start_matches('/');
    path.split_once('/') == Some((place.container.as_str(), place.object.as_str()))
}

/// Finds a segment, which has to be what the client says of it.
fn find(swift: &Swift, named: &Named) -> Result<Segment, String> {
    let path = named.path.trim_start_matches('/');
    let (container, object) = path.split_once('/').ok_or("400 Bad Request")?;
    let found = swift
        .account
        .bucket(container)
        .and_then(|bucket| swift.account.object(&bucket, object, None))
        .and_then(|found| swift.account.follow(found))
        .map_err(|_| "404 Not Found")?;
    let content = swift.account.content(&found).map_err(|refusal| refusal.to_string())?;
    if named.etag.as_ref().is_some_and(|etag| etag.trim_matches('"') != &*content.etag) {
        return Err("Etag Mismatch".to_owned());
    }
    let length = content.body.length();
    if named.size_bytes.is_some_and(|size| size != length) {
        return Err("Size Mismatch".to_owned());
    }
    let range = match &named.range {
        None => None,
        Some(text) => Some(parse_range(text, length).ok_or("Unsatisfiable Range")?),
    };
    Ok(Segment {
        container: container.to_owned(),
        object: object.to_owned(),
        etag: found.etag.to_string(),
        bytes: range.map_or(length, |(first, last)| last - first + 1),
        range,
    })
}

/// Reads `first-last`, `first-` or `-suffix`.
fn parse_range(text: &str, length: u64) -> Option<(u64, u64)> {
    match super::ranges::parse(Some(&format!("bytes={text}")), length) {
        super::ranges::Wanted::Ranges(ranges) if ranges.len() == 1 => {
            Some((ranges[0].start, ranges[0].end - 1))
        }
        _ => None,
    }
}

/// Answers GET with `multipart-manifest=get`.
pub(super) async fn show(
    swift: &Swift,
    call: &Call,
    object: &Object,
    segments: &[Segment],
) -> Result<Reply, Failure> {
    use base64::Engine;
    let is_raw = call.parameter("format") == Some("raw");
    let inline = object.body.bytes().await?;
    let lines = segments.iter().map(|segment| {
        if let (true, Some((first, last))) = (segment.is_inline(), segment.range) {
            let bytes = inline.get(first as usize..=last as usize).unwrap_or_default();
            return json!({"data": base64::engine::general_purpose::STANDARD.encode(bytes)});
        }
        let path = format!("/{}/{}", segment.container, segment.object);
        let range = segment.range.map(|(first, last)| format!("{first}-{last}"));
        let mut line = match is_raw {
            true => json!({"path": path, "etag": segment.etag, "size_bytes": segment.bytes}),
            false => {
                let found = swift
                    .account
                    .bucket(&segment.container)
                    .and_then(|bucket| swift.account.object(&bucket, &segment.object, None));
                let (content_type, modified_us) = match &found {
                    Ok(found) => (found.content_type(), found.modified_us),
                    Err(_) => ("application/octet-stream", object.modified_us),
                };
                json!({"name": path, "hash": segment.etag, "bytes": segment.bytes,
                       "content_type": content_type,
                       "last_modified": clock::format_iso(modified_us)})
            }
        };
        if let Some(range) = range {
            line["range"] = json!(range);
        }
        line
    });
    let text = lines.collect::<Value>().to_string();
    let etag = hex(&Md5::digest(&text));
    let mut reply = document(StatusCode::OK, "application/json; charset=utf-8", text);
    let content = Content { body: object.body.clone(), etag: object.etag.clone() };
    describe(&mut reply, object, &content);
    set(&mut reply, header::ETAG, etag);
    Ok(reply)
}

/// Answers DELETE with `multipart-manifest=delete`: the segments go with the manifest.
pub(super) async fn delete(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let bucket = swift.account.bucket(&place.container)?;
    let object = swift.account.object(&bucket, &place.object, None)?;
    let mut paths = Vec::new();
    if let Form::StaticLarge(segments) = &object.about.form {
        let kept = segments.iter().filter(|segment| !segment.is_inline());
        paths.extend(kept.map(|s| (s.container.clone(), s.object.clone())));
        // A segment may be used twice and can go only once.
        paths.sort();
        paths.dedup();
    }
    paths.push((place.container.clone(), place.object.clone()));
    let outcome = bulk::delete_each(swift, paths).await;
    Ok(outcome.into_reply(call.wants_json()))
}
