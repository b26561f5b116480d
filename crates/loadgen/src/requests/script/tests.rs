//! Tests of scripts: the order of requests, and the judgement of answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt8Array, UInt32Array,
    UInt64Array, cast::AsArray,
};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{Field, Schema};
use loadstone_wire::digest::sha256;
use serde_json::{Value, json};

use crate::error::Error;
use crate::run::{Control, Output, Summary, run_trial};
use crate::script::{Hashed, Script};
use crate::trial::{Portion, Trial};

const PUT: u8 = 0;
const GET: u8 = 1;
const HEAD: u8 = 2;
const DELETE: u8 = 3;
const LIST: u8 = 4;

const ANY: u8 = 0;
const THERE: u8 = 1;
const ABSENT: u8 = 2;

/// The prefix `u/`, which is subject 3, and objects under it.
const KEYS: [&str; 4] = ["u/a", "u/b", "u/c", "u/"];

/// One request.
#[derive(Clone, Copy)]
struct Line {
    session: u32,
    action: u8,
    operation: u8,
    subject: u32,
    size: u64,
    version: u32,
    expect: u8,
    is_last: bool,
    listed: Option<&'static [&'static str]>,
}

fn line(session: u32, operation: u8, subject: u32, version: u32, expect: u8) -> Line {
    let (action, size) = (operation, if operation == PUT || expect == THERE { 100 } else { 0 });
    Line { session, action, operation, subject, size, version, expect, is_last: true, listed: None }
}

fn list(session: u32, keys: &'static [&'static str]) -> Line {
    Line { listed: Some(keys), ..line(session, LIST, 3, 0, ANY) }
}

