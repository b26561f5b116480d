//! One request and its reply, as both APIs have them: its class, the body that comes, the body
//! that goes.

pub(crate) mod failure;
pub(crate) mod reply;
pub(crate) mod request_body;
pub(crate) mod route;
