//! The XML documents of S3.

use quick_xml::{Reader, escape::resolve_predefined_entity, events::Event};

use crate::date::Calendar;
use crate::encode::decode_url;

/// An error that a store reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct StoreError {
    /// Error code, such as `NoSuchKey`.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// The right region or endpoint, if the store names it.
    pub instead: Option<String>,
}

/// Why an answer is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// The document is not well-formed, or truncated.
    #[error("the answer is not well-formed XML")]
    Malformed,
    /// A different document than the requested one.
    #[error("the answer is a document \"{0}\"")]
    Unexpected(String),
    /// An expected document is missing.
    #[error("the answer has no \"{0}\"")]
    Missing(&'static str),
    /// An error in an answer with a success status.
    #[error(transparent)]
    Store(StoreError),
}

/// One page of a bucket's listing, without its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Number of objects on the page.
    pub objects: u64,
    /// Number of common prefixes on the page.
    pub prefixes: u64,
    /// Whether more pages follow.
    pub is_truncated: bool,
    /// Token of the next page.
    pub next_token: Option<String>,
    /// Whether keys are URL-encoded.
    pub is_encoded: bool,
}

/// One object in a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedObject {
    /// Key of the object.
    pub key: String,
    /// Size in bytes, if the page contains it.
    pub size_bytes: Option<u64>,
    /// ETag as in the page, usually in quotation marks.
    pub etag: Option<String>,
}

/// Parses the answer to ListObjectsV2. Passes every object's key and size to `on_object`; the key
/// is not decoded, see `parse_keys`.
///
/// # Errors
///
/// Any other document.
pub fn parse_list_page(
    xml: &[u8],
    mut on_object: impl FnMut(&str, u64),
) -> Result<ListPage, XmlError> {
    let (mut key, mut size) = (String::new(), 0);
    read_page(xml, |part| match part {
        Part::Field(b"Key", text) => {
            key.clear();
            key.push_str(text);
        }
        Part::Field(b"Size", text) => size = text.trim().parse().unwrap_or(0),
        Part::Field(..) => {}
        Part::ObjectEnd => on_object(&key, size),
    })
}

/// Parses the keys of a page of a listing, and decodes them if the page declares that they are
/// encoded.
///
/// # Errors
///
/// Any other document.
pub fn parse_keys(xml: &[u8]) -> Result<(ListPage, Vec<String>), XmlError> {
    let mut keys = Vec::new();
    let page = parse_list_page(xml, |key, _| keys.push(key.to_owned()))?;
    if page.is_encoded {
        keys.iter_mut().for_each(decode);
    }
    Ok((page, keys))
}

/// Parses a page of a listing with all data of its objects; keys are decoded as by `parse_keys`.
///
/// # Errors
///
/// Any other document.
pub fn parse_objects(xml: &[u8]) -> Result<(ListPage, Vec<ListedObject>), XmlError> {
    let (mut objects, mut object) = (Vec::new(), ListedObject::default());
    let page = read_page(xml, |part| match part {
        Part::Field(b"Key", text) => text.clone_into(&mut object.key),
        Part::Field(b"Size", text) => object.size_bytes = text.trim().parse().ok(),
        Part::Field(b"ETag", text) => object.etag = Some(text.to_owned()),
        Part::Field(..) => {}
        Part::ObjectEnd => objects.push(std::mem::take(&mut object)),
    })?;
    if page.is_encoded {
        objects.iter_mut().for_each(|object| decode(&mut object.key));
    }
    Ok((page, objects))
}

/// Successive parts of a page of a listing.
enum Part<'a> {
    /// A field of an object: its name and text.
    Field(&'a [u8], &'a str),
    /// The end of the object to which the previous fields belong.
    ObjectEnd,
}

