//! Completions → histograms and counts, one row for each second, stage, operation and outcome.
//!
//! A [`Recorder`] belongs to one load thread. Once a second it gives its histograms away and goes
//! on with empty ones, so that no load thread ever merges, encodes or waits.

use std::sync::mpsc::{Receiver, Sender};

use hdrhistogram::Histogram;
use loadstone_history::CALL_BYTES;

use crate::cryptography::Spent;
use crate::outcome::{Completion, Outcome, PartEnd};

pub(crate) mod batch;
mod collector;
mod doing;
pub mod encoded;

pub use batch::encode;
pub(crate) use collector::{Collector, Second};
pub(crate) use doing::Doing;

/// Largest latency that is distinguished from larger ones: one hour.
pub(crate) const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Makes an empty histogram: nanoseconds, 1 to one hour, three significant digits (0.1 %).
///
/// # Panics
/// Never: the bounds are constants that the library accepts.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("constant bounds are sound")
}

/// A part of a trial, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Load before the measured part.
    WarmUp,
    /// What counts.
    Measure,
    /// Load after the measured part, and requests that were still in flight when it ended.
    CoolDown,
}

impl Stage {
    /// Returns the name in records.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WarmUp => "warm-up",
            Self::Measure => "measure",
            Self::CoolDown => "cool-down",
        }
    }
}

/// What tells one row of a second from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    /// Part of the trial.
    pub stage: Stage,
    /// From 1.
    pub iteration: u32,
    /// What was done.
    pub doing: Doing,
    /// How the requests ended.
    pub outcome: Outcome,
}

/// What one thread saw of one row in one second.
#[derive(Debug)]
pub(crate) struct Row {
    key: RowKey,
    /// Requests that ended.
    pub requests: u64,
    /// Objects concerned.
    pub objects: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// From the first byte sent to the last received.
    pub service: Histogram<u64>,
    /// From the first byte sent to the first received.
    pub first_byte: Option<Box<Histogram<u64>>>,
    /// From the intended start; only under open load, where it differs from `service`.
    pub response: Option<Box<Histogram<u64>>>,
    /// From the intended start to the first byte sent; only under open load.
    pub lag: Option<Box<Histogram<u64>>>,
    /// Of each good part of the requests that went in parts, as `service`.
    pub part: Option<Box<Histogram<u64>>>,
    /// Parts that failed.
    pub parts_failed: u64,
    /// What actions spent on encryption, of those that spent any.
    pub encryption: Option<Box<Histogram<u64>>>,
    /// The same of wrapping keys.
    pub wrapping: Option<Box<Histogram<u64>>>,
    /// The same of hashing.
    pub hashing: Option<Box<Histogram<u64>>>,
    /// The same of encrypted paths.
    pub paths: Option<Box<Histogram<u64>>>,
    /// When the first of these actions began and the last ended, since the trial's start.
    pub span: Option<(u64, u64)>,
}

impl Row {
    fn new(key: RowKey) -> Self {
        let service = histogram();
        Self {
            key,
            requests: 0,
            objects: 0,
            bytes: 0,
            service,
            first_byte: None,
            response: None,
            lag: None,
            part: None,
            parts_failed: 0,
            encryption: None,
            wrapping: None,
            hashing: None,
            paths: None,
            span: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.requests == 0
    }

    fn absorb(&mut self, other: &Self) {
        self.requests += other.requests;
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.parts_failed += other.parts_failed;
        self.span = wider(self.span, other.span);
        add(&mut self.service, &other.service);
        for (mine, theirs) in [
            (&mut self.first_byte, &other.first_byte),
            (&mut self.response, &other.response),
            (&mut self.lag, &other.lag),
            (&mut self.part, &other.part),
            (&mut self.encryption, &other.encryption),
            (&mut self.wrapping, &other.wrapping),
            (&mut self.hashing, &other.hashing),
            (&mut self.paths, &other.paths),
        ] {
            if let Some(theirs) = theirs {
                add(mine.get_or_insert_with(|| Box::new(histogram())), theirs);
            }
        }
    }

    fn clear(&mut self) {
        self.requests = 0;
        self.objects = 0;
        self.bytes = 0;
        self.parts_failed = 0;
        self.span = None;
        self.service.reset();
        let optional = [
            &mut self.first_byte,
            &mut self.response,
            &mut self.lag,
            &mut self.part,
            &mut self.encryption,
            &mut self.wrapping,
            &mut self.hashing,
            &mut self.paths,
        ];
        optional.into_iter().flatten().for_each(|histogram| histogram.reset());
    }
}

/// Returns the span that holds both.
fn wider(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

fn add(mine: &mut Histogram<u64>, theirs: &Histogram<u64>) {
    mine.add(theirs).expect("all histograms have the same bounds");
}

/// When a request was meant to start, and whether that differs from its start.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Intended {
    /// When its client was free: a closed load.
    WhenFree,
    /// At this time: an open load.
    At(u64),
}

/// One request, for the log, whose columns are documented with the record. Times are nanoseconds since the trial's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogRow {
    pub key: RowKey,
    pub index: u64,
    pub intended_ns: u64,
    pub sent_ns: u64,
    pub first_byte_ns: u64,
    pub ended_ns: u64,
    pub bytes: u64,
}

