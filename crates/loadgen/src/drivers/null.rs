//! Driver `null`: does nothing and returns at once, which measures loadstone itself.

use std::rc::Rc;
use std::sync::Arc;

use crate::clock::Clock;
use crate::driver::{Client, Driver};
use crate::error::Error;
use crate::facts::{Calibration, Facts, Form, StandIn};
use crate::operation::{OPERATIONS, Operation, Payload};
use crate::outcome::{Completion, Outcome};
use crate::ownership::{BucketState, Swept};
use crate::reactor::{Reactor, Sleep};
use crate::requests::Request;
use crate::settings::Setting;
use crate::trial::Trial;

/// All operations, in the table's order.
const EVERY_OPERATION: [Operation; OPERATIONS.len()] = {
    let mut every = [Operation::Put; OPERATIONS.len()];
    let mut row = 0;
    while row < OPERATIONS.len() {
        every[row] = OPERATIONS[row].operation;
        row += 1;
    }
    every
};

/// A target that answers every request with success.
#[derive(Debug)]
pub(super) struct Null {
    dataset: crate::dataset::Dataset,
}

/// A client of [`Null`].
#[derive(Debug)]
pub(super) struct NullClient {
    reactor: Rc<Reactor>,
    null: Arc<Null>,
}

impl Driver for Null {
    const NAME: &'static str = "null";
    const SUMMARY: &'static str = "does nothing: measures loadstone itself";
    const OPERATIONS: &'static [Operation] = &EVERY_OPERATION;
    const SETTINGS: &'static [Setting] = &[];
    const FACTS: Facts = Facts {
        keeps: false,
        words: &["null"],
        forms: &[Form::Name],
        calibration: Some(Calibration {
            stand_in: StandIn::Itself,
            settings: &[],
            usual: &[Operation::Put, Operation::Get],
            can: &[Operation::Put, Operation::Get, Operation::Read, Operation::Write],
            costs: &[],
        }),
        ..Facts::PLAIN
    };
    type Thread = Rc<Reactor>;
    type Client = NullClient;

    fn check(_trial: &Trial) -> Vec<String> {
        Vec::new()
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        Ok(Self { dataset: crate::dataset::Dataset::new(trial) })
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<Reactor>, Error> {
        Ok(Reactor::new(Box::new(Sleep), Clock::real()))
    }

    fn client(self: &Arc<Self>, reactor: &Rc<Reactor>, _: u32) -> Result<NullClient, Error> {
        Ok(NullClient { reactor: Rc::clone(reactor), null: Arc::clone(self) })
    }
}

impl Client for NullClient {
    async fn execute(&mut self, request: &Request) -> Completion {
        let sent_ns = self.reactor.now_ns();
        self.reactor.turn().await;
        let ended_ns = self.reactor.now_ns();
        let bytes = match request.operation.info().payload {
            Payload::None => 0,
            Payload::Read | Payload::Written => self.null.dataset.length(request.object()),
        };
        Completion { bytes, ..Completion::plain(Outcome::OK, sent_ns, ended_ns, ended_ns) }
    }

    async fn ready_bucket(&mut self, _: &str, _: bool) -> Result<BucketState, Error> {
        Ok(BucketState::Created)
    }

    async fn sweep_bucket(&mut self, _: &str) -> Result<Swept, Error> {
        Ok(Swept::default())
    }
}
