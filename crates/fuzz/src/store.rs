//! The embedded store: whatever it is sent, each answer is whole and says what it says, nothing
//! that was acknowledged is lost, and it serves on.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use loadstone_store::{Connection, InProcessStore, Secret, StoreConfig};
use loadstone_wire::date::Calendar;
use loadstone_wire::digest::{md5, sha256};
use loadstone_wire::encode::{hex_of_sha256, write_hex, write_path, write_query_part};
use loadstone_wire::http1::{Event, Method, ResponseParser};
use percent_encoding::percent_decode;

#[cfg(test)]
mod hostile_values;

/// The memory of the store under test: enough to unpack an archive.
const MEMORY_BYTES_MAX: u64 = 80 << 20;

/// What stands between two requests of an input.
const SEPARATOR: &[u8] = b"\n----\n";

/// Bytes as they come from a connection: the first byte says where they are cut.
pub(crate) fn connection(data: &[u8]) {
    let [cut, bytes @ ..] = data else { return };
    let scene = Scene::new(data);
    let bytes = scene.filled_in(bytes);
    let (front, back) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    read(&scene.store.serve(&[front, back]));
    scene.end();
}

/// Requests one after the other, each signed, or with a token where its path is Swift's: a request
/// line without version, headers, an empty line, the body. `UPLOAD`, `VERSION` and `TOKEN` stand
/// for what the store named last.
pub(crate) fn requests(data: &[u8]) {
    let mut scene = Scene::new(data);
    for block in split(data, SEPARATOR) {
        if let Some(request) = Request::parse(&scene.filled_in(block)) {
            scene.ask(&request);
        }
    }
    scene.end();
}

/// A store with a bucket, an object and an upload, and an object that no input can name.
struct Scene {
    store: InProcessStore,
    upload: Vec<u8>,
    version: Vec<u8>,
    token: Vec<u8>,
    witness: Vec<u8>,
}

impl Scene {
    fn new(data: &[u8]) -> Scene {
        let secret = || Some(Secret::Literal("secret".to_owned()));
        let store = InProcessStore::new(&StoreConfig {
            access_key: Some("key".to_owned()),
            secret_key: secret(),
            user: Some("user".to_owned()),
            password: secret(),
            memory_bytes_max: MEMORY_BYTES_MAX,
            ..StoreConfig::default()
        });
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(data);
        let mut scene = Scene {
            store: store.expect("the configuration is sound"),
            upload: b"none".to_vec(),
            version: b"null".to_vec(),
            token: Vec::new(),
            witness: format!("/w{hash:016x}").into_bytes(),
        };
        let log_in = "GET /auth/v1.0\nx-auth-user: test:user\nx-auth-key: secret\n\n";
        let witness = String::from_utf8_lossy(&scene.witness).into_owned();
        let put = format!("PUT {witness}\n\n");
        let put_in = format!("PUT {witness}/object\n\nwitness");
        let key = "PUT /bucket/key\nx-amz-meta-a: b\n\n0123456789abcdef";
        for text in [log_in, "PUT /bucket\n\n", key, "POST /bucket/key?uploads=\n\n", &put, &put_in]
        {
            let request = Request::parse(text.as_bytes()).expect("it is one");
            assert_eq!(scene.ask(&request).map(|answer| answer.status), Some(200), "{text}");
        }
        scene
    }

    /// The store still answers, and still holds the witness object.
    fn end(mut self) {
        let path = self.witness.clone();
        let answer = self.get(&[&path, "/object".as_bytes()].concat());
        assert_eq!((answer.status, &*answer.body), (200, &b"witness"[..]), "it was acknowledged");
        assert!(self.store.memory_bytes() <= MEMORY_BYTES_MAX);
    }

    fn filled_in(&self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        for (name, value) in
            [("UPLOAD", &self.upload), ("VERSION", &self.version), ("TOKEN", &self.token)]
        {
            if text.windows(name.len()).any(|at| at == name.as_bytes()) {
                text = split(&text, name.as_bytes()).collect::<Vec<_>>().join(&value[..]);
            }
        }
        text
    }

