//! What is wrong with a trial document, all at once.

use super::{FORMAT, Load, Share, Trial};
use crate::drivers::{DriverInfo, encryption_mistakes};
use crate::operation::Operation;

impl Trial {
    pub(super) fn mistakes(&self) -> Vec<String> {
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
        demand(
            self.run.len() == 32 && u128::from_str_radix(&self.run, 16).is_ok(),
            format!("run: found \"{}\", allowed: 32 hex digits", self.run),
        );
        demand(self.dataset.buckets > 0, "dataset.buckets: found 0, allowed: 1 and more".into());
        demand(
            (0.0..=1.0).contains(&self.verify),
            format!("verify: found {}, allowed: 0 to 1", self.verify),
        );
        demand(self.load.clients() > 0, "load: found no clients, allowed: 1 and more".into());
        demand(self.iterations > 0, "iterations: found 0, allowed: 1 and more".into());
        demand(self.timeout_ns >= 1_000_000, "timeout: allowed: 1ms and more".into());
        if let Load::Open { rate_per_s, .. } = self.load {
            demand(
                rate_per_s.is_finite() && rate_per_s > 0.0,
                format!("load.rate: found {rate_per_s}, allowed: above 0"),
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
        self.check_mix(&mut mistakes);
        match DriverInfo::named(&self.target.driver) {
            None => mistakes.push(format!(
                "target.driver: found \"{}\", allowed: {}",
                self.target.driver,
                DriverInfo::names().join(", ")
            )),
            Some(info) => {
                mistakes.extend(self.mix.iter().filter(|share| !info.can(share.operation)).map(
                    |share| {
                        format!(
                            "mix: driver \"{}\" cannot do {}, it can do: {}",
                            info.name,
                            share.operation.name(),
                            info.operation_names().join(", ")
                        )
                    },
                ));
                mistakes.extend((info.check)(self));
                mistakes.extend(encryption_mistakes(self, info));
            }
        }
        mistakes
    }

    fn check_mix(&self, mistakes: &mut Vec<String>) {
        let weight = |operation| -> f64 {
            let of = |share: &&Share| share.operation == operation;
            self.mix.iter().filter(of).map(|share| share.weight).sum()
        };
        let (deletes, puts) = (weight(Operation::Delete), weight(Operation::Put));
        if self.mix.len() > 1 && deletes > puts {
            mistakes.push(format!(
                "mix: found delete with {deletes} against put with {puts}; a mix deletes only what \
                 it has put itself, so delete may not weigh more than put"
            ));
        }
        let alone = [
            Operation::BulkDelete,
            Operation::CreateBucket,
            Operation::DeleteBucket,
            Operation::Append,
        ];
        for share in &self.mix {
            if self.mix.len() > 1 && alone.contains(&share.operation) {
                mistakes.push(format!("mix: {} cannot be mixed", share.operation.name()));
            }
        }
        if weight(Operation::Append) > 0.0 {
            self.check_append(mistakes);
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
