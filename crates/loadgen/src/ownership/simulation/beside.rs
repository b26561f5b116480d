//! Load in foreign places, on stores of each kind, while others put, replace and delete keys of the
//! dataset: everything of theirs stays as they wrote it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::super::beside::{ForeignPlaces, OwnerTag, SharedPlace, Writer, perform};
use super::world::{OTHER, Object as Stored, RUN, Target, TargetClient};
use super::{History, mix64};
use crate::dataset::{Dataset, Object};
use crate::driver::Driver;
use crate::error::Error;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::reactor::run_to_end;
use crate::requests::{Request, Subject};
use crate::run::buckets::ready_buckets;

/// Requests per history.
const REQUESTS: u64 = 40;
const OPERATIONS: [Operation; 6] = [
    Operation::Put,
    Operation::Post,
    Operation::Copy,
    Operation::MultipartPut,
    Operation::Delete,
    Operation::BulkDelete,
];

/// How a store handles metadata and conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Store {
    keeps_metadata: bool,
    heeds_conditions: bool,
}

impl History {
    /// Others put keys of the dataset into places of theirs that the run has claimed.
    pub(super) fn replace_claimed(&mut self) {
        let trial = self.parsed();
        let spec = &trial.dataset;
        for (bucket, place) in (0..).zip(self.names()) {
            let number = bucket + spec.buckets * self.draw(4);
            let suffix = if self.draw(3) == 0 { ".copy" } else { "" };
            let key = format!("{}{number}{suffix}", spec.object_prefix);
            let mut world = self.world.lock().expect("one thread");
            let claim = format!("{}.loadstone-claim", spec.object_prefix);
            if world.places[&place].contains_key(&claim) {
                world.write_theirs_over(&place, &key);
            }
        }
    }

    fn draw_request(&mut self, target: &Target, store: Store, round: u64) -> Request {
        let operation = OPERATIONS[self.draw(OPERATIONS.len() as u64) as usize];
        let object = Object { index: self.draw(8), version: 1 + self.draw(2) };
        let (mut operation, mut subject) = (operation, Subject::Object(object));
        if operation == Operation::BulkDelete {
            subject = Subject::Batch { first: object.index, keys: 1 + self.draw(3) as u32 };
        }
        if !store.keeps_metadata {
            // Without metadata, it is known that the first put of an object is the first, and which
            // objects were put before.
            let ours: Vec<u64> = (0..round).filter(|index| self.is_ours(target, *index)).collect();
            let again = self.draw(2 * (1 + ours.len() as u64)) as usize;
            let index = ours.get(again).copied().unwrap_or(round);
            operation = Operation::Put;
            subject = Subject::Object(Object { index, version: 1 });
        }
        Request { operation, subject, chance: 0, is_verified: false }
    }

    /// Returns whether an object of the dataset is as the run wrote it.
    fn is_ours(&self, target: &Target, index: u64) -> bool {
        let (place, key) = target.place_and_key(index, b"");
        let world = self.world.lock().expect("one thread");
        let object = world.places.get(&place).and_then(|objects| objects.get(&key));
        object.is_some_and(|object| object.writer == RUN)
    }

    /// Others act before a request, or at one of its steps.
    fn disturb(&mut self, target: &Target, store: Store, request: &Request) {
        let deed = self.draw(6);
        let (index, step) = (self.draw(8), self.draw(4));
        let (place, key) = target.place_and_key(index, b"");
        let (their_place, their_key) = target.place_and_key(request.subject.number(), b"");
        let mut world = self.world.lock().expect("one thread");
        match deed {
            0 if store.keeps_metadata => world.write_theirs_over(&place, &key),
            1 => world.write_theirs(&place, &key),
            2 if store.keeps_metadata => {
                let copy = format!("{key}.copy");
                world.write_theirs_over(&place, &copy);
            }
            3 => {
                world.places.get_mut(&place).map(|objects| objects.remove(&key));
                world.theirs.remove(&(place, key));
            }
            // During a request: only possible if the condition makes the put a single step.
            4 if store.heeds_conditions && request.operation == Operation::Put => {
                world.neighbour = Some((world.steps + step, their_place, their_key));
            }
            _ => {}
        }
    }
}

