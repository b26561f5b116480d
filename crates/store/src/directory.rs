//! Objects in a directory: a file of bytes and a sidecar with metadata for each.
//!
//! ```text
//! DIR/store.json                       the format, and the lock against a second store
//! DIR/data/7f/000000000000127f.bytes   the bytes
//! DIR/buckets/BUCKET/bucket.json       name and settings of a bucket
//! DIR/buckets/BUCKET/80/….json         the sidecar of an object: key, metadata, names of byte files
//! DIR/buckets/BUCKET/uploads/UPLOAD/   upload.json, and a sidecar for each part: 00001.json …
//! ```
//!
//! An object exists if its sidecar does. The sidecar is written under a temporary name and renamed,
//! so that a kill at any moment leaves either the old object or the new one. If a key has two
//! sidecars of the null version, the later one counts. Several sidecars may name one byte file (a
//! copy, the parts of a completed upload); the next start sweeps files that none names.

pub(crate) mod recovery;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::disk::Disk;
use crate::error::StoreError;
use crate::stored::body::{Body, ExtentFile, Source};
use crate::stored::bucket::Settings;
use crate::stored::object::{About, Checksums, Object};
use crate::stored::upload::{Part, Upload, UploadFacts};

/// Format 2 has shared byte files and persistent uploads; a store of format 1 can be read without
/// conversion.
const FORMAT: u32 = 2;
const FORMAT_OLDEST: u32 = 1;

/// A data directory that this process has locked.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) disk: Arc<Disk>,
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
pub(crate) struct Sidecar {
    pub(crate) key: String,
    pub(crate) id: u64,
    pub(crate) is_null_version: bool,
    pub(crate) etag: Box<str>,
    pub(crate) modified_us: u64,
    pub(crate) about: About,
    pub(crate) extents: Vec<ExtentRecord>,
    pub(crate) flaw: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct PartSidecar {
    pub(crate) md5: [u8; 16],
    pub(crate) modified_us: u64,
    pub(crate) checksums: Checksums,
    pub(crate) extents: Vec<ExtentRecord>,
    pub(crate) flaw: Option<u64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ExtentRecord {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Directory {
    /// Opens or creates a data directory, and locks it for this process.
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
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&marker)
            .map_err(|error| failed(&marker, error))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(StoreError::Directory {
                path: root.to_owned(),
                problem: "is in use by another store".to_owned(),
                hint: "end that store or name another directory",
            });
        }
        let text = io::read_to_string(&lock).map_err(|error| failed(&marker, error))?;
        // A kill may have left an empty file.
        let format_there = match text.is_empty() {
            true => None,
            false => Some(serde_json::from_str::<Marker>(&text)?.format),
        };
        if format_there.is_some_and(|format| !(FORMAT_OLDEST..=FORMAT).contains(&format)) {
            return Err(StoreError::Directory {
                path: marker,
                problem: format!("is of another format than {FORMAT}"),
                hint: "use the loadstone that wrote it",
            });
        }
        if format_there != Some(FORMAT) {
            use std::os::unix::fs::FileExt;
            let written = serde_json::to_vec(&Marker { format: FORMAT })?;
            let written = match format_there {
                None => lock.write_all(&written),
                Some(_) => lock.write_all_at(&written, 0),
            };
            written.and_then(|()| lock.sync_all()).map_err(|error| failed(&marker, error))?;
        }
        let disk = Arc::new(Disk::new(root, is_synced));
        for part in ["data", "buckets"] {
            disk.settle(&root.join(part)).map_err(|error| failed(root, error))?;
        }
        Ok(Directory { disk, _lock: lock })
    }

    /// Creates a new file for bytes; it is removed again unless an object takes it.
    pub(crate) fn create_bytes(&self, id: u64) -> io::Result<(File, Arc<ExtentFile>)> {
        let extent_file = ExtentFile::new(self.disk.clone(), id);
        Ok((self.disk.create(&extent_file.path())?, extent_file))
    }

    /// Writes to a file of bytes.
    pub(crate) fn write_bytes(
        &self,
        file: &File,
        extent_file: &ExtentFile,
        bytes: &[u8],
        offset: u64,
    ) -> io::Result<()> {
        self.disk.write(file, &extent_file.path(), bytes, offset)
    }

    /// Completes a file of bytes.
    pub(crate) fn finish_bytes(&self, file: &File, extent_file: &ExtentFile) -> io::Result<()> {
        let path = extent_file.path();
        self.disk.sync(file, &path)?;
        self.disk.sync_names(&path)
    }

