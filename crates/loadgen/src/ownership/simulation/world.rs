//! The simulated target: places with objects of several writers, where any step may fail.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::super::beside::{ForeignPlaces, OwnerTag, keys_of_ours, try_claim};
use super::super::{
    Look, Made, Mark, Page, Places, Removed, Scope, Standing, Swept, Title, is_absent, look, ready,
    sweep,
};
use crate::clock::Clock;
use crate::dataset::Dataset;
use crate::driver::{Client, Driver};
use crate::error::Error;
use crate::operation::Operation;
use crate::outcome::Completion;
use crate::ownership::BucketState;
use crate::reactor::{Reactor, Sleep};
use crate::requests::Request;
use crate::settings::Setting;
use crate::trial::Trial;

pub(super) const RUN: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
pub(super) const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
pub(super) const MARK: &str = ".mark";
/// A job that needs more steps is taken not to end.
const STEPS_MAX: u64 = 20_000;

/// Text that others put where the mark of a place lies: a mark of an older loadstone, or a copy of
/// the mark that this run gave to another place.
pub(super) fn text_for_a_mark(place: &str) -> String {
    match place.ends_with('1') {
        true => Mark::of(RUN, "places", "b-made"),
        false => format!("made by loadstone, run {RUN}\n"),
    }
}

/// A fault of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The target refuses.
    Refused,
    /// The target reports a failure; a place that was to be created appears later.
    Late,
    /// The target executes it, and the answer is lost.
    Lost,
    /// The user stops the run.
    Stopped,
    /// The process dies, before the step or after it.
    KilledBefore,
    KilledAfter,
}

pub(super) const FAULTS: [Fault; 6] = [
    Fault::Refused,
    Fault::Late,
    Fault::Lost,
    Fault::Stopped,
    Fault::KilledBefore,
    Fault::KilledAfter,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    Honest,
    RepeatsToken,
    RepeatsKeys,
    Empty,
    Endless,
    Undeletable,
}

pub(super) const LISTINGS: [Listing; 6] = [
    Listing::Honest,
    Listing::RepeatsToken,
    Listing::RepeatsKeys,
    Listing::Empty,
    Listing::Endless,
    Listing::Undeletable,
];

/// An object and its writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) writer: &'static str,
    pub(super) text: String,
    /// The run that its metadata names.
    pub(super) run: Option<&'static str>,
}

impl Object {
    /// An object whose metadata names no run.
    pub(super) fn unnamed(writer: &'static str, text: String) -> Self {
        Self { writer, text, run: None }
    }
}

pub(super) type Objects = BTreeMap<String, Object>;

#[derive(Debug)]
pub(super) struct World {
    pub(super) places: BTreeMap<String, Objects>,
    pub(super) steps: u64,
    pub(super) fault: Option<(u64, Fault)>,
    /// A place whose creation failed, and that appears later.
    pub(super) late: Option<String>,
    /// Another user creates this place, with a key in it, at this step.
    pub(super) intruder: Option<(u64, String, String)>,
    pub(super) listing: Listing,
    /// Whether creating an existing place gets the same answer as creating a new one.
    pub(super) says_new: bool,
    pub(super) keys_at_once: usize,
    /// Whether places with empty listings are reported as not empty.
    pub(super) hides: bool,
    /// Another user puts this key into this place, at this step.
    pub(super) neighbour: Option<(u64, String, String)>,
    /// Whether the store keeps metadata of objects.
    pub(super) keeps_metadata: bool,
    /// Whether the store honours the condition that an object does not exist.
    pub(super) heeds_conditions: bool,
    /// Objects that others have written and must not lose.
    pub(super) theirs: BTreeSet<(String, String)>,
}

impl World {
    /// Creates an empty world, of a store with all features.
    pub(super) fn new() -> Self {
        Self {
            places: BTreeMap::new(),
            steps: 0,
            fault: None,
            late: None,
            intruder: None,
            neighbour: None,
            keeps_metadata: true,
            heeds_conditions: true,
            listing: Listing::Honest,
            says_new: false,
            keys_at_once: 3,
            hides: false,
            theirs: BTreeSet::new(),
        }
    }

    /// Makes a hidden place visible.
    pub(super) fn show_late(&mut self) {
        if let Some(place) = self.late.take() {
            self.places.entry(place).or_default();
        }
    }

    /// Others put a key, replacing any object there.
    pub(super) fn write_theirs_over(&mut self, place: &str, key: &str) {
        self.places.get_mut(place).map(|objects| objects.remove(key));
        self.write_theirs(place, key);
    }

