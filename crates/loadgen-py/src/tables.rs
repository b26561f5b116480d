//! The tables of drivers and operations as lists of dicts, and functions of drivers on their
//! targets.

use std::collections::HashMap;
use std::path::PathBuf;

use loadstone_loadgen::dataset::Stored;
use loadstone_loadgen::drivers::{DRIVERS, DriverInfo};
use loadstone_loadgen::operation::{OPERATIONS, Payload};
use loadstone_loadgen::settings::{Setting, SettingKind};
use loadstone_loadgen::{dataset, profile_commands as commands_of};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::trial::raise;

/// Returns the drivers with their operations and settings.
#[pyfunction]
#[pyo3(signature = (*, with_tests = false))]
pub(crate) fn drivers(py: Python<'_>, with_tests: bool) -> PyResult<Vec<Bound<'_, PyDict>>> {
    DRIVERS
        .iter()
        .filter(|driver| with_tests || !driver.is_for_tests)
        .map(|driver| {
            let row = PyDict::new(py);
            row.set_item("name", driver.name)?;
            row.set_item("summary", driver.summary)?;
            row.set_item("operations", driver.operation_names())?;
            row.set_item("encrypts", driver.encrypts)?;
            let settings: PyResult<Vec<_>> =
                driver.settings.iter().map(|setting| setting_row(py, setting)).collect();
            row.set_item("settings", settings?)?;
            row.set_item("facts", plain_values(py, &driver.facts)?)?;
            row.set_item("is_for_tests", driver.is_for_tests)?;
            Ok(row)
        })
        .collect()
}

/// Returns the driver of the word that names a target, and the setting that the word fills.
#[pyfunction]
pub(crate) fn read_target(text: &str) -> Option<(&'static str, Option<(&'static str, String)>)> {
    DriverInfo::read_word(text).map(|word| (word.driver, word.setting))
}

/// Returns the settings, as JSON, that the environment gives and a target does not.
#[pyfunction]
pub(crate) fn from_environment(
    driver: &str,
    settings_json: &str,
    environ: HashMap<String, String>,
) -> PyResult<String> {
    let given = serde_json::from_str(settings_json)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let added = DriverInfo::named(driver).map(|info| info.from_environment(&given, &environ));
    Ok(serde_json::Value::Object(added.unwrap_or_default()).to_string())
}

/// Returns the secret of a target that this host lacks, and a hint. Contacts no server and runs no
/// command.
#[pyfunction]
pub(crate) fn absent_secret(
    driver: &str,
    settings_json: &str,
) -> PyResult<Option<(String, Option<String>)>> {
    let settings = serde_json::from_str(settings_json)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    let absent = DriverInfo::named(driver).and_then(|info| info.absent_secret(&settings));
    Ok(absent.map(|error| error.into_parts()))
}

/// Returns the commands that this host would run to obtain the keys of an AWS profile.
#[pyfunction]
pub(crate) fn profile_commands(profile: &str) -> Vec<String> {
    commands_of(profile)
}

/// Returns the name of a bucket in a dataset with this many buckets.
#[pyfunction]
pub(crate) fn bucket_name(prefix: &str, buckets: u64, bucket: u64) -> String {
    dataset::bucket_name(prefix, buckets, bucket)
}

/// Returns the stored length of a segment of a key, if paths are encrypted.
#[pyfunction]
pub(crate) fn sealed_bytes(segment_bytes: usize) -> usize {
    dataset::sealed_bytes(segment_bytes)
}

/// Returns the longest of a script's keys when stored, and the one with the longest file name.
#[pyfunction]
pub(crate) fn longest_sealed(
    py: Python<'_>,
    path: PathBuf,
    sha256: &str,
) -> PyResult<(Stored, Stored)> {
    py.detach(|| dataset::longest_sealed(&path, sha256)).map_err(raise)
}

/// Returns the file system that a directory lies on, in the format of `on_volume`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's path becomes one of ours")]
pub(crate) fn volume_of(path: std::path::PathBuf) -> PyResult<String> {
    Ok(loadstone_loadgen::volume_of(&path)?)
}

/// Returns whether a path is in a folder of the kernel, where a file would be kept in memory.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's path becomes one of ours")]
pub(crate) fn is_in_kernel_folder(path: std::path::PathBuf) -> bool {
    loadstone_loadgen::is_in_kernel_folder(&path)
}

fn plain_values<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).expect("numbers and texts");
    py.import("json")?.call_method1("loads", (text,))
}

fn setting_row<'py>(py: Python<'py>, setting: &Setting) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", setting.name)?;
    row.set_item("kind", setting.kind.name())?;
    row.set_item("required", setting.required)?;
    row.set_item("default", setting.default)?;
    row.set_item("help", setting.help)?;
    row.set_item("secret", setting.kind == SettingKind::Secret)?;
    let choices: &[&str] = match setting.kind {
        SettingKind::Choice(choices) => choices,
        _ => &[],
    };
    row.set_item("choices", choices)?;
    Ok(row)
}

/// Returns the operations.
#[pyfunction]
pub(crate) fn operations(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    OPERATIONS
        .iter()
        .map(|operation| {
            let row = PyDict::new(py);
            row.set_item("name", operation.name)?;
            row.set_item("summary", operation.summary)?;
            row.set_item("scope", plain_values(py, &operation.scope)?)?;
            row.set_item("effect", plain_values(py, &operation.effect)?)?;
            row.set_item("reads", operation.payload == Payload::Read)?;
            row.set_item("writes", operation.payload == Payload::Written)?;
            row.set_item("needs_objects", operation.needs_objects)?;
            row.set_item("is_mixed", operation.is_mixed)?;
            row.set_item("reads_existing", operation.reads_existing)?;
            row.set_item("locks", operation.operation.locks())?;
            row.set_item("repeats", plain_values(py, &operation.repeats)?)?;
            row.set_item("options", operation.options)?;
            let takes_from = operation.takes_from.iter().map(|taken| taken.name());
            row.set_item("takes_from", takes_from.collect::<Vec<_>>())?;
            Ok(row)
        })
        .collect()
}
