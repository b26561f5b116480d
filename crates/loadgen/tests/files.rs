//! Files and blocks: written data exists, reads are checked, and data of others is safe.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use loadstone_loadgen::run::{Control, Summary, run_trial};
use loadstone_loadgen::trial::Trial;
use serde_json::{Value, json};

/// A directory that is removed after its test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        drop(fs::remove_dir_all(&path));
        fs::create_dir_all(&path).expect("the target directory can be written");
        Self(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn files(&self) -> Settings {
        Settings { driver: "file", path: self.0.clone(), more: json!({}) }
    }

    fn blocks(&self, engine: &str) -> Settings {
        let more = json!({"direct": false, "engine": engine});
        Settings { driver: "block", path: self.join("blocks"), more }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[derive(Clone)]
struct Settings {
    driver: &'static str,
    path: PathBuf,
    more: Value,
}

impl Settings {
    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.more[key] = value.into();
        self
    }

    /// Returns a trial of 12 objects of 10 000 bytes in blocks of 4096, in two buckets.
    fn document(&self, operation: &str) -> Value {
        let mut settings = self.more.clone();
        settings["path"] = self.path.to_str().expect("text").into();
        let is_in_blocks = ["read", "write"].contains(&operation);
        json!({
            "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
            "phase": operation,
            "target": {"name": "here", "driver": self.driver, "settings": settings},
            "dataset": {"bucket_prefix": "bucket-", "buckets": 2, "objects": 12,
                        "object_prefix": "object-", "size": {"kind": "fixed", "bytes": 10_000}},
            "mix": [{"operation": operation}],
            "options": {"range_bytes": 4096, "range_count": 1, "page_keys": 4, "bulk_keys": 8},
            "load": {"kind": "closed", "clients": 3},
            "stop": {"requests": if is_in_blocks { 36 } else { 12 }},
        })
    }

    fn run(&self, operation: &str) -> Summary {
        run(&self.document(operation))
    }

    fn sweep(&self) -> Summary {
        let mut document = self.document("delete");
        document["phase"] = "clean-up".into();
        document["stop"] = json!({});
        run(&document)
    }
}

fn try_run(document: &Value) -> Result<Summary, String> {
    let trial = Trial::parse(&document.to_string()).map_err(|error| error.to_string())?;
    run_trial(&trial, &Control::default(), &mut |_| true).map_err(|error| error.to_string())
}

fn run(document: &Value) -> Summary {
    try_run(document).expect("the trial can run")
}

#[track_caller]
fn assert_good(summary: &Summary, requests: u64) {
    assert_eq!((summary.requests, summary.failed), (requests, 0), "{:?}", summary.error_examples);
}

fn sizes_in(bucket: &Path) -> Vec<u64> {
    let entries = fs::read_dir(bucket).expect("the bucket is there");
    let names = entries.map(|entry| entry.expect("readable").path());
    let objects = names.filter(|path| !path.ends_with(".loadstone-mark"));
    objects.map(|path| fs::metadata(path).expect("readable").len()).collect()
}

#[test]
fn every_operation_on_files_has_its_effect() {
    let folder = Folder::new("every-operation");
    let files = folder.files();
    let put = files.run("put");
    assert_good(&put, 12);
    assert_eq!((put.bytes, put.buckets_created.len()), (120_000, 2));
    assert_eq!(sizes_in(&folder.join("bucket-0")), [10_000; 6]);
    for (operation, requests, bytes) in [
        ("get", 12, 120_000),
        ("range_get", 12, 12 * 4096),
        ("head", 12, 0),
        ("list", 12, 0),
        ("read", 36, 120_000),
        ("write", 36, 120_000),
        ("read", 36, 120_000),
        ("get", 12, 120_000),
        ("post", 12, 0),
        ("copy", 12, 0),
        ("get", 12, 120_000),
    ] {
        let summary = files.run(operation);
        assert_good(&summary, requests);
        assert_eq!(summary.bytes, bytes, "{operation}");
        let is_read = ["get", "range_get", "read"].contains(&operation);
        assert_eq!(summary.verified_bytes, if is_read { bytes } else { 0 }, "{operation}");
    }
    assert_eq!(sizes_in(&folder.join("bucket-1")), [10_000; 12], "objects and their copies");
    assert_good(&files.run("delete"), 12);
    assert_eq!(sizes_in(&folder.join("bucket-1")), [10_000; 6], "copies");
    let swept = files.sweep();
    assert_eq!((swept.objects_swept, swept.buckets_deleted.len()), (12, 2));
    assert!(fs::read_dir(&folder.0).expect("readable").next().is_none(), "nothing is left");
}

#[test]
fn every_way_of_writing_a_file_leaves_the_same_bytes() {
    let mut contents = Vec::new();
    for (number, settings) in [
        json!({}),
        json!({"direct": true}),
        json!({"layout": "rename", "fsync": "each"}),
        json!({"direct": true, "chunk_bytes": 4096, "fsync": "each", "fsync_every": 2}),
        json!({"dsync": true, "fsync": "each", "fsync_data": true}),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = Folder::new(&format!("way-of-writing-{number}"));
        let files = Settings { more: settings, ..folder.files() };
        match try_run(&files.document("put")) {
            // On a file system without direct I/O, the trial is refused before the load.
            Err(error) => assert!(error.contains("O_DIRECT"), "{error}"),
            Ok(summary) => {
                assert_good(&summary, 12);
                contents.push(fs::read(folder.join("bucket-1/object-3")).expect("it is there"));
                for operation in ["get", "range_get", "read"] {
                    let requests = if operation == "read" { 36 } else { 12 };
                    assert_good(&files.run(operation), requests);
                }
                assert_eq!(sizes_in(&folder.join("bucket-1")), [10_000; 6]);
            }
        }
    }
    assert!(contents.len() >= 3 && contents.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn keys_with_slashes_are_files_in_directories() {
    let folder = Folder::new("slashes");
    let with_slashes = |operation: &str, phase: &str| {
        let mut document = folder.files().document(operation);
        document["dataset"]["object_prefix"] = "a/b/object-".into();
        document["phase"] = phase.into();
        if phase == "clean-up" {
            document["stop"] = json!({});
        }
        document
    };
    for layout in ["in_place", "rename"] {
        let mut put = with_slashes("put", "put");
        put["target"]["settings"]["layout"] = layout.into();
        assert_good(&run(&put), 12);
        assert!(folder.join("bucket-0/a/b/object-2").is_file());
        assert_good(&run(&with_slashes("get", "get")), 12);
        assert_good(&run(&with_slashes("list", "list")), 12);
        let swept = run(&with_slashes("delete", "clean-up"));
        assert_eq!((swept.objects_swept, swept.buckets_deleted.len()), (12, 2));
    }
}

#[test]
fn names_that_lead_out_of_the_directory_are_refused() {
    let folder = Folder::new("names");
    for (field, name) in [
        ("bucket_prefix", "../elsewhere-"),
        ("bucket_prefix", "a/b-"),
        ("object_prefix", "/etc/passwd-"),
        ("object_prefix", "a/../../b-"),
        ("object_prefix", ".loadstone-"),
    ] {
        let mut document = folder.files().document("put");
        document["dataset"][field] = name.into();
        let error = try_run(&document).expect_err(name);
        assert!(error.contains(field) && error.contains(name), "{error}");
    }
}

#[test]
fn kinds_of_damage_are_distinguished() {
    let folder = Folder::new("damaged");
    let files = folder.files();
    assert_good(&files.run("put"), 12);
    let of = |number: u64| folder.join(&format!("bucket-{}/object-{number}", number % 2));
    let flip = fs::OpenOptions::new().write(true).open(of(1)).expect("it is there");
    flip.write_all_at(b"!!", 5000).expect("it can be written");
    fs::OpenOptions::new().write(true).open(of(2)).expect("there").set_len(9000).expect("shorter");
    let longer = fs::OpenOptions::new().write(true).open(of(3)).expect("it is there");
    longer.write_all_at(b"more", 10_000).expect("it can be written");
    fs::copy(of(6), of(4)).expect("it can be copied");
    fs::remove_file(of(5)).expect("it is there");
    let summary = files.run("get");
    let outcomes: Vec<&str> = summary.error_examples.keys().map(String::as_str).collect();
    assert_eq!(outcomes, ["corrupt", "misdirected", "not_found", "overlong", "truncated"]);
    assert_eq!(summary.failed, 5);
    assert!(summary.error_examples["not_found"].contains("bucket-1/object-5"));
    assert_eq!(files.run("head").failed, 3, "two lengths are wrong and one file is absent");
}

#[test]
fn another_users_directory_is_refused_and_unchanged() {
    let folder = Folder::new("stranger");
    fs::create_dir(folder.join("bucket-1")).expect("new");
    fs::write(folder.join("bucket-1/theirs"), "precious").expect("new");
    let error = try_run(&folder.files().document("put")).expect_err("it is not ours");
    assert!(error.contains("bucket-1") && error.contains("hint: "), "{error}");
    let mut allowed = folder.files().document("put");
    allowed["allow_foreign"] = true.into();
    assert_good(&run(&allowed), 12);
    let swept = folder.files().sweep();
    assert_eq!(swept.buckets_left, ["bucket-1"]);
    assert_eq!(fs::read(folder.join("bucket-1/theirs")).expect("untouched"), b"precious");
}

#[test]
fn a_missing_directory_is_named() {
    let folder = Folder::new("absent");
    let files = Settings { path: folder.join("nowhere"), ..folder.files() };
    let error = try_run(&files.document("put")).expect_err("there is none");
    assert!(error.contains("nowhere") && error.contains("hint: "), "{error}");
}

#[test]
fn blocks_are_written_read_and_checked_by_both_engines() {
    for engine in ["io_uring", "psync", "auto"] {
        let folder = Folder::new(&format!("blocks-{engine}"));
        let blocks = folder.blocks(engine);
        let written = match try_run(&blocks.document("write")) {
            Err(error) if error.contains("io_uring") => continue,
            result => result.expect("the trial can run"),
        };
        assert_good(&written, 36);
        assert_eq!(written.bytes, 120_000);
        for order in ["sequential", "uniform", "zipf"] {
            let mut read = blocks.document("read");
            read["keys"] = json!({"order": order});
            let summary = run(&read);
            assert_good(&summary, 36);
            assert_eq!(summary.verified_bytes, summary.bytes, "{order}");
        }
        let mut mix = blocks.document("read");
        mix["mix"] = json!([{"operation": "read"}, {"operation": "write"}]);
        mix["dataset"]["version"] = 2.into();
        mix["keys"] = json!({"order": "uniform"});
        mix["stop"]["requests"] = 500.into();
        // Some reads overlap a write of their block, and are consistent when read again.
        assert_good(&run(&mix), 500);
        let file = fs::OpenOptions::new().write(true).open(&blocks.path).expect("it is there");
        file.write_all_at(b"?", (1 << 20) + 4100).expect("it can be written");
        let mut read = blocks.document("read");
        read["dataset"]["version"] = 2.into();
        let damaged = run(&read);
        assert_eq!(damaged.error_examples.keys().collect::<Vec<_>>(), ["corrupt"]);
        assert_eq!(damaged.failed, 1);
        assert_good(&blocks.run("delete"), 12);
        blocks.sweep();
        assert!(!blocks.path.exists(), "clean-up takes away the file that we made");
    }
}

#[test]
fn many_clients_share_a_ring() {
    let folder = Folder::new("many-clients");
    for clients in [1, 15, 64, 200, 700] {
        let mut write = folder.blocks("io_uring").document("write");
        write["dataset"]["objects"] = 1_000.into();
        write["stop"]["requests"] = 3_000.into();
        write["load"]["clients"] = clients.into();
        match try_run(&write) {
            Err(error) if error.contains("io_uring") => return,
            result => assert_good(&result.expect("the trial can run"), 3_000),
        }
        let mut read = write.clone();
        read["mix"] = json!([{"operation": "read"}]);
        let summary = run(&read);
        assert_good(&summary, 3_000);
        assert_eq!(summary.verified_bytes, summary.bytes, "{clients} clients");
    }
}

#[test]
fn direct_blocks_with_flushes_hold_the_same_data() {
    let folder = Folder::new("direct-blocks");
    for engine in ["io_uring", "psync"] {
        let direct = folder.blocks(engine).with("direct", true).with("fsync", "each");
        match try_run(&direct.with("fsync_every", 3).document("write")) {
            Ok(summary) => assert_good(&summary, 36),
            Err(error) => {
                let is_known = error.contains("direct to false") || error.contains("io_uring");
                assert!(is_known, "{error}");
                continue;
            }
        }
        assert_good(&folder.blocks("psync").run("read"), 36);
    }
}

#[test]
fn a_file_that_loadstone_did_not_mark_is_not_overwritten() {
    let folder = Folder::new("unmarked");
    let blocks = folder.blocks("auto");
    let precious = vec![b'p'; 4 << 20];
    fs::write(&blocks.path, &precious).expect("new");
    let error = try_run(&blocks.document("write")).expect_err("it is not ours");
    assert!(error.contains("did not mark it") && error.contains("allow"), "{error}");
    assert_eq!(fs::read(&blocks.path).expect("untouched"), precious);
    let mut allowed = blocks.document("write");
    allowed["allow_foreign"] = true.into();
    assert_good(&run(&allowed), 36);
    blocks.sweep();
    assert!(blocks.path.exists(), "what we did not make we do not delete");
}

#[test]
fn a_block_file_that_cannot_be_used_is_refused_with_the_reason() {
    let folder = Folder::new("unusable");
    let blocks = folder.blocks("auto");
    let error = try_run(&blocks.document("read")).expect_err("nothing was written");
    assert!(error.contains("no such file"), "{error}");
    let mut huge = blocks.document("write");
    huge["dataset"]["size"]["bytes"] = (1_u64 << 59).into();
    let error = try_run(&huge).expect_err("no disk holds that");
    assert!(error.contains("reserve"), "{error}");
    assert!(!blocks.path.exists(), "a file that could not be made is not left behind");
    let mut odd = blocks.document("write");
    odd["options"]["range_bytes"] = 1000.into();
    assert!(try_run(&odd).expect_err("no sectors").contains("multiples of 512"));
    let folder_as_file = Settings { path: folder.0.clone(), ..blocks };
    let error = try_run(&folder_as_file.document("write")).expect_err("a directory");
    assert!(error.contains("driver \"file\""), "{error}");
}

#[test]
fn a_stopped_trial_leaves_blocks_in_flight_behind_and_ends() {
    let folder = Folder::new("stopped");
    let blocks = folder.blocks("auto");
    assert_good(&blocks.run("write"), 36);
    let mut read = blocks.document("read");
    read["stop"] = json!({"duration_ns": 600_000_000_000_u64});
    let trial = Trial::parse(&read.to_string()).expect("sound");
    let mut seconds = 0;
    let summary = run_trial(&trial, &Control::default(), &mut |_| {
        seconds += 1;
        seconds < 2
    })
    .expect("the trial can run");
    assert!(summary.requests > 0 && summary.failed == 0);
}
