//! The drivers: one file for each way to reach a kind of target, and the table of them.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::credentials::dangling;
use crate::driver::Driver;
use crate::error::Error;
use crate::facts::{Facts, Filling, Word};
use crate::operation::Operation;
use crate::settings::Setting;
use crate::trial::Trial;

mod block;
mod file;
mod null;
mod rados;
mod s3;
mod simulated;
mod swift;
#[cfg(test)]
mod toy;
#[cfg(test)]
mod toy_http;
#[cfg(test)]
mod toy_remote;

/// Builds the table: a row names a file of this folder and its driver type.
macro_rules! drivers {
    ($($(#[$when:meta])* $file:ident::$driver:ident $(.$mark:ident())?,)*) => {
        /// Every driver, in the order of lists for users.
        pub const DRIVERS: &[DriverInfo] =
            &[$($(#[$when])* DriverInfo::of::<$file::$driver>()$(.$mark())?,)*];

        /// Calls a visitor with the driver of this name; `None` if there is none.
        pub(crate) fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $($(#[$when])* if name == <$file::$driver as Driver>::NAME {
                return Some(visitor.visit::<$file::$driver>());
            })*
            None
        }
    };
}

// To add a driver, write its file, and add its row here.
drivers! {
    rados::Rados,
    s3::S3,
    swift::Swift,
    file::FileTree,
    block::Block,
    null::Null,
    simulated::Simulated.for_tests(),
    #[cfg(test)]
    toy::Toy.for_tests(),
    #[cfg(test)]
    toy_http::ToyHttp.for_tests(),
    #[cfg(test)]
    toy_remote::ToyRemote.for_tests(),
}

/// Runs generic code for the driver that a trial names; it is compiled for each driver.
pub(crate) trait Visitor {
    /// Result of the visit.
    type Output;

    /// Is called with the driver.
    fn visit<D: Driver>(self) -> Self::Output;
}

/// A row of the table: what other code needs of a driver, already monomorphised.
#[derive(Clone, Copy)]
pub struct DriverInfo {
    /// Name in campaigns.
    pub name: &'static str,
    /// One line for users.
    pub summary: &'static str,
    /// Supported operations.
    pub operations: &'static [Operation],
    /// Its own keys of a target.
    pub settings: &'static [Setting],
    /// Other facts about the driver.
    pub facts: Facts,
    /// Whether its clients can encrypt objects.
    pub encrypts: bool,
    /// Whether only tests use it.
    pub is_for_tests: bool,
    /// Returns the mistakes that only the driver can find.
    pub check: fn(&Trial) -> Vec<String>,
    /// Returns what a target lacks on this host in addition to its settings.
    absent: fn(&Map<String, Value>) -> Option<Error>,
}

impl DriverInfo {
    const fn of<D: Driver>() -> Self {
        Self {
            name: D::NAME,
            summary: D::SUMMARY,
            operations: D::OPERATIONS,
            settings: D::SETTINGS,
            facts: D::FACTS,
            encrypts: D::ENCRYPTS,
            is_for_tests: false,
            check: D::check,
            absent: D::absent,
        }
    }

    const fn for_tests(mut self) -> Self {
        self.is_for_tests = true;
        self
    }

    /// Returns the secret of a target that this host lacks; contacts no server and runs no command.
    #[must_use]
    pub fn absent_secret(&self, settings: &Map<String, Value>) -> Option<Error> {
        dangling(settings, self.settings).or_else(|| (self.absent)(settings))
    }

    /// Returns the row of a driver.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        DRIVERS.iter().find(|info| info.name == name)
    }

    /// Returns the names of all drivers.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        DRIVERS.iter().filter(|info| !info.is_for_tests).map(|info| info.name).collect()
    }

    /// Parses the word that names a target, such as `rados:POOL` or a URL.
    #[must_use]
    pub fn read_word(text: &str) -> Option<Word> {
        let forms = DRIVERS.iter().flat_map(|info| {
            info.facts
                .forms
                .iter()
                .filter_map(|form| Some((form.rank(), form.read(info.name, text)?)))
        });
        forms.min_by_key(|(rank, _)| *rank).map(|(_, word)| word)
    }

    /// Returns the settings that the environment gives and the target does not, secrets by
    /// reference.
    #[must_use]
    pub fn from_environment(
        &self,
        given: &Map<String, Value>,
        environ: &HashMap<String, String>,
    ) -> Map<String, Value> {
        let mut filling = Filling::new(given, environ);
        (self.facts.fill)(&mut filling);
        filling.into_added()
    }

    /// Returns whether the driver supports an operation.
    #[must_use]
    pub fn can(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }

    /// Returns the names of the supported operations.
    #[must_use]
    pub fn operation_names(&self) -> Vec<&'static str> {
        self.operations.iter().map(|operation| operation.name()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::run::loop_bytes;

    /// 10,000 connections need this much memory each, in addition to the kernel's.
    #[test]
    fn a_client_of_an_object_store_takes_at_most_4_kib() {
        for bytes in
            [loop_bytes::<super::s3::S3Client>(), loop_bytes::<super::swift::SwiftClient>()]
        {
            assert!(bytes <= 4096, "{bytes} bytes");
        }
    }
}
