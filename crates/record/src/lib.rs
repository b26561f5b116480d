//! The tables of a record: their columns, and their encoding as bytes. This crate writes no files
//! and does not interpret rows.

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