    fn get(&mut self, target: &[u8]) -> Answer {
        let request = Request {
            method: b"GET".to_vec(),
            target: target.to_vec(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        self.ask(&request).expect("a read is answered")
    }

    /// Sends a request on a connection of its own; reads again what it has put.
    fn ask(&mut self, request: &Request) -> Option<Answer> {
        let sent = request.write(&self.token);
        let connection = self.store.serve(&[&sent]);
        let answer = read(&connection).into_iter().next();
        let is_whole = !["content-length", "transfer-encoding", "expect"]
            .iter()
            .any(|name| request.header(name).is_some());
        assert!(answer.is_some() || !is_whole, "a whole request is answered");
        let answer = answer?;
        if let Some(id) = between(&answer.body, b"<UploadId>", b"</UploadId>") {
            self.upload = id.to_vec();
        }
        for name in ["x-amz-version-id", "x-object-version-id"] {
            if let Some(id) = answer.header(name) {
                self.version = id.to_vec();
            }
        }
        if let Some(token) = answer.header("x-auth-token") {
            self.token = token.to_vec();
        }
        if connection.methods == ["PUT"] && request.puts_its_body() && answer.status / 100 == 2 {
            let kept = self.get(request.path());
            assert_eq!(kept.status, 200, "what was put is there");
            assert_eq!(kept.header("etag"), answer.header("etag"), "it is the same");
            let mut digest = Vec::new();
            write_hex(&mut digest, &md5(&kept.body));
            let tag = kept.header("etag").unwrap_or_default();
            assert_eq!(
                tag.trim_ascii_start().strip_prefix(b"\"").unwrap_or(tag).get(..32),
                Some(&digest[..])
            );
        }
        Some(answer)
    }
}

/// A request as an input writes it.
struct Request {
    method: Vec<u8>,
    target: Vec<u8>,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Request {
    fn parse(text: &[u8]) -> Option<Request> {
        let end = text.windows(2).position(|two| two == b"\n\n").unwrap_or(text.len());
        let mut lines = text[..end].split(|byte| *byte == b'\n');
        let line = lines.next()?;
        let at = line.iter().position(|byte| *byte == b' ')?;
        let headers = lines.filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b':')?;
            Some((line[..at].to_ascii_lowercase(), line[at + 1..].trim_ascii().to_vec()))
        });
        Some(Request {
            method: line[..at].to_vec(),
            target: line[at + 1..].to_vec(),
            headers: headers.collect(),
            body: text.get(end + 2..).unwrap_or_default().to_vec(),
        })
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        let found = self.headers.iter().find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| &value[..])
    }

    fn path(&self) -> &[u8] {
        // A server drops what stands behind "#".
        self.target.split(|byte| b"?#".contains(byte)).next().unwrap_or_default()
    }

    fn query(&self) -> &[u8] {
        self.target.get(self.path().len() + 1..).unwrap_or_default()
    }

    fn is_swift(&self) -> bool {
        ["/v1/", "/v3", "/auth/v1.0", "/info", "/healthcheck"]
            .iter()
            .any(|beginning| self.path().starts_with(beginning.as_bytes()))
    }

    /// Whether an object that holds the body is what the request makes, and is to stay for a while.
    fn puts_its_body(&self) -> bool {
        let parts =
            self.path().split(|byte| *byte == b'/').skip(if self.is_swift() { 3 } else { 1 });
        let is_elsewhere = |(name, _): &(Vec<u8>, Vec<u8>)| {
            let name = name.as_slice();
            [&b"host"[..], b"x-object-manifest", b"x-symlink-target", b"x-copy-from"]
                .contains(&name)
                || [&b"x-amz-copy"[..], b"x-delete-", b"content-length", b"transfer-", b"expect"]
                    .iter()
                    .any(|beginning| name.starts_with(beginning))
        };
        self.query().is_empty()
            && parts.filter(|part| !part.is_empty()).count() > 1
            && !self.headers.iter().any(is_elsewhere)
    }

    /// Writes the request as it goes over the wire.
    fn write(&self, token: &[u8]) -> Vec<u8> {
        let mut out = [&self.method, &b" "[..], &self.target, b" HTTP/1.1\r\n"].concat();
        let mut own: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut add = |name: &str, value: &[u8]| {
            if self.header(name).is_none() {
                own.push((name.into(), value.into()));
            }
        };
        add("host", b"localhost");
        if self.header("transfer-encoding").is_none() {
            add("content-length", self.body.len().to_string().as_bytes());
        }
        match self.is_swift() {
            true => add("x-auth-token", token),
            false => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                add("x-amz-date", &Calendar::from_unix(now.as_secs()).basic());
                add("x-amz-content-sha256", b"UNSIGNED-PAYLOAD");
            }
        }
        let all: Vec<_> = own.iter().chain(&self.headers).collect();
        for (name, value) in &all {
            out.extend_from_slice(&[name, &b": "[..], value, b"\r\n"].concat());
        }
        if !self.is_swift() && self.header("authorization").is_none() {
            out.extend_from_slice(&self.authorization(&all));
        }
        [&out, &b"\r\n"[..], &self.body].concat()
    }

    /// Returns the header line of a signature over the host and all that is S3's.
    fn authorization(&self, headers: &[&(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let value = |name: &[u8]| {
            let found = headers.iter().find(|(known, _)| known == name);
            found.map_or(&[][..], |(_, value)| &value[..])
        };
        let mut names: Vec<&[u8]> = headers.iter().map(|(name, _)| &name[..]).collect();
        names.retain(|name| *name == b"host" || name.starts_with(b"x-amz-"));
        names.sort_unstable();
        names.dedup();
        let mut canonical = [&self.method, &b"\n"[..]].concat();
        write_path(&mut canonical, &percent_decode(self.path()).collect::<Vec<_>>());
        canonical.push(b'\n');
        canonical.extend_from_slice(&canonical_query(self.query()));
        canonical.push(b'\n');
        for name in &names {
            let words: Vec<_> = value(name)
                .split(u8::is_ascii_whitespace)
                .filter(|word| !word.is_empty())
                .collect();
            canonical.extend_from_slice(&[name, &b":"[..], &words.join(&b' '), b"\n"].concat());
        }
        let signed = names.join(&b';');
        let payload = value(b"x-amz-content-sha256");
        canonical.extend_from_slice(&[&b"\n"[..], &signed, b"\n", payload].concat());
        let time = value(b"x-amz-date");
        let day = time.get(..8).unwrap_or_default();
        let scope = [day, b"/us-east-1/s3/aws4_request"].concat();
        let digest = hex_of_sha256(&sha256(&canonical));
        let text = [b"AWS4-HMAC-SHA256\n", time, b"\n", &scope, b"\n", &digest].concat();
        let mut key = b"AWS4secret".to_vec();
        for part in [day, b"us-east-1", b"s3", b"aws4_request", &text] {
            key = hmac(&key, part);
        }
        let mut out = b"authorization: AWS4-HMAC-SHA256 Credential=key/".to_vec();
        out.extend_from_slice(&[&scope, &b", SignedHeaders="[..], &signed].concat());
        out.extend_from_slice(b", Signature=");
        write_hex(&mut out, &key);
        out.extend_from_slice(b"\r\n");
        out
    }
}

fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).expect("any length will do");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