/// Results of the requests of all histories.
#[derive(Default)]
struct Results {
    /// How often each operation had each outcome.
    ends: BTreeMap<(&'static str, Outcome), u64>,
    /// Number of puts of objects that the trial had put before and that still existed, by whether
    /// the store keeps metadata.
    again: BTreeMap<bool, u64>,
}

/// Runs one history of load.
fn load_by(seed: u64, results: &mut Results) {
    let mut history = History::new(seed);
    let store = [(true, true), (true, false), (false, true)][history.draw(3) as usize];
    let store = Store { keeps_metadata: store.0, heeds_conditions: store.1 };
    history.trial["dataset"]["buckets"] = json!(1 + history.draw(2));
    history.trial["dataset"]["objects"] = json!(REQUESTS);
    history.trial["allow_foreign"] = json!(true);
    history.trial["ownership"]["runs"] = json!([]);
    for place in history.names() {
        history.world.lock().expect("one thread").write_theirs(&place, "notes");
    }
    {
        let mut world = history.world.lock().expect("one thread");
        (world.keeps_metadata, world.heeds_conditions) =
            (store.keeps_metadata, store.heeds_conditions);
    }
    let trial = history.parsed();
    let target = history.target(&trial);
    ready_buckets(&target, &trial, &target.stop, &mut |_| true).expect("nothing fails");
    assert!(!target.stop.load(Ordering::Relaxed));
    let mut put = BTreeSet::new();
    for round in 0..REQUESTS {
        let request = history.draw_request(&target, store, round);
        history.disturb(&target, store, &request);
        let (before, steps) = {
            let world = history.world.lock().expect("one thread");
            (format!("{:?}", world.places), world.steps)
        };
        let (is_put, index) = (request.operation == Operation::Put, request.subject.number());
        let is_again = is_put && put.contains(&index) && history.is_ours(&target, index);
        let outcome = ask(&target, request);
        *results.ends.entry((request.operation.name(), outcome)).or_default() += 1;
        if is_again {
            // The put is not refused, and sends its bytes once: a condition would cost them.
            let steps = history.world.lock().expect("one thread").steps - steps;
            let steps_max = 1 + u64::from(store.keeps_metadata);
            assert!(
                outcome.is_ok() && steps <= steps_max,
                "{store:?}: {request:?} of {outcome:?} in {steps} steps"
            );
            *results.again.entry(store.keeps_metadata).or_default() += 1;
        }
        if is_put && outcome.is_ok() {
            put.insert(index);
        }
        let mut world = history.world.lock().expect("one thread");
        world.neighbour = None;
        for (place, key) in &world.theirs {
            let stored = world.places[place].get(key);
            let is_kept = stored.is_some_and(|object| object.writer == OTHER);
            assert!(
                is_kept,
                "{store:?}: {request:?} of {outcome:?} took {place}/{key} of {before}"
            );
        }
    }
    if store.keeps_metadata {
        let swept = history.clean_up().expect("nothing fails").expect("never stopped");
        history.expect_theirs();
        let world = history.world.lock().expect("one thread");
        let ours = world.places.values().flat_map(BTreeMap::values);
        assert_eq!(ours.filter(|object| object.writer == RUN).count(), 0, "{swept:?}");
    }
}

fn ask(target: &Arc<Target>, request: Request) -> Outcome {
    let reactor = target.thread().expect("it needs nothing");
    let mut client: TargetClient = target.client(&reactor, 0).expect("it needs nothing");
    let foreign = Arc::clone(target.foreign.as_ref().expect("others' places are allowed"));
    let job = async move {
        assert!(foreign.concerns(&request, &client.target.dataset));
        perform(&mut client, &request, &foreign).await.outcome
    };
    run_to_end(&Rc::clone(&reactor), &target.stop, job)
        .expect("it waits for time")
        .expect("it ends")
}

/// A driver of a store that keeps metadata and honours conditions, or does not.
impl SharedPlace for TargetClient {
    fn known(&self) -> Option<&Arc<ForeignPlaces>> {
        self.target.foreign.as_ref()
    }

    fn dataset(&self) -> &Dataset {
        &self.target.dataset
    }

