//! Reads tables from an Arrow stream, as far as it is complete: its writer may still be writing, or
//! may have been killed.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::{MessageHeader, root_as_message};
use arrow_schema::SchemaRef;

use crate::error::{Error, guarded};
use crate::table::Table;

/// Precedes the length of each message, since format 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Reads the complete batches of a stream that may be truncated at any byte.
#[derive(Debug)]
pub struct StreamReader<R> {
    source: R,
    schema: Option<SchemaRef>,
    batch_bytes_max: u64,
    read_bytes: u64,
}

impl<R: Read> StreamReader<R> {
    /// Reads from a source; one that starts after the schema needs the schema as an argument.
    pub fn new(source: R, schema: Option<SchemaRef>, batch_bytes_max: u64) -> Self {
        Self { source, schema, batch_bytes_max, read_bytes: 0 }
    }

    /// Returns the schema, once it has been read.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Returns the length of the complete messages read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Returns the next batch; `None` at the end, or where the stream is truncated or damaged.
    ///
    /// # Errors
    /// A batch is compressed, or longer than allowed: the stream is not ours.
    pub fn next_table(&mut self) -> Result<Option<Table>, Error> {
        loop {
            let Some((metadata, body, length)) = self.message()? else { return Ok(None) };
            let schema = self.schema.clone();
            let read = match guarded(|| decode(&metadata, &body, schema)) {
                Err(Error::Compressed) => return Err(Error::Compressed),
                Err(_) => return Ok(None),
                Ok(read) => read,
            };
            self.read_bytes += length;
            match read {
                Message::Schema(schema) => self.schema = Some(schema),
                Message::Batch(batch) => return Ok(Some(Table::from(batch))),
                Message::Other => {}
            }
        }
    }

    /// Returns the head of a message, its body, and the length of both in the stream.
    fn message(&mut self) -> Result<Option<(Vec<u8>, Buffer, u64)>, Error> {
        let Some((metadata, length)) = self.head() else { return Ok(None) };
        let length_of_body = guarded(|| {
            root_as_message(&metadata)
                .map(|message| message.bodyLength())
                .map_err(|error| Error::Damaged(error.to_string()))
        });
        let Some(body_bytes) = length_of_body.ok().and_then(|bytes| u64::try_from(bytes).ok())
        else {
            return Ok(None);
        };
        if body_bytes > self.batch_bytes_max {
            return Err(Error::BatchTooLarge(self.batch_bytes_max));
        }
        let body = self.exactly(body_bytes);
        Ok(body.map(|body| (metadata, Buffer::from_vec(body), length + body_bytes)))
    }

    /// Returns the metadata of a message, and its length in the stream.
    fn head(&mut self) -> Option<(Vec<u8>, u64)> {
        let mut prefix = self.exactly(4)?;
        let mut length = 4;
        if prefix == CONTINUATION {
            prefix = self.exactly(4)?;
            length += 4;
        }
        let head = u64::try_from(i32::from_le_bytes(prefix.try_into().ok()?)).ok()?;
        if head == 0 {
            return None;
        }
        Some((self.exactly(head)?, length + head))
    }

    /// Returns exactly this many bytes, allocating memory only for those that exist.
    fn exactly(&mut self, length: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        (&mut self.source).take(length).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 == length).then_some(bytes)
    }
}

enum Message {
    Schema(SchemaRef),
    Batch(RecordBatch),
    Other,
}

fn decode(metadata: &[u8], body: &Buffer, schema: Option<SchemaRef>) -> Result<Message, Error> {
    let damaged = || Error::Damaged("a message that says not what it is".into());
    let message = root_as_message(metadata).map_err(|error| Error::Damaged(error.to_string()))?;
    match message.header_type() {
        MessageHeader::Schema => {
            let schema = try_fb_to_schema(message.header_as_schema().ok_or_else(damaged)?)?;
            Ok(Message::Schema(Arc::new(schema)))
        }
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch().ok_or_else(damaged)?;
            if batch.compression().is_some() {
                return Err(Error::Compressed);
            }
            let schema = schema.ok_or_else(damaged)?;
            let known = HashMap::new();
            let version = message.version();
            Ok(Message::Batch(read_record_batch(body, batch, schema, &known, None, &version)?))
        }
        _ => Ok(Message::Other),
    }
}
