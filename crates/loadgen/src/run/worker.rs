//! The hot loop: what each client of a load thread repeats.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::cryptography;
use crate::driver::{Client, Traffic};
use crate::history;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::reactor::Reactor;
use crate::recorder::{Doing, Intended, Recorder, RowKey, Stage};
use crate::requests::{Next, Request, Source};
use crate::run::edges::Edges;
use crate::run::shared::{HistoryClock, Shared};
use crate::run::window::Window;
use crate::schedule::Schedule;

/// Up to this many unsent requests are counted one by one, which takes some 50 ms.
const NOT_SENT_SINGLY: f64 = 1_048_576.0;
/// Beyond that, their due times are rounded to this fraction of the remaining load.
const NOT_SENT_SLICES: u32 = 10_000;

/// A request that a client has taken, when it took it, and when it is due.
#[derive(Debug, Clone, Copy)]
struct Taken {
    request: Request,
    at_ns: u64,
    due_ns: u64,
    stage: Stage,
}

/// State that the clients of one thread share. It lives as long as the thread.
pub(crate) struct Worker<C> {
    reactor: Rc<Reactor>,
    shared: Arc<Shared>,
    recorder: RefCell<Recorder>,
    source: RefCell<Source>,
    schedule: RefCell<Schedule>,
    stage: Cell<Option<Stage>>,
    iteration: Cell<u32>,
    window: Cell<Window>,
    /// When the client that has just found nothing to do should ask again.
    ask_again_ns: Cell<Option<u64>>,
    clients: RefCell<Vec<Option<C>>>,
    /// Totals of the thread, for the summary.
    pub(crate) tally: RefCell<Tally>,
}

/// Totals over the clients of one thread.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) verified_requests: u64,
    pub(crate) verified_bytes: u64,
    pub(crate) measured_requests: u64,
    pub(crate) last_measured_ns: u64,
    /// [`IterationTimes::in_flight_ns`](crate::run::IterationTimes) of this iteration.
    pub(crate) in_flight_ns: u64,
    /// Corrections for requests at the window's edges, of this iteration.
    pub(crate) edges: Edges,
    /// When the first request of this iteration ended.
    pub(crate) first_answer_ns: Option<u64>,
    pub(crate) client_requests: Vec<u64>,
    pub(crate) traffic: Traffic,
}

/// The whole hot loop. Open and closed loads differ in the schedule only.
///
/// Variables that live across an `await` exist once for each client, and there may be many
/// thousands. The loop takes the client from the worker, because an argument would be stored in
/// addition to the variable.
async fn client_loop<C: Client>(worker: Rc<Worker<C>>, slot: usize) {
    let Some(mut client) = worker.take_client(slot) else { return };
    let mut requests = 0;
    loop {
        while let Some(taken) = worker.take_next(slot) {
            if taken.due_ns > taken.at_ns {
                worker.reactor.sleep_until(taken.due_ns).await;
            }
            let started_ns = taken.due_ns.max(taken.at_ns);
            worker.reactor.set_deadline(started_ns + worker.shared.timeout_ns);
            let mut completion = client.execute(&taken.request).await;
            worker.record(slot, &taken, &mut completion, &mut client);
            requests += 1;
        }
        // Sessions of a script wait for each other, and an audit for its listings.
        let Some(then_ns) = worker.ask_again_ns.take() else { break };
        worker.reactor.sleep_until(then_ns).await;
    }
    worker.tally.borrow_mut().client_requests[slot] += requests;
    worker.clients.borrow_mut()[slot] = Some(client);
}

impl<C: Client> Worker<C> {
    pub(crate) fn new(
        reactor: Rc<Reactor>,
        shared: Arc<Shared>,
        recorder: Recorder,
        source: Source,
        clients: Vec<C>,
    ) -> Rc<Self> {
        let tally = Tally { client_requests: vec![0; clients.len()], ..Tally::default() };
        Rc::new(Self {
            reactor,
            shared,
            recorder: RefCell::new(recorder),
            source: RefCell::new(source),
            schedule: RefCell::new(Schedule::Closed),
            stage: Cell::new(None),
            iteration: Cell::new(0),
            ask_again_ns: Cell::new(None),
            window: Cell::default(),
            clients: RefCell::new(clients.into_iter().map(Some).collect()),
            tally: RefCell::new(tally),
        })
    }

