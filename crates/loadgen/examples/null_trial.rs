//! Runs the hot loop on the driver that does nothing, for instruction counts and profiles.
//!
//! `cargo run --release --example null_trial -- 1000000` makes so many requests by 16 clients of
//! one load thread.

use loadstone_loadgen::run::{Control, run_trial};
use loadstone_loadgen::trial::Trial;
use serde_json::json;

fn main() {
    let requests = std::env::args().nth(1).and_then(|text| text.parse::<u64>().ok());
    let requests = requests.expect("the argument is a number of requests");
    let document = json!({
        "format": 1, "id": "0001", "run": "00000000000000000000000000000001", "seed": 1,
        "phase": "get",
        "target": {"name": "null", "driver": "null", "settings": {}},
        "dataset": {"bucket_prefix": "b", "buckets": 4, "objects": 1000, "object_prefix": "o-",
                    "size": {"kind": "fixed", "bytes": 4096}},
        "mix": [{"operation": "get"}],
        "load": {"kind": "closed", "clients": 16},
        "stop": {"requests": requests},
        "cores": 1,
    });
    let trial = Trial::parse(&document.to_string()).expect("the document is sound");
    let ended = run_trial(&trial, &Control::default(), &mut |_| true).expect("null never refuses");
    assert_eq!((ended.requests, ended.failed), (requests, 0));
}
