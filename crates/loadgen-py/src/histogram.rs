//! Histograms for analysis: merged by adding counts, never by averaging.

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::V2DeflateSerializer;
use loadstone_loadgen as loadgen;
use loadstone_loadgen::encoded::Sum;
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
    fn merge(&mut self, other: &Self) -> PyResult<()> {
        self.sum.merge(other.counts()).map_err(PyValueError::new_err)
    }

    /// Counts one value, or the same value several times.
    #[pyo3(signature = (value_ns, count = 1))]
    fn record(&mut self, value_ns: u64, count: u64) {
        self.sum.counts_mut().saturating_record_n(value_ns.max(1), count);
    }

    /// Returns the upper edge of the smallest bucket with at least the share `quantile` at or below.
    fn quantile(&self, quantile: f64) -> PyResult<u64> {
        if !(0.0..=1.0).contains(&quantile) {
            return Err(PyValueError::new_err(format!("quantile {quantile}: allowed: 0 to 1")));
        }
        Ok(self.counts().value_at_quantile(quantile).min(self.counts().max()))
    }

    /// Returns how many values lie at or below a value.
    fn count_at_or_below(&self, value_ns: u64) -> u64 {
        self.counts()
            .iter_recorded()
            .take_while(|step| step.value_iterated_to() <= value_ns)
            .fold(0, |count, step| count + step.count_at_value())
    }

    /// Returns the upper edges of the buckets that hold the values of these ranks, 1 being the least.
    fn at_ranks(&self, mut ranks: Vec<u64>) -> Vec<u64> {
        ranks.sort_unstable();
        let mut found = Vec::with_capacity(ranks.len());
        let mut reached = 0;
        for step in self.counts().iter_recorded() {
            reached += step.count_at_value();
            while ranks.get(found.len()).is_some_and(|&rank| rank <= reached) {
                found.push(step.value_iterated_to().min(self.counts().max()));
            }
        }
        found
    }

    #[getter]
    fn count(&self) -> u64 {
        self.counts().len()
    }

    #[getter]
    fn mean(&self) -> f64 {
        self.counts().mean()
    }

    #[getter]
    fn stdev(&self) -> f64 {
        self.counts().stdev()
    }

    #[getter]
    fn min(&self) -> u64 {
        if self.counts().is_empty() { 0 } else { self.counts().min() }
    }

    #[getter]
    fn max(&self) -> u64 {
        self.counts().max()
    }

    /// Returns the upper edges of the buckets that hold something, and their counts.
    fn buckets(&self) -> (Vec<u64>, Vec<u64>) {
        self.counts()
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .unzip()
    }

    /// Returns the compressed V2 encoding.
    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &loadgen::encode(self.counts(), &mut V2DeflateSerializer::new()))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.counts().len()).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!("<Histogram of {} values>", self.counts().len())
    }
}

impl Histogram {
    fn counts(&self) -> &Hdr<u64> {
        self.sum.counts()
    }
}
