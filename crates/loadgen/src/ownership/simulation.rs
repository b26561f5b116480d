//! Tests ownership against a simulated target: seeded worlds with other users, where every step
//! fails once, is stopped once, is killed once, and listings lie. In every case, nothing changes
//! that the run did not write, an interrupted start can be resumed, and a clean-up ends and reports
//! what it leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::beside::ForeignPlaces;
use super::{LeftKind, Mark, Title};
use crate::chance::mix64;
use crate::dataset::Dataset;
use crate::error::Error;
use crate::run::Output;
use crate::run::buckets::{Buckets, ready_buckets, sweep_buckets};
use crate::trial::Trial;

mod beside;
mod world;

use world::{
    FAULTS, Fault, LISTINGS, Listing, MARK, OTHER, Object, RUN, Target, World, text_for_a_mark,
};

/// Number of steps among which a fault is drawn.
const STEPS_DRAWN: u64 = 60;
/// Range of objects that mixes put beyond the dataset.
const WRITTEN: [u64; 2] = [105, 108];

/// One history, derived from its seed.
struct History {
    chance: u64,
    world: Arc<Mutex<World>>,
    trial: serde_json::Value,
    journal: Vec<String>,
    /// The volume that the target's name leads to, and the volumes on which places were claimed
    /// according to the journal.
    volume: &'static str,
    volumes: Vec<String>,
    /// Places that another run has created, which the user may have named.
    of_another_run: BTreeSet<String>,
    /// Whether anything disturbed the run.
    is_disturbed: bool,
}

impl History {
    fn draw(&mut self, below: u64) -> u64 {
        self.chance = mix64(self.chance);
        self.chance % below
    }

    fn new(seed: u64) -> Self {
        let world = Arc::new(Mutex::new(World::new()));
        let trial = json!({
            "format": 1, "id": "0001", "run": RUN, "seed": 1, "phase": "put",
            "target": {"name": "places", "driver": "null"},
            "dataset": {"bucket_prefix": "b-", "buckets": 2, "objects": 5,
                        "object_prefix": "o-", "size": {"kind": "fixed", "bytes": 1}},
            "mix": [{"operation": "put"}], "load": {"kind": "closed", "clients": 4},
            "stop": {"requests": 1}, "timeout_ns": 1_000_000_000,
            "ownership": {"adopt": [], "runs": [], "written": []},
        });
        let mut history = Self {
            chance: mix64(seed),
            world,
            trial,
            journal: Vec::new(),
            volume: "first",
            volumes: Vec::new(),
            of_another_run: BTreeSet::new(),
            is_disturbed: false,
        };
        history.trial["dataset"]["buckets"] = json!(1 + history.draw(3));
        history.trial["dataset"]["objects"] = json!(history.draw(9));
        if history.draw(3) == 0 {
            history.trial["dataset"]["object_prefix"] = json!("");
        }
        history.trial["allow_foreign"] = json!(history.draw(2) == 0);
        if history.draw(4) == 0 {
            history.trial["ownership"]["runs"] = json!([OTHER]);
        }
        let (says_new, keys_at_once) = (history.draw(2) == 0, 1 + history.draw(4) as usize);
        {
            let mut world = history.world.lock().expect("one thread");
            (world.says_new, world.keys_at_once) = (says_new, keys_at_once);
        }
        history
    }

    fn parsed(&self) -> Trial {
        self.parsed_as(self.trial["phase"].as_str().expect("a text"))
    }

    fn parsed_as(&self, phase: &str) -> Trial {
        let mut document = self.trial.clone();
        document["phase"] = json!(phase);
        document["ownership"]["adopt"] = json!(self.journal);
        document["ownership"]["volumes"] = json!(self.volumes);
        // As in a plan: only a clean-up knows what mixes may have put.
        if document["phase"] == "clean-up" {
            document["ownership"]["written"] = json!([WRITTEN]);
        }
        Trial::parse(&document.to_string()).expect("sound")
    }

    fn names(&self) -> Vec<String> {
        let trial = self.parsed();
        (0..trial.dataset.buckets).map(|bucket| trial.dataset.bucket(bucket)).collect()
    }