/// Writes a query as it is signed: sorted, and encoded in one way.
fn canonical_query(query: &[u8]) -> Vec<u8> {
    let encoded = |text: &[u8]| {
        let spaced: Vec<_> = text.iter().map(|b| if *b == b'+' { b' ' } else { *b }).collect();
        let mut out = Vec::new();
        write_query_part(&mut out, &percent_decode(&spaced).collect::<Vec<_>>());
        out
    };
    let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = pairs
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            (encoded(&pair[..at]), encoded(pair.get(at + 1..).unwrap_or_default()))
        })
        .collect();
    pairs.sort();
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| [&name[..], value].join(&b'=')).collect();
    pairs.join(&b'&')
}

/// An answer of the store.
#[derive(Debug, Default)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

/// Headers of an answer that something here depends on.
const NOTED: [&str; 5] =
    ["content-type", "etag", "x-amz-version-id", "x-object-version-id", "x-auth-token"];

impl Answer {
    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| &value[..])
    }

    fn check(&self) {
        assert!((200..600).contains(&self.status), "status {}", self.status);
        assert_ne!(self.status, 500, "{}", String::from_utf8_lossy(&self.body));
        // With an entity tag it is an object, whose bytes and type are the client's.
        if self.header("etag").is_some() || self.body.is_empty() {
            return;
        }
        let kind = String::from_utf8_lossy(self.header("content-type").unwrap_or_default());
        if kind.starts_with("application/json") {
            let parsed = serde_json::from_slice::<serde::de::IgnoredAny>(&self.body);
            parsed.unwrap_or_else(|error| panic!("a document is JSON: {error}"));
        } else if kind.starts_with("application/xml") {
            check_xml(&self.body);
        }
    }
}

