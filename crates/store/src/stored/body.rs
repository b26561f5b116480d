//! An object's bytes: a list of extents in memory or in files, sliced and joined without copying.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Frame, SizeHint};
use s3s::StdError;
use s3s::stream::{ByteStream, RemainingLength};
use tokio::task::JoinHandle;

use crate::disk::Disk;

/// Bytes per read from a file, and the size of a page in memory.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// Location of an extent's bytes.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A page in memory, which keeps its share of the budget as long as it has readers.
    Memory(Bytes),
    File(Arc<ExtentFile>),
}

/// A file with the bytes of objects and parts.
///
/// It counts the sidecars that name it. When the count is zero, it is removed from the disk with
/// its last reader, so that a delete does not interrupt a read in progress.
#[derive(Debug)]
pub(crate) struct ExtentFile {
    disk: Arc<Disk>,
    pub(crate) id: u64,
    sidecars: AtomicUsize,
}

impl ExtentFile {
    /// Creates a file that no sidecar names yet.
    pub(crate) fn new(disk: Arc<Disk>, id: u64) -> Arc<ExtentFile> {
        Arc::new(ExtentFile { disk, id, sidecars: AtomicUsize::new(0) })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.disk.bytes_path(self.id)
    }

    /// Adds a sidecar that names it.
    pub(crate) fn keep(&self) {
        self.sidecars.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a sidecar that [`keep`](ExtentFile::keep) has counted.
    fn let_go(&self) {
        self.sidecars.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for ExtentFile {
    fn drop(&mut self) {
        if *self.sidecars.get_mut() == 0 {
            // If it remains, the next start sweeps it.
            let _ = self.disk.remove(&self.path());
        }
    }
}

/// A section of a source.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) source: Source,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// The bytes of an object; cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    extents: Arc<[Extent]>,
    length: u64,
    /// Position of a byte that is returned inverted: the lie "corrupt_byte".
    pub(crate) flaw: Option<u64>,
}

impl Body {
    pub(crate) fn new(extents: Vec<Extent>) -> Body {
        let length = extents.iter().map(|extent| extent.length).sum();
        Body { extents: extents.into(), length, flaw: None }
    }

    /// Returns the body with a byte that is returned inverted, or with none.
    pub(crate) fn with_flaw(self, flaw: Option<u64>) -> Body {
        Body { flaw, ..self }
    }

    pub(crate) fn empty() -> Body {
        Body::new(Vec::new())
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Adds a sidecar that names the files of this body.
    pub(crate) fn keep(&self) {
        self.files().for_each(|file| file.keep());
    }

    /// Removes a sidecar that [`keep`](Body::keep) has counted.
    pub(crate) fn let_go(&self) {
        self.files().for_each(|file| file.let_go());
    }

    fn files(&self) -> impl Iterator<Item = &Arc<ExtentFile>> {
        self.extents.iter().filter_map(|extent| match &extent.source {
            Source::File(file) => Some(file),
            Source::Memory(_) => None,
        })
    }

    /// Joins bodies end to end.
    pub(crate) fn join<'a>(bodies: impl IntoIterator<Item = &'a Body>) -> Body {
        let mut extents = Vec::new();
        let (mut start, mut flaw) = (0, None);
        for body in bodies {
            flaw = flaw.or(body.flaw.map(|position| start + position));
            start += body.length;
            extents.extend(body.extents.iter().cloned());
        }
        Body::new(extents).with_flaw(flaw)
    }

    /// Returns the bytes from `range.start` to `range.end`, which must lie inside the body.
    pub(crate) fn slice(&self, range: Range<u64>) -> Body {
        assert!(range.start <= range.end && range.end <= self.length, "range inside the body");
        if range == (0..self.length) {
            return self.clone();
        }
        let mut extents = Vec::new();
        let mut start = 0;
        for extent in self.extents.iter() {
            let end = start + extent.length;
            let from = range.start.max(start);
            let to = range.end.min(end);
            if from < to {
                extents.push(Extent {
                    source: extent.source.clone(),
                    offset: extent.offset + (from - start),
                    length: to - from,
                });
            }
            start = end;
        }
        let flaw = self.flaw.filter(|at| range.contains(at)).map(|at| at - range.start);
        Body::new(extents).with_flaw(flaw)
    }

    /// Returns a stream over the bytes.
    pub(crate) fn stream(&self) -> BodyStream {
        BodyStream {
            body: self.clone(),
            extent: 0,
            inside: 0,
            position: 0,
            reading: None,
            file: None,
        }
    }
}

/// Streams a body: pages of memory unchanged, files in reads of [`PAGE_BYTES`].
#[derive(Debug)]
pub(crate) struct BodyStream {
    body: Body,
    extent: usize,
    /// Bytes of the current extent that have been returned.
    inside: u64,
    /// Bytes of the body that have been returned.
    position: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    /// Open file of the current extent.
    file: Option<Arc<File>>,
}

impl BodyStream {
    fn remaining(&self) -> u64 {
        self.body.length - self.position
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(context));
                self.reading = None;
                let bytes = read.map_err(io::Error::other).flatten();
                return Poll::Ready(Some(bytes.map(|bytes| self.advance(bytes))));
            }
            let Some(extent) = self.body.extents.get(self.extent) else { return Poll::Ready(None) };
            if self.inside == extent.length {
                self.extent += 1;
                self.inside = 0;
                self.file = None;
                continue;
            }
            match &extent.source {
                Source::Memory(page) => {
                    let from = (extent.offset + self.inside) as usize;
                    let to = (extent.offset + extent.length) as usize;
                    let bytes = page.slice(from..to);
                    return Poll::Ready(Some(Ok(self.advance(bytes))));
                }
                Source::File(extent_file) => {
                    let extent_file = extent_file.clone();
                    let open = self.file.clone();
                    let offset = extent.offset + self.inside;
                    let length = (extent.length - self.inside).min(PAGE_BYTES as u64) as usize;
                    let file = match open
                        .map_or_else(|| File::open(extent_file.path()).map(Arc::new), Ok)
                    {
                        Ok(file) => file,
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    };
                    self.file = Some(file.clone());
                    self.reading = Some(tokio::task::spawn_blocking(move || {
                        let mut bytes = vec![0; length];
                        file.read_exact_at(&mut bytes, offset)?;
                        Ok(bytes.into())
                    }));
                }
            }
        }
    }

    /// Counts `bytes` as returned, and inverts the flawed byte if it is among them.
    fn advance(&mut self, bytes: Bytes) -> Bytes {
        let start = self.position;
        self.inside += bytes.len() as u64;
        self.position += bytes.len() as u64;
        match self.body.flaw {
            Some(at) if (start..self.position).contains(&at) => {
                let mut flawed = bytes.to_vec();
                flawed[(at - start) as usize] ^= 0xff;
                flawed.into()
            }
            _ => bytes,
        }
    }
}

