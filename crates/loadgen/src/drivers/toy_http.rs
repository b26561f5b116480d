//! Driver `toy_http`, for tests only: objects by plain PUT, GET, HEAD and DELETE, as of a WebDAV
//! server. It shows what a driver over HTTP requires: this file and its row in the table of
//! drivers. It omits the owner's tags with which runs share a place with others (`write_beside`,
//! `ours_of`). Its tests, with a server of a few lines, are below it.

use std::rc::Rc;
use std::sync::Arc;

use loadstone_wire::encode::{write_path, write_query};
use loadstone_wire::http1::{self, Method};

use crate::driver::Driver;
use crate::error::Error;
use crate::facts::{Address, AddressKind, Facts, Form};
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::{Look, Made, Page, Places, Removed, Scope, Title};
use crate::reactor::Reactor;
use crate::requests::Request;
use crate::settings::{self, Setting, SettingKind, setting};
use crate::transport::connection::Reply;
use crate::transport::endpoint::Url;
use crate::transport::failure::{Refusal, hint_to_reach};
use crate::transport::http_store::{HttpStore, ListedPage, PageSpec, make_client};
use crate::transport::http_target::{
    self, HeadSpec, HttpClient, HttpTarget, HttpThread, finish_head,
};
use crate::transport::transfer::{Nothing, Upload};
use crate::trial::Trial;

const MARK: &str = ".loadstone-mark";

const SETTINGS: &[Setting] = &[
    Setting { required: true, ..setting("endpoints", SettingKind::Texts, "URLs of the server") },
    http_target::TLS,
];

/// A server, shared by all load threads.
pub(super) struct ToyHttp {
    http: Arc<HttpTarget>,
}

/// One client of the server.
pub(super) struct ToyHttpClient {
    http: HttpClient<Self>,
    host: Vec<u8>,
    /// Path of the next request.
    path: Vec<u8>,
}

impl Driver for ToyHttp {
    const NAME: &'static str = "toy_http";
    const SUMMARY: &'static str = "objects on a server that knows PUT, GET, HEAD and DELETE";
    const OPERATIONS: &'static [Operation] =
        &[Operation::Put, Operation::Get, Operation::Head, Operation::List, Operation::Delete];
    const SETTINGS: &'static [Setting] = SETTINGS;
    const FACTS: Facts = Facts {
        place: "collection",
        address: Address { kind: AddressKind::Urls, settings: &["endpoints"] },
        connects: true,
        words: &["toy_http+http://HOST:PORT"],
        forms: &[Form::NamedUrl("endpoints")],
        ..Facts::PLAIN
    };
    type Thread = Rc<HttpThread>;
    type Client = ToyHttpClient;

    fn check(trial: &Trial) -> Vec<String> {
        http_target::mistakes(trial, SETTINGS, &["endpoints"], &Self::FACTS.limits)
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        let urls = settings::texts(&trial.target.settings, "endpoints");
        let urls: Result<Vec<Url>, String> = urls.into_iter().map(Url::parse).collect();
        let urls = urls.map_err(|reason| Error::Trial(vec![reason]))?;
        // No key is derived from another: there are no copies and no parts.
        Ok(Self { http: Arc::new(HttpTarget::open(trial, urls, |key| key, judge)?) })
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<HttpThread>, Error> {
        HttpThread::new(&self.http)
    }

    fn client(
        self: &Arc<Self>,
        thread: &Rc<HttpThread>,
        index: u32,
    ) -> Result<ToyHttpClient, Error> {
        make_client(thread, index, |http, url| ToyHttpClient {
            http,
            host: url.host_header().into_bytes(),
            path: Vec::new(),
        })
    }
}

/// Maps a refusal to an outcome.
fn judge(status: u16, _: &Refusal) -> Outcome {
    if status == 429 { Outcome::THROTTLED } else { Outcome::http(status) }
}

impl HttpStore for ToyHttpClient {
    const RUN: &'static str = "x-meta-loadstone-run";

    fn http(&self) -> &HttpClient<Self> {
        &self.http
    }

    fn http_mut(&mut self) -> &mut HttpClient<Self> {
        &mut self.http
    }

