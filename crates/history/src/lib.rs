//! Judges histories: decides whether a register for each key could have given the answers that its
//! calls got.
//!
//! A history contains the calls on each key, each with the time interval in which it was executed.
//! [`judge_key`] judges one key and explains contradictions; [`judge_files`] does so for all keys
//! in files, in bounded memory.
//!
//! Keys that are only read and overwritten are decided in O(n log n), since all values differ, with
//! the zones of Gibbons and Korach, "Testing Shared Memories", SIAM J. Comput. 26(4), 1997. With
//! deletes or conditions, a linearization is searched for: the algorithm of Wing and Gong, "Testing
//! and Verifying Concurrent Objects", J. Parallel Distrib. Comput. 17, 1993, with the memoization
//! of Lowe, "Testing for Linearizability", Concurrency Computat. 29(4), 2017. A search that reaches
//! its limit leaves the key undecided.

mod call;
mod explain;
mod files;
mod key;
mod lists;
mod search;
mod zones;

pub use call::{
    ABSENT, Action, CALL_BYTES, Call, Damage, LISTING_KEYS, Listing, UNANSWERED, set_times,
    times_of,
};
pub use explain::{Anomaly, Kind, Staleness};
pub use files::{Initials, Judgement, Quantiles, judge_files};
pub use key::{Initial, KeyJudgement, Model, Standing, judge_key};

#[cfg(test)]
mod tests;