    /// Others put keys of all forms into places that exist before the run.
    fn populate(&mut self) {
        let prefix = self.trial["dataset"]["object_prefix"].as_str().expect("a text").to_owned();
        for place in self.names() {
            let kind = self.draw(6);
            if kind > 2 {
                continue;
            }
            self.is_disturbed = true;
            let keys = ["notes", "9", "200", "07", "+1", "1.copy", "0", "3", "1.part-2", "106"];
            let keys_of_others: Vec<String> = keys
                .iter()
                .map(|key| format!("{prefix}{key}"))
                .filter(|_| self.draw(3) == 0)
                .collect();
            let mut world = self.world.lock().expect("one thread");
            world.places.entry(place.clone()).or_default();
            if kind == 0 {
                self.of_another_run.insert(place.clone());
                let mark = Object::unnamed(OTHER, Mark::of(OTHER, "places", &place));
                world.places.get_mut(&place).expect("made").insert(MARK.to_owned(), mark);
            } else if kind == 1 {
                let mark = Object::unnamed(OTHER, text_for_a_mark(&place));
                world.places.get_mut(&place).expect("made").insert(MARK.to_owned(), mark);
                world.theirs.insert((place.clone(), MARK.to_owned()));
            }
            for key in keys_of_others {
                world.write_theirs(&place, &key);
            }
            if world.places[&place].is_empty() {
                world.write_theirs(&place, "theirs");
            }
        }
    }

    fn target(&self, trial: &Trial) -> Arc<Target> {
        self.world.lock().expect("one thread").steps = 0;
        let title = Arc::new(Title::of(trial, plain_key));
        let stop = Arc::new(AtomicBool::new(false));
        let (world, dataset) = (Arc::clone(&self.world), Dataset::new(trial));
        let (foreign, volume) = (ForeignPlaces::of_trial(trial), self.volume);
        Arc::new(Target { world, title, stop, foreign, dataset, volume })
    }

    fn ready(&mut self) -> Result<bool, Error> {
        self.begin().map(|(_, is_whole)| is_whole)
    }

    /// Prepares the buckets; returns those in the journal, and whether all were prepared.
    fn begin(&mut self) -> Result<(Vec<String>, bool), Error> {
        let trial = self.parsed();
        let target = self.target(&trial);
        let (mut intended, mut volumes, mut unmade) = (Vec::new(), Vec::new(), Vec::new());
        let world = Arc::clone(&self.world);
        let ready = ready_buckets(&target, &trial, &target.stop, &mut |output| {
            match output {
                Output::Volume(volume) => volumes.push(volume.to_owned()),
                Output::Unmade(names) => unmade.extend_from_slice(names),
                Output::Intent(names) => {
                    let world = world.lock().expect("one thread");
                    assert!(intended.is_empty(), "told once");
                    assert!(names.iter().all(|name| !world.places.contains_key(name)
                        || world.theirs.iter().any(|(place, _)| place == name)));
                    intended = names.to_vec();
                }
                _ => {}
            }
            true
        });
        self.journal.extend(intended.iter().cloned());
        self.journal.retain(|place| !unmade.contains(place));
        self.volumes.extend(volumes);
        let is_stopped = target.stop.load(Ordering::Relaxed);
        ready.map(|_| (intended, !is_stopped))
    }

    /// Puts the dataset, or a part of it, as a load does once all places are ready.
    fn load(&mut self) {
        let trial = self.parsed();
        let numbers: Vec<u64> = (0..trial.dataset.objects)
            .chain(WRITTEN[0]..WRITTEN[1])
            .filter(|_| self.draw(3) > 0)
            .collect();
        let mut world = self.world.lock().expect("one thread");
        for number in numbers {
            let place = trial.dataset.bucket(number % trial.dataset.buckets);
            let key = format!("{}{number}", trial.dataset.object_prefix);
            let run = world.keeps_metadata.then_some(RUN);
            let objects = world.places.get_mut(&place).expect("it was readied");
            let object = Object { writer: RUN, text: "payload".to_owned(), run };
            let before = objects.insert(key.clone(), object.clone());
            let is_named = !trial.ownership.runs.is_empty();
            assert!(
                is_named || before.is_none_or(|before| before.writer == RUN),
                "{place}/{key} is another's"
            );
            objects.insert(format!("{key}.copy"), object);
            world.theirs.remove(&(place.clone(), key.clone()));
            world.theirs.remove(&(place, format!("{key}.copy")));
        }
    }

