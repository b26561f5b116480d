//! All mistakes of a trial document, reported together.

use super::{DatasetSpec, FORMAT, Load, Ownership, Share, SizeLaw, Trial};
use crate::operation::{Operation, OperationInfo};

/// No host sends more; above this, counts and times would overflow.
const RATE_MAX_PER_S: f64 = 1e12;

impl Trial {
    /// Returns the mistakes that do not depend on the driver.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let mut demand = |holds: bool, text: String| {
            if !holds {
                mistakes.push(text);
            }
        };
        demand(
            self.format == FORMAT,
            format!("format: found {}, this loadstone reads {FORMAT}", self.format),
        );
        demand(is_run(&self.run), format!("run: found \"{}\", allowed: 32 hex digits", self.run));
        demand(self.dataset.buckets > 0, "dataset.buckets: found 0, allowed: 1 and more".into());
        demand(
            (0.0..=1.0).contains(&self.verify),
            format!("verify: found {}, allowed: 0 to 1", self.verify),
        );
        demand(self.load.clients() > 0, "load: found no clients, allowed: 1 and more".into());
        let portion = self.portion();
        demand(
            portion.index < portion.of,
            format!("portion: found {} of {}, allowed: from 0 up", portion.index, portion.of),
        );
        demand(
            self.cpus.is_empty() || self.numa_nodes.is_empty(),
            "load: found cpus and numa, allowed: one of them".into(),
        );
        demand(self.iterations > 0, "iterations: found 0, allowed: 1 and more".into());
        demand(self.timeout_ns >= 1_000_000, "timeout: allowed: 1ms and more".into());
        if let Load::Open { rate_per_s, .. } = self.load {
            demand(
                rate_per_s > 0.0 && rate_per_s <= RATE_MAX_PER_S,
                format!(
                    "load.rate: found {rate_per_s}, allowed: above 0, up to {RATE_MAX_PER_S:e}/s"
                ),
            );
        }
        demand(
            self.stop.requests.is_some() || self.stop.duration_ns.is_some() || self.is_clean_up(),
            "stop: found neither requests nor duration, allowed: one or both".into(),
        );
        demand(
            !self.mix.is_empty() && self.mix.iter().all(|share| share.weight > 0.0),
            "mix: allowed: one or more operations with weights above 0".into(),
        );
        mistakes.extend(self.dataset.size.mistakes());
        self.check_ownership(&mut mistakes);
        self.check_existing(&mut mistakes);
        self.check_payload(&mut mistakes);
        self.check_shards(&mut mistakes);
        if self.script.is_none() {
            self.check_mix(&mut mistakes);
        } else {
            self.check_script(&mut mistakes);
        }
        mistakes
    }

    fn check_ownership(&self, mistakes: &mut Vec<String>) {
        if self.first_beyond().is_none() {
            mistakes.push(format!(
                "ticket_base: found {} beside {} objects, allowed: the numbers of what a mix puts \
                 must fit into 64 bits",
                self.ticket_base, self.dataset.objects
            ));
        }
        if let Some(origin) = self.dataset.written_by.as_ref().filter(|origin| !is_run(&origin.run))
        {
            let run = &origin.run;
            mistakes.push(format!("dataset.written_by: found \"{run}\", allowed: 32 hex digits"));
        }
        for run in self.ownership.runs.iter().filter(|run| !is_run(run)) {
            mistakes.push(format!("ownership.runs: found \"{run}\", allowed: 32 hex digits each"));
        }
        let Ownership { written, unwritten, .. } = &self.ownership;
        for (name, ranges) in [("written", written), ("unwritten", unwritten)] {
            for (first, end) in ranges.iter().filter(|(first, end)| first > end) {
                mistakes.push(format!(
                    "ownership.{name}: found [{first}, {end}], allowed: the first before the end"
                ));
            }
        }
    }

    fn check_shards(&self, mistakes: &mut Vec<String>) {
        let Some(shards) = &self.dataset.shards else { return };
        if !matches!(shards.base, 10 | 16) || !(1..=4).contains(&shards.digits) {
            let (digits, base) = (shards.digits, shards.base);
            mistakes.push(format!(
                "dataset.shards: found {digits} digits of base {base}, allowed: 1 to 4 of base 10 or 16"
            ));
        }
        let is_plain = self.script.is_none()
            && self.dataset.existing.is_none()
            && self.dataset.path_encryption.is_none();
        if !is_plain {
            mistakes.push(
                "dataset.shards: found it with a script, encrypted paths or existing objects, \
                 allowed: with none of them"
                    .into(),
            );
        }
    }

    /// The content of a file has its own compressibility, so the dataset may not set one.
    fn check_payload(&self, mistakes: &mut Vec<String>) {
        let DatasetSpec { payload, compressible, duplicate, existing, .. } = &self.dataset;
        let is_plain = *compressible == 0.0 && *duplicate == 0.0 && existing.is_none();
        if payload.is_some() && !is_plain {
            mistakes.push(
                "dataset.payload: found it with compressible, duplicate or existing, allowed: none \
                 of them"
                    .into(),
            );
        }
    }

    /// Objects that others wrote may only be read.
    fn check_existing(&self, mistakes: &mut Vec<String>) {
        let DatasetSpec { existing, size, buckets, .. } = &self.dataset;
        if existing.is_none() {
            if matches!(size, SizeLaw::Listed { .. }) {
                mistakes.push("dataset.size: found listed, but no list in dataset.existing".into());
            }
            return;
        }
        for share in self.mix.iter().filter(|share| !share.operation.info().reads_existing) {
            let name = share.operation.name();
            mistakes.push(format!("mix: found {name} of objects that others wrote: they are read"));
        }
        let is_plain = self.script.is_none()
            && self.dataset.encryption.is_none()
            && self.dataset.path_encryption.is_none();
        if !is_plain || *buckets != 1 || self.is_clean_up() {
            mistakes.push(
                "dataset.existing: found it with a script, encryption, a clean-up or several \
                 buckets, allowed: reads from one bucket"
                    .into(),
            );
        }
    }

    fn check_mix(&self, mistakes: &mut Vec<String>) {
        let weight = |is_meant: &dyn Fn(Operation) -> bool| -> f64 {
            let of = |share: &&Share| is_meant(share.operation);
            self.mix.iter().filter(of).map(|share| share.weight).sum()
        };
        let mut checked: Vec<&[Operation]> = Vec::new();
        let is_mix = self.mix.len() > 1 && !self.keeps_history;
        for share in self.mix.iter().filter(|_| is_mix) {
            let OperationInfo { name, takes_from, .. } = *share.operation.info();
            if takes_from.is_empty() || checked.contains(&takes_from) {
                continue;
            }
            checked.push(takes_from);
            let is_upload_step = share.operation.is_upload_step();
            let takes = weight(&|operation| operation.info().takes_from == takes_from);
            let makes = weight(&|operation| takes_from.contains(&operation));
            let is_excess = if is_upload_step { makes == 0.0 } else { takes > makes };
            if is_excess {
                let maker = takes_from[0].name();
                mistakes.push(format!(
                    "mix: found {name} with {takes} against {maker} with {makes}; a mix does it only \
                     to what it has made itself, so it needs {maker}, with no less weight where it \
                     deletes"
                ));
            }
        }
        for share in &self.mix {
            if self.mix.len() > 1 && !share.operation.info().is_mixed {
                mistakes.push(format!("mix: {} cannot be mixed", share.operation.name()));
            }
            let is_of_part =
                matches!(share.operation, Operation::UploadPart | Operation::UploadPartCopy);
            let is_fixed = matches!(self.dataset.size, SizeLaw::Fixed { .. });
            if self.mix.len() == 1 && is_of_part && !is_fixed {
                mistakes.push(format!(
                    "mix: found {} by itself for objects of different sizes, allowed: of one size, or \
                     in a mix with other steps of uploads",
                    share.operation.name()
                ));
            }
        }
        if !(0.0..=1.0).contains(&self.options.ended_twice) {
            let share = self.options.ended_twice;
            mistakes.push(format!("options.ended_twice: found {share}, allowed: 0 to 1"));
        }
        if weight(&|operation| operation == Operation::Append) > 0.0 {
            self.check_append(mistakes);
        }
    }

    /// A script runs once, from start to end.
    fn check_script(&self, mistakes: &mut Vec<String>) {
        let Some(script) = &self.script else { return };
        let mut demand = |holds: bool, text: &str| {
            if !holds {
                mistakes.push(format!("script: {text}"));
            }
        };
        let known = [
            Operation::Put,
            Operation::Get,
            Operation::Head,
            Operation::Delete,
            Operation::List,
            Operation::CreateBucket,
        ];
        demand(
            self.mix.iter().all(|share| known.contains(&share.operation)),
            "allowed in mix: put, get, head, delete and list",
        );
        demand(
            script.speed.is_none_or(|speed| speed > 0.0 && speed.is_finite()),
            "allowed as speed: numbers above 0",
        );
        demand(
            script.speed.is_none() || matches!(self.load, Load::Open { .. }),
            "with a speed its load is open",
        );
        if script.requests.is_some() {
            demand(
                self.warm_up_ns == 0 && self.cool_down_ns == 0 && self.iterations == 1,
                "allowed: no warm_up, no cool_down, and one iteration",
            );
            demand(self.stop.requests.is_some(), "stop.requests is how many requests it has");
        }
    }

    fn check_append(&self, mistakes: &mut Vec<String>) {
        let objects = self.dataset.objects;
        if let Load::Closed { clients } = self.load
            && u64::from(clients) > objects
        {
            mistakes.push(format!(
                "load: found {clients} clients for append to {objects} objects, allowed: at most \
                 as many clients as objects, because an object takes one append at a time"
            ));
        }
        if self.iterations > 1 {
            mistakes.push(format!(
                "iterations: found {}, allowed: 1, because append fills an object only once",
                self.iterations
            ));
        }
    }
}