    pub(super) fn write_theirs(&mut self, place: &str, key: &str) {
        let object = Object::unnamed(OTHER, format!("precious {key}"));
        let objects = self.places.entry(place.to_owned()).or_default();
        if !objects.contains_key(key) {
            objects.insert(key.to_owned(), object);
            self.theirs.insert((place.to_owned(), key.to_owned()));
        }
    }
}

#[derive(Debug)]
pub(super) struct Target {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) title: Arc<Title>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) foreign: Option<Arc<ForeignPlaces>>,
    pub(super) dataset: Dataset,
    pub(super) volume: &'static str,
}

pub(super) struct TargetClient {
    pub(super) target: Arc<Target>,
    reactor: Rc<Reactor>,
    pub(super) tag: OwnerTag,
}

impl Driver for Target {
    const NAME: &'static str = "places";
    const SUMMARY: &'static str = "";
    const OPERATIONS: &'static [Operation] = &[];
    const SETTINGS: &'static [Setting] = &[];
    type Thread = Rc<Reactor>;
    type Client = TargetClient;

    fn check(_: &Trial) -> Vec<String> {
        Vec::new()
    }

    fn open(_: &Trial) -> Result<Self, Error> {
        unreachable!("the simulation makes its own")
    }

    fn volume(&self) -> Option<&str> {
        Some(self.volume)
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<Reactor>, Error> {
        Ok(Reactor::new(Box::new(Sleep), Clock::virtual_at(1)))
    }

    fn client(self: &Arc<Self>, reactor: &Rc<Reactor>, _: u32) -> Result<TargetClient, Error> {
        let (target, reactor) = (Arc::clone(self), Rc::clone(reactor));
        Ok(TargetClient { target, reactor, tag: OwnerTag::default() })
    }
}

impl Client for TargetClient {
    async fn execute(&mut self, _: &Request) -> Completion {
        unreachable!("the simulation loads by itself")
    }

    async fn look_at_bucket(&mut self, bucket: &str) -> Result<Standing, Error> {
        look(self, bucket).await
    }

    async fn is_bucket_absent(&mut self, bucket: &str) -> Result<bool, Error> {
        is_absent(self, bucket).await
    }

    async fn ready_bucket(&mut self, bucket: &str, _: bool) -> Result<BucketState, Error> {
        ready(self, bucket).await
    }

    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error> {
        sweep(self, bucket).await
    }
}

impl TargetClient {
    /// Executes one step of a job on the world, or its fault.
    pub(super) async fn step<T>(&self, effect: impl FnOnce(&mut World) -> T) -> Result<T, Error> {
        self.reactor.sleep_until(self.reactor.now_ns() + 1_000_000).await;
        let fault = {
            let mut world = self.target.world.lock().expect("one thread");
            world.steps += 1;
            assert!(world.steps < STEPS_MAX, "the job does not end");
            let steps = world.steps;
            if let Some((_, place, key)) = world.intruder.take_if(|(step, ..)| *step == steps)
                && !world.places.contains_key(&place)
            {
                world.write_theirs(&place, &key);
            }
            if let Some((_, place, key)) = world.neighbour.take_if(|(step, ..)| *step == steps) {
                world.write_theirs(&place, &key);
            }
            world.fault.filter(|(at, _)| *at == steps).map(|(_, fault)| fault)
        };
        let lost = || Error::target("do a step", "the answer is lost");
        match fault {
            Some(Fault::Refused | Fault::Late) => {
                return Err(Error::target("do a step", "refused"));
            }
            Some(Fault::Stopped) => self.target.stop.store(true, Ordering::Relaxed),
            Some(Fault::KilledBefore) => self.die().await,
            _ => {}
        }
        let done = effect(&mut self.target.world.lock().expect("one thread"));
        if fault == Some(Fault::KilledAfter) {
            self.die().await;
        }
        self.reactor.turn().await;
        if fault == Some(Fault::Lost) { Err(lost()) } else { Ok(done) }
    }

    async fn die(&self) {
        self.reactor.forget_pairs();
        self.target.stop.store(true, Ordering::Relaxed);
        std::future::pending::<()>().await;
    }
}

impl Places for TargetClient {
    const PLACE: &'static str = "place";

    fn title(&self) -> Arc<Title> {
        Arc::clone(&self.target.title)
    }

    fn reactor(&self) -> Rc<Reactor> {
        Rc::clone(&self.reactor)
    }

