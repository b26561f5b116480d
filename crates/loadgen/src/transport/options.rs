//! Mistakes in the options of single operations, the same for every HTTP store.

use crate::facts::Limits;
use crate::operation::Operation;
use crate::trial::Trial;

/// Returns the mistakes in the options of single operations, the same for every HTTP store.
pub(crate) fn mistakes(trial: &Trial, limits: &Limits) -> Vec<String> {
    let options = &trial.options;
    let bulk_keys_max = limits.bulk_keys_max.unwrap_or(u32::MAX);
    let has = |operation| trial.mix.iter().any(|share| share.operation == operation);
    let mut mistakes = Vec::new();
    for operation in [Operation::RangeGet, Operation::MultiRangeGet] {
        if has(operation) && options.range_bytes.is_none_or(|bytes| bytes == 0) {
            mistakes.push(format!("options.range_bytes: {} needs it", operation.name()));
        }
    }
    for operation in [Operation::MultipartPut, Operation::MultipartGet, Operation::CreateUpload] {
        if has(operation) && options.part_bytes.is_none_or(|bytes| bytes == 0) {
            mistakes.push(format!("options.part_bytes: {} needs it", operation.name()));
        }
    }
    if options.part_concurrency == 0 {
        mistakes.push("options.part_concurrency: found 0, allowed: 1 and more".to_owned());
    }
    if has(Operation::BulkDelete) && !(1..=bulk_keys_max).contains(&options.bulk_keys) {
        mistakes.push(format!(
            "options.bulk_keys: found {}, allowed: 1 to {bulk_keys_max}",
            options.bulk_keys
        ));
    }
    if has(Operation::List) && options.page_keys == 0 {
        mistakes.push("options.page_keys: found 0, allowed: 1 and more".to_owned());
    }
    mistakes
}
