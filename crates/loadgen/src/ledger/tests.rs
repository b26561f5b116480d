//! Compares ledgers that grow, are truncated at any byte and are read again with plain maps.

use std::collections::HashMap;
use std::path::PathBuf;

use loadstone_wire::digest::sha256;

use super::owed::{Allowed, Owed};
use super::*;
use crate::chance::mix64;

const OBJECTS: u64 = 20_000;
const RUN: &str = "0123456789abcdef0123456789abcdef";
/// First number of objects that a mix puts beyond its dataset, in each of three stages.
const BEYOND: u64 = OBJECTS + (1 << 34);

/// Facts that are needed to read the ledger of a trial, as in [`LedgerSpec`].
#[derive(Debug, Clone, Copy)]
struct Kind {
    puts: bool,
    deletes: bool,
    copies: bool,
    posts: bool,
    tears: bool,
    repeats: bool,
    first: u64,
    end: u64,
}

const PUTS: Kind = Kind {
    puts: true,
    deletes: false,
    copies: false,
    posts: false,
    tears: false,
    repeats: false,
    first: 0,
    end: OBJECTS,
};
const DELETES: Kind = Kind { puts: false, deletes: true, ..PUTS };
const COPYING: Kind = Kind { puts: false, copies: true, ..PUTS };
const POSTS: Kind = Kind { puts: false, posts: true, ..PUTS };
const MIX: Kind = Kind { deletes: true, first: BEYOND, end: BEYOND + (1 << 34), ..PUTS };

fn ledger(kind: Kind, writer: u32) -> Ledger {
    let beyond = |stage: u64| (BEYOND + (stage << 32), 1 << 32);
    let all = [(0, OBJECTS), beyond(0), beyond(1), beyond(2)];
    let more = [(0, OBJECTS), (COPIES, OBJECTS), (METADATA, OBJECTS)];
    let usual = if kind.puts { Effect::Writes } else { Effect::Deletes };
    let stretches: &[_] = match kind {
        Kind { copies: true, .. } | Kind { posts: true, .. } => &more,
        Kind { first: 0, .. } => &all[..1],
        Kind { .. } => &all[..],
    };
    Ledger::new(stretches, writer, usual, 0)
}

/// A frame without content, as the writer of a run folder creates it.
fn mark(kind: u8) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    frame[0] = kind;
    let crc = checksum(&frame[..36], &[]);
    frame[36..].copy_from_slice(&crc.to_le_bytes());
    frame
}