    fn put_as(&mut self, tag: OwnerTag) {
        self.tag = tag;
    }

    async fn perform(&mut self, request: &Request) -> Completion {
        let (tag, keys) = (self.tag, self.changed(request));
        let is_delete = matches!(request.operation, Operation::Delete | Operation::BulkDelete);
        let done = self.step(|world| {
            if tag == OwnerTag::RunIfAbsent && world.heeds_conditions {
                let is_there = |(place, key): &(String, String)| {
                    world.places.get(place).is_some_and(|objects| objects.contains_key(key))
                };
                if keys.iter().any(is_there) {
                    return Outcome::http(412);
                }
            }
            let run = (tag != OwnerTag::None && world.keeps_metadata).then_some(RUN);
            for (place, key) in &keys {
                let Some(objects) = world.places.get_mut(place) else { continue };
                match is_delete {
                    true => objects.remove(key),
                    false => {
                        let text = "payload".to_owned();
                        objects.insert(key.clone(), Stored { writer: RUN, text, run })
                    }
                };
            }
            Outcome::OK
        });
        Completion::plain(done.await.unwrap_or(Outcome::RESET), 0, 0, 0)
    }

    fn refuse(&mut self, kind: Outcome, _: String) -> Completion {
        Completion::plain(kind, 0, 0, 0)
    }

    fn derived(&self, request: &Request) -> Vec<Vec<u8>> {
        let suffix = if request.operation == Operation::Copy { b".copy".as_slice() } else { b"" };
        vec![suffix.to_vec()]
    }

    async fn writer_of(&mut self, index: u64, suffix: &[u8]) -> Result<Writer, Completion> {
        let (place, key) = self.target.place_and_key(index, suffix);
        let writer = self.writer_at(&place, &key).await;
        writer.map_err(|_| Completion::plain(Outcome::RESET, 0, 0, 0))
    }

    async fn writer_at(&mut self, place: &str, key: &str) -> Result<Writer, Error> {
        self.step(|world| {
            let object = world.places.get(place).and_then(|objects| objects.get(key));
            match object.map(|object| object.run) {
                None => Writer::Absent,
                Some(None) => Writer::Unnamed,
                Some(Some(run)) => Writer::Run(run.to_owned()),
            }
        })
        .await
    }

    async fn writes_over(&mut self, _: &str, _: &str, _: &str) -> Result<bool, Error> {
        self.step(|world| !world.heeds_conditions).await
    }
}

impl TargetClient {
    /// Returns the places and keys that a request puts or deletes.
    fn changed(&self, request: &Request) -> Vec<(String, String)> {
        match request.subject {
            Subject::Batch { first, keys } => {
                let step = self.target.dataset.spec().buckets;
                let numbers = (0..u64::from(keys)).map(|number| first + number * step);
                numbers.map(|index| self.target.place_and_key(index, b"")).collect()
            }
            _ => {
                let index = request.object().index;
                let suffixes = self.derived(request).into_iter();
                suffixes.map(|suffix| self.target.place_and_key(index, &suffix)).collect()
            }
        }
    }
}

impl Target {
    pub(super) fn place_and_key(&self, index: u64, suffix: &[u8]) -> (String, String) {
        let mut key = Vec::new();
        self.dataset.write_key(index, &mut key);
        key.extend_from_slice(suffix);
        let place = self.dataset.bucket(self.dataset.bucket_of(index));
        (place, String::from_utf8(key).expect("it is text"))
    }
}

#[test]
fn load_never_changes_what_others_put_after_the_claim() {
    let mut results = Results::default();
    for seed in 0..600 {
        load_by(mix64(seed), &mut results);
    }
    let Results { ends, again } = results;
    assert!([true, false].iter().all(|keeps| again.get(keeps) > Some(&100)), "{again:?}");
    // Histories in which nothing was refused, or nothing done, would prove nothing.
    for operation in OPERATIONS {
        let refusal = match operation {
            Operation::Delete | Operation::BulkDelete => Outcome::DENIED,
            _ => Outcome::EXISTS,
        };
        for end in [Outcome::OK, refusal] {
            assert!(
                ends.get(&(operation.name(), end)).is_some_and(|count| *count > 100),
                "{ends:?}"
            );
        }
    }
}
