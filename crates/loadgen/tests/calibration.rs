//! Compares the measured results of the simulated target on a virtual clock with its known
//! behaviour.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use loadstone_loadgen::run::{Control, Output, State, Summary, run_trial};
use loadstone_loadgen::trial::Trial;
use serde_json::{Value, json};

fn trial(changes: Value) -> Trial {
    let mut document = json!({
        "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 42,
        "phase": "get", "target": {"name": "truth", "driver": "simulated", "settings": {}},
        "dataset": {"bucket_prefix": "b", "buckets": 2, "objects": 1000, "object_prefix": "o-",
                    "size": {"kind": "fixed", "bytes": 4096}},
        "mix": [{"operation": "get"}],
        "load": {"kind": "closed", "clients": 10},
        "stop": {"requests": 10000}, "cores": 1,
    });
    for (key, value) in changes.as_object().expect("changes are an object") {
        document[key] = value.clone();
    }
    Trial::parse(&document.to_string()).expect("the test's document is sound")
}

struct Ran {
    summary: Summary,
    rows: Vec<RecordBatch>,
    log: Vec<RecordBatch>,
}

fn run(trial: &Trial) -> Ran {
    let (mut rows, mut log) = (Vec::new(), Vec::new());
    let summary = run_trial(trial, &Control::default(), &mut |output| {
        match output {
            Output::Seconds(batch, _) => rows.extend(batch),
            Output::Requests(batch) => log.push(batch),
            Output::Ready
            | Output::Actions(_)
            | Output::TurnEnded(..)
            | Output::Intent(_)
            | Output::Unmade(_)
            | Output::Retry(_)
            | Output::Volume(_)
            | Output::Ledger(_)
            | Output::History(_) => {}
        }
        true
    })
    .expect("the simulated target runs");
    Ran { summary, rows, log }
}

impl Ran {
    fn sum(&self, column: &str, by: &str) -> BTreeMap<String, i64> {
        let mut sums = BTreeMap::new();
        for batch in &self.rows {
            let keys = batch.column_by_name(by).expect("a column").as_string::<i32>();
            let values =
                batch.column_by_name(column).expect("a column").as_primitive::<Int64Type>();
            for (key, value) in keys.iter().zip(values) {
                *sums.entry(key.expect("not null").to_owned()).or_default() +=
                    value.expect("a number");
            }
        }
        sums
    }

    fn histogram(&self, column: &str) -> Histogram<u64> {
        let mut merged = loadstone_loadgen::histogram();
        for batch in &self.rows {
            let values = batch.column_by_name(column).expect("a column").as_binary::<i32>();
            for bytes in values.iter().flatten() {
                let part: Histogram<u64> =
                    Deserializer::new().deserialize(&mut &bytes[..]).expect("a V2 histogram");
                merged.add(part).expect("same bounds");
            }
        }
        merged
    }
}

fn is_close(measured: u64, truth: f64, tolerance: f64) -> bool {
    (measured as f64 / truth - 1.0).abs() <= tolerance
}

#[test]
fn a_fixed_latency_is_measured_within_the_histograms_error() {
    let ran = run(&trial(json!({"target": {"name": "t", "driver": "simulated",
        "settings": {"latency": "fixed", "mean_ns": 5_000_000.0}}})));
    let service = ran.histogram("service");
    assert_eq!(service.len(), 10_000);
    for quantile in [0.01, 0.5, 0.99, 1.0] {
        assert!(is_close(service.value_at_quantile(quantile), 5e6, 0.001), "{quantile}");
    }
}

#[test]
fn an_exponential_distribution_is_measured_at_every_percentile() {
    let ran = run(&trial(json!({
        "target": {"name": "t", "driver": "simulated",
                   "settings": {"latency": "exponential", "mean_ns": 1_000_000.0}},
        "stop": {"requests": 200_000}})));
    let service = ran.histogram("service");
    for quantile in [0.5, 0.9, 0.99] {
        let truth = -1e6 * (1.0_f64 - quantile).ln();
        assert!(is_close(service.value_at_quantile(quantile), truth, 0.03), "{quantile}");
    }
}