fn is_run(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::trial::Trial;

    fn parsed(changes: &serde_json::Value) -> Result<Trial, String> {
        let mut document = json!({
            "format": 1, "id": "0001", "run": "0123456789abcdef0123456789abcdef", "seed": 1,
            "phase": "put", "target": {"name": "null", "driver": "null"},
            "dataset": {"bucket_prefix": "b-", "buckets": 1, "objects": 10, "object_prefix": "o-",
                        "size": {"kind": "fixed", "bytes": 1}},
            "mix": [{"operation": "put"}], "load": {"kind": "closed", "clients": 1},
            "stop": {"requests": 1},
        });
        let changes = changes.as_object().expect("a map").clone();
        document.as_object_mut().expect("a map").extend(changes);
        Trial::parse(&document.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn without_ownership_a_trial_owns_only_places_of_its_run() {
        let trial = parsed(&json!({})).expect("sound");
        assert_eq!((trial.ticket_base, trial.first_beyond()), (0, Some(10)));
        assert!(trial.ownership.adopt.is_empty() && trial.ownership.runs.is_empty());
    }

    #[test]
    fn overflowing_numbers_and_invalid_runs_are_refused() {
        for (changes, key) in [
            (json!({"ticket_base": u64::MAX}), "ticket_base"),
            (json!({"ticket_base": u64::MAX - (1 << 34)}), "ticket_base"),
            (json!({"ownership": {"runs": ["abc"]}}), "ownership.runs"),
            (json!({"run": "+123456789abcdef0123456789abcdef0"}), "run"),
            (json!({"ownership": {"written": [[9, 8]]}}), "ownership.written"),
            (json!({"ownership": {"places": []}}), "places"),
        ] {
            let mistake = parsed(&changes).expect_err("a mistake");
            assert!(mistake.contains(key), "{mistake}");
        }
    }
}
