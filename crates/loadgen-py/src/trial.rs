//! Checking and running a trial from Python.

use arrow_array::RecordBatch;
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

/// The handle by which another thread stops a trial.
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

    /// Stops the trial; it ends within a second with what it has.
    fn stop(&self) {
        self.inner.stop();
    }

    /// Tells a trial that waits for its start when to start, by this host's clock since 1970.
    fn start(&self, at_unix_ns: u64) {
        self.inner.start(at_unix_ns);
    }

    /// Lets the trial go on for so many seconds from now; 0 is for ever.
    fn lease(&self, seconds: f64) -> PyResult<()> {
        let lease = std::time::Duration::try_from_secs_f64(seconds)
            .map_err(|error| PyValueError::new_err(format!("lease of {seconds} s: {error}")))?;
        self.inner.lease(u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// Has a script that several hosts run go on to a turn: with the numbers of subjects that other
    /// hosts have in doubt, four bytes each, or None for all, and the hosts that were lost in the turn
    /// before.
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
            let told = value.setattr("message", message);
            let told = told.and_then(|()| value.setattr("hint", hint));
            told.and_then(|()| value.setattr("kind", kind.word())).err().unwrap_or(raised)
        }),
        Error::Host { .. } => PyOSError::new_err(error.to_string()),
    }
}

/// Raises `ValueError` with every mistake of a trial document, one a line.
#[pyfunction]
pub(crate) fn check(trial_json: &str) -> PyResult<()> {
    Trial::parse(trial_json).map(drop).map_err(raise)
}

/// Runs a trial and returns its summary as JSON.
///
/// `on_interval(batch, live)` is called from this thread about once a second; `batch` is None or
/// rows of complete seconds; `on_actions(batch)` gets those of a script's actions. `on_requests(batch)` gets requests one by one when the trial logs
/// them. `on_intent(names)` is called at most once, before places (buckets, containers and the like)
/// are made that are not there yet. What one of them raises interrupts the trial and is raised
/// again at its end; when `on_intent` raises, nothing has been made. `on_volume(text)` gets the device
/// or file system that places are claimed on, if `ownership.volumes` does not have it. `on_unmade(names)` gets those of
/// these places that are certainly not made. `on_retry(text)` is called about a request outside the
/// measurement that is sent again after a temporary answer. With `on_ready()` the load waits when everything is
/// ready, and that is called; it starts when `control.start` tells a time. Where several hosts run a
/// script, `on_turn_end(turn, doubts)` is called when this one's part of a turn has ended, and
/// `control.begin_turn` begins the next.
#[pyfunction]
#[pyo3(signature = (
    trial_json, on_interval = None, control = None, on_requests = None, on_intent = None,
    on_unmade = None, on_ready = None, on_actions = None, on_turn_end = None, on_retry = None,
    on_volume = None
))]
#[expect(clippy::too_many_arguments, reason = "one for each callback, all optional")]
pub(crate) fn run_trial(
    py: Python<'_>,
    trial_json: &str,
    on_interval: Option<Py<PyAny>>,
    control: Option<Py<Control>>,
    on_requests: Option<Py<PyAny>>,
    on_intent: Option<Py<PyAny>>,
    on_unmade: Option<Py<PyAny>>,
    on_ready: Option<Py<PyAny>>,
    on_actions: Option<Py<PyAny>>,
    on_turn_end: Option<Py<PyAny>>,
    on_retry: Option<Py<PyAny>>,
    on_volume: Option<Py<PyAny>>,
) -> PyResult<String> {
    let trial = Trial::parse(trial_json).map_err(raise)?;
    let control = control.map_or_else(Control::default, |control| control.get().clone());
    if on_ready.is_some() {
        control.inner.hold();
    }
    let mut raised: Option<PyErr> = None;
    let summary = py.detach(|| {
        run::run_trial(&trial, &control.inner, &mut |output| {
            let result = Python::attach(|py| {
                // A signal's handler runs even without a callback for intervals.
                let signal = py.check_signals();
                let told = match output {
                    Output::Ready => {
                        on_ready.as_ref().map_or(Ok(()), |told| told.call0(py).map(drop))
                    }
                    Output::Seconds(rows, live) => tell(py, on_interval.as_ref(), rows, live),
                    Output::Actions(rows) => tell_rows(py, on_actions.as_ref(), rows),
                    Output::TurnEnded(turn, doubts) => {
                        tell_turn(py, on_turn_end.as_ref(), turn, doubts)
                    }
                    Output::Requests(rows) => tell_rows(py, on_requests.as_ref(), rows),
                    Output::Volume(volume) => on_volume
                        .as_ref()
                        .map_or(Ok(()), |told| told.call1(py, (volume,)).map(drop)),
                    Output::Intent(names) => tell_names(py, on_intent.as_ref(), names),
                    Output::Unmade(names) => tell_names(py, on_unmade.as_ref(), names),
                    Output::Retry(text) => match &on_retry {
                        Some(listener) => listener.call1(py, (text,)).map(drop),
                        None => Ok(()),
                    },
                };
                signal.and(told)
            });
            // Rows that come after the first error are still told: the record must be whole.
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

fn tell_names(py: Python<'_>, listener: Option<&Py<PyAny>>, names: &[String]) -> PyResult<()> {
    let Some(listener) = listener else { return Ok(()) };
    listener.call1(py, (names,))?;
    Ok(())
}

fn tell_turn(
    py: Python<'_>,
    listener: Option<&Py<PyAny>>,
    turn: u32,
    doubts: Option<&[u32]>,
) -> PyResult<()> {
    let Some(listener) = listener else {
        // The load would wait for ever.
        return Err(PyValueError::new_err("a portion of a script needs on_turn_end"));
    };
    let packed = doubts.map(|doubts| PyBytes::new(py, &pack(doubts)));
    listener.call1(py, (turn, packed))?;
    Ok(())
}

fn tell_rows(py: Python<'_>, listener: Option<&Py<PyAny>>, rows: RecordBatch) -> PyResult<()> {
    let Some(listener) = listener else { return Ok(()) };
    listener.call1(py, (Py::new(py, Table::from(rows))?,))?;
    Ok(())
}

fn tell(
    py: Python<'_>,
    on_interval: Option<&Py<PyAny>>,
    rows: Option<RecordBatch>,
    live: &Live,
) -> PyResult<()> {
    let Some(on_interval) = on_interval else { return Ok(()) };
    let live = serde_json::to_value(live).expect("numbers and texts");
    let batch = rows.map(|rows| Py::new(py, Table::from(rows))).transpose()?;
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
    on_interval.call1(py, (batch, row))?;
    Ok(())
}