#[test]
fn closed_throughput_is_clients_over_latency() {
    let ran = run(&trial(json!({
        "target": {"name": "t", "driver": "simulated", "settings": {"mean_ns": 10_000_000.0}},
        "stop": {"duration_ns": 20_000_000_000_u64}})));
    let times = &ran.summary.iterations[0];
    assert_eq!(times.measure_end_ns - times.measure_start_ns, 20_000_000_000);
    // Ten clients at 10 ms each for 20 s.
    let measured = ran.sum("requests", "stage")["measure"];
    assert!((19_990..=20_010).contains(&measured), "{measured}");
}

#[test]
fn a_stall_of_a_second_shows_in_every_request_due_in_it() {
    let ran = run(&trial(json!({
        "target": {"name": "t", "driver": "simulated",
                   "settings": {"mean_ns": 100_000.0, "stall_at_ns": 5_000_000_000_u64,
                                "stall_ns": 1_000_000_000_u64}},
        "load": {"kind": "open", "rate_per_s": 1000.0, "arrivals": "constant", "clients_max": 64},
        "stop": {"duration_ns": 10_000_000_000_u64}})));
    let response = ran.histogram("response");
    assert_eq!(response.len(), 10_000, "late requests are kept, never thinned");
    // One request per millisecond was due during the stall; each waits for its end.
    let slow = response.len() - response.count_between(1, 2_000_000);
    assert!((990..=1010).contains(&slow), "{slow}");
    assert!(is_close(response.max(), 1e9, 0.01), "{}", response.max());
    let half_stalled = response.count_between(500_000_000, 2_000_000_000);
    assert!((490..=510).contains(&half_stalled), "{half_stalled}");
}

#[test]
fn an_excessive_rate_ends_with_its_load_and_counts_what_was_due() {
    for (rate_per_s, arrivals) in [(1e10, "constant"), (1e12, "poisson")] {
        let ran = run(&trial(json!({
            "target": {"name": "t", "driver": "simulated", "settings": {"mean_ns": 10_000_000.0}},
            "load": {"kind": "open", "rate_per_s": rate_per_s, "arrivals": arrivals,
                     "clients_max": 4},
            "warm_up_ns": 1_000_000_000_u64, "stop": {"duration_ns": 3_000_000_000_u64}})));
        let stages = ran.sum("requests", "stage");
        assert!(is_close(stages["measure"] as u64, rate_per_s * 3.0, 0.001), "{stages:?}");
        let response = ran.histogram("response");
        assert!(is_close(response.value_at_quantile(0.5), 2e9, 0.01), "half wait 2 s of 4");
    }
}

#[test]
fn requests_in_flight_match_littles_law() {
    let law = |load: Value| {
        let ran = run(&trial(json!({
            "target": {"name": "t", "driver": "simulated",
                       "settings": {"latency": "exponential", "mean_ns": 20_000_000.0}},
            "load": load, "warm_up_ns": 1_000_000_000_u64, "cool_down_ns": 1_000_000_000_u64,
            "stop": {"duration_ns": 100_000_000_000_u64}})));
        let times = &ran.summary.iterations[0];
        let measured_ns = times.measure_end_ns - times.measure_start_ns;
        assert_eq!(measured_ns, 100_000_000_000);
        times.in_flight_ns as f64 / measured_ns as f64
    };
    // Ten clients that are always busy; and 500 requests a second of 20 ms each.
    let closed = law(json!({"kind": "closed", "clients": 10}));
    assert!((closed - 10.0).abs() < 0.001, "{closed}");
    let open = json!({"kind": "open", "rate_per_s": 500.0, "arrivals": "poisson",
                      "clients_max": 200});
    let open = law(open);
    assert!((open - 10.0).abs() < 0.3, "{open}");
}

