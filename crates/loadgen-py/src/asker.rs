//! Sends single requests to a target from Python.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use loadstone_loadgen::error::Error;
use loadstone_loadgen::trial::Trial;
use loadstone_loadgen::{Asker as Inner, RawRequest};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::trial::raise;

/// How often to check for signals while waiting for an answer.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A target that accepts one request after another, or several concurrently.
#[pyclass(module = "loadstone._loadgen", frozen)]
pub(crate) struct Asker {
    inner: std::sync::Mutex<Inner>,
}

#[pymethods]
impl Asker {
    /// Opens the target of a trial document.
    #[new]
    fn new(py: Python<'_>, trial_json: &str) -> PyResult<Self> {
        let trial = Trial::parse(trial_json).map_err(raise)?;
        let inner = py.detach(|| Inner::open(&trial)).map_err(raise)?;
        Ok(Self { inner: std::sync::Mutex::new(inner) })
    }

    /// Sends requests concurrently, each over its own connection. A request is JSON and a body, and
    /// so is an answer; answers are in the order of the requests.
    fn ask<'py>(
        &self,
        py: Python<'py>,
        requests: Vec<(String, Vec<u8>)>,
        timeout_s: f64,
    ) -> PyResult<Vec<(String, Bound<'py, PyBytes>)>> {
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .map_err(|error| PyValueError::new_err(format!("timeout of {timeout_s} s: {error}")))?;
        let requests: PyResult<Vec<RawRequest>> = requests.into_iter().map(parse).collect();
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX >> 1);
        let answers = self.locked().ask(requests?, timeout_ns);
        let text = |answer| serde_json::to_string(answer).expect("numbers and texts");
        let answers = wait(py, answers)?;
        Ok(answers.iter().map(|raw| (text(raw), PyBytes::new(py, &raw.body))).collect())
    }

    /// Returns the head of a request, which the caller sends over its own connection.
    fn head<'py>(
        &self,
        py: Python<'py>,
        request_json: String,
        body: Vec<u8>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let head = self.locked().head(parse((request_json, body))?);
        Ok(PyBytes::new(py, &wait(py, head)?))
    }
}

impl Asker {
    fn locked(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

fn parse((json, body): (String, Vec<u8>)) -> PyResult<RawRequest> {
    let request = serde_json::from_str(&json);
    let request = request.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(RawRequest { body, ..request })
}

/// Waits without the GIL, and handles signals meanwhile.
fn wait<T: Send>(py: Python<'_>, receiver: Receiver<Result<T, Error>>) -> PyResult<T> {
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let received =
            py.detach(|| receiver.lock().expect("never poisoned").recv_timeout(LOOK_EVERY));
        match received {
            Ok(result) => return result.map_err(raise),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the asker's thread has ended"));
            }
        }
    }
}