impl http_body::Body for BodyStream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.poll_bytes(context).map_ok(Frame::data)
    }

    fn is_end_stream(&self) -> bool {
        self.remaining() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining())
    }
}

impl Stream for BodyStream {
    type Item = Result<Bytes, StdError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_bytes(context).map_err(StdError::from)
    }
}

impl ByteStream for BodyStream {
    fn remaining_length(&self) -> RemainingLength {
        RemainingLength::new_exact(usize::try_from(self.remaining()).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::budget::Budget;

    fn memory(text: &str) -> Body {
        let reservation = Budget::new(1000).reserve(text.len() as u64).unwrap();
        let page = reservation.of(text.as_bytes().to_vec());
        let length = text.len() as u64;
        Body::new(vec![Extent { source: Source::Memory(page), offset: 0, length }])
    }

    fn file(text: &str, name: &str) -> Body {
        let root = std::env::temp_dir().join(format!("loadstone-{name}-{}", std::process::id()));
        let disk = Arc::new(Disk::new(&root, false));
        std::fs::create_dir_all(&root).unwrap();
        disk.settle(disk.bytes_path(1).parent().unwrap()).unwrap();
        std::fs::write(disk.bytes_path(1), text).unwrap();
        let source = Source::File(ExtentFile::new(disk, 1));
        Body::new(vec![Extent { source, offset: 0, length: text.len() as u64 }])
    }

    fn read(body: &Body) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let collected = runtime.block_on(body.stream().collect()).unwrap();
        String::from_utf8_lossy(&collected.to_bytes()).into_owned()
    }

    #[test]
    fn joined_bodies_read_as_one() {
        let whole = Body::join([&memory("hello "), &file("world", "seam")]);
        assert_eq!(read(&whole), "hello world");
        assert_eq!(read(&whole.slice(4..8)), "o wo");
        assert_eq!(read(&whole.slice(4..8).slice(2..4)), "wo");
        assert_eq!(whole.slice(3..3).length(), 0);
    }

    #[test]
    fn a_flawed_byte_is_inverted_in_any_slice() {
        let mut body = Body::join([&memory("abc"), &memory("def")]);
        body.flaw = Some(4);
        assert_ne!(read(&body), "abcdef");
        assert_eq!(read(&body.slice(0..4)), "abcd");
        assert_ne!(read(&body.slice(4..5)), "e");
        assert_ne!(read(&Body::join([&memory("xy"), &body]).slice(6..7)), "e");
    }

    #[test]
    fn an_unreferenced_file_stays_until_its_last_reader_has_finished() {
        let body = file("bytes", "doomed");
        let Source::File(extent_file) = &body.extents()[0].source else { unreachable!() };
        let path = extent_file.path();
        // Of two objects that share it, each releases only its own share.
        body.keep();
        body.keep();
        body.let_go();
        drop(body.clone());
        assert!(path.exists());
        body.let_go();
        let reader = body.stream();
        drop(body);
        assert!(path.exists());
        drop(reader);
        assert!(!path.exists());
    }
}
