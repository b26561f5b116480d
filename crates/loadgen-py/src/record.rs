//! A record's tables for Python: columns as lists or packed numbers.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Float64Builder, Int32Builder, Int64Builder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{DataType, SchemaRef};
use loadstone_record::{Bounds, Error, columns};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList, PyString};

pyo3::create_exception!(
    loadstone._loadgen,
    TooLargeError,
    PyValueError,
    "A table unpacks to more than is allowed: loadstone did not write it."
);

pub(crate) fn raise(error: &Error) -> PyErr {
    match error {
        Error::Damaged(_) => PyValueError::new_err(error.to_string()),
        _ => TooLargeError::new_err(error.to_string()),
    }
}

/// The columns of a table.
#[pyclass(module = "loadstone._loadgen", frozen, eq)]
pub(crate) struct Schema {
    pub(crate) inner: SchemaRef,
    pub(crate) later: &'static [&'static str],
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Schema {
    pub(crate) fn intervals() -> Self {
        Self { inner: columns::intervals(), later: &columns::LATER }
    }

    pub(crate) fn actions() -> Self {
        Self { inner: columns::actions(), later: &columns::LATER_OF_ACTIONS }
    }

    pub(crate) fn probes() -> Self {
        Self { inner: columns::probes(), later: &[] }
    }

    pub(crate) fn requests() -> Self {
        Self { inner: columns::requests(), later: &[] }
    }

    pub(crate) fn list() -> Self {
        Self { inner: columns::list(), later: &columns::LATER_OF_LISTS }
    }
}

#[pymethods]
impl Schema {
    /// Imports the schema of any object with Arrow's capsule interface.
    #[new]
    fn new(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = source.call_method0("__arrow_c_schema__")?.cast_into::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(c"arrow_schema"))?;
        // SAFETY: by Arrow's interface, a capsule with this name contains a schema, and keeps
        // owning it.
        let schema = unsafe { pointer.cast::<FFI_ArrowSchema>().as_ref() };
        let schema = arrow_schema::Schema::try_from(schema)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { inner: Arc::new(schema), later: &[] })
    }

    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.inner.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns some of the columns, in the order of `names`.
    #[expect(clippy::needless_pass_by_value, reason = "Python's list becomes a vector of ours")]
    fn select(&self, names: Vec<String>) -> PyResult<Self> {
        let places: Result<Vec<usize>, _> =
            names.iter().map(|name| self.inner.index_of(name)).collect();
        let places = places.map_err(|error| PyKeyError::new_err(error.to_string()))?;
        let inner = self.inner.project(&places).expect("these columns are there");
        Ok(Self { inner: Arc::new(inner), later: self.later })
    }

    /// Returns a table from rows, as dicts by column name; missing values are null.
    fn of_rows(&self, rows: Vec<Bound<'_, PyDict>>) -> PyResult<Table> {
        self.table(|name| rows.iter().map(|row| row.get_item(name)).collect())
    }

    /// Returns a table from columns, in the order of the schema.
    fn of_columns(&self, columns: Vec<Vec<Bound<'_, PyAny>>>) -> PyResult<Table> {
        if columns.len() != self.inner.fields().len() {
            let (given, wanted) = (columns.len(), self.inner.fields().len());
            return Err(PyValueError::new_err(format!("{given} columns instead of {wanted}")));
        }
        self.table(|name| {
            let place = self.inner.index_of(name).expect("a column of the schema");
            Ok(columns[place].iter().map(|value| Some(value.clone())).collect())
        })
    }

    /// Reads a Parquet file; refuses one with more rows, or that unpacks to more bytes.
    fn read_parquet(
        &self,
        py: Python<'_>,
        path: PathBuf,
        bytes_max: u64,
        rows_max: u64,
    ) -> PyResult<Table> {
        let file = File::open(path)?;
        let bounds = Bounds { bytes_max, rows_max };
        py.detach(|| loadstone_record::read_parquet(file, &self.inner, self.later, bounds))
            .map(|inner| Table { inner })
            .map_err(|error| raise(&error))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.inner.as_ref())
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    fn __repr__(&self) -> String {
        format!("<Schema {}>", self.names().join(", "))
    }
}

type Values<'py> = Vec<Option<Bound<'py, PyAny>>>;

