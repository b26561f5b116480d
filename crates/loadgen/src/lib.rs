//! The load generator: a trial document in, intervals and a summary out.
//!
//! In reading order: [`trial`] is what is asked, [`run`] carries it out, and `worker` is the hot
//! loop. `requests` and `schedule` decide what is asked of the target and when, [`drivers`]
//! ask it with the parts in `transport`, `recorder` counts. `reactor` is what a load thread runs
//! on. Nothing here knows of Python, campaigns or reports.

pub mod dataset;
pub mod drivers;
pub mod encoded;
pub mod error;
pub mod facts;
pub mod operation;
pub mod payload;
pub mod run;
pub mod secrecy;
pub mod settings;
pub mod trial;

mod batch;
mod buckets;
mod chance;
mod check;
mod clock;
mod credentials;
mod driver;
mod hiccup;
mod hold;
mod live;
mod outcome;
mod output;
mod oversleep;
mod ownership;
#[cfg(test)]
mod published;
mod reactor;
mod recorder;
mod requests;
mod schedule;
mod script;
mod shared;
mod summary;
mod transport;
mod unwritten;
mod worker;

pub use batch::encode;
pub use clock::thread_cpu_ns;
pub use credentials::{Sent, keep_sent, profile_commands};
pub use recorder::histogram;
