//! Fuzz targets for input from other programs, and the invariants that hold for any input.
//!
//! A target is a function that takes any bytes and panics if an invariant is violated. `make fuzz`
//! searches for such bytes, guided by coverage; `cargo test` tries those in `corpus/TARGET`, one
//! input per file.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use loadstone_loadgen::dataset::Dataset;
use loadstone_loadgen::trial::Trial;
use loadstone_record::{Bounds, columns, for_each_batch, read_parquet};
use loadstone_wire::http1::{Event, Method, ParseError, ResponseParser};
use loadstone_wire::ranges::{RangesError, RangesParser, parse_boundary, parse_content_range};
use loadstone_wire::{date, json, xml};

/// One parser, or several for one format.
#[derive(Debug)]
pub struct Target {
    /// Name of the target and of its folder in `corpus`.
    pub name: &'static str,
    /// Tries one input.
    pub run: fn(&[u8]),
}

/// Every target. To add one, write its function and its row.
pub const TARGETS: &[Target] = &[
    Target { name: "response", run: response },
    Target { name: "ranges", run: ranges },
    Target { name: "xml", run: xml },
    Target { name: "json", run: json },
    Target { name: "trial", run: trial },
    Target { name: "parquet", run: parquet },
];

/// The result of parsing a response does not depend on how it is split. The first byte selects the
/// request method, the second the position of the split.
fn response(data: &[u8]) {
    let [method, cut, bytes @ ..] = data else { return };
    let method = [Method::Get, Method::Head, Method::Put][usize::from(method % 3)];
    let whole = read_response(method, &[bytes]);
    let (front, back) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    assert_eq!(read_response(method, &[front, back]), whole);
    let singles: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read_response(method, &singles), whole);
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Response {
    status: u16,
    length: Option<u64>,
    keep_alive: bool,
    header: Option<Vec<u8>>,
    body: Vec<u8>,
    is_ended: bool,
}

fn read_response(method: Method, pieces: &[&[u8]]) -> Result<Response, ParseError> {
    let mut parser = ResponseParser::default();
    parser.start(method);
    let mut response = Response::default();
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let progress = parser.next(rest)?;
            let consumed = progress.consumed;
            match progress.event {
                Event::More => {
                    assert_eq!(consumed, rest.len(), "more is asked for when all is used up");
                    break;
                }
                Event::Head(head) => {
                    response.status = head.status;
                    response.length = head.content_length;
                    response.keep_alive = head.keep_alive;
                    response.header = head.header("etag").map(<[u8]>::to_vec);
                }
                Event::Body(bytes) => {
                    assert!(!bytes.is_empty(), "there is progress");
                    response.body.extend_from_slice(bytes);
                }
                Event::End => {
                    response.is_ended = true;
                    return Ok(response);
                }
            }
            rest = &rest[consumed..];
        }
    }
    parser.close()?;
    Ok(response)
}

/// The parts of an answer with several ranges are at the positions that their heads state, however
/// the answer is split. The first line is the content type.
fn ranges(data: &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (content_type, body) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    if let Some(range) = parse_content_range(content_type) {
        assert!(range.length > 0);
        let end = u128::from(range.first) + u128::from(range.length);
        assert!(range.total.is_none_or(|total| end <= u128::from(total)));
    }
    let boundary = parse_boundary(content_type).unwrap_or(b"x");
    let whole = read_ranges(boundary, &[body]);
    let singles: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(read_ranges(boundary, &singles), whole);
}

type Bytes = Vec<(u64, u8)>;

fn read_ranges(boundary: &[u8], pieces: &[&[u8]]) -> Result<Bytes, RangesError> {
    let mut parser = RangesParser::new(boundary);
    let mut bytes = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while let Some(piece) = parser.next(&mut rest)? {
            assert!(!piece.bytes.is_empty(), "there is progress");
            let places = (0..).map(|step| piece.offset.wrapping_add(step));
            bytes.extend(places.zip(piece.bytes.iter().copied()));
        }
        assert!(rest.is_empty(), "more is asked for when all is used up");
    }
    parser.finish()?;
    Ok(bytes)
}

