//! Reads and writes tables as Parquet files, to which a trial's streams are converted when it has
//! ended.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::ColumnPath;

use crate::error::{Error, guarded};
use crate::footer::depth_of_columns;
use crate::sink::Sink;
use crate::table::{Table, check};

// Intervals contain histograms, so row groups are limited by size as well.
const ROW_GROUP_ROWS: usize = 65_536;
const ROW_GROUP_BYTES: usize = 32 * 1024 * 1024;
/// Rows per batch of a file that is not read as a whole.
const STREAMED_ROWS: usize = 8192;
/// Maximum unpacked size of such a batch.
const STREAMED_BYTES_MAX: u64 = 256 << 20;
/// Our tables have no nested columns; other programs may add some to lists of objects.
const COLUMNS_DEPTH_MAX: usize = 64;
/// A file up to this size is read at once.
const WHOLE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Encodes tables of one schema as a Parquet file, a row group at a time.
pub struct ParquetEncoder {
    schema: SchemaRef,
    sink: Sink,
    writer: ArrowWriter<Sink>,
    group_bytes: usize,
}

impl std::fmt::Debug for ParquetEncoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ParquetEncoder")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl ParquetEncoder {
    /// Begins a file.
    ///
    /// # Errors
    /// None is known: the schemas are ours.
    pub fn new(schema: SchemaRef) -> Result<Self, Error> {
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for field in schema.fields().iter().filter(|field| *field.data_type() == DataType::Binary) {
            // Minimum and maximum of histograms have no meaning.
            let path = ColumnPath::from(field.name().as_str());
            properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
        }
        let sink = Sink::default();
        let writer =
            ArrowWriter::try_new(sink.clone(), Arc::clone(&schema), Some(properties.build()))?;
        Ok(Self { schema, sink, writer, group_bytes: 0 })
    }

    /// Adds a table, and returns the bytes that are complete so far.
    ///
    /// # Errors
    /// A column is missing, or has another type.
    pub fn encode(&mut self, table: &Table) -> Result<Vec<u8>, Error> {
        for batch in table.fit(&self.schema)?.batches() {
            self.writer.write(batch)?;
            self.group_bytes += weight(batch);
            if self.writer.in_progress_rows() >= ROW_GROUP_ROWS
                || self.group_bytes >= ROW_GROUP_BYTES
            {
                self.writer.flush()?;
                self.group_bytes = 0;
            }
        }
        Ok(self.sink.take())
    }

    /// Returns the rest of the file.
    ///
    /// # Errors
    /// None is known: it writes to memory.
    pub fn end(self) -> Result<Vec<u8>, Error> {
        self.writer.close()?;
        Ok(self.sink.take())
    }
}

/// Maximum size of a table, in bytes and in rows.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum unpacked size in bytes.
    pub bytes_max: u64,
    /// Maximum number of rows; checked before any row is unpacked.
    pub rows_max: u64,
}

/// Reads a Parquet file within a limit of memory, because a short file can unpack to any size.
///
/// Columns in `later` are null if an earlier build wrote the file.
///
/// A value may be as long as the unpacked chunk of its column in a row group, and be repeated in
/// every row. The number of rows per read is chosen so that even this stays within the limit.
///
/// # Errors
/// The file is not a Parquet file, is damaged, lacks columns, or exceeds its `bounds`.
pub fn read_parquet(
    file: File,
    wanted: &SchemaRef,
    later: &[&str],
    bounds: Bounds,
) -> Result<Table, Error> {
    guarded(move || match whole(&file)? {
        Some(bytes) => read(bytes, wanted, later, bounds),
        None => read(file, wanted, later, bounds),
    })
}

/// Passes the rows of a Parquet file of any length to `take`, batch by batch, until it returns
/// false.
///
/// Columns in `later` are null if the file lacks them.
///
/// # Errors
/// The file is not a Parquet file, is damaged, or lacks columns.
pub fn for_each_batch(
    file: File,
    wanted: &SchemaRef,
    later: &[&str],
    take: &mut dyn FnMut(&RecordBatch) -> bool,
) -> Result<(), Error> {
    guarded(move || {
        let (facts, mask) = columns_of(&file, wanted, later)?;
        let at_once = rows_at_once(&facts, STREAMED_BYTES_MAX, STREAMED_ROWS);
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, facts)
            .with_projection(mask)
            .with_batch_size(at_once)
            .build()?;
        let schema = arrow_array::RecordBatchReader::schema(&reader);
        for batch in reader {
            let table = Table::new(Arc::clone(&schema), vec![batch?]).fit_with(wanted, later)?;
            if !table.batches().iter().all(&mut *take) {
                break;
            }
        }
        Ok(())
    })
}