impl Schema {
    fn table<'py>(&self, values_of: impl Fn(&str) -> PyResult<Values<'py>>) -> PyResult<Table> {
        let arrays: PyResult<Vec<ArrayRef>> = self
            .inner
            .fields()
            .iter()
            .map(|field| {
                array(field.data_type(), &values_of(field.name())?).map_err(|error| {
                    PyValueError::new_err(format!("column {}: {error}", field.name()))
                })
            })
            .collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.inner), arrays?)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Table { inner: batch.into() })
    }
}

/// Converts values of Python to an array of a type.
fn array(kind: &DataType, values: &Values<'_>) -> PyResult<ArrayRef> {
    macro_rules! built {
        ($builder:expr, $type:ty) => {{
            let mut builder = $builder;
            for value in values {
                let value: Option<$type> = match value {
                    Some(value) if !value.is_none() => Some(value.extract()?),
                    _ => None,
                };
                builder.append_option(value);
            }
            Ok(Arc::new(builder.finish()))
        }};
    }
    match kind {
        DataType::Utf8 => built!(StringBuilder::new(), String),
        DataType::Binary => built!(BinaryBuilder::new(), Vec<u8>),
        DataType::Int32 => built!(Int32Builder::new(), i32),
        DataType::Int64 => built!(Int64Builder::new(), i64),
        DataType::Float64 => built!(Float64Builder::new(), f64),
        other => Err(PyTypeError::new_err(format!("no table here has a column of type {other}"))),
    }
}

/// Rows of a table in memory.
#[pyclass(module = "loadstone._loadgen", frozen)]
pub(crate) struct Table {
    pub(crate) inner: loadstone_record::Table,
}

impl From<RecordBatch> for Table {
    fn from(rows: RecordBatch) -> Self {
        Self { inner: rows.into() }
    }
}

