//! Checks a trial: its document, its driver, and their combination.

use crate::drivers::DRIVERS;
use crate::drivers::DriverInfo;
use crate::error::Error;
use crate::operation::Operation;
use crate::payload::TAG_BYTES;
use crate::trial::{DatasetSpec, Trial};

impl Trial {
    /// Parses and checks a document.
    ///
    /// # Errors
    /// All mistakes of the document, one per line.
    pub fn parse(json: &str) -> Result<Self, Error> {
        let trial: Self = serde_json::from_str(json)
            .map_err(|error| Error::Trial(vec![format!("trial document: {error}")]))?;
        let mut mistakes = trial.mistakes();
        mistakes.extend(driver_mistakes(&trial));
        if mistakes.is_empty() { Ok(trial) } else { Err(Error::Trial(mistakes)) }
    }
}

/// Returns what the trial asks for and its driver cannot do.
fn driver_mistakes(trial: &Trial) -> Vec<String> {
    let Some(info) = DriverInfo::named(&trial.target.driver) else {
        return vec![format!(
            "target.driver: found \"{}\", allowed: {}",
            trial.target.driver,
            DriverInfo::names().join(", ")
        )];
    };
    let cannot = trial.mix.iter().filter(|share| !info.can(share.operation)).map(|share| {
        format!(
            "mix: driver \"{}\" cannot do {}, it can do: {}",
            info.name,
            share.operation.name(),
            info.operation_names().join(", ")
        )
    });
    let mut mistakes: Vec<String> = cannot.collect();
    mistakes.extend((info.check)(trial));
    mistakes.extend(encryption_mistakes(trial, info));
    mistakes.extend(path_mistakes(trial, info));
    mistakes.extend(history_mistake(trial));
    if trial.dataset.existing.is_some() && !info.facts.reads_existing {
        let can = DRIVERS.iter().filter(|info| info.facts.reads_existing && !info.is_for_tests);
        mistakes.push(format!(
            "dataset.existing: found it with driver \"{}\", drivers that can: {}",
            info.name,
            can.map(|info| info.name).collect::<Vec<_>>().join(", ")
        ));
    }
    mistakes
}

/// Returns what is wrong with a trial that keeps a history. Reads identify versions by the pages
/// that they contain.
fn history_mistake(trial: &Trial) -> Option<String> {
    let DatasetSpec { encryption, duplicate, existing, size, .. } = &trial.dataset;
    let is_plain = encryption.is_none() && *duplicate == 0.0 && existing.is_none();
    let is_readable = is_plain && size.min() >= TAG_BYTES as u64;
    (trial.keeps_history && !is_readable).then(|| {
        format!(
            "keeps_history: found it with encryption, duplicates, objects of others or objects below \
             {TAG_BYTES} bytes, allowed: objects that hold their version in the clear"
        )
    })
}

/// Returns the mistakes of a trial that encrypts objects.
fn encryption_mistakes(trial: &Trial, driver: &DriverInfo) -> Vec<String> {
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
    let ranged = [Operation::RangeGet, Operation::MultiRangeGet, Operation::MultipartGet];
    for share in trial.mix.iter().filter(|share| ranged.contains(&share.operation)) {
        mistakes.push(format!(
            "mix: found {} of objects encrypted with {cipher}; a range cannot be decrypted by \
             itself, read whole objects with get",
            share.operation.name()
        ));
    }
    mistakes
}

/// Returns the mistakes of a trial that encrypts paths.
fn path_mistakes(trial: &Trial, driver: &DriverInfo) -> Vec<String> {
    let Some(cipher) = trial.dataset.path_encryption.map(|cipher| cipher.name()) else {
        return Vec::new();
    };
    let mut mistakes = Vec::new();
    if !driver.facts.encrypts_paths {
        let can = DRIVERS.iter().filter(|info| info.facts.encrypts_paths && !info.is_for_tests);
        mistakes.push(format!(
            "dataset.path_encryption: found {cipher}, which driver \"{}\" cannot do; drivers that \
             can: {}",
            driver.name,
            can.map(|info| info.name).collect::<Vec<_>>().join(", ")
        ));
    }
    let plain = &trial.dataset.object_prefix;
    if let Some(prefix) = &trial.options.prefix
        && !plain.starts_with(prefix)
    {
        mistakes.push(format!(
            "options.prefix: found \"{prefix}\" beside dataset.path_encryption, allowed: what \
             \"{plain}\" begins with, for the rest of each key is encrypted"
        ));
    }
    mistakes
}
