//! The buffer between encoders and their callers.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that one side appends and the other takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Sink {
    /// Takes the bytes written since the last call.
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Sink {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(content);
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
