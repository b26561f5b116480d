//! What a data directory holds when a store starts: read, counted, swept.
//!
//! What is damaged is set apart, not a reason to serve nothing: it is left where it is, its bytes
//! are kept, and it is reported at every start until it is restored or removed by hand. So is what
//! no store has put there: only names that a store gives are swept.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::directory::{BucketRecord, Directory, ExtentRecord, PartSidecar, Sidecar};
use crate::error::StoreError;
use crate::stored::body::{Body, Extent, ExtentFile, Source};
use crate::stored::upload::{Part, UploadFacts};

/// What was found on the disk.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) buckets: Vec<FoundBucket>,
    /// The largest number in use.
    pub(crate) id_max: u64,
    /// What cannot be served, a line for each.
    pub(crate) damage: Vec<String>,
}

/// A bucket found on the disk.
pub(crate) struct FoundBucket {
    pub(crate) id: u64,
    pub(crate) record: BucketRecord,
    pub(crate) objects: Vec<FoundObject>,
    pub(crate) uploads: Vec<FoundUpload>,
}

/// An upload found on the disk.
pub(crate) struct FoundUpload {
    pub(crate) number: u64,
    pub(crate) facts: UploadFacts,
    pub(crate) parts: Vec<(i32, Part)>,
}

/// An object found on the disk.
pub(crate) struct FoundObject {
    pub(crate) sidecar: Sidecar,
    pub(crate) body: Body,
}

/// A start: what was read so far.
struct Reading<'d> {
    directory: &'d Directory,
    found: Found,
    /// The byte files that sidecars name.
    files: HashMap<u64, Arc<ExtentFile>>,
    /// A sidecar that cannot be read may name any file.
    keeps_all: bool,
}

impl Directory {
    /// Reads everything that is kept, and sweeps what is left over from a kill.
    pub(crate) fn load(&self) -> Result<Found, StoreError> {
        let mut reading = Reading {
            directory: self,
            found: Found::default(),
            files: HashMap::new(),
            keeps_all: false,
        };
        for entry in entries(&self.disk.root().join("buckets"))? {
            match numbered(&entry) {
                Some(id) if entry.is_dir() => reading.bucket(id, &entry)?,
                found => {
                    // The store must not come to give something else this name.
                    reading.found.id_max = reading.found.id_max.max(found.unwrap_or(0));
                    reading.stray(&entry);
                }
            }
        }
        reading.sweep()?;
        self.disk.sync_all().map_err(|error| unreadable(self.disk.root(), &error))?;
        Ok(reading.found)
    }
}

