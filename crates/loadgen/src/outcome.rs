//! How a request ended: successfully, or with a failure of a kind that can be counted.

use std::borrow::Cow;
use std::io;

use loadstone_history::Damage;

use crate::error::Kind;
use crate::payload::Verdict;
use crate::script::SetVerdict;

/// The end of a request: `OK`, a kind of failure, or an HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Outcome(u16);

macro_rules! kinds {
    ($($number:literal $constant:ident $name:literal $doc:literal;)*) => {
        impl Outcome {
            $(#[doc = $doc] pub(crate) const $constant: Self = Self($number);)*
        }

        /// Every kind that is not an HTTP status: number, name, meaning.
        const KINDS: &[(Outcome, &str, &str)] = &[$((Outcome::$constant, $name, $doc)),*];
    };
}

kinds! {
    0  OK             "ok"             "The answer was as it should be.";
    1  DNS            "dns"            "The host's name has no address.";
    2  REFUSED        "refused"        "The connection was refused.";
    3  UNREACHABLE    "unreachable"    "No route to the host.";
    4  RESET          "reset"          "The peer reset the connection.";
    5  TIMEOUT        "timeout"        "No whole answer came in time.";
    6  TLS            "tls"            "The TLS handshake or stream failed.";
    7  CLOSED         "closed"         "The peer closed the connection before answering.";
    8  TRUNCATED      "truncated"      "The body ended early.";
    9  OVERLONG       "overlong"       "More came than was asked for.";
    10 PROTOCOL       "protocol"       "The answer was not the protocol's.";
    11 MISMATCH       "mismatch"       "The bytes were not those that were written.";
    12 NO_DESCRIPTORS "no_descriptors" "This process or host has no file descriptors left.";
    13 NO_PORTS       "no_ports"       "This host has no local ports left towards the target.";
    14 NO_SPACE       "no_space"       "The target's device is full.";
    15 IO             "io"             "The kernel reported an error.";
    16 AUTH           "auth"           "Renewing the credentials failed.";
    17 NOT_SENT       "not_sent"       "Due but not sent when an open load ended.";
    18 NOT_FOUND      "not_found"      "The object is not there.";
    19 DENIED         "denied"         "Permission denied.";
    20 EXISTS         "exists"         "The object is there already.";
    21 UNSUPPORTED    "unsupported"    "The target cannot do this.";
    22 PARTIAL        "partial"        "Part of a bulk request failed.";
    23 CORRUPT        "corrupt"        "A checksum was wrong: a page's, or the one that the store keeps.";
    24 MISDIRECTED    "misdirected"    "A sound page of another object, place or run.";
    25 TORN           "torn"           "Pages of different versions in one object.";
    26 STALE          "stale"          "An older version than the one written last.";
    27 PHANTOM        "phantom"        "A version that was never written.";
    28 FOREIGN        "foreign"        "A sound page of another run.";
    29 THROTTLED      "throttled"      "The target asked for fewer requests.";
    30 UNWRITTEN      "unwritten"      "The object is not there: its own put had failed.";
    31 MISSING        "missing"        "A script expects it there, and it is not.";
    32 EXTRA          "extra"          "It is there, and by the script it should not be.";
    33 LOST_RACE      "lost_race"      "Another write came first, so that the condition did not hold.";
    34 CHANGED        "changed"        "The object is another than was listed.";
    35 ABSENT         "absent"         "The object is not there; whether it should be, the history tells.";
    36 LOCK_IGNORED   "lock_ignored"   "A locked version was deleted.";
    37 METADATA_WRONG "metadata_wrong" "The metadata is not what was written last.";
}

impl Outcome {
    /// Returns the outcome of an HTTP answer other than the expected one.
    #[must_use]
    pub(crate) fn http(status: u16) -> Self {
        Self(status.max(100))
    }

    /// Returns whether the request succeeded.
    #[inline]
    #[must_use]
    pub(crate) fn is_ok(self) -> bool {
        self == Self::OK
    }

    /// Returns whether the target reported that the object does not exist.
    #[must_use]
    pub(crate) fn is_absent(self) -> bool {
        self == Self::NOT_FOUND || self == Self::http(404)
    }

    /// Returns how the bytes of a read differ from everything that was written, if they do.
    #[must_use]
    pub(crate) fn damage(self) -> Option<Damage> {
        match self {
            Self::CORRUPT | Self::MISMATCH => Some(Damage::Corrupt),
            Self::TORN => Some(Damage::Torn),
            Self::TRUNCATED => Some(Damage::Short),
            Self::OVERLONG => Some(Damage::Long),
            Self::MISDIRECTED | Self::FOREIGN => Some(Damage::Mixed),
            _ => None,
        }
    }

    /// Returns whether this request itself failed. An absent object whose put had failed was
    /// counted with that put. A condition that does not hold, or an absent object where others may
    /// delete, is a valid answer.
    #[must_use]
    pub(crate) fn is_failure(self) -> bool {
        !matches!(self, Self::OK | Self::UNWRITTEN | Self::LOST_RACE | Self::ABSENT)
    }

    /// Returns the HTTP status, if the outcome is one.
    #[must_use]
    pub(crate) fn http_status(self) -> Option<u16> {
        (self.0 >= 100).then_some(self.0)
    }

    /// Returns the kind of error if this outcome keeps a trial from starting.
    #[must_use]
    pub(crate) fn error_kind(self) -> Kind {
        match self {
            Self::DNS
            | Self::REFUSED
            | Self::UNREACHABLE
            | Self::RESET
            | Self::CLOSED
            | Self::TIMEOUT => Kind::Unreachable,
            Self::TLS => Kind::Certificates,
            Self::NO_SPACE => Kind::NoSpace,
            Self::DENIED | Self::AUTH => Kind::Denied,
            Self::NOT_FOUND => Kind::TargetAbsent,
            Self::UNSUPPORTED => Kind::Unsupported,
            _ => match self.http_status() {
                Some(401 | 403) => Kind::Denied,
                Some(404) => Kind::TargetAbsent,
                Some(501) => Kind::Unsupported,
                Some(507) => Kind::NoSpace,
                _ => Kind::Other,
            },
        }
    }

    /// Returns whether the content differs from what was written.
    #[must_use]
    pub(crate) fn is_mismatch(self) -> bool {
        matches!(
            self,
            Self::MISMATCH
                | Self::CORRUPT
                | Self::MISDIRECTED
                | Self::TORN
                | Self::STALE
                | Self::PHANTOM
                | Self::FOREIGN
                | Self::MISSING
                | Self::EXTRA
                | Self::METADATA_WRONG
        )
    }

    /// Returns the kind's name, such as `reset` or `http_503`.
    #[must_use]
    pub(crate) fn name(self) -> Cow<'static, str> {
        match self.http_status() {
            Some(status) => Cow::Owned(format!("http_{status}")),
            None => KINDS
                .iter()
                .find(|(kind, ..)| *kind == self)
                .map_or(Cow::Borrowed("io"), |(_, name, _)| Cow::Borrowed(*name)),
        }
    }

    /// Returns the outcome of a read whose bytes were checked.
    #[must_use]
    pub(crate) fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Ok => Self::OK,
            Verdict::Truncated => Self::TRUNCATED,
            Verdict::Overlong => Self::OVERLONG,
            Verdict::Stale => Self::STALE,
            Verdict::Phantom => Self::PHANTOM,
            Verdict::Torn => Self::TORN,
            Verdict::Misdirected => Self::MISDIRECTED,
            Verdict::Foreign => Self::FOREIGN,
            Verdict::Corrupt => Self::CORRUPT,
        }
    }

    /// Returns the outcome of a listing whose keys were compared with a script's.
    #[must_use]
    pub(crate) fn of_set(verdict: SetVerdict) -> Self {
        match verdict {
            SetVerdict::Same => Self::OK,
            SetVerdict::Missing => Self::MISSING,
            SetVerdict::Extra => Self::EXTRA,
            SetVerdict::Corrupt => Self::CORRUPT,
        }
    }

    /// Returns the outcome for an error of the kernel.
    #[must_use]
    pub(crate) fn of_io(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNREFUSED) => Self::REFUSED,
            Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED) => Self::RESET,
            Some(libc::ETIMEDOUT) => Self::TIMEOUT,
            Some(libc::EHOSTUNREACH | libc::ENETUNREACH | libc::ENETDOWN) => Self::UNREACHABLE,
            Some(libc::EMFILE | libc::ENFILE) => Self::NO_DESCRIPTORS,
            Some(libc::EADDRNOTAVAIL) => Self::NO_PORTS,
            Some(libc::ENOSPC | libc::EDQUOT) => Self::NO_SPACE,
            Some(libc::ENOENT) => Self::NOT_FOUND,
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => Self::DENIED,
            Some(libc::EEXIST | libc::ENOTEMPTY) => Self::EXISTS,
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => Self::UNSUPPORTED,
            _ => match error.kind() {
                io::ErrorKind::TimedOut => Self::TIMEOUT,
                io::ErrorKind::UnexpectedEof => Self::CLOSED,
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::RESET,
                io::ErrorKind::InvalidData => Self::PROTOCOL,
                io::ErrorKind::PermissionDenied => Self::DENIED,
                io::ErrorKind::NotFound => Self::NOT_FOUND,
                _ => Self::IO,
            },
        }
    }
}

