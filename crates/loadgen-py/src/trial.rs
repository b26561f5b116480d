//! Checks and runs trials from Python.

use loadstone_loadgen::error::Error;
use loadstone_loadgen::run::{self, Live, Output};
use loadstone_loadgen::trial::Trial;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::record::Table;

pyo3::create_exception!(
    loadstone._loadgen,
    TargetError,
    pyo3::exceptions::PyException,
    "The target, its credentials or its buckets are not as they must be before load starts."
);

/// Lets another thread control a trial.
#[pyclass(module = "loadstone._loadgen", frozen)]
#[derive(Clone, Default)]
pub(crate) struct Control {
    inner: run::Control,
}

#[pymethods]
impl Control {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Stops the trial. It ends within a second and keeps what it has measured.
    fn stop(&self) {
        self.inner.stop();
    }

    /// Sets the start of a waiting trial, by this host's clock since 1970.
    fn start(&self, at_unix_ns: u64) {
        self.inner.start(at_unix_ns);
    }

    /// Lets the trial go on for this many seconds from now; 0 means without limit.
    fn lease(&self, seconds: f64) -> PyResult<()> {
        let lease = std::time::Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(format!("lease of {seconds} s: {error}")))?;
        self.inner.lease(u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// Lets a script that several hosts run go on to a turn. `doubts` are the numbers of subjects
    /// that other hosts have in doubt, four bytes each, or None for all; `lost` are the hosts that
    /// were lost in the previous turn.
    fn begin_turn(&self, turn: u32, doubts: Option<Vec<u8>>, lost: Vec<u32>) {
        self.inner.begin_turn(turn, doubts.map(|packed| unpack(&packed)), lost);
    }
}

fn pack(subjects: &[u32]) -> Vec<u8> {
    subjects.iter().flat_map(|subject| subject.to_le_bytes()).collect()
}

fn unpack(packed: &[u8]) -> Vec<u32> {
    packed.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

pub(crate) fn raise(error: Error) -> PyErr {
    match error {
        Error::Trial(_) => PyValueError::new_err(error.to_string()),
        Error::Target { kind, .. } => Python::attach(|py| {
            let raised = TargetError::new_err(error.to_string());
            let (message, hint) = error.into_parts();
            let value = raised.value(py);
            let set = value.setattr("message", message);
            let set = set.and_then(|()| value.setattr("hint", hint));
            set.and_then(|()| value.setattr("kind", kind.word())).err().unwrap_or(raised)
        }),
        Error::Host { .. } => PyOSError::new_err(error.to_string()),
    }
}

/// Raises `ValueError` with all mistakes of a trial document, one per line.
#[pyfunction]
pub(crate) fn check(trial_json: &str) -> PyResult<()> {
    Trial::parse(trial_json).map(drop).map_err(raise)
}

/// Converts calls of a history to another clock, given the offset of their host's clock and the
/// maximum error of that offset. Raises `ValueError` if the bytes are not calls.
#[pyfunction]
pub(crate) fn on_clock<'py>(
    py: Python<'py>,
    calls: &[u8],
    offset_ns: i64,
    bound_ns: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let calls = loadstone_loadgen::on_clock(calls, offset_ns, bound_ns)
        .ok_or_else(|| PyValueError::new_err("found calls that are cut off or damaged"))?;
    Ok(PyBytes::new(py, &calls))
}

/// Judges the histories that a trial names, and returns the summary of an audit as JSON.
#[pyfunction]
pub(crate) fn judge_history(py: Python<'_>, trial_json: &str) -> PyResult<String> {
    let trial = Trial::parse(trial_json).map_err(raise)?;
    let summary = py.detach(|| loadstone_loadgen::judge_history(&trial)).map_err(raise)?;
    Ok(serde_json::to_string(&summary).expect("numbers and texts"))
}

/// Runs a trial and returns its summary as JSON.
///
/// Calls `on_event(event)` from this thread with a dict for each [`Output`]: its `kind`, and the
/// fields of the message with that name in which an agent forwards it. `_loadgen.pyi` lists them.
/// An exception of `on_event` interrupts the trial and is raised again at its end; if it is raised
/// for an intent, nothing has been created. With `holds`, the load waits when everything is ready,
/// until `control.start` sets a time.
#[pyfunction]
#[pyo3(signature = (trial_json, on_event = None, control = None, *, holds = false))]
pub(crate) fn run_trial(
    py: Python<'_>,
    trial_json: &str,
    on_event: Option<Py<PyAny>>,
    control: Option<Py<Control>>,
    holds: bool,
) -> PyResult<String> {
    let trial = Trial::parse(trial_json).map_err(raise)?;
    let control = control.map_or_else(Control::default, |control| control.get().clone());
    if holds {
        control.inner.hold();
    }
    let mut raised: Option<PyErr> = None;
    let summary = py.detach(|| {
        run::run_trial(&trial, &control.inner, &mut |output| {
            let result = Python::attach(|py| {
                // Handlers of signals run even without a listener.
                let signal = py.check_signals();
                let heard = match &on_event {
                    Some(listener) => {
                        event(py, output).and_then(|event| listener.call1(py, (event,)).map(drop))
                    }
                    // Otherwise, the load would wait for ever.
                    None if matches!(output, Output::Ready | Output::TurnEnded(..)) => {
                        Err(PyValueError::new_err("a load that waits for its hosts needs on_event"))
                    }
                    None => Ok(()),
                };
                signal.and(heard)
            });
            // Rows that come after the first error are still passed on, because the record must be
            // complete.
            let is_well = result.is_ok();
            if let Err(error) = result {
                raised.get_or_insert(error);
            }
            is_well
        })
    });
    let summary = summary.map_err(raise)?;
    match raised {
        Some(error) if !error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) => {
            Err(error)
        }
        _ => Ok(serde_json::to_string(&summary).expect("numbers and texts")),
    }
}

