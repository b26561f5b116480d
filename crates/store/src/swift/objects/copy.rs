//! Copies of objects within the account.

use http::{StatusCode, header};

use super::headers::{created, precondition, read_about};
use super::ranges::{self, Wanted};
use crate::clock;
use crate::exchange::reply::Reply;
use crate::stored::object::{About, Draft, Form};
use crate::swift::Swift;
use crate::swift::answer::{Failure, set};
use crate::swift::call::{Call, Place, decode};

/// Answers COPY: from the path to the `Destination`.
pub(super) async fn from_here(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let destination = named(call, "destination")?;
    copy(swift, call, (&place.container, &place.object), destination).await
}

/// Answers PUT with `X-Copy-From`: from there to the path.
pub(super) async fn to_here(swift: &Swift, call: &Call, place: &Place) -> Result<Reply, Failure> {
    let source = named(call, "x-copy-from")?;
    copy(swift, call, (&source.0, &source.1), (place.container.clone(), place.object.clone())).await
}

/// Reads a header of the form `CONTAINER/OBJECT`.
fn named(call: &Call, name: &str) -> Result<(String, String), Failure> {
    let text = decode(call.header(name).unwrap_or_default().trim_start_matches('/'))?;
    match text.split_once('/') {
        Some((container, object)) if !object.is_empty() => {
            Ok((container.to_owned(), object.to_owned()))
        }
        _ => Err(Failure::new(
            StatusCode::PRECONDITION_FAILED,
            format!("{name} is not of the form CONTAINER/OBJECT"),
        )),
    }
}

async fn copy(
    swift: &Swift,
    call: &Call,
    (from_container, from_object): (&str, &str),
    (to_container, to_object): (String, String),
) -> Result<Reply, Failure> {
    let account = &swift.account;
    let from = account.bucket(from_container)?;
    let to = account.bucket(&to_container)?;
    let source = account.object(&from, from_object, call.version_id())?;
    let source = account.follow(source)?;
    let copies_manifest = call.parameter("multipart-manifest") == Some("get");
    let (body, etag, form) = if copies_manifest && source.about.form.is_large() {
        (source.body.clone(), source.etag.clone(), source.about.form.clone())
    } else {
        let content = account.content(&source)?;
        match ranges::parse(call.header(header::RANGE.as_str()), content.body.length()) {
            Wanted::Whole => (content.body, content.etag, Form::Plain),
            Wanted::Ranges(ranges) if ranges.len() == 1 => {
                let body = content.body.slice(ranges[0].clone());
                let etag = body.md5().await?;
                (body, etag, Form::Plain)
            }
            Wanted::Ranges(_) => {
                let problem = "this store copies one range at a time";
                return Err(Failure::new(StatusCode::NOT_IMPLEMENTED, problem));
            }
            Wanted::Nothing => {
                let problem = "the source has no such range";
                return Err(Failure::new(StatusCode::RANGE_NOT_SATISFIABLE, problem));
            }
        }
    };
    let mut about = About { form, part_bytes: Vec::new(), ..source.about.clone() };
    apply_given(&mut about, call)?;
    let draft = Draft { body, etag, about };
    let copied = account.put(&to, &to_object, draft, &precondition(call)).await?;
    let mut reply = created(&copied, &copied.etag);
    set(&mut reply, "x-copied-from", format!("{from_container}/{from_object}"));
    let modified = clock::format_http_date(source.modified_us);
    set(&mut reply, "x-copied-from-last-modified", modified);
    Ok(reply)
}

/// Puts what the client said about the copy over what was known of the source.
fn apply_given(about: &mut About, call: &Call) -> Result<(), Failure> {
    let given = read_about(call)?;
    if call.header("x-fresh-metadata").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        about.metadata.clear();
    }
    for (name, value) in given.metadata {
        about.metadata.retain(|(known, _)| *known != name);
        about.metadata.push((name, value));
    }
    if call.header(header::CONTENT_TYPE.as_str()).is_some() {
        about.content_type = given.content_type;
    }
    about.expires_at_s = given.expires_at_s;
    Ok(())
}
