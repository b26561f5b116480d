//! The requests of a script: in order within each session, one at a time; sessions run
//! concurrently.
//!
//! Session s belongs to host s modulo the number of hosts, and on that host to load thread (s
//! divided by the number of hosts) modulo the number of threads. A free client takes the next
//! action of one of its thread's sessions: a random one, or the first due one if actions have
//! times. It sends all requests of the action. Sessions that create users run first, one by one, on
//! the first thread of the first host; audits run last, after the sessions of all threads of all
//! hosts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::chance::{mix64, unit};
use crate::cryptography::Spent;
use crate::dataset::Object;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::requests::{Next, Request, Subject};
use crate::script::{self, Expected, Row, Rows, Turn};
use crate::trial::{Portion, Trial};

/// How long a client sleeps before it checks again whether other threads' sessions have ended.
const LOOK_NS: u64 = 1_000_000;
/// The same while only other hosts' sessions are missing, which may take long.
const LOOK_AT_HOSTS_NS: u64 = 5_000_000;

/// A completed action.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedAction {
    /// Number of its kind in the script.
    pub(crate) action: u8,
    pub(crate) due_ns: u64,
    /// Its requests combined: from the begin of the action to the end of the last request, with the
    /// outcome of the first failure. `objects` is the number of requests.
    pub(crate) whole: Completion,
    /// Time that its requests together spent on cryptography.
    pub(crate) spent: Spent,
}

/// The sessions of one load thread.
#[derive(Debug)]
pub(crate) struct Sessions {
    script: Arc<script::Script>,
    portion: Portion,
    thread: u32,
    threads: u32,
    verify: f64,
    /// The version that reads ask for if a history is kept: any version; the answer shows which
    /// one.
    any_version: Option<u64>,
    seed: u64,
    drawn: u64,
    /// The current turn, as this thread knows it.
    turn: Turn,
    ready: Ready,
    /// The current action of each client of the thread.
    under_way: Vec<Option<UnderWay>>,
}

/// A session that waits for a client: its next row, and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due_ns: u64,
    row: u64,
    end: u64,
}

#[derive(Debug)]
enum Ready {
    /// In no particular order.
    Whenever(Vec<Waiting>),
    /// The first due session on top.
    AtTimes(BinaryHeap<Reverse<Waiting>>),
}

/// An action that a client has begun: its next row, the end of its session, and its requests so
/// far.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    row: u64,
    end: u64,
    due_ns: u64,
    whole: Option<Completion>,
    spent: Spent,
}

impl Ready {
    fn push(&mut self, waiting: Waiting) {
        match self {
            Self::Whenever(all) => all.push(waiting),
            Self::AtTimes(heap) => heap.push(Reverse(waiting)),
        }
    }
}

impl Sessions {
    pub(super) fn new(
        trial: &Trial,
        script: Arc<script::Script>,
        thread: usize,
        threads: usize,
        clients: u32,
    ) -> Self {
        let own_clients = (clients as usize).div_ceil(threads);
        let ready = match script.speed {
            None => Ready::Whenever(Vec::new()),
            Some(_) => Ready::AtTimes(BinaryHeap::new()),
        };
        let portion = script.progress.portion();
        let mut sessions = Self {
            script,
            portion,
            thread: thread as u32,
            threads: threads as u32,
            verify: trial.verify,
            any_version: trial.keeps_history.then(|| script::any_version(trial.dataset.size.max())),
            seed: mix64(trial.chance_seed() ^ mix64(portion.number(thread as u64))),
            drawn: 0,
            turn: Turn::First,
            ready,
            under_way: vec![None; own_clients],
        };
        if sessions.script.progress.first_left() > 0 && thread == 0 {
            sessions.await_turn(0);
        }
        sessions
    }

    fn rows(&self) -> &Rows {
        self.script.rows.as_ref().expect("a source is made of scripts with requests only")
    }

    /// Makes a session wait for a client.
    fn await_turn(&mut self, session: u32) {
        let rows = self.rows().of_session(session);
        self.await_row(rows.start, rows.end);
    }

    fn await_row(&mut self, row: u64, end: u64) {
        let due_ns = self.due_of(row);
        self.ready.push(Waiting { due_ns, row, end });
    }

