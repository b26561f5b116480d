//! Histograms for analysis: merged by adding counts, never by averaging.

use loadstone_loadgen::recorder::encoded::Sum;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Counts of nanoseconds, 1 to one hour, with three significant digits.
#[pyclass(module = "loadstone._loadgen")]
pub(crate) struct Histogram {
    sum: Sum,
}

#[pymethods]
impl Histogram {
    #[new]
    fn new() -> Self {
        Self { sum: Sum::default() }
    }

    /// Adds an encoded histogram.
    fn add(&mut self, encoded: &[u8]) -> PyResult<()> {
        self.sum.add(encoded).map_err(PyValueError::new_err)
    }

    /// Adds the counts of another histogram.
    fn merge(&mut self, other: &Self) {
        self.sum.merge(&other.sum);
    }

    /// Counts a value, once or several times.
    #[pyo3(signature = (value_ns, count = 1))]
    fn record(&mut self, value_ns: u64, count: u64) {
        self.sum.record(value_ns.max(1), count);
    }

    /// Returns the upper edge of the smallest bucket with at least the share `quantile` of values
    /// at or below it.
    fn quantile(&self, quantile: f64) -> PyResult<u64> {
        if !(0.0..=1.0).contains(&quantile) {
            return Err(PyValueError::new_err(format!("quantile {quantile}: allowed: 0 to 1")));
        }
        Ok(self.sum.value_at_quantile(quantile))
    }

    /// Returns how many values lie at or below a value.
    fn count_at_or_below(&self, value_ns: u64) -> u64 {
        let below = self.sum.buckets().take_while(|bucket| bucket.greatest_ns <= value_ns);
        below.map(|bucket| bucket.count).sum()
    }

    /// Returns the upper edges of the buckets that contain the values with these ranks; rank 1 is
    /// the smallest.
    fn at_ranks(&self, mut ranks: Vec<u64>) -> Vec<u64> {
        ranks.sort_unstable();
        self.sum.at_ranks(&ranks)
    }

    #[getter]
    fn count(&self) -> u64 {
        self.sum.len()
    }

    #[getter]
    fn mean(&self) -> f64 {
        self.sum.mean()
    }

    #[getter]
    fn stdev(&self) -> f64 {
        self.sum.stdev()
    }

    #[getter]
    fn min(&self) -> u64 {
        self.sum.min()
    }

    #[getter]
    fn max(&self) -> u64 {
        self.sum.max()
    }

    /// Returns the upper edges of the buckets that are not empty, and their counts.
    fn buckets(&self) -> (Vec<u64>, Vec<u64>) {
        self.sum.buckets().map(|bucket| (bucket.greatest_ns, bucket.count)).unzip()
    }

    /// Returns the compressed V2 encoding.
    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.sum.encode())
    }

    /// Returns the V2 encoding without compression, which takes a tenth of the time to write and
    /// read.
    fn pack<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.sum.pack())
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.sum.len()).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!("<Histogram of {} values>", self.sum.len())
    }
}