/// A document yields no more than it contains.
fn xml(data: &[u8]) {
    let mut keys = (0, 0);
    let listed = xml::parse_list_page(data, |key, _| keys = (keys.0 + 1, keys.1 + key.len()));
    assert!(keys.0 <= data.len() && keys.1 <= data.len());
    if let Ok(page) = listed {
        assert_eq!(page.objects, keys.0 as u64);
    }
    if let Ok(refused) = xml::parse_delete_answer(data) {
        assert!(refused.len() <= data.len());
    }
    if let Ok(id) = xml::parse_upload_id(data) {
        assert!(id.len() <= data.len());
    }
    // These only have to return.
    drop(xml::parse_upload_page(data));
    drop(xml::parse_version_page(data));
    drop(xml::parse_keys(data));
    drop(xml::check_late_answer(data));
    drop(xml::parse_error(data));
}

/// Answers of Keystone and Swift.
fn json(data: &[u8]) {
    if let Ok(answer) = json::TokenAnswer::parse(data) {
        // The results of these are used unchecked, so they only have to return.
        let _ = answer.expires_unix_s();
        assert!(!answer.object_stores_text().is_empty());
        if answer.object_store_url("public", None).is_none() {
            assert!(answer.object_store_url("public", Some("x")).is_none());
        }
    }
    if let Ok(entries) = json::parse_container_page(data) {
        let bytes: usize = entries.iter().map(|entry| entry.name().len()).sum();
        assert!(bytes <= data.len());
    }
    drop(json::parse_bulk_answer(data));
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = date::parse_iso8601(text);
    }
}

/// A trial document is either rejected with a message, or its objects can be computed.
fn trial(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Trial::parse(text) {
        Ok(trial) => {
            let dataset = Dataset::new(&trial);
            for index in [0, trial.dataset.objects.saturating_sub(1), u64::MAX] {
                let bucket = dataset.bucket_of(index);
                assert!(bucket < trial.dataset.buckets);
                assert!(!dataset.bucket(bucket).is_empty());
                assert!(dataset.size(index) <= trial.dataset.size.max());
                let mut key = Vec::new();
                dataset.write_key(index, &mut key);
                let key = String::from_utf8(key).expect("a prefix and digits are text");
                assert_eq!(dataset.index_of(&key), Some(index));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A foreign table is either rejected with a message, or stays within its limits. The first two
/// bytes are the length of the footer, so that no input fails only because of its last bytes.
fn parquet(data: &[u8]) {
    let [low, high, content @ ..] = data else { return };
    let footer_bytes = u32::from(u16::from_le_bytes([*low, *high]));
    let bytes = [b"PAR1", content, &footer_bytes.to_le_bytes(), b"PAR1"].concat();
    let bounds = Bounds { bytes_max: 1 << 24, rows_max: 1 << 16 };
    for (wanted, later) in [
        (columns::list(), &columns::LATER_OF_LISTS[..]),
        (columns::intervals(), &columns::LATER),
        (columns::probes(), &[]),
    ] {
        match read_parquet(file_of(&bytes), &wanted, later, bounds) {
            Ok(table) => {
                assert!(table.rows() as u64 <= bounds.rows_max);
                assert_eq!(table.schema(), &wanted);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let mut batches = 0;
        // A short file can claim to have any number of rows.
        let read = for_each_batch(file_of(&bytes), &wanted, later, &mut |batch| {
            assert_eq!(batch.num_columns(), wanted.fields().len());
            batches += 1;
            batches < 4
        });
        if let Err(error) = read {
            assert!(!error.to_string().is_empty());
        }
    }
}

/// Returns an unlinked file with these bytes.
fn file_of(bytes: &[u8]) -> File {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("loadstone-fuzz-{}-{number}", std::process::id()));
    let mut file = File::create_new(&path).expect("the temporary directory is writable");
    std::fs::remove_file(&path).expect("it was just made");
    file.write_all(bytes).expect("it has room");
    file.rewind().expect("it is a file");
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_of_the_corpus_keep_the_invariants() {
        for target in TARGETS {
            let folder = format!("{}/corpus/{}", env!("CARGO_MANIFEST_DIR"), target.name);
            let inputs: Vec<_> = std::fs::read_dir(&folder)
                .unwrap_or_else(|error| panic!("{folder}: {error}"))
                .map(|entry| entry.expect("a folder of files").path())
                .collect();
            assert!(!inputs.is_empty(), "{folder} holds no input");
            for path in inputs {
                (target.run)(&std::fs::read(&path).expect("it can be read"));
            }
        }
    }
}