    /// Returns when a row is due, relative to the script's begin.
    fn due_of(&self, row: u64) -> u64 {
        let Some(speed) = self.script.speed else { return 0 };
        let due_ns = self.rows().row(row).due_ns.unwrap_or(0);
        (due_ns as f64 / speed) as u64
    }

    /// Switches to the sessions of the next turn, if it has begun.
    fn turn_on(&mut self) {
        for (turn, next) in [(Turn::First, Turn::Middle), (Turn::Middle, Turn::Last)] {
            if self.turn == turn && self.script.progress.may_follow(turn) {
                self.turn = next;
                self.await_mine(next);
            }
        }
    }

    fn await_mine(&mut self, turn: Turn) {
        let (Portion { index, of }, thread, threads) = (self.portion, self.thread, self.threads);
        for session in self.rows().sessions_of(turn) {
            if session % of == index && session / of % threads == thread {
                self.await_turn(session);
            }
        }
    }

    /// Returns when the next request of a client is due.
    pub(super) fn due_ns(&mut self, client: usize, now_ns: u64) -> u64 {
        if self.under_way[client].is_some() {
            return now_ns;
        }
        if self.turn != Turn::Last {
            self.turn_on();
        }
        match &self.ready {
            Ready::Whenever(_) => now_ns,
            Ready::AtTimes(heap) => heap.peek().map_or(now_ns, |Reverse(first)| {
                self.script.begun_ns(now_ns).saturating_add(first.due_ns)
            }),
        }
    }

    /// Returns the next request of a client: of its action, or the first of another.
    #[inline]
    pub(super) fn next(&mut self, client: usize, due_ns: u64) -> Next {
        if self.under_way[client].is_none() {
            let Some(Waiting { row, end, .. }) = self.take() else { return self.nothing(due_ns) };
            self.under_way[client] =
                Some(UnderWay { row, end, due_ns, whole: None, spent: Spent::default() });
        }
        let row = self.under_way[client].expect("it has just been filled").row;
        Next::Request(self.request(row))
    }

    fn take(&mut self) -> Option<Waiting> {
        match &mut self.ready {
            Ready::AtTimes(heap) => heap.pop().map(|Reverse(waiting)| waiting),
            Ready::Whenever(all) if all.is_empty() => None,
            Ready::Whenever(all) => {
                self.drawn += 1;
                let chance = mix64(self.seed ^ mix64(self.drawn));
                let chosen = (u128::from(chance) * all.len() as u128) >> 64;
                Some(all.swap_remove(chosen as usize))
            }
        }
    }

    /// Returns what a client does when no session is ready.
    fn nothing(&self, now_ns: u64) -> Next {
        let is_to_come = match self.turn {
            Turn::First => true,
            Turn::Middle => self.rows().last_sessions > 0,
            Turn::Last => false,
        };
        if !is_to_come {
            // Each session in progress has a client that continues it.
            return Next::Busy;
        }
        let is_alone = self.script.progress.has_ended(self.turn);
        Next::Later(now_ns + if is_alone { LOOK_AT_HOSTS_NS } else { LOOK_NS })
    }

    fn request(&self, number: u64) -> Request {
        let row = self.rows().row(number);
        let subject = match row.operation {
            Operation::List => {
                let mut listing = row.listing;
                if self.script.progress.is_doubted(row.subject) {
                    listing.entries = u32::MAX;
                }
                Subject::Listing(listing)
            }
            operation => Subject::Object(Object {
                index: u64::from(row.subject),
                version: self
                    .any_version
                    .filter(|_| operation == Operation::Get)
                    .unwrap_or(version_of(&row)),
            }),
        };
        let is_verified = self.any_version.is_some()
            || row.expected == Expected::There
                && (self.verify >= 1.0 || unit(mix64(self.seed ^ mix64(!number))) < self.verify);
        Request { operation: row.operation, subject, chance: 0, is_verified }
    }

