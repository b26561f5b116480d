//! Driver `toy`, for tests only: objects in a map in memory. It is complete and shows what a driver
//! requires: this file, and its row in the table of drivers.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::clock::Clock;
use crate::dataset::Dataset;
use crate::driver::{Client, Driver};
use crate::drivers::{DRIVERS, DriverInfo};
use crate::error::Error;
use crate::facts::{Address, AddressKind, Facts, Form};
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::{
    self, BucketState, Look, Made, Page, Places, Removed, Scope, Standing, Swept, Title,
};
use crate::payload::{PayloadSpec, Verifier, fill};
use crate::reactor::{Reactor, Sleep};
use crate::requests::{Request, Subject};
use crate::run::{Control, Output, Summary, run_trial};
use crate::settings::{self, Setting, SettingKind, setting};
use crate::trial::Trial;

const MARK: &str = ".loadstone-mark";

/// Objects by bucket and key.
type Map = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// The maps of this process by name, which take the place of a server.
static MAPS: Mutex<BTreeMap<String, Arc<Mutex<Map>>>> = Mutex::new(BTreeMap::new());

fn map_named(name: &str) -> Arc<Mutex<Map>> {
    let mut maps = MAPS.lock().expect("no test panics here");
    Arc::clone(maps.entry(name.to_owned()).or_default())
}

/// A map.
pub(super) struct Toy {
    map: Arc<Mutex<Map>>,
    dataset: Dataset,
    payload: PayloadSpec,
    title: Arc<Title>,
    page_keys: usize,
}

/// A client of [`Toy`].
pub(super) struct ToyClient {
    toy: Arc<Toy>,
    reactor: Rc<Reactor>,
}

impl Driver for Toy {
    const NAME: &'static str = "toy";
    const SUMMARY: &'static str = "objects in a map in memory";
    const OPERATIONS: &'static [Operation] =
        &[Operation::Put, Operation::Get, Operation::Head, Operation::List, Operation::Delete];
    const SETTINGS: &'static [Setting] =
        &[Setting { required: true, ..setting("name", SettingKind::Text, "the map's name") }];
    const FACTS: Facts = Facts {
        encrypts_paths: true,
        place: "drawer",
        address: Address { kind: AddressKind::Name, settings: &["name"] },
        words: &["toy:NAME"],
        forms: &[Form::Named("name")],
        ..Facts::PLAIN
    };
    type Thread = Rc<Reactor>;
    type Client = ToyClient;

    fn check(trial: &Trial) -> Vec<String> {
        settings::mistakes(Self::SETTINGS, &trial.target.settings)
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        Ok(Self {
            map: map_named(settings::text(&trial.target.settings, "name").unwrap_or_default()),
            dataset: Dataset::new(trial),
            payload: PayloadSpec::of_trial(trial),
            title: Arc::new(Title::of(trial, |key| key)),
            page_keys: trial.options.page_keys as usize,
        })
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<Reactor>, Error> {
        Ok(Reactor::new(Box::new(Sleep), Clock::real()))
    }

    fn client(self: &Arc<Self>, reactor: &Rc<Reactor>, _: u32) -> Result<ToyClient, Error> {
        Ok(ToyClient { toy: Arc::clone(self), reactor: Rc::clone(reactor) })
    }
}

impl Client for ToyClient {
    async fn execute(&mut self, request: &Request) -> Completion {
        let sent_ns = self.reactor.now_ns();
        self.reactor.turn().await;
        let mut completion = Completion::plain(Outcome::OK, sent_ns, 0, 0);
        self.carry_out(request, &mut completion);
        completion.ended_ns = self.reactor.now_ns();
        completion
    }

    async fn look_at_bucket(&mut self, bucket: &str) -> Result<Standing, Error> {
        ownership::look(self, bucket).await
    }

    async fn ready_bucket(&mut self, bucket: &str, _: bool) -> Result<BucketState, Error> {
        ownership::ready(self, bucket).await
    }

    async fn sweep_bucket(&mut self, bucket: &str) -> Result<Swept, Error> {
        ownership::sweep(self, bucket).await
    }
}

impl ToyClient {
    fn map(&self) -> MutexGuard<'_, Map> {
        self.toy.map.lock().expect("nothing panics while it holds the lock")
    }