    fn at_object(&mut self, index: u64, suffix: &[u8]) {
        let (dataset, mut key) = (&self.http.thread.dataset, Vec::new());
        dataset.write_key(index, &mut key);
        key.extend_from_slice(suffix);
        let place = dataset.bucket(dataset.bucket_of(index));
        self.at(&place, &String::from_utf8_lossy(&key));
    }

    fn at(&mut self, place: &str, key: &str) {
        self.path.clear();
        self.path.push(b'/');
        write_path(&mut self.path, format!("{place}/{key}").as_bytes());
    }

    fn write_head<U: Upload>(&mut self, spec: &HeadSpec<'_>, upload: &U) {
        let head = &mut self.http.head;
        head.clear();
        http1::request_line(head, spec.method, &self.path, spec.query);
        http1::header(head, "host", &self.host);
        for (name, value) in spec.headers {
            http1::header(head, name, value);
        }
        finish_head(head, spec.method, upload, self.http.thread.target.is_per_request, b"");
    }

    fn refused(&self, action: String, reply: &Reply) -> Error {
        let text = self.http.last_error().unwrap_or_default();
        let error = Error::target(action, text).of(reply.outcome.error_kind());
        match reply.status {
            0 => error.with_hint(hint_to_reach("endpoints", reply.outcome)),
            _ => error,
        }
    }

    async fn put(&mut self, request: &Request) -> Completion {
        let thread = Rc::clone(&self.http.thread);
        let object = thread.dataset.id(request.object());
        self.at_object(request.object().index, b"");
        let body = thread.body(object, 0..object.length);
        let reply = self.ask(&HeadSpec::new(Method::Put, &[200, 201, 204]), &body).await;
        Completion { bytes: object.length, ..reply.completion() }
    }

    /// Parses a listing with one key per line; a full page is followed by another.
    async fn list_page(
        &mut self,
        place: &str,
        page: &PageSpec<'_>,
    ) -> (Reply, Result<ListedPage, Outcome>) {
        let keys_max = page.keys_max.to_string();
        let mut query = Vec::new();
        let parameters = [
            ("after", page.token.unwrap_or_default().as_bytes()),
            ("limit", keys_max.as_bytes()),
            ("prefix", page.prefix.as_bytes()),
        ];
        write_query(&mut query, &parameters.map(|(name, value)| (name, Some(value))));
        self.at(place, "");
        let spec = HeadSpec { query: &query, ..HeadSpec::new(Method::Get, &[200]) };
        let reply = self.ask_for_body(&spec, &Nothing, &[]).await;
        if !reply.outcome.is_ok() {
            return (reply, Err(reply.outcome));
        }
        let text = String::from_utf8_lossy(&self.http.collect.body);
        let keys: Vec<String> = text.lines().map(str::to_owned).collect();
        let next = keys.last().filter(|_| keys.len() >= page.keys_max as usize).cloned();
        (reply, Ok(ListedPage { entries: keys.len() as u64, keys, next }))
    }
}

impl Places for ToyHttpClient {
    const PLACE: &'static str = ToyHttp::FACTS.place;

    fn title(&self) -> Arc<Title> {
        Arc::clone(&self.http.thread.target.title)
    }

    fn reactor(&self) -> Rc<Reactor> {
        Rc::clone(&self.http.thread.reactor)
    }

    async fn look(&mut self, place: &str) -> Result<Look, Error> {
        self.renew_deadline();
        self.at(place, "");
        let reply = self.ask(&HeadSpec::new(Method::Head, &[200]), &Nothing).await;
        match reply.status {
            404 => Ok(Look::Absent),
            _ if reply.outcome.is_ok() => self.read(place, MARK).await.map(Look::There),
            _ => Err(self.refused(format!("look for \"{place}\""), &reply)),
        }
    }

    async fn create(&mut self, place: &str) -> Result<Made, Error> {
        self.renew_deadline();
        self.at(place, "");
        let reply = self.ask(&HeadSpec::new(Method::Put, &[201]), &Nothing).await;
        match reply.status {
            // An earlier attempt may have created it; whether it is empty shows whether it is ours.
            409 if self.http.connection.is_in_doubt() => Ok(Made::New),
            409 => Ok(Made::Exists),
            _ if reply.outcome.is_ok() => Ok(Made::New),
            _ => Err(self.refused_to_make(format!("create \"{place}\""), &reply)),
        }
    }

