//! A data directory is consistent after a store was killed while it was working.

mod http;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use loadstone_store::{Secret, Store, StoreConfig};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("loadstone-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn config(&self) -> StoreConfig {
        StoreConfig {
            user: Some("u".to_owned()),
            password: Some(Secret::Literal("p".to_owned())),
            data: Some(self.0.clone()),
            threads: Some(1),
            ..StoreConfig::default()
        }
    }

    fn files(&self, part: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.0.join(part)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }

    fn sidecars(&self) -> Vec<PathBuf> {
        let is_sidecar = |path: &PathBuf| !path.ends_with("bucket.json");
        self.files("buckets").into_iter().filter(is_sidecar).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn token(store: SocketAddr) -> String {
    let login = [("X-Auth-User", "u"), ("X-Auth-Key", "p")];
    let answer = http::ask(store, "GET /auth/v1.0", &login, b"");
    let names_token = |line: &&str| line.to_ascii_lowercase().starts_with("x-auth-token: ");
    let line = answer.head.lines().find(names_token).expect("logged in");
    line["x-auth-token: ".len()..].to_owned()
}

fn ask(store: &Store, method: &str, path: &str, body: &[u8]) -> http::Answer {
    let token = token(store.address());
    let line = format!("{method} /v1/AUTH_test/{path}");
    http::ask(store.address(), &line, &[("X-Auth-Token", &token)], body)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
}

#[test]
fn an_interrupted_overwrite_leaves_only_the_new_object() {
    let folder = Folder::new("overwrite");
    let aside = Folder::new("overwrite-aside");
    {
        let store = Store::start(folder.config()).unwrap();
        assert_eq!(ask(&store, "PUT", "c", b"").status(), 201);
        assert_eq!(ask(&store, "PUT", "c/o", b"old").status(), 201);
        for path in folder.sidecars().iter().chain(&folder.files("data")) {
            copy(path, &aside.0.join(path.strip_prefix(&folder.0).unwrap()));
        }
        assert_eq!(ask(&store, "PUT", "c/o", b"newer").status(), 201);
    }
    // As if the kill had come after the new object was written and before the old one was removed.
    for part in ["data", "buckets"] {
        for path in aside.files(part) {
            copy(&path, &folder.0.join(path.strip_prefix(&aside.0).unwrap()));
        }
    }
    assert_eq!(folder.sidecars().len(), 2);
    {
        let store = Store::start(folder.config()).unwrap();
        assert_eq!(ask(&store, "GET", "c/o", b"").body, b"newer");
        assert_eq!((folder.sidecars().len(), folder.files("data").len()), (1, 1));
        assert_eq!(ask(&store, "DELETE", "c/o", b"").status(), 204);
    }
    let store = Store::start(folder.config()).unwrap();
    assert_eq!(ask(&store, "GET", "c/o", b"").status(), 404);
}

#[test]
fn incomplete_bytes_and_sidecars_are_swept() {
    let folder = Folder::new("unfinished");
    {
        let store = Store::start(folder.config()).unwrap();
        ask(&store, "PUT", "c", b"");
        ask(&store, "PUT", "c/o", b"whole");
    }
    let sidecar = folder.sidecars().remove(0);
    fs::write(sidecar.with_file_name("00000000000000ff.new"), b"{\"key\": \"o\", \"id\"").unwrap();
    fs::create_dir_all(folder.0.join("data/ff")).unwrap();
    fs::write(folder.0.join("data/ff/00000000000000ff.bytes"), b"half an obj").unwrap();
    let store = Store::start(folder.config()).unwrap();
    assert_eq!(ask(&store, "GET", "c/o", b"").body, b"whole");
    assert_eq!((folder.sidecars().len(), folder.files("data").len()), (1, 1));
    // Names of swept items must not be assigned to new objects while their files may still exist.
    assert_eq!(ask(&store, "PUT", "c/p", b"next").status(), 201);
    assert!(!folder.0.join("data/ff/00000000000000ff.bytes").exists());
}

#[test]
fn a_directory_belongs_to_one_store_and_foreign_ones_are_refused() {
    let folder = Folder::new("locked");
    let store = Store::start(folder.config()).unwrap();
    let second = Store::start(folder.config()).expect_err("refused").to_string();
    assert!(second.contains("in use by another store"), "{second}");
    drop(store);
    drop(Store::start(folder.config()).unwrap());
    let strange = Folder::new("strange");
    fs::create_dir_all(&strange.0).unwrap();
    fs::write(strange.0.join("letters.txt"), b"mine").unwrap();
    let refused = Store::start(strange.config()).expect_err("refused").to_string();
    assert!(refused.contains("no store wrote"), "{refused}");
}

#[test]
fn damage_is_reported_while_the_rest_is_served() {
    let folder = Folder::new("damaged");
    {
        let store = Store::start(folder.config()).unwrap();
        ask(&store, "PUT", "c", b"");
        ask(&store, "PUT", "c/short", b"whole");
    }
    let bytes = folder.files("data").remove(0);
    fs::write(&bytes, b"who").unwrap();
    {
        let store = Store::start(folder.config()).unwrap();
        assert_eq!(ask(&store, "PUT", "c/other", b"other").status(), 201);
        assert_eq!(ask(&store, "PUT", "c/unread", b"bytes").status(), 201);
    }
    for path in folder.sidecars() {
        if fs::read_to_string(&path).unwrap().contains("unread") {
            fs::write(&path, b"{\"key\": \"unr").unwrap();
        }
    }
    // Reported at every start, and never swept, because it may be restored by hand.
    for _ in 0..2 {
        let store = Store::start(folder.config()).unwrap();
        let damage = store.damage().join("\n");
        assert_eq!((store.damage().len(), store.counters().damaged), (2, 2), "{damage}");
        assert!(damage.contains(&*bytes.to_string_lossy()), "{damage}");
        assert!(damage.contains("object \"short\" in bucket \"c\""), "{damage}");
        assert_eq!(ask(&store, "GET", "c/other", b"").body, b"other");
        assert_eq!(ask(&store, "GET", "c/short", b"").status(), 404);
        assert_eq!((folder.sidecars().len(), folder.files("data").len()), (3, 3));
    }
    fs::write(&bytes, b"whole").unwrap();
    let store = Store::start(folder.config()).unwrap();
    assert_eq!(store.damage().len(), 1);
    assert_eq!(ask(&store, "GET", "c/short", b"").body, b"whole");
}

#[test]
fn foreign_files_in_the_directory_are_reported_and_kept() {
    let folder = Folder::new("strays");
    {
        let store = Store::start(folder.config()).unwrap();
        ask(&store, "PUT", "c", b"");
        ask(&store, "PUT", "c/o", b"whole");
    }
    let sidecar = folder.sidecars().remove(0);
    let bucket = sidecar.ancestors().nth(2).unwrap();
    let bytes = folder.files("data").remove(0);
    let (data, buckets) = (folder.0.join("data"), folder.0.join("buckets"));
    let strays = [
        data.join("notes"),
        bytes.with_file_name("notes.txt"),
        bytes.with_file_name("a.bytes"),
        buckets.join("notes"),
        buckets.join("00000000000000ff"),
        bucket.join("notes"),
        sidecar.with_file_name("notes"),
        sidecar.with_file_name("notes.new"),
        buckets.join("00000000000000fe/notes"),
        buckets.join("00000000000000fd/uploads/notes"),
        buckets.join("00000000000000fc/uploads/00000000000000fb/notes"),
    ];
    for path in &strays {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"mine").unwrap();
    }
    for _ in 0..2 {
        let store = Store::start(folder.config()).unwrap();
        let damage = store.damage().join("\n");
        for path in &strays {
            assert_eq!(fs::read(path).unwrap(), b"mine");
            assert!(damage.contains(&*path.to_string_lossy()), "{damage}");
        }
        assert_eq!(store.damage().len(), strays.len(), "{damage}");
        assert_eq!(ask(&store, "GET", "c/o", b"").body, b"whole");
    }
}