fn read_page(xml: &[u8], mut take: impl FnMut(Part<'_>)) -> Result<ListPage, XmlError> {
    let mut page = ListPage::default();
    expect(xml, &["ListBucketResult"], |depth, name, text| match (depth, name, text) {
        (2, b"EncodingType", Some(text)) => page.is_encoded = is_url(text),
        (2, b"IsTruncated", Some(text)) => page.is_truncated = text.trim() == "true",
        (2, b"NextContinuationToken", Some(text)) => page.next_token = Some(text.to_owned()),
        (3, name, Some(text)) => take(Part::Field(name, text)),
        (2, b"Contents", None) => {
            page.objects += 1;
            take(Part::ObjectEnd);
        }
        (2, b"CommonPrefixes", None) => page.prefixes += 1,
        _ => {}
    })?;
    Ok(page)
}

/// Returns whether XML can contain a key: most control characters cannot be represented.
#[must_use]
pub fn is_writable(key: &str) -> bool {
    !key.contains(is_lost)
}

/// Returns a key as listed by stores that do not encode keys: U+FFFD replaces characters that XML
/// cannot represent.
#[must_use]
pub fn replaced(key: &str) -> String {
    key.replace(is_lost, "\u{fffd}")
}

fn is_lost(c: char) -> bool {
    matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}')
}

fn is_url(encoding: &str) -> bool {
    encoding.trim() == "url"
}

/// Decodes a name. An invalid encoding is kept, because some stores declare an encoding without
/// applying it.
fn decode(name: &mut String) {
    if let Some(decoded) = decode_url(name) {
        *name = decoded;
    }
}

/// Writes the body of a DeleteObjects request; the answer will contain only failures.
pub fn write_delete_objects<'a>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'a str>) {
    write_delete(out, keys.map(|key| (key, None)));
}

/// Writes the body of a DeleteObjects request for single versions: keys, each with the ID of a
/// version.
pub fn write_delete_versions<'a>(
    out: &mut Vec<u8>,
    versions: impl Iterator<Item = (&'a str, &'a str)>,
) {
    write_delete(out, versions.map(|(key, id)| (key, Some(id))));
}

fn write_delete<'a>(out: &mut Vec<u8>, versions: impl Iterator<Item = (&'a str, Option<&'a str>)>) {
    out.extend_from_slice(b"<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (key, id) in versions {
        out.extend_from_slice(b"<Object><Key>");
        write_escaped(out, key);
        out.extend_from_slice(b"</Key>");
        if let Some(id) = id {
            out.extend_from_slice(b"<VersionId>");
            write_escaped(out, id);
            out.extend_from_slice(b"</VersionId>");
        }
        out.extend_from_slice(b"</Object>");
    }
    out.extend_from_slice(b"<Quiet>true</Quiet></Delete>");
}

/// A version of an object, or a delete marker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedVersion {
    /// Key of the object.
    pub key: String,
    /// ID of the version.
    pub id: String,
    /// Whether it is the current version of the key.
    pub is_latest: bool,
    /// Whether it is a delete marker.
    pub is_marker: bool,
}

/// One page of the versions of a bucket's objects, including delete markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionPage {
    /// The versions of each key, newest first; a delete marker may also stand alone.
    pub versions: Vec<ListedVersion>,
    /// Key and ID to request the next page with, if there is one.
    pub next: Option<(String, String)>,
}

/// Parses the answer to ListObjectVersions.
///
/// # Errors
///
/// Any other document.
pub fn parse_version_page(xml: &[u8]) -> Result<VersionPage, XmlError> {
    let mut page = VersionPage::default();
    let (mut version, mut next) = (ListedVersion::default(), <(String, String)>::default());
    let (mut is_truncated, mut is_encoded) = (false, false);
    expect(xml, &["ListVersionsResult"], |depth, name, text| match (depth, name, text) {
        (2, b"EncodingType", Some(text)) => is_encoded = is_url(text),
        (2, b"IsTruncated", Some(text)) => is_truncated = text.trim() == "true",
        (2, b"NextKeyMarker", Some(text)) => next.0 = text.to_owned(),
        (2, b"NextVersionIdMarker", Some(text)) => next.1 = text.to_owned(),
        (3, b"Key", Some(text)) => version.key = text.to_owned(),
        (3, b"VersionId", Some(text)) => version.id = text.to_owned(),
        (3, b"IsLatest", Some(text)) => version.is_latest = text.trim() == "true",
        (2, b"Version" | b"DeleteMarker", None) => {
            version.is_marker = name == b"DeleteMarker";
            page.versions.push(std::mem::take(&mut version));
        }
        _ => {}
    })?;
    if is_encoded {
        page.versions.iter_mut().for_each(|version| decode(&mut version.key));
        decode(&mut next.0);
    }
    page.next = (is_truncated && !next.0.is_empty()).then_some(next);
    Ok(page)
}

