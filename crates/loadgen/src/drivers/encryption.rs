//! Who can work on objects that the client encrypts.

use crate::drivers::{DRIVERS, DriverInfo};
use crate::operation::Operation;
use crate::trial::Trial;

/// Returns the mistakes of a trial on encrypted objects.
pub(crate) fn mistakes(trial: &Trial, driver: &DriverInfo) -> Vec<String> {
    let Some(cipher) = trial.dataset.encryption.map(|cipher| cipher.name()) else {
        return Vec::new();
    };
    let mut mistakes = Vec::new();
    if !driver.encrypts {
        let can = DRIVERS.iter().filter(|info| info.encrypts).map(|info| info.name);
        mistakes.push(format!(
            "dataset.encryption: found {cipher}, which driver \"{}\" cannot do; drivers that can: {}",
            driver.name,
            can.collect::<Vec<_>>().join(", ")
        ));
    }
    let ranged = [Operation::RangeGet, Operation::MultiRangeGet];
    for share in trial.mix.iter().filter(|share| ranged.contains(&share.operation)) {
        mistakes.push(format!(
            "mix: found {} of objects encrypted with {cipher}; a range cannot be decrypted by \
             itself, read whole objects with get",
            share.operation.name()
        ));
    }
    mistakes
}