/// Panics where a document is no well-formed XML.
fn check_xml(body: &[u8]) {
    let shown = String::from_utf8_lossy(body);
    let text = std::str::from_utf8(body).unwrap_or_else(|_| panic!("it is UTF-8: {shown}"));
    let is_allowed =
        |c: char| c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}') || "\t\n\r".contains(c);
    assert!(text.chars().all(is_allowed), "characters that XML can carry: {shown:?}");
    let mut reader = quick_xml::Reader::from_str(text);
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => break,
            Ok(_) => {}
            Err(error) => panic!("well-formed XML: {error}: {shown}"),
        }
    }
}

/// Reads all answers of a connection, each of which must be whole and well formed.
fn read(connection: &Connection) -> Vec<Answer> {
    assert!(!connection.is_stuck, "the connection stalled");
    let mut rest = &connection.sent[..];
    let mut answers = Vec::new();
    for method in &connection.methods {
        if rest.is_empty() {
            // The client was gone before its request was whole.
            return answers;
        }
        answers.push(read_one(method.as_str(), &mut rest));
    }
    if !rest.is_empty() {
        // What is no request at all is refused beneath the store.
        let answer = read_one("GET", &mut rest);
        assert!((400..432).contains(&answer.status), "status {}", answer.status);
        assert!(rest.is_empty(), "there are no more answers than requests");
        answers.push(answer);
    }
    answers
}

fn read_one(method: &str, rest: &mut &[u8]) -> Answer {
    let mut parser = ResponseParser::default();
    parser.start(if method == "HEAD" { Method::Head } else { Method::Get });
    let mut answer = Answer::default();
    loop {
        let progress = parser.next(rest).expect("an answer is HTTP");
        let consumed = progress.consumed;
        let mut is_ended = false;
        match progress.event {
            Event::More => {
                *rest = &rest[consumed..];
                parser.close().expect("an answer is whole");
                break;
            }
            Event::Head(head) => {
                answer.status = head.status;
                let noted = |name: &'static str| Some((name, head.header(name)?.to_vec()));
                answer.headers = NOTED.iter().filter_map(|name| noted(name)).collect();
            }
            Event::Body(bytes) => answer.body.extend_from_slice(bytes),
            Event::End => is_ended = true,
        }
        *rest = &rest[consumed..];
        if is_ended {
            break;
        }
    }
    answer.check();
    answer
}

fn split<'t>(text: &'t [u8], by: &'t [u8]) -> impl Iterator<Item = &'t [u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let at = text.windows(by.len()).position(|at| at == by);
        rest = at.map(|at| &text[at + by.len()..]);
        Some(&text[..at.unwrap_or(text.len())])
    })
}

fn between<'t>(text: &'t [u8], from: &[u8], to: &[u8]) -> Option<&'t [u8]> {
    let begin = text.windows(from.len()).position(|at| at == from)? + from.len();
    let length = text[begin..].windows(to.len()).position(|at| at == to)?;
    Some(&text[begin..begin + length])
}