/// One completed request, as its driver observed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    /// Outcome of the request.
    pub outcome: Outcome,
    /// When its first byte was passed to the kernel.
    pub sent_ns: u64,
    /// When the first byte of the answer arrived. Zero if there was no answer. In operations whose
    /// answer arrives in one piece, the same as the last byte.
    pub first_byte_ns: u64,
    /// When the last byte of the answer arrived.
    pub ended_ns: u64,
    /// Payload bytes transferred, whether or not the request succeeded.
    pub bytes: u64,
    /// Number of objects: one, or the keys of a listing or bulk request.
    pub objects: u32,
    /// Payload bytes whose content was checked.
    pub verified_bytes: u64,
}

impl Completion {
    /// Returns the completion of a request on one object that moved no payload.
    #[must_use]
    pub(crate) fn plain(outcome: Outcome, sent_ns: u64, first_byte_ns: u64, ended_ns: u64) -> Self {
        Self { outcome, sent_ns, first_byte_ns, ended_ns, bytes: 0, objects: 1, verified_bytes: 0 }
    }

    /// Returns the completion of a request that began with an earlier one and continues with this
    /// one.
    #[must_use]
    pub(crate) fn behind(self, earlier: Option<Self>) -> Self {
        let Some(Self { sent_ns, first_byte_ns, bytes, .. }) = earlier else { return self };
        Self { sent_ns, first_byte_ns, bytes: bytes + self.bytes, ..self }
    }
}

/// Result of one part of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartEnd {
    /// From the first byte sent to the last one received, in nanoseconds.
    pub service_ns: u64,
    /// Whether the part succeeded.
    pub is_ok: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_a_status_has_its_own_name() {
        let names: std::collections::HashSet<_> = KINDS.iter().map(|(_, name, _)| name).collect();
        assert_eq!(names.len(), KINDS.len());
        assert_eq!(Outcome::http(503).name(), "http_503");
        assert!(!Outcome::http(200).is_ok(), "an unexpected 200 is a failure too");
    }

    #[test]
    fn a_refused_connection_is_distinguished_from_a_reset_one() {
        let of = |number| Outcome::of_io(&io::Error::from_raw_os_error(number));
        assert_eq!(of(libc::ECONNREFUSED), Outcome::REFUSED);
        assert_eq!(of(libc::ECONNRESET), Outcome::RESET);
        assert_eq!(of(libc::EADDRNOTAVAIL), Outcome::NO_PORTS);
    }
}
