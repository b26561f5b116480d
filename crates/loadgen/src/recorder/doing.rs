//! What a row of a record counts: requests of one operation, or actions of one kind.

use crate::operation::{OPERATIONS, Operation};
use crate::script::{ACTION_KINDS_MAX, ActionKind};

/// Requests of one operation, or actions of one kind. One byte, because it is compared for each
/// request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Doing(u8);

/// First number of actions: the maximum number of kinds in a script fits above it.
const FIRST_ACTION: u8 = (u8::MAX as usize - ACTION_KINDS_MAX) as u8;

impl Doing {
    /// Creates the key of an operation's requests.
    #[inline]
    pub(crate) fn request(operation: Operation) -> Self {
        Self(operation as u8)
    }

    /// Creates the key of actions with this number in a script.
    pub(crate) fn action(number: u8) -> Self {
        Self(FIRST_ACTION + number)
    }

    /// Returns the number of an action, or `None` for requests.
    #[must_use]
    pub(crate) fn action_number(self) -> Option<usize> {
        self.0.checked_sub(FIRST_ACTION).map(usize::from)
    }

    /// Returns the name of the operation or action.
    pub(crate) fn name(self, actions: &[ActionKind]) -> &str {
        match self.action_number() {
            None => OPERATIONS[usize::from(self.0)].name,
            Some(number) => actions.get(number).map_or("", |kind| &kind.name),
        }
    }
}