    /// Writes the sidecar of a new object, which is persistent from then on.
    pub(crate) fn write_object(&self, bucket: u64, key: &str, object: &Object) -> io::Result<()> {
        let written = self.rewrite_object(bucket, key, object);
        match &written {
            Ok(()) => object.body.keep(),
            // The client gets an error, so the object must not appear after a restart.
            Err(_) => drop(self.disk.remove(&self.sidecar_path(bucket, object.id))),
        }
        written
    }

    /// Rewrites the sidecar of an object whose metadata has changed, but not its bytes.
    pub(crate) fn rewrite_object(&self, bucket: u64, key: &str, object: &Object) -> io::Result<()> {
        let sidecar = Sidecar {
            key: key.to_owned(),
            id: object.id,
            is_null_version: object.is_null_version,
            etag: object.etag.clone(),
            modified_us: object.modified_us,
            about: object.about.clone(),
            extents: extent_records(&object.body)?,
            flaw: object.body.flaw,
        };
        self.write_json(&self.sidecar_path(bucket, object.id), &sidecar)
    }

    /// Removes an object from the disk; its bytes are removed when their last reader has finished.
    pub(crate) fn forget_object(&self, bucket: u64, object: &Object) -> io::Result<()> {
        let path = self.sidecar_path(bucket, object.id);
        self.disk.remove(&path)?;
        self.disk.sync_names(&path)?;
        object.body.let_go();
        Ok(())
    }

    /// Writes the record of a new upload.
    pub(crate) fn write_upload(
        &self,
        bucket: u64,
        upload: u64,
        facts: &UploadFacts,
    ) -> io::Result<()> {
        self.write_json(&self.upload_path(bucket, upload).join("upload.json"), facts)
    }

    /// Writes a part of an upload, replacing one with the same number.
    pub(crate) fn write_part(
        &self,
        bucket: u64,
        upload: u64,
        number: i32,
        part: &Part,
    ) -> io::Result<()> {
        let sidecar = PartSidecar {
            md5: part.md5,
            modified_us: part.modified_us,
            checksums: part.checksums.clone(),
            extents: extent_records(&part.body)?,
            flaw: part.body.flaw,
        };
        let path = self.upload_path(bucket, upload).join(format!("{number:05}.json"));
        self.write_json(&path, &sidecar)?;
        part.body.keep();
        Ok(())
    }

    /// Removes an upload from the disk; its parts' bytes are removed unless an object uses them.
    pub(crate) fn forget_upload(&self, bucket: u64, upload: &Upload) -> io::Result<()> {
        let path = self.upload_path(bucket, upload.number);
        // The record is removed first: without it, the rest is not an upload.
        let record = path.join("upload.json");
        self.disk.remove(&record)?;
        self.disk.sync_names(&record)?;
        self.disk.remove_tree(&path)?;
        upload.parts().values().for_each(|part| part.body.let_go());
        Ok(())
    }

    pub(crate) fn write_bucket(&self, id: u64, record: &BucketRecord) -> io::Result<()> {
        self.write_json(&self.bucket_path(id).join("bucket.json"), record)
    }

    pub(crate) fn forget_bucket(&self, id: u64) -> io::Result<()> {
        // The record is removed first: without it, the rest is not a bucket.
        let record = self.bucket_path(id).join("bucket.json");
        self.disk.remove(&record)?;
        self.disk.sync_names(&record)?;
        self.disk.remove_tree(&self.bucket_path(id))
    }

    fn write_json(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        self.disk.replace(path, &serde_json::to_vec(value)?)
    }

    fn bucket_path(&self, id: u64) -> PathBuf {
        self.disk.root().join("buckets").join(format!("{id:016x}"))
    }

    fn upload_path(&self, bucket: u64, id: u64) -> PathBuf {
        self.bucket_path(bucket).join("uploads").join(format!("{id:016x}"))
    }

    fn sidecar_path(&self, bucket: u64, id: u64) -> PathBuf {
        self.bucket_path(bucket).join(format!("{:02x}/{id:016x}.json", id & 0xff))
    }
}

fn extent_records(body: &Body) -> io::Result<Vec<ExtentRecord>> {
    let record = |extent: &crate::stored::body::Extent| match &extent.source {
        Source::File(extent_file) => Ok(ExtentRecord {
            file: format!("{:016x}.bytes", extent_file.id),
            offset: extent.offset,
            length: extent.length,
        }),
        Source::Memory(_) => {
            Err(io::Error::other("a page of memory cannot be kept in a directory"))
        }
    };
    body.extents().iter().map(record).collect()
}
