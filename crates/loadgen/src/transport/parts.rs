//! Transfers one object in several concurrent requests: distributes the parts and collects their
//! results.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::mem::take;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::outcome::{Completion, Outcome, PartEnd};
use crate::reactor::Reactor;
use crate::requests::Request;
use crate::trial::{Division, Trial};

/// After a stop, the time that a client has to make the store drop what it has begun.
const LAST_STEP_NS: u64 = 2_000_000_000;

/// Returns the connections of one client of a trial.
pub(crate) fn connections_of_a_client(trial: &Trial) -> u32 {
    let has_parts = trial.mix.iter().any(|share| share.operation.is_in_parts());
    if has_parts { trial.options.part_concurrency.max(1) } else { 1 }
}

/// The clients that help another with the parts of its objects, and the results of the last
/// object's parts.
#[derive(Debug)]
pub(crate) struct Helpers<C> {
    pub(crate) clients: Vec<C>,
    pub(crate) ends: Vec<PartEnd>,
}

impl<C> Default for Helpers<C> {
    fn default() -> Self {
        Self { clients: Vec::new(), ends: Vec::new() }
    }
}

/// A client that transfers the parts of one object together with helpers of its own type.
pub(crate) trait InParts: Sized {
    fn helpers(&mut self) -> &mut Helpers<Self>;
    /// Returns the description of the last failure of this client's own requests.
    fn own_error(&self) -> Option<String>;
    /// Keeps the description of a failure, which later requests would hide.
    fn keep_error(&mut self, error_text: Option<String>);
    /// Returns the parts of a request's object.
    fn division(&self, request: &Request) -> Division;
    /// Reads an object with one request.
    async fn get_whole(&mut self, request: &Request) -> Completion;
    /// Reads a range of an object.
    async fn get_stretch(&mut self, request: &Request, stretch: Range<u64>) -> Completion;

    /// Transfers the parts of one object. `work` returns the completion of a part, and the value
    /// that the whole needs from it.
    async fn in_parts<T>(
        &mut self,
        count: u64,
        work: impl AsyncFn(&mut Self, u64) -> (Completion, T),
    ) -> Whole<T> {
        let mut helpers = take(self.helpers());
        helpers.ends.clear();
        let work = async |client: &mut Self, part: u64| {
            let (completion, value) = work(client, part).await;
            let error_text = if completion.outcome.is_ok() { None } else { client.own_error() };
            Ended { completion, value, error_text }
        };
        let mut whole = share(self, &mut helpers.clients, count, &mut helpers.ends, work).await;
        *self.helpers() = helpers;
        self.keep_error(whole.error_text.take());
        whole
    }

    /// Reads an object in parts, with one request for each.
    async fn get_in_parts(&mut self, request: &Request) -> Completion {
        let division = self.division(request);
        if division.count() == 0 {
            self.helpers().ends.clear();
            return self.get_whole(request).await;
        }
        let get_part = async |client: &mut Self, part: u64| {
            (client.get_stretch(request, division.range(part)).await, ())
        };
        self.in_parts(division.count(), get_part).await.completion
    }
}

/// Result of one part.
struct Ended<T> {
    completion: Completion,
    /// The value that the whole needs from it.
    value: T,
    /// Description of a failure.
    error_text: Option<String>,
}

/// Result of all parts.
pub(crate) struct Whole<T> {
    /// Its times span all parts, its bytes are the total, and its outcome is that of the first
    /// failed part, if there is one.
    pub(crate) completion: Completion,
    /// In the order of the parts; parts that were not begun are missing.
    pub(crate) values: Vec<T>,
    error_text: Option<String>,
}

/// State of the parts of one object in progress.
struct Shared<T> {
    count: u64,
    next: Cell<u64>,
    completion: Cell<Option<Completion>>,
    error_text: RefCell<Option<String>>,
    values: RefCell<Vec<(u64, T)>>,
    ends: RefCell<Vec<PartEnd>>,
}

impl<T> Shared<T> {
    /// Returns the next part; `None` after the last part, or once a part has failed.
    fn take(&self) -> Option<u64> {
        let part = self.next.get();
        let has_failed =
            self.completion.get().is_some_and(|completion| !completion.outcome.is_ok());
        if part >= self.count || has_failed {
            return None;
        }
        self.next.set(part + 1);
        Some(part)
    }

    fn end(&self, part: u64, ended: Ended<T>) {
        let Ended { completion, value, error_text } = ended;
        let service_ns = completion.ended_ns.saturating_sub(completion.sent_ns);
        self.ends.borrow_mut().push(PartEnd { service_ns, is_ok: completion.outcome.is_ok() });
        self.values.borrow_mut().push((part, value));
        let whole = self.completion.get();
        if whole.is_none_or(|whole| whole.outcome.is_ok()) && !completion.outcome.is_ok() {
            *self.error_text.borrow_mut() = error_text;
        }
        self.completion.set(Some(whole.map_or(completion, |whole| joined(&whole, &completion))));
    }
}

/// Combines the completions of two parts.
fn joined(whole: &Completion, part: &Completion) -> Completion {
    let first_byte_ns = match (whole.first_byte_ns, part.first_byte_ns) {
        (0, second) | (second, 0) => second,
        (first, second) => first.min(second),
    };
    Completion {
        outcome: if whole.outcome.is_ok() { part.outcome } else { whole.outcome },
        sent_ns: whole.sent_ns.min(part.sent_ns),
        first_byte_ns,
        ended_ns: whole.ended_ns.max(part.ended_ns),
        bytes: whole.bytes + part.bytes,
        objects: whole.objects,
        verified_bytes: whole.verified_bytes + part.verified_bytes,
    }
}

