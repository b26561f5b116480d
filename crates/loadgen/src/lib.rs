//! The load generator: takes a trial document, returns intervals and a summary.
//!
//! In reading order: [`trial`] is the document, [`run`] executes it, and `run::worker` is the hot
//! loop. `requests` and `schedule` decide what is requested and when, [`drivers`] send the requests
//! with the parts in `transport`, and [`recorder`] counts. `reactor` is the event loop of a load
//! thread. Nothing here knows of Python, campaigns or reports.

pub mod dataset;
pub mod drivers;
pub mod error;
pub mod facts;
pub mod object_list;
pub mod operation;
pub mod payload;
pub mod recorder;
pub mod run;
pub mod secrecy;
pub mod settings;
pub mod trial;

mod asker;
mod chance;
mod check;
mod clock;
mod credentials;
mod cryptography;
mod driver;
mod history;
mod ledger;
mod outcome;
mod ownership;
mod portion;
mod reactor;
mod requests;
mod schedule;
mod script;
mod transport;

pub use asker::Asker;
pub use clock::thread_cpu_ns;
pub use credentials::{Sent, keep_sent, profile_commands};
pub use history::{judge_history, on_clock};
pub use recorder::{encode, histogram};
pub use script::ACTION_KINDS_MAX;
pub use transport::disk::is_in_kernel_folder;
pub use transport::identity::volume_of;
pub use transport::raw::{RawAnswer, RawRequest, Signing};
