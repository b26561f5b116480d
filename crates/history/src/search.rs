//! Searches for a linearization of the calls on a key, depth first with memoized states.
//!
//! Calls that change nothing are linearized as soon as possible; the others are tried in turn. Each
//! value is written once, so it must not be overwritten while a call that reads it is left.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use crate::call::{ABSENT, Call};

/// Limit of a search in steps: a fixed number, and an additional one for each call.
const STEPS_MIN: usize = 100_000;
const STEPS_PER_CALL: usize = 64;
/// Window, after the first remaining call, in which calls can be linearized: the number of bits in
/// a state.
const AHEAD_MAX: usize = 128;

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// There is a linearization.
    Order,
    /// There is none; the attempt that came farthest failed before the answer of the call at this
    /// index.
    NoOrder(usize),
    /// The search reached its limit.
    Nothing,
}

/// Replaces every value that no answered call reads, because they need not be distinguished.
const UNSEEN: u64 = u64::MAX;

/// The linearized calls (the first `first` calls, and later ones whose bit is set), and the
/// register's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    first: u32,
    done: u128,
    value: u64,
}

impl State {
    fn has_done(&self, place: usize) -> bool {
        let first = self.first as usize;
        place < first || (place - first < AHEAD_MAX && self.done >> (place - first) & 1 == 1)
    }

    fn mark(&mut self, place: usize) {
        self.done |= 1 << (place - self.first as usize);
        let ahead = self.done.trailing_ones();
        self.first += ahead;
        self.done = if ahead == AHEAD_MAX as u32 { 0 } else { self.done >> ahead };
    }
}

/// States differ only in their low bits; a general hash function would cost more than the search.
#[derive(Debug, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }
}

/// The calls of a key in the order of their begins, and the readers of each value.
struct Search<'a> {
    calls: &'a [Call],
    /// Each value with the answered calls that read it, sorted.
    seers: Vec<(u64, u32)>,
}

/// Searches for a linearization of calls, which are sorted by their begins. The first value is one
/// of `initial`.
pub(crate) fn search(calls: &[Call], initial: &[u64]) -> SearchResult {
    let mut seers: Vec<(u64, u32)> = (0..)
        .zip(calls)
        .filter(|(_, call)| call.is_answered())
        .filter_map(|(place, call)| {
            Some((call.expected().filter(|value| *value != ABSENT)?, place))
        })
        .collect();
    seers.sort_unstable();
    Search { calls, seers }.run(initial)
}

impl Search<'_> {
    fn run(&self, initial: &[u64]) -> SearchResult {
        let mut tried: HashSet<State, BuildHasherDefault<Mix>> = HashSet::default();
        let value_of = |value: &u64| State { first: 0, done: 0, value: self.canonical(*value) };
        let mut waiting: Vec<State> = initial.iter().map(value_of).collect();
        let mut steps_left = STEPS_MIN + STEPS_PER_CALL * self.calls.len();
        let (mut stuck_at, mut stuck_ns) = (0, 0);
        let mut is_bounded = false;
        let mut next = Vec::new();
        while let Some(mut state) = waiting.pop() {
            if !tried.insert(state) {
                continue;
            }
            let Some(step) = self.ready(&mut state, &mut next) else { return SearchResult::Order };
            is_bounded |= step.is_cut;
            if steps_left < next.len() + 1 {
                return SearchResult::Nothing;
            }
            steps_left -= next.len() + 1;
            if step.due_ns >= stuck_ns {
                (stuck_at, stuck_ns) = (step.due, step.due_ns);
            }
            // Try the call with the earliest end first.
            next.sort_unstable_by_key(|place| std::cmp::Reverse(self.calls[*place].answered_ns));
            let children = next.iter().filter_map(|place| self.after(&state, *place, &next));
            waiting.extend(children);
        }
        if is_bounded { SearchResult::Nothing } else { SearchResult::NoOrder(stuck_at) }
    }

    /// Linearizes calls that change nothing, and finds those that may change the value next.
    /// Returns `None` if all answered calls are linearized.
    fn ready(&self, state: &mut State, next: &mut Vec<usize>) -> Option<Step> {
        loop {
            next.clear();
            let mut step = Step { due: 0, due_ns: u64::MAX, is_cut: false };
            let mut has_taken = false;
            for place in state.first as usize..self.calls.len() {
                let call = &self.calls[place];
                if call.called_ns > step.due_ns {
                    break;
                }
                if place - state.first as usize >= AHEAD_MAX {
                    step.is_cut = true;
                    break;
                }
                if state.has_done(place) {
                    continue;
                }
                let is_free = match call.written() {
                    None => call.value_after() == state.value,
                    Some(_) => state.value == UNSEEN && self.is_unseen(call),
                };
                if is_free {
                    // Its answer no longer limits which calls may come next.
                    state.mark(place);
                    has_taken = true;
                    break;
                }
                if call.answered_ns < step.due_ns {
                    (step.due, step.due_ns) = (place, call.answered_ns);
                }
                if call.written().is_some() {
                    next.push(place);
                }
            }
            if has_taken {
                continue;
            }
            return (step.due_ns != u64::MAX).then_some(step);
        }
    }

    /// Returns the state after a call that changes the value, if it may come next.
    fn after(&self, state: &State, place: usize, next: &[usize]) -> Option<State> {
        let call = &self.calls[place];
        if call.expected().is_some_and(|expected| expected != state.value) {
            return None;
        }
        if self.is_awaited(state, place) {
            return None;
        }
        let mut after = *state;
        after.mark(place);
        if call.expected().is_none() {
            // Concurrent writes of values that are never read may come right before it.
            for other in next.iter().filter(|other| **other != place) {
                if self.is_unseen(&self.calls[*other]) {
                    after.mark(*other);
                }
            }
        }
        after.value = self.canonical(call.value_after());
        Some(after)
    }

    /// Returns whether another call that reads the current value is left.
    fn is_awaited(&self, state: &State, by: usize) -> bool {
        if state.value == ABSENT || state.value == UNSEEN {
            return false;
        }
        self.seers_of(state.value).iter().any(|(_, seer)| {
            let seer = *seer as usize;
            seer != by && !state.has_done(seer)
        })
    }

    fn seers_of(&self, value: u64) -> &[(u64, u32)] {
        let begin = self.seers.partition_point(|(seer_value, _)| *seer_value < value);
        let count = self.seers[begin..].partition_point(|(seer_value, _)| *seer_value == value);
        &self.seers[begin..begin + count]
    }

    /// Returns whether a call is an unconditional write of a value that is never read.
    fn is_unseen(&self, call: &Call) -> bool {
        call.expected().is_none()
            && call.written().is_some_and(|value| self.canonical(value) == UNSEEN)
    }

    fn canonical(&self, value: u64) -> u64 {
        if value == ABSENT || !self.seers_of(value).is_empty() { value } else { UNSEEN }
    }
}

/// Earliest end of the remaining answered calls.
#[derive(Debug, Clone, Copy)]
struct Step {
    due: usize,
    due_ns: u64,
    /// Whether candidates were omitted because they lie beyond `AHEAD_MAX`.
    is_cut: bool,
}