    fn carry_out(&self, request: &Request, completion: &mut Completion) {
        let (toy, mut map) = (&self.toy, self.map());
        if let Subject::Listing(listing) = &request.subject {
            let place = toy.dataset.bucket(toy.dataset.bucket_of(listing.prefix.into()));
            let prefix = toy.dataset.listed_prefix(listing);
            let mut check = toy.dataset.check_listing(listing);
            let keys = map.get(&place).into_iter().flat_map(BTreeMap::keys);
            let keys = keys.filter(|key| key.starts_with(&prefix));
            keys.for_each(|key| check.add(toy.dataset.listed_key(key).as_deref()));
            completion.objects = check.entries();
            return completion.outcome = Outcome::of_set(check.verdict());
        }
        if request.operation == Operation::List {
            let objects = map.get(&toy.dataset.bucket(request.bucket()));
            let keys = objects.map_or(0, BTreeMap::len).min(toy.page_keys);
            completion.objects = u32::try_from(keys).expect("a page");
            return;
        }
        let (index, object) = (request.object().index, toy.dataset.id(request.object()));
        let mut key = Vec::new();
        toy.dataset.write_key(index, &mut key);
        let key = String::from_utf8(key).expect("keys are text");
        let objects = map.get_mut(&toy.dataset.bucket(toy.dataset.bucket_of(index)));
        let Some(objects) = objects else { return completion.outcome = Outcome::NOT_FOUND };
        if request.operation == Operation::Put {
            let mut bytes = vec![0; usize::try_from(object.length).expect("small")];
            fill(&toy.payload, &object, 0, &mut bytes);
            objects.insert(key, bytes);
            completion.bytes = object.length;
            return;
        }
        let Some(bytes) = objects.get(&key) else { return completion.outcome = Outcome::NOT_FOUND };
        if request.operation == Operation::Get {
            completion.bytes = bytes.len() as u64;
            if request.is_verified {
                let mut verifier = Verifier::new(&toy.payload, &object, 0);
                verifier.update(bytes);
                completion.outcome = Outcome::of_verdict(verifier.finish());
                completion.verified_bytes = verifier.checked_bytes();
            }
        } else if request.operation == Operation::Delete {
            objects.remove(&key);
        }
    }
}

impl Places for ToyClient {
    const PLACE: &'static str = Toy::FACTS.place;

    fn title(&self) -> Arc<Title> {
        Arc::clone(&self.toy.title)
    }

    fn reactor(&self) -> Rc<Reactor> {
        Rc::clone(&self.reactor)
    }

    async fn look(&mut self, place: &str) -> Result<Look, Error> {
        let Some(text) = self.map().get(place).map(|objects| objects.get(MARK).cloned()) else {
            return Ok(Look::Absent);
        };
        Ok(Look::There(text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())))
    }

    async fn create(&mut self, place: &str) -> Result<Made, Error> {
        let is_new = self.map().insert(place.to_owned(), BTreeMap::new()).is_none();
        Ok(if is_new { Made::New } else { Made::Exists })
    }

    async fn write_mark(&mut self, place: &str, text: &str) -> Result<bool, Error> {
        self.write(place, MARK, text).await.map(|()| true)
    }

    async fn delete_mark(&mut self, place: &str) -> Result<(), Error> {
        self.delete(place, &[MARK.to_owned()]).await.map(drop)
    }

    async fn remove(&mut self, place: &str) -> Result<Removed, Error> {
        let mut map = self.map();
        if map.get(place).is_some_and(|objects| !objects.is_empty()) {
            return Ok(Removed::NotEmpty);
        }
        map.remove(place);
        Ok(Removed::Gone)
    }

    async fn page(&mut self, place: &str, _: Scope, _: Option<&str>) -> Result<Page, Error> {
        let keys = self.map().get(place).map(|objects| objects.keys().cloned().collect());
        Ok(self.toy.title.sort(place, keys.unwrap_or_default(), |key| key == MARK, None))
    }

    async fn delete(&mut self, place: &str, keys: &[String]) -> Result<u64, Error> {
        let mut map = self.map();
        let objects = map.entry(place.to_owned()).or_default();
        Ok(keys.iter().filter(|key| objects.remove(*key).is_some()).count() as u64)
    }

    async fn read(&mut self, place: &str, key: &str) -> Result<Option<String>, Error> {
        let bytes = self.map().get(place).and_then(|objects| objects.get(key).cloned());
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    async fn write(&mut self, place: &str, key: &str, text: &str) -> Result<(), Error> {
        let mut map = self.map();
        map.entry(place.to_owned()).or_default().insert(key.to_owned(), text.as_bytes().to_vec());
        Ok(())
    }
}

/// Runs a trial with this number of requests, over three buckets, by eight clients on two threads.
fn run(phase: &str, operation: &str, requests: u64, changes: &Value) -> Summary {
    let mut document = json!({
        "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
        "phase": phase,
        "target": {"name": "t", "driver": "toy", "settings": {"name": "run_through"}},
        "dataset": {"bucket_prefix": "b-", "buckets": 3, "objects": 200, "object_prefix": "o-",
                    "size": {"kind": "fixed", "bytes": 10_000}},
        "mix": [{"operation": operation}], "load": {"kind": "closed", "clients": 8},
        "stop": {"requests": requests}, "cores": 2, "verify": 1.0,
    });
    for (key, value) in changes.as_object().expect("changes are an object") {
        document[key] = value.clone();
    }
    let trial = Trial::parse(&document.to_string()).expect("the test's document is sound");
    let ended = run_trial(&trial, &Control::default(), &mut |output| match output {
        Output::Intent(places) => places.len() == 3,
        _ => true,
    });
    ended.expect("the map refuses nothing of ours")
}

