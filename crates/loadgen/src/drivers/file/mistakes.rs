//! Mistakes in a trial on files other than those in its settings.

use super::block_bytes;
use crate::operation::Operation;
use crate::payload::SECTOR_BYTES;
use crate::transport::disk::{self, BLOCK_BYTES_MAX};
use crate::trial::Trial;

pub(super) fn chunk_mistake(trial: &Trial) -> Option<String> {
    let chunk = trial.target.settings.get("chunk_bytes").filter(|value| !value.is_null())?;
    let allowed = disk::ALIGNMENT as u64..=BLOCK_BYTES_MAX;
    let is_right = chunk
        .as_u64()
        .is_some_and(|bytes| allowed.contains(&bytes) && bytes % disk::ALIGNMENT as u64 == 0);
    (!is_right).then(|| {
        format!(
            "target.settings.chunk_bytes: found {chunk}, allowed: multiples of 4096, to 256 MiB"
        )
    })
}

pub(super) fn block_mistake(trial: &Trial) -> Option<String> {
    let bytes = block_bytes(trial);
    let largest = trial.dataset.size.max();
    if bytes > BLOCK_BYTES_MAX {
        return Some(format!(
            "options.range_bytes: found {bytes}, allowed: up to {BLOCK_BYTES_MAX} in one request"
        ));
    }
    let is_write = trial
        .mix
        .iter()
        .any(|share| matches!(share.operation, Operation::Write | Operation::Append));
    (is_write && bytes < largest && !bytes.is_multiple_of(SECTOR_BYTES)).then(|| {
        format!("options.range_bytes: found {bytes}, allowed: multiples of {SECTOR_BYTES} to write")
    })
}

/// Returns names that would lead out of the directory, or are not valid.
pub(super) fn name_mistakes(trial: &Trial) -> Vec<String> {
    let dataset = &trial.dataset;
    let fields = [
        ("dataset.bucket_prefix", &dataset.bucket_prefix, false),
        ("dataset.object_prefix", &dataset.object_prefix, true),
    ];
    if let Some(shards) = dataset.shards.as_ref().filter(|shards| shards.tail.contains('/')) {
        let tail = &shards.tail;
        return vec![format!(
            "dataset.object_prefix: found \"{tail}\" behind the shard, allowed: no slash there, for \
             all files of a bucket lie in one directory"
        )];
    }
    let is_wrong = |prefix: &str, may_nest: bool| {
        let mut parts = prefix.split('/');
        prefix.contains('\0')
            || (!may_nest && prefix.contains('/'))
            || prefix.starts_with('/')
            || prefix.starts_with(".loadstone-")
            || parts.any(|part| part == ".." || part == "." || part.len() > 200)
    };
    fields
        .into_iter()
        .filter(|(_, prefix, may_nest)| is_wrong(prefix, *may_nest))
        .map(|(field, prefix, _)| {
            format!("{field}: found \"{prefix}\", allowed: names of files inside the directory")
        })
        .collect()
}
