//! Driver `file`: a directory as an object store. Buckets are directories, objects are files.
//!
//! Each client blocks its own thread, as ordinary programs do when they access files.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};

use crate::clock::Clock;
use crate::dataset::{COPY_SUFFIX, Dataset, Object};
use crate::driver::{Client, Driver};
use crate::error::{Error, Kind};
use crate::facts::Facts;
use crate::object_list::Lister;
use crate::operation::{Operation, Payload};
use crate::outcome::{Completion, Outcome};
use crate::ownership::{BucketState, Standing, Swept};
use crate::payload::{Held, ObjectId, PayloadSpec};
use crate::reactor::{Reactor, Sleep};
use crate::requests::Request;
use crate::settings::{self, Setting, SettingKind, setting};
use crate::transport::disk::{self, Buffer, FLUSH_SETTINGS, Flush, TEMPORARY, Turns};
use crate::transport::page_cache::{self, Cached};
use crate::transport::{identity, limits};
use crate::trial::{Options, Ownership, Trial};

mod blocks;
mod bucket;
mod directory;
mod facts;
mod listing;
mod mistakes;
mod reads;
mod sweep;
mod writes;

use blocks::OpenFiles;
use bucket::Bucket;
use mistakes::{block_mistake, chunk_mistake, name_mistakes};
use writes::Layout;

/// Maximum number of buckets that a client keeps open.
const BUCKETS_AT_HAND: u64 = 16;
/// Bytes per system call, unless the target sets another size.
const CHUNK_BYTES: u64 = 1 << 20;

/// A directory, and how it is accessed.
#[derive(Debug)]
pub(super) struct FileTree {
    root: PathBuf,
    directory: OwnedFd,
    dataset: Dataset,
    payload: PayloadSpec,
    options: Options,
    flush: Flush,
    layout: Layout,
    is_direct: bool,
    is_foreign_allowed: bool,
    chunk_bytes: usize,
    block_bytes: u64,
    writes_blocks: bool,
    appends: bool,
    /// Whether the trial reads back what ledgers name.
    is_audit: bool,
    run: String,
    target: String,
    ownership: Ownership,
    volume: String,
    /// The directories in the dataset's prefix, and where the rest of the prefix begins.
    parents: String,
    leaf_start: usize,
    /// Whether the trial changes objects, and whether it may create those directories.
    changes: bool,
    makes_parents: bool,
    buckets: Mutex<HashMap<u64, Arc<Bucket>>>,
    /// Attributes of a directory that we create ourselves.
    made: OnceLock<Option<rustix::fs::Stat>>,
}

/// A client of [`FileTree`].
#[derive(Debug)]
pub(super) struct FileClient {
    tree: Arc<FileTree>,
    reactor: Rc<Reactor>,
    buffer: Buffer,
    /// Payload that writes have left in the buffer.
    held: Held,
    /// Path of the current object below the root, for messages; its name begins at `leaf`.
    path: Vec<u8>,
    leaf: usize,
    /// Name of a file that is not complete yet.
    temporary: CString,
    buckets: Vec<Option<(u64, Arc<Bucket>)>>,
    /// Whether the last file that was written was new.
    expects_new: bool,
    ranges: Vec<(u64, u64)>,
    open_files: OpenFiles,
    writes: u64,
    turns: Turns,
    /// Version that the last checked read returned, for histories.
    version: u64,
    last_error: Option<String>,
}