/// Parses the answer to GetBucketVersioning; returns whether the bucket keeps versions or has kept
/// some.
///
/// # Errors
///
/// Any other document.
pub fn parse_versioning(xml: &[u8]) -> Result<bool, XmlError> {
    let mut is_versioned = false;
    // moto names the element after the answer.
    let roots = ["VersioningConfiguration", "GetBucketVersioningResponse"];
    expect(xml, &roots, |depth, name, text| {
        if (depth, name) == (2, b"Status") {
            is_versioned = text.is_some_and(|text| !text.trim().is_empty());
        }
    })?;
    Ok(is_versioned)
}

/// Parses the answer to DeleteObjects; returns the keys that failed, with the errors.
///
/// # Errors
///
/// Any other document.
pub fn parse_delete_answer(xml: &[u8]) -> Result<Vec<(String, StoreError)>, XmlError> {
    let mut failed = Vec::new();
    let (mut key, mut error) = (String::new(), StoreError::default());
    expect(xml, &["DeleteResult"], |depth, name, text| match (depth, name, text) {
        (3, b"Key", Some(text)) => key = text.to_owned(),
        (3, b"Code", Some(text)) => error.code = text.to_owned(),
        (3, b"Message", Some(text)) => error.message = text.to_owned(),
        (2, b"Error", None) => {
            failed.push((std::mem::take(&mut key), std::mem::take(&mut error)));
        }
        _ => {}
    })?;
    Ok(failed)
}

/// Parses the upload's ID from the answer to CreateMultipartUpload.
///
/// # Errors
///
/// Any other document, or one without an ID.
pub fn parse_upload_id(xml: &[u8]) -> Result<String, XmlError> {
    let mut id = None;
    expect(xml, &["InitiateMultipartUploadResult"], |depth, name, text| {
        if (depth, name) == (2, b"UploadId") {
            id = text.map(str::to_owned);
        }
    })?;
    id.filter(|id| !id.is_empty()).ok_or(XmlError::Missing("UploadId"))
}

/// One page of the uploads in progress in a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadPage {
    /// Key and ID of each upload.
    pub uploads: Vec<(String, String)>,
    /// Key and ID to request the next page with, if there is one.
    pub next: Option<(String, String)>,
}

/// Parses the answer to ListMultipartUploads.
///
/// # Errors
///
/// Any other document.
pub fn parse_upload_page(xml: &[u8]) -> Result<UploadPage, XmlError> {
    let mut page = UploadPage::default();
    let (mut upload, mut next) = (<(String, String)>::default(), <(String, String)>::default());
    let (mut is_truncated, mut is_encoded) = (false, false);
    expect(xml, &["ListMultipartUploadsResult"], |depth, name, text| match (depth, name, text) {
        (2, b"EncodingType", Some(text)) => is_encoded = is_url(text),
        (2, b"IsTruncated", Some(text)) => is_truncated = text.trim() == "true",
        (2, b"NextKeyMarker", Some(text)) => next.0 = text.to_owned(),
        (2, b"NextUploadIdMarker", Some(text)) => next.1 = text.to_owned(),
        (3, b"Key", Some(text)) => upload.0 = text.to_owned(),
        (3, b"UploadId", Some(text)) => upload.1 = text.to_owned(),
        (2, b"Upload", None) => page.uploads.push(std::mem::take(&mut upload)),
        _ => {}
    })?;
    if is_encoded {
        page.uploads.iter_mut().for_each(|(key, _)| decode(key));
        decode(&mut next.0);
    }
    page.next = (is_truncated && !next.0.is_empty()).then_some(next);
    Ok(page)
}