/// Rows of the log that a thread keeps before it gives them away.
const LOG_ROWS_MAX: usize = 1 << 14;
/// Bytes of a history that a thread keeps before it gives them away.
const HISTORY_BYTES_MAX: usize = CALL_BYTES << 12;

/// The rows of one second of one thread.
#[derive(Debug)]
pub(crate) struct Handover {
    pub thread: usize,
    /// Whole seconds since the trial's start.
    pub second: u64,
    pub rows: Vec<Row>,
    /// Its requests one by one, when they are logged.
    pub log: Vec<LogRow>,
    /// Its calls as a history has them, when one is kept.
    pub history: Vec<u8>,
    /// The thread will send nothing more of this second and those before it.
    pub passed: Option<u64>,
}

/// The recorder of one load thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    thread: usize,
    trial_start_ns: u64,
    second_end_ns: u64,
    second: u64,
    rows: Vec<Row>,
    spare: Receiver<Row>,
    out: Sender<Handover>,
    log: Option<Vec<LogRow>>,
    history: Vec<u8>,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Recorder {
    /// Makes a recorder that sends its rows to `out` and takes emptied ones back from `spare`.
    #[must_use]
    pub(crate) fn new(
        thread: usize,
        trial_start_ns: u64,
        out: Sender<Handover>,
        spare: Receiver<Row>,
    ) -> Self {
        Self {
            thread,
            trial_start_ns,
            second_end_ns: trial_start_ns + SECOND_NS,
            second: 0,
            rows: Vec::new(),
            spare,
            out,
            log: None,
            history: Vec::new(),
        }
    }

    /// Counts seconds from a start that was not known when the recorder was made.
    pub(crate) fn start_at(&mut self, trial_start_ns: u64) {
        self.trial_start_ns = trial_start_ns;
        self.second_end_ns = trial_start_ns + SECOND_NS;
        self.second = 0;
    }

    /// Has every request logged from now on.
    pub(crate) fn log_requests(&mut self) {
        self.log = Some(Vec::with_capacity(LOG_ROWS_MAX));
    }

    /// Logs one finished request, if requests are logged.
    #[inline]
    pub(crate) fn log(
        &mut self,
        key: RowKey,
        index: impl FnOnce() -> u64,
        intended: Intended,
        completion: &Completion,
    ) {
        let Some(log) = &mut self.log else { return };
        let since = |time_ns: u64| time_ns.saturating_sub(self.trial_start_ns);
        let intended_ns = match intended {
            Intended::WhenFree => completion.sent_ns,
            Intended::At(intended_ns) => intended_ns,
        };
        log.push(LogRow {
            key,
            index: index(),
            intended_ns: since(intended_ns),
            sent_ns: since(completion.sent_ns),
            first_byte_ns: since(completion.first_byte_ns),
            ended_ns: since(completion.ended_ns),
            bytes: completion.bytes,
        });
        if log.len() >= LOG_ROWS_MAX {
            self.send(Vec::new(), None);
        }
    }

    /// Returns the number of its thread.
    pub(crate) fn thread(&self) -> u32 {
        self.thread as u32
    }

    /// Has a call added to the history.
    pub(crate) fn note_history(&mut self, add: impl FnOnce(&mut Vec<u8>)) {
        if self.history.capacity() == 0 {
            self.history.reserve_exact(HISTORY_BYTES_MAX + CALL_BYTES);
        }
        add(&mut self.history);
        if self.history.len() >= HISTORY_BYTES_MAX {
            self.send(Vec::new(), None);
        }
    }

    fn send(&mut self, rows: Vec<Row>, passed: Option<u64>) {
        let fresh = || Vec::with_capacity(LOG_ROWS_MAX);
        let log = self.log.as_mut().map_or_else(Vec::new, |log| std::mem::replace(log, fresh()));
        let history = std::mem::take(&mut self.history);
        let batch =
            Handover { thread: self.thread, second: self.second, rows, log, history, passed };
        // The collector has gone only when the trial is torn down: there is no receiver.
        let _ = self.out.send(batch);
    }

    /// Counts one finished request.
    #[inline]
    pub(crate) fn record(&mut self, key: RowKey, intended: Intended, completion: &Completion) {
        if completion.ended_ns >= self.second_end_ns {
            self.hand_over(completion.ended_ns);
        }
        let service_ns = completion.ended_ns.saturating_sub(completion.sent_ns);
        let row = self.row(key);
        row.requests += 1;
        row.objects += u64::from(completion.objects);
        row.bytes += completion.bytes;
        row.service.saturating_record(service_ns.max(1));
        if completion.first_byte_ns > 0 {
            let first_byte_ns = completion.first_byte_ns.saturating_sub(completion.sent_ns);
            let histogram = row.first_byte.get_or_insert_with(|| Box::new(histogram()));
            histogram.saturating_record(first_byte_ns.max(1));
        }
        if let Intended::At(intended_ns) = intended {
            let response = row.response.get_or_insert_with(|| Box::new(histogram()));
            response.saturating_record(completion.ended_ns.saturating_sub(intended_ns).max(1));
            let lag = row.lag.get_or_insert_with(|| Box::new(histogram()));
            lag.saturating_record(completion.sent_ns.saturating_sub(intended_ns).max(1));
        }
    }

    /// Counts one finished action, and what it spent on cryptography.
    pub(crate) fn record_action(
        &mut self,
        key: RowKey,
        intended: Intended,
        whole: &Completion,
        spent: Spent,
    ) {
        self.record(key, intended, whole);
        let since = |time_ns: u64| time_ns.saturating_sub(self.trial_start_ns);
        let span = Some((since(whole.sent_ns), since(whole.ended_ns)));
        let row = self.row(key);
        row.span = wider(row.span, span);
        for (kind, spent_ns) in [
            (&mut row.encryption, spent.encryption_ns),
            (&mut row.wrapping, spent.wrapping_ns),
            (&mut row.hashing, spent.hashing_ns),
            (&mut row.paths, spent.paths_ns),
        ] {
            if spent_ns > 0 {
                kind.get_or_insert_with(|| Box::new(histogram())).saturating_record(spent_ns);
            }
        }
    }

    /// Counts the parts of the request that was counted last.
    #[cold]
    pub(crate) fn record_parts(&mut self, key: RowKey, parts: &[PartEnd]) {
        let row = self.row(key);
        for part in parts {
            if part.is_ok {
                let histogram = row.part.get_or_insert_with(|| Box::new(histogram()));
                histogram.saturating_record(part.service_ns.max(1));
            } else {
                row.parts_failed += 1;
            }
        }
    }

    /// Records requests that were due at one time and not sent by another.
    pub(crate) fn record_not_sent(
        &mut self,
        key: RowKey,
        due_ns: u64,
        given_up_ns: u64,
        count: u64,
    ) {
        if count == 0 {
            return;
        }
        if given_up_ns >= self.second_end_ns {
            self.hand_over(given_up_ns);
        }
        let waited_ns = given_up_ns.saturating_sub(due_ns).max(1);
        let row = self.row(key);
        row.requests += count;
        row.objects += count;
        row.service.saturating_record_n(1, count);
        for histogram in [&mut row.response, &mut row.lag] {
            let histogram = histogram.get_or_insert_with(|| Box::new(self::histogram()));
            histogram.saturating_record_n(waited_ns, count);
        }
    }

    /// Sends what is finished of the time before `now_ns`.
    pub(crate) fn hand_over(&mut self, now_ns: u64) {
        let rows: Vec<Row> = self
            .rows
            .iter_mut()
            .filter(|row| !row.is_empty())
            .map(|row| {
                let mut fresh = self.spare.try_recv().unwrap_or_else(|_| Row::new(row.key));
                fresh.key = row.key;
                std::mem::replace(row, fresh)
            })
            .collect();
        self.send(rows, Some(self.second));
        self.second = now_ns.saturating_sub(self.trial_start_ns) / SECOND_NS;
        self.second_end_ns = self.trial_start_ns + (self.second + 1) * SECOND_NS;
    }

    /// Tells whether a second has ended without its rows having been sent.
    #[must_use]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.second_end_ns
    }

    /// Sends the rest.
    pub(crate) fn finish(&mut self) {
        self.hand_over(self.second_end_ns);
        self.send(Vec::new(), Some(u64::MAX));
    }

    #[inline]
    fn row(&mut self, key: RowKey) -> &mut Row {
        // A handful of rows at most, the busiest first: a scan beats any map.
        match self.rows.iter().position(|row| row.key == key) {
            Some(index) => &mut self.rows[index],
            None => {
                self.rows.push(Row::new(key));
                self.rows.last_mut().expect("one was pushed just now")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    fn key(outcome: Outcome) -> RowKey {
        RowKey {
            stage: Stage::Measure,
            iteration: 1,
            doing: Doing::request(Operation::Get),
            outcome,
        }
    }

    fn completion(sent_ns: u64, ended_ns: u64) -> Completion {
        Completion { bytes: 10, ..Completion::plain(Outcome::OK, sent_ns, ended_ns, ended_ns) }
    }

    #[test]
    fn rows_add_up_over_threads_and_seconds() {
        let (mut collector, recorders) = Collector::new(2, 0);
        for (thread, mut recorder) in recorders.into_iter().enumerate() {
            for request in 0..3000_u64 {
                let ended_ns = request * 1_000_000 + 1000 + thread as u64;
                recorder.record(
                    key(Outcome::OK),
                    Intended::WhenFree,
                    &completion(ended_ns - 500, ended_ns),
                );
            }
            recorder.finish();
        }
        let seconds = collector.collect();
        assert!(collector.is_over());
        assert_eq!(seconds.len(), 3);
        let requests: u64 = seconds.iter().map(|(_, rows)| rows[&key(Outcome::OK)].requests).sum();
        let recorded: u64 =
            seconds.iter().map(|(_, rows)| rows[&key(Outcome::OK)].service.len()).sum();
        assert_eq!((requests, recorded), (6000, 6000));
    }

    #[test]
    fn a_second_is_held_until_every_thread_has_passed_it() {
        let (mut collector, mut recorders) = Collector::new(2, 0);
        let early = completion(0, 10);
        let late = completion(0, 2_000_000_000);
        recorders[0].record(key(Outcome::OK), Intended::WhenFree, &early);
        recorders[0].record(key(Outcome::OK), Intended::WhenFree, &late);
        assert!(collector.collect().is_empty());
        recorders[1].record(key(Outcome::OK), Intended::WhenFree, &early);
        recorders[1].hand_over(1_000_000_000);
        let seconds = collector.collect();
        assert_eq!(seconds.len(), 1);
        assert_eq!(seconds[0].1[&key(Outcome::OK)].requests, 2);
    }

    #[test]
    fn response_runs_from_the_intended_start() {
        let (mut collector, mut recorders) = Collector::new(1, 0);
        recorders[0].record(key(Outcome::OK), Intended::At(100), &completion(1100, 2100));
        recorders[0].finish();
        let seconds = collector.collect();
        let row = &seconds[0].1[&key(Outcome::OK)];
        assert_eq!(row.service.max(), 1000);
        assert_eq!(row.response.as_ref().expect("an open load").max(), 2000);
        assert_eq!(row.lag.as_ref().expect("an open load").max(), 1000);
    }
}