impl Driver for FileTree {
    const NAME: &'static str = "file";
    const SUMMARY: &'static str = "files in a directory: local, CephFS, NFS";
    const OPERATIONS: &'static [Operation] = &[
        Operation::Put,
        Operation::Get,
        Operation::RangeGet,
        Operation::Head,
        Operation::List,
        Operation::Delete,
        Operation::Copy,
        Operation::Post,
        Operation::CreateBucket,
        Operation::DeleteBucket,
        Operation::Read,
        Operation::Write,
        Operation::Append,
        Operation::PutIfAbsent,
    ];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            required: true,
            ..setting("path", SettingKind::Text, "the directory, which must exist")
        },
        Setting {
            default: Some("false"),
            ..setting("direct", SettingKind::Flag, "pass by the page cache (O_DIRECT)")
        },
        Setting {
            default: Some("in_place"),
            ..setting(
                "layout",
                SettingKind::Choice(&["in_place", "rename"]),
                "write a file under its name, or under another and rename it",
            )
        },
        Setting {
            default: Some("1048576"),
            ..setting("chunk_bytes", SettingKind::Number, "bytes given to the kernel at once")
        },
        FLUSH_SETTINGS[0],
        FLUSH_SETTINGS[1],
        FLUSH_SETTINGS[2],
        FLUSH_SETTINGS[3],
    ];
    const FACTS: Facts = facts::FACTS;
    type Thread = Rc<Reactor>;
    type Client = FileClient;

    fn check(trial: &Trial) -> Vec<String> {
        let mut mistakes = settings::mistakes(Self::SETTINGS, &trial.target.settings);
        mistakes.extend(Flush::mistakes(&trial.target.settings));
        mistakes.extend(chunk_mistake(trial));
        mistakes.extend(name_mistakes(trial));
        mistakes.extend(block_mistake(trial));
        mistakes.extend(limits::file_mistake(
            trial,
            OpenFiles::MOST as u64 + 2 + trial.dataset.buckets.min(BUCKETS_AT_HAND),
        ));
        mistakes
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        limits::raise_descriptors();
        let settings = &trial.target.settings;
        let root = PathBuf::from(settings::text(settings, "path").unwrap_or_default());
        let directory = open_root(&root, &trial.target.name)?;
        let volume = identity::of_file_system(&root, directory.as_fd());
        if !trial.is_clean_up() {
            check_root(trial, &root, &volume)?;
        }
        let layout = match settings::text(settings, "layout") {
            Some("rename") => Layout::Rename,
            _ => Layout::InPlace,
        };
        let chunk_bytes = settings.get("chunk_bytes").and_then(serde_json::Value::as_u64);
        // For files that others wrote, the listing gives the whole path.
        let is_listed = trial.dataset.existing.is_some();
        let mut keys = trial.open_list.iter().flat_map(|list| list.keys());
        if let Some(key) = keys.find(|key| leads_out(key)) {
            let text = String::from_utf8_lossy(key);
            return Err(Error::Trial(vec![format!(
                "dataset.existing: found \"{text}\" in the list, allowed: paths below the directory"
            )]));
        }
        let prefix = if is_listed { "" } else { &trial.dataset.object_prefix };
        let leaf_start = prefix.rfind('/').map_or(0, |slash| slash + 1);
        let has = |wanted| trial.mix.iter().any(|share| share.operation == wanted);
        let tree = Self {
            dataset: flat(Dataset::new(trial)),
            payload: PayloadSpec::of_trial(trial),
            flush: Flush::of_settings(settings),
            layout,
            is_direct: disk::flag(settings, "direct", false),
            is_foreign_allowed: trial.allow_foreign,
            chunk_bytes: usize::try_from(chunk_bytes.unwrap_or(CHUNK_BYTES)).expect("checked"),
            block_bytes: block_bytes(trial),
            writes_blocks: has(Operation::Write) || has(Operation::Append),
            appends: has(Operation::Append),
            is_audit: trial.open_audit.is_some(),
            options: trial.options.clone(),
            run: trial.run.clone(),
            target: trial.target.name.clone(),
            ownership: trial.ownership.clone(),
            volume,
            parents: prefix[..leaf_start].to_owned(),
            leaf_start,
            changes: trial.changes_objects() || trial.is_clean_up(),
            makes_parents: trial.changes_objects(),
            buckets: Mutex::default(),
            made: OnceLock::new(),
            root,
            directory,
        };
        if tree.changes {
            tree.try_direct(&trial.target.name)?;
        }
        Ok(tree)
    }

    fn is_blocking(&self) -> bool {
        true
    }

    fn volume(&self) -> Option<&str> {
        Some(&self.volume)
    }

    fn look_at_page_cache(&self) -> Option<Cached> {
        if self.is_direct {
            return None;
        }
        let mut path = Vec::new();
        page_cache::look(self.dataset.spec().objects, |index| {
            path.clear();
            self.write_path(index, &mut path);
            let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
            let file = disk::open_at(self.directory.as_fd(), writes::c_path(&path), flags).ok()?;
            let bytes = rustix::fs::fstat(&file).ok()?.st_size;
            Some((file, 0, u64::try_from(bytes).ok()?))
        })
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<Reactor>, Error> {
        Ok(Reactor::new(Box::new(Sleep), Clock::real()))
    }

    fn client(self: &Arc<Self>, reactor: &Rc<Reactor>, index: u32) -> Result<FileClient, Error> {
        let largest = self.dataset.spec().size.max();
        let chunk = usize::try_from(largest).unwrap_or(usize::MAX).min(self.chunk_bytes);
        let block = usize::try_from(self.block_bytes).expect("checked against the limit");
        let temporary = format!("{TEMPORARY}{}-{}-{index}", self.run, std::process::id());
        let at_hand = self.dataset.spec().buckets.min(BUCKETS_AT_HAND);
        Ok(FileClient {
            tree: Arc::clone(self),
            reactor: Rc::clone(reactor),
            // A range that starts and ends inside a sector needs one more sector at each end.
            buffer: Buffer::new(chunk.max(block) + 2 * disk::ALIGNMENT),
            held: Held::default(),
            path: Vec::new(),
            leaf: 0,
            temporary: CString::new(temporary).expect("check refused zeroes in runs"),
            buckets: (0..at_hand).map(|_| None).collect(),
            expects_new: true,
            ranges: Vec::new(),
            open_files: OpenFiles::default(),
            writes: 0,
            turns: Turns::default(),
            version: 0,
            last_error: None,
        })
    }
}

