//! Rows in memory, as batches of Arrow arrays.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Schema, SchemaRef};

use crate::error::Error;

/// Rows of one schema, in batches.
#[derive(Debug, Clone)]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl From<RecordBatch> for Table {
    fn from(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: vec![batch] }
    }
}

impl Table {
    /// Creates a table from batches, which must all have the schema.
    #[must_use]
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }

    /// Returns the columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the batches.
    #[must_use]
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Returns a column, as one array for each batch; `None` if there is no column with this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<Vec<&ArrayRef>> {
        let (place, _) = self.schema.column_with_name(name)?;
        Some(self.batches.iter().map(|batch| batch.column(place)).collect())
    }

    /// Returns the same rows with exactly the columns of a schema; other columns are dropped.
    ///
    /// # Errors
    /// A column is missing, or has another type.
    pub fn fit(&self, schema: &SchemaRef) -> Result<Self, Error> {
        self.fit_with(schema, &[])
    }

    /// As `fit`, with columns of nulls for those in `later` that are missing.
    ///
    /// # Errors
    /// Another column is missing, or one has another type.
    pub fn fit_with(&self, schema: &SchemaRef, later: &[&str]) -> Result<Self, Error> {
        check(&self.schema, schema, later)?;
        let batches: Result<Vec<RecordBatch>, Error> = self
            .batches
            .iter()
            .map(|batch| {
                let columns: Vec<ArrayRef> = schema
                    .fields()
                    .iter()
                    .map(|field| match batch.column_by_name(field.name()) {
                        Some(column) => Arc::clone(column),
                        None => new_null_array(field.data_type(), batch.num_rows()),
                    })
                    .collect();
                let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
            })
            .collect();
        Ok(Self { schema: Arc::clone(schema), batches: batches? })
    }
}

/// Checks that a table of one schema has all columns of another.
pub(crate) fn check(schema: &Schema, wanted: &Schema, later: &[&str]) -> Result<(), Error> {
    let mut missing = Vec::new();
    for field in wanted.fields() {
        match schema.column_with_name(field.name()) {
            None if !later.contains(&field.name().as_str()) => missing.push(field.name().as_str()),
            Some((_, column)) if column.data_type() != field.data_type() => {
                let (name, column, kind) = (field.name(), column.data_type(), field.data_type());
                let words = format!("its column {name} is of the type {column}, not {kind}");
                return Err(Error::Damaged(words));
            }
            _ => {}
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Damaged(format!("it lacks the columns {}", missing.join(", "))))
}
