//! What a row of a record counts: requests of one operation, or actions of one kind.

use crate::operation::{OPERATIONS, Operation};
use crate::script::{ACTION_KINDS_MAX, ActionKind};

/// What is counted: requests of one operation, or actions of one kind. In one byte, for it is
/// compared with every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Doing(u8);

/// Where the numbers of actions begin: as many as a script may name fit behind it.
const FIRST_ACTION: u8 = (u8::MAX as usize - ACTION_KINDS_MAX) as u8;

impl Doing {
    /// Requests of an operation.
    #[inline]
    pub(crate) fn request(operation: Operation) -> Self {
        Self(operation as u8)
    }

    /// Actions by their number in a script.
    pub(crate) fn action(number: u8) -> Self {
        Self(FIRST_ACTION + number)
    }

    /// Returns the number of an action, or nothing for requests.
    #[must_use]
    pub(crate) fn action_number(self) -> Option<usize> {
        self.0.checked_sub(FIRST_ACTION).map(usize::from)
    }

    /// Returns the name of an operation, or of one of these actions.
    pub(crate) fn name(self, actions: &[ActionKind]) -> &str {
        match self.action_number() {
            None => OPERATIONS[usize::from(self.0)].name,
            Some(number) => actions.get(number).map_or("", |kind| &kind.name),
        }
    }
}
