//! The metadata that `post` writes: a value of each trial and object, which no ledger has to store.

use crate::chance::mix64;

/// The value of an object whose metadata no `post` has replaced.
pub(crate) const NO_METADATA: u64 = 0;
/// The value of metadata that is not a value of ours.
pub(crate) const OTHER_METADATA: u64 = u64::MAX;

/// The values that the posts of one trial write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MetadataValues(u64);

impl MetadataValues {
    pub(crate) fn of_trial(run: &str, trial: &str) -> Self {
        let bytes = run.bytes().chain([0]).chain(trial.bytes());
        Self(bytes.fold(0, |hash, byte| mix64(hash ^ u64::from(byte))))
    }

    /// Returns the value that a post of an object writes; posts of a trial repeat it.
    pub(crate) fn of_object(self, index: u64) -> u64 {
        mix64(self.0 ^ mix64(index)).clamp(NO_METADATA + 1, OTHER_METADATA - 1)
    }
}

/// Returns a value as a store keeps it: 16 hex digits.
pub(crate) fn metadata_text(value: u64) -> String {
    format!("{value:016x}")
}

/// Returns the value in a store's answer, which may have none.
pub(crate) fn metadata_value(text: Option<&str>) -> u64 {
    let Some(text) = text else { return NO_METADATA };
    let value = u64::from_str_radix(text, 16).ok();
    let is_ours = |value: &u64| *value != NO_METADATA && metadata_text(*value) == text;
    value.filter(is_ours).unwrap_or(OTHER_METADATA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_and_objects_have_values_of_their_own_that_are_read_as_they_were_written() {
        let trials = ["0001", "0002"].map(|trial| MetadataValues::of_trial("run", trial));
        let values: std::collections::HashSet<u64> =
            trials.iter().flat_map(|trial| (0..1000).map(|index| trial.of_object(index))).collect();
        assert_eq!(values.len(), 2000);
        for value in values {
            assert_eq!(metadata_value(Some(&metadata_text(value))), value);
        }
        assert_eq!(metadata_value(None), NO_METADATA);
        for other in ["", "1", "+00000000000000a", "00000000000000001", "0000000000000000"] {
            assert_eq!(metadata_value(Some(other)), OTHER_METADATA, "{other}");
        }
    }
}
