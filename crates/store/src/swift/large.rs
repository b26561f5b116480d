//! Static large objects: a manifest of segments that is read as one object.

use http::StatusCode;
use md5::{Digest, Md5};
use serde::Deserialize;

use super::Swift;
use super::answer::Failure;
use super::call::{Call, Place};
use super::write::{check_etag, created, read_about, where_to};
use crate::exchange::reply::Reply;
use crate::hex::hex;
use crate::stored::body::Body;
use crate::stored::object::{Draft, Form, Segment};

const SEGMENTS_MAX: usize = 10_000;
const MANIFEST_BYTES_MAX: usize = 8 << 20;

/// A segment in the client's manifest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    path: String,
    #[serde(default)]
    etag: Option<String>,
    #[serde(default)]
    size_bytes: Option<u64>,
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
    for segment in &named {
        match find(swift, segment, place) {
            Ok(segment) => segments.push(segment),
            Err(problem) => problems.push(format!("{}, {problem}", segment.path)),
        }
    }
    if !problems.is_empty() {
        return Err(invalid(format!("Errors:\n{}", problems.join("\n"))));
    }
    let mut md5 = Md5::new();
    segments.iter().for_each(|segment| md5.update(&segment.etag));
    let etag = hex(&md5.finalize());
    check_etag(call, &etag)?;
    let mut about = read_about(call)?;
    about.form = Form::StaticLarge(segments);
    let draft = Draft { body: Body::empty(), etag: etag.as_str().into(), about };
    let object = swift.account.put(&bucket, &place.object, draft, &precondition).await?;
    Ok(created(&object, &format!("\"{etag}\"")))
}

/// Finds a segment, which must be an ordinary object that matches the client's description.
fn find(swift: &Swift, named: &Named, manifest: &Place) -> Result<Segment, String> {
    let path = named.path.trim_start_matches('/');
    let (container, name) = path.split_once('/').ok_or("400 Bad Request")?;
    if (container, name) == (manifest.container.as_str(), manifest.object.as_str()) {
        return Err("a manifest cannot be its own segment".to_owned());
    }
    let object = swift
        .account
        .bucket(container)
        .and_then(|bucket| swift.account.object(&bucket, name, None))
        .map_err(|_| "404 Not Found")?;
    if object.about.form != Form::Plain {
        return Err("this store has no manifests of manifests".to_owned());
    }
    if named.etag.as_ref().is_some_and(|etag| etag.trim_matches('"') != &*object.etag) {
        return Err("Etag Mismatch".to_owned());
    }
    let bytes = object.length();
    if named.size_bytes.is_some_and(|size| size != bytes) {
        return Err("Size Mismatch".to_owned());
    }
    Ok(Segment {
        container: container.to_owned(),
        object: name.to_owned(),
        etag: object.etag.to_string(),
        bytes,
    })
}
