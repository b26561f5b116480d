//! What librados is asked for.

use std::ffi::CStr;

/// The attribute that says which run wrote an object.
pub(super) const RUN: &CStr = c"loadstone-run";

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
    /// The attribute that says which run wrote the object.
    Attribute {
        length: usize,
    },
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
            Self::Stat | Self::Attribute { .. } | Self::Remove => 0,
        }
    }

    /// Returns what of the slot's buffer it needs.
    pub(super) fn bytes_read(self) -> usize {
        match self {
            Self::Read { length, .. } | Self::Attribute { length } => length,
            _ => 0,
        }
    }

    /// Tells whether the object is another afterwards.
    pub(super) fn is_change(self) -> bool {
        self.is_write() || matches!(self, Self::Remove)
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
            Self::WriteFull { .. } | Self::Stat | Self::Attribute { .. } | Self::Remove => 0,
        }
    }
}

/// What a change says of the object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum OwnerTag {
    /// Nothing: the namespace is ours.
    #[default]
    None,
    /// It is not there.
    Absent,
    /// It is not there, and is ours from now on.
    First,
    /// It is ours.
    Ours,
}
