//! Histories of concurrent clients, over restarts and kills: each key is a register.
//!
//! Clients put, put conditionally, read, delete, tag, copy and complete uploads; some disappear in
//! the middle of a request. The store is stopped or killed in between and starts again. The answers
//! are then checked with the algorithm of Wing and Gong and the memoization of Lowe: is there an
//! order of the operations, each between its call and its answer, that a register could have
//! executed? An operation in progress at a kill happened before the kill or never.

mod checker;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::BodyExt;

use crate::account::Account;
use crate::account::crash_points::{Folder, open};
use crate::account::linearizability::checker::{Action, Call, Value, is_linearizable};
use crate::chance;
use crate::error::Refusal;
use crate::stored::bucket::Settings;
use crate::stored::index::{EtagRule, Precondition};
use crate::stored::object::{About, Checksums, Draft, Object};
use crate::stored::upload::{Part, Upload, UploadFacts};

/// Random numbers from a seed.
struct Chance {
    seed: u64,
    drawn: u64,
}

impl Chance {
    fn new(seed: u64) -> Chance {
        Chance { seed, drawn: 0 }
    }

    fn next(&mut self) -> u64 {
        self.drawn += 1;
        chance::bits(self.seed, &["history"], self.drawn)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

const KEYS: [&str; 3] = ["a", "b", "c"];

/// State that the clients of one history share.
#[derive(Default)]
struct Scene {
    clock: AtomicU64,
    /// Number of writes: each write has a different number.
    writes: AtomicU32,
    tags: AtomicU32,
    calls: Mutex<BTreeMap<&'static str, Vec<Call>>>,
    /// Uploads in progress, with their key and the number of the write.
    uploads: Mutex<Vec<(&'static str, u32, String)>>,
}

/// The content of a write. Lengths differ, so that a mixture of two writes equals neither.
fn text(write: u32) -> String {
    format!("{write} ").repeat(1 + write as usize % 50)
}

impl Scene {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn write(&self) -> u32 {
        self.writes.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn note(&self, key: &'static str, action: Action, called: u64, is_open: bool) {
        // A call without an answer is closed when the store has ended.
        let answered = if is_open { u64::MAX } else { self.now() };
        let call = Call { action, called, answered, is_open };
        self.calls.lock().unwrap().entry(key).or_default().push(call);
    }

    /// Ends a store: calls that have no answer by now were executed before or never.
    fn end_of_store(&self) {
        let now = self.now();
        for call in self.calls.lock().unwrap().values_mut().flatten() {
            call.answered = call.answered.min(now);
        }
    }
}

/// The entity tag names the write, and the write whose bytes it has, which for a copy is an older
/// one.
fn etag(write: u32, bytes_of: u32) -> Box<str> {
    format!("{write}:{bytes_of}").into()
}

fn write_of(object: &Object) -> (u32, u32) {
    let (write, bytes_of) = object.etag.split_once(':').unwrap();
    (write.parse().unwrap(), bytes_of.parse().unwrap())
}

async fn value_of(object: &Object) -> Value {
    let (write, bytes_of) = write_of(object);
    let bytes = object.body.stream().collect().await.unwrap().to_bytes();
    assert_eq!(bytes, text(bytes_of).as_bytes(), "a read that is torn");
    let tag = object.about.metadata.first().map_or(0, |(_, value)| value.parse().unwrap());
    Some((write, tag))
}

async fn written(account: &Arc<Account>, write: u32) -> Option<Draft> {
    let bytes = bytes::Bytes::from(text(write));
    let taken = crate::account::intake::take_in_bytes(&account.storage, bytes).await.ok()?;
    Some(Draft { etag: etag(write, write), body: taken.body, about: About::default() })
}

/// Waits for an answer, unless the client disappears first.
async fn answer<T>(
    leaves: bool,
    work: impl Future<Output = Result<T, Refusal>>,
) -> Option<Result<T, Refusal>> {
    let gone = async {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        if !leaves {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        done = work => match done {
            // The store was killed and did not answer.
            Err(Refusal::Io(_)) => None,
            done => Some(done),
        },
        () = gone => None,
    }
}

/// A client: executes some operations in sequence, and ends with the store.
async fn client(account: Arc<Account>, scene: Arc<Scene>, mut chance: Chance, count: usize) {
    let bucket = account.bucket("bucket").unwrap();
    for _ in 0..count {
        let key = KEYS[chance.below(KEYS.len() as u64) as usize];
        let leaves = chance.below(12) == 0;
        let current = || account.object(&bucket, key, None).ok();
        let called = scene.now();
        match chance.below(10) {
            0..=2 => {
                let object = current();
                let value = match &object {
                    Some(object) => value_of(object).await,
                    None => None,
                };
                scene.note(key, Action::Read(value), called, false);
            }
            3 | 4 => {
                let write = scene.write();
                let Some(draft) = written(&account, write).await else { return };
                let none = Precondition::default();
                let done = answer(leaves, account.put(&bucket, key, draft, &none)).await;
                scene.note(key, Action::Write(write), called, done.is_none());
            }
            5 => put_if(&account, &scene, &mut chance, key, leaves).await,
            6 => {
                let done = answer(leaves, account.delete(&bucket, key, None, |_| Ok(()))).await;
                let existed = matches!(&done, Some(Ok(deleted)) if deleted.existed);
                scene.note(key, Action::Delete(existed), called, done.is_none());
            }
            7 => {
                let tag = scene.tags.fetch_add(1, Ordering::SeqCst) + 1;
                let tags = vec![("tag".to_owned(), tag.to_string())];
                let change = move |about: &mut About| about.metadata = tags;
                let changed = account.change_object(&bucket, key, None, None, change);
                let done = answer(leaves, changed).await;
                let action = Action::Tag(tag, matches!(done, Some(Ok(_))));
                scene.note(key, action, called, done.is_none());
            }
            8 => copy(&account, &scene, &mut chance, key, leaves).await,
            _ => multipart(&account, &scene, &mut chance, key, leaves).await,
        }
    }
}

/// Puts conditionally: if nothing exists, or over the current object.
async fn put_if(
    account: &Arc<Account>,
    scene: &Scene,
    chance: &mut Chance,
    key: &'static str,
    leaves: bool,
) {
    let bucket = account.bucket("bucket").unwrap();
    let called = scene.now();
    let write = scene.write();
    let Some(draft) = written(account, write).await else { return };
    let current = account.object(&bucket, key, None).ok();
    let old = current.filter(|_| chance.below(2) == 0);
    let condition = match &old {
        Some(old) => {
            Precondition { if_match: Some(EtagRule::parse(&old.etag)), if_none_match: None }
        }
        None => Precondition { if_match: None, if_none_match: Some(EtagRule::Any) },
    };
    let done = answer(leaves, account.put(&bucket, key, draft, &condition)).await;
    let is_done = matches!(done, Some(Ok(_)));
    let action = match old {
        Some(old) => Action::WriteOver(write_of(&old).0, write, is_done),
        None => Action::WriteNew(write, is_done),
    };
    scene.note(key, action, called, done.is_none());
}

/// Copies from one key to another.
async fn copy(
    account: &Arc<Account>,
    scene: &Scene,
    chance: &mut Chance,
    key: &'static str,
    leaves: bool,
) {
    let bucket = account.bucket("bucket").unwrap();
    let called = scene.now();
    let Ok(source) = account.object(&bucket, key, None) else { return };
    scene.note(key, Action::Read(value_of(&source).await), called, false);
    let to = KEYS[chance.below(KEYS.len() as u64) as usize];
    let (called, write) = (scene.now(), scene.write());
    let (body, etag) = (source.body.clone(), etag(write, write_of(&source).1));
    let draft = Draft { body, etag, about: About::default() };
    let none = Precondition::default();
    let done = answer(leaves, account.put(&bucket, to, draft, &none)).await;
    scene.note(to, Action::Write(write), called, done.is_none());
}

/// Begins an upload, or completes one in progress, possibly concurrently with another client.
async fn multipart(
    account: &Arc<Account>,
    scene: &Scene,
    chance: &mut Chance,
    key: &'static str,
    leaves: bool,
) {
    let bucket = account.bucket("bucket").unwrap();
    let known = scene.uploads.lock().unwrap().clone();
    let (key, write, id) = if known.is_empty() || chance.below(3) == 0 {
        let write = scene.write();
        let facts =
            UploadFacts { key: key.into(), started_us: 1, about: About::default(), rule: None };
        let Ok(upload) = account.open_upload(&bucket, facts).await else { return };
        let Some(draft) = written(account, write).await else { return };
        let checksums = Checksums::default();
        let part = Part { body: draft.body, md5: [0; 16], modified_us: 1, checksums };
        let Ok(()) = account.add_part(&bucket, &upload, 1, part).await else { return };
        scene.uploads.lock().unwrap().push((key, write, upload.id.to_string()));
        (key, write, upload.id.to_string())
    } else {
        known[chance.below(known.len() as u64) as usize].clone()
    };
    let place = crate::stored::upload::place(key, &id);
    let Some(upload): Option<Arc<Upload>> = bucket.uploads().get(&place).cloned() else { return };
    let named = [(1, crate::hex::hex(&[0; 16]))];
    let joined = upload.join(&named).unwrap();
    let about = About::default();
    // A completion that was killed between writing the object and ending the upload may be
    // repeated, which is another write of the same bytes.
    let (called, bytes_of, write) = (scene.now(), write, scene.write());
    let draft = Draft { body: joined.body, etag: etag(write, bytes_of), about };
    let none = Precondition::default();
    let done = answer(leaves, account.complete_upload(&bucket, &upload, draft, &none)).await;
    match done {
        // Another client was first, so nothing was done.
        Some(Err(Refusal::NoSuchUpload)) => {}
        done => scene.note(key, Action::Write(write), called, done.is_none()),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

/// Runs a function on a new thread, because each thread of a store has its own runtime.
fn apart<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::spawn(move || runtime().block_on(work))
}

/// Runs the history of a seed; returns its calls by key.
fn play(seed: u64, root: &Folder) -> BTreeMap<&'static str, Vec<Call>> {
    let mut chance = Chance::new(seed);
    let scene = Arc::new(Scene::default());
    for store in 0..3 {
        let (account, damage) = open(&root.0, false);
        assert!(damage.is_empty(), "seed {seed}: {damage:?}");
        if store == 0 {
            account.create_bucket("bucket", Settings::default()).unwrap();
        }
        let disk = account.storage.directory.as_ref().unwrap().disk.clone();
        if chance.below(3) > 0 {
            disk.journal.lock().unwrap().steps_left = Some(chance.below(120));
        }
        let clients: Vec<_> = (0..4)
            .map(|_| apart(client(account.clone(), scene.clone(), Chance::new(chance.next()), 5)))
            .collect();
        // Each thread also waits for changes whose clients have disappeared.
        clients.into_iter().for_each(|client| client.join().unwrap());
        disk.journal.lock().unwrap().steps_left = Some(0);
        scene.end_of_store();
        drop(account);
    }
    let (account, damage) = open(&root.0, false);
    assert!(damage.is_empty(), "seed {seed}: {damage:?}");
    let runtime = runtime();
    let bucket = account.bucket("bucket").unwrap();
    for key in KEYS {
        let called = scene.now();
        let value = match account.object(&bucket, key, None) {
            Ok(object) => runtime.block_on(value_of(&object)),
            Err(_) => None,
        };
        scene.note(key, Action::Read(value), called, false);
    }
    std::mem::take(&mut *scene.calls.lock().unwrap())
}

/// Runs and checks the histories of seeds; returns the number of operations.
fn check(seeds: std::ops::Range<u64>) -> usize {
    let root = Folder::new(&format!("histories-{}", seeds.start));
    let mut count = 0;
    for seed in seeds {
        let folder = Folder(root.0.join(seed.to_string()));
        std::fs::create_dir_all(&folder.0).unwrap();
        for (key, calls) in play(seed, &folder) {
            count += calls.len();
            assert!(is_linearizable(&calls), "seed {seed}, key {key}: {calls:#?}");
        }
    }
    count
}

#[test]
fn short_histories_over_restarts_and_kills_are_linearizable() {
    assert!(check(0..200) > 200 * 20);
}

#[test]
#[ignore = "long: make test-long"]
fn long_histories_over_restarts_and_kills_are_linearizable() {
    let count = std::env::var("LOADSTONE_HISTORIES").ok().and_then(|text| text.parse().ok());
    let count = count.unwrap_or(10_000);
    let operations = check(1_000_000..1_000_000 + count);
    assert!(operations as u64 > count * 20);
}

#[test]
fn numbers_of_ended_uploads_are_not_reused_after_a_restart() {
    let folder = Folder::new("numbers");
    let runtime = runtime();
    let mut ids = std::collections::BTreeSet::new();
    for store in 0..3 {
        let (account, _) = open(&folder.0, false);
        if store == 0 {
            account.create_bucket("bucket", Settings::default()).unwrap();
        }
        let bucket = account.bucket("bucket").unwrap();
        let facts =
            UploadFacts { key: "k".into(), started_us: 1, about: About::default(), rule: None };
        let upload = runtime.block_on(account.open_upload(&bucket, facts)).unwrap();
        runtime.block_on(account.abort_upload(&bucket, &upload)).unwrap();
        assert!(ids.insert(upload.id.clone()), "{} was another's", upload.id);
    }
}

#[test]
fn one_of_concurrent_completions_wins_and_survives_a_restart() {
    let folder = Folder::new("completions");
    let (account, _) = open(&folder.0, false);
    let bucket = account.create_bucket("bucket", Settings::default()).unwrap();
    let runtime = runtime();
    for round in 0..20 {
        let facts =
            UploadFacts { key: "k".into(), started_us: 1, about: About::default(), rule: None };
        let upload = runtime.block_on(account.open_upload(&bucket, facts)).unwrap();
        let draft = runtime.block_on(written(&account, round + 1)).unwrap();
        let checksums = Checksums::default();
        let part = Part { body: draft.body, md5: [0; 16], modified_us: 1, checksums };
        runtime.block_on(account.add_part(&bucket, &upload, 1, part)).unwrap();
        let tries: Vec<_> = (0..4)
            .map(|_| {
                let (account, bucket) = (account.clone(), bucket.clone());
                let upload = upload.clone();
                apart(async move {
                    let joined = upload.join(&[(1, crate::hex::hex(&[0; 16]))]).unwrap();
                    let etag = etag(round + 1, round + 1);
                    let draft = Draft { body: joined.body, etag, about: About::default() };
                    let none = Precondition::default();
                    account.complete_upload(&bucket, &upload, draft, &none).await.is_ok()
                })
            })
            .collect();
        let won = tries.into_iter().map(|try_| try_.join().unwrap());
        assert_eq!(won.filter(|won| *won).count(), 1);
    }
    drop((account, bucket));
    let (account, damage) = open(&folder.0, false);
    assert_eq!(damage, [""; 0]);
    let bucket = account.bucket("bucket").unwrap();
    let object = account.object(&bucket, "k", None).unwrap();
    assert_eq!(runtime.block_on(value_of(&object)), Some((20, 0)));
}

#[test]
fn concurrent_changes_of_an_object_are_all_kept() {
    let folder = Folder::new("changes");
    let (account, _) = open(&folder.0, false);
    let bucket = account.create_bucket("bucket", Settings::default()).unwrap();
    let runtime = runtime();
    let draft = runtime.block_on(written(&account, 1)).unwrap();
    let none = Precondition::default();
    let object = runtime.block_on(account.put(&bucket, "k", draft, &none)).unwrap();
    let changes: Vec<_> = (0..40)
        .map(|number: i32| {
            let (account, bucket) = (account.clone(), bucket.clone());
            apart(async move {
                let tag = (number.to_string(), String::new());
                let change = move |about: &mut About| about.metadata.push(tag);
                account.change_object(&bucket, "k", None, None, change).await.is_ok()
            })
        })
        .collect();
    for change in changes {
        assert!(change.join().unwrap());
    }
    drop((account, bucket, object));
    let (account, damage) = open(&folder.0, false);
    assert_eq!(damage, [""; 0]);
    let bucket = account.bucket("bucket").unwrap();
    assert_eq!(account.object(&bucket, "k", None).unwrap().about.metadata.len(), 40);
}
