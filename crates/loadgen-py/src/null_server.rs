//! The server that stores nothing, started and stopped from Python.

use loadstone_store::NullConfig;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::store::raise;

/// A running server that stores nothing, against which a load generator measures its own ceiling.
/// It serves from its own threads until `stop`, or until it is collected.
#[pyclass(module = "loadstone._loadgen")]
pub(crate) struct NullServer {
    inner: loadstone_store::NullServer,
}

#[pymethods]
impl NullServer {
    /// Starts a server from its configuration, a JSON document.
    #[new]
    fn new(py: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config = NullConfig::parse(config_json).map_err(|error| raise(&error))?;
        let inner = py
            .detach(|| loadstone_store::NullServer::start(&config))
            .map_err(|error| raise(&error))?;
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

    /// Returns the counters of its work so far.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.inner.counters();
        let row = PyDict::new(py);
        row.set_item("requests", counters.requests)?;
        row.set_item("connections", counters.connections)?;
        row.set_item("connections_open", counters.connections_open)?;
        row.set_item("bytes_received", counters.bytes_received)?;
        row.set_item("bytes_sent", counters.bytes_sent)?;
        Ok(row)
    }

    /// Stops it; a second call does nothing.
    fn stop(&mut self, py: Python<'_>) {
        let inner = &mut self.inner;
        py.detach(|| inner.stop());
    }
}
