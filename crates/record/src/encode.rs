//! Encodes tables as an Arrow stream, plain or compressed by zstd.

use std::io::Write;

use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::SchemaRef;
use zstd::stream::write::Encoder as Zstd;

use crate::error::Error;
use crate::sink::Sink;
use crate::table::Table;

/// The library's default for data that is written once and kept.
const ZSTD_LEVEL: i32 = 1;

enum Stream {
    Plain(StreamWriter<Sink>),
    Packed(StreamWriter<Zstd<'static, Sink>>),
}

/// Encodes tables of one schema as an Arrow stream. The bytes of each call are complete, so that a
/// kill between two calls leaves a readable stream.
pub struct StreamEncoder {
    schema: SchemaRef,
    sink: Sink,
    stream: Stream,
}

impl std::fmt::Debug for StreamEncoder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StreamEncoder")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl StreamEncoder {
    /// Begins a stream; [`begin`](Self::begin) returns its first bytes.
    ///
    /// # Errors
    /// None is known: the schemas are ours.
    pub fn new(schema: SchemaRef, is_packed: bool) -> Result<Self, Error> {
        let sink = Sink::default();
        // Readers need an alignment of eight bytes; the library's 64 would triple the size of a
        // second's rows.
        let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
        let stream = if is_packed {
            let zstd = Zstd::new(sink.clone(), ZSTD_LEVEL)?;
            Stream::Packed(StreamWriter::try_new_with_options(zstd, &schema, options)?)
        } else {
            Stream::Plain(StreamWriter::try_new_with_options(sink.clone(), &schema, options)?)
        };
        Ok(Self { schema, sink, stream })
    }

    /// Returns the bytes before the first table.
    #[must_use]
    pub fn begin(&self) -> Vec<u8> {
        self.sink.take()
    }

    /// Returns a table's bytes; columns that are not in the stream's schema are dropped.
    ///
    /// # Errors
    /// A column is missing, or has another type.
    pub fn encode(&mut self, table: &Table) -> Result<Vec<u8>, Error> {
        for batch in table.fit(&self.schema)?.batches() {
            match &mut self.stream {
                Stream::Plain(stream) => stream.write(batch)?,
                Stream::Packed(stream) => {
                    stream.write(batch)?;
                    stream.get_mut().flush()?;
                }
            }
        }
        Ok(self.sink.take())
    }

    /// Returns the bytes that end the stream.
    ///
    /// # Errors
    /// None is known: it writes to memory.
    pub fn end(self) -> Result<Vec<u8>, Error> {
        match self.stream {
            Stream::Plain(mut stream) => stream.finish()?,
            Stream::Packed(mut stream) => {
                stream.finish()?;
                stream.into_inner()?.finish()?;
            }
        }
        Ok(self.sink.take())
    }
}
