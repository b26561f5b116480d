//! Aggregates completions into histograms and counts: one row for each second, stage, operation and
//! outcome.
//!
//! A [`Recorder`] belongs to one load thread. Once a second it hands over its histograms and
//! continues with empty ones, so that no load thread ever merges, encodes or waits.

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

/// Upper bound of latencies, in nanoseconds: one hour. Longer ones count as one hour.
pub(crate) const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Creates an empty histogram: nanoseconds, 1 to one hour, three significant digits (0.1 %).
///
/// # Panics
/// Never: the bounds are constants that the library accepts.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("constant bounds are sound")
}

/// A stage of a trial, in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Load before the measured part.
    WarmUp,
    /// The measured part.
    Measure,
    /// Load after the measured part, and requests that were in flight when it ended.
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

/// Identifies one row of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    /// Stage of the trial.
    pub stage: Stage,
    /// Number of the iteration, from 1.
    pub iteration: u32,
    /// The operation or action.
    pub doing: Doing,
    /// How the requests ended.
    pub outcome: Outcome,
}

/// What one thread measured for one row in one second. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct Row {
    key: RowKey,
    /// Completed requests.
    pub requests: u64,
    /// Objects of those requests.
    pub objects: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Service time: from the first byte sent to the last received.
    pub service: Histogram<u64>,
    /// Time to first byte: from the first byte sent to the first received.
    pub first_byte: Option<Box<Histogram<u64>>>,
    /// Response time: from the intended start. Only under open load, where it differs from
    /// `service`.
    pub response: Option<Box<Histogram<u64>>>,
    /// Lag: from the intended start to the first byte sent. Only under open load.
    pub lag: Option<Box<Histogram<u64>>>,
    /// Service time of each successful part, for requests that have parts.
    pub part: Option<Box<Histogram<u64>>>,
    /// Failed parts.
    pub parts_failed: u64,
    /// Time that actions spent on encryption; only of actions that spent any.
    pub encryption: Option<Box<Histogram<u64>>>,
    /// Time that actions spent on wrapping keys; only of actions that spent any.
    pub wrapping: Option<Box<Histogram<u64>>>,
    /// Time that actions spent on hashing; only of actions that spent any.
    pub hashing: Option<Box<Histogram<u64>>>,
    /// Time that actions spent on encrypting paths; only of actions that spent any.
    pub paths: Option<Box<Histogram<u64>>>,
    /// From the begin of the first of these actions to the end of the last, since the trial's
    /// start.
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

/// Returns the smallest span that contains both.
fn wider(first: Option<(u64, u64)>, second: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (first, second) {
        (Some(first), Some(second)) => Some((first.0.min(second.0), first.1.max(second.1))),
        (first, second) => first.or(second),
    }
}

fn add(mine: &mut Histogram<u64>, theirs: &Histogram<u64>) {
    mine.add(theirs).expect("all histograms have the same bounds");
}

/// Intended start of a request, and whether it can differ from the actual start.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Intended {
    /// Closed load: when its client was free.
    WhenFree,
    /// Open load: at this time.
    At(u64),
}

/// One request, for the log. The record documents the columns. Times are nanoseconds since the
/// trial's start.
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

/// Maximum number of log rows that a thread keeps before it hands them over.
const LOG_ROWS_MAX: usize = 1 << 14;
/// Maximum number of bytes of a history that a thread keeps before it hands them over.
const HISTORY_BYTES_MAX: usize = CALL_BYTES << 12;

/// The rows of one second of one thread.
#[derive(Debug)]
pub(crate) struct Handover {
    pub thread: usize,
    /// Seconds since the trial's start.
    pub second: u64,
    pub rows: Vec<Row>,
    /// One row for each request, if requests are logged.
    pub log: Vec<LogRow>,
    /// Encoded calls, if a history is kept.
    pub history: Vec<u8>,
    /// The thread will send nothing more for this second or earlier ones.
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
    /// Creates a recorder that sends rows to `out` and takes emptied rows back from `spare`.
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

    /// Sets the start from which seconds count, if it was unknown when the recorder was created.
    pub(crate) fn start_at(&mut self, trial_start_ns: u64) {
        self.trial_start_ns = trial_start_ns;
        self.second_end_ns = trial_start_ns + SECOND_NS;
        self.second = 0;
    }

    /// Logs every request from now on.
    pub(crate) fn log_requests(&mut self) {
        self.log = Some(Vec::with_capacity(LOG_ROWS_MAX));
    }

    /// Logs one completed request, if requests are logged.
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

    /// Returns the number of the recorder's thread.
    pub(crate) fn thread(&self) -> u32 {
        self.thread as u32
    }

    /// Adds a call to the history.
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
        // The collector is gone only while the trial is torn down.
        let _ = self.out.send(batch);
    }

    /// Counts one completed request.
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

    /// Counts one completed action, and its time spent on cryptography.
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

    /// Counts requests that were due at one time and not sent by another.
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

    /// Sends all seconds that ended before `now_ns`.
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

    /// Returns whether a second has ended whose rows have not been sent.
    #[must_use]
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.second_end_ns
    }

    /// Sends the remaining rows.
    pub(crate) fn finish(&mut self) {
        self.hand_over(self.second_end_ns);
        self.send(Vec::new(), Some(u64::MAX));
    }

    #[inline]
    fn row(&mut self, key: RowKey) -> &mut Row {
        // There are only a few rows, the busiest first, so a scan is faster than a map.
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
    fn a_second_is_complete_when_every_thread_has_passed_it() {
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
    fn response_time_counts_from_the_intended_start() {
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