#[test]
fn the_load_generator_runs_it_and_counts() {
    let map = map_named("run_through");
    let put = run("put", "put", 200, &json!({}));
    assert_eq!((put.requests, put.failed, put.bytes), (200, 0, 2_000_000));
    assert_eq!((put.buckets_created.len(), map.lock().expect("sound").len()), (3, 3));
    let get = run("get", "get", 500, &json!({}));
    assert_eq!((get.requests, get.failed, get.verified_bytes), (500, 0, 5_000_000));
    let mix =
        json!([{"operation": "put", "weight": 2}, {"operation": "delete"}, {"operation": "list"}]);
    let mixed = run("mix", "put", 300, &json!({"mix": mix, "ticket_base": 200}));
    assert_eq!((mixed.requests, mixed.failed), (300, 0));

    // Two objects are damaged behind its back; each is counted with the right outcome.
    {
        let mut map = map.lock().expect("sound");
        let objects = map.get_mut("b-0").expect("the first bucket");
        objects.get_mut("o-0").expect("the first object")[5000] ^= 1;
        objects.remove("o-3").expect("the second object there");
    }
    let spoilt = run("get", "get", 200, &json!({"on_error": {"action": "continue"}}));
    assert_eq!((spoilt.requests, spoilt.failed), (200, 2));
    let mismatches: u64 = spoilt.mismatches.values().sum();
    assert_eq!(mismatches, 1);

    let written = json!({"written": [[0, 1_u64 << 40]]});
    let swept = run("clean-up", "delete", 0, &json!({"ownership": written}));
    assert_eq!((swept.buckets_deleted.len(), swept.places_left.len()), (3, 0));
    assert!(map.lock().expect("sound").is_empty(), "all that was ours is gone");
}

#[test]
fn another_users_bucket_is_refused() {
    let map = map_named("theirs");
    let theirs = BTreeMap::from([("precious".to_owned(), b"1".to_vec())]);
    map.lock().expect("sound").insert("b-1".to_owned(), theirs.clone());
    let document = json!({
        "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
        "phase": "put", "target": {"name": "t", "driver": "toy", "settings": {"name": "theirs"}},
        "dataset": {"bucket_prefix": "b-", "buckets": 3, "objects": 9, "object_prefix": "o-",
                    "size": {"kind": "fixed", "bytes": 1}},
        "mix": [{"operation": "put"}], "load": {"kind": "closed", "clients": 1},
        "stop": {"requests": 9},
    });
    let trial = Trial::parse(&document.to_string()).expect("the test's document is sound");
    let refused = run_trial(&trial, &Control::default(), &mut |_| true).map(|ended| ended.requests);
    let error = refused.expect_err("it is another's").to_string();
    assert!(error.contains("drawer \"b-1\""), "{error}");
    assert_eq!(*map.lock().expect("sound"), BTreeMap::from([("b-1".to_owned(), theirs)]));
}

#[test]
fn everything_outside_its_file_comes_from_its_row() {
    let info = DriverInfo::named("toy").expect("it has a row");
    assert!(info.is_for_tests && info.facts.place == "drawer");
    let word = DriverInfo::read_word("toy:abc").expect("it reads its words");
    assert_eq!((word.driver, word.setting), ("toy", Some(("name", "abc".to_owned()))));
    let mistakes = |settings: Value| {
        let document = json!({
            "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
            "phase": "p", "target": {"name": "t", "driver": "toy", "settings": settings},
            "dataset": {"bucket_prefix": "b-", "buckets": 1, "objects": 1, "object_prefix": "o-",
                        "size": {"kind": "fixed", "bytes": 1}},
            "mix": [{"operation": "append"}], "load": {"kind": "closed", "clients": 1},
            "stop": {"requests": 1},
        });
        match Trial::parse(&document.to_string()) {
            Err(Error::Trial(mistakes)) => mistakes.len(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(mistakes(json!({"name": "x"})), 1, "it cannot append");
    assert_eq!(mistakes(json!({"nmae": "x"})), 3, "and a setting is missing, one unknown");
    // This file, the row, and the line that declares the module are the whole driver.
    let named = |line: &&str| line.contains("toy::") || line.contains("mod toy;");
    assert_eq!(include_str!("mod.rs").lines().filter(named).count(), 2);
    assert_eq!(DRIVERS.iter().filter(|driver| driver.name == "toy").count(), 1);
}
