//! The store as a program, for use without Python.

use std::io::{self, Write};
use std::process::ExitCode;

use loadstone_store::{NullConfig, NullServer, Store, StoreConfig, StoreError};
use rustix::process::{Resource, getrlimit, setrlimit};

const USAGE: &str = "\
usage: loadstone-store serve CONFIG.json   the object store (S3 and Swift)
       loadstone-store serve -             the same, its configuration from the standard input
       loadstone-store null PORT BYTES     a server that stores nothing; each object has BYTES
       loadstone-store null CONFIG.json    the same, with all that can be configured
It runs until a signal ends it; what a data directory holds survives that.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ran = match words.as_slice() {
        ["serve", path] => serve(path),
        ["null", port, bytes] => null_of_numbers(port, bytes),
        ["null", path] => null_of_file(path),
        _ => {
            eprint(USAGE);
            return ExitCode::from(2);
        }
    };
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint(&format!("error: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

type Failure = Box<dyn std::error::Error>;

fn serve(path: &str) -> Result<(), Failure> {
    let store = start(&read(path)?)?;
    for line in store.damage() {
        eprint(&format!("warning: damaged and not served: {line}\n"));
    }
    announce(&format!("listening on http://{}\n", store.address()))?;
    run_for_ever()
}

fn read(path: &str) -> Result<String, Failure> {
    match path {
        "-" => Ok(io::read_to_string(io::stdin())?),
        path => std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read configuration \"{path}\": {error}").into()),
    }
}

fn null_of_numbers(port: &str, bytes: &str) -> Result<(), Failure> {
    let port = port.parse().map_err(|_| format!("\"{port}\" is not a port"))?;
    let object_bytes = bytes.parse().map_err(|_| format!("\"{bytes}\" is not a size in bytes"))?;
    null(&NullConfig { port, object_bytes, ..NullConfig::default() })
}

fn null_of_file(path: &str) -> Result<(), Failure> {
    null(&NullConfig::parse(&read(path)?)?)
}

fn null(config: &NullConfig) -> Result<(), Failure> {
    raise_descriptor_limit();
    let server = NullServer::start(config)?;
    announce(&format!("listening on http://{}\n", server.address()))?;
    run_for_ever()
}

fn run_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}

fn start(json: &str) -> Result<Store, StoreError> {
    raise_descriptor_limit();
    Store::start(StoreConfig::parse(json)?)
}

/// Raises the soft limit of open files to the hard limit: each connection needs a descriptor.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the old limit stays, which is acceptable.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn announce(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

fn eprint(text: &str) {
    // Without a standard error, it cannot be reported.
    let _ = io::stderr().write_all(text.as_bytes());
}
