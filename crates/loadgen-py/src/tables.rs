//! The tables of drivers and operations as lists of dicts.

use loadstone_loadgen::drivers::{DRIVERS, Setting, SettingKind};
use loadstone_loadgen::operation::OPERATIONS;
use pyo3::prelude::*;
use pyo3::types::PyDict;

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
            Ok(row)
        })
        .collect()
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
            row.set_item("reads", operation.reads)?;
            row.set_item("writes", operation.writes)?;
            row.set_item("needs_objects", operation.needs_objects)?;
            Ok(row)
        })
        .collect()
}
