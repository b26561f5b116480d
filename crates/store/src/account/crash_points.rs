//! Every point at which a crash can occur while a data directory is written.
//!
//! One history is recorded step by step. For each of its prefixes, the files are created as a crash
//! could leave them: with all steps done (a kill), and (a loss of power) with only those that were
//! flushed, with each of the others lost or kept alone, and with half of a write. A store that
//! starts on them must have every acknowledged write, and all or nothing of the write in progress.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;

use crate::account::intake::take_in_bytes;
use crate::account::{Account, Storage};
use crate::budget::Budget;
use crate::directory::Directory;
use crate::disk::Operation;
use crate::stored::bucket::Settings;
use crate::stored::index::{Precondition, Versioning};
use crate::stored::object::{About, Checksums, Draft};
use crate::stored::upload::{Part, Upload, UploadFacts};

/// How many of the steps that were not flushed are lost or kept one by one: the last ones. Older
/// ones are removals of bytes that no sidecar names.
const OPEN_STEPS: usize = 6;

/// A directory that is removed with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("loadstone-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Starts an account on a directory; also returns the damage.
pub(crate) fn open(root: &Path, is_synced: bool) -> (Arc<Account>, Vec<String>) {
    let directory = Directory::open(root, is_synced).unwrap();
    let mut content = directory.load().unwrap();
    let damage = std::mem::take(&mut content.damage);
    let storage = Storage::new(Budget::new(1 << 30), Some(directory));
    let account = Account::new(storage, None);
    account.restore(content).unwrap();
    (Arc::new(account), damage)
}

/// State visible to clients: buckets, versions and open uploads, by name.
type State = BTreeMap<String, String>;

async fn observe(account: &Account) -> State {
    let mut state = State::new();
    let buckets: Vec<_> = account.buckets().values().cloned().collect();
    for bucket in buckets {
        state.insert(bucket.name.to_string(), format!("{:?}", bucket.versioning()));
        let query = crate::stored::listing::Query { limit: usize::MAX, ..Default::default() };
        let page = bucket.index().list_versions(query);
        for entry in page.entries {
            let crate::stored::listing::Entry::Key(key, versions) = entry else { continue };
            for (age, object) in versions.iter().rev().enumerate() {
                let bytes = object.body.stream().collect().await.unwrap().to_bytes();
                let shown = format!("{} {:?} {:?}", object.etag, object.about.metadata, bytes);
                state.insert(format!("{}/{key} version {age}", bucket.name), shown);
            }
        }
        let uploads: Vec<_> = bucket.uploads().values().cloned().collect();
        for upload in uploads {
            let parts: Vec<_> = upload.parts().iter().map(|(n, part)| (*n, part.clone())).collect();
            let place = format!("{}/{} upload", bucket.name, upload.facts.key);
            state.insert(place.clone(), String::new());
            for (number, part) in parts {
                let bytes = part.body.stream().collect().await.unwrap().to_bytes();
                state.insert(format!("{place} {number}"), format!("{bytes:?}"));
            }
        }
    }
    state
}

pub(crate) async fn draft(account: &Account, text: &str) -> Draft {
    let taken = take_in_bytes(&account.storage, Bytes::copy_from_slice(text.as_bytes()));
    let taken = taken.await.unwrap();
    Draft { etag: taken.etag(), body: taken.body, about: About::default() }
}

async fn put(account: &Arc<Account>, bucket: &str, key: &str, text: &str) {
    let bucket = account.bucket(bucket).unwrap();
    let draft = draft(account, text).await;
    account.put(&bucket, key, draft, &Precondition::default()).await.unwrap();
}

async fn delete(account: &Arc<Account>, bucket: &str, key: &str) {
    let bucket = account.bucket(bucket).unwrap();
    account.delete(&bucket, key, None, |_| Ok(())).await.unwrap();
}

async fn copy(account: &Arc<Account>, from: &str, to: &str) {
    let bucket = account.bucket("b").unwrap();
    let source = account.object(&bucket, from, None).unwrap();
    let (body, etag) = (source.body.clone(), source.etag.clone());
    let draft = Draft { body, etag, about: source.about.clone() };
    account.put(&bucket, to, draft, &Precondition::default()).await.unwrap();
}

async fn tag(account: &Arc<Account>, key: &str, value: &str) {
    let bucket = account.bucket("b").unwrap();
    let tags = vec![("tag".to_owned(), value.to_owned())];
    account.change_object(&bucket, key, None, None, |about| about.metadata = tags).await.unwrap();
}

async fn upload(account: &Arc<Account>, key: &str) -> Arc<Upload> {
    let bucket = account.bucket("b").unwrap();
    let facts = UploadFacts { key: key.into(), started_us: 1, about: About::default(), rule: None };
    account.open_upload(&bucket, facts).await.unwrap()
}

async fn part(account: &Arc<Account>, upload: &Arc<Upload>, number: i32, text: &str) {
    let bucket = account.bucket("b").unwrap();
    let taken = take_in_bytes(&account.storage, Bytes::copy_from_slice(text.as_bytes()));
    let taken = taken.await.unwrap();
    let (body, md5) = (taken.body, taken.md5);
    let part = Part { body, md5, modified_us: 2, checksums: Checksums::default() };
    account.add_part(&bucket, upload, number, part).await.unwrap();
}

