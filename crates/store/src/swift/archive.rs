//! Bulk upload: the files of a tar archive become objects.

use std::io::Read;

use bytes::Bytes;
use http::StatusCode;

use super::Swift;
use super::answer::Failure;
use super::bulk::Outcome;
use super::call::{Call, Place};
use crate::account::intake::take_in_bytes;
use crate::error::Refusal;
use crate::exchange::reply::Reply;
use crate::stored::bucket::Settings;
use crate::stored::index::Precondition;
use crate::stored::object::{About, Draft};

/// The largest archive; it is held in memory while it is unpacked.
const ARCHIVE_BYTES_MAX: usize = 64 << 20;

/// Answers PUT with `extract-archive=tar`.
pub(super) async fn extract(
    swift: &Swift,
    call: &mut Call,
    place: &Place,
    format: &str,
) -> Result<Reply, Failure> {
    if format != "tar" {
        return Err(Failure::new(
            StatusCode::BAD_REQUEST,
            format!("this store unpacks \"tar\" archives, not \"{format}\""),
        ));
    }
    let archive = call.text(ARCHIVE_BYTES_MAX).await?;
    let budget = &swift.account.storage.budget;
    let _unpacked = budget.reserve_in_passing(archive.len() as u64)?;
    let files = unpack(&archive)
        .map_err(|error| Failure::new(StatusCode::BAD_REQUEST, format!("bad archive: {error}")))?;
    let mut outcome = Outcome::default();
    for (name, bytes) in files {
        let parts = [place.container.as_str(), place.object.as_str(), name.as_str()];
        let path = parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>();
        let path = path.join("/");
        match write(swift, &path, bytes).await {
            Ok(()) => outcome.created += 1,
            Err(refusal) => {
                outcome.errors.push((path, Failure::from(refusal).status.to_string()));
            }
        }
    }
    Ok(outcome.into_reply(call.wants_json()))
}

fn unpack(archive: &Bytes) -> std::io::Result<Vec<(String, Bytes)>> {
    let mut files = Vec::new();
    for entry in tar::Archive::new(&archive[..]).entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path()?.to_string_lossy().trim_start_matches(['.', '/']).to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        files.push((name, bytes.into()));
    }
    Ok(files)
}

async fn write(swift: &Swift, path: &str, bytes: Bytes) -> Result<(), Refusal> {
    let (container, object) = path.split_once('/').ok_or(Refusal::NoSuchKey)?;
    let account = &swift.account;
    let bucket = match account.create_bucket(container, Settings::default()) {
        Err(Refusal::BucketExists) => account.bucket(container)?,
        other => other?,
    };
    let taken = take_in_bytes(&account.storage, bytes).await?;
    let about = About { content_type: Some("application/octet-stream".into()), ..About::default() };
    let draft = Draft { etag: taken.etag(), body: taken.body, about };
    account.put(&bucket, object, draft, &Precondition::default()).await?;
    Ok(())
}
