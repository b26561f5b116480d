//! Reads, counts and sweeps the content of a data directory at the start of a store.
//!
//! Damaged items do not keep the rest from being served. They stay where they are, with their
//! bytes, and are reported at every start until they are restored or removed by hand. The same
//! holds for files that no store has created: only names that a store assigns are swept.

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

/// The content of the directory.
#[derive(Default)]
pub(crate) struct DirectoryContent {
    pub(crate) buckets: Vec<FoundBucket>,
    /// Largest number in use.
    pub(crate) id_max: u64,
    /// Damaged items that cannot be served, one per line.
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

/// State of reading at a start.
struct Reading<'d> {
    directory: &'d Directory,
    content: DirectoryContent,
    /// The byte files that sidecars name.
    files: HashMap<u64, Arc<ExtentFile>>,
    /// Whether all byte files must be kept, because an unreadable sidecar may name any of them.
    keeps_all: bool,
}

impl Directory {
    /// Reads all persistent data, and sweeps the remains of a kill.
    pub(crate) fn load(&self) -> Result<DirectoryContent, StoreError> {
        let mut reading = Reading {
            directory: self,
            content: DirectoryContent::default(),
            files: HashMap::new(),
            keeps_all: false,
        };
        for entry in entries(&self.disk.root().join("buckets"))? {
            match numbered(&entry) {
                Some(id) if entry.is_dir() => reading.bucket(id, &entry)?,
                other => {
                    // The store must not assign this name to something else.
                    reading.content.id_max = reading.content.id_max.max(other.unwrap_or(0));
                    reading.stray(&entry);
                }
            }
        }
        reading.sweep()?;
        self.disk.sync_all().map_err(|error| unreadable(self.disk.root(), &error))?;
        Ok(reading.content)
    }
}

impl Reading<'_> {
    fn bucket(&mut self, id: u64, path: &Path) -> Result<(), StoreError> {
        self.content.id_max = self.content.id_max.max(id);
        let (mut sidecars, mut upload_paths) = (Vec::new(), Vec::new());
        let known = self.content.damage.len();
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
            // It was interrupted while it was created or deleted.
            for upload_path in upload_paths {
                self.remnant(&upload_path)?;
            }
            if self.content.damage.len() == known {
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
            self.content.buckets.push(FoundBucket { id, record, objects, uploads });
        }
        Ok(())
    }

    /// Returns the sidecars in a directory, and sweeps incomplete files.
    fn sidecars(&mut self, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let mut sidecars = Vec::new();
        for path in entries(path)? {
            if path.extension().is_some_and(|extension| extension == "json") {
                self.content.id_max = self.content.id_max.max(hex_stem(&path).unwrap_or(0));
                sidecars.push(path);
            } else if is_unfinished(&path) {
                let _ = self.directory.disk.remove(&path);
            } else {
                self.stray(&path);
            }
        }
        Ok(sidecars)
    }

    /// Reports a file that no store has created.
    fn stray(&mut self, path: &Path) {
        let problem = "no store put it there, and it is left alone";
        self.content.damage.push(format!("{}: {problem}", path.display()));
    }

    /// Moves aside a file where the store needs a directory.
    fn in_the_way(&mut self, path: &Path) -> Result<(), StoreError> {
        let aside =
            self.directory.disk.move_aside(path).map_err(|error| unreadable(path, &error))?;
        let (path, aside) = (path.display(), aside.display());
        let problem = "no store put it there, and it was moved to";
        self.content.damage.push(format!("{path}: {problem} {aside}"));
        Ok(())
    }

    /// Inspects the remains of an upload without a record; returns whether a store has created all
    /// of them.
    fn remnant(&mut self, path: &Path) -> Result<bool, StoreError> {
        if numbered(path).is_none() || !path.is_dir() {
            self.content.id_max = self.content.id_max.max(numbered(path).unwrap_or(0));
            self.stray(path);
            return Ok(false);
        }
        let known = self.content.damage.len();
        self.sidecars(path)?;
        Ok(self.content.damage.len() == known)
    }

    /// Reads the objects of a bucket; of a key's null versions, only the last complete one.
    fn objects(&mut self, bucket: &str, paths: Vec<PathBuf>) -> Vec<FoundObject> {
        let mut read = Vec::with_capacity(paths.len());
        let mut current: HashMap<String, u64> = HashMap::new();
        for path in paths {
            let Some(sidecar) = self.read::<Sidecar>(&path, "an object") else { continue };
            self.content.id_max = self.content.id_max.max(sidecar.id);
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
                // An overwrite was interrupted before it had removed the old object.
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
                    self.content.damage.push(format!(
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
        self.content.id_max = self.content.id_max.max(upload);
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
                    self.content.damage.push(format!(
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
            // This map keeps the file during the start: it must not be removed with its first
            // object.
            let source = Source::File(self.file(id).clone());
            extents.push(Extent { source, offset: record.offset, length: record.length });
        }
        Ok(Body::new(extents).with_flaw(flaw))
    }

    /// Keeps the remaining bytes of a damaged sidecar.
    fn keep(&mut self, records: &[ExtentRecord]) {
        for id in records.iter().filter_map(|record| hex_stem(Path::new(&record.file))) {
            self.file(id).keep();
        }
    }

    fn file(&mut self, id: u64) -> &Arc<ExtentFile> {
        let disk = &self.directory.disk;
        self.files.entry(id).or_insert_with(|| ExtentFile::new(disk.clone(), id))
    }

    /// Removes byte files that no sidecar names.
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
                self.content.id_max = self.content.id_max.max(id.unwrap_or(0));
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

    /// Reads a record; an unreadable one is damage.
    fn read<T: for<'a> Deserialize<'a>>(&mut self, path: &Path, what: &str) -> Option<T> {
        let read = fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string()));
        match read {
            Ok(record) => Some(record),
            Err(problem) => {
                self.keeps_all = true;
                let path = path.display();
                self.content.damage.push(format!("the record of {what}: {path}: {problem}"));
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
    // A store writes no signs or capital letters.
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    u64::from_str_radix(stem, 16).ok().filter(|_| stem.bytes().all(is_digit))
}

/// Returns the number in a name that a store has assigned.
fn numbered(path: &Path) -> Option<u64> {
    hex_stem(path).filter(|_| path.file_name().is_some_and(|name| name.len() == 16))
}

/// Returns whether this is the name of one of the directories over which files are spread.
fn is_shard(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.len() == 2) && hex_stem(path).is_some()
}

/// Returns whether this is a temporary file.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut parts = name.split('.');
    let record = parts.next().unwrap_or_default();
    let is_record = matches!(record, "bucket" | "upload")
        || (record.len() == 5 && record.parse::<u32>().is_ok())
        || numbered(Path::new(record)).is_some();
    is_record && parts.next_back() == Some("new") && path.is_file()
}
