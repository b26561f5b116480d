//! The calls of librados.

use std::ffi::CStr;

/// The attribute that names the run that wrote an object.
pub(super) const RUN: &CStr = c"loadstone-run";

/// One call of librados.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call {
    WriteFull {
        length: usize,
    },
    WriteAt {
        offset: u64,
        length: usize,
    },
    /// The offset determines the content; the cluster decides where it is appended.
    Append {
        offset: u64,
        length: usize,
    },
    Read {
        offset: u64,
        length: usize,
    },
    Stat,
    /// The attribute that names the run that wrote the object.
    Attribute {
        length: usize,
    },
    Remove,
}

impl Call {
    /// Returns the number of bytes that it writes or reads.
    pub(super) fn length(self) -> usize {
        match self {
            Self::WriteFull { length }
            | Self::WriteAt { length, .. }
            | Self::Append { length, .. }
            | Self::Read { length, .. } => length,
            Self::Stat | Self::Attribute { .. } | Self::Remove => 0,
        }
    }

    /// Returns the number of bytes that it needs of the slot's buffer.
    pub(super) fn bytes_read(self) -> usize {
        match self {
            Self::Read { length, .. } | Self::Attribute { length } => length,
            _ => 0,
        }
    }

    /// Returns whether it changes the object.
    pub(super) fn is_change(self) -> bool {
        self.is_write() || matches!(self, Self::Remove)
    }

    pub(super) fn is_write(self) -> bool {
        matches!(self, Self::WriteFull { .. } | Self::WriteAt { .. } | Self::Append { .. })
    }

    /// Returns the offset in the object.
    pub(super) fn offset(self) -> u64 {
        match self {
            Self::WriteAt { offset, .. }
            | Self::Append { offset, .. }
            | Self::Read { offset, .. } => offset,
            Self::WriteFull { .. } | Self::Stat | Self::Attribute { .. } | Self::Remove => 0,
        }
    }
}

/// Condition and tag of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum OwnerTag {
    /// None: the namespace is ours.
    #[default]
    None,
    /// The object must not exist.
    Absent,
    /// The object must not exist, and becomes ours.
    First,
    /// The object must be ours.
    Ours,
}
