//! One call on a key: its action, its begin and its end.

/// The value of a key that does not exist.
pub const ABSENT: u64 = 0;

/// The end of a call without an answer: it may take effect at any time after its begin, or never.
pub const UNANSWERED: u64 = u64::MAX;

/// Bytes of a call in a file.
pub const CALL_BYTES: usize = 48;

/// Record kind of a part of a listing page.
const LISTING: u64 = 8;
/// Number of keys in one part of a listing.
pub const LISTING_KEYS: u64 = 64;

/// How the content of a read differs from everything that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// Bytes that were never written.
    Corrupt,
    /// Parts of several values.
    Torn,
    /// Truncated.
    Short,
    /// Too long.
    Long,
    /// Bytes of another key.
    Mixed,
}

impl Damage {
    const ALL: [Self; 5] = [Self::Corrupt, Self::Torn, Self::Short, Self::Long, Self::Mixed];

    /// Returns the name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Corrupt => "corrupt",
            Self::Torn => "torn",
            Self::Short => "short",
            Self::Long => "long",
            Self::Mixed => "mixed",
        }
    }
}

/// The effect of a call, according to its answer. In the history of a key, each value except
/// [`ABSENT`] is written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A read that returned this value.
    Read(u64),
    /// A read that returned no valid value.
    Damaged(Damage),
    /// A page of a listing that covers the key; whether it showed the key.
    Listed(bool),
    /// A write of this value; a write of [`ABSENT`] is a delete.
    Write(u64),
    /// A write that took effect because the key had the expected value.
    Swap {
        /// The value in the condition.
        expected: u64,
        /// The value that was written.
        value: u64,
    },
}

/// One call. Reads without an answer prove nothing, and a failed condition changes nothing: a
/// history contains neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Number of the key.
    pub key: u64,
    /// Number of the client, over all hosts.
    pub client: u32,
    /// Its action.
    pub action: Action,
    /// Its begin in nanoseconds, by a clock that all calls share.
    pub called_ns: u64,
    /// Its end in nanoseconds, or [`UNANSWERED`].
    pub answered_ns: u64,
}

impl Call {
    /// Returns the value that the key had when the call took effect, if the answer shows it.
    #[must_use]
    pub fn expected(&self) -> Option<u64> {
        match self.action {
            Action::Read(value) | Action::Swap { expected: value, .. } => Some(value),
            Action::Write(_) | Action::Damaged(_) | Action::Listed(_) => None,
        }
    }

    /// Returns the value that it wrote, if it is a write.
    #[must_use]
    pub fn written(&self) -> Option<u64> {
        match self.action {
            Action::Read(_) | Action::Damaged(_) | Action::Listed(_) => None,
            Action::Write(value) | Action::Swap { value, .. } => Some(value),
        }
    }

    /// Returns the value that the key had right after the call; [`ABSENT`] if the answer does not
    /// show it.
    #[must_use]
    pub fn value_after(&self) -> u64 {
        match self.action {
            Action::Read(value) | Action::Write(value) | Action::Swap { value, .. } => value,
            Action::Damaged(_) | Action::Listed(_) => ABSENT,
        }
    }

    /// Returns whether it was answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.answered_ns != UNANSWERED
    }

    /// Returns whether it ended before another call began.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        self.answered_ns < other.called_ns
    }

    /// Appends the encoded call, with little-endian numbers: key, begin, end, value after, expected
    /// value, client, kind (0 read, 1 write, 2 swap, from 3 on a damaged read, by [`Damage`]). A
    /// listing is encoded in parts: see [`Listing`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, expected) = match self.action {
            Action::Read(_) => (0_u32, 0),
            Action::Write(_) => (1, 0),
            Action::Swap { expected, .. } => (2, expected),
            Action::Damaged(damage) => (3 + damage as u32, 0),
            Action::Listed(is_listed) => {
                let part =
                    Listing { first: self.key, step: 1, covered: 1, listed: is_listed.into() };
                return part.encode(self.client, self.called_ns, self.answered_ns, out);
            }
        };
        for number in [self.key, self.called_ns, self.answered_ns, self.value_after(), expected] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.client.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
    }

    /// Passes the calls of a record to `take`: one, or for a listing one for each of its keys.
    /// Returns whether the bytes are a valid record.
    pub fn decode(bytes: &[u8; CALL_BYTES], mut take: impl FnMut(Self)) -> bool {
        let number = |at: usize| {
            u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
        };
        let (key, value, expected, last) = (number(0), number(3), number(4), number(5));
        let (called_ns, answered_ns) = (number(1), number(2));
        let client = (last & u64::from(u32::MAX)) as u32;
        let call = |key, action| Self { key, client, action, called_ns, answered_ns };
        if called_ns > answered_ns {
            return false;
        }
        let action = match last >> 32 {
            0 => Action::Read(value),
            1 => Action::Write(value),
            2 => Action::Swap { expected, value },
            kind if kind & 0xff == LISTING => {
                let part =
                    Listing { first: key, step: kind >> 8, covered: value, listed: expected };
                part.keys().for_each(|(key, is_listed)| take(call(key, Action::Listed(is_listed))));
                return true;
            }
            kind => match usize::try_from(kind - 3).ok().and_then(|kind| Damage::ALL.get(kind)) {
                Some(damage) => Action::Damaged(*damage),
                None => return false,
            },
        };
        take(call(key, action));
        true
    }
}

/// Returns begin and end of a record.
#[must_use]
pub fn times_of(record: &[u8; CALL_BYTES]) -> [u64; 2] {
    let number =
        |at: usize| u64::from_le_bytes(record[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
    [number(1), number(2)]
}

/// Replaces begin and end of a record.
pub fn set_times(record: &mut [u8; CALL_BYTES], [called_ns, answered_ns]: [u64; 2]) {
    record[8..16].copy_from_slice(&called_ns.to_le_bytes());
    record[16..24].copy_from_slice(&answered_ns.to_le_bytes());
}

/// A part of a page of a listing: up to 64 keys at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// Number of the first key.
    pub first: u64,
    /// Distance to the next key, below 2^24.
    pub step: u64,
    /// One bit for each key that the page must show if it exists, the lowest bit for the first key.
    pub covered: u64,
    /// One bit for each of these keys that the page shows.
    pub listed: u64,
}

impl Listing {
    /// Appends it as a record of a call's length. The covered keys replace the value, the listed
    /// ones replace the expected value, and the step is in the kind, above its lowest byte.
    pub fn encode(&self, client: u32, called_ns: u64, answered_ns: u64, out: &mut Vec<u8>) {
        let last = (self.step << 8 | LISTING) << 32 | u64::from(client);
        for number in [self.first, called_ns, answered_ns, self.covered, self.listed, last] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Returns its keys, each with whether it is listed.
    fn keys(self) -> impl Iterator<Item = (u64, bool)> {
        let is_covered = move |place: &u64| self.covered >> place & 1 == 1;
        (0..LISTING_KEYS).filter(is_covered).map(move |place| {
            let key = self.first.wrapping_add(place.wrapping_mul(self.step));
            (key, self.listed >> place & 1 == 1)
        })
    }
}

/// Removes the calls whose flag is set.
pub(crate) fn take_out(calls: &mut Vec<Call>, is_out: &[bool]) {
    let mut is_out = is_out.iter();
    calls.retain(|_| is_out.next() == Some(&false));
}