    async fn write_mark(&mut self, place: &str, text: &str) -> Result<bool, Error> {
        self.renew_deadline();
        self.at(place, MARK);
        let spec = HeadSpec::new(Method::Put, &[200, 201, 204]);
        let reply = self.ask(&spec, &text.as_bytes()).await;
        match reply.status {
            404 => Ok(false),
            _ if reply.outcome.is_ok() => Ok(true),
            _ => Err(self.refused(format!("mark \"{place}\""), &reply)),
        }
    }

    async fn delete_mark(&mut self, place: &str) -> Result<(), Error> {
        self.renew_deadline();
        self.at(place, MARK);
        let reply = self.ask(&HeadSpec::new(Method::Delete, &[204, 404]), &Nothing).await;
        match reply.outcome.is_ok() {
            true => Ok(()),
            false => Err(self.refused(format!("delete the mark of \"{place}\""), &reply)),
        }
    }

    /// The server refuses to delete a collection that is not empty. If a server would delete the
    /// content, as WebDAV allows, its driver must not send the request: it leaves the place and
    /// returns `NotEmpty`.
    async fn remove(&mut self, place: &str) -> Result<Removed, Error> {
        self.renew_deadline();
        self.at(place, "");
        let reply = self.ask(&HeadSpec::new(Method::Delete, &[204]), &Nothing).await;
        Removed::of(reply.status, reply.outcome.is_ok())
            .ok_or_else(|| self.refused(format!("delete \"{place}\""), &reply))
    }

    async fn page(
        &mut self,
        place: &str,
        scope: Scope,
        token: Option<&str>,
    ) -> Result<Page, Error> {
        self.renew_deadline();
        let title = self.title();
        let prefix = if scope == Scope::Dataset { title.prefix() } else { "" };
        let page = PageSpec { token, prefix, delimiter: None, keys_max: 1000, wants_keys: true };
        match self.list_page(place, &page).await {
            (_, Ok(page)) => Ok(title.sort(place, page.keys, |key| key == MARK, page.next)),
            (reply, Err(_)) if reply.status == 404 => Ok(Page::default()),
            (reply, Err(_)) => Err(self.refused(format!("list \"{place}\""), &reply)),
        }
    }

    async fn delete(&mut self, place: &str, keys: &[String]) -> Result<u64, Error> {
        self.delete_each(place, keys).await
    }

    async fn read(&mut self, place: &str, key: &str) -> Result<Option<String>, Error> {
        self.read_text(place, key).await
    }