struct Written {
    path: PathBuf,
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens ledgers with these bytes, combined in order.
fn opened(name: &str, ledgers: &[(Kind, u64, Vec<u8>)]) -> Owed {
    let mut files = Vec::new();
    let specs = ledgers.iter().enumerate().map(|(place, (kind, version, bytes))| {
        let name = format!("ledger-{}-{name}-{place}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).expect("the folder can be written to");
        let shown = path.display().to_string();
        files.push(Written { path });
        LedgerSpec {
            path: shown,
            sha256: sha256(bytes).iter().map(|byte| format!("{byte:02x}")).collect(),
            trial: format!("{place:04}"),
            version: *version,
            puts: kind.puts,
            deletes: kind.deletes,
            copies: kind.copies,
            posts: kind.posts,
            metadata_follows: true,
            tears: kind.tears,
            repeats: kind.repeats,
            first: kind.first,
            end: kind.end,
        }
    });
    let ledgers = specs.collect();
    let spec = OwedSpec { ledgers, is_absent_before: true, sample: None };
    Owed::open(&spec, RUN).expect("the ledgers are sound")
}

/// The possible states in a comparable form: whether absent, and the versions, newest first.
fn sets(allowed: Option<Allowed>) -> Option<(bool, Vec<u64>)> {
    allowed.map(|allowed| (allowed.absent, allowed.versions().to_vec()))
}

#[test]
fn a_ledger_has_the_last_acknowledged_state_of_each_object() {
    let ledger = ledger(MIX, 0);
    let mut expected: HashMap<u64, Entry> = HashMap::new();
    let mut bytes = mark(kind::BEGIN);
    for step in 0..60_000_u64 {
        // Sparse numbers of all three stages: many pages, some of them full.
        let stage = mix64(step) % 3;
        let index = BEYOND + (stage << 32) + mix64(step ^ 9) % 30_000;
        let draw = mix64(step ^ 1) % 10;
        let effect = if draw <= 6 { Effect::Writes } else { Effect::Deletes };
        ledger.note(index, effect, draw != 6 && draw != 9);
        let before = expected.get(&index).copied().unwrap_or(Entry::Untouched);
        let after = match draw {
            0..6 => Entry::Written,
            6 if before == Entry::Written => Entry::Written,
            7 | 8 => Entry::Deleted,
            _ => Entry::Unknown,
        };
        expected.insert(index, after);
        if step % 7000 == 0 {
            bytes.extend(ledger.take_frames(step));
        }
    }
    bytes.extend(ledger.take_frames(60_000));
    assert!(ledger.take_frames(60_001).is_empty(), "nothing has changed since");
    bytes.extend(mark(kind::END));
    let owed = opened("mix", &[(MIX, 1, bytes)]);
    for (index, entry) in &expected {
        let wanted = match entry {
            Entry::Untouched => None,
            Entry::Written => Some((false, vec![1])),
            Entry::Deleted => Some((true, vec![])),
            Entry::Unknown => Some((true, vec![1])),
        };
        assert_eq!(sets(owed.allowed(*index)), wanted, "{index}: {entry:?}");
    }
    let touched = owed.pages.iter().flat_map(|page| page * 4096..(page + 1) * 4096);
    assert_eq!(touched.filter(|index| owed.allowed(*index).is_some()).count(), expected.len());
}

#[test]
fn later_trials_supersede_earlier_ones_and_failed_requests_may_still_execute() {
    let (ok, failed) = (true, false);
    let put = |all: &[(u64, bool)]| entries(PUTS, Effect::Writes, all);
    let first = put(&[(1, ok), (2, ok), (3, ok), (4, failed), (5, ok)]);
    let second = put(&[(2, ok), (3, failed), (4, ok)]);
    let third = entries(DELETES, Effect::Deletes, &[(1, ok), (5, failed)]);
    let owed = opened("over", &[(PUTS, 1, first), (PUTS, 2, second), (DELETES, 2, third)]);
    let allowed = |index| sets(owed.allowed(index));
    assert_eq!(allowed(0), None);
    assert_eq!(allowed(1), Some((true, vec![])));
    assert_eq!(allowed(2), Some((false, vec![2])));
    assert_eq!(allowed(3), Some((false, vec![2, 1])));
    assert_eq!(allowed(4), Some((false, vec![2, 1])), "the first put may still be carried out");
    assert_eq!(allowed(5), Some((true, vec![1])));
}

/// The ledger of a trial with requests that were acknowledged, or failed.
fn entries(kind: Kind, effect: Effect, entries: &[(u64, bool)]) -> Vec<u8> {
    let ledger = ledger(kind, 0);
    entries.iter().for_each(|(index, is_ok)| ledger.note(*index, effect, *is_ok));
    [mark(kind::BEGIN), ledger.take_frames(1), mark(kind::END)].concat()
}

#[test]
fn a_copy_has_what_its_object_had_when_it_was_copied() {
    let (ok, failed) = (true, false);
    let put = |all: &[(u64, bool)]| entries(PUTS, Effect::Writes, all);
    let copied = |all: &[(u64, bool)]| entries(COPYING, Effect::Copies, all);
    let first = put(&[(1, ok), (2, ok), (3, ok), (4, failed), (5, ok), (7, ok)]);
    let second = put(&[(1, ok), (2, ok), (3, ok), (5, failed), (7, ok)]);
    let once =
        copied(&[(1, ok), (2, ok), (3, ok), (3, failed), (3, ok), (4, ok), (6, ok), (7, ok)]);
    let twice = copied(&[(2, ok), (5, ok)]);
    let deleted = entries(DELETES, Effect::Deletes, &[(1, ok), (2, ok)]);
    let cut_off = once[..once.len() - HEADER_BYTES].to_vec();
    let ledgers = |once: Vec<u8>| {
        let (put, put_again) = ((PUTS, 1, first.clone()), (PUTS, 2, second.clone()));
        let copied_again = (COPYING, 2, twice.clone());
        [put, (COPYING, 1, once), put_again, copied_again, (DELETES, 2, deleted.clone())]
    };
    let owed = opened("copies", &ledgers(once));
    let allowed = |index| sets(owed.allowed(index | COPIES));
    let is_open = |index| owed.allowed(index | COPIES).is_some_and(|allowed| allowed.anything);
    assert_eq!(allowed(0), None);
    assert_eq!(allowed(1), Some((false, vec![1])), "whatever the object holds since");
    assert_eq!(allowed(2), Some((false, vec![2])));
    assert!(is_open(3), "the one that failed may be carried out later");
    assert_eq!(allowed(4), Some((false, vec![1])), "the put was carried out, for it was copied");
    assert_eq!(allowed(5), Some((false, vec![2, 1])));
    assert!(is_open(6), "others wrote it");
    assert_eq!(allowed(7), Some((false, vec![1])), "the object itself was overwritten");
    assert_eq!(sets(owed.allowed(2)), Some((true, vec![])), "the object itself was deleted");
    assert!(!owed.is_surely_unwritten(9 | COPIES));
    let calls = |index: u64| owed.history(index | COPIES, false).map(|noted| noted.version);
    assert_eq!(calls(2).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert_eq!(calls(5).collect::<Vec<_>>(), [None]);

    let owed = opened("copies-cut-off", &ledgers(cut_off));
    let allowed = |index| owed.allowed(index | COPIES).expect("it was copied");
    assert!(allowed(1).anything, "another copy of it may have been in flight");
    assert_eq!(sets(Some(allowed(2))), Some((false, vec![2])));
}

#[test]
fn a_request_that_failed_may_be_executed_after_an_overwrite_of_a_later_trial() {
    let (ok, failed) = (true, false);
    let put = |all: &[(u64, bool)]| entries(PUTS, Effect::Writes, all);
    let first = put(&[(1, failed), (1, ok), (2, ok), (2, failed), (3, ok), (3, ok), (4, ok)]);
    let posted = entries(POSTS, Effect::Describes, &[(4, failed)]);
    let second = put(&[(1, ok), (2, ok), (3, ok), (4, ok)]);
    let deleted = entries(DELETES, Effect::Deletes, &[(3, ok), (4, ok)]);
    let owed = opened("once", &[(PUTS, 1, first.clone())]);
    for index in 1..4 {
        assert_eq!(sets(owed.allowed(index)), Some((false, vec![1])), "the same bytes");
    }
    let layers = [(PUTS, 1, first), (POSTS, 1, posted), (PUTS, 2, second), (DELETES, 2, deleted)];
    let owed = opened("late", &layers[..3]);
    let allowed = |index| sets(owed.allowed(index));
    assert_eq!(allowed(1), Some((false, vec![2, 1])));
    assert_eq!(allowed(2), Some((false, vec![2, 1])));
    assert_eq!(allowed(3), Some((false, vec![2])));
    assert_eq!(allowed(4), Some((false, vec![2, 1])), "S3 posts by a copy onto itself");
    let owed = opened("late-deleted", &layers);
    assert_eq!(sets(owed.allowed(3)), Some((true, vec![])));
    assert_eq!(sets(owed.allowed(4)), Some((true, vec![1])));
}

#[test]
fn a_put_that_may_leave_a_part_is_not_claimed() {
    let (ok, failed) = (true, false);
    let kind = Kind { tears: true, ..PUTS };
    let all = [(1, ok), (2, failed), (3, ok), (3, failed), (4, ok)];
    let whole = entries(kind, Effect::Writes, &all);
    let cut_off = whole[..whole.len() - HEADER_BYTES].to_vec();
    let again = entries(kind, Effect::Writes, &all.map(|(index, _)| (index, ok)));
    let is_open = |name, ledgers: &[(Kind, u64, Vec<u8>)], index: u64| {
        opened(name, ledgers).allowed(index).is_some_and(|allowed| allowed.anything)
    };
    let open = |name, ledgers: &[(Kind, u64, Vec<u8>)]| {
        (1..5).filter(|index| is_open(name, ledgers, *index)).collect::<Vec<_>>()
    };
    assert_eq!(open("parts", &[(kind, 1, whole)]), [2, 3]);
    assert_eq!(open("parts-cut-off", &[(kind, 1, cut_off.clone())]), [2, 3]);
    let repeated = Kind { repeats: true, ..kind };
    assert_eq!(open("parts-repeated", &[(repeated, 1, cut_off.clone())]), [1, 2, 3, 4]);
    let both = [(repeated, 1, cut_off), (kind, 2, again)];
    assert_eq!(open("parts-overwritten", &both), [2, 3], "the next trial has put 1 and 4 anew");
}

#[test]
fn metadata_is_that_of_the_last_post_until_a_put_and_copies_include_it() {
    let (ok, failed) = (true, false);
    let put = |all: &[(u64, bool)]| entries(PUTS, Effect::Writes, all);
    let post = |all: &[(u64, bool)]| entries(POSTS, Effect::Describes, all);
    let every: Vec<_> = (1..9).map(|index| (index, ok)).collect();
    let copies = entries(COPYING, Effect::Copies, &[(1, ok), (2, ok), (3, ok), (8, ok)]);
    let first = [(1, ok), (2, failed), (3, ok), (4, failed), (4, ok), (5, ok), (6, ok)];
    let (second, overwritten) = ([(1, ok), (4, ok), (6, failed)], [(3, ok), (5, failed)]);
    let cut_off = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() - HEADER_BYTES);
        bytes
    };
    let ledgers = |last: Vec<u8>| {
        let (once, posted) = ((PUTS, 1, put(&every)), (POSTS, 1, post(&first)));
        let over = (PUTS, 2, put(&overwritten));
        [once, posted, (COPYING, 1, copies.clone()), over, (POSTS, 2, last)]
    };
    let of_trial = |trial: &str, index| MetadataValues::of_trial(RUN, trial).of_object(index);
    let owed = opened("posts", &ledgers(post(&second)));
    let values = |owed: &Owed, index: u64| {
        owed.metadata(index).map(|allowed| {
            let known = [("0001", 1), ("0004", 2)];
            let name = |value: &u64| {
                let trial = known.iter().find(|(id, _)| of_trial(id, index & !COPIES) == *value);
                trial.map_or(*value, |(_, number)| *number)
            };
            allowed.versions().iter().map(name).collect::<Vec<_>>()
        })
    };
    let all = |owed| (1..8).map(|index| values(owed, index)).collect::<Vec<_>>();
    let expected = [
        Some(vec![2]),
        Some(vec![1, 0]),
        Some(vec![0]),
        Some(vec![2, 1]),
        Some(vec![0, 1]),
        Some(vec![2, 1]),
        None,
    ];
    assert_eq!(all(&owed), expected);
    let of_copies: Vec<_> = [1, 2, 3, 8].map(|index| values(&owed, index | COPIES)).into();
    assert_eq!(of_copies, [Some(vec![1]), Some(vec![1, 0]), Some(vec![1]), None]);
    let calls: Vec<_> = owed.history(1, true).map(|noted| noted.is_post).collect();
    assert_eq!(calls, [false, true, true], "a put and both posts");
    assert!(owed.pages.iter().all(|page| (page * OBJECTS_PER_PAGE) & (METADATA | DOUBTS) == 0));

    let owed = opened("posts-cut-off", &ledgers(cut_off(post(&second))));
    assert_eq!(values(&owed, 1), Some(vec![2]));
    assert_eq!(values(&owed, 3), Some(vec![2, 0]), "a post of it may have been in flight");
}

#[test]
fn a_copy_in_the_trial_of_a_post_has_the_metadata_before_or_after_it() {
    let put = entries(PUTS, Effect::Writes, &[(1, true), (2, true)]);
    let both = Kind { copies: true, ..POSTS };
    let ledger = ledger(both, 0);
    ledger.note(1, Effect::Copies, true);
    ledger.note(1, Effect::Describes, true);
    let mixed = [mark(kind::BEGIN), ledger.take_frames(1), mark(kind::END)].concat();
    let owed = opened("both", &[(PUTS, 1, put), (both, 1, mixed)]);
    let value = MetadataValues::of_trial(RUN, "0001").of_object(1);
    let values = |index| owed.metadata(index).expect("it was posted to").versions().to_vec();
    assert_eq!(values(1), [value]);
    assert_eq!(values(1 | COPIES), [value, metadata::NO_METADATA]);
    assert_eq!(sets(owed.allowed(1 | COPIES)), Some((false, vec![1])));
}

#[test]
fn a_ledger_truncated_anywhere_contains_exactly_what_was_flushed() {
    let ledger = ledger(PUTS, 0);
    let (mut bytes, mut flushed) = (mark(kind::BEGIN), vec![(HEADER_BYTES, 0)]);
    for index in 0..9000_u64 {
        ledger.note(index, Effect::Writes, true);
        if index % 1000 == 999 {
            // Each flush ends with the page of its last object, or is truncated there.
            bytes.extend(ledger.take_frames(index));
            flushed.push((bytes.len(), index + 1));
        }
    }
    for cut in (0..bytes.len()).step_by(97).chain([bytes.len()]) {
        let owed = opened("cut", &[(PUTS, 1, bytes[..cut].to_vec())]);
        let surely =
            flushed.iter().rev().find(|(end, _)| *end <= cut).map_or(0, |(_, count)| *count);
        let claimed = |index| owed.allowed(index).is_some_and(|allowed| allowed.is_determined());
        assert!((0..surely).all(claimed), "cut at {cut}: less than {surely} claimed");
        let later = flushed.iter().find(|(end, _)| *end > cut).map_or(9000, |(_, count)| *count);
        assert!(!(later..9000).any(claimed), "cut at {cut}: more than {later} claimed");
        assert!(!owed.is_surely_unwritten(19_999), "it may have been in flight");
    }
}

#[test]
fn objects_of_a_mix_are_unknown_if_a_delete_may_have_been_in_flight() {
    let (ledger, first) = (ledger(MIX, 0), BEYOND);
    ledger.note(first, Effect::Writes, true);
    ledger.note(first + 1, Effect::Deletes, true);
    let frames = [mark(kind::BEGIN), ledger.take_frames(1)].concat();
    let whole = [frames.clone(), mark(kind::END)].concat();
    let cut_off = opened("cut-off", &[(MIX, 1, frames)]);
    assert_eq!(sets(cut_off.allowed(first)), Some((true, vec![1])));
    assert_eq!(sets(cut_off.allowed(first + 1)), Some((true, vec![])));
    let whole = opened("whole", &[(MIX, 1, whole)]);
    assert_eq!(sets(whole.allowed(first)), Some((false, vec![1])));
}

#[test]
fn ledgers_of_hosts_are_merged_and_attempts_are_sequential() {
    let mut bytes = Vec::new();
    for attempt in 0..2_u64 {
        bytes.extend(mark(kind::BEGIN));
        for host in 0..2_u32 {
            let ledger = ledger(PUTS, host);
            for index in (0..100).filter(|index| index % 2 == u64::from(host)) {
                if attempt == 1 || index < 50 {
                    ledger.note(index, Effect::Writes, true);
                }
            }
            bytes.extend(ledger.take_frames(attempt));
        }
    }
    bytes.extend(mark(kind::END));
    let owed = opened("hosts", &[(PUTS, 1, bytes)]);
    for index in 0..100 {
        assert_eq!(sets(owed.allowed(index)), Some((false, vec![1])), "{index}");
    }
    assert_eq!((owed.history(10, false).count(), owed.history(90, false).count()), (2, 1));
    assert_eq!(sets(owed.allowed(100)), None);
}

#[test]
fn a_ledger_with_impossible_object_numbers_is_rejected() {
    let mut bytes = mark(kind::BEGIN);
    for number in [u64::MAX, u64::MAX / OBJECTS_PER_PAGE] {
        write_frame(&mut bytes, 0, number, (0, 0), &[0x55; PAGE_BYTES]);
        assert_eq!(opened("beyond", &[(PUTS, 1, bytes.clone())]).pages, [0_u64; 0]);
        bytes = mark(kind::BEGIN);
    }
}

#[test]
fn pages_hold_any_number_of_exceptional_objects() {
    let kinds = [(PUTS, Effect::Writes), (DELETES, Effect::Deletes)];
    let shares = [1, 2, 30, 300, 2000];
    for ((kind, usual), share) in
        kinds.into_iter().flat_map(|kind| shares.map(|share| (kind, share)))
    {
        let (ledger, mut entries) = (ledger(kind, 0), vec![Entry::Untouched; OBJECTS as usize]);
        for step in 0..100_000 {
            let (index, draw) = (mix64(step) % OBJECTS, mix64(step ^ 7));
            let effect = if draw.is_multiple_of(share) { usual.reversed() } else { usual };
            let is_ok = !(draw >> 32).is_multiple_of(share + 1);
            ledger.note(index, effect, is_ok);
            let entry = &mut entries[index as usize];
            *entry = entry_after(*entry, effect, is_ok);
        }
        for page in ledger.pages.lock().expect("no thread panicked").iter() {
            let content = page.take_changed().expect("all pages have changed");
            let first = page.number * OBJECTS_PER_PAGE;
            for index in first..(first + OBJECTS_PER_PAGE).min(OBJECTS) {
                let place = (index - first) as usize;
                let entry = Entry::of_bits(content[place / 4] >> (place % 4 * 2));
                assert_eq!(entry, entries[index as usize], "{index}, one of {share}");
            }
        }
    }
}

#[test]
fn concurrent_changes_of_an_object_are_never_overstated() {
    let ledger = ledger(MIX, 0);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let ledger = &ledger;
            scope.spawn(move || {
                for step in 0..200_000 {
                    let index = BEYOND + mix64(step ^ thread << 40) % 300;
                    // Every second object is only put; the others are put, and finally deleted by
                    // all threads.
                    let is_ok = index % 2 == 1 || step % 3 > 0;
                    ledger.note(index, Effect::Writes, is_ok);
                }
                (BEYOND..BEYOND + 300).step_by(2).for_each(|index| {
                    ledger.note(index, Effect::Deletes, thread > 0);
                });
            });
        }
    });
    let bytes = [mark(kind::BEGIN), ledger.take_frames(1), mark(kind::END)].concat();
    let owed = opened("threads", &[(MIX, 1, bytes)]);
    for index in BEYOND..BEYOND + 300 {
        let allowed = owed.allowed(index).expect("it was changed");
        assert!(index % 2 == 0 || sets(Some(allowed)) == Some((false, vec![1])), "{index}");
        assert!(index % 2 == 1 || allowed.absent, "{index}: the last of each thread is a delete");
    }
}

