//! Listings in the form that a client asks for: lines of text, JSON or XML.

use http::StatusCode;
use serde_json::Value;

use super::answer::{Failure, document, empty};
use super::call::{Call, is_true};
use crate::exchange::reply::Reply;
use crate::stored::listing::{Query, is_xml};

/// Listings hold at most this many lines.
pub(super) const LISTING_LIMIT: usize = 10_000;

/// Reads what a listing is asked for.
pub(super) fn query(call: &Call) -> Result<Query<'_>, Failure> {
    let text = |name| call.parameter(name).unwrap_or_default();
    let limit = match call.parameter("limit") {
        None | Some("") => LISTING_LIMIT,
        Some(limit) => {
            limit.parse().ok().filter(|limit| *limit <= LISTING_LIMIT).ok_or_else(|| {
                let problem = format!("limit goes up to {LISTING_LIMIT}");
                Failure::new(StatusCode::PRECONDITION_FAILED, problem)
            })?
        }
    };
    Ok(Query {
        prefix: text("prefix"),
        delimiter: text("delimiter"),
        after: text("marker"),
        before: text("end_marker"),
        limit,
        is_reversed: is_true(call.parameter("reverse")),
    })
}

/// The form of a listing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Format {
    Text,
    Json,
    Xml,
}

impl Format {
    /// Returns the form that a request asks for, by its query before its headers.
    pub(super) fn of(call: &Call) -> Result<Format, Failure> {
        match call.parameter("format") {
            Some("json") => return Ok(Format::Json),
            Some("xml") => return Ok(Format::Xml),
            Some("plain") => return Ok(Format::Text),
            _ => {}
        }
        let Some(accept) = call.header("accept").filter(|text| !text.is_empty()) else {
            return Ok(Format::Text);
        };
        let kinds = accept.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
        let found = kinds.filter_map(|kind| match kind {
            "*/*" | "text/*" | "text/plain" => Some(Format::Text),
            "application/json" | "application/*" => Some(Format::Json),
            "application/xml" | "text/xml" => Some(Format::Xml),
            _ => None,
        });
        let refused = || Failure::new(StatusCode::NOT_ACCEPTABLE, "listings are text, JSON or XML");
        found.into_iter().next().ok_or_else(refused)
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; charset=utf-8",
            Format::Json => "application/json; charset=utf-8",
            Format::Xml => "application/xml; charset=utf-8",
        }
    }
}

/// Writes a listing: `of` is what is listed, `name` its name, and `line` what each line is.
pub(super) fn write(
    format: Format,
    (of, name): (&str, &str),
    line: &str,
    lines: &[Value],
) -> Result<Reply, Failure> {
    let name_of = |line: &Value| {
        let name = line["name"].as_str().or_else(|| line["subdir"].as_str());
        name.unwrap_or_default().to_owned()
    };
    let text = match format {
        Format::Text => lines.iter().map(|line| name_of(line) + "\n").collect(),
        Format::Json => Value::from(lines).to_string(),
        Format::Xml => {
            let mut text = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{of} name=\"{}\">",
                escape(name)
            );
            for entry in lines {
                text += &match entry.get("subdir") {
                    Some(_) => {
                        let name = escape(&name_of(entry));
                        format!("<subdir name=\"{name}\"><name>{name}</name></subdir>")
                    }
                    None => format!("<{line}>{}</{line}>", fields(entry)),
                };
            }
            text + &format!("</{of}>")
        }
    };
    if format == Format::Xml && !is_xml(&text) {
        let problem = "a name has characters that XML cannot carry: ask for format=json";
        return Err(Failure::new(StatusCode::NOT_ACCEPTABLE, problem));
    }
    if text.is_empty() {
        let mut reply = empty(StatusCode::NO_CONTENT);
        super::answer::set(&mut reply, http::header::CONTENT_TYPE, format.content_type());
        return Ok(reply);
    }
    Ok(document(StatusCode::OK, format.content_type(), text))
}

fn fields(entry: &Value) -> String {
    let fields = entry.as_object().into_iter().flatten().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("<{name}>{}</{name}>", escape(&text))
    });
    fields.collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
