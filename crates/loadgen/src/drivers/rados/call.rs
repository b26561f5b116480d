//! What librados is asked for.

use super::lending::Write;

/// What one call of librados is to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call {
    WriteFull {
        length: usize,
    },
    WriteAt {
        offset: u64,
        length: usize,
    },
    /// The offset says what is appended; the cluster decides where.
    Append {
        offset: u64,
        length: usize,
    },
    Read {
        offset: u64,
        length: usize,
    },
    Stat,
    Remove,
}

impl Call {
    /// Returns how much is written or read.
    pub(super) fn length(self) -> usize {
        match self {
            Self::WriteFull { length }
            | Self::WriteAt { length, .. }
            | Self::Append { length, .. }
            | Self::Read { length, .. } => length,
            Self::Stat | Self::Remove => 0,
        }
    }

    /// Returns how what is lent is to be written.
    pub(super) fn write(self) -> Option<Write> {
        match self {
            Self::WriteFull { .. } => Some(Write::Full),
            Self::WriteAt { offset, .. } => Some(Write::At(offset)),
            Self::Append { .. } => Some(Write::Append),
            Self::Read { .. } | Self::Stat | Self::Remove => None,
        }
    }

    /// Returns what of the slot's buffer it needs.
    pub(super) fn bytes_read(self) -> usize {
        if let Self::Read { length, .. } = self { length } else { 0 }
    }

    pub(super) fn is_write(self) -> bool {
        matches!(self, Self::WriteFull { .. } | Self::WriteAt { .. } | Self::Append { .. })
    }

    /// Returns where in the object it begins.
    pub(super) fn offset(self) -> u64 {
        match self {
            Self::WriteAt { offset, .. }
            | Self::Append { offset, .. }
            | Self::Read { offset, .. } => offset,
            Self::WriteFull { .. } | Self::Stat | Self::Remove => 0,
        }
    }
}

/// What librados may still touch of a request that failed or was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    Nothing,
    /// What it may be receiving into, for a while.
    Read,
    /// What its messenger may send as soon as a connection comes back, whenever that is.
    Lent,
}
