//! The null server returns the payload of the trial, page by page.

mod http;

use loadstone_loadgen::dataset::Dataset;
use loadstone_loadgen::payload::{ObjectId, PayloadSpec, Verdict, Verifier};
use loadstone_loadgen::trial::Trial;
use loadstone_store::{NullConfig, NullServer};

fn document() -> serde_json::Value {
    serde_json::json!({
        "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 7,
        "phase": "get", "round": 1, "block": 1, "measured": true,
        "case": {"target": "null", "workload": "w", "parameters": {}},
        "target": {"name": "null", "driver": "null", "settings": {}},
        "dataset": {"bucket_prefix": "b-", "buckets": 3, "objects": 10, "object_prefix": "o-",
                    "size": {"kind": "uniform", "min": 1, "max": 500_000},
                    "compressible": 0.0, "duplicate": 0.0, "version": 4},
        "mix": [{"operation": "get", "weight": 1.0}],
        "options": {"range_bytes": null, "range_count": 1, "part_bytes": null, "page_keys": 1000,
                    "prefix": null, "delimiter": null, "bulk_keys": 1000},
        "load": {"kind": "closed", "clients": 1}, "rate_limit_per_s": null,
        "keys": {"order": "sequential", "theta": null},
        "stop": {"requests": 10, "duration_ns": null},
        "warm_up_ns": 0, "cool_down_ns": 0, "iterations": 1, "connections": "keep_alive",
        "timeout_ns": 60_000_000_000u64, "on_error": {"action": "continue", "limit": null},
        "verify": 1.0, "allow_foreign": false, "cores": null, "log_requests": false
    })
}

#[test]
fn reads_of_a_trial_from_the_null_server_verify() {
    let trial = Trial::parse(&document().to_string()).unwrap();
    let (dataset, spec) = (Dataset::new(&trial), PayloadSpec::of_trial(&trial));
    let config = NullConfig { trial: Some(document()), ..NullConfig::default() };
    let server = NullServer::start(&config).unwrap();
    for index in 0..10 {
        let bucket = dataset.bucket(dataset.bucket_of(index));
        let id = ObjectId::new(dataset.key_hash(index), 4, dataset.size(index));
        for path in [format!("/{bucket}/o-{index}"), format!("/v1/AUTH_null/{bucket}/o-{index}")] {
            let answer = http::ask(server.address(), &format!("GET {path}"), &[], b"");
            assert_eq!(answer.body.len() as u64, id.length);
            let mut verifier = Verifier::new(&spec, &id, 0);
            verifier.update(&answer.body);
            assert_eq!(verifier.finish(), Verdict::Ok, "{path}");
        }
        let middle = id.length / 2;
        let range = format!("bytes={middle}-");
        let line = format!("GET /{bucket}/o-{index}");
        let answer = http::ask(server.address(), &line, &[("Range", &range)], b"");
        let mut verifier = Verifier::new(&spec, &id, middle);
        verifier.update(&answer.body);
        assert_eq!((answer.status(), verifier.finish()), (206, Verdict::Ok));
    }
    let unknown = http::ask(server.address(), "GET /b-0/other", &[], b"");
    assert_eq!(unknown.status(), 404);
}
