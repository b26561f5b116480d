//! Compares the judge with one that tries all orders, on random histories and on examples of each
//! anomaly.

use std::process::Command;
use std::time::Instant;

use super::*;

/// A pseudo-random sequence: `splitmix64`.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Parameters of a random history.
#[derive(Clone, Copy)]
struct Shape {
    calls: u64,
    clients: usize,
    deletes: u64,
    swaps: u64,
    /// Lost answers to writes, per thousand.
    unanswered: u64,
    /// Falsified answers, per thousand.
    lies: u64,
}

/// Generates the history of a register whose calls take effect within their intervals, and
/// falsifies some answers.
fn draw(chance: &mut Chance, shape: Shape) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut free_ns = vec![1; shape.clients];
    let mut moments = Vec::new();
    for number in 0..shape.calls {
        let client = chance.below(shape.clients as u64) as usize;
        let called_ns = free_ns[client] + chance.below(4);
        let moment = called_ns + chance.below(6);
        let answered_ns = moment + chance.below(6);
        free_ns[client] = answered_ns + 1;
        moments.push((moment, number, client, called_ns, answered_ns));
    }
    moments.sort_unstable();
    let (mut state, mut before) = (ABSENT, ABSENT);
    let mut values = 0;
    for (_, _, client, called_ns, answered_ns) in moments {
        let is_lie = chance.below(1000) < shape.lies;
        let draw = chance.below(100);
        let action = if draw < shape.deletes {
            Some(Action::Write(ABSENT))
        } else if draw < shape.deletes + shape.swaps {
            let expected = if is_lie { before } else { state };
            values += 1;
            Some(Action::Swap { expected, value: values })
        } else if draw < shape.deletes + shape.swaps + 30 {
            values += 1;
            Some(Action::Write(values))
        } else {
            None
        };
        let is_unanswered = action.is_some() && chance.below(1000) < shape.unanswered;
        let is_lost = is_lie || is_unanswered && chance.below(2) == 0;
        if let Some(value) = action.and_then(|action: Action| match action {
            Action::Write(value) | Action::Swap { value, .. } => Some(value),
            Action::Read(_) | Action::Damaged(_) | Action::Listed(_) => None,
        }) && !is_lost
        {
            (before, state) = (state, value);
        }
        let answer =
            if is_lie { [before, ABSENT, values][chance.below(3) as usize] } else { state };
        calls.push(Call {
            key: 7,
            client: client as u32,
            action: action.unwrap_or(Action::Read(answer)),
            called_ns,
            answered_ns: if is_unanswered { UNANSWERED } else { answered_ns },
        });
    }
    calls
}

/// Tries all orders, which is the definition of linearizability.
fn is_linear(calls: &[Call], initial: u64) -> bool {
    fn goes_on(calls: &[Call], done: u32, state: u64) -> bool {
        let left = || (0..calls.len()).filter(|place| done >> place & 1 == 0);
        let first_ns = left().map(|place| calls[place].answered_ns).min().unwrap_or(UNANSWERED);
        if first_ns == UNANSWERED {
            return true;
        }
        left().filter(|place| calls[*place].called_ns <= first_ns).any(|place| {
            let call = &calls[place];
            call.expected().is_none_or(|expected| expected == state)
                && goes_on(calls, done | 1 << place, call.value_after())
        })
    }
    goes_on(calls, 0, initial)
}

fn histories() -> u64 {
    std::env::var("LOADSTONE_HISTORIES").map_or(4000, |count| count.parse().expect("a number"))
}

fn shape(chance: &mut Chance) -> Shape {
    Shape {
        calls: 1 + chance.below(9),
        clients: 1 + chance.below(4) as usize,
        deletes: [0, 15][chance.below(2) as usize],
        swaps: [0, 20][chance.below(2) as usize],
        unanswered: [0, 150][chance.below(2) as usize],
        lies: [0, 60, 200][chance.below(3) as usize],
    }
}