    fn clean_up(&mut self) -> Result<Option<Buckets>, Error> {
        self.trial["phase"] = json!("clean-up");
        let trial = self.parsed();
        let target = self.target(&trial);
        let swept = sweep_buckets(&target, &trial, &target.stop, &mut |_| true)?;
        let is_stopped = target.stop.load(Ordering::Relaxed);
        Ok((!is_stopped).then_some(swept))
    }

    /// Cleans up with an older copy of the run's folder, whose journal lacks later entries. It may
    /// delete what that journal contains, and nothing of others.
    fn clean_up_by_copy(&mut self) {
        let journal_length = self.draw(1 + self.journal.len() as u64) as usize;
        let volumes = if self.draw(2) == 0 { Vec::new() } else { self.volumes.clone() };
        let (journal, phase) = (self.journal.clone(), self.trial["phase"].clone());
        let volumes = std::mem::replace(&mut self.volumes, volumes);
        self.journal.truncate(journal_length);
        // It must end, with any result.
        let _ = self.clean_up();
        self.expect_theirs();
        (self.journal, self.volumes) = (journal, volumes);
        self.trial["phase"] = phase;
    }

    /// Another volume takes the target's name, empty or with data of others, and the run is cleaned
    /// up there. Nothing of others changes, and what the run has on the first volume does not count
    /// as deleted.
    fn clean_up_elsewhere(&mut self) {
        let mut other = World::new();
        for place in self.names() {
            if self.draw(2) == 0 {
                other.write_theirs(&place, "notes");
                let prefix = self.trial["dataset"]["object_prefix"].as_str().expect("a text");
                other.write_theirs(&place, &format!("{prefix}0"));
            }
        }
        let mut first = std::mem::replace(&mut *self.world.lock().expect("one thread"), other);
        (self.volume, first.fault) = ("second", None);
        let phase = self.trial["phase"].clone();
        let swept = self.clean_up();
        self.expect_theirs();
        if let Ok(Some(swept)) = swept {
            let left: BTreeSet<&str> = swept.left.iter().map(|left| left.place.as_str()).collect();
            for (place, objects) in &first.places {
                let has_ours = objects.values().any(|object| object.writer == RUN);
                assert!(!has_ours || left.contains(place.as_str()), "{place} is away, not gone");
            }
        }
        (self.volume, self.trial["phase"]) = ("first", phase);
        std::mem::swap(&mut *self.world.lock().expect("one thread"), &mut first);
    }

    fn break_at(&self, fault: Option<(u64, Fault)>, listing: Listing) {
        let mut world = self.world.lock().expect("one thread");
        (world.fault, world.listing) = (fault, listing);
    }

    fn steps(&self) -> u64 {
        self.world.lock().expect("one thread").steps
    }

    /// Everything that others wrote is unchanged, except what the user gave away by naming the run
    /// that created the place.
    fn expect_theirs(&self) {
        let trial = self.parsed_as("clean-up");
        let title = Title::of(&trial, plain_key);
        let world = self.world.lock().expect("one thread");
        for (place, key) in &world.theirs {
            if title.is_ours(OTHER) && title.owns(place, key) {
                continue;
            }
            let object_there = world.places.get(place).and_then(|objects| objects.get(key));
            assert!(
                object_there.is_some_and(|object| object.writer == OTHER),
                "{place}/{key} is gone"
            );
        }
    }

    /// Everything of the run that still exists is in a place that the clean-up reports as left. A
    /// place of another run that a kill left empty and unmarked is in that run's journal, not in
    /// this one's.
    fn expect_nothing_forgotten(&self, swept: &Buckets) {
        let world = self.world.lock().expect("one thread");
        let left: BTreeSet<&str> = swept.left.iter().map(|left| left.place.as_str()).collect();
        for (place, objects) in &world.places {
            // Others leave no place empty.
            let is_bare = objects.is_empty() && !self.of_another_run.contains(place);
            let is_touched = is_bare || objects.values().any(|object| object.writer == RUN);
            assert!(!is_touched || left.contains(place.as_str()), "{place} is forgotten");
        }
        let is_foreign_allowed = self.parsed().allow_foreign;
        for left in &swept.left {
            // Either nothing of the run is there, or the reason is reported.
            assert!(!is_foreign_allowed || left.kind != LeftKind::Foreign, "{left:?}");
            let is_marked =
                world.places.get(&left.place).is_some_and(|place| place.contains_key(MARK));
            assert!(left.kind != LeftKind::Hidden || is_marked, "{left:?}");
        }
        assert!(!swept.foreign.iter().any(|place| left.contains(place.as_str())));
        for place in &swept.deleted {
            assert!(!swept.foreign.contains(place), "{place}");
            // Another user may have created a place with that name since.
            let objects = world.places.get(place).into_iter().flat_map(BTreeMap::values);
            assert_eq!(objects.filter(|object| object.writer == RUN).count(), 0, "{place}");
        }
    }
}

