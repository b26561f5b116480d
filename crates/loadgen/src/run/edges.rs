//! Requests at the edges of a measured window: the difference between the counts of its rows and
//! the work done within the window.
//!
//! A row counts whole requests. Where few long requests fit into a window, the requests that its
//! edges cut dominate the rate: four clients whose requests take 3 s complete 4, 8 or 12 of them
//! within 5 s, but do the work of 6.7. Under open load, a request counts in the second where it was
//! due, so that its latency is kept. The number of answers within the window differs from that as
//! soon as a backlog exists at its start or its end.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::operation::Operation;
use crate::outcome::Completion;
use crate::recorder::Stage;
use crate::run::window::Window;

/// Corrections that turn the counts of one operation's measured rows into the work done in the
/// window.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EdgeWork {
    /// Successful requests.
    pub requests: f64,
    /// Objects of successful requests.
    pub objects: f64,
    /// Payload bytes of successful requests.
    pub bytes: f64,
    /// Failed requests that got an answer.
    pub failed: f64,
}

impl EdgeWork {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.failed += other.failed;
    }
}

/// The corrections of one iteration, by operation.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Edges(BTreeMap<&'static str, EdgeWork>);

impl Edges {
    /// Records a request if the window contains another share of it than its row counts.
    #[inline]
    pub(crate) fn note(
        &mut self,
        window: &Window,
        stage: Stage,
        is_open: bool,
        operation: Operation,
        completion: &Completion,
    ) {
        let is_counted = stage == Stage::Measure;
        let (sent_ns, ended_ns) = (completion.sent_ns, completion.ended_ns);
        let is_inside = ended_ns >= window.measure_start_ns && ended_ns < window.measure_end_ns;
        let is_cut = match (is_open, is_counted) {
            (true, _) => is_inside != is_counted,
            (false, true) => sent_ns < window.measure_start_ns || ended_ns > window.measure_end_ns,
            (false, false) => ended_ns > window.measure_start_ns && sent_ns < window.measure_end_ns,
        };
        if !is_cut {
            return;
        }
        self.note_cut(window, is_counted, is_open.then_some(is_inside), operation, completion);
    }

    #[cold]
    fn note_cut(
        &mut self,
        window: &Window,
        is_counted: bool,
        is_answered_inside: Option<bool>,
        operation: Operation,
        completion: &Completion,
    ) {
        let (sent_ns, ended_ns) = (completion.sent_ns, completion.ended_ns);
        // Under closed load, a request counts by the share of its time in the window; under open
        // load, answers count.
        let share = is_answered_inside.map_or_else(
            || window.measured_ns(sent_ns, ended_ns) as f64 / (ended_ns - sent_ns).max(1) as f64,
            |is_inside| f64::from(u8::from(is_inside)),
        );
        let missing = share - f64::from(u8::from(is_counted));
        let edge = self.0.entry(operation.name()).or_default();
        if completion.outcome.is_ok() {
            edge.requests += missing;
            edge.objects += missing * f64::from(completion.objects);
            edge.bytes += missing * completion.bytes as f64;
        } else {
            edge.failed += missing;
        }
    }

    /// Adds the corrections of another thread.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (operation, edge) in &other.0 {
            self.0.entry(operation).or_default().add(edge);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    const SECOND: u64 = 1_000_000_000;

    fn window() -> Window {
        Window {
            start_ns: 0,
            measure_start_ns: 2 * SECOND,
            measure_end_ns: 7 * SECOND,
            cool_down_ns: 0,
            is_counted: false,
        }
    }

    fn completion(sent_s: u64, ended_s: u64) -> Completion {
        let (sent_ns, ended_ns) = (sent_s * SECOND, ended_s * SECOND);
        Completion {
            bytes: 100,
            objects: 1,
            ..Completion::plain(Outcome::OK, sent_ns, 0, ended_ns)
        }
    }

    /// Returns the requests in the window by rows and corrections, for clients whose requests take
    /// 3 s each.
    fn work(is_open: bool, requests: &[(Stage, u64, u64)]) -> f64 {
        let window = window();
        let mut edges = Edges::default();
        let mut counted = 0.0;
        for &(due, sent_s, ended_s) in requests {
            let stage = window.stage_of(due, ended_s * SECOND, is_open);
            counted += f64::from(u8::from(stage == Stage::Measure));
            edges.note(&window, stage, is_open, Operation::Get, &completion(sent_s, ended_s));
        }
        counted + edges.0.get("get").map_or(0.0, |edge| edge.requests)
    }

    #[test]
    fn a_long_request_counts_by_the_share_of_its_time_in_the_window() {
        // One client: of 0 to 3 a third, of 3 to 6 all, of 6 to 9 a third.
        let (warm_up, measure) = (Stage::WarmUp, Stage::Measure);
        let requests = [(warm_up, 0, 3), (measure, 3, 6), (measure, 6, 9)];
        assert!((work(false, &requests) - 5.0 / 3.0).abs() < 1e-9);
        // The first request extends beyond both ends; the second ends before the window begins.
        assert!((work(false, &[(warm_up, 0, 10), (warm_up, 0, 1)]) - 0.5).abs() < 1e-9);
        assert!((work(false, &[(measure, 2, 6)]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_open_load_counts_answers_in_its_window() {
        let (warm_up, measure) = (Stage::WarmUp, Stage::Measure);
        // Due in the warm-up and answered inside; due inside and answered after; entirely inside;
        // entirely before.
        let requests = [(warm_up, 1, 3), (measure, 6, 9), (measure, 3, 5), (warm_up, 0, 1)];
        assert!((work(true, &requests) - 2.0).abs() < 1e-9);
    }
}