async fn complete(account: &Arc<Account>, upload: &Arc<Upload>, numbers: &[i32]) {
    let bucket = account.bucket("b").unwrap();
    let named: Vec<_> = numbers
        .iter()
        .map(|number| (*number, crate::hex::hex(&upload.parts()[number].md5)))
        .collect();
    let joined = upload.join(&named).unwrap();
    let draft = Draft { body: joined.body, etag: joined.etag, about: About::default() };
    account.complete_upload(&bucket, upload, draft, &Precondition::default()).await.unwrap();
}

/// Runs a history; returns its steps and the state visible to clients after each acknowledgement.
fn play(root: &Path, is_synced: bool) -> (Vec<Operation>, Vec<State>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (account, _) = open(root, is_synced);
        let disk = account.storage.directory.as_ref().unwrap().disk.clone();
        disk.journal.lock().unwrap().is_recording = true;
        let mut states = vec![State::new()];
        let mut opened = Vec::new();
        macro_rules! acknowledged {
            ($($action:expr;)*) => {$(
                { $action };
                disk.journal.lock().unwrap().steps.push(Operation::Acknowledged(states.len()));
                states.push(observe(&account).await);
            )*};
        }
        acknowledged! {
            account.create_bucket("b", Settings::default()).unwrap();
            put(&account, "b", "a", "first").await;
            put(&account, "b", "a", "second, and longer").await;
            put(&account, "b", "empty", "").await;
            tag(&account, "a", "one").await;
            tag(&account, "a", "two").await;
            copy(&account, "a", "copy").await;
            put(&account, "b", "a", "third").await;
            delete(&account, "b", "a").await;
            copy(&account, "copy", "copy of the copy").await;
            delete(&account, "b", "copy").await;
            opened.push(upload(&account, "m").await);
            part(&account, &opened[0], 1, "part one, replaced").await;
            part(&account, &opened[0], 1, "part one ").await;
            part(&account, &opened[0], 2, "part two").await;
            part(&account, &opened[0], 3, "part three, not used").await;
            complete(&account, &opened[0], &[1, 2]).await;
            copy(&account, "m", "of parts").await;
            delete(&account, "b", "m").await;
            opened.push(upload(&account, "never").await);
            part(&account, &opened[1], 1, "aborted").await;
            account.abort_upload(&account.bucket("b").unwrap(), &opened[1]).await.unwrap();
            account.create_bucket("v", Settings::default()).unwrap();
            account.change_bucket(&account.bucket("v").unwrap(), |settings| {
                settings.versioning = Versioning::Enabled;
            }).unwrap();
            put(&account, "v", "k", "version one").await;
            put(&account, "v", "k", "version two").await;
            delete(&account, "v", "k").await;
            account.create_bucket("gone", Settings::default()).unwrap();
            account.delete_bucket("gone").unwrap();
            put(&account, "b", "a", "again").await;
        }
        let steps = std::mem::take(&mut disk.journal.lock().unwrap().steps);
        (steps, states)
    })
}

/// Content of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Directory,
    File(Vec<u8>),
}

type Image = BTreeMap<PathBuf, Node>;

/// The steps that a crash has left on the disk.
struct Crash<'s> {
    steps: &'s [Operation],
    /// For each step, its file, as the index of the step that created it.
    files: Vec<Option<usize>>,
    is_flushed: Vec<bool>,
}