impl FileTree {
    /// Appends an object's path below the root, and returns where its name begins.
    #[inline]
    fn write_path(&self, index: u64, path: &mut Vec<u8>) -> usize {
        let dataset = &self.dataset;
        dataset.write_bucket(dataset.bucket_of(index), path);
        path.push(b'/');
        let leaf = path.len() + self.leaf_start;
        dataset.write_key(index, path);
        path.push(0);
        leaf
    }
}

/// Makes a directory flat: a slash in a key of a script does not separate directories.
fn flat(mut dataset: Dataset) -> Dataset {
    dataset.flatten();
    dataset
}

/// Returns whether a path may lead out of the directory that it is relative to.
fn leads_out(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|step| matches!(step, b"" | b"." | b".."))
}

fn open_root(root: &Path, target: &str) -> Result<OwnedFd, Error> {
    let refused = |error: std::io::Error| {
        let action = format!("open directory \"{}\" of target \"{target}\"", root.display());
        let refused = Error::system(action, &error);
        match error.kind() {
            std::io::ErrorKind::NotFound => refused.with_hint("mount or make it, or correct path"),
            std::io::ErrorKind::NotADirectory => {
                refused.with_hint("a file or device is a target of driver \"block\"")
            }
            _ => refused,
        }
    };
    let path = CString::new(root.as_os_str().as_bytes()).map_err(|error| refused(error.into()))?;
    let directory = std::fs::File::open("/").map_err(refused)?;
    let path = if root.is_absolute() {
        path
    } else {
        let absolute = std::path::absolute(root).map_err(refused)?;
        CString::new(absolute.as_os_str().as_bytes()).map_err(|error| refused(error.into()))?
    };
    disk::open_at(directory.as_fd(), &path, libc::O_RDONLY | libc::O_DIRECTORY).map_err(refused)
}

/// Refuses a directory of the kernel, or one that is on another file system than before.
fn check_root(trial: &Trial, root: &Path, volume: &str) -> Result<(), Error> {
    let action =
        format!("use directory \"{}\" of target \"{}\"", root.display(), trial.target.name);
    if trial.changes_objects() && disk::is_in_kernel_folder(root) {
        return Err(Error::target(
            action,
            "it is one of the kernel's, and holds no files of others",
        )
        .of(Kind::Unsupported)
        .with_hint("correct path; /dev/shm is for files in memory"));
    }
    if trial.ownership.is_elsewhere(volume) {
        let claimed = trial.ownership.volumes.join(", or ");
        let why = format!("the run has used {claimed}; found was {volume}");
        return Err(Error::target(action, why)
            .of(Kind::TargetAbsent)
            .with_hint("mount again what the run has used, or begin a new run"));
    }
    Ok(())
}

/// Returns the number of bytes per `read` or `write`.
fn block_bytes(trial: &Trial) -> u64 {
    let is_in_blocks = |share: &crate::trial::Share| {
        matches!(
            share.operation,
            Operation::Read | Operation::Write | Operation::Append | Operation::RangeGet
        )
    };
    if !trial.mix.iter().any(is_in_blocks) {
        return 1;
    }
    let largest = trial.dataset.size.max();
    trial.options.range_bytes.unwrap_or(largest).clamp(1, largest.max(1))
}

