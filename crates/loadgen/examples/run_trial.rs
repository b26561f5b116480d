//! Runs trial documents without Python: `cargo run --release --example run_trial TRIAL.json...`
//! prints the summary of each, and the cost of a request to this process.

use std::io::Write;

use loadstone_loadgen::run::{Control, run_trial};
use loadstone_loadgen::trial::Trial;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for path in std::env::args().skip(1) {
        let trial = Trial::parse(&std::fs::read_to_string(&path)?)?;
        let summary = run_trial(&trial, &Control::default(), &mut |_| true)?;
        let cpu_ns: u64 = summary.thread_cpu_ns.iter().sum();
        let each_ns = cpu_ns as f64 / summary.requests.max(1) as f64;
        let spent_ns: u64 = summary.iterations.iter().map(|i| i.end_ns - i.start_ns).sum();
        let rate = summary.requests as f64 / spent_ns as f64 * 1e9;
        if std::env::var_os("BRIEF").is_none() {
            writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
        }
        writeln!(
            out,
            "{path}: {} requests, {} failed, {rate:.0}/s, {:.2} us of CPU each",
            summary.requests,
            summary.failed,
            each_ns / 1000.0
        )?;
    }
    Ok(())
}
