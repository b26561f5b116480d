//! Decides whether there is an order of calls that a register could have executed.

use std::collections::HashSet;

/// The write that a reader sees, and its tag.
pub(super) type Value = Option<(u32, u32)>;

/// A client's request to a register, and the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    Read(Value),
    Write(u32),
    /// Writes if nothing exists.
    WriteNew(u32, bool),
    /// Writes if the current write is the first one named.
    WriteOver(u32, u32, bool),
    /// Whether something existed.
    Delete(bool),
    /// Tags the current write, if there is one.
    Tag(u32, bool),
}

/// An operation of a history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) action: Action,
    pub(super) called: u64,
    /// For a call without an answer: when the store was killed or ended.
    pub(super) answered: u64,
    /// Whether there was no answer: it may have been executed or not, and may have another result.
    pub(super) is_open: bool,
}

/// Returns the state after an action, or `None` if the answer contradicts the state.
fn apply(action: Action, state: Value, is_open: bool) -> Option<Value> {
    let (allowed, next) = match action {
        Action::Read(value) => (value == state, state),
        Action::Write(write) => (true, Some((write, 0))),
        Action::WriteNew(write, done) => match state {
            None => (done, Some((write, 0))),
            Some(_) => (!done, state),
        },
        Action::WriteOver(old, write, done) => match state {
            Some((now, _)) if now == old => (done, Some((write, 0))),
            _ => (!done, state),
        },
        Action::Delete(existed) => (existed == state.is_some(), None),
        Action::Tag(tag, done) => match state {
            Some((write, _)) => (done, Some((write, tag))),
            None => (!done, None),
        },
    };
    (allowed || is_open).then_some(next)
}

/// Returns whether a register that is initially empty could have given these answers.
pub(super) fn is_linearizable(calls: &[Call]) -> bool {
    assert!(calls.len() <= 128, "a history fits into the bits of a state");
    let mut visited = HashSet::new();
    let mut waiting = vec![(0_u128, None)];
    let all = if calls.len() == 128 { u128::MAX } else { (1 << calls.len()) - 1 };
    while let Some((done, state)) = waiting.pop() {
        if done == all {
            return true;
        }
        if !visited.insert((done, state)) {
            continue;
        }
        let rest = || (0..calls.len()).filter(|at| done & (1 << at) == 0);
        let first_answer = rest().map(|at| calls[at].answered).min().unwrap_or(u64::MAX);
        // A call that was made after another one was answered comes after it.
        for at in rest().filter(|at| calls[*at].called <= first_answer) {
            let done = done | (1 << at);
            if let Some(next) = apply(calls[at].action, state, calls[at].is_open) {
                waiting.push((done, next));
            }
            if calls[at].is_open {
                waiting.push((done, state));
            }
        }
    }
    false
}

fn call(action: Action, called: u64, answered: u64) -> Call {
    Call { action, called, answered, is_open: false }
}

fn open_call(action: Action, called: u64, answered: u64) -> Call {
    Call { is_open: true, ..call(action, called, answered) }
}

#[test]
fn the_checker_finds_lost_stale_and_resurrected_writes() {
    let put = call(Action::Write(1), 0, 1);
    let (read_first, read_nothing) = (Action::Read(Some((1, 0))), Action::Read(None));
    assert!(is_linearizable(&[put, call(read_first, 2, 3)]));
    assert!(!is_linearizable(&[put, call(read_nothing, 2, 3)]), "lost");
    assert!(is_linearizable(&[put, call(read_nothing, 0, 3)]), "at once");
    let over = call(Action::Write(2), 4, 5);
    assert!(!is_linearizable(&[put, over, call(read_first, 6, 7)]), "stale");
    let delete = call(Action::Delete(true), 4, 5);
    assert!(!is_linearizable(&[put, delete, call(read_first, 6, 7)]), "resurrected");
    assert!(!is_linearizable(&[put, call(Action::Delete(false), 4, 5)]));
    assert!(!is_linearizable(&[put, call(Action::WriteNew(2, true), 4, 5)]));
    let (first, second) = (Action::WriteNew(1, true), Action::WriteNew(2, true));
    assert!(!is_linearizable(&[call(first, 0, 3), call(second, 1, 4)]), "both were first");
    assert!(!is_linearizable(&[put, call(Action::WriteOver(1, 2, false), 4, 5)]));
    assert!(!is_linearizable(&[put, call(Action::Tag(9, true), 2, 3), call(read_first, 4, 5)]));
    assert!(!is_linearizable(&[put, call(Action::Tag(9, false), 2, 3)]), "it was there");
}

#[test]
fn the_checker_lets_an_unanswered_write_happen_once_or_never_but_not_after_the_kill() {
    let put = open_call(Action::Write(1), 0, 10);
    let (read_first, read_nothing) = (Action::Read(Some((1, 0))), Action::Read(None));
    assert!(is_linearizable(&[put, call(read_first, 11, 12)]));
    assert!(is_linearizable(&[put, call(read_nothing, 11, 12)]));
    assert!(!is_linearizable(&[put, call(read_nothing, 11, 12), call(read_first, 13, 14)]));
    assert!(!is_linearizable(&[put, call(read_first, 2, 3), call(read_nothing, 4, 5)]));
}
