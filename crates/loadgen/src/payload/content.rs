//! Reads a user's file that objects take their content from.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{LazyLock, Mutex, PoisonError};

use loadstone_wire::digest::Running;

use crate::error::Error;
use crate::trial::NamedFile;

/// Maximum size of the file, which is kept in memory.
const BYTES_MAX: u64 = 1 << 30;

/// The files that this process has read, by SHA-256. They are never freed: all trials of a run use
/// the same file, and the payload parameters are copied.
static READ: LazyLock<Mutex<HashMap<String, &'static [u8]>>> = LazyLock::new(Mutex::default);

/// Reads a file that a trial names, unless it has been read already.
///
/// # Errors
/// The file cannot be read, or its digest differs.
pub(crate) fn open(file: &NamedFile) -> Result<&'static [u8], Error> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(content) = read.get(&file.sha256) {
        return Ok(content);
    }
    let wrong = |reason: String| {
        Error::Trial(vec![format!("dataset.payload: file \"{}\": {reason}", file.path)])
    };
    let mut options = fs::OpenOptions::new();
    // Without this flag, opening a pipe would wait for a writer.
    let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(&file.path);
    let opened = opened.map_err(|error| wrong(error.to_string()))?;
    if !opened.metadata().is_ok_and(|facts| facts.is_file()) {
        return Err(wrong("it is not a regular file".into()));
    }
    let mut content = Vec::new();
    opened
        .take(BYTES_MAX + 1)
        .read_to_end(&mut content)
        .map_err(|error| wrong(error.to_string()))?;
    let mut digest = Running::sha256();
    digest.update(&content);
    let sha256: String = digest.finish().0.iter().map(|byte| format!("{byte:02x}")).collect();
    if sha256 != file.sha256 {
        return Err(wrong(format!(
            "it has changed since the run was planned: found SHA-256 {sha256}, the trial names {}",
            file.sha256
        )));
    }
    if content.is_empty() || content.len() as u64 > BYTES_MAX {
        return Err(wrong(format!("found {} bytes, allowed: 1 to {BYTES_MAX}", content.len())));
    }
    let content: &'static [u8] = content.leak();
    read.insert(file.sha256.clone(), content);
    Ok(content)
}

/// Copies from an offset of a file, wrapping around at its end.
pub(super) fn copy(content: &[u8], place: u64, mut out: &mut [u8]) {
    let mut at = (place % content.len() as u64) as usize;
    while !out.is_empty() {
        let taken = (content.len() - at).min(out.len());
        let (piece, rest) = out.split_at_mut(taken);
        piece.copy_from_slice(&content[at..at + taken]);
        (out, at) = (rest, 0);
    }
}
