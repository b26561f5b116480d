//! One call on a key: its action, its begin and its end.

/// The value of a key that does not exist.
pub const ABSENT: u64 = 0;

/// The end of a call without an answer: it may take effect at any time after its begin, or never.
pub const UNANSWERED: u64 = u64::MAX;

/// Bytes of a call in a file.
pub const CALL_BYTES: usize = 48;

/// The kind of a record that is a page's part of a listing.
const LISTING: u64 = 8;
/// Keys of one part of a listing.
pub const LISTING_KEYS: u64 = 64;

/// How the bytes of a read are none that any write had left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// Bytes that were never written.
    Corrupt,
    /// Parts of several values.
    Torn,
    /// It ends early.
    Short,
    /// It goes on.
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

/// What a call did, as its answer says. In the history of a key, each value but [`ABSENT`] is written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A read that returned this value.
    Read(u64),
    /// A read that returned no value at all.
    Damaged(Damage),
    /// A page of a listing in which the key should be, if it was there: whether it was listed.
    Listed(bool),
    /// A write of this value; a write of [`ABSENT`] is a delete.
    Write(u64),
    /// A write that took effect because the key had the expected value.
    Swap {
        /// The value that the condition named.
        expected: u64,
        /// The value that was written.
        value: u64,
    },
}

/// One call. A read without an answer says nothing, and a condition that did not hold changes nothing: neither is
/// in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The key's number.
    pub key: u64,
    /// The client's number, over all hosts.
    pub client: u32,
    /// Its action.
    pub action: Action,
    /// Its begin, by a clock that all calls share.
    pub called_ns: u64,
    /// Its end, or [`UNANSWERED`].
    pub answered_ns: u64,
}

impl Call {
    /// Returns the value that the key had when the call took effect, if its answer says so.
    #[must_use]
    pub fn expected(&self) -> Option<u64> {
        match self.action {
            Action::Read(value) | Action::Swap { expected: value, .. } => Some(value),
            Action::Write(_) | Action::Damaged(_) | Action::Listed(_) => None,
        }
    }

    /// Returns what it wrote, if it is a write.
    #[must_use]
    pub fn written(&self) -> Option<u64> {
        match self.action {
            Action::Read(_) | Action::Damaged(_) | Action::Listed(_) => None,
            Action::Write(value) | Action::Swap { value, .. } => Some(value),
        }
    }

    /// Returns the value that the key had right after it; [`ABSENT`] where its answer does not say.
    #[must_use]
    pub fn value_after(&self) -> u64 {
        match self.action {
            Action::Read(value) | Action::Write(value) | Action::Swap { value, .. } => value,
            Action::Damaged(_) | Action::Listed(_) => ABSENT,
        }
    }

    /// Tells whether an answer came.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.answered_ns != UNANSWERED
    }

    /// Tells whether it ended before another one began.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        self.answered_ns < other.called_ns
    }

    /// Appends the call as bytes, numbers in little-endian: key, called, answered, value after, value expected,
    /// client, kind (0 read, 1 write, 2 swap, from 3 on a damaged read, by [`Damage`]). A listing is a part of one
    /// key: see [`Listing`].
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

    /// Gives the calls of a record to `take`: one, but of a listing one for each of its keys. Returns whether the
    /// bytes are a record.
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

/// Returns the begin and the end that a record has.
#[must_use]
pub fn times_of(record: &[u8; CALL_BYTES]) -> [u64; 2] {
    let number =
        |at: usize| u64::from_le_bytes(record[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
    [number(1), number(2)]
}

/// Gives a record another begin and end.
pub fn set_times(record: &mut [u8; CALL_BYTES], [called_ns, answered_ns]: [u64; 2]) {
    record[8..16].copy_from_slice(&called_ns.to_le_bytes());
    record[16..24].copy_from_slice(&answered_ns.to_le_bytes());
}

/// A part of a page of a listing: up to 64 keys, whose numbers rise by the same step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// The number of the first key.
    pub first: u64,
    /// The step to the next, below 2^24.
    pub step: u64,
    /// A bit for each key that the page has to show if it is there, the lowest for the first.
    pub covered: u64,
    /// Those of them that it shows.
    pub listed: u64,
}

impl Listing {
    /// Appends it as a record of a call's length: the covered keys stand in the place of the value, the listed ones
    /// in that of the expected one, and the step in the kind, above its lowest byte.
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