/// An uploaded part, as a completion lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadedPart {
    /// ETag that the store returned.
    pub etag: String,
    /// Element name of the checksum, and its value.
    pub checksum: Option<(&'static str, String)>,
}

/// Parses a part from the answer to UploadPartCopy, with the checksum in an element of this name.
///
/// # Errors
///
/// Any other document, or one without an ETag.
pub fn parse_copied_part(
    xml: &[u8],
    checksum_element: Option<&'static str>,
) -> Result<UploadedPart, XmlError> {
    let (mut etag, mut checksum) = (None, None);
    expect(xml, &["CopyPartResult"], |depth, name, text| {
        if depth == 2 && name == b"ETag" {
            etag = text.map(str::to_owned);
        }
        if let Some(element) = checksum_element
            && depth == 2
            && name == element.as_bytes()
        {
            checksum = text.map(|text| (element, text.to_owned()));
        }
    })?;
    let etag = etag.ok_or(XmlError::Missing("ETag"))?;
    Ok(UploadedPart { etag, checksum })
}

/// One page of the parts of an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartPage {
    /// Parts in the order of their numbers.
    pub parts: Vec<UploadedPart>,
    /// Part number to request the next page with, if there is one.
    pub next: Option<u64>,
}

/// Parses the answer to ListParts, with checksums in elements of this name.
///
/// # Errors
///
/// Any other document.
pub fn parse_part_page(
    xml: &[u8],
    checksum_element: Option<&'static str>,
) -> Result<PartPage, XmlError> {
    let (mut page, mut part) = (PartPage::default(), UploadedPart::default());
    let (mut is_truncated, mut next) = (false, None);
    expect(xml, &["ListPartsResult"], |depth, name, text| match (depth, name, text) {
        (2, b"IsTruncated", Some(text)) => is_truncated = text.trim() == "true",
        (2, b"NextPartNumberMarker", Some(text)) => next = text.trim().parse().ok(),
        (2, b"Part", None) => page.parts.push(std::mem::take(&mut part)),
        (3, b"ETag", Some(text)) => part.etag = text.to_owned(),
        (3, name, Some(text)) => {
            if let Some(element) = checksum_element.filter(|element| element.as_bytes() == name) {
                part.checksum = Some((element, text.to_owned()));
            }
        }
        _ => {}
    })?;
    page.next = next.filter(|_| is_truncated);
    Ok(page)
}

/// Writes the body of a CompleteMultipartUpload request for parts numbered from one.
pub fn write_complete_upload<'a>(out: &mut Vec<u8>, parts: impl Iterator<Item = &'a UploadedPart>) {
    out.extend_from_slice(
        b"<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
    );
    for (number, part) in (1..).zip(parts) {
        out.extend_from_slice(b"<Part><PartNumber>");
        crate::encode::write_number(out, number);
        out.extend_from_slice(b"</PartNumber><ETag>");
        write_escaped(out, &part.etag);
        out.extend_from_slice(b"</ETag>");
        if let Some((element, checksum)) = &part.checksum {
            for (begin, text) in [("<", *element), (">", checksum), ("</", *element), (">", "")] {
                out.extend_from_slice(begin.as_bytes());
                out.extend_from_slice(text.as_bytes());
            }
        }
        out.extend_from_slice(b"</Part>");
    }
    out.extend_from_slice(b"</CompleteMultipartUpload>");
}

/// Checks the answer to CompleteMultipartUpload or CopyObject.
///
/// Both may fail after the status 200 was sent, and then contain an error.
///
/// # Errors
///
/// The error in the answer, or that it is any other document.
pub fn check_late_answer(xml: &[u8]) -> Result<(), XmlError> {
    let roots = ["CompleteMultipartUploadResult", "CopyObjectResult", "CopyPartResult"];
    expect(xml, &roots, |_, _, _| {})
}

/// Parses an error document; `None` for anything else.
pub fn parse_error(xml: &[u8]) -> Option<StoreError> {
    match expect(xml, &[], |_, _, _| {}) {
        Err(XmlError::Store(error)) => Some(error),
        _ => None,
    }
}