fn plain_key(key: &str) -> &str {
    key.strip_suffix(".copy").unwrap_or(key)
}

/// One history: others, a start with a fault, its resumption, load, a clean-up with a fault, and
/// one without.
fn live(
    mut history: History,
    start: Option<(u64, Fault)>,
    end: Option<(u64, Fault)>,
    listing: Listing,
) -> (u64, u64) {
    let is_hostile = listing != Listing::Honest;
    history.break_at(start, Listing::Honest);
    let started = history.ready();
    let start_steps = history.steps();
    history.expect_theirs();
    let is_up = if matches!(started, Ok(true)) {
        true
    } else {
        history.break_at(None, Listing::Honest);
        // A place that the target hides may still be hidden when the run is given up.
        if history.draw(2) == 0 {
            history.world.lock().expect("one thread").show_late();
        }
        let resumed = history.ready();
        history.expect_theirs();
        if !history.is_disturbed {
            assert!(matches!(resumed, Ok(true)), "an interrupted start goes on: {resumed:?}");
        }
        matches!(resumed, Ok(true))
    };
    if is_up {
        history.load();
        history.expect_theirs();
        let beyond = history.trial["dataset"]["objects"].as_u64().expect("a number") + 1;
        for place in history.names() {
            if history.draw(4) == 0 {
                let prefix = history.trial["dataset"]["object_prefix"].as_str().expect("a text");
                let key = format!("{prefix}{beyond}");
                history.is_disturbed = true;
                history.world.lock().expect("one thread").write_theirs(&place, &key);
            }
        }
        history.replace_claimed();
    }
    history.world.lock().expect("one thread").show_late();
    match history.draw(6) {
        0 => history.clean_up_elsewhere(),
        1 => history.clean_up_by_copy(),
        _ => {}
    }
    history.break_at(end, listing);
    let first = history.clean_up();
    let end_steps = history.steps();
    history.expect_theirs();
    if let Ok(Some(swept)) = &first {
        history.expect_nothing_forgotten(swept);
    }
    history.break_at(None, listing);
    if let Ok(Some(swept)) = history.clean_up() {
        history.expect_nothing_forgotten(&swept);
    }
    history.expect_theirs();
    if is_hostile {
        history.break_at(None, Listing::Honest);
    }
    let swept = history.clean_up().expect("nothing fails").expect("never stopped");
    history.expect_theirs();
    history.expect_nothing_forgotten(&swept);
    if !history.is_disturbed {
        let world = history.world.lock().expect("one thread");
        assert!(world.places.is_empty(), "all is gone: {:?}", world.places);
    }
    (start_steps, end_steps)
}

fn live_by(seed: u64) {
    let mut history = History::new(seed);
    history.populate();
    if history.draw(3) == 0 {
        let (step, place) = (1 + history.draw(20), history.names().remove(0));
        let prefix = history.trial["dataset"]["object_prefix"].as_str().expect("a text");
        let key = format!("{prefix}0");
        history.world.lock().expect("one thread").intruder = Some((step, place, key));
        history.is_disturbed = true;
    }
    let fault = |history: &mut History| {
        let kind = FAULTS[history.draw(FAULTS.len() as u64) as usize];
        (history.draw(4) > 0).then(|| (1 + history.draw(STEPS_DRAWN), kind))
    };
    let (start, end) = (fault(&mut history), fault(&mut history));
    // Half of the histories have honest listings.
    let listing = LISTINGS[history.draw(11).saturating_sub(5) as usize];
    live(history, start, end, listing);
}

/// Runs histories one after another, and names the seed of one that fails.
fn live_all(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let ended = std::panic::catch_unwind(|| live_by(seed));
        assert!(ended.is_ok(), "history {seed} went wrong");
    }
}

