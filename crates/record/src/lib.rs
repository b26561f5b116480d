//! The tables of a record: their columns, and tables as bytes. No files are written here, and what
//! rows mean is not known.

pub mod columns;
mod encode;
mod error;
mod footer;
mod parquet_file;
mod sink;
mod stream;
mod table;

pub use encode::StreamEncoder;
pub use error::Error;
pub use parquet_file::{Bounds, ParquetEncoder, for_each_batch, read_parquet};
pub use stream::StreamReader;
pub use table::Table;