#[test]
fn intervals_add_up_to_the_totals() {
    let ran = run(&trial(json!({
        "target": {"name": "t", "driver": "simulated",
                   "settings": {"latency": "exponential", "mean_ns": 3_000_000.0, "failures": 0.1}},
        "iterations": 2})));
    let by_outcome = ran.sum("requests", "outcome");
    let total: i64 = by_outcome.values().sum();
    assert_eq!(total, 20_000);
    assert_eq!(u64::try_from(total).expect("positive"), ran.summary.requests);
    assert_eq!(by_outcome["http_503"], i64::try_from(ran.summary.failed).expect("small"));
    assert!((1800..2200).contains(&by_outcome["http_503"]), "{by_outcome:?}");
    assert_eq!(ran.histogram("service").len(), 20_000);
    assert_eq!(ran.summary.state, State::Finished);
}

#[test]
fn an_overloaded_open_load_counts_unsent_requests() {
    let ran = run(&trial(json!({
        "target": {"name": "t", "driver": "simulated",
                   "settings": {"mean_ns": 10_000_000.0, "servers": 1}},
        "load": {"kind": "open", "rate_per_s": 1000.0, "arrivals": "constant", "clients_max": 4},
        "stop": {"duration_ns": 5_000_000_000_u64}})));
    let by_outcome = ran.sum("requests", "outcome");
    assert_eq!(by_outcome.values().sum::<i64>(), 5000, "{by_outcome:?}");
    assert!(by_outcome["not_sent"] > 4000, "{by_outcome:?}");
}

#[test]
fn warm_up_and_cool_down_are_counted_separately() {
    let ran = run(&trial(json!({
        "target": {"name": "t", "driver": "simulated", "settings": {"mean_ns": 1_000_000.0}},
        "warm_up_ns": 2_000_000_000_u64, "cool_down_ns": 1_000_000_000_u64,
        "stop": {"duration_ns": 3_000_000_000_u64}})));
    let by_stage = ran.sum("requests", "stage");
    assert!((19_900..=20_100).contains(&by_stage["warm-up"]), "{by_stage:?}");
    assert!((29_900..=30_100).contains(&by_stage["measure"]), "{by_stage:?}");
    assert!((9_900..=10_100).contains(&by_stage["cool-down"]), "{by_stage:?}");
}

#[test]
fn the_same_plan_and_seed_give_the_same_record() {
    let document = trial(json!({
        "target": {"name": "t", "driver": "simulated",
                   "settings": {"latency": "exponential", "mean_ns": 2_000_000.0}},
        "load": {"kind": "open", "rate_per_s": 5000.0, "clients_max": 50}}));
    let (first, second) = (run(&document), run(&document));
    assert_eq!(first.histogram("response"), second.histogram("response"));
}

#[test]
fn too_many_failures_stop_the_trial_with_a_reason() {
    let ran = run(&trial(json!({
        "target": {"name": "t", "driver": "simulated", "settings": {"failures": 1.0}},
        "on_error": {"action": "stop", "limit": 5}})));
    assert_eq!(ran.summary.state, State::Stopped);
    assert!(ran.summary.reason.expect("a reason").contains("http_503"));
}

#[test]
fn the_log_has_every_request_once() {
    let ran = run(&trial(json!({
        "target": {"name": "t", "driver": "simulated",
                   "settings": {"latency": "exponential", "mean_ns": 2_000_000.0}},
        "stop": {"requests": 50_000}, "log_requests": true})));
    let logged: usize = ran.log.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(logged, 50_000);
    let longest = ran.log.iter().flat_map(|batch| {
        let times =
            |name| batch.column_by_name(name).expect("a column").as_primitive::<Int64Type>();
        times("ended_ns")
            .values()
            .iter()
            .zip(times("sent_ns").values())
            .map(|(end, sent)| end - sent)
    });
    let longest = longest.max().expect("there are rows");
    assert!(
        ran.histogram("service")
            .equivalent(u64::try_from(longest).expect("positive"), ran.histogram("service").max())
    );
}

#[test]
fn several_threads_make_exactly_the_requested_number_of_requests() {
    for requests in [1_u64, 7, 1000, 99_999] {
        let ran = run(&trial(json!({
            "target": {"name": "t", "driver": "null"}, "cores": 4,
            "load": {"kind": "closed", "clients": 23}, "stop": {"requests": requests},
            "iterations": 3})));
        assert_eq!(ran.summary.requests, requests * 3);
    }
}