fn folder(name: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("loadstone-script-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

/// Writes a table, and returns the reference to it for a document.
fn write(path: &Path, columns: Vec<(&str, ArrayRef)>, known: &[(&str, String)]) -> Value {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
        .collect();
    let known = known.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    let metadata: std::collections::HashMap<String, String> = known.collect();
    let schema = Arc::new(Schema::new(fields).with_metadata(metadata));
    let arrays = columns.into_iter().map(|(_, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).expect("columns of one length");
    let file = std::fs::File::create(path).expect("a file");
    let mut writer = FileWriter::try_new(file, &schema).expect("an Arrow file");
    writer.write(&batch).expect("a batch");
    writer.finish().expect("an end");
    let digest = sha256(&std::fs::read(path).expect("just written"));
    let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"path": path, "sha256": sha256})
}

fn hash_of(keys: &[&str]) -> u64 {
    keys.iter().fold(0, |sum: u64, key| {
        let digest = sha256(key.as_bytes());
        sum.wrapping_add(u64::from_le_bytes(*digest.first_chunk().expect("32 bytes")))
    })
}

/// Returns the key `script` of a document for these lines.
fn script(name: &str, lines: &[Line], first: u32, last: u32) -> Value {
    script_in(name, lines, first, last, [3, 3, 3, u32::MAX])
}

/// Like `script`, with the number of the prefix that contains each subject.
fn script_in(name: &str, lines: &[Line], first: u32, last: u32, spaces: [u32; 4]) -> Value {
    let folder = folder(name);
    let words = |of: &dyn Fn(&Line) -> u32| -> ArrayRef {
        Arc::new(lines.iter().map(|line| Some(of(line))).collect::<UInt32Array>())
    };
    let bytes = |of: &dyn Fn(&Line) -> u8| -> ArrayRef {
        Arc::new(lines.iter().map(|line| Some(of(line))).collect::<UInt8Array>())
    };
    let subjects = write(
        &folder.join("subjects"),
        vec![
            ("place", Arc::new(UInt32Array::from(vec![0; 4]))),
            ("space", Arc::new(UInt32Array::from(spaces.to_vec()))),
            ("wrap", Arc::new(UInt8Array::from(vec![0; 4]))),
            ("key", Arc::new(StringArray::from(KEYS.to_vec()))),
        ],
        &[],
    );
    let sessions = lines.last().map_or(0, |line| line.session + 1);
    let is_last = lines.iter().map(|line| Some(line.is_last)).collect::<BooleanArray>();
    let listed = |line: &Line| line.listed.map(|keys| keys.len() as u32);
    let rows = write(
        &folder.join("rows"),
        vec![
            ("session", words(&|line| line.session)),
            ("action", bytes(&|line| line.action)),
            ("is_last", Arc::new(is_last)),
            ("operation", bytes(&|line| line.operation)),
            ("subject", words(&|line| line.subject)),
            ("size", Arc::new(lines.iter().map(|line| Some(line.size)).collect::<UInt64Array>())),
            ("version", words(&|line| line.version)),
            ("expect", bytes(&|line| line.expect)),
            ("entries", Arc::new(lines.iter().map(listed).collect::<UInt32Array>())),
            (
                "entries_hash",
                Arc::new(
                    lines
                        .iter()
                        .map(|line| Some(line.listed.map_or(0, hash_of)))
                        .collect::<UInt64Array>(),
                ),
            ),
            ("due_ns", Arc::new(UInt64Array::new_null(lines.len()))),
        ],
        &[
            ("actions", json!(["WRITE", "READ", "HEAD", "DELETE", "LIST"]).to_string()),
            ("operations", json!(["put", "get", "head", "delete", "list"]).to_string()),
            ("sessions", sessions.to_string()),
            ("first_sessions", first.to_string()),
            ("last_sessions", last.to_string()),
            ("subjects_sha256", subjects["sha256"].as_str().expect("a text").to_owned()),
        ],
    );
    json!({"subjects": subjects, "requests": rows})
}

/// Counted actions: name, outcome, number, and number of their requests.
type Actions = Vec<(String, String, i64, i64)>;

fn run(
    name: &str,
    phase: &str,
    script: &Value,
    requests: u64,
) -> Result<(Summary, Actions), Error> {
    run_portion(name, phase, script, requests, Portion::default(), |_, _| {})
}

/// Like `run`, for one host's portion. `on_turn_end` is called with the number of a turn that has
/// ended, and must begin the next.
fn run_portion(
    name: &str,
    phase: &str,
    script: &Value,
    requests: u64,
    portion: Portion,
    mut on_turn_end: impl FnMut(&Control, u32),
) -> Result<(Summary, Actions), Error> {
    let document = json!({
        "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
        "phase": phase,
        "target": {"name": "t", "driver": "toy", "settings": {"name": name}},
        "dataset": {"bucket_prefix": "b-", "buckets": 2, "objects": 4, "object_prefix": "o-",
                    "size": {"kind": "fixed", "bytes": 100}},
        "mix": [{"operation": "put"}, {"operation": "get"}], "script": script,
        "load": {"kind": "closed", "clients": 3}, "stop": {"requests": requests}, "cores": 2,
        "portion": portion,
    });
    let trial = Trial::parse(&document.to_string())?;
    let mut actions = Actions::new();
    let control = Control::default();
    let summary = run_trial(&trial, &control, &mut |output| {
        if let Output::TurnEnded(turn, _) = output {
            on_turn_end(&control, turn);
        }
        if let Output::Actions(rows) = output {
            let text = |name: &str| {
                rows.column_by_name(name).expect("a column").as_string::<i32>().clone()
            };
            let number = |name: &str| -> Int64Array {
                rows.column_by_name(name).expect("a column").as_primitive().clone()
            };
            let (names, outcomes) = (text("action"), text("outcome"));
            let (counts, objects) = (number("requests"), number("objects"));
            actions.extend((0..rows.num_rows()).map(|at| {
                let (name, outcome) = (names.value(at).to_owned(), outcomes.value(at).to_owned());
                (name, outcome, counts.value(at), objects.value(at))
            }));
        }
        true
    })?;
    actions.sort();
    Ok((summary, actions))
}

/// A user who is created first; two who write, read and delete; and an audit.
fn lines() -> Vec<Line> {
    let of_two = Line { action: 0, is_last: false, ..line(0, HEAD, 0, 0, ABSENT) };
    vec![
        of_two,
        Line { action: 0, ..line(0, PUT, 0, 1, ANY) },
        line(1, GET, 0, 1, THERE),
        line(1, PUT, 1, 1, ANY),
        line(1, PUT, 1, 2, ANY),
        line(1, GET, 1, 2, THERE),
        line(2, PUT, 2, 1, ANY),
        line(2, DELETE, 2, 0, THERE),
        line(2, GET, 2, 0, ABSENT),
        list(3, &["u/a", "u/b"]),
    ]
}

#[test]
fn sessions_keep_their_order_and_meet_the_scripts_expectations() {
    let script = script("order", &lines(), 1, 1);
    let (summary, actions) = run("order", "users", &script, 10).expect("a sound script");
    assert_eq!((summary.requests, summary.failed), (10, 0), "{:?}", summary.error_examples);
    let ok = |name: &str, count, requests| (name.to_owned(), "ok".to_owned(), count, requests);
    let expected = [ok("DELETE", 1, 1), ok("LIST", 1, 2 - 1), ok("READ", 3, 3), ok("WRITE", 4, 5)];
    assert_eq!(actions, expected);
    assert_eq!(summary.verified_requests, 2);
    let objects_only = json!({"subjects": script["subjects"]});
    let (swept, _) = run("order", "clean-up", &objects_only, 0).expect("the same objects");
    assert_eq!((swept.objects_swept, swept.places_left.len()), (2, 0));
}

#[test]
fn each_deviation_from_the_script_has_its_own_outcome() {
    let mut wrong = lines();
    wrong[2].subject = 2; // read by another session before its write
    wrong[5].version = 1; // an older version than the last
    wrong[8] = line(2, GET, 0, 0, ABSENT);
    wrong[9] = list(3, &["u/a", "u/b", "u/c"]);
    // One session for both, so that the first read precedes the write.
    wrong.iter_mut().skip(2).take(7).for_each(|line| line.session = 1);
    wrong[9].session = 2;
    let script = script("wrong", &wrong, 1, 1);
    let (summary, actions) = run("wrong", "users", &script, 10).expect("it can be run");
    let failed: Vec<&str> = actions
        .iter()
        .filter(|(_, outcome, ..)| outcome != "ok")
        .map(|(_, outcome, ..)| outcome.as_str())
        .collect();
    assert_eq!(failed, ["missing", "extra", "missing", "phantom"]);
    assert_eq!(summary.failed, 4);
    assert_eq!(summary.mismatches.values().sum::<u64>(), 4);
}

#[test]
fn several_hosts_execute_the_same_requests_as_one() {
    let script = script("portions", &lines(), 1, 1);
    let (_, whole) = run("portions-whole", "users", &script, 10).expect("a sound script");
    for of in 2..5 {
        let map = format!("portions-{of}");
        let all_wait = std::sync::Barrier::new(of as usize);
        let run_host = &|index| {
            run_portion(&map, "users", &script, 10, Portion { index, of }, |control, turn| {
                all_wait.wait();
                control.begin_turn(turn + 1, Some(Vec::new()), Vec::new());
            })
            .expect("a sound script")
        };
        let ends: Vec<_> = std::thread::scope(|scope| {
            let hosts: Vec<_> = (0..of).map(|index| scope.spawn(move || run_host(index))).collect();
            hosts.into_iter().map(|host| host.join().expect("no host panics")).collect()
        });
        for (summary, _) in &ends {
            assert_eq!(summary.failed, 0, "{of} hosts: {:?}", summary.error_examples);
        }
        let together: Actions = ends.into_iter().flat_map(|(_, actions)| actions).collect();
        assert_eq!(totals(&together), totals(&whole), "{of} hosts");
    }
}

/// Sums actions by name and outcome.
fn totals(actions: &Actions) -> std::collections::BTreeMap<(String, String), (i64, i64)> {
    let mut totals = std::collections::BTreeMap::new();
    for (name, outcome, count, requests) in actions {
        let total: &mut (i64, i64) = totals.entry((name.clone(), outcome.clone())).or_default();
        *total = (total.0 + count, total.1 + requests);
    }
    totals
}

#[test]
fn subjects_in_doubt_on_another_or_lost_host_are_never_reported_missing() {
    // The other one of two hosts writes u/b, and its requests are not executed here.
    let lines = [line(0, PUT, 0, 1, ANY), line(1, PUT, 1, 1, ANY), list(2, &["u/a", "u/b"])];
    let script = script("doubts", &lines, 0, 1);
    for (told, lost, outcome) in [
        (Some(vec![]), vec![], "missing"),
        (Some(vec![1, 3]), vec![], "ok"),
        (None, vec![], "ok"),
        (Some(vec![]), vec![1], "ok"),
    ] {
        let map = format!("doubts-{told:?}-{lost:?}");
        let first = Portion { index: 0, of: 2 };
        let (_, actions) = run_portion(&map, "users", &script, 3, first, |control, turn| {
            let is_last = turn == 1;
            let doubts = if is_last { told.clone() } else { Some(Vec::new()) };
            let lost = if is_last { lost.clone() } else { Vec::new() };
            control.begin_turn(turn + 1, doubts, lost);
        })
        .expect("a sound script");
        let of_list: Vec<&str> = actions
            .iter()
            .filter(|(name, ..)| name == "LIST")
            .map(|(_, outcome, ..)| outcome.as_str())
            .collect();
        assert_eq!(of_list, [outcome], "{told:?} {lost:?}");
    }
}

#[test]
fn doubts_are_reported_once_and_too_many_as_all() {
    let written = script("told", &lines(), 1, 1);
    let path = PathBuf::from(written["subjects"]["path"].as_str().expect("a text"));
    let sha256 = written["subjects"]["sha256"].as_str().expect("a text");
    let of_two = Portion { index: 0, of: 2 };
    let open = || {
        let hashed = Hashed { path: &path, sha256 };
        Script::open(hashed, None, None, "o-", of_two).expect("a script")
    };
    let opened = open();
    opened.progress.doubt(0, &opened.subjects);
    opened.progress.doubt(1, &opened.subjects);
    opened.progress.settle(1);
    assert_eq!(opened.progress.take_untold(), Some(vec![0, 3]));
    opened.progress.doubt_told(Some(&[2]));
    assert!(opened.progress.is_doubted(2));
    assert_eq!(opened.progress.take_untold(), Some(vec![]));
    opened.progress.doubt_told(None);
    assert!(opened.progress.is_doubted(1));
    assert_eq!(opened.progress.take_untold(), None);
}

#[test]
fn files_with_a_wrong_digest_are_refused() {
    let good = script("files", &lines(), 1, 1);
    let refused = |changed: &Value| {
        let error = run("files", "users", changed, 10).map(|_| ()).expect_err("it is another");
        error.to_string()
    };
    let mut other = good.clone();
    other["requests"]["sha256"] = json!("0".repeat(64));
    assert!(refused(&other).contains("found SHA-256"));
    other["requests"]["path"] = json!("/nowhere/at/all");
    assert!(refused(&other).contains("/nowhere/at/all"));
    let mut swapped = good.clone();
    swapped["requests"] = good["subjects"].clone();
    assert!(refused(&swapped).contains("other subjects"));
    let more = script("more", &[line(0, PUT, 9, 1, ANY)], 0, 0);
    assert!(refused(&more).contains("column \"subject\""));
}

#[test]
fn a_prefix_inside_itself_is_put_in_doubt_once() {
    let written = script_in("cycle", &lines(), 1, 1, [3, 3, 3, 3]);
    let path = PathBuf::from(written["subjects"]["path"].as_str().expect("a text"));
    let sha256 = written["subjects"]["sha256"].as_str().expect("a text");
    let opened = Script::open(Hashed { path: &path, sha256 }, None, None, "o-", Portion::default())
        .expect("a script");
    opened.progress.doubt(0, &opened.subjects);
    assert!(opened.progress.is_doubted(0) && opened.progress.is_doubted(3));
    assert!(!opened.progress.is_doubted(1));
}