#[test]
fn every_step_of_start_and_clean_up_may_fail_stop_or_be_killed() {
    for is_foreign in [false, true] {
        let history = || {
            let mut history = History::new(3);
            history.trial["dataset"]["buckets"] = json!(2);
            history.trial["dataset"]["objects"] = json!(4);
            history.trial["allow_foreign"] = json!(is_foreign);
            if is_foreign {
                history.world.lock().expect("one thread").write_theirs("b-1", "notes");
                history.is_disturbed = true;
            }
            history
        };
        let (start_steps, end_steps) = live(history(), None, None, Listing::Honest);
        assert!(start_steps > 8 && end_steps > 8, "{start_steps} and {end_steps} steps");
        for fault in FAULTS {
            for step in 1..=start_steps {
                live(history(), Some((step, fault)), None, Listing::Honest);
            }
            for step in 1..=end_steps {
                live(history(), None, Some((step, fault)), Listing::Honest);
            }
        }
    }
}

#[test]
fn a_place_that_stays_is_marked_or_reported_as_unmarked() {
    // The maximum number of steps of ten tries at two places.
    for step in 1..=130 {
        for fault in [Fault::Refused, Fault::Lost] {
            let mut history = History::new(3);
            history.trial["dataset"]["buckets"] = json!(2);
            history.trial["allow_foreign"] = json!(false);
            assert!(history.ready().expect("nothing fails"));
            history.world.lock().expect("one thread").hides = true;
            history.break_at(Some((step, fault)), Listing::Honest);
            if let Ok(Some(swept)) = history.clean_up() {
                history.expect_nothing_forgotten(&swept);
            }
        }
    }
}

#[test]
fn a_foreign_place_without_objects_of_ours_is_not_reported_as_left() {
    let mut history = History::new(3);
    history.trial["dataset"]["buckets"] = json!(2);
    history.trial["allow_foreign"] = json!(true);
    history.world.lock().expect("one thread").write_theirs("b-1", "notes");
    assert!(history.ready().expect("nothing fails"));
    history.load();
    for deleted in [1, 0] {
        let swept = history.clean_up().expect("nothing fails").expect("never stopped");
        assert_eq!((swept.left, swept.foreign), (Vec::new(), vec!["b-1".to_owned()]));
        assert_eq!((swept.deleted.len(), swept.absent.len()), (deleted, 1 - deleted));
    }
    history.expect_theirs();
}

#[test]
fn absent_buckets_of_a_load_are_reported_even_if_others_are_foreign() {
    let mut history = History::new(3);
    history.trial["dataset"]["buckets"] = json!(60);
    history.trial["allow_foreign"] = json!(false);
    history.trial["ownership"]["runs"] = json!([]);
    history.trial["mix"] = json!([{"operation": "create_bucket"}]);
    let foreign = ["b-0", "b-7", "b-59"];
    for place in foreign {
        history.world.lock().expect("one thread").write_theirs(place, "notes");
    }
    let (reported, is_whole) = history.begin().expect("that is an outcome of the load");
    let names = history.names().into_iter();
    let absent: Vec<String> = names.filter(|name| !foreign.contains(&name.as_str())).collect();
    assert_eq!((reported, is_whole), (absent, true));
}

#[test]
fn a_stop_takes_effect_while_another_host_marks_the_place() {
    for says_new in [false, true] {
        let mut history = History::new(3);
        history.trial["dataset"]["buckets"] = json!(1);
        history.trial["allow_foreign"] = json!(false);
        let place = history.names().remove(0);
        // Two jobs inspect, one creates, and where the place counts as created, one lists a page;
        // then the job waits.
        let first = if says_new { 5 } else { 4 };
        {
            let mut world = history.world.lock().expect("one thread");
            world.intruder = Some((3, place, "theirs".to_owned()));
            world.says_new = says_new;
        }
        history.break_at(Some((first, Fault::Stopped)), Listing::Honest);
        assert!(matches!(history.ready(), Ok(false)));
        assert_eq!(history.steps(), first);
    }
}

#[test]
fn a_few_hundred_histories_keep_others_data_and_report_all_of_ours() {
    live_all((0..400).chain([8834])); // The last: a bare place behind a listing without end.
}

#[test]
#[ignore = "long: make test-long"]
fn many_histories_keep_others_data_and_report_all_of_ours() {
    let seeds = std::env::var("LOADSTONE_SEEDS").ok().and_then(|text| text.parse().ok());
    live_all(1_000..1_000 + seeds.unwrap_or(100_000));
}