/// Creates the dict of an event. Its kinds and fields are those of the messages in
/// `hosts/messages.py`.
fn event<'py>(py: Python<'py>, output: Output<'_>) -> PyResult<Bound<'py, PyDict>> {
    let event = PyDict::new(py);
    let kind = match output {
        Output::Ready => "ready",
        Output::Seconds(rows, live) => {
            let rows = rows.map(|rows| Py::new(py, Table::from(rows))).transpose()?;
            event.set_item("rows", rows)?;
            event.set_item("live", figures(py, live)?)?;
            "figures"
        }
        Output::Actions(rows) => {
            event.set_item("rows", Py::new(py, Table::from(rows))?)?;
            "actions"
        }
        Output::Requests(rows) => {
            event.set_item("rows", Py::new(py, Table::from(rows))?)?;
            "loggedrequests"
        }
        Output::TurnEnded(turn, doubts) => {
            event.set_item("turn", turn)?;
            event.set_item("doubts", doubts.map(|doubts| PyBytes::new(py, &pack(doubts))))?;
            "turn"
        }
        Output::Ledger(frames) => {
            event.set_item("frames", PyBytes::new(py, frames))?;
            "ledger"
        }
        Output::History(calls) => {
            event.set_item("calls", PyBytes::new(py, calls))?;
            "history"
        }
        Output::Volume(volume) => {
            event.set_item("volume", volume)?;
            "volume"
        }
        Output::Intent(names) => {
            event.set_item("names", names)?;
            "intent"
        }
        Output::Unmade(names) => {
            event.set_item("names", names)?;
            "unmade"
        }
        Output::Retry(text) => {
            event.set_item("text", text)?;
            "retry"
        }
    };
    event.set_item("kind", kind)?;
    Ok(event)
}

fn figures<'py>(py: Python<'py>, live: &Live) -> PyResult<Bound<'py, PyDict>> {
    let live = serde_json::to_value(live).expect("numbers and texts");
    let row = PyDict::new(py);
    for (key, value) in live.as_object().into_iter().flatten() {
        match value {
            serde_json::Value::String(text) => row.set_item(key, text)?,
            serde_json::Value::Number(number) => match number.as_u64() {
                Some(number) => row.set_item(key, number)?,
                None => row.set_item(key, number.as_f64())?,
            },
            _ => row.set_item(key, py.None())?,
        }
    }
    Ok(row)
}
