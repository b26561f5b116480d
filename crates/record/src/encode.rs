//! Tables → an Arrow stream, plain or inside zstd.

use std::io::Write;

use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::SchemaRef;
use zstd::stream::write::Encoder as Zstd;

use crate::error::Error;
use crate::sink::Sink;
use crate::table::Table;

/// The library's own choice for data that is written once and kept.
const ZSTD_LEVEL: i32 = 1;

enum Stream {
    Plain(StreamWriter<Sink>),
    Packed(StreamWriter<Zstd<'static, Sink>>),
}

/// Turns tables of one schema into the bytes of an Arrow stream; those of each call are whole, so
/// that a kill between two of them leaves a readable stream.
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
    /// Begins a stream; `begin` holds its first bytes.
    ///
    /// # Errors
    /// None that is known: the schemas are ours.
    pub fn new(schema: SchemaRef, is_packed: bool) -> Result<Self, Error> {
        let sink = Sink::default();
        // Eight bytes are what readers need; the library's 64 would triple a row of a second.
        let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
        let stream = if is_packed {
            let zstd = Zstd::new(sink.clone(), ZSTD_LEVEL)?;
            Stream::Packed(StreamWriter::try_new_with_options(zstd, &schema, options)?)
        } else {
            Stream::Plain(StreamWriter::try_new_with_options(sink.clone(), &schema, options)?)
        };
        Ok(Self { schema, sink, stream })
    }

    /// Returns what begins the stream, before its first table.
    #[must_use]
    pub fn begin(&self) -> Vec<u8> {
        self.sink.take()
    }

    /// Returns a table's bytes; columns that the stream does not know are dropped.
    ///
    /// # Errors
    /// A column is missing, or of another type.
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

    /// Returns what ends the stream.
    ///
    /// # Errors
    /// None that is known: memory is written to.
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