impl Crash<'_> {
    fn after(steps: &[Operation]) -> Crash<'_> {
        let mut names: HashMap<&Path, usize> = HashMap::new();
        let mut files = vec![None; steps.len()];
        let mut is_flushed = vec![false; steps.len()];
        for (at, step) in steps.iter().enumerate() {
            match step {
                Operation::Create(path) => {
                    names.insert(path, at);
                    files[at] = Some(at);
                }
                Operation::Rename(from, to) => {
                    files[at] = names.remove(from.as_path());
                    names.insert(to, files[at].expect("a file that was made"));
                }
                Operation::Write { path, .. } => files[at] = names.get(path.as_path()).copied(),
                Operation::Sync(path) => {
                    let file = names.get(path.as_path()).copied();
                    for before in 0..at {
                        if matches!(steps[before], Operation::Write { .. }) && files[before] == file
                        {
                            is_flushed[before] = true;
                        }
                    }
                }
                Operation::SyncNames(directory) => {
                    for before in 0..at {
                        is_flushed[before] |= named_in(&steps[before]) == Some(directory.as_path());
                    }
                }
                _ => {}
            }
        }
        Crash { steps, files, is_flushed }
    }

    /// Returns the files after a crash with the steps of `is_kept` on the disk.
    fn image(&self, root: &Path, is_kept: impl Fn(usize) -> bool, is_torn: bool) -> Image {
        let mut names: BTreeMap<PathBuf, Option<usize>> = BTreeMap::new();
        for part in ["data", "buckets"] {
            names.insert(root.join(part), None);
        }
        let mut contents: HashMap<usize, Vec<u8>> = HashMap::new();
        for (at, step) in self.steps.iter().enumerate().filter(|(at, _)| is_kept(*at)) {
            match step {
                Operation::MakeDirectory(path) => drop(names.insert(path.clone(), None)),
                Operation::Create(path) => drop(names.insert(path.clone(), Some(at))),
                Operation::Write { offset, bytes, .. } => {
                    let Some(file) = self.files[at] else { continue };
                    let is_cut = is_torn && !self.is_flushed[at];
                    let bytes = if is_cut { &bytes[..bytes.len() / 2] } else { &bytes[..] };
                    let content = contents.entry(file).or_default();
                    let end = *offset as usize + bytes.len();
                    content.resize(content.len().max(end), 0);
                    content[*offset as usize..end].copy_from_slice(bytes);
                }
                Operation::Rename(from, to) => {
                    names.remove(from);
                    names.insert(to.clone(), self.files[at]);
                }
                Operation::Remove(path) => drop(names.remove(path)),
                Operation::RemoveTree(path) => names.retain(|known, _| !known.starts_with(path)),
                Operation::Sync(_) | Operation::SyncNames(_) | Operation::Acknowledged(_) => {}
            }
        }
        let mut image = Image::new();
        // In order, so that a directory comes before its content.
        for (path, file) in names {
            let parent = path.parent().unwrap();
            if parent != root && image.get(parent) != Some(&Node::Directory) {
                continue;
            }
            let node = match file {
                None => Node::Directory,
                Some(file) => Node::File(contents.get(&file).cloned().unwrap_or_default()),
            };
            image.insert(path, node);
        }
        image
    }

    /// Returns the tested states of the files that the crash can leave.
    fn images(&self, root: &Path, loses_power: bool) -> BTreeSet<Image> {
        let all = |_: usize| true;
        let mut images = BTreeSet::from([self.image(root, all, false)]);
        if !loses_power {
            return images;
        }
        let flushed = |at: usize| self.is_flushed[at];
        images.insert(self.image(root, flushed, false));
        images.insert(self.image(root, all, true));
        let open = (0..self.steps.len()).rev().filter(|at| !self.is_flushed[*at]);
        for single in open.take(OPEN_STEPS) {
            images.insert(self.image(root, |at| at != single, false));
            images.insert(self.image(root, |at| at == single || self.is_flushed[at], false));
        }
        images
    }
}

/// Returns the directory whose names a step changes.
fn named_in(step: &Operation) -> Option<&Path> {
    match step {
        Operation::MakeDirectory(path)
        | Operation::Create(path)
        | Operation::Rename(_, path)
        | Operation::Remove(path)
        | Operation::RemoveTree(path) => path.parent(),
        _ => None,
    }
}

fn materialize(image: &Image, played: &Path, root: &Path) {
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root).unwrap();
    fs::write(root.join("store.json"), "{\"format\":2}").unwrap();
    for (path, node) in image {
        let path = root.join(path.strip_prefix(played).unwrap());
        match node {
            Node::Directory => fs::create_dir_all(path).unwrap(),
            Node::File(bytes) => fs::write(path, bytes).unwrap(),
        }
    }
}

/// Tests every point of a history; returns the number of states of the files.
fn try_every_point(name: &str, is_synced: bool) -> usize {
    let played = Folder::new(&format!("{name}-played"));
    let crashed = Folder::new(&format!("{name}-crashed"));
    let (steps, states) = play(&played.0, is_synced);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut tried, mut known) = (0, BTreeSet::new());
    let mut acknowledged = 0;
    for end in 0..=steps.len() {
        if let Some(Operation::Acknowledged(number)) = end.checked_sub(1).map(|at| &steps[at]) {
            acknowledged = *number;
        }
        let before = &states[acknowledged];
        let after = states.get(acknowledged + 1).unwrap_or(before);
        for image in Crash::after(&steps[..end]).images(&played.0, is_synced) {
            if !known.insert((acknowledged, image.clone())) {
                continue;
            }
            tried += 1;
            materialize(&image, &played.0, &crashed.0);
            // The second start must find the same as the first.
            for start in 0..2 {
                let (account, damage) = open(&crashed.0, false);
                assert!(damage.is_empty(), "step {end}, start {start}: {damage:?}");
                let observed = runtime.block_on(observe(&account));
                let places: BTreeSet<_> =
                    before.keys().chain(after.keys()).chain(observed.keys()).collect();
                for place in places {
                    let actual = observed.get(place);
                    assert!(
                        actual == before.get(place) || actual == after.get(place),
                        "after step {end} ({:?}): {place} is {actual:?}, not {:?} or {:?}",
                        end.checked_sub(1).map(|at| &steps[at]),
                        before.get(place),
                        after.get(place),
                    );
                }
            }
        }
    }
    tried
}

#[test]
fn a_store_without_fsync_is_consistent_after_a_kill_at_any_step() {
    assert!(try_every_point("kill", false) > 100);
}

#[test]
fn a_store_with_fsync_keeps_acknowledged_writes_after_a_power_loss_at_any_step() {
    assert!(try_every_point("power", true) > 200);
}
