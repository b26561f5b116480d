//! Objects: written, read, copied, changed and deleted; large ones by their manifests.

mod copy;
mod headers;
pub(super) mod large;
mod object;
mod ranges;
mod read;

use super::answer::Failure;
use super::call::{Call, Place};
use super::{Swift, not_allowed};
use crate::exchange::reply::Reply;

/// The most bytes of one object.
pub(super) const OBJECT_BYTES_MAX: u64 = 5 << 30;

/// Answers a request for an object.
pub(super) async fn answer(
    swift: &Swift,
    call: &mut Call,
    place: &Place,
) -> Result<Reply, Failure> {
    let manifest = call.parameter("multipart-manifest");
    match (call.method.as_str(), manifest) {
        ("GET" | "HEAD", _) => read::read(swift, call, place).await,
        ("PUT", _) if call.header("x-copy-from").is_some() => {
            copy::to_here(swift, call, place).await
        }
        ("PUT", Some("put")) => large::put(swift, call, place).await,
        ("PUT", _) => object::put(swift, call, place).await,
        ("POST", _) => object::post(swift, call, place).await,
        ("DELETE", Some("delete")) => large::delete(swift, call, place).await,
        ("DELETE", _) => object::delete(swift, call, place).await,
        ("COPY", _) => copy::from_here(swift, call, place).await,
        _ => Err(not_allowed()),
    }
}
