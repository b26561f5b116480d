//! Lists of objects that others wrote, for Python.

use std::path::PathBuf;

use loadstone_loadgen::object_list::ObjectList;
use loadstone_loadgen::run::list_objects as list;
use loadstone_loadgen::trial::Trial;
use pyo3::prelude::*;

use crate::record::Table;
use crate::trial::raise;

/// Lists the objects of a trial's only place whose keys begin with its prefix, up to `objects_max`.
///
/// Calls `on_page` from this thread with tables of `LIST`. An exception of `on_page` ends the
/// listing and is raised again. Returns whether there are more objects.
#[pyfunction]
pub(crate) fn list_objects(
    py: Python<'_>,
    trial_json: &str,
    objects_max: u64,
    on_page: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let trial = Trial::parse(trial_json).map_err(raise)?;
    let (mut raised, on_page) = (None, on_page.clone().unbind());
    let is_cut = py.detach(|| {
        list(&trial, objects_max, &mut |batch| {
            let heard = Python::attach(|py| {
                py.check_signals()?;
                let Some(batch) = batch else { return Ok(()) };
                on_page.call1(py, (Py::new(py, Table::from(batch))?,)).map(drop)
            });
            heard.map_err(|error| raised = Some(error)).is_ok()
        })
    });
    match raised {
        Some(error) => Err(error),
        None => is_cut.map_err(raise),
    }
}

/// Reads a whole list of objects, and returns facts about it, as JSON.
#[pyfunction]
pub(crate) fn list_facts(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    let list = py.detach(|| ObjectList::open(&path, None)).map_err(raise)?;
    Ok(serde_json::to_string(&list.facts()).expect("numbers"))
}
