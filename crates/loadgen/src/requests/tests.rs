//! Tests of the requests that each source chooses.

use std::collections::HashSet;

use super::*;
use crate::dataset::Dataset;
use crate::outcome::Outcome;

pub(super) fn trial(mix: &str, rest: &str) -> Trial {
    serde_json::from_str(&format!(
        r#"{{"format":1,"id":"0001","run":"{:032x}","seed":7,"phase":"get",
            "target":{{"name":"t","driver":"null"}},
            "dataset":{{"bucket_prefix":"b","buckets":3,"objects":1000,"object_prefix":"o",
                        "size":{{"kind":"fixed","bytes":1}}}},
            "mix":{mix},"stop":{{"requests":100000}},"load":{{"kind":"closed","clients":1}}
            {rest}}}"#,
        1
    ))
    .expect("the test's document is sound")
}

fn ended(outcome: Outcome) -> Completion {
    Completion::plain(outcome, 0, 0, 0)
}

fn draw(trial: &Trial, count: u64) -> Vec<Request> {
    let tickets = Tickets::default();
    tickets.restart(count);
    let mut requests = Source::new(trial, 0, 1, 1);
    std::iter::from_fn(|| {
        let Next::Request(request) = requests.next(0, 0, &tickets) else { return None };
        requests.note(&request, &ended(Outcome::OK));
        Some(request)
    })
    .collect()
}

#[test]
fn sequential_keys_visit_every_object_once() {
    let drawn = draw(&trial(r#"[{"operation":"get"}]"#, ""), 1000);
    let numbers: HashSet<u64> = drawn.iter().map(|request| request.subject.number()).collect();
    assert_eq!((drawn.len(), numbers.len()), (1000, 1000));
}

#[test]
fn sequential_blocks_go_through_one_object_after_another() {
    let mut trial = trial(r#"[{"operation":"read"}]"#, r#","options":{"range_bytes":4096}"#);
    trial.dataset.size = crate::trial::SizeLaw::Fixed { bytes: 10_000 };
    let drawn = draw(&trial, 7);
    let places: Vec<_> =
        drawn.iter().map(|request| (request.subject.number(), request.block())).collect();
    assert_eq!(places, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0)]);
}

#[test]
fn a_mix_never_requests_objects_that_it_may_have_deleted() {
    let mix = r#"[{"operation":"get","weight":45},{"operation":"head","weight":30},
                  {"operation":"put","weight":15},{"operation":"delete","weight":10}]"#;
    let drawn = draw(&trial(mix, ""), 100_000);
    let (mut there, mut gone) = (HashSet::new(), HashSet::new());
    for request in &drawn {
        match request.operation {
            Operation::Put => {
                assert!(
                    there.insert(request.subject.number())
                        && !gone.contains(&request.subject.number())
                )
            }
            Operation::Delete => {
                assert!(
                    there.remove(&request.subject.number())
                        && gone.insert(request.subject.number())
                )
            }
            _ => assert!(
                request.subject.number() < 1000 && !gone.contains(&request.subject.number())
            ),
        }
    }
    let share = |operation| {
        drawn.iter().filter(|request| request.operation == operation).count() as f64 / 1e5
    };
    assert!((share(Operation::Get) - 0.45).abs() < 0.01);
    assert!((share(Operation::Delete) - 0.10).abs() < 0.01);
}

