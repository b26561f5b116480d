//! The drivers: one file for each way of reaching a kind of target, and the table of them.

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

/// Makes the table: a row is a file of this folder and the type in it that is the driver.
macro_rules! drivers {
    ($($(#[$when:meta])* $file:ident::$driver:ident $(.$mark:ident())?,)*) => {
        /// Every driver, in the order in which lists show them.
        pub const DRIVERS: &[DriverInfo] =
            &[$($(#[$when])* DriverInfo::of::<$file::$driver>()$(.$mark())?,)*];

        /// Shows the driver of a name to a visitor; `None` if there is none.
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

/// Does something with whichever driver a trial names; it is compiled for each.
pub(crate) trait Visitor {
    /// What comes of it.
    type Output;

    /// Is shown the driver.
    fn visit<D: Driver>(self) -> Self::Output;
}

/// A row of the table: what the rest of the program needs of a driver, already monomorphised.
#[derive(Clone, Copy)]
pub struct DriverInfo {
    /// The name in campaigns.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// What it can do.
    pub operations: &'static [Operation],
    /// Its own keys of a target.
    pub settings: &'static [Setting],
    /// What else is true of it.
    pub facts: Facts,
    /// Whether its clients can encrypt objects.
    pub encrypts: bool,
    /// Whether only tests use it.
    pub is_for_tests: bool,
    /// Returns the mistakes that only the driver sees.
    pub check: fn(&Trial) -> Vec<String>,
    /// Returns what a target lacks on this host beside its settings.
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

    /// Returns which secret of a target this host lacks; asks no server and runs no command.
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

    /// Returns what one word for a target means, such as `rados:POOL` or a URL.
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

    /// Returns the settings that a target does not give and its environment does, secrets by
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

    /// Tells whether the driver can do an operation.
    #[must_use]
    pub fn can(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }

    /// Returns the names of what the driver can do.
    #[must_use]
    pub fn operation_names(&self) -> Vec<&'static str> {
        self.operations.iter().map(|operation| operation.name()).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::run::loop_bytes;

    /// Of 10,000 connections each holds so much, beside what the kernel has for it.
    #[test]
    fn a_client_of_an_object_store_takes_at_most_4_kib() {
        for bytes in
            [loop_bytes::<super::s3::S3Client>(), loop_bytes::<super::swift::SwiftClient>()]
        {
            assert!(bytes <= 4096, "{bytes} bytes");
        }
    }
}
