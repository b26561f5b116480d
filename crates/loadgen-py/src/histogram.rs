//! Histograms for analysis: merged by adding counts, never by averaging.

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use loadstone_loadgen as loadgen;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Counts of nanoseconds, 1 to one hour, with three significant digits.
#[pyclass(module = "loadstone._loadgen")]
pub(crate) struct Histogram {
    counts: Hdr<u64>,
}

#[pymethods]
impl Histogram {
    #[new]
    fn new() -> Self {
        Self { counts: loadgen::histogram() }
    }

    /// Adds an encoded histogram.
    fn add(&mut self, encoded: &[u8]) -> PyResult<()> {
        let other: Hdr<u64> = Deserializer::new()
            .deserialize(&mut &encoded[..])
            .map_err(|error| PyValueError::new_err(format!("not a V2 HDR histogram: {error}")))?;
        self.add_counts(&other)
    }

    /// Adds the counts of another histogram.
    fn merge(&mut self, other: &Self) -> PyResult<()> {
        self.add_counts(&other.counts)
    }

    /// Counts one value, or the same value several times.
    #[pyo3(signature = (value_ns, count = 1))]
    fn record(&mut self, value_ns: u64, count: u64) {
        self.counts.saturating_record_n(value_ns.max(1), count);
    }

    /// Returns the upper edge of the smallest bucket with at least the share `quantile` at or below.
    fn quantile(&self, quantile: f64) -> PyResult<u64> {
        if !(0.0..=1.0).contains(&quantile) {
            return Err(PyValueError::new_err(format!("quantile {quantile}: allowed: 0 to 1")));
        }
        Ok(self.counts.value_at_quantile(quantile).min(self.counts.max()))
    }

    /// Returns how many values lie at or below a value.
    fn count_at_or_below(&self, value_ns: u64) -> u64 {
        self.counts
            .iter_recorded()
            .take_while(|step| step.value_iterated_to() <= value_ns)
            .fold(0, |count, step| count + step.count_at_value())
    }

    #[getter]
    fn count(&self) -> u64 {
        self.counts.len()
    }

    #[getter]
    fn mean(&self) -> f64 {
        self.counts.mean()
    }

    #[getter]
    fn stdev(&self) -> f64 {
        self.counts.stdev()
    }

    #[getter]
    fn min(&self) -> u64 {
        if self.counts.is_empty() { 0 } else { self.counts.min() }
    }

    #[getter]
    fn max(&self) -> u64 {
        self.counts.max()
    }

    /// Returns the upper edges of the buckets that hold something, and their counts.
    fn buckets(&self) -> (Vec<u64>, Vec<u64>) {
        self.counts
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .unzip()
    }

    /// Returns the compressed V2 encoding.
    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &loadgen::encode(&self.counts, &mut V2DeflateSerializer::new()))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.counts.len()).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!("<Histogram of {} values>", self.counts.len())
    }
}

impl Histogram {
    fn add_counts(&mut self, other: &Hdr<u64>) -> PyResult<()> {
        self.counts.add(other).map_err(|error| {
            PyValueError::new_err(format!("histogram beyond one hour or of other digits: {error}"))
        })
    }
}