impl Client for FileClient {
    async fn execute(&mut self, request: &Request) -> Completion {
        let mut completion = Completion::plain(Outcome::OK, self.reactor.latest_ns(), 0, 0);
        if request.operation.info().payload != Payload::Written {
            self.held.forget();
        }
        let done = self.carry_out(request, &mut completion);
        if completion.ended_ns == 0 {
            completion.ended_ns = self.reactor.now_ns();
        }
        if let Err(error) = done {
            completion.outcome = match (request.operation, Outcome::of_io(&error)) {
                (Operation::PutIfAbsent, Outcome::EXISTS) => Outcome::LOST_RACE,
                (_, outcome) => outcome,
            };
            self.note(request, &error.to_string());
        }
        self.turns.after(completion.ended_ns, &self.reactor).await;
        completion
    }

    async fn look_at_bucket(&mut self, bucket: &str) -> Result<Standing, Error> {
        self.tree.find(bucket, self.tree.is_foreign_allowed)
    }

    async fn list_objects(
        &mut self,
        place: &str,
        prefix: &str,
        lister: &mut Lister,
    ) -> Result<(), Error> {
        self.tree.list_files(place, prefix, lister)
    }

    async fn is_bucket_absent(&mut self, bucket: &str) -> Result<bool, Error> {
        Ok(self.tree.is_absent(bucket))
    }

    async fn ready_bucket(
        &mut self,
        bucket: &str,
        allow_foreign: bool,
    ) -> Result<BucketState, Error> {
        self.tree.ready(bucket, allow_foreign)
    }

    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error> {
        self.open_files.close_all();
        self.buckets.fill(None);
        self.tree.sweep(bucket)
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn last_error(&mut self) -> Option<String> {
        self.last_error.take()
    }
}

impl FileClient {
    fn carry_out(&mut self, request: &Request, completion: &mut Completion) -> std::io::Result<()> {
        match request.operation {
            Operation::List => return self.list(request, completion),
            Operation::CreateBucket => return self.create_bucket(request),
            Operation::DeleteBucket => return self.delete_bucket(request),
            _ => {}
        }
        let number = self.tree.dataset.bucket_of(request.object().index);
        let place = (number % self.buckets.len() as u64) as usize;
        // Taken out and put back, which changes no reference count that threads share.
        let bucket =
            match self.buckets[place].take().filter(|(open_number, _)| *open_number == number) {
                Some((_, bucket)) => bucket,
                None => {
                    self.at_object(request.object());
                    self.tree.bucket(number)?
                }
            };
        let done = self.carry_out_in(&bucket, request, completion);
        self.buckets[place] = Some((number, bucket));
        done
    }

    #[inline]
    fn carry_out_in(
        &mut self,
        bucket: &Bucket,
        request: &Request,
        completion: &mut Completion,
    ) -> std::io::Result<()> {
        match request.operation {
            Operation::Put | Operation::PutIfAbsent => self.put(bucket, request, completion),
            Operation::Get => self.get(bucket, request, completion),
            Operation::RangeGet => self.range_get(bucket, request, completion),
            Operation::Head => self.head(bucket, request, completion),
            Operation::Delete => self.delete(bucket, request),
            Operation::Copy => self.copy(bucket, request),
            Operation::Post => self.post(bucket, request),
            Operation::Read => self.read_block(bucket, request, completion),
            Operation::Write | Operation::Append => self.write_block(bucket, request, completion),
            _ => unreachable!("Trial::check refused what is not in OPERATIONS"),
        }
    }

    /// Returns the name of the current object in its directory.
    #[inline]
    fn name(&self) -> &CStr {
        writes::c_path(&self.path[self.leaf..])
    }

    /// Selects an object: writes its path and returns its expected payload.
    #[inline]
    fn at_object(&mut self, object: Object) -> ObjectId {
        self.path.clear();
        self.leaf = self.tree.write_path(object.index, &mut self.path);
        self.tree.dataset.id(object)
    }

    /// Selects the copy of the current object.
    fn go_to_copy(&mut self) {
        self.path.pop();
        self.path.extend_from_slice(COPY_SUFFIX.as_bytes());
        self.path.push(0);
    }

    /// Selects a bucket.
    fn at_bucket(&mut self, bucket: u64) {
        self.path.clear();
        self.tree.dataset.write_bucket(bucket, &mut self.path);
        self.path.push(0);
    }

    #[cold]
    fn note(&mut self, request: &Request, problem: &str) {
        let below = self.path.strip_suffix(&[0]).unwrap_or(&self.path);
        let path = self.tree.root.join(String::from_utf8_lossy(below).as_ref());
        let name = request.operation.name();
        self.last_error = Some(format!("{name} \"{}\": {problem}", path.display()));
    }
}
