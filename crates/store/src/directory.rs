//! Objects kept in a directory: a file of bytes and a sidecar of facts for each.
//!
//! ```text
//! DIR/store.json                     the format, and the lock against a second store
//! DIR/data/7f/000000000000127f.bytes the bytes
//! DIR/buckets/BUCKET/bucket.json     name and settings of a bucket
//! DIR/buckets/BUCKET/80/….json       the sidecar of an object: key, facts, names of byte files
//! ```
//!
//! An object exists when its sidecar does. The sidecar is written beside its place and renamed,
//! so that a kill at any moment leaves either the old object or the new one. Of two sidecars of
//! the null version of one key the later counts; byte files that no sidecar names are swept at
//! the next start.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::body::{Body, Extent, ExtentFile, Source};
use crate::bucket::Settings;
use crate::error::StoreError;
use crate::object::{About, Object};

const FORMAT: u32 = 1;

/// A data directory that this process has locked.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    /// Flush to the disk before an object counts as written.
    is_synced: bool,
    _lock: File,
}

#[derive(Serialize, Deserialize)]
struct Marker {
    format: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct BucketRecord {
    pub(crate) name: String,
    pub(crate) created_us: u64,
    pub(crate) settings: Settings,
}

#[derive(Serialize, Deserialize)]
struct Sidecar {
    key: String,
    id: u64,
    is_null_version: bool,
    etag: Box<str>,
    modified_us: u64,
    about: About,
    extents: Vec<ExtentRecord>,
    flaw: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct ExtentRecord {
    file: String,
    offset: u64,
    length: u64,
}

/// What was found on the disk.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) buckets: Vec<(u64, BucketRecord, Vec<FoundObject>)>,
    /// The largest number in use.
    pub(crate) id_max: u64,
}

/// An object found on the disk.
pub(crate) struct FoundObject {
    pub(crate) key: String,
    pub(crate) id: u64,
    pub(crate) is_null_version: bool,
    pub(crate) etag: Box<str>,
    pub(crate) modified_us: u64,
    pub(crate) about: About,
    pub(crate) body: Body,
}

impl Directory {
    /// Opens or makes a data directory, and locks it for this process.
    pub(crate) fn open(root: &Path, is_synced: bool) -> Result<Directory, StoreError> {
        let failed = |path: &Path, error: io::Error| StoreError::Directory {
            path: path.to_owned(),
            problem: error.to_string(),
            hint: "the store needs to read and write it",
        };
        let marker = root.join("store.json");
        if !marker.exists() && fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_some())
        {
            return Err(StoreError::Directory {
                path: root.to_owned(),
                problem: "holds files that no store wrote".to_owned(),
                hint: "name an empty or new directory",
            });
        }
        for part in ["data", "buckets"] {
            fs::create_dir_all(root.join(part)).map_err(|error| failed(root, error))?;
        }
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&marker)
            .map_err(|error| failed(&marker, error))?;
        // SAFETY: flock on a descriptor that `lock` owns.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(StoreError::Directory {
                path: root.to_owned(),
                problem: "is in use by another store".to_owned(),
                hint: "end that store or name another directory",
            });
        }
        let text = io::read_to_string(&lock).map_err(|error| failed(&marker, error))?;
        if text.is_empty() {
            let written = serde_json::to_vec(&Marker { format: FORMAT })?;
            lock.write_all(&written).map_err(|error| failed(&marker, error))?;
        } else if serde_json::from_str::<Marker>(&text)?.format != FORMAT {
            return Err(StoreError::Directory {
                path: marker,
                problem: format!("is of another format than {FORMAT}"),
                hint: "use the loadstone that wrote it",
            });
        }
        Ok(Directory { root: root.to_owned(), is_synced, _lock: lock })
    }

    /// Makes a new file for bytes; it goes away again unless an object comes to hold it.
    pub(crate) fn create_bytes(&self, id: u64) -> io::Result<(File, Arc<ExtentFile>)> {
        let path = self.bytes_path(id);
        let file = create_in_shard(&path)?;
        Ok((file, ExtentFile::provisional(path)))
    }

    /// Ends the writing of a file of bytes.
    pub(crate) fn finish_bytes(&self, file: &File) -> io::Result<()> {
        if self.is_synced { file.sync_data() } else { Ok(()) }
    }

    /// Returns a body of its own with the same bytes, by hard links.
    pub(crate) fn share(&self, body: &Body, mut ids: impl FnMut() -> u64) -> io::Result<Body> {
        let mut extents = Vec::with_capacity(body.extents().len());
        for extent in body.extents() {
            let source = match &extent.source {
                Source::Memory(page) => Source::Memory(page.clone()),
                Source::File(kept) => {
                    let path = self.bytes_path(ids());
                    in_shard(&path, |path| fs::hard_link(&kept.path, path))?;
                    Source::File(ExtentFile::provisional(path))
                }
            };
            extents.push(Extent { source, offset: extent.offset, length: extent.length });
        }
        Ok(Body::new(extents).with_flaw(body.flaw))
    }

    /// Writes the sidecar of an object: from here on it survives.
    pub(crate) fn write_object(&self, bucket: u64, key: &str, object: &Object) -> io::Result<()> {
        let mut extents = Vec::with_capacity(object.body.extents().len());
        for extent in object.body.extents() {
            let Source::File(kept) = &extent.source else {
                return Err(io::Error::other("a page of memory cannot be kept in a directory"));
            };
            let name = kept.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            extents.push(ExtentRecord { file: name, offset: extent.offset, length: extent.length });
        }
        let sidecar = Sidecar {
            key: key.to_owned(),
            id: object.id,
            is_null_version: object.is_null_version,
            etag: object.etag.clone(),
            modified_us: object.modified_us,
            about: object.about.clone(),
            extents,
            flaw: object.body.flaw,
        };
        self.write_json(&self.sidecar_path(bucket, object.id), &sidecar)?;
        set_doomed(object, false);
        Ok(())
    }

    /// Takes an object off the disk; its bytes go when their last reader is done.
    pub(crate) fn forget_object(&self, bucket: u64, object: &Object) -> io::Result<()> {
        set_doomed(object, true);
        match fs::remove_file(self.sidecar_path(bucket, object.id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(crate) fn write_bucket(&self, id: u64, record: &BucketRecord) -> io::Result<()> {
        fs::create_dir_all(self.bucket_path(id))?;
        self.write_json(&self.bucket_path(id).join("bucket.json"), record)
    }

    pub(crate) fn forget_bucket(&self, id: u64) -> io::Result<()> {
        // The record goes first: without it the rest is no bucket.
        fs::remove_file(self.bucket_path(id).join("bucket.json"))?;
        fs::remove_dir_all(self.bucket_path(id))
    }

    fn write_json(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        let beside = path.with_extension("new");
        let mut file = create_in_shard(&beside)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        if self.is_synced {
            file.sync_data()?;
        }
        fs::rename(&beside, path)?;
        match path.parent().filter(|_| self.is_synced) {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
        }
    }

    fn bytes_path(&self, id: u64) -> PathBuf {
        self.root.join("data").join(format!("{:02x}/{id:016x}.bytes", id & 0xff))
    }

    fn bucket_path(&self, id: u64) -> PathBuf {
        self.root.join("buckets").join(format!("{id:016x}"))
    }

    fn sidecar_path(&self, bucket: u64, id: u64) -> PathBuf {
        self.bucket_path(bucket).join(format!("{:02x}/{id:016x}.json", id & 0xff))
    }

    /// Reads everything that is kept, and sweeps what is left over from a kill.
    pub(crate) fn load(&self) -> Result<Found, StoreError> {
        let mut found = Found::default();
        let mut named = HashSet::new();
        for entry in self.entries(&self.root.join("buckets"))? {
            let Some(id) = hex_stem(&entry) else { continue };
            found.id_max = found.id_max.max(id);
            let record_path = entry.join("bucket.json");
            if !record_path.exists() {
                let _ = fs::remove_dir_all(&entry);
                continue;
            }
            let record: BucketRecord = self.read_json(&record_path)?;
            let objects = self.load_objects(id, &entry, &mut named)?;
            found.id_max = objects.iter().map(|object| object.id).fold(found.id_max, u64::max);
            found.buckets.push((id, record, objects));
        }
        for shard in self.entries(&self.root.join("data"))? {
            for path in self.entries(&shard)? {
                found.id_max = found.id_max.max(hex_stem(&path).unwrap_or(0));
                if !named.contains(&path) {
                    let _ = fs::remove_file(&path);
                }
            }
        }
        Ok(found)
    }

    fn load_objects(
        &self,
        bucket: u64,
        path: &Path,
        named: &mut HashSet<PathBuf>,
    ) -> Result<Vec<FoundObject>, StoreError> {
        let mut objects: Vec<FoundObject> = Vec::new();
        let mut null_versions: HashMap<String, usize> = HashMap::new();
        for shard in self.entries(path)? {
            if !shard.is_dir() {
                continue;
            }
            for sidecar_path in self.entries(&shard)? {
                if sidecar_path.extension().is_none_or(|extension| extension != "json") {
                    let _ = fs::remove_file(&sidecar_path);
                    continue;
                }
                let object = self.found(self.read_json(&sidecar_path)?)?;
                if !object.is_null_version {
                    objects.push(object);
                    continue;
                }
                match null_versions.get(&object.key) {
                    None => {
                        null_versions.insert(object.key.clone(), objects.len());
                        objects.push(object);
                    }
                    Some(&other) => {
                        let older = objects[other].id.min(object.id);
                        if object.id > objects[other].id {
                            objects[other] = object;
                        }
                        let _ = fs::remove_file(self.sidecar_path(bucket, older));
                    }
                }
            }
        }
        for object in &objects {
            named.extend(object.body.extents().iter().filter_map(|extent| match &extent.source {
                Source::File(kept) => Some(kept.path.clone()),
                Source::Memory(_) => None,
            }));
        }
        Ok(objects)
    }

    fn found(&self, sidecar: Sidecar) -> Result<FoundObject, StoreError> {
        let mut extents = Vec::with_capacity(sidecar.extents.len());
        for record in sidecar.extents {
            let id = hex_stem(Path::new(&record.file)).unwrap_or_default();
            let path = self.bytes_path(id);
            let length = fs::metadata(&path).map_or(0, |facts| facts.len());
            if length < record.offset + record.length {
                return Err(StoreError::Directory {
                    problem: format!(
                        "holds {length} bytes where object \"{}\" needs {}",
                        sidecar.key,
                        record.offset + record.length
                    ),
                    path,
                    hint: "the directory was damaged; restore it or start with a new one",
                });
            }
            extents.push(Extent {
                source: Source::File(ExtentFile::kept(path)),
                offset: record.offset,
                length: record.length,
            });
        }
        Ok(FoundObject {
            key: sidecar.key,
            id: sidecar.id,
            is_null_version: sidecar.is_null_version,
            etag: sidecar.etag,
            modified_us: sidecar.modified_us,
            about: sidecar.about,
            body: Body::new(extents).with_flaw(sidecar.flaw),
        })
    }

    fn entries(&self, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
        let read = || {
            fs::read_dir(path)?
                .map(|entry| entry.map(|found| found.path()))
                .collect::<io::Result<Vec<_>>>()
        };
        read().map_err(|error: io::Error| unreadable(path, &error))
    }

    fn read_json<T: for<'a> Deserialize<'a>>(&self, path: &Path) -> Result<T, StoreError> {
        let text = fs::read(path).map_err(|error| unreadable(path, &error))?;
        serde_json::from_slice(&text).map_err(|error| unreadable(path, &error))
    }
}

fn unreadable(path: &Path, error: &dyn std::error::Error) -> StoreError {
    StoreError::Directory {
        path: path.to_owned(),
        problem: format!("cannot be read: {error}"),
        hint: "the directory was damaged; restore it or start with a new one",
    }
}

fn set_doomed(object: &Object, doomed: bool) {
    for extent in object.body.extents() {
        if let Source::File(kept) = &extent.source {
            kept.set_doomed(doomed);
        }
    }
}

fn create_in_shard(path: &Path) -> io::Result<File> {
    in_shard(path, |path| {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
    })
}

/// Runs `make`, and once more after making the folder if that was missing.
fn in_shard<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    match make(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            make(path)
        }
        other => other,
    }
}

fn hex_stem(path: &Path) -> Option<u64> {
    u64::from_str_radix(path.file_stem()?.to_str()?, 16).ok()
}