/// Returns the content of a short file. In an open file, each column takes separate system calls,
/// which cost more than the columns of a short trial.
fn whole(file: &File) -> Result<Option<Bytes>, Error> {
    let length = file.metadata()?.len();
    if length > WHOLE_BYTES_MAX {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(WHOLE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(bytes.into()))
}

fn read(
    file: impl ChunkReader + 'static,
    wanted: &SchemaRef,
    later: &[&str],
    bounds: Bounds,
) -> Result<Table, Error> {
    let (facts, mask) = columns_of(&file, wanted, later)?;
    let rows = number(facts.metadata().file_metadata().num_rows());
    let groups = facts.metadata().row_groups();
    let sizes = || groups.iter().map(|group| number(group.total_byte_size()));
    if rows > bounds.rows_max {
        return Err(Error::TooManyRows { rows, rows_max: bounds.rows_max });
    }
    let bytes_max = bounds.bytes_max;
    let row_bytes: u64 = wanted.fields().iter().map(|field| least_bytes(field.data_type())).sum();
    let least_bytes = rows.saturating_mul(row_bytes);
    let unpacked_bytes = sizes().fold(0, u64::saturating_add);
    if least_bytes.max(unpacked_bytes) > bytes_max {
        return Err(Error::TooLarge(bytes_max));
    }
    let at_once = rows_at_once(&facts, bytes_max, ROW_GROUP_ROWS);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, facts)
        .with_projection(mask)
        .with_batch_size(at_once)
        .build()?;
    let schema = arrow_array::RecordBatchReader::schema(&reader);
    let (mut batches, mut read_bytes) = (Vec::new(), 0);
    for batch in reader {
        let batch = batch?;
        read_bytes += weight(&batch) as u64;
        if read_bytes > bytes_max {
            return Err(Error::TooLarge(bytes_max));
        }
        batches.push(batch);
    }
    Table::new(schema, batches).fit_with(wanted, later)
}

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Returns how many rows can be read at once if each may repeat the longest value of its row group.
fn rows_at_once(facts: &ArrowReaderMetadata, bytes_max: u64, rows_max: usize) -> usize {
    let groups = facts.metadata().row_groups().iter();
    let group_bytes = groups.map(|group| number(group.total_byte_size())).max().unwrap_or(1);
    let rows = bytes_max / group_bytes.max(1);
    usize::try_from(rows).unwrap_or(rows_max).clamp(1, rows_max)
}

/// Returns the minimum size of a value in memory; a text has an offset of four bytes.
fn least_bytes(kind: &DataType) -> u64 {
    kind.primitive_width().unwrap_or(4) as u64
}

/// Reads a file's footer, and selects the requested columns.
fn columns_of(
    file: &impl ChunkReader,
    wanted: &SchemaRef,
    later: &[&str],
) -> Result<(ArrowReaderMetadata, ProjectionMask), Error> {
    // The types are those of the columns, whatever Arrow schema another program has stored in
    // addition.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let facts = ArrowReaderMetadata::try_new(Arc::new(footer_of(file)?), options)?;
    check(facts.schema(), wanted, later)?;
    let places: Vec<usize> = (wanted.fields().iter())
        .filter_map(|field| facts.schema().index_of(field.name()).ok())
        .collect();
    let mask = ProjectionMask::roots(facts.parquet_schema(), places);
    Ok((facts, mask))
}

fn footer_of(file: &impl ChunkReader) -> Result<ParquetMetaData, Error> {
    let damaged = || Error::Damaged("it does not end as a Parquet file does".into());
    let end = file.len().checked_sub(FOOTER_SIZE as u64).ok_or_else(damaged)?;
    let tail: [u8; FOOTER_SIZE] =
        file.get_bytes(end, FOOTER_SIZE)?.as_ref().try_into().map_err(|_| damaged())?;
    let length = FooterTail::try_new(&tail)?.metadata_length();
    let footer = file.get_bytes(end.checked_sub(length as u64).ok_or_else(damaged)?, length)?;
    if depth_of_columns(&footer).ok_or_else(damaged)? > COLUMNS_DEPTH_MAX {
        return Err(Error::TooDeep(COLUMNS_DEPTH_MAX));
    }
    Ok(ParquetMetaDataReader::decode_metadata(&footer)?)
}

/// Returns the length of a batch's own values; its buffers may be parts of larger ones.
fn weight(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(usize::MAX / 64)).sum()
}