    async fn look(&mut self, place: &str) -> Result<Look, Error> {
        let mark = |objects: &Objects| objects.get(MARK).map(|object| object.text.clone());
        self.step(|world| {
            world.places.get(place).map_or(Look::Absent, |objects| Look::There(mark(objects)))
        })
        .await
    }

    async fn create(&mut self, place: &str) -> Result<Made, Error> {
        let made = self.step(|world| {
            if world.places.contains_key(place) && !world.says_new {
                return Made::Exists;
            }
            world.places.entry(place.to_owned()).or_default();
            Made::New
        });
        let made = made.await;
        let mut world = self.target.world.lock().expect("one thread");
        let fault = world.fault.filter(|(step, _)| made.is_err() && *step == world.steps);
        let fault = fault.map(|(_, fault)| fault);
        if fault == Some(Fault::Late) {
            world.late = Some(place.to_owned());
        }
        made.map_err(|error| error.refused_if(fault == Some(Fault::Refused)))
    }

    async fn write_mark(&mut self, place: &str, text: &str) -> Result<bool, Error> {
        self.step(|world| {
            let Some(objects) = world.places.get_mut(place) else { return false };
            let mark = Object::unnamed(RUN, text.to_owned());
            objects.entry(MARK.to_owned()).or_insert(mark);
            true
        })
        .await
    }

    async fn delete_mark(&mut self, place: &str) -> Result<(), Error> {
        self.step(|world| {
            world.places.get_mut(place).map(|objects| objects.remove(MARK));
        })
        .await
    }

    async fn remove(&mut self, place: &str) -> Result<Removed, Error> {
        self.step(|world| {
            if world.hides || world.places.get(place).is_some_and(|objects| !objects.is_empty()) {
                return Removed::NotEmpty;
            }
            world.places.remove(place);
            Removed::Gone
        })
        .await
    }

    async fn page(
        &mut self,
        place: &str,
        scope: Scope,
        token: Option<&str>,
    ) -> Result<Page, Error> {
        let title = self.title();
        let prefix = if scope == Scope::Dataset { title.prefix() } else { "" };
        self.step(|world| {
            let round = world.steps;
            let after = match world.listing {
                Listing::RepeatsToken | Listing::RepeatsKeys => None,
                _ => token,
            };
            let all_keys = world.places.get(place).into_iter().flat_map(Objects::keys);
            let mut keys: Vec<String> = all_keys
                .filter(|key| key.starts_with(prefix))
                .filter(|key| after.is_none_or(|after| key.as_str() > after))
                .take(world.keys_at_once + 1)
                .cloned()
                .collect();
            let mut next = None;
            if keys.len() > world.keys_at_once {
                keys.pop();
                next = keys.last().cloned();
            }
            match world.listing {
                Listing::RepeatsToken => next = Some("again".to_owned()),
                Listing::RepeatsKeys => next = Some(format!("token-{round}")),
                Listing::Empty => {
                    keys.clear();
                    next = Some(format!("token-{round}"));
                }
                Listing::Endless => {
                    keys.push(format!("{prefix}x{round}"));
                    next = Some(format!("~{round:020}"));
                }
                Listing::Honest | Listing::Undeletable => {}
            }
            title.sort(place, keys, |key| key == MARK, next)
        })
        .await
    }

    async fn delete(&mut self, place: &str, keys: &[String]) -> Result<u64, Error> {
        self.step(|world| {
            if world.listing == Listing::Undeletable {
                return 0;
            }
            if let Some(objects) = world.places.get_mut(place) {
                objects.retain(|key, _| !keys.contains(key));
            }
            keys.len() as u64
        })
        .await
    }

    async fn read(&mut self, place: &str, key: &str) -> Result<Option<String>, Error> {
        self.step(|world| world.places.get(place)?.get(key).map(|object| object.text.clone())).await
    }

    async fn write(&mut self, place: &str, key: &str, text: &str) -> Result<(), Error> {
        self.step(|world| {
            let run = world.keeps_metadata.then_some(RUN);
            if let Some(objects) = world.places.get_mut(place) {
                let object = Object { writer: RUN, text: text.to_owned(), run };
                objects.entry(key.to_owned()).or_insert(object);
            }
        })
        .await
    }

    async fn write_beside(&mut self, place: &str, key: &str, text: &str) -> Result<(), Error> {
        try_claim(self, place, key, text).await
    }

    async fn ours_of(&mut self, place: &str, keys: &[String]) -> Result<Vec<String>, Error> {
        keys_of_ours(self, place, keys).await
    }
}