impl Reading<'_> {
    fn bucket(&mut self, id: u64, path: &Path) -> Result<(), StoreError> {
        self.found.id_max = self.found.id_max.max(id);
        let (mut sidecars, mut upload_paths) = (Vec::new(), Vec::new());
        let known = self.found.damage.len();
        for entry in entries(path)? {
            if entry.ends_with("uploads") && entry.is_dir() {
                upload_paths = entries(&entry)?;
            } else if is_shard(&entry) && entry.is_dir() {
                sidecars.extend(self.sidecars(&entry)?);
            } else if is_shard(&entry) || entry.ends_with("uploads") {
                self.in_the_way(&entry)?;
            } else if is_unfinished(&entry) {
                let _ = self.directory.disk.remove(&entry);
            } else if !entry.ends_with("bucket.json") {
                self.stray(&entry);
            }
        }
        let record_path = path.join("bucket.json");
        if !record_path.exists() && sidecars.is_empty() {
            // Cut off while it was made or deleted.
            for upload_path in upload_paths {
                self.remnant(&upload_path)?;
            }
            if self.found.damage.len() == known {
                let _ = self.directory.disk.remove_tree(path);
            }
            return Ok(());
        }
        let record = self.read::<BucketRecord>(&record_path, "a bucket");
        let place = record.as_ref().map_or("?", |record| record.name.as_str()).to_owned();
        let objects = self.objects(&place, sidecars);
        let mut uploads = Vec::new();
        for upload_path in upload_paths {
            uploads.extend(self.upload(&place, &upload_path)?);
        }
        if let Some(record) = record {
            self.found.buckets.push(FoundBucket { id, record, objects, uploads });
        }
        Ok(())
    }

    /// Returns the sidecars in a directory, and sweeps what was never finished.
    fn sidecars(&mut self, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let mut sidecars = Vec::new();
        for path in entries(path)? {
            if path.extension().is_some_and(|extension| extension == "json") {
                self.found.id_max = self.found.id_max.max(hex_stem(&path).unwrap_or(0));
                sidecars.push(path);
            } else if is_unfinished(&path) {
                let _ = self.directory.disk.remove(&path);
            } else {
                self.stray(&path);
            }
        }
        Ok(sidecars)
    }

    /// Reports what no store has put there.
    fn stray(&mut self, path: &Path) {
        let what = "no store put it there, and it is left alone";
        self.found.damage.push(format!("{}: {what}", path.display()));
    }

    /// Moves aside what lies where the store is going to need a directory.
    fn in_the_way(&mut self, path: &Path) -> Result<(), StoreError> {
        let aside =
            self.directory.disk.move_aside(path).map_err(|error| unreadable(path, &error))?;
        let (path, aside) = (path.display(), aside.display());
        let what = "no store put it there, and it was moved to";
        self.found.damage.push(format!("{path}: {what} {aside}"));
        Ok(())
    }

    /// Looks through what is left of an upload whose record is gone; tells whether all of it is a
    /// store's.
    fn remnant(&mut self, path: &Path) -> Result<bool, StoreError> {
        if numbered(path).is_none() || !path.is_dir() {
            self.found.id_max = self.found.id_max.max(numbered(path).unwrap_or(0));
            self.stray(path);
            return Ok(false);
        }
        let known = self.found.damage.len();
        self.sidecars(path)?;
        Ok(self.found.damage.len() == known)
    }

    /// Reads the objects of a bucket: of the null versions of a key only the last that is whole.
    fn objects(&mut self, bucket: &str, paths: Vec<PathBuf>) -> Vec<FoundObject> {
        let mut read = Vec::with_capacity(paths.len());
        let mut current: HashMap<String, u64> = HashMap::new();
        for path in paths {
            let Some(sidecar) = self.read::<Sidecar>(&path, "an object") else { continue };
            self.found.id_max = self.found.id_max.max(sidecar.id);
            let body = self.body(&sidecar.extents, sidecar.flaw);
            if sidecar.is_null_version && body.is_ok() {
                let last = current.entry(sidecar.key.clone()).or_default();
                *last = sidecar.id.max(*last);
            }
            read.push((path, sidecar, body));
        }
        let mut objects = Vec::with_capacity(read.len());
        for (path, sidecar, body) in read {
            let last = current.get(&sidecar.key).copied().unwrap_or(0);
            if sidecar.is_null_version && sidecar.id < last {
                // An overwrite that was cut off before it had removed what it replaces.
                let _ = self.directory.disk.remove(&path);
                continue;
            }
            match body {
                Ok(body) => {
                    body.keep();
                    objects.push(FoundObject { sidecar, body });
                }
                Err(problem) => {
                    self.keep(&sidecar.extents);
                    self.found.damage.push(format!(
                        "object \"{}\" in bucket \"{bucket}\": {problem} (sidecar {})",
                        sidecar.key,
                        path.display()
                    ));
                }
            }
        }
        objects
    }

    fn upload(&mut self, bucket: &str, path: &Path) -> Result<Option<FoundUpload>, StoreError> {
        let record_path = path.join("upload.json");
        let upload = match numbered(path) {
            Some(upload) if record_path.exists() => upload,
            _ => {
                if self.remnant(path)? {
                    let _ = self.directory.disk.remove_tree(path);
                }
                return Ok(None);
            }
        };
        self.found.id_max = self.found.id_max.max(upload);
        let facts = self.read::<UploadFacts>(&record_path, "an upload");
        let mut parts = Vec::new();
        for part_path in self.sidecars(path)? {
            let Some(number) = part_path.file_stem().and_then(|stem| stem.to_str()?.parse().ok())
            else {
                continue;
            };
            let Some(sidecar) = self.read::<PartSidecar>(&part_path, "a part") else { continue };
            let body = self.body(&sidecar.extents, sidecar.flaw);
            match body {
                Ok(body) => {
                    body.keep();
                    let PartSidecar { md5, modified_us, checksums, .. } = sidecar;
                    parts.push((number, Part { body, md5, modified_us, checksums }));
                }
                Err(problem) => {
                    self.keep(&sidecar.extents);
                    self.found.damage.push(format!(
                        "part {number} of an upload in bucket \"{bucket}\": {problem} (sidecar {})",
                        part_path.display()
                    ));
                }
            }
        }
        Ok(facts.map(|facts| FoundUpload { number: upload, facts, parts }))
    }

    /// Returns the bytes that a sidecar names, or what is wrong with them.
    fn body(&mut self, records: &[ExtentRecord], flaw: Option<u64>) -> Result<Body, String> {
        let mut extents = Vec::with_capacity(records.len());
        for record in records {
            let id = hex_stem(Path::new(&record.file))
                .ok_or_else(|| format!("\"{}\" names no file of bytes", record.file))?;
            let path = self.directory.disk.bytes_path(id);
            let needed = record.offset.checked_add(record.length).ok_or("its extent overflows")?;
            let length = fs::metadata(&path).map_or(0, |facts| facts.len());
            if length < needed {
                let path = path.display();
                return Err(format!("{path} holds {length} bytes where it needs {needed}"));
            }
            // Kept through the start by this map: a file must not go with its first object.
            let source = Source::File(self.file(id).clone());
            extents.push(Extent { source, offset: record.offset, length: record.length });
        }
        Ok(Body::new(extents).with_flaw(flaw))
    }

    /// Keeps what is left of the bytes of a damaged sidecar.
    fn keep(&mut self, records: &[ExtentRecord]) {
        for id in records.iter().filter_map(|record| hex_stem(Path::new(&record.file))) {
            self.file(id).keep();
        }
    }

    fn file(&mut self, id: u64) -> &Arc<ExtentFile> {
        let disk = &self.directory.disk;
        self.files.entry(id).or_insert_with(|| ExtentFile::new(disk.clone(), id))
    }

    /// Removes the byte files that no sidecar names.
    fn sweep(&mut self) -> Result<(), StoreError> {
        for shard in entries(&self.directory.disk.root().join("data"))? {
            if !is_shard(&shard) {
                self.stray(&shard);
                continue;
            }
            if !shard.is_dir() {
                self.in_the_way(&shard)?;
                continue;
            }
            for path in entries(&shard)? {
                let id = hex_stem(&path);
                self.found.id_max = self.found.id_max.max(id.unwrap_or(0));
                let is_bytes = |id: &u64| path == self.directory.disk.bytes_path(*id);
                let Some(id) = id.filter(is_bytes).filter(|_| path.is_file()) else {
                    self.stray(&path);
                    continue;
                };
                if self.keeps_all {
                    self.file(id).keep();
                } else if !self.files.contains_key(&id) {
                    let _ = self.directory.disk.remove(&path);
                }
            }
        }
        Ok(())
    }

    /// Reads a record; one that cannot be read is damage.
    fn read<T: for<'a> Deserialize<'a>>(&mut self, path: &Path, what: &str) -> Option<T> {
        let read = fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        match read {
            Ok(record) => Some(record),
            Err(problem) => {
                self.keeps_all = true;
                let path = path.display();
                self.found.damage.push(format!("the record of {what}: {path}: {problem}"));
                None
            }
        }
    }
}