#[test]
fn the_judge_agrees_with_one_that_tries_all_orders() {
    let mut wrong = 0;
    for seed in 0..histories() {
        let mut chance = Chance(seed);
        let shape = shape(&mut chance);
        let calls = draw(&mut chance, shape);
        let expected = is_linear(&calls, ABSENT);
        let judged = judge_key(calls.clone(), Initial::Value(ABSENT), Model::Linear);
        assert_eq!(
            judged.standing,
            if expected { Standing::Right } else { Standing::Wrong },
            "seed {seed}: {calls:#?} {judged:#?}"
        );
        assert_eq!(judged.anomalies.is_empty(), expected, "seed {seed}");
        wrong += u64::from(!expected);
        // If the first value is unknown, it may be any value.
        let unknown = judge_key(calls.clone(), Initial::Unknown, Model::Linear);
        let may_be = calls.iter().filter_map(Call::expected).chain([ABSENT]);
        let written: Vec<u64> = calls.iter().filter_map(Call::written).collect();
        let expected = may_be
            .filter(|value| *value == ABSENT || !written.contains(value))
            .any(|value| is_linear(&calls, value));
        assert_eq!(unknown.standing == Standing::Right, expected, "seed {seed}: {calls:#?}");
    }
    assert!((histories() / 20..histories() * 19 / 20).contains(&wrong), "{wrong} were wrong");
}

#[test]
fn the_calls_that_prove_an_anomaly_are_wrong_by_themselves() {
    for seed in 0..histories() {
        let mut chance = Chance(seed ^ 0xabcd);
        let shape = Shape { unanswered: 0, lies: 200, ..shape(&mut chance) };
        let calls = draw(&mut chance, shape);
        let judged = judge_key(calls.clone(), Initial::Value(ABSENT), Model::Linear);
        for anomaly in &judged.anomalies {
            let of_proof = |call: &Call| anomaly.calls.contains(call);
            let is_delete = |call: &Call| call.written() == Some(ABSENT);
            // The proof does not include the writes of the values that were seen, nor deletes.
            let origin = |call: &Call| {
                anomaly.calls.iter().any(|seer| seer.expected() == call.written())
                    && anomaly.kind != Kind::Phantom
            };
            let unconditional = |call: &Call| match call.action {
                Action::Swap { value, .. } if !of_proof(call) => {
                    Call { action: Action::Write(value), ..*call }
                }
                _ => *call,
            };
            let proof: Vec<Call> = calls
                .iter()
                .filter(|call| of_proof(call) || is_delete(call) || origin(call))
                .map(unconditional)
                .collect();
            if anomaly.kind != Kind::Unordered {
                assert!(!is_linear(&proof, ABSENT), "seed {seed}: {anomaly:#?} of {calls:#?}");
                assert!(anomaly.calls.len() <= 3);
            }
        }
    }
}

#[test]
fn weaker_models_allow_everything_that_stronger_ones_allow() {
    for seed in 0..histories() {
        let mut chance = Chance(seed ^ 0x1234);
        let shape = shape(&mut chance);
        let calls = draw(&mut chance, shape);
        let standing = |model| judge_key(calls.clone(), Initial::Value(ABSENT), model).standing;
        if standing(Model::Linear) == Standing::Right {
            assert_eq!(standing(Model::ReadAfterWrite), Standing::Right, "seed {seed}: {calls:#?}");
            assert_eq!(standing(Model::LastWriterWins), Standing::Right, "seed {seed}: {calls:#?}");
        }
    }
}

fn call(action: Action, called_ns: u64, answered_ns: u64) -> Call {
    Call { key: 1, client: 0, action, called_ns, answered_ns }
}

fn kinds(calls: &[Call], model: Model) -> Vec<Kind> {
    let judged = judge_key(calls.to_vec(), Initial::Value(ABSENT), model);
    judged.anomalies.iter().map(|anomaly| anomaly.kind).collect()
}

