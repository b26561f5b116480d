//! Errors of reading and writing tables.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

/// Why a table cannot be read, or rows cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not a table, it is damaged, or it has other columns.
    #[error("{0}")]
    Damaged(String),
    /// Its columns are nested too deep.
    #[error("its columns are nested deeper than {0} levels")]
    TooDeep(usize),
    /// It unpacks to more bytes than allowed.
    #[error("it unpacks to more than {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// It has more rows than allowed.
    #[error("it has {rows} rows, and a trial of its length at most {rows_max}")]
    TooManyRows {
        /// Number of rows.
        rows: u64,
        /// Maximum number of rows.
        rows_max: u64,
    },
    /// A batch of a stream is longer than allowed.
    #[error("a batch of it unpacks to more than {} MiB", .0 >> 20)]
    BatchTooLarge(u64),
    /// The columns of a stream are compressed, so that a short stream could unpack to any size.
    #[error("its columns are compressed inside the stream")]
    Compressed,
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<ParquetError> for Error {
    fn from(error: ParquetError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

/// Runs a function that reads a foreign file: the libraries' decoders panic on some kinds of
/// damage.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| Err(Error::Damaged(words(&*panic))))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "its content is damaged".into())
}
