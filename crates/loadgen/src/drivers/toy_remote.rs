//! Driver `toy_remote`, for tests only: a tokio runtime answers its requests. It shows how a driver
//! over a foreign runtime works: any number of requests in flight, without a thread for each.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::Barrier;

use crate::driver::{Client, Driver, Thread};
use crate::error::Error;
use crate::facts::Facts;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::{BucketState, Swept};
use crate::reactor::Reactor;
use crate::requests::Request;
use crate::run::{Control, Summary, run_trial};
use crate::settings::Setting;
use crate::transport::inbox::{Inbox, Seat};
use crate::trial::Trial;

/// Names of the threads that answered, over all trials of this process.
static THREADS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A runtime with one thread, for all load threads.
pub(super) struct ToyRemote {
    runtime: tokio::runtime::Runtime,
    clients: usize,
    object_bytes: u64,
    /// A `get` is answered once every client has one in flight.
    all_in_flight: Arc<Barrier>,
}

pub(super) struct ToyRemoteThread {
    reactor: Rc<Reactor>,
    inbox: Arc<Inbox>,
}

impl Thread for ToyRemoteThread {
    fn reactor(&self) -> &Rc<Reactor> {
        &self.reactor
    }
}

pub(super) struct ToyRemoteClient {
    remote: Arc<ToyRemote>,
    reactor: Rc<Reactor>,
    seat: Seat,
    last_error: Option<String>,
}

impl Driver for ToyRemote {
    const NAME: &'static str = "toy_remote";
    const SUMMARY: &'static str = "requests that another runtime answers";
    const OPERATIONS: &'static [Operation] = &[Operation::Get, Operation::Head, Operation::Put];
    const SETTINGS: &'static [Setting] = &[];
    const FACTS: Facts = Facts { keeps: false, ..Facts::PLAIN };
    type Thread = ToyRemoteThread;
    type Client = ToyRemoteClient;

    fn check(_: &Trial) -> Vec<String> {
        Vec::new()
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("remote")
            .build()
            .map_err(|source| Error::Host { what: "start a runtime", source })?;
        let clients = trial.load.clients() as usize;
        let all_in_flight = Arc::new(Barrier::new(clients));
        Ok(Self { runtime, clients, object_bytes: trial.dataset.size.max(), all_in_flight })
    }

    fn thread(self: &Arc<Self>) -> Result<ToyRemoteThread, Error> {
        let inbox = Inbox::new(self.clients);
        Ok(ToyRemoteThread { reactor: inbox.reactor(), inbox })
    }

    fn client(
        self: &Arc<Self>,
        thread: &ToyRemoteThread,
        _: u32,
    ) -> Result<ToyRemoteClient, Error> {
        Ok(ToyRemoteClient {
            remote: Arc::clone(self),
            reactor: Rc::clone(&thread.reactor),
            seat: thread.inbox.take_seat(),
            last_error: None,
        })
    }
}

/// Simulates a store: a `put` panics, a `head` never ends.
async fn answer(operation: Operation, bytes: u64, all_in_flight: Arc<Barrier>) -> u64 {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    THREADS.lock().expect("nothing panics while it holds the lock").insert(name);
    match operation {
        Operation::Put => panic!("a put breaks the task that answers it"),
        Operation::Head => std::future::pending().await,
        _ => all_in_flight.wait().await,
    };
    bytes
}

impl Client for ToyRemoteClient {
    async fn execute(&mut self, request: &Request) -> Completion {
        let sent_ns = self.reactor.now_ns();
        let remote = &self.remote;
        let all_in_flight = Arc::clone(&remote.all_in_flight);
        let answer = answer(request.operation, remote.object_bytes, all_in_flight);
        let asked = self.seat.ask(&self.reactor, |promise| {
            remote.runtime.spawn(async move { promise.keep(answer.await) });
            Ok(())
        });
        match asked.await {
            Ok((bytes, ended_ns)) => {
                Completion { bytes, ..Completion::plain(Outcome::OK, sent_ns, 0, ended_ns) }
            }
            Err(error) => {
                let outcome = match error.kind() {
                    std::io::ErrorKind::BrokenPipe => Outcome::IO,
                    _ => Outcome::of_io(&error),
                };
                self.last_error = Some(error.to_string());
                Completion::plain(outcome, sent_ns, 0, self.reactor.now_ns())
            }
        }
    }

    async fn ready_bucket(&mut self, _: &str, _: bool) -> Result<BucketState, Error> {
        Ok(BucketState::Created)
    }

    async fn sweep_bucket(&mut self, _: &str) -> Result<Swept, Error> {
        Ok(Swept::default())
    }

    fn last_error(&mut self) -> Option<String> {
        self.last_error.take()
    }
}

fn run(operation: &str, clients: u32, requests: u64, timeout_ns: u64) -> Summary {
    let document = json!({
        "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
        "phase": "p", "target": {"name": "t", "driver": "toy_remote", "settings": {}},
        "dataset": {"bucket_prefix": "b", "buckets": 1, "objects": 100, "object_prefix": "o-",
                    "size": {"kind": "fixed", "bytes": 1000}},
        "mix": [{"operation": operation}], "load": {"kind": "closed", "clients": clients},
        "stop": {"requests": requests}, "cores": 2, "timeout_ns": timeout_ns,
        "on_error": {"action": "continue"},
    });
    let trial = Trial::parse(&document.to_string()).expect("the test's document is sound");
    run_trial(&trial, &Control::default(), &mut |_| true).expect("it refuses nothing")
}

#[test]
fn many_requests_in_flight_need_two_load_threads_and_one_runtime_thread() {
    let ended = run("get", 300, 3000, 60_000_000_000);
    assert_eq!((ended.requests, ended.failed, ended.bytes), (3000, 0, 3_000_000));
    assert_eq!((ended.cores, ended.clients), (2, 300));
    let threads = THREADS.lock().expect("sound");
    assert_eq!(*threads, BTreeSet::from(["remote".to_owned()]));
}

#[test]
fn a_task_that_panics_or_never_ends_fails_only_its_own_request() {
    let broken = run("put", 4, 20, 60_000_000_000);
    assert_eq!((broken.requests, broken.failed), (20, 20));
    assert_eq!(broken.error_examples.keys().collect::<Vec<_>>(), ["io"]);
    let late = run("head", 4, 8, 20_000_000);
    assert_eq!((late.requests, late.failed), (8, 8));
    assert_eq!(late.error_examples.keys().collect::<Vec<_>>(), ["timeout"]);
}