    async fn write(&mut self, place: &str, key: &str, text: &str) -> Result<(), Error> {
        self.renew_deadline();
        self.at(place, key);
        let spec = HeadSpec::new(Method::Put, &[200, 201, 204]);
        let reply = self.ask(&spec, &text.as_bytes()).await;
        match reply.outcome.is_ok() {
            true => Ok(()),
            false => Err(self.refused(format!("write \"{key}\" to \"{place}\""), &reply)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::sync::Mutex;

    use serde_json::json;

    use crate::run::{Control, Output, Summary, run_trial};
    use crate::trial::Trial;

    /// Objects by collection and key.
    type Map = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

    /// A server on a map. It puts another user's object into a collection that it is asked to
    /// delete.
    struct Server {
        map: Mutex<Map>,
        puts_a_stranger: bool,
    }

    impl Server {
        fn start(puts_a_stranger: bool) -> (&'static Self, SocketAddr) {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let address = listener.local_addr().expect("it listens");
            let server: &'static Self =
                Box::leak(Box::new(Self { map: Mutex::default(), puts_a_stranger }));
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    std::thread::spawn(move || server.serve(stream));
                }
            });
            (server, address)
        }

        fn serve(&self, mut stream: TcpStream) {
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            loop {
                let (mut line, mut length) = (String::new(), 0);
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    return;
                }
                loop {
                    let mut field = String::new();
                    reader.read_line(&mut field).expect("a head is sent whole");
                    match field.trim_end().split_once(": ") {
                        Some(("content-length", value)) => length = value.parse().expect("digits"),
                        Some(_) => {}
                        None => break,
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body is sent whole");
                let mut words = line.split(' ');
                let (method, target) = (words.next().unwrap(), words.next().unwrap());
                let (status, content) = self.answer(method, target, body);
                let length = content.len();
                let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {length}\r\n\r\n");
                let shown: &[u8] = if method == "HEAD" { b"" } else { &content };
                stream.write_all(&[head.as_bytes(), shown].concat()).expect("the client reads");
            }
        }

        fn answer(&self, method: &str, target: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
            let (path, query) = target[1..].split_once('?').unwrap_or((&target[1..], ""));
            let (place, key) = path.split_once('/').expect("a collection and a key");
            let mut map = self.map.lock().expect("no request panics");
            if key.is_empty() {
                let parameter = |name| query.split('&').find_map(|pair| pair.strip_prefix(name));
                return match (method, map.contains_key(place)) {
                    ("PUT", true) => (409, Vec::new()),
                    ("PUT", false) => {
                        map.insert(place.to_owned(), BTreeMap::new());
                        (201, Vec::new())
                    }
                    (_, false) => (404, Vec::new()),
                    ("DELETE", true) => {
                        let objects = map.get_mut(place).expect("it is there");
                        if self.puts_a_stranger {
                            objects.insert("theirs".to_owned(), b"precious".to_vec());
                        }
                        if !objects.is_empty() {
                            return (409, Vec::new());
                        }
                        map.remove(place);
                        (204, Vec::new())
                    }
                    (_, true) => {
                        let (after, prefix) = (parameter("after="), parameter("prefix="));
                        let limit = parameter("limit=").map_or(0, |text| text.parse().unwrap());
                        let keys = map[place].keys().filter(|key| {
                            key.as_str() > after.unwrap_or_default()
                                && key.starts_with(prefix.unwrap_or_default())
                        });
                        let lines: String =
                            keys.take(limit).map(|key| format!("{key}\n")).collect();
                        (200, lines.into_bytes())
                    }
                };
            }
            let Some(objects) = map.get_mut(place) else { return (404, Vec::new()) };
            match method {
                "PUT" => {
                    objects.insert(key.to_owned(), body);
                    (201, Vec::new())
                }
                "DELETE" => (if objects.remove(key).is_some() { 204 } else { 404 }, Vec::new()),
                _ => objects.get(key).map_or((404, Vec::new()), |bytes| (200, bytes.clone())),
            }
        }
    }

    fn run(server: SocketAddr, phase: &str, operation: &str, requests: u64) -> Summary {
        let endpoint = format!("http://{server}");
        let document = json!({
            "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
            "phase": phase,
            "target": {"name": "t", "driver": "toy_http", "settings": {"endpoints": [endpoint]}},
            "dataset": {"bucket_prefix": "b-", "buckets": 3, "objects": 200, "object_prefix": "o-",
                        "size": {"kind": "fixed", "bytes": 10_000}},
            "mix": [{"operation": operation}], "load": {"kind": "closed", "clients": 4},
            "stop": {"requests": requests}, "cores": 1, "verify": 1.0,
        });
        let trial = Trial::parse(&document.to_string()).expect("the document is sound");
        let ended = run_trial(&trial, &Control::default(), &mut |output| match output {
            Output::Intent(places) => places.len() == 3,
            _ => true,
        });
        ended.expect("the server refuses nothing of ours")
    }

    #[test]
    fn the_load_generator_runs_it_and_leaves_nothing() {
        let (server, address) = Server::start(false);
        let put = run(address, "put", "put", 200);
        assert_eq!((put.requests, put.failed, put.bytes), (200, 0, 2_000_000));
        let get = run(address, "get", "get", 300);
        assert_eq!((get.failed, get.verified_bytes), (0, 3_000_000));
        assert_eq!(run(address, "list", "list", 9).failed, 0);
        assert_eq!(run(address, "head", "head", 100).failed, 0);
        let swept = run(address, "clean-up", "delete", 0);
        assert!(swept.places_left.is_empty());
        assert!(server.map.lock().expect("sound").is_empty());
    }

    #[test]
    fn an_object_that_appears_between_listing_and_removal_is_kept() {
        let (server, address) = Server::start(true);
        run(address, "put", "put", 200);
        let swept = run(address, "clean-up", "delete", 0);
        assert_eq!(swept.places_left.len(), 3);
        let map = server.map.lock().expect("sound");
        assert_eq!(map.len(), 3);
        for objects in map.values() {
            assert_eq!(objects["theirs"], b"precious");
            // The place remains marked as ours.
            assert!(objects.contains_key(".loadstone-mark"));
        }
    }
}
