//! A record's tables as the bytes of files, and streams that can be read while they grow.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::fd::{BorrowedFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::record::{Schema, Table, raise};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Encodes tables of one schema as an Arrow stream, plain or compressed by zstd.
#[pyclass(module = "loadstone._loadgen", frozen)]
pub(crate) struct StreamEncoder {
    inner: Mutex<Option<loadstone_record::StreamEncoder>>,
}

#[pymethods]
impl StreamEncoder {
    #[new]
    #[pyo3(signature = (schema, *, is_packed = false))]
    fn new(schema: &Schema, is_packed: bool) -> PyResult<Self> {
        let inner = loadstone_record::StreamEncoder::new(Arc::clone(&schema.inner), is_packed);
        let inner = inner.map_err(|error| raise(&error))?;
        Ok(Self { inner: Mutex::new(Some(inner)) })
    }

    /// Returns the bytes before the first table.
    fn begin<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(
            py,
            &locked(&self.inner).as_ref().map_or_else(Vec::new, |encoder| encoder.begin()),
        )
    }

    /// Returns a table's bytes; columns that are not in the stream's schema are dropped.
    fn encode<'py>(&self, py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyBytes>> {
        let mut inner = locked(&self.inner);
        let encoder = inner.as_mut().ok_or_else(|| PyValueError::new_err("the stream is ended"))?;
        let bytes = encoder.encode(&table.inner).map_err(|error| raise(&error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the bytes that end the stream; empty the second time.
    fn end<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes =
            locked(&self.inner).take().map_or_else(|| Ok(Vec::new()), |encoder| encoder.end());
        Ok(PyBytes::new(py, &bytes.map_err(|error| raise(&error))?))
    }
}

/// Encodes tables of one schema as a Parquet file, a row group at a time.
#[pyclass(module = "loadstone._loadgen", frozen)]
pub(crate) struct ParquetEncoder {
    inner: Mutex<Option<loadstone_record::ParquetEncoder>>,
}

#[pymethods]
impl ParquetEncoder {
    #[new]
    fn new(schema: &Schema) -> PyResult<Self> {
        let inner = loadstone_record::ParquetEncoder::new(Arc::clone(&schema.inner));
        Ok(Self { inner: Mutex::new(Some(inner.map_err(|error| raise(&error))?)) })
    }

    /// Adds a table, and returns the bytes that are complete so far.
    fn encode<'py>(&self, py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyBytes>> {
        let mut inner = locked(&self.inner);
        let encoder = inner.as_mut().ok_or_else(|| PyValueError::new_err("the file is ended"))?;
        let bytes = encoder.encode(&table.inner).map_err(|error| raise(&error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the rest of the file; empty the second time.
    fn end<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes =
            locked(&self.inner).take().map_or_else(|| Ok(Vec::new()), |encoder| encoder.end());
        Ok(PyBytes::new(py, &bytes.map_err(|error| raise(&error))?))
    }
}

/// Yields the complete batches of an Arrow stream, plain or compressed by zstd, that may be
/// truncated at any byte.
#[pyclass(module = "loadstone._loadgen", frozen)]
pub(crate) struct StreamReader {
    inner: Mutex<loadstone_record::StreamReader<Box<dyn Read + Send>>>,
}

#[pymethods]
impl StreamReader {
    /// Reads a file from an offset on, which lies after the schema if a schema is given.
    #[new]
    #[pyo3(signature = (path, batch_bytes_max, *, is_packed = false, offset = 0, schema = None))]
    fn new(
        path: PathBuf,
        batch_bytes_max: u64,
        is_packed: bool,
        offset: u64,
        schema: Option<&Schema>,
    ) -> PyResult<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        let source: Box<dyn Read + Send> = if is_packed {
            Box::new(zstd::stream::read::Decoder::new(file)?)
        } else {
            Box::new(BufReader::new(file))
        };
        let schema = schema.map(|schema| Arc::clone(&schema.inner));
        Ok(Self {
            inner: Mutex::new(loadstone_record::StreamReader::new(source, schema, batch_bytes_max)),
        })
    }

    /// Reads from a descriptor, such as a pipe's, which its owner keeps.
    #[staticmethod]
    fn of_descriptor(descriptor: RawFd) -> PyResult<Self> {
        // SAFETY: the caller keeps it open during this call, and ours is a copy.
        let copy = unsafe { BorrowedFd::borrow_raw(descriptor) }.try_clone_to_owned()?;
        let source: Box<dyn Read + Send> = Box::new(BufReader::new(File::from(copy)));
        Ok(Self { inner: Mutex::new(loadstone_record::StreamReader::new(source, None, u64::MAX)) })
    }

    /// The schema, once it has been read.
    #[getter]
    fn schema(&self) -> Option<Schema> {
        let inner = locked(&self.inner);
        inner.schema().map(|schema| Schema { inner: Arc::clone(schema), later: &[] })
    }

    /// Length of the complete messages, from the offset on.
    #[getter]
    fn read_bytes(&self) -> u64 {
        locked(&self.inner).read_bytes()
    }

    fn __iter__(reader: PyRef<'_, Self>) -> PyRef<'_, Self> {
        reader
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let table = py.detach(|| locked(&self.inner).next_table());
        Ok(table.map_err(|error| raise(&error))?.map(|inner| Table { inner }))
    }
}