    /// Puts every client to work on an iteration, and returns when all have ended.
    pub(crate) fn run_iteration(
        self: &Rc<Self>,
        iteration: u32,
        window: Window,
        schedule: Schedule,
    ) -> std::io::Result<()> {
        self.iteration.set(iteration);
        self.window.set(window);
        self.stage.set(None);
        *self.schedule.borrow_mut() = schedule;
        let slots = self.clients.borrow().len();
        for slot in 0..slots {
            let client = client_loop(Rc::clone(self), slot);
            if self.shared.is_judged {
                // Reports split each action into client time and target time.
                self.reactor.spawn(cryptography::counted(Box::pin(client)));
            } else {
                self.reactor.spawn(client);
            }
        }
        self.reactor.spawn_daemon(Rc::clone(self).hand_over_every_second());
        self.reactor.run(&self.shared.stop)
    }

    fn take_client(&self, slot: usize) -> Option<C> {
        self.clients.borrow_mut()[slot].take()
    }

    /// Sets the start from which seconds count, if it was unknown when the worker was created.
    pub(crate) fn start_at(&self, trial_start_ns: u64) {
        self.recorder.borrow_mut().start_at(trial_start_ns);
    }

    /// Ends the record of this thread.
    pub(crate) fn finish(&self) -> Tally {
        for client in self.clients.borrow().iter().flatten() {
            self.tally.borrow_mut().traffic.add(client.traffic());
        }
        self.recorder.borrow_mut().finish();
        self.tally.borrow().clone()
    }

    #[inline]
    fn take_next(&self, slot: usize) -> Option<Taken> {
        if self.shared.stop.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(schedule) = &self.shared.schedule {
            return self.take_next_of_all(slot, schedule);
        }
        self.take_next_of(slot, &mut self.schedule.borrow_mut())
    }

    #[inline(never)]
    fn take_next_of_all(&self, slot: usize, schedule: &Mutex<Schedule>) -> Option<Taken> {
        self.take_next_of(slot, &mut schedule.lock().expect("the lock is not poisoned"))
    }

    #[inline]
    fn take_next_of(&self, slot: usize, schedule: &mut Schedule) -> Option<Taken> {
        let now_ns = self.reactor.now_ns();
        let mut source = self.source.borrow_mut();
        let window = self.window.get();
        loop {
            let due_ns = source.due_ns(slot, schedule, now_ns);
            let measure_over_ns = self.measure_over_ns(&source);
            let Some(stage) = window.stage_at(due_ns, measure_over_ns) else { break };
            if schedule.is_open() && now_ns >= window.load_end_ns(measure_over_ns) {
                if source.is_scheduled() {
                    let load_end_ns = window.load_end_ns(measure_over_ns);
                    self.record_not_sent(schedule, now_ns, load_end_ns);
                }
                break;
            }
            if self.stage.replace(Some(stage)) != Some(stage) {
                source.restart(self.iteration.get(), stage as u64);
            }
            match source.next(slot, due_ns, &self.shared.tickets[stage as usize]) {
                Next::Request(request) => {
                    schedule.take_ns(now_ns);
                    return Some(Taken { request, at_ns: now_ns, due_ns, stage });
                }
                Next::Busy => break,
                Next::Later(then_ns) => {
                    self.ask_again_ns.set(Some(then_ns));
                    return None;
                }
                Next::Over => {}
            }
            // Only the measured part can end by count; what follows is cool-down. It ends when the
            // first request without a ticket is due, not when a thread finds that out: threads take
            // requests ahead of time, or are late.
            self.shared.end_measure(if source.is_scheduled() { due_ns } else { now_ns });
            if window.cool_down_ns == 0 {
                break;
            }
        }
        self.shared.first_done_ns.fetch_min(now_ns, Ordering::Relaxed);
        None
    }

