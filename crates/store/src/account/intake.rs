//! Receives a request's body into pages or a file, and computes its digests.

use std::fmt::Display;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use md5::{Digest, Md5};
use s3s::checksum::ChecksumHasher;

use crate::account::Storage;
use crate::budget::Reservation;
use crate::error::Refusal;
use crate::hex::hex;
use crate::stored::body::{Body, Extent, ExtentFile, PAGE_BYTES, Source};
use crate::stored::object::Checksums;

/// First page of a body of unknown length.
const FIRST_PAGE_BYTES: usize = 16 << 10;

/// A received body.
pub(crate) struct Taken {
    pub(crate) body: Body,
    pub(crate) md5: [u8; 16],
    pub(crate) checksums: Checksums,
}

impl Taken {
    /// Returns the MD5 as an entity tag.
    pub(crate) fn etag(&self) -> Box<str> {
        hex(&self.md5).into()
    }
}

/// Receives a body. `length` is the length that the client declared; any other length is refused.
pub(crate) async fn take_in<E: Display>(
    storage: &Storage,
    mut stream: impl Stream<Item = Result<Bytes, E>> + Unpin,
    length: Option<u64>,
    bytes_max: u64,
    mut hasher: ChecksumHasher,
) -> Result<Taken, Refusal> {
    if length.is_some_and(|length| length > bytes_max) {
        return Err(Refusal::TooLarge);
    }
    let mut md5 = Md5::new();
    let mut writer = Writer::new(storage, length)?;
    let mut taken: u64 = 0;
    while let Some(piece) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
        let piece = piece.map_err(|error| broken(&error.to_string()))?;
        taken += piece.len() as u64;
        if taken > length.unwrap_or(bytes_max) {
            return Err(Refusal::TooLarge);
        }
        md5.update(&piece);
        hasher.update(&piece);
        writer.write(piece).await?;
    }
    if length.is_some_and(|length| taken < length) {
        return Err(Refusal::Incomplete);
    }
    let body = writer.finish().await?;
    Ok(Taken { body, md5: md5.finalize().into(), checksums: hasher.finalize().into() })
}

/// Distinguishes a body that does not match its signature from one that broke off.
fn broken(problem: &str) -> Refusal {
    // The signed stream of the S3 front does not export the type of its error.
    match problem.contains("Sha256Mismatch") {
        true => Refusal::NotAsSigned,
        false => Refusal::Body(problem.to_owned()),
    }
}

/// Receives bytes that are in memory.
#[cfg(test)]
pub(crate) async fn take_in_bytes(storage: &Storage, bytes: Bytes) -> Result<Taken, Refusal> {
    let length = bytes.len() as u64;
    let once = Once(Some(bytes));
    take_in(storage, once, Some(length), length, ChecksumHasher::default()).await
}

#[cfg(test)]
struct Once(Option<Bytes>);

#[cfg(test)]
impl Stream for Once {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.take().map(Ok))
    }
}

/// Collects bytes into pages; with a data directory, full pages are written to a file.
struct Writer<'s> {
    storage: &'s Storage,
    /// Number of missing bytes, if the client declared the length.
    expected: Option<u64>,
    page: Vec<u8>,
    reservation: Option<Reservation>,
    extents: Vec<Extent>,
    file: Option<(Arc<File>, Arc<ExtentFile>)>,
    file_bytes: u64,
}

impl<'s> Writer<'s> {
    fn new(storage: &'s Storage, expected: Option<u64>) -> Result<Writer<'s>, Refusal> {
        Ok(Writer {
            storage,
            expected,
            page: Vec::new(),
            reservation: None,
            extents: Vec::new(),
            file: None,
            file_bytes: 0,
        })
    }

    async fn write(&mut self, mut piece: Bytes) -> Result<(), Refusal> {
        while !piece.is_empty() {
            if self.page.len() == self.page.capacity() {
                self.make_room().await?;
            }
            let room = self.page.capacity() - self.page.len();
            let part = piece.split_to(piece.len().min(room));
            self.page.extend_from_slice(&part);
            if let Some(expected) = &mut self.expected {
                *expected = expected.saturating_sub(part.len() as u64);
            }
        }
        Ok(())
    }

    /// Allocates a page of the required size, or lets one of unknown size grow.
    async fn make_room(&mut self) -> Result<(), Refusal> {
        let grows = self.expected.is_none() && self.page.len() < PAGE_BYTES;
        if !self.page.is_empty() && !grows {
            self.end_page().await?;
        }
        let wanted = match self.expected {
            Some(expected) => expected.min(PAGE_BYTES as u64) as usize,
            None => (self.page.len() * 4).clamp(FIRST_PAGE_BYTES, PAGE_BYTES),
        };
        let reservation = self.storage.budget.reserve(wanted as u64)?;
        self.page.reserve_exact(wanted - self.page.len());
        self.reservation = Some(reservation);
        Ok(())
    }

    async fn end_page(&mut self) -> Result<(), Refusal> {
        let mut page = std::mem::take(&mut self.page);
        let Some(mut reservation) = self.reservation.take() else { return Ok(()) };
        let length = page.len() as u64;
        let Some(directory) = &self.storage.directory else {
            // A buffer without spare capacity becomes shared without another allocation.
            page.shrink_to_fit();
            reservation.shrink(length);
            let source = Source::Memory(reservation.of(page));
            self.extents.push(Extent { source, offset: 0, length });
            return Ok(());
        };
        let id = self.storage.next_id();
        let directory = directory.clone();
        let open = self.file.take();
        let offset = self.file_bytes;
        let written = blocking(move || {
            let (file, extent_file) = match open {
                Some(open) => open,
                None => directory
                    .create_bytes(id)
                    .map(|(file, extent_file)| (Arc::new(file), extent_file))?,
            };
            directory.write_bytes(&file, &extent_file, &page, offset)?;
            Ok((file, extent_file))
        });
        self.file = Some(written.await?);
        self.file_bytes += length;
        drop(reservation);
        Ok(())
    }

    async fn finish(mut self) -> Result<Body, Refusal> {
        self.end_page().await?;
        if let (Some((file, extent_file)), Some(directory)) = (self.file, &self.storage.directory) {
            let directory = directory.clone();
            let source = Source::File(extent_file.clone());
            blocking(move || directory.finish_bytes(&file, &extent_file)).await?;
            self.extents.push(Extent { source, offset: 0, length: self.file_bytes });
        }
        Ok(Body::new(self.extents))
    }
}

/// Runs file operations away from the serving threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