#[pymethods]
impl Table {
    /// Imports rows from any object with Arrow's capsule interface, without a copy.
    #[new]
    fn new(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = source.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
        // SAFETY: by Arrow's interface, a capsule with this name contains a stream, which we now
        // own.
        let reader = unsafe {
            RecordBatchStreamReader::from_raw(pointer.cast::<FFI_ArrowArrayStream>().as_ptr())
        };
        let reader = reader.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let schema = reader.schema();
        let batches: Result<Vec<RecordBatch>, _> = reader.collect();
        let batches = batches.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { inner: loadstone_record::Table::new(schema, batches) })
    }

    /// Concatenates tables of one schema; the result is empty if there are none.
    #[staticmethod]
    #[expect(clippy::needless_pass_by_value, reason = "Python's list becomes a vector of ours")]
    fn concat(schema: &Schema, tables: Vec<Py<Self>>) -> PyResult<Self> {
        let mut batches = Vec::new();
        for table in &tables {
            let fitted = table.get().inner.fit_with(&schema.inner, schema.later);
            batches.extend_from_slice(fitted.map_err(|error| raise(&error))?.batches());
        }
        Ok(Self { inner: loadstone_record::Table::new(Arc::clone(&schema.inner), batches) })
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.inner.rows()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.inner.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The columns.
    #[getter]
    fn schema(&self) -> Schema {
        Schema { inner: Arc::clone(self.inner.schema()), later: &[] }
    }

    /// Returns the kind of a column's values: int64, float64, text or bytes.
    fn kind(&self, name: &str) -> PyResult<&'static str> {
        let field = self.inner.schema().field_with_name(name);
        match field.map_err(|_| PyKeyError::new_err(name.to_owned()))?.data_type() {
            DataType::Int32 | DataType::Int64 => Ok("int64"),
            DataType::Float64 => Ok("float64"),
            DataType::Utf8 => Ok("text"),
            DataType::Binary => Ok("bytes"),
            other => Err(PyTypeError::new_err(format!("{name} is of type {other}"))),
        }
    }

    fn __len__(&self) -> usize {
        self.inner.rows()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.inner.schema().column_with_name(name).is_some()
    }

    /// Returns the values of a column.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let values = PyList::empty(py);
        for array in self.column(name)? {
            append(py, &values, array)?;
        }
        Ok(values)
    }

    /// Returns the rows as dicts.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let rows: Vec<Bound<'py, PyDict>> =
            (0..self.inner.rows()).map(|_| PyDict::new(py)).collect();
        for name in self.column_names() {
            let key = PyString::new(py, &name);
            for (row, value) in rows.iter().zip(self.__getitem__(py, &name)?) {
                row.set_item(&key, value)?;
            }
        }
        Ok(rows)
    }

    /// Returns a numeric column as 64-bit values in this host's byte order; a null is 0.
    fn packed<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::with_capacity(self.inner.rows() * 8);
        for array in self.column(name)? {
            match array.data_type() {
                DataType::Int64 => array
                    .as_primitive::<Int64Type>()
                    .iter()
                    .for_each(|value| bytes.extend(value.unwrap_or(0).to_ne_bytes())),
                DataType::Int32 => array
                    .as_primitive::<Int32Type>()
                    .iter()
                    .for_each(|value| bytes.extend(i64::from(value.unwrap_or(0)).to_ne_bytes())),
                DataType::Float64 => array
                    .as_primitive::<Float64Type>()
                    .iter()
                    .for_each(|value| bytes.extend(value.unwrap_or(0.0).to_ne_bytes())),
                other => return Err(PyTypeError::new_err(format!("{name} is of type {other}"))),
            }
        }
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns a text column as the list of its distinct values, and packed indexes into it.
    fn coded<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<Option<String>>)> {
        let mut values: Vec<Option<&str>> = Vec::new();
        let mut places: HashMap<Option<&str>, i64> = HashMap::new();
        let mut bytes = Vec::with_capacity(self.inner.rows() * 8);
        for array in self.column(name)? {
            let Some(texts) = array.as_string_opt::<i32>() else {
                return Err(PyTypeError::new_err(format!(
                    "{name} is of type {}",
                    array.data_type()
                )));
            };
            for text in texts {
                let place = *places.entry(text).or_insert_with(|| {
                    values.push(text);
                    values.len() as i64 - 1
                });
                bytes.extend(place.to_ne_bytes());
            }
        }
        let values = values.into_iter().map(|text| text.map(str::to_owned)).collect();
        Ok((PyBytes::new(py, &bytes), values))
    }

    /// Returns the rows as the bytes of an Arrow stream.
    fn pack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let encode = || {
            let schema = Arc::clone(self.inner.schema());
            let mut encoder = loadstone_record::StreamEncoder::new(schema, false)?;
            let mut bytes = encoder.begin();
            bytes.extend(encoder.encode(&self.inner)?);
            bytes.extend(encoder.end()?);
            Ok(bytes)
        };
        let bytes: Result<Vec<u8>, Error> = encode();
        Ok(PyBytes::new(py, &bytes.map_err(|error| raise(&error))?))
    }

    /// Returns the first rows of such bytes.
    #[staticmethod]
    fn unpack(bytes: &[u8]) -> PyResult<Self> {
        let table = loadstone_record::StreamReader::new(bytes, None, u64::MAX).next_table();
        table
            .map_err(|error| raise(&error))?
            .map(|inner| Self { inner })
            .ok_or_else(|| PyValueError::new_err("no whole batch of an Arrow stream"))
    }

    /// Exports the rows by Arrow's capsule interface, without a copy.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The receiver must cast: the interface allows a producer to ignore the request.
        drop(requested_schema);
        let batches = self.inner.batches().to_vec().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(self.inner.schema()));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.schema().__arrow_c_schema__(py)
    }

    fn __repr__(&self) -> String {
        format!("<Table of {} rows: {}>", self.inner.rows(), self.column_names().join(", "))
    }
}

impl Table {
    fn column(&self, name: &str) -> PyResult<Vec<&ArrayRef>> {
        self.inner.column(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }
}

/// Appends the values of an array to a list; equal texts are the same object.
fn append(py: Python<'_>, list: &Bound<'_, PyList>, array: &ArrayRef) -> PyResult<()> {
    match array.data_type() {
        DataType::Utf8 => {
            let mut known: HashMap<&str, Bound<'_, PyString>> = HashMap::new();
            for text in array.as_string::<i32>() {
                match text {
                    Some(text) => {
                        list.append(
                            &*known.entry(text).or_insert_with(|| PyString::new(py, text)),
                        )?;
                    }
                    None => list.append(py.None())?,
                }
            }
        }
        DataType::Binary => {
            for bytes in array.as_binary::<i32>() {
                list.append(bytes.map(|bytes| PyBytes::new(py, bytes)))?;
            }
        }
        DataType::Int32 => {
            array.as_primitive::<Int32Type>().iter().try_for_each(|value| list.append(value))?;
        }
        DataType::Int64 => {
            array.as_primitive::<Int64Type>().iter().try_for_each(|value| list.append(value))?;
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().iter().try_for_each(|value| list.append(value))?;
        }
        other => return Err(PyTypeError::new_err(format!("a column is of type {other}"))),
    }
    Ok(())
}
