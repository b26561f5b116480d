//! Errors that keep a trial from running. A target's answer under load is an
//! [`Outcome`](crate::outcome::Outcome), not an error.

use std::io;

use crate::secrecy::foreign_text;

/// Separates a message from its hint, and hints from each other.
pub(crate) const HINT: &str = "\nhint: ";

/// Why a trial cannot run or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The document is not a valid trial; one mistake per line.
    #[error("{}", .0.join("\n"))]
    Trial(Vec<String>),
    /// The target, its credentials or its buckets are not in the state that the load requires.
    #[error("{what}: {came_back}{}", hint_line(.hint))]
    Target {
        /// Kind of the error, for programs.
        kind: Kind,
        /// The action, and the resource that it applied to.
        what: String,
        /// The target's answer.
        came_back: String,
        /// Advice for the user.
        hint: Option<String>,
        /// Whether the target refused, so that the request is known not to be executed.
        is_refusal: bool,
    },
    /// The host refused something that the load generator itself needs.
    #[error("{what}: {source}")]
    Host {
        /// The action.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

macro_rules! kinds {
    ($($kind:ident $word:literal $doc:literal;)*) => {
        /// The kind of a target's error. Unlike the error's text, it is stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = $doc] $kind),*
        }

        impl Kind {
            /// The names of all kinds.
            pub const WORDS: &[&str] = &[$($word),*];

            /// Returns the name of the kind, as `loadstone --errors json` prints it.
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
    /// Creates the error of a target. Makes the text readable and safe to print.
    pub fn target(what: impl Into<String>, came_back: impl Into<String>) -> Self {
        let came_back = foreign_text(&came_back.into());
        // A redirect already suggests what to do, and an inner error brings its own hint.
        let (came_back, hint) = match came_back.split_once(HINT) {
            Some((came_back, hint)) => (came_back.to_owned(), Some(hint.to_owned())),
            None => (came_back, None),
        };
        let what = foreign_text(&what.into());
        Self::Target { kind: Kind::Other, what, came_back, hint, is_refusal: false }
    }

    /// Creates the error of an operation that the kernel failed on a target's file or device.
    pub(crate) fn system(what: impl Into<String>, error: &io::Error) -> Self {
        Self::target(what, error.to_string()).of(Kind::of_system(error))
    }

    /// Sets the kind of a target's error.
    #[must_use]
    pub fn of(mut self, new_kind: Kind) -> Self {
        if let Self::Target { kind, .. } = &mut self {
            *kind = new_kind;
        }
        self
    }

    /// Adds a hint to those that the error has.
    #[must_use]
    pub fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Target { hint, .. } = &mut self {
            let text = text.into();
            *hint = Some(hint.take().map_or_else(|| text.clone(), |first| first + HINT + &text));
        }
        self
    }

    /// Returns the message and the hint.
    #[must_use]
    pub fn into_parts(self) -> (String, Option<String>) {
        match self {
            Self::Target { what, came_back, hint, .. } => (format!("{what}: {came_back}"), hint),
            other => (other.to_string(), None),
        }
    }

    /// Records whether the target refused, rather than leaving the state of the request unknown.
    #[must_use]
    pub(crate) fn refused_if(mut self, is_no: bool) -> Self {
        if let Self::Target { is_refusal, .. } = &mut self {
            *is_refusal = is_no;
        }
        self
    }

    /// Returns the kind of the error; only errors of a target have a specific one.
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
    fn a_hint_of_an_inner_error_stays_a_hint() {
        let error = Error::target("log in", "HTTP 301\nhint: go elsewhere").with_hint("look at it");
        let shown = error.to_string();
        let (message, hint) = error.into_parts();
        assert_eq!(message, "log in: HTTP 301");
        assert_eq!(hint.as_deref(), Some("go elsewhere\nhint: look at it"));
        assert_eq!(shown, format!("{message}{HINT}{}", hint.unwrap()));
    }

    #[test]
    fn errors_of_the_kernel_have_a_kind() {
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
