//! One call on a key: its action, its begin and its end.

/// The value of a key that does not exist.
pub const ABSENT: u64 = 0;

/// The end of a call without an answer: it may take effect at any time after its begin, or never.
pub const UNANSWERED: u64 = u64::MAX;

/// Bytes of a call in a file.
pub const CALL_BYTES: usize = 48;

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
            Action::Write(_) | Action::Damaged(_) => None,
        }
    }

    /// Returns what it wrote, if it is a write.
    #[must_use]
    pub fn written(&self) -> Option<u64> {
        match self.action {
            Action::Read(_) | Action::Damaged(_) => None,
            Action::Write(value) | Action::Swap { value, .. } => Some(value),
        }
    }

    /// Returns the value that the key had right after it; [`ABSENT`] where its answer does not say.
    #[must_use]
    pub fn value_after(&self) -> u64 {
        match self.action {
            Action::Read(value) | Action::Write(value) | Action::Swap { value, .. } => value,
            Action::Damaged(_) => ABSENT,
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
    /// client, kind (0 read, 1 write, 2 swap, from 3 on a damaged read, by [`Damage`]).
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, expected) = match self.action {
            Action::Read(_) => (0_u32, 0),
            Action::Write(_) => (1, 0),
            Action::Swap { expected, .. } => (2, expected),
            Action::Damaged(damage) => (3 + damage as u32, 0),
        };
        for number in [self.key, self.called_ns, self.answered_ns, self.value_after(), expected] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.client.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
    }

    /// Reads a call from bytes; `None` if they are not one.
    #[must_use]
    pub fn decode(bytes: &[u8; CALL_BYTES]) -> Option<Self> {
        let number = |at: usize| {
            u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
        };
        let (value, expected, last) = (number(3), number(4), number(5));
        let action = match last >> 32 {
            0 => Action::Read(value),
            1 => Action::Write(value),
            2 => Action::Swap { expected, value },
            kind => Action::Damaged(*Damage::ALL.get(usize::try_from(kind - 3).ok()?)?),
        };
        let (called_ns, answered_ns) = (number(1), number(2));
        let client = (last & u64::from(u32::MAX)) as u32;
        (called_ns <= answered_ns).then_some(Self {
            key: number(0),
            client,
            action,
            called_ns,
            answered_ns,
        })
    }
}

/// Removes the calls whose flag is set.
pub(crate) fn take_out(calls: &mut Vec<Call>, is_out: &[bool]) {
    let mut is_out = is_out.iter();
    calls.retain(|_| is_out.next() == Some(&false));
}