    /// Returns when the last ticket of the measured part was taken, as this thread must see it: not
    /// yet, while the thread holds tickets that no other thread can take.
    #[inline]
    fn measure_over_ns(&self, source: &Source) -> u64 {
        let is_holding = self.stage.get() == Some(Stage::Measure) && source.is_holding_tickets();
        if is_holding { u64::MAX } else { self.shared.measure_over_ns.load(Ordering::Relaxed) }
    }

    #[inline]
    fn record(&self, slot: usize, taken: &Taken, completion: &mut Completion, client: &mut C) {
        if completion.outcome.is_absent() {
            completion.outcome = self.of_absent(taken, completion.outcome);
        }
        if self.shared.is_followed {
            self.follow(slot, taken, completion, client);
        }
        let is_open = self.shared.is_open;
        let window = self.window.get();
        let stage = window.stage_of(taken.stage, completion.ended_ns, is_open);
        let operation = taken.request.operation;
        let iteration = self.iteration.get();
        let doing = Doing::request(operation);
        let key = RowKey { stage, iteration, doing, outcome: completion.outcome };
        let intended = if is_open { Intended::At(taken.due_ns) } else { Intended::WhenFree };
        let mut recorder = self.recorder.borrow_mut();
        recorder.record(key, intended, completion);
        if operation.is_in_parts() {
            recorder.record_parts(key, client.parts());
        }
        recorder.log(key, || taken.request.subject.number(), intended, completion);
        drop(recorder);
        let mut tally = self.tally.borrow_mut();
        if stage == Stage::Measure {
            tally.measured_requests += 1;
            tally.last_measured_ns = completion.ended_ns;
        }
        if stage != Stage::CoolDown || !window.is_counted {
            tally.in_flight_ns += window.measured_ns(completion.sent_ns, completion.ended_ns);
            tally.edges.note(&window, stage, is_open, operation, completion);
        }
        tally.first_answer_ns.get_or_insert(completion.ended_ns);
        if completion.verified_bytes > 0 {
            tally.verified_requests += 1;
            tally.verified_bytes += completion.verified_bytes;
        }
        self.source.borrow_mut().note(&taken.request, completion);
        if completion.outcome.is_ok() {
            if operation.puts_object() {
                self.shared.unwritten.fill(taken.request.subject.number());
            }
        } else if completion.outcome.is_failure() {
            self.shared.note_failure(completion.outcome, || client.last_error());
            if operation.puts_object() {
                let number = taken.request.subject.number();
                self.shared.note_unwritten(number, taken.stage, iteration);
            }
        }
    }

    /// Corrects an outcome by the script or an audit. An action that ends with this request is
    /// counted in addition to its requests, in the stage in which the last one counts.
    #[inline(never)]
    fn judge(&self, slot: usize, taken: &Taken, completion: &mut Completion, version: u64) {
        let began_ns = taken.due_ns.max(taken.at_ns);
        let spent = cryptography::take();
        let ended = self.source.borrow_mut().judge(slot, began_ns, spent, version, completion);
        let Some(ended) = ended else { return };
        let is_open = self.shared.is_open;
        let key = RowKey {
            stage: self.window.get().stage_of(taken.stage, completion.ended_ns, is_open),
            iteration: self.iteration.get(),
            doing: Doing::action(ended.action),
            outcome: ended.whole.outcome,
        };
        let intended = if is_open { Intended::At(ended.due_ns) } else { Intended::WhenFree };
        self.recorder.borrow_mut().record_action(key, intended, &ended.whole, ended.spent);
    }