#[test]
fn each_anomaly_has_its_name() {
    use Action::{Damaged, Read, Swap, Write};
    let put = |value, at| call(Write(value), at, at + 1);
    let get = |value, at| call(Read(value), at, at + 1);
    let torn = |at| call(Damaged(Damage::Torn), at, at + 1);
    let delete = |at| call(Write(ABSENT), at, at + 1);
    let swap = |expected, value, at| call(Swap { expected, value }, at, at + 1);
    let both = |a, b| [call(a, 10, 20), call(b, 12, 22)];
    let cases = [
        (vec![put(1, 10), get(1, 12)], None),
        (vec![put(1, 10), get(ABSENT, 12)], Some(Kind::Lost)),
        (vec![put(1, 10), get(ABSENT, 12), get(1, 14)], Some(Kind::Stale)),
        (vec![put(1, 10), put(2, 12), get(1, 14)], Some(Kind::Lost)),
        (vec![put(1, 10), put(2, 12), get(1, 14), get(2, 16)], Some(Kind::Stale)),
        (vec![put(1, 10), put(2, 12), get(2, 14), get(1, 16), get(2, 18)], Some(Kind::Stale)),
        (vec![put(1, 10), delete(12), get(1, 14)], Some(Kind::Resurrected)),
        (vec![put(1, 10), delete(12), get(ABSENT, 14), get(1, 16)], Some(Kind::Resurrected)),
        (vec![put(1, 10), get(2, 12)], Some(Kind::Phantom)),
        (vec![get(1, 10), put(1, 12)], Some(Kind::Phantom)),
        (vec![put(1, 10), torn(12), get(1, 14), torn(16)], Some(Kind::Damaged(Damage::Torn))),
        (
            both(Swap { expected: 0, value: 1 }, Swap { expected: 0, value: 2 }).to_vec(),
            Some(Kind::TwoWinners),
        ),
        (
            [
                &[put(9, 1)][..],
                &both(Swap { expected: 9, value: 1 }, Swap { expected: 9, value: 2 }),
            ]
            .concat(),
            Some(Kind::TwoWinners),
        ),
        (vec![put(9, 1), swap(9, 1, 10), swap(9, 2, 12)], Some(Kind::LostUpdate)),
        (vec![put(9, 1), swap(ABSENT, 2, 12)], Some(Kind::ConditionIgnored)),
        (vec![put(9, 1), put(8, 3), swap(9, 2, 12)], Some(Kind::ConditionIgnored)),
        (vec![put(9, 1), swap(9, ABSENT, 4), get(ABSENT, 6), swap(ABSENT, 3, 8), get(3, 10)], None),
    ];
    for (calls, expected) in cases {
        let expected: Vec<Kind> = expected.into_iter().collect();
        assert_eq!(kinds(&calls, Model::Linear), expected, "{calls:#?}");
    }
}

#[test]
fn models_differ_in_their_guarantees() {
    use Action::{Read, Write};
    let (first, second) = (call(Write(1), 10, 30), call(Write(2), 12, 32));
    let reads = |values: [u64; 3], from: u64| {
        (0..).zip(values).map(move |(n, value)| call(Read(value), from + n * 2, from + n * 2 + 1))
    };
    // During the writes, reads may alternate; after them, they must not.
    let beside: Vec<Call> = [first, second].into_iter().chain(reads([1, 2, 1], 14)).collect();
    let behind: Vec<Call> = [first, second].into_iter().chain(reads([1, 2, 1], 40)).collect();
    assert_eq!(kinds(&beside, Model::Linear), [Kind::Stale]);
    assert_eq!(kinds(&beside, Model::ReadAfterWrite), []);
    assert_eq!(kinds(&beside, Model::LastWriterWins), []);
    assert_eq!(kinds(&behind, Model::ReadAfterWrite), []);
    assert_eq!(kinds(&behind, Model::LastWriterWins), [Kind::Stale]);
    let old = [call(Write(1), 10, 11), call(Write(2), 12, 13), call(Read(1), 20, 21)];
    assert_eq!(kinds(&old, Model::ReadAfterWrite), [Kind::Lost]);
    assert_eq!(kinds(&old, Model::LastWriterWins), []);
    let gone = [call(Write(1), 10, 11), call(Read(ABSENT), 20, 21)];
    assert_eq!(kinds(&gone, Model::LastWriterWins), [Kind::Lost]);
}

#[test]
fn the_staleness_of_a_read_is_measured() {
    let put = |value: u64| call(Action::Write(value), value * 10, value * 10 + 1);
    let calls = [
        put(1),
        put(2),
        put(3),
        put(4),
        call(Action::Read(1), 101, 102),
        call(Action::Read(4), 103, 104),
    ];
    let judged = judge_key(calls.to_vec(), Initial::Value(ABSENT), Model::Linear);
    assert_eq!(judged.staleness, [Staleness { behind_ns: 80, versions: 3 }]);
}

#[test]
fn an_unanswered_write_may_happen_late_or_never_but_only_once() {
    use Action::{Read, Write};
    let late = call(Write(1), 10, UNANSWERED);
    let put = call(Write(2), 12, 13);
    let read = |value, at| call(Read(value), at, at + 1);
    assert_eq!(kinds(&[late, put, read(2, 20)], Model::Linear), []);
    assert_eq!(kinds(&[late, put, read(2, 20), read(1, 30)], Model::Linear), []);
    assert_eq!(kinds(&[late, put, read(1, 20), read(2, 30), read(1, 40)], Model::Linear).len(), 1);
    let delete = call(Write(ABSENT), 14, UNANSWERED);
    assert_eq!(kinds(&[put, delete, read(2, 20), read(ABSENT, 30)], Model::Linear), []);
    assert_eq!(kinds(&[put, delete, read(ABSENT, 20), read(2, 30)], Model::Linear).len(), 1);
}

