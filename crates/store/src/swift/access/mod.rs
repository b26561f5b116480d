//! Who may do what: users and application credentials, tokens, signed addresses.

pub(super) mod identity;
pub(super) mod temp_url;
pub(super) mod token;