    /// Judges a request and records it in the ledger and in the history, as far as the trial
    /// requires.
    #[inline(never)]
    fn follow(&self, slot: usize, taken: &Taken, completion: &mut Completion, client: &C) {
        let answered = *completion;
        if self.shared.is_judged {
            self.judge(slot, taken, completion, client.version());
        }
        // The ledger comes before the recorder: no second may be handed over without the requests
        // that it acknowledged.
        if let Some(ledger) = &self.shared.ledger {
            let (buckets, outcome) = (self.shared.buckets, completion.outcome);
            taken.request.note_in(ledger, buckets, outcome, client.is_in_doubt());
        }
        if let Some(clock) = &self.shared.history {
            // The history holds the target's answer, before the script's expectation corrects the outcome.
            self.note_history(slot, taken, &answered, client, clock);
        }
    }

    /// Adds a call to the history.
    fn note_history(
        &self,
        slot: usize,
        taken: &Taken,
        completion: &Completion,
        client: &C,
        clock: &HistoryClock,
    ) {
        let (request, since_1970_ns) = (&taken.request, clock.since_1970_ns);
        let mut recorder = self.recorder.borrow_mut();
        let number = clock.first_client + slot as u32 * clock.threads + recorder.thread();
        recorder.note_history(|calls| {
            if request.operation != Operation::List {
                let version = client.version();
                history::note(request, completion, version, number, since_1970_ns, calls);
            } else if completion.outcome.is_ok() {
                history::note_listed(client.listed(), completion, number, since_1970_ns, calls);
            }
        });
    }

    /// Decides the outcome of a request for an absent object.
    #[cold]
    fn of_absent(&self, taken: &Taken, outcome: Outcome) -> Outcome {
        let request = &taken.request;
        if self.shared.is_clean_up {
            Outcome::OK
        } else if self.shared.history.is_some() && !self.shared.is_judged {
            Outcome::ABSENT
        } else if request.operation.asks_for_object()
            && self.shared.unwritten.contains(request.subject.number())
        {
            Outcome::UNWRITTEN
        } else {
            outcome
        }
    }

    /// Counts the requests that were due when an open load ended and that no client had sent. They
    /// have waited at least until now; leaving them out would make the target look better.
    ///
    /// At a rate that no host could send, there are too many of them to count one by one.
    fn record_not_sent(&self, schedule: &mut Schedule, now_ns: u64, load_end_ns: u64) {
        if schedule.expected_until(load_end_ns) > NOT_SENT_SINGLY {
            for (due_ns, count) in schedule.take_slices(load_end_ns, NOT_SENT_SLICES) {
                self.record_due(due_ns, count, load_end_ns);
            }
            return;
        }
        while schedule.peek_ns(now_ns) < load_end_ns && !self.shared.stop.load(Ordering::Relaxed) {
            if !self.record_due(schedule.take_ns(now_ns), 1, load_end_ns) {
                break;
            }
        }
    }

    fn record_due(&self, due_ns: u64, count: u64, load_end_ns: u64) -> bool {
        let measure_over_ns = self.shared.measure_over_ns.load(Ordering::Relaxed);
        let Some(stage) = self.window.get().stage_at(due_ns, measure_over_ns) else { return false };
        let iteration = self.iteration.get();
        let doing = Doing::request(self.shared.first_operation);
        let key = RowKey { stage, iteration, doing, outcome: Outcome::NOT_SENT };
        self.recorder.borrow_mut().record_not_sent(key, due_ns, load_end_ns, count);
        true
    }

    async fn hand_over_every_second(self: Rc<Self>) {
        loop {
            let now_ns = self.reactor.now_ns();
            if self.recorder.borrow().is_due(now_ns) {
                self.recorder.borrow_mut().hand_over(now_ns);
            }
            self.reactor.sleep_until(now_ns + 100_000_000).await;
        }
    }
}

/// Returns the bytes that the hot loop holds for each client of a driver: its state, and the client
/// itself.
#[cfg(test)]
pub(crate) fn loop_bytes<C: Client>() -> usize {
    fn bytes_of<C, F: Future>(_: impl FnOnce(Rc<Worker<C>>, usize) -> F) -> usize {
        size_of::<F>()
    }
    bytes_of(client_loop::<C>)
}