#[test]
fn a_search_at_its_limit_is_undecided() {
    // Two hundred concurrent deletes, and as many writes on the condition that the key is absent.
    let mut calls: Vec<Call> =
        (0..200).map(|n| call(Action::Write(ABSENT), 10 + n, 1000)).collect();
    calls.extend((1..=200).map(|n| call(Action::Swap { expected: 0, value: n }, 10 + n, 1000)));
    let judged = judge_key(calls, Initial::Value(ABSENT), Model::Linear);
    assert_eq!(judged.standing, Standing::Undecided);
    assert!(judged.anomalies.is_empty());
}

#[test]
fn files_are_judged_like_keys_with_any_memory_limit() {
    let folder = std::env::temp_dir().join(format!("loadstone-history-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("calls");
    let mut chance = Chance(5);
    let mut bytes = Vec::new();
    let mut anomalies = 0;
    for key in 0..200 {
        let shape =
            Shape { calls: 20, clients: 3, deletes: 10, swaps: 10, unanswered: 0, lies: 20 };
        let calls: Vec<Call> =
            draw(&mut chance, shape).into_iter().map(|call| Call { key, ..call }).collect();
        calls.iter().for_each(|call| call.encode(&mut bytes));
        let judged = judge_key(calls, Initial::Value(ABSENT), Model::Linear);
        anomalies += judged.anomalies.len();
    }
    // The last record is truncated.
    bytes.extend_from_slice(&[1; CALL_BYTES - 1]);
    std::fs::write(&path, bytes).expect("a file");
    for calls_max in [100, 1 << 20] {
        let initials = Initials { usual: Initial::Value(ABSENT), unknown: Vec::new() };
        let judged =
            judge_files(std::slice::from_ref(&path), &initials, Model::Linear, calls_max, 1000);
        let judged = judged.expect("it is there");
        assert_eq!((judged.calls, judged.keys), (4000, 200));
        assert_eq!(judged.anomalies.len(), anomalies);
        assert_eq!(judged.counts.values().sum::<u64>(), anomalies as u64);
    }
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

/// Compares the judge with porcupine, an independent implementation in Go: `cargo test --release -p
/// loadstone-history -- --ignored porcupine`. It is built here, from the Go module proxy.
#[test]
#[ignore = "it needs Go and the network"]
fn the_judge_agrees_with_porcupine() {
    let folder = std::env::temp_dir().join(format!("loadstone-porcupine-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (program, path) = (folder.join("porcupine"), folder.join("calls"));
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("porcupine");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(".").current_dir(source);
    assert!(build.status().expect("Go is there").success());
    let (mut bytes, mut standings) = (Vec::new(), Vec::new());
    for key in 0..100_000 {
        let mut chance = Chance(key ^ 0x9999);
        let shape = Shape {
            calls: 5 + chance.below(40),
            clients: 2 + chance.below(6) as usize,
            ..shape(&mut chance)
        };
        let lies = if shape.lies == 0 { 0 } else { 20 };
        let calls = draw(&mut chance, Shape { lies, ..shape });
        calls.iter().for_each(|call| Call { key, ..*call }.encode(&mut bytes));
        let judged = judge_key(calls, Initial::Value(ABSENT), Model::Linear);
        standings.push(judged.standing);
    }
    std::fs::write(&path, bytes).expect("a file");
    let answer = Command::new(&program).arg(&path).output().expect("it was built");
    let answer = String::from_utf8(answer.stdout).expect("numbers and words");
    let mut counts = std::collections::BTreeMap::new();
    for (line, standing) in answer.lines().zip(&standings) {
        let word = line.split_once(' ').expect("a key and a word").1;
        let judged = format!("{standing:?}").to_lowercase();
        *counts.entry(format!("{judged}, porcupine: {word}")).or_insert(0) += 1;
        assert!([word, "undecided"].contains(&judged.as_str()), "{line}: {judged}");
    }
    println!("{counts:?}");
    assert_eq!(answer.lines().count(), standings.len());
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

/// Prints how many calls are judged per second: `cargo test --release -p loadstone-history --
/// --ignored speed --nocapture`.
#[test]
#[ignore = "it measures"]
fn speed() {
    for (name, deletes, swaps, clients) in [
        ("reads and writes, 1 client a key", 0, 0, 1),
        ("reads and writes, 16 clients a key", 0, 0, 16),
        ("with deletes, 3 clients a key", 15, 0, 3),
        ("with deletes and conditions, 16 clients a key", 10, 10, 16),
    ] {
        let mut chance = Chance(1);
        let shape = Shape { calls: 1000, clients, deletes, swaps, unanswered: 0, lies: 0 };
        let keys: Vec<Vec<Call>> = (0..1000).map(|_| draw(&mut chance, shape)).collect();
        let begun = Instant::now();
        let standings = keys
            .into_iter()
            .map(|calls| judge_key(calls, Initial::Value(ABSENT), Model::Linear).standing);
        let undecided = standings.filter(|standing| *standing != Standing::Right).count();
        let took_s = begun.elapsed().as_secs_f64();
        println!("{name}: {:.2} million/s, {undecided} keys undecided", 1.0 / took_s);
    }
}

/// Prints the time for judging the calls in a file, and the peak memory of the process. For ten
/// minutes of 100,000 calls a second: `LOADSTONE_CALLS=60000000 cargo test --release -p
/// loadstone-history -- --ignored file --nocapture`.
#[test]
#[ignore = "it measures"]
fn speed_of_a_file() {
    let calls: u64 =
        std::env::var("LOADSTONE_CALLS").map_or(1_000_000, |text| text.parse().expect("a number"));
    let path = std::env::temp_dir().join(format!("loadstone-calls-{}", std::process::id()));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).expect("a file"));
    let shape = Shape { calls: 1000, clients: 16, deletes: 15, swaps: 0, unanswered: 1, lies: 0 };
    let (mut chance, mut bytes) = (Chance(1), Vec::new());
    for key in 0..calls / shape.calls {
        bytes.clear();
        for call in draw(&mut chance, shape) {
            Call { key, ..call }.encode(&mut bytes);
        }
        std::io::Write::write_all(&mut file, &bytes).expect("room");
    }
    drop(file);
    let begun = Instant::now();
    let initials = Initials { usual: Initial::Value(ABSENT), unknown: Vec::new() };
    let judgement = judge_files(std::slice::from_ref(&path), &initials, Model::Linear, 8 << 20, 10);
    let (judgement, took_s) = (judgement.expect("it is read"), begun.elapsed().as_secs_f64());
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).expect("it is there");
    println!(
        "{} calls, {} keys undecided: {took_s:.1} s, {memory}",
        judgement.calls, judgement.undecided_keys
    );
    std::fs::remove_file(&path).expect("it is ours");
}

#[test]
fn a_page_is_wrong_only_if_a_key_did_not_change_meanwhile() {
    use Action::{Listed, Write};
    let ghost = |calls: &[Call]| kinds(calls, Model::Linear) == [Kind::Ghost];
    let missing = |calls: &[Call]| kinds(calls, Model::Linear) == [Kind::ListMissing];
    let (put, delete) = (call(Write(1), 10, 20), call(Write(ABSENT), 40, 50));
    for (page, is_listed, kind) in [
        ((21, 30), false, Some(Kind::ListMissing)),
        ((21, 30), true, None),
        // The put, and then the delete, may take effect before the page or after it.
        ((15, 30), false, None),
        ((21, 45), false, None),
        ((30, 60), true, None),
        ((51, 60), true, Some(Kind::Ghost)),
        ((51, 60), false, None),
        // The key was absent before the first write.
        ((2, 5), true, Some(Kind::Ghost)),
        ((2, 12), true, None),
    ] {
        let calls = [put, delete, call(Listed(is_listed), page.0, page.1)];
        let expected: Vec<Kind> = kind.into_iter().collect();
        assert_eq!(kinds(&calls, Model::Linear), expected, "{page:?} {is_listed}");
        assert_eq!(kinds(&calls, Model::LastWriterWins), [], "{page:?} {is_listed}");
    }
    // A write without an answer may take effect at any time.
    let late = call(Write(2), 45, UNANSWERED);
    assert!(!ghost(&[put, delete, late, call(Listed(true), 60, 70)]));
    let gone = call(Write(ABSENT), 15, UNANSWERED);
    assert!(!missing(&[put, gone, call(Listed(false), 60, 70)]));
    assert!(missing(&[put, call(Listed(false), 60, 70)]));
}

#[test]
fn a_part_of_a_page_is_one_record() {
    let part = Listing { first: 7, step: 3, covered: 0b1011 | 1 << 63, listed: 0b0010 };
    let mut bytes = Vec::new();
    part.encode(4, 100, 200, &mut bytes);
    let mut keys = Vec::new();
    assert!(Call::decode(&bytes.as_chunks().0[0], |call| {
        assert_eq!((call.client, call.called_ns, call.answered_ns), (4, 100, 200));
        keys.push((call.key, call.action));
    }));
    let listed = |key, is_listed| (key, Action::Listed(is_listed));
    let expected = [listed(7, false), listed(10, true), listed(16, false), listed(196, false)];
    assert_eq!(keys, expected);
}
