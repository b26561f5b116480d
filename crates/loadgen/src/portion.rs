//! One host's portion of a trial that several hosts execute together.

use serde::{Deserialize, Serialize};

/// This host's portion of a trial. Request number `i` of the whole trial belongs to host `i` modulo
/// the number of hosts, so that all portions together are the requests of a single host. The first
/// host prepares the places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Portion {
    /// Number of this host, from 0.
    pub index: u32,
    /// Number of hosts.
    pub of: u32,
}

/// The whole trial.
impl Default for Portion {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

impl Portion {
    /// Returns how many of the first `whole` requests belong to this host.
    #[must_use]
    pub(crate) fn share(self, whole: u64) -> u64 {
        let (of, index) = (u64::from(self.of), u64::from(self.index));
        whole / of + u64::from(index < whole % of)
    }

    /// Returns the number in the whole trial of this host's request number `own`.
    #[inline]
    #[must_use]
    pub(crate) fn number(self, own_number: u64) -> u64 {
        own_number.wrapping_mul(u64::from(self.of)).wrapping_add(u64::from(self.index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_are_disjoint_and_cover_the_whole() {
        for of in 1..=7 {
            for whole in [0, 1, 5, 6, 7, 100, 101] {
                let mut numbers: Vec<u64> = (0..of)
                    .map(|index| Portion { index, of })
                    .flat_map(|portion| {
                        (0..portion.share(whole)).map(move |own_number| portion.number(own_number))
                    })
                    .collect();
                numbers.sort_unstable();
                assert_eq!(numbers, (0..whole).collect::<Vec<_>>(), "{of} hosts");
            }
        }
    }
}
