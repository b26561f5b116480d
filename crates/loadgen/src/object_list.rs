//! The list of objects that others wrote, from which a trial chooses.
//!
//! The list is a Parquet file. In memory, an object takes its key plus 24 bytes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use arrow_array::builder::{Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use loadstone_record::{columns, for_each_batch};
use loadstone_wire::digest::{Running, crc64nvme};
use serde::Serialize;

use crate::error::Error;

pub(crate) use loadstone_wire::xml::ListedObject;

/// Marks an object whose size the list does not give.
pub(crate) const UNKNOWN_BYTES: u64 = u64::MAX;
/// Marks an object whose `ETag` the list does not give.
const UNKNOWN_TAG: u64 = 0;
/// Rows of a listing per batch.
const BATCH_ROWS: usize = 8192;
/// Maximum length of a key; no store allows longer ones.
const KEY_BYTES_MAX: usize = 64 << 10;
const NO_KEY: &str = "a row has no key, or one that is empty, above 64 KiB or has a zero in it";
/// Bytes hashed per read.
const PIECE_BYTES: usize = 1 << 20;

/// Collects the objects that a client lists, up to a maximum.
pub(crate) struct Lister {
    keys: StringBuilder,
    sizes: Int64Builder,
    etags: StringBuilder,
    rows: usize,
    left: u64,
    /// Whether more objects were offered than wanted.
    is_cut: bool,
    stop: Arc<AtomicBool>,
    batches: mpsc::SyncSender<RecordBatch>,
}

impl Lister {
    /// Creates a lister for up to `objects_max` objects, which it hands over in batches.
    pub(crate) fn new(
        objects_max: u64,
        stop: Arc<AtomicBool>,
        batches: mpsc::SyncSender<RecordBatch>,
    ) -> Self {
        Self {
            keys: StringBuilder::new(),
            sizes: Int64Builder::new(),
            etags: StringBuilder::new(),
            rows: 0,
            left: objects_max,
            is_cut: false,
            stop,
            batches,
        }
    }

    /// Returns the flag that stops the listing from outside.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Adds an object; returns whether more are wanted.
    pub(crate) fn add(&mut self, object: &ListedObject) -> bool {
        if self.left == 0 {
            self.is_cut = true;
            return false;
        }
        self.left -= 1;
        self.keys.append_value(&object.key);
        self.sizes.append_option(object.size_bytes.and_then(|size| i64::try_from(size).ok()));
        self.etags.append_option(object.etag.as_deref());
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.hand_over() } else { !self.is_stopped() }
    }

    /// Returns whether the listing was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Hands over the rest; returns whether there were more objects than wanted.
    pub(crate) fn finish(mut self) -> bool {
        self.hand_over();
        self.is_cut
    }

    fn hand_over(&mut self) -> bool {
        self.rows = 0;
        let columns: Vec<arrow_array::ArrayRef> = vec![
            Arc::new(self.keys.finish()),
            Arc::new(self.sizes.finish()),
            Arc::new(self.etags.finish()),
        ];
        let batch = RecordBatch::try_new(columns::list(), columns).expect("as long as each other");
        self.batches.send(batch).is_ok() && !self.is_stopped()
    }
}

/// One object in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) size_bytes: Option<u64>,
    /// Hash of its `ETag`.
    pub(crate) tag: Option<u64>,
}

/// Facts about a list as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ListFacts {
    /// Number of objects.
    pub objects: u64,
    /// Total size of the objects whose size is known.
    pub bytes: u64,
    /// Smallest known size.
    pub size_bytes_min: u64,
    /// Largest known size.
    pub size_bytes_max: u64,
    /// Number of objects whose size is unknown.
    pub without_size: u64,
    /// Number of objects with an `ETag`.
    pub with_etag: u64,
}

/// The objects of a list, numbered in the order of the list.
#[derive(Debug, Default)]
pub struct ObjectList {
    /// All keys, concatenated.
    keys: Vec<u8>,
    /// End of each key.
    ends: Vec<u64>,
    sizes: Vec<u64>,
    tags: Vec<u64>,
}

impl ObjectList {
    /// Opens a list and checks its SHA-256 if one is given.
    ///
    /// # Errors
    /// The file cannot be read, has another digest, or is not a list of objects.
    pub fn open(path: &Path, sha256: Option<&str>) -> Result<Self, Error> {
        let wrong = |reason: String| {
            Error::Trial(vec![format!("list of objects \"{}\": {reason}", path.display())])
        };
        let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
        if let Some(named) = sha256 {
            let digest = sha256_of(&file).map_err(|error| wrong(error.to_string()))?;
            if digest != named {
                return Err(wrong(format!("found SHA-256 {digest}, the trial names {named}")));
            }
        }
        let mut list = Self::default();
        let mut is_whole = true;
        for_each_batch(file, &columns::list(), &columns::LATER_OF_LISTS, &mut |batch| {
            is_whole = list.add(batch);
            is_whole
        })
        .map_err(|error| wrong(error.to_string()))?;
        if !is_whole {
            return Err(wrong(NO_KEY.into()));
        }
        if list.ends.is_empty() {
            return Err(wrong("it has no objects".into()));
        }
        list.keys.shrink_to_fit();
        Ok(list)
    }