#[test]
fn bulk_deletes_cover_the_dataset_once() {
    let trial = trial(r#"[{"operation":"bulk_delete"}]"#, r#","options":{"bulk_keys":100}"#);
    let mut numbers = HashSet::new();
    for request in draw(&trial, bulk_requests(1000, 3, 100)) {
        let (first, keys) = request.batch();
        for key in 0..u64::from(keys) {
            assert!(numbers.insert(first + key * 3));
        }
    }
    assert_eq!(numbers.len(), 1000);
    assert!(numbers.iter().all(|index| *index < 1000));
}

#[test]
fn appends_fill_each_object_in_order_and_one_request_at_a_time() {
    let mut trial = trial(r#"[{"operation":"append"}]"#, r#","options":{"range_bytes":4096}"#);
    trial.dataset.objects = 7;
    trial.dataset.size = crate::trial::SizeLaw::Weighted {
        choices: vec![(0, 1.0), (4096, 1.0), (4097, 1.0), (20_000, 1.0)],
    };
    let dataset = Dataset::new(&trial);
    let tickets = Tickets::default();
    tickets.restart(u64::MAX);
    let mut threads = [Source::new(&trial, 0, 2, 6), Source::new(&trial, 1, 2, 6)];
    let (mut blocks, mut in_flight) = ([0; 7], Vec::new());
    loop {
        // Three clients in each thread; the oldest request of all threads ends first.
        for (thread, requests) in threads.iter_mut().enumerate() {
            let is_of = |(other, _): &&(usize, Request)| *other == thread;
            while in_flight.iter().filter(is_of).count() < 3
                && let Next::Request(request) = requests.next(0, 0, &tickets)
            {
                assert!(
                    in_flight
                        .iter()
                        .all(|(_, other)| other.subject.number() != request.subject.number())
                );
                in_flight.push((thread, request));
            }
        }
        if in_flight.is_empty() {
            break;
        }
        let (thread, request) = in_flight.remove(0);
        let place = request.subject.number() as usize;
        assert_eq!(blocks[place], request.block());
        blocks[place] += 1;
        threads[thread].note(&request, &ended(Outcome::OK));
    }
    let expected = [0, 1, 2, 3, 4, 5, 6].map(|index| dataset.size(index).div_ceil(4096).max(1));
    assert_eq!(blocks, expected);
    assert!(matches!(threads[0].next(0, 0, &tickets), Next::Busy));
}

#[test]
fn an_object_whose_append_failed_is_given_up() {
    let mut trial = trial(r#"[{"operation":"append"}]"#, r#","options":{"range_bytes":4096}"#);
    trial.dataset.objects = 2;
    trial.dataset.size = crate::trial::SizeLaw::Fixed { bytes: 8192 };
    let tickets = Tickets::default();
    tickets.restart(3);
    let mut requests = Source::new(&trial, 0, 1, 1);
    let mut taken = Vec::new();
    while let Next::Request(request) = requests.next(0, 0, &tickets) {
        taken.push(request);
    }
    let places = taken.iter().map(|request| (request.subject.number(), request.block()));
    assert_eq!(places.collect::<Vec<_>>(), [(0, 0), (1, 0)]);
    assert!(matches!(requests.next(0, 0, &tickets), Next::Busy));
    requests.note(&taken[0], &ended(Outcome::TIMEOUT));
    assert!(matches!(requests.next(0, 0, &tickets), Next::Busy));
    requests.note(&taken[1], &ended(Outcome::OK));
    let Next::Request(third) = requests.next(0, 0, &tickets) else { panic!("the second goes on") };
    assert_eq!((third.subject.number(), third.block()), (1, 1));
    assert!(matches!(requests.next(0, 0, &tickets), Next::Over));
}

#[test]
fn the_same_seed_chooses_the_same_objects() {
    let trial = trial(r#"[{"operation":"get"}]"#, r#","keys":{"order":"uniform"}"#);
    let indices =
        |drawn: Vec<Request>| drawn.iter().map(|r| r.subject.number()).collect::<Vec<_>>();
    assert_eq!(indices(draw(&trial, 500)), indices(draw(&trial, 500)));
}

#[test]
fn writes_of_a_history_have_unique_versions_over_threads_and_hosts() {
    let mix = r#"[{"operation":"get","weight":3},{"operation":"put","weight":1},
                  {"operation":"delete","weight":2}]"#;
    let mut versions = HashSet::new();
    let mut puts = 0;
    for index in 0..2 {
        let rest = format!(r#","keeps_history":true,"portion":{{"index":{index},"of":2}}"#);
        for thread in 0..3 {
            let tickets = Tickets::default();
            tickets.restart(2000);
            let mut source = Source::new(&trial(mix, &rest), thread, 3, 3);
            while let Next::Request(request) = source.next(0, 0, &tickets) {
                let Subject::Object(object) = request.subject else { panic!("no object") };
                assert!(object.index < 1000 && request.is_verified);
                if request.operation == Operation::Put {
                    puts += 1;
                    versions.insert(object.version);
                } else {
                    assert_eq!(object.version, crate::payload::ANY_VERSION);
                }
            }
        }
    }
    assert_eq!(versions.len(), puts);
    assert!(puts > 1000 && !versions.contains(&1), "that of the dataset itself");
}
