//! Errors of ours: what keeps a trial from running. What a target answers under load is an
//! [`Outcome`](crate::outcome::Outcome), not an error.

use std::io;

use crate::secrecy::foreign_text;

/// Separates a message from its hint, and one hint from the next.
pub(crate) const HINT: &str = "\nhint: ";

/// Why a trial cannot run or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The document is not a trial, or asks for what cannot be; one mistake a line.
    #[error("{}", .0.join("\n"))]
    Trial(Vec<String>),
    /// The target, its credentials or its buckets are not as they must be before load starts.
    #[error("{what}: {came_back}{}", hint_line(.hint))]
    Target {
        /// What sort of error it is, for programs.
        kind: Kind,
        /// What was tried, on what.
        what: String,
        /// What came back.
        came_back: String,
        /// What to do.
        hint: Option<String>,
        /// Whether the target said no, so that what was asked of it is known not to be done.
        is_refusal: bool,
    },
    /// The machine refused something that the load generator itself needs.
    #[error("{what}: {source}")]
    Host {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

macro_rules! kinds {
    ($($kind:ident $word:literal $doc:literal;)*) => {
        /// What is wrong with a target: unlike an error's words, this stays.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = $doc] $kind),*
        }

        impl Kind {
            /// The words of all kinds.
            pub const WORDS: &[&str] = &[$($word),*];

            /// Returns its word, as `loadstone --errors json` prints it.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$kind => $word),*
                }
            }
        }
    };
}

kinds! {
    Other         "target"          "Any other error, or one whose cause is unknown.";
    NotOurs       "not-ours"        "Something is there that loadstone did not make.";
    OfAnotherRun  "of-another-run"  "Another run of loadstone's made it.";
    Copied        "copied"          "It is a copy of what a run of loadstone's made.";
    SecretAbsent  "secret-absent"   "This host lacks a secret, or has one that has expired.";
    Denied        "denied"          "The target does not know who asks, or does not allow it.";
    UnknownKey    "unknown-key"     "The target does not know the access key.";
    WrongSignature "wrong-signature" "The target does not take the signature: the secret is wrong, or the region.";
    Clock         "clock"           "The clocks of this host and the target are too far apart.";
    Unreachable   "unreachable"     "The target does not answer.";
    Certificates  "certificates"    "TLS could not be set up with the target.";
    TargetAbsent  "target-absent"   "What the load needs is not there: a pool, a directory, a device.";
    NoSpace       "no-space"        "The target has no room.";
    InUse         "in-use"          "Something else uses it: it is mounted, or part of an array.";
    Unsupported   "unsupported"     "The target cannot do what the trial asks for.";
}

impl Kind {
    fn of_system(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::TargetAbsent,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            io::ErrorKind::ResourceBusy => Self::InUse,
            io::ErrorKind::TimedOut
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
            | io::ErrorKind::StaleNetworkFileHandle => Self::Unreachable,
            io::ErrorKind::Unsupported | io::ErrorKind::FileTooLarge => Self::Unsupported,
            _ => Self::Other,
        }
    }
}

fn hint_line(hint: &Option<String>) -> String {
    hint.as_ref().map_or_else(String::new, |hint| format!("{HINT}{hint}"))
}

impl Error {
    /// Makes the error of a target, whose words are made fit for people.
    pub fn target(what: impl Into<String>, came_back: impl Into<String>) -> Self {
        let came_back = foreign_text(&came_back.into());
        // A redirect says what to do; an inner error brings its own hint.
        let (came_back, hint) = match came_back.split_once(HINT) {
            Some((came_back, hint)) => (came_back.to_owned(), Some(hint.to_owned())),
            None => (came_back, None),
        };
        let what = foreign_text(&what.into());
        Self::Target { kind: Kind::Other, what, came_back, hint, is_refusal: false }
    }

    /// Makes the error of a target's file or device that the kernel did not do something with.
    pub(crate) fn system(what: impl Into<String>, error: &io::Error) -> Self {
        Self::target(what, error.to_string()).of(Kind::of_system(error))
    }

    /// Says what sort of error of a target it is.
    #[must_use]
    pub fn of(mut self, found: Kind) -> Self {
        if let Self::Target { kind, .. } = &mut self {
            *kind = found;
        }
        self
    }

    /// Adds what the user can do, to what else it says.
    #[must_use]
    pub fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Target { hint, .. } = &mut self {
            let text = text.into();
            *hint = Some(hint.take().map_or_else(|| text.clone(), |first| first + HINT + &text));
        }
        self
    }

    /// Returns what went wrong, and what the user can do, as two texts.
    #[must_use]
    pub fn into_parts(self) -> (String, Option<String>) {
        match self {
            Self::Target { what, came_back, hint, .. } => (format!("{what}: {came_back}"), hint),
            other => (other.to_string(), None),
        }
    }

    /// Notes whether the target said no, instead of leaving open what became of it.
    #[must_use]
    pub(crate) fn refused_if(mut self, is_no: bool) -> Self {
        if let Self::Target { is_refusal, .. } = &mut self {
            *is_refusal = is_no;
        }
        self
    }

    /// Returns what sort of error it is; only that of a target has one.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Target { kind, .. } => *kind,
            _ => Kind::Other,
        }
    }

    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Target { is_refusal: true, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_that_came_back_is_a_hint() {
        let error = Error::target("log in", "HTTP 301\nhint: go elsewhere").with_hint("look at it");
        let shown = error.to_string();
        let (message, hint) = error.into_parts();
        assert_eq!(message, "log in: HTTP 301");
        assert_eq!(hint.as_deref(), Some("go elsewhere\nhint: look at it"));
        assert_eq!(shown, format!("{message}{HINT}{}", hint.unwrap()));
    }

    #[test]
    fn what_the_kernel_says_has_a_kind() {
        for (number, kind) in [
            (libc::ENOENT, Kind::TargetAbsent),
            (libc::EACCES, Kind::Denied),
            (libc::EDQUOT, Kind::NoSpace),
            (libc::EBUSY, Kind::InUse),
            (libc::ECONNREFUSED, Kind::Unreachable),
            (libc::EFBIG, Kind::Unsupported),
            (libc::EIO, Kind::Other),
        ] {
            let error = Error::system("open it", &io::Error::from_raw_os_error(number));
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