/// Prints the memory of a ledger of this many puts (a hundred million) and the size of its frames,
/// with one flush for each 10,000 puts: `cargo test -p loadstone-loadgen --release -- --ignored
/// size_of_a_ledger --nocapture`.
#[test]
#[ignore = "it measures"]
fn size_of_a_ledger() {
    let objects = std::env::var("LOADSTONE_OBJECTS").map_or(100_000_000, |objects| {
        objects.parse().expect("LOADSTONE_OBJECTS is a whole number")
    });
    let ledger = Ledger::new(&[(0, objects)], 0, Effect::Writes, 0);
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("it is there");
        line.split_whitespace().nth(1).expect("a number").parse::<u64>().expect("a number")
    };
    let (before, mut bytes) = (resident(), 0);
    for index in 0..objects {
        // One put in a thousand fails.
        ledger.note(index, Effect::Writes, !mix64(index).is_multiple_of(1000));
        if index % 10_000 == 9_999 {
            bytes += ledger.take_frames(index).len();
        }
    }
    let memory_bytes = (resident() - before) * 1024;
    println!("{objects} puts: {memory_bytes} bytes of memory, {bytes} bytes of frames");
    // With few objects, the memory of the test itself is significant.
    assert!(objects < 100_000_000 || memory_bytes < objects / 4, "250 MB for a billion");
}
