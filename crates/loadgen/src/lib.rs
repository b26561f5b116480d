//! The load generator: a trial document in, intervals and a summary out.
//!
//! In reading order: [`trial`] is what is asked, [`run`] carries it out, and `worker` is the hot
//! loop. `requests` and [`schedule`] decide what is asked of the target and when, [`drivers`]
//! ask it with the parts in `transport`, [`recorder`] counts. [`reactor`] is what a load thread runs
//! on. Nothing here knows of Python, campaigns or reports.

pub mod batch;
pub mod chance;
pub mod clock;
pub mod credentials;
pub mod dataset;
pub mod drivers;
pub mod error;
pub mod facts;
pub mod live;
pub mod operation;
pub mod outcome;
pub mod ownership;
pub mod payload;
pub mod reactor;
pub mod recorder;
pub mod run;
pub mod schedule;
pub mod secrecy;
pub mod settings;
pub mod trial;

mod buckets;
mod check;
mod driver;
mod hiccup;
mod output;
mod oversleep;
#[cfg(test)]
mod published;
mod requests;
mod shared;
mod summary;
mod transport;
mod unwritten;
mod worker;