/// Returns the body of a PutBucketVersioning request.
#[must_use]
pub fn versioning_body(status: &str) -> Vec<u8> {
    format!(
        "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Status>{status}</Status></VersioningConfiguration>"
    )
    .into_bytes()
}

/// Returns the body of a PutObjectRetention request that locks in governance mode until a time in
/// seconds since 1970.
#[must_use]
pub fn retention_body(until_unix_s: u64) -> Vec<u8> {
    format!(
        "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>GOVERNANCE</Mode>\
         <RetainUntilDate>{}</RetainUntilDate></Retention>",
        Calendar::from_unix(until_unix_s).iso8601()
    )
    .into_bytes()
}

/// Returns the body of a PutObjectLegalHold request.
#[must_use]
pub fn legal_hold_body(is_held: bool) -> &'static [u8] {
    match is_held {
        true => b"<LegalHold><Status>ON</Status></LegalHold>",
        false => b"<LegalHold><Status>OFF</Status></LegalHold>",
    }
}

/// Returns the body of a CreateBucket request for a region that is not the default one.
#[must_use]
pub fn create_bucket_body(region: &str) -> Vec<u8> {
    let mut out = b"<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
        <LocationConstraint>"
        .to_vec();
    write_escaped(&mut out, region);
    out.extend_from_slice(b"</LocationConstraint></CreateBucketConfiguration>");
    out
}

fn write_escaped(out: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'\t' | b'\n' => out.push(byte),
            // A bare carriage return would be read as a line feed. XML 1.0 cannot represent the
            // other control characters, so it depends on the store whether it accepts this form.
            byte if byte < b' ' => {
                out.extend_from_slice(b"&#");
                crate::encode::write_number(out, byte.into());
                out.push(b';');
            }
            byte => out.push(byte),
        }
    }
}

/// Parses a document that must have one of these roots; an error document is returned as an error.
fn expect(
    xml: &[u8],
    roots: &[&str],
    mut visit: impl FnMut(usize, &[u8], Option<&str>),
) -> Result<(), XmlError> {
    // Other services, such as STS, wrap the same error in an "ErrorResponse".
    let (mut error, mut wrapped) = (StoreError::default(), StoreError::default());
    let root = walk(xml, |depth, name, text| {
        let store_error = if depth == 3 { &mut wrapped } else { &mut error };
        match (depth, name, text) {
            (2 | 3, b"Code", Some(text)) => store_error.code = text.to_owned(),
            (2 | 3, b"Message", Some(text)) => store_error.message = text.to_owned(),
            (2, b"Region" | b"Endpoint", Some(text)) => store_error.instead = Some(text.to_owned()),
            _ => {}
        }
        visit(depth, name, text);
    })?;
    match root.as_str() {
        "Error" => Err(XmlError::Store(error)),
        "ErrorResponse" => Err(XmlError::Store(wrapped)),
        root if roots.contains(&root) => Ok(()),
        _ => Err(XmlError::Unexpected(root)),
    }
}