/// Lets clients transfer the parts of one object, each one part at a time, until all are done, or
/// until one has failed and those in flight have ended. They all belong to one task.
async fn share<C, T>(
    first: &mut C,
    others: &mut [C],
    count: u64,
    ends: &mut Vec<PartEnd>,
    work: impl AsyncFn(&mut C, u64) -> Ended<T>,
) -> Whole<T> {
    let shared = Shared {
        count,
        next: Cell::new(0),
        completion: Cell::new(None),
        error_text: RefCell::default(),
        values: RefCell::default(),
        ends: RefCell::new(take(ends)),
    };
    let lane = async |client: &mut C| {
        while let Some(part) = shared.take() {
            let ended = work(client, part).await;
            shared.end(part, ended);
        }
    };
    // No more clients than parts.
    let helpers = usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX).min(others.len());
    if helpers == 0 {
        lane(first).await;
    } else {
        let clients = std::iter::once(first).chain(&mut others[..helpers]);
        all(clients
            .map(|client| Box::pin(lane(client)) as Pin<Box<dyn Future<Output = ()>>>)
            .collect())
        .await;
    }
    *ends = shared.ends.into_inner();
    let mut values = shared.values.into_inner();
    values.sort_unstable_by_key(|(part, _)| *part);
    Whole {
        completion: shared
            .completion
            .get()
            .unwrap_or_else(|| Completion::plain(Outcome::OK, 0, 0, 0)),
        values: values.into_iter().map(|(_, value)| value).collect(),
        error_text: shared.error_text.into_inner(),
    }
}

/// Polls the futures of one task until all have ended. Each wake-up of the task polls all of them.
async fn all(mut futures: Vec<Pin<Box<dyn Future<Output = ()> + '_>>>) {
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Waits for a future, but returns early on a stop.
pub(crate) async fn unless_stopped<T>(
    reactor: &Rc<Reactor>,
    future: impl Future<Output = T>,
) -> Option<T> {
    let mut future = std::pin::pin!(future);
    poll_fn(|context| match reactor.is_stopping() {
        true => Poll::Ready(None),
        false => future.as_mut().poll(context).map(Some),
    })
    .await
}

/// Waits for a future to complete, with a short deadline after a stop.
pub(crate) async fn hurried<T>(reactor: &Rc<Reactor>, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut is_hurried = false;
    poll_fn(|context| {
        if !is_hurried && reactor.is_stopping() {
            is_hurried = true;
            allow_last_step(reactor);
        }
        future.as_mut().poll(context)
    })
    .await
}

/// Gives the task time for one more request.
pub(crate) fn allow_last_step(reactor: &Reactor) {
    reactor.set_deadline(reactor.now_ns() + LAST_STEP_NS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_an_object_once() {
        for (bytes, part_bytes) in [(0, 5), (1, 5), (5, 5), (6, 5), (100, 7), (3, u64::MAX)] {
            let division = Division::new(bytes, Some(part_bytes));
            let mut end = 0;
            for part in 0..division.count() {
                let range = division.range(part);
                assert_eq!((range.start, range.is_empty()), (end, false));
                end = range.end;
            }
            assert_eq!(end, bytes);
            assert!(division.range(division.count()).is_empty());
        }
    }

    /// Runs parts, each of which takes as many turns as `turns` says; negative ones fail.
    fn run(clients: usize, turns: &'static [i64]) -> (Whole<u64>, Vec<PartEnd>) {
        let reactor =
            Reactor::new(Box::new(crate::reactor::Sleep), crate::clock::Clock::virtual_at(0));
        let inner = Rc::clone(&reactor);
        let job = async move {
            let (mut client, mut others, mut ends) = (0, vec![0; clients - 1], Vec::new());
            let whole =
                share(&mut client, &mut others, turns.len() as u64, &mut ends, async |_, part| {
                    let turns = turns[part as usize];
                    let sent_ns = inner.now_ns();
                    inner.sleep_until(sent_ns + turns.unsigned_abs() * 1000).await;
                    let outcome = if turns < 0 { Outcome::http(500) } else { Outcome::OK };
                    let completion = Completion {
                        bytes: 10,
                        ..Completion::plain(outcome, sent_ns, inner.now_ns(), inner.now_ns())
                    };
                    Ended { completion, value: part, error_text: Some(format!("part {part}")) }
                });
            let whole = whole.await;
            (whole, ends)
        };
        let stop = std::sync::atomic::AtomicBool::new(false);
        crate::reactor::run_to_end(&reactor, &stop, job).unwrap().expect("never stopped")
    }

    #[test]
    fn parts_that_end_out_of_order_are_put_in_order() {
        let (whole, ends) = run(3, &[9, 1, 2, 3, 1]);
        assert_eq!(whole.values, [0, 1, 2, 3, 4]);
        assert_eq!((whole.completion.bytes, ends.len()), (50, 5));
        // One client takes the long part; the other two share the rest.
        assert_eq!(whole.completion.ended_ns - whole.completion.sent_ns, 9000);
        let (whole, _) = run(1, &[9, 1, 2, 3, 1]);
        assert_eq!(whole.completion.ended_ns - whole.completion.sent_ns, 16_000);
    }

    #[test]
    fn after_a_failure_parts_in_flight_end_and_no_other_begins() {
        let (whole, ends) = run(3, &[5, -1, 2, 1, 1, 1]);
        assert_eq!(whole.completion.outcome, Outcome::http(500));
        assert_eq!(whole.error_text.as_deref(), Some("part 1"));
        assert_eq!(whole.values, [0, 1, 2]);
        assert_eq!(whole.completion.ended_ns - whole.completion.sent_ns, 5000);
        assert_eq!(ends.iter().filter(|end| !end.is_ok).count(), 1);
    }
}