fn entries(path: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let read = || {
        fs::read_dir(path)?
            .map(|entry| entry.map(|found| found.path()))
            .collect::<io::Result<Vec<_>>>()
    };
    read().map_err(|error: io::Error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> StoreError {
    StoreError::Directory {
        path: path.to_owned(),
        problem: format!("cannot be read: {error}"),
        hint: "the store needs to read and write it",
    }
}

fn hex_stem(path: &Path) -> Option<u64> {
    let stem = path.file_stem()?.to_str()?;
    // A sign or a capital is of no store.
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    u64::from_str_radix(stem, 16).ok().filter(|_| stem.bytes().all(is_digit))
}

/// Returns the number that a store has named something by.
fn numbered(path: &Path) -> Option<u64> {
    hex_stem(path).filter(|_| path.file_name().is_some_and(|name| name.len() == 16))
}

/// Tells whether this is named as one of the directories that files are spread over.
fn is_shard(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.len() == 2) && hex_stem(path).is_some()
}

/// Tells whether this is a file that was on its way into its place.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut parts = name.split('.');
    let record = parts.next().unwrap_or_default();
    let is_record = matches!(record, "bucket" | "upload")
        || (record.len() == 5 && record.parse::<u32>().is_ok())
        || numbered(Path::new(record)).is_some();
    is_record && parts.next_back() == Some("new") && path.is_file()
}