/// Walks through a document, and at the end of every element passes on its depth and name, and its
/// text if it contained no other elements. Returns the root's name.
fn walk(xml: &[u8], mut visit: impl FnMut(usize, &[u8], Option<&str>)) -> Result<String, XmlError> {
    // During a long request, a store may send blanks before the document.
    let mut reader = Reader::from_reader(xml.trim_ascii_start());
    reader.config_mut().expand_empty_elements = true;
    let (mut depth, mut root) = (0_usize, None);
    let (mut text, mut is_leaf) = (String::new(), false);
    loop {
        match reader.read_event().map_err(|_| XmlError::Malformed)? {
            Event::Start(start) => {
                depth += 1;
                text.clear();
                is_leaf = true;
                if root.is_none() {
                    root = Some(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
                }
            }
            Event::End(end) => {
                visit(depth, end.local_name().as_ref(), is_leaf.then_some(text.as_str()));
                depth = depth.checked_sub(1).ok_or(XmlError::Malformed)?;
                is_leaf = false;
            }
            Event::Text(part) => {
                text.push_str(&part.xml10_content().map_err(|_| XmlError::Malformed)?);
            }
            Event::CData(part) => {
                text.push_str(&part.decode().map_err(|_| XmlError::Malformed)?);
            }
            Event::GeneralRef(entity) => {
                match entity.resolve_char_ref().map_err(|_| XmlError::Malformed)? {
                    Some(character) => text.push(character),
                    None => {
                        let name = entity.decode().map_err(|_| XmlError::Malformed)?;
                        let value = resolve_predefined_entity(&name);
                        text.push_str(value.ok_or(XmlError::Malformed)?);
                    }
                }
            }
            Event::Eof => break,
            Event::Empty(_) | Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
            // No store sends one, and it could declare entities.
            Event::DocType(_) => return Err(XmlError::Malformed),
        }
    }
    if depth == 0 { root.ok_or(XmlError::Malformed) } else { Err(XmlError::Malformed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>p</Prefix>
<KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>
<Contents><Key>a&amp;b &#x263a;/1</Key><Size>10</Size><Owner><ID>Key</ID></Owner></Contents>
<Contents><Key><![CDATA[c<d]]></Key><Size>20</Size></Contents>
<CommonPrefixes><Prefix>x/</Prefix></CommonPrefixes>
<NextContinuationToken>to/ken==</NextContinuationToken></ListBucketResult>"#;

    #[test]
    fn a_page_has_its_objects_and_the_next_token() {
        let mut objects = Vec::new();
        let page =
            parse_list_page(PAGE.as_bytes(), |key, size| objects.push((key.to_owned(), size)));
        assert_eq!(objects, [("a&b ☺/1".to_owned(), 10), ("c<d".to_owned(), 20)]);
        let page = page.unwrap();
        assert_eq!((page.objects, page.prefixes, page.is_truncated), (2, 1, true));
        assert_eq!(page.next_token.as_deref(), Some("to/ken=="));
    }

    #[test]
    fn versions_and_delete_markers_are_parsed() {
        let page = br"<ListVersionsResult><IsTruncated>true</IsTruncated>
<Version><Key>a</Key><VersionId>2</VersionId><IsLatest>true</IsLatest><Owner><ID>x</ID></Owner></Version>
<DeleteMarker><Key>a</Key><VersionId>1</VersionId></DeleteMarker>
<Version><Key>b</Key><VersionId>null</VersionId></Version>
<NextKeyMarker>b</NextKeyMarker><NextVersionIdMarker>null</NextVersionIdMarker>
</ListVersionsResult>";
        let page_of_versions = parse_version_page(page).unwrap();
        let pair = |key: &str, id: &str| (key.to_owned(), id.to_owned());
        let version = |key: &str, id: &str| {
            let (key, id) = pair(key, id);
            ListedVersion { key, id, is_latest: false, is_marker: false }
        };
        let expected = [
            ListedVersion { is_latest: true, ..version("a", "2") },
            ListedVersion { is_marker: true, ..version("a", "1") },
            version("b", "null"),
        ];
        assert_eq!(page_of_versions.versions, expected);
        assert_eq!(page_of_versions.next, Some(pair("b", "null")));
        let mut body = Vec::new();
        write_delete_versions(&mut body, [("a&", "2")].into_iter());
        let body = String::from_utf8(body).unwrap();
        assert!(body.contains("<Object><Key>a&amp;</Key><VersionId>2</VersionId></Object>"));
        let of = |status| {
            parse_versioning(
                format!("<VersioningConfiguration>{status}</VersioningConfiguration>").as_bytes(),
            )
        };
        assert_eq!(of(""), Ok(false));
        assert_eq!(of("<Status>Suspended</Status>"), Ok(true));
        let of_moto =
            b"<GetBucketVersioningResponse><Status>Enabled</Status></GetBucketVersioningResponse>";
        assert_eq!(parse_versioning(of_moto), Ok(true));
    }

    #[test]
    fn names_are_decoded_if_the_answer_declares_an_encoding() {
        let encoded = "a%01+%2B/%C3%BC";
        let decoded = "a\u{1} +/ü".to_owned();
        for (encoding, expected) in [("<EncodingType>url</EncodingType>", &*decoded), ("", encoded)]
        {
            let keys = format!(
                "<ListBucketResult><Contents><Key>{encoded}</Key></Contents>{encoding}</ListBucketResult>"
            );
            assert_eq!(parse_keys(keys.as_bytes()).unwrap().1, [expected]);
            let entry = format!(
                "<NextKeyMarker>{encoded}</NextKeyMarker><IsTruncated>true</IsTruncated>{encoding}"
            );
            let versions = format!(
                "<ListVersionsResult><Version><Key>{encoded}</Key></Version>{entry}</ListVersionsResult>"
            );
            let page = parse_version_page(versions.as_bytes()).unwrap();
            assert_eq!((&*page.versions[0].key, &*page.next.unwrap().0), (expected, expected));
            let uploads = format!(
                "<ListMultipartUploadsResult><Upload><Key>{encoded}</Key></Upload>{entry}\
                 </ListMultipartUploadsResult>"
            );
            let page = parse_upload_page(uploads.as_bytes()).unwrap();
            assert_eq!((&*page.uploads[0].0, &*page.next.unwrap().0), (expected, expected));
        }
        let wrong = b"<ListBucketResult><Contents><Key>50%</Key></Contents>\
            <EncodingType>url</EncodingType></ListBucketResult>";
        assert_eq!(parse_keys(wrong).unwrap().1, ["50%"]);
        assert!(is_writable("a\tb\r\nü") && !is_writable("a\u{1}") && !is_writable("\u{ffff}"));
    }

    #[test]
    fn an_empty_bucket_has_an_empty_last_page() {
        let page = parse_list_page(b"<ListBucketResult/>", |_, _| panic!("no object is there"));
        assert_eq!(page, Ok(ListPage::default()));
    }

    #[test]
    fn a_truncated_document_is_malformed() {
        for length in 60..PAGE.len() - 1 {
            if PAGE.is_char_boundary(length) {
                let listed = parse_list_page(&PAGE.as_bytes()[..length], |_, _| ());
                assert_eq!(listed, Err(XmlError::Malformed), "{length}");
            }
        }
    }

    #[test]
    fn keys_are_escaped_and_read_back() {
        let mut body = Vec::new();
        write_delete_objects(&mut body, ["a<b>&c\r", "d"].into_iter());
        let mut keys = Vec::new();
        let root = walk(&body, |depth, name, text| {
            if (depth, name) == (3, b"Key") {
                keys.push(text.unwrap().to_owned());
            }
        });
        assert_eq!((root.unwrap().as_str(), keys.len()), ("Delete", 2));
        assert_eq!(keys[0], "a<b>&c\r");
    }

    #[test]
    fn a_bulk_delete_names_the_keys_that_failed() {
        let answer = b"<DeleteResult><Deleted><Key>x</Key></Deleted><Error><Key>k</Key>\
            <Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>";
        let failed = parse_delete_answer(answer).unwrap();
        assert_eq!(failed.len(), 1);
        assert_eq!((failed[0].0.as_str(), failed[0].1.code.as_str()), ("k", "AccessDenied"));
        assert_eq!(parse_delete_answer(b"<DeleteResult/>"), Ok(Vec::new()));
    }

    #[test]
    fn an_upload_starts_with_its_id_and_ends_with_its_parts() {
        let answer = b"<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>2~a</UploadId>\
            </InitiateMultipartUploadResult>";
        assert_eq!(parse_upload_id(answer), Ok("2~a".to_owned()));
        let none = parse_upload_id(b"<InitiateMultipartUploadResult/>");
        assert_eq!(none, Err(XmlError::Missing("UploadId")));
        let mut body = Vec::new();
        let part = |etag: &str, checksum| UploadedPart { etag: etag.to_owned(), checksum };
        let crc = Some(("ChecksumCRC32C", "Cq==".to_owned()));
        write_complete_upload(&mut body, [part("\"e1\"", None), part("\"e2\"", crc)].iter());
        let body = String::from_utf8(body).unwrap();
        assert!(
            body.contains(
                "<PartNumber>1</PartNumber><ETag>\"e1\"</ETag></Part><Part><PartNumber>2\
                 </PartNumber><ETag>\"e2\"</ETag><ChecksumCRC32C>Cq==</ChecksumCRC32C></Part>"
            ),
            "{body}"
        );
    }

    #[test]
    fn a_page_of_uploads_has_keys_with_ids_and_the_next_marker() {
        let upload =
            "<Upload><Key>k</Key><UploadId>2~a</UploadId><Owner><ID>o</ID></Owner></Upload>";
        let page = |truncated: bool| {
            format!(
                "<ListMultipartUploadsResult><NextKeyMarker>k</NextKeyMarker>\
                 <NextUploadIdMarker>2~a</NextUploadIdMarker>\
                 <IsTruncated>{truncated}</IsTruncated>{upload}</ListMultipartUploadsResult>"
            )
        };
        let (key, id) = ("k".to_owned(), "2~a".to_owned());
        let first = parse_upload_page(page(true).as_bytes()).unwrap();
        assert_eq!(first.uploads, [(key.clone(), id.clone())]);
        assert_eq!(first.next, Some((key, id)));
        assert_eq!(parse_upload_page(page(false).as_bytes()).unwrap().next, None);
        let none = parse_upload_page(b"<ListBucketResult/>");
        assert_eq!(none, Err(XmlError::Unexpected("ListBucketResult".to_owned())));
    }

    #[test]
    fn an_error_with_a_success_status_is_an_error() {
        assert_eq!(
            check_late_answer(b"\n \n<CopyObjectResult><ETag>x</ETag></CopyObjectResult>"),
            Ok(())
        );
        let late =
            check_late_answer(b"<Error><Code>SlowDown</Code><Message>wait</Message></Error>");
        let Err(XmlError::Store(error)) = late else { panic!("{late:?}") };
        assert_eq!(error.to_string(), "SlowDown: wait");
        assert_eq!(check_late_answer(b""), Err(XmlError::Malformed));
        assert_eq!(check_late_answer(b"<html/>"), Err(XmlError::Unexpected("html".to_owned())));
    }

    #[test]
    fn an_error_document_is_distinguished_from_a_page_of_a_proxy() {
        let error = parse_error(
            b"<?xml version='1.0'?><Error><Code>PermanentRedirect</Code><Message>elsewhere</Message>\
              <Endpoint>b.s3.eu.example</Endpoint></Error>",
        )
        .unwrap();
        assert_eq!(error.instead.as_deref(), Some("b.s3.eu.example"));
        assert_eq!(parse_error(b"<html><body>502</body></html>"), None);
        assert_eq!(parse_error(b"Bad Gateway"), None);
        assert_eq!(parse_error(b""), None);
    }

    #[test]
    fn a_document_with_declarations_is_malformed() {
        let bomb = b"<!DOCTYPE x [<!ENTITY a \"b\">]><Error><Code>&a;</Code></Error>";
        assert_eq!(parse_error(bomb), None);
    }

    #[test]
    fn an_error_of_another_service_is_parsed_too() {
        let sts = b"<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error>\
            <Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error>\
            <RequestId>1</RequestId></ErrorResponse>";
        let refusal = parse_error(sts).expect("it is one");
        assert_eq!((refusal.code.as_str(), refusal.message.as_str()), ("AccessDenied", "no"));
        assert!(parse_error(b"<ListBucketResult/>").is_none());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_error(&noise);
            let _ = parse_list_page(&[b"<ListBucketResult>", noise.as_slice()].concat(), |_, _| ());
        }

        #[test]
        fn any_text_is_escaped_so_that_it_reads_back(key in "[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\n]*") {
            let mut body = Vec::new();
            write_delete_objects(&mut body, std::iter::once(key.as_str()));
            let mut read_key = None;
            walk(&body, |_, name, text| if name == b"Key" { read_key = text.map(str::to_owned) }).unwrap();
            prop_assert_eq!(read_key.as_deref(), Some(key.as_str()));
        }
    }
}