    /// Handles the end of a client's request, given the time at which the client began it and the
    /// version that it read. Corrects its outcome by the script, and returns the action if this
    /// request was its last.
    pub(super) fn judge(
        &mut self,
        client: usize,
        began_ns: u64,
        spent: Spent,
        version: u64,
        completion: &mut Completion,
    ) -> Option<EndedAction> {
        let mut action = self.under_way[client].take()?;
        let row = self.rows().row(action.row);
        if self.any_version.is_some() && row.operation == Operation::Get {
            completion.outcome = of_version(&row, version, completion.outcome);
        }
        completion.outcome = self.corrected(&row, completion.outcome);
        let whole = match action.whole {
            // Work of the client before it sends anything is part of the time that the user waits.
            None => Completion { objects: 1, sent_ns: began_ns, ..*completion },
            Some(whole) => Completion {
                outcome: if whole.outcome.is_ok() { completion.outcome } else { whole.outcome },
                sent_ns: whole.sent_ns,
                // Several answers have no common first byte.
                first_byte_ns: 0,
                ended_ns: completion.ended_ns,
                bytes: whole.bytes + completion.bytes,
                objects: whole.objects + 1,
                verified_bytes: whole.verified_bytes + completion.verified_bytes,
            },
        };
        action.row += 1;
        action.spent += spent;
        if !row.is_last {
            self.under_way[client] = Some(UnderWay { whole: Some(whole), ..action });
            return None;
        }
        if action.row < action.end {
            self.await_row(action.row, action.end);
        } else {
            self.end_session();
        }
        Some(EndedAction { action: row.action, due_ns: action.due_ns, whole, spent: action.spent })
    }

    fn end_session(&mut self) {
        match self.turn {
            Turn::First => {
                let all = self.rows().first_sessions;
                self.script.progress.end_first();
                let left = self.script.progress.first_left();
                if left > 0 {
                    self.await_turn(all - left);
                }
            }
            Turn::Middle => self.script.progress.end_middle(),
            Turn::Last => {}
        }
    }

    /// Returns the outcome in view of the script's state.
    fn corrected(&self, row: &Row, outcome: Outcome) -> Outcome {
        let (progress, subject) = (&self.script.progress, row.subject);
        match (row.operation, row.expected) {
            (Operation::Put, _) if outcome.is_ok() => {
                progress.settle(subject);
                outcome
            }
            (Operation::Put, _) => {
                progress.doubt(subject, &self.script.subjects);
                outcome
            }
            (Operation::List, _) => outcome,
            (Operation::Delete, expected) => {
                let judged = match expected {
                    Expected::There if outcome.is_absent() => self.missing(subject),
                    Expected::Any | Expected::Absent if outcome.is_absent() => Outcome::OK,
                    _ => outcome,
                };
                if judged.is_ok() {
                    progress.settle(subject);
                } else {
                    progress.doubt(subject, &self.script.subjects);
                }
                judged
            }
            (_, Expected::There) if outcome.is_absent() => self.missing(subject),
            // A failed request may have changed the object, so this is not another failure of the
            // store.
            (_, Expected::There) if is_other_content(outcome) && progress.is_doubted(subject) => {
                Outcome::UNWRITTEN
            }
            (_, Expected::Absent) if outcome.is_absent() => Outcome::OK,
            // A target that keeps nothing is not verified.
            (_, Expected::Absent) if self.verify <= 0.0 => outcome,
            (_, Expected::Absent) if outcome.is_ok() || is_other_content(outcome) => {
                if progress.is_doubted(subject) { Outcome::UNWRITTEN } else { Outcome::EXTRA }
            }
            // The state of the object is unknown: any length is right, and so is an absent object.
            (_, Expected::Any) if outcome.is_absent() || is_other_content(outcome) => Outcome::OK,
            _ => outcome,
        }
    }

    fn missing(&self, subject: u32) -> Outcome {
        let is_doubted = self.script.progress.is_doubted(subject);
        if is_doubted { Outcome::UNWRITTEN } else { Outcome::MISSING }
    }
}

/// Returns the version that a row writes or expects.
fn version_of(row: &Row) -> u64 {
    script::version_of(row.version, row.size)
}

/// Returns the outcome of a read whose content was right in some version.
fn of_version(row: &Row, version: u64, outcome: Outcome) -> Outcome {
    if row.expected != Expected::There || !outcome.is_ok() {
        return outcome;
    }
    match version.cmp(&version_of(row)) {
        std::cmp::Ordering::Less => Outcome::STALE,
        std::cmp::Ordering::Equal => outcome,
        std::cmp::Ordering::Greater => Outcome::PHANTOM,
    }
}

/// Returns whether an object existed, but with other content than expected.
fn is_other_content(outcome: Outcome) -> bool {
    outcome.is_mismatch() || matches!(outcome, Outcome::TRUNCATED | Outcome::OVERLONG)
}

#[cfg(test)]
mod tests;
