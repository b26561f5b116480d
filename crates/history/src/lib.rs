//! Judges histories: whether a register for each key could have given the answers that its calls got.
//!
//! A history has the calls on each key, each with the times between which it was carried out. [`judge_key`]
//! decides, and explains what cannot be; [`judge_files`] does so for all keys of files in bounded memory.
//!
//! Keys that are only read and overwritten are decided in O(n log n), since all values differ: by the zones of
//! Gibbons and Korach, "Testing Shared Memories", SIAM J. Comput. 26(4), 1997. Where there are deletes or
//! conditions, an order is searched for: as by Wing and Gong, "Testing and Verifying Concurrent Objects", J.
//! Parallel Distrib. Comput. 17, 1993, with the memory of Lowe, "Testing for Linearizability", Concurrency
//! Computat. 29(4), 2017. A search that ends at its bound leaves the key undecided.

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