#[test]
fn files_in_place_of_directories_are_moved_aside_and_reported_once() {
    let folder = Folder::new("in-the-way");
    {
        let store = Store::start(folder.config()).unwrap();
        ask(&store, "PUT", "c", b"");
        ask(&store, "PUT", "c/o", b"whole");
    }
    let bucket = folder.sidecars()[0].ancestors().nth(2).unwrap().to_owned();
    let (data, buckets) = (folder.0.join("data"), folder.0.join("buckets"));
    let blocking = [data.join("7f"), bucket.join("7f"), bucket.join("uploads")];
    // The store uses other numbers than these for its own items.
    let numbers = [
        buckets.join("0000000000000008"),
        data.join("09/0000000000000009.bytes/notes"),
        data.join("0a/0a.bytes"),
    ];
    for path in blocking.iter().chain(&numbers) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"mine").unwrap();
    }
    let aside = |path: &PathBuf| path.with_extension("0.aside");
    for _ in 0..2 {
        let store = Store::start(folder.config()).unwrap();
        let damage = store.damage().join("\n");
        assert_eq!(store.damage().len(), blocking.len() + numbers.len(), "{damage}");
        for path in &blocking {
            assert!(damage.contains(&*aside(path).to_string_lossy()), "{damage}");
            assert_eq!(fs::read(aside(path)).unwrap(), b"mine");
        }
        assert!(numbers.iter().all(|path| fs::read(path).unwrap() == b"mine"));
        // As many as there are directories to spread them over.
        for number in 0..256 {
            assert_eq!(ask(&store, "PUT", &format!("c/{number}"), b"new").status(), 201);
            assert_eq!(ask(&store, "PUT", &format!("bucket-{number}"), b"").status() / 10, 20);
        }
        assert_eq!(ask(&store, "GET", "c/o", b"").body, b"whole");
    }
}
