//! A request and its reply, for both APIs: class, request body, reply body.

pub(crate) mod failure;
pub(crate) mod reply;
pub(crate) mod request_body;
pub(crate) mod route;
