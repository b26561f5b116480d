//! The embedded store, started and stopped from Python.

use loadstone_store::{StoreConfig, StoreError};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// A running embedded store. It serves from its own threads until `stop`, or until it is collected.
#[pyclass(module = "loadstone._loadgen")]
pub(crate) struct Store {
    inner: loadstone_store::Store,
}

pub(crate) fn raise(error: &StoreError) -> PyErr {
    match error {
        StoreError::Parse(_) | StoreError::Config { .. } => {
            PyValueError::new_err(error.to_string())
        }
        _ => PyOSError::new_err(error.to_string()),
    }
}

#[pymethods]
impl Store {
    /// Starts a store from its configuration, a JSON document.
    #[new]
    fn new(py: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config = StoreConfig::parse(config_json).map_err(|error| raise(&error))?;
        let inner =
            py.detach(|| loadstone_store::Store::start(config)).map_err(|error| raise(&error))?;
        Ok(Self { inner })
    }

    /// The port it listens on.
    #[getter]
    fn port(&self) -> u16 {
        self.inner.port()
    }

    /// The address it listens on, such as `127.0.0.1:9000`.
    #[getter]
    fn address(&self) -> String {
        self.inner.address().to_string()
    }

    /// Damaged items in its data directory that cannot be served, one per line.
    #[getter]
    fn damage(&self) -> Vec<String> {
        self.inner.damage().to_vec()
    }

    /// Stops it; a second call does nothing.
    fn stop(&mut self, py: Python<'_>) {
        let inner = &mut self.inner;
        py.detach(|| inner.stop());
    }
}