    /// Adds rows; returns whether each has a key.
    fn add(&mut self, batch: &RecordBatch) -> bool {
        let column = |name| batch.column_by_name(name).expect("the reader has looked");
        let keys = column("key").as_string::<i32>();
        let sizes = column("size").as_primitive::<Int64Type>();
        let etags = column("etag").as_string::<i32>();
        for row in 0..batch.num_rows() {
            let key = if keys.is_valid(row) { keys.value(row) } else { "" };
            if key.is_empty() || key.len() > KEY_BYTES_MAX || key.contains('\0') {
                return false;
            }
            self.keys.extend_from_slice(key.as_bytes());
            self.ends.push(self.keys.len() as u64);
            let size = sizes.is_valid(row).then(|| sizes.value(row));
            let size = size.and_then(|size| u64::try_from(size).ok());
            self.sizes.push(size.unwrap_or(UNKNOWN_BYTES));
            let tag = etags.is_valid(row).then(|| tag_of(etags.value(row).as_bytes()));
            self.tags.push(tag.flatten().unwrap_or(UNKNOWN_TAG));
        }
        true
    }

    /// Returns the key of an object.
    #[inline]
    pub(crate) fn key(&self, index: u64) -> &[u8] {
        let index = index as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.keys[start as usize..self.ends[index] as usize]
    }

    /// Returns all keys in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.key(index))
    }

    /// Returns the size of an object, or [`UNKNOWN_BYTES`].
    #[inline]
    pub(crate) fn size(&self, index: u64) -> u64 {
        self.sizes[index as usize]
    }

    /// Returns what the list gives for an object.
    pub(crate) fn listed(&self, index: u64) -> Listed {
        let known = |value, unknown| (value != unknown).then_some(value);
        Listed {
            size_bytes: known(self.sizes[index as usize], UNKNOWN_BYTES),
            tag: known(self.tags[index as usize], UNKNOWN_TAG),
        }
    }

    /// Returns the number of objects.
    pub(crate) fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Returns facts about the list as a whole.
    #[must_use]
    pub fn facts(&self) -> ListFacts {
        let sizes = || self.sizes.iter().copied().filter(|size| *size != UNKNOWN_BYTES);
        ListFacts {
            objects: self.len(),
            bytes: sizes().fold(0, u64::saturating_add),
            size_bytes_min: sizes().min().unwrap_or(0),
            size_bytes_max: sizes().max().unwrap_or(0),
            without_size: self.len() - sizes().count() as u64,
            with_etag: self.tags.iter().filter(|tag| **tag != UNKNOWN_TAG).count() as u64,
        }
    }
}

/// Returns a hash of an `ETag`, however it is quoted; `None` for an empty one.
pub(crate) fn tag_of(etag: &[u8]) -> Option<u64> {
    let bare = bare_etag(etag);
    (!bare.is_empty()).then(|| crc64nvme(bare).max(1))
}

/// Returns an `ETag` without HTTP's quotes and weak prefix.
pub(crate) fn bare_etag(etag: &[u8]) -> &[u8] {
    let strong = etag.strip_prefix(b"W/").unwrap_or(etag);
    strong.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(strong)
}

/// Returns the SHA-256 of an open file, in hex.
fn sha256_of(mut file: &File) -> io::Result<String> {
    let (mut running, mut piece) = (Running::sha256(), vec![0; PIECE_BYTES]);
    loop {
        let bytes = file.read(&mut piece)?;
        if bytes == 0 {
            break;
        }
        running.update(&piece[..bytes]);
    }
    Ok(running.finish().0.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};
    use loadstone_record::{ParquetEncoder, Table};

    use super::*;

    fn written(name: &str, keys: Vec<Option<&str>>) -> std::path::PathBuf {
        let rows = keys.len();
        let sizes = (0..rows as i64).map(|row| (row > 0).then_some(row * 10));
        let etags = (0..rows).map(|row| (row == 1).then_some("\"abc\""));
        let batch = RecordBatch::try_new(
            columns::list(),
            vec![
                Arc::new(StringArray::from(keys)),
                Arc::new(Int64Array::from_iter(sizes)),
                Arc::new(StringArray::from_iter(etags)),
            ],
        );
        let mut encoder = ParquetEncoder::new(columns::list()).expect("our columns");
        let mut bytes = encoder.encode(&Table::from(batch.expect("as long"))).expect("our columns");
        bytes.extend(encoder.end().expect("in memory"));
        let path = std::env::temp_dir().join(format!("loadstone-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("a folder for temporary files");
        path
    }

    #[test]
    fn a_list_keeps_keys_and_known_sizes_and_tags() {
        let path = written("whole.parquet", vec![Some("a/ü"), Some("b"), Some("c d")]);
        let list = ObjectList::open(&path, None).expect("a list");
        assert_eq!((list.key(0), list.key(2)), ("a/ü".as_bytes(), b"c d".as_slice()));
        assert_eq!(list.listed(0), Listed { size_bytes: None, tag: None });
        assert_eq!(list.listed(1), Listed { size_bytes: Some(10), tag: tag_of(b"abc") });
        let facts = list.facts();
        assert_eq!((facts.objects, facts.bytes, facts.without_size), (3, 30, 1));
        assert_eq!((facts.size_bytes_min, facts.size_bytes_max, facts.with_etag), (10, 20, 1));
        assert!(ObjectList::open(&path, Some("00")).is_err());
        std::fs::remove_file(path).expect("it is ours");
    }

    #[test]
    fn a_list_without_a_key_or_without_objects_is_refused() {
        for (name, keys) in [("empty.parquet", vec![]), ("null.parquet", vec![Some("a"), None])] {
            let path = written(name, keys);
            assert!(ObjectList::open(&path, None).is_err(), "{name}");
            std::fs::remove_file(path).expect("it is ours");
        }
    }

    #[test]
    fn etags_are_equal_with_any_quoting() {
        assert_eq!(tag_of(b"\"abc\""), tag_of(b"abc"));
        assert_eq!(tag_of(b"W/\"abc\""), tag_of(b"abc"));
        assert_ne!(tag_of(b"abd"), tag_of(b"abc"));
        assert_eq!(tag_of(b"\"\""), None);
    }
}
