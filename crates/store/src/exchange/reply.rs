//! The body of an answer of either API, delayed or truncated according to the configured faults.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use s3s::StdError;
use tokio::time::Sleep;

use crate::faults::Pacer;
use crate::stored::body::BodyStream;

/// Time for sent data to arrive before a connection is broken.
const FLUSH_TIME: Duration = Duration::from_millis(20);

/// An answer.
pub(crate) type Reply = Response<ReplyBody>;

/// The body of an answer.
pub(crate) struct ReplyBody {
    source: Source,
    shaping: Option<Box<Shaping>>,
}

enum Source {
    /// Successive pieces: text, and streams of objects.
    Pieces(VecDeque<Piece>),
    S3(s3s::Body),
}

/// A piece of an answer's body.
pub(crate) enum Piece {
    Bytes(Bytes),
    Stream(BodyStream),
}

struct Shaping {
    pacer: Option<Arc<Pacer>>,
    waiting: Option<(Pin<Box<Sleep>>, Bytes)>,
    /// Number of bytes after which the connection breaks.
    remaining: Option<u64>,
    /// Delay that lets sent data reach the client before the connection breaks.
    breaking: Option<Pin<Box<Sleep>>>,
}

impl ReplyBody {
    pub(crate) fn empty() -> ReplyBody {
        ReplyBody::pieces(VecDeque::new())
    }

    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> ReplyBody {
        ReplyBody::pieces(VecDeque::from([Piece::Bytes(bytes.into())]))
    }

    pub(crate) fn stream(stream: BodyStream) -> ReplyBody {
        ReplyBody::pieces(VecDeque::from([Piece::Stream(stream)]))
    }

    pub(crate) fn pieces(pieces: VecDeque<Piece>) -> ReplyBody {
        ReplyBody { source: Source::Pieces(pieces), shaping: None }
    }

    pub(crate) fn s3(body: s3s::Body) -> ReplyBody {
        ReplyBody { source: Source::S3(body), shaping: None }
    }

    /// Returns the body of the S3 front, if it created this one.
    pub(crate) fn of_s3(&mut self) -> Option<&mut s3s::Body> {
        match &mut self.source {
            Source::S3(body) => Some(body),
            Source::Pieces(_) => None,
        }
    }

    /// Limits the body to the bandwidth of a link.
    pub(crate) fn pace(&mut self, pacer: &Arc<Pacer>) {
        self.shaping().pacer = Some(pacer.clone());
    }

    /// Truncates the body after this share of its bytes.
    pub(crate) fn truncate(&mut self, share: f64) {
        if let Some(length) = self.size_hint().exact().filter(|length| *length > 0) {
            self.shaping().remaining = Some((length as f64 * share) as u64);
        }
    }

    fn shaping(&mut self) -> &mut Shaping {
        self.shaping.get_or_insert_with(|| {
            Box::new(Shaping { pacer: None, waiting: None, remaining: None, breaking: None })
        })
    }

    fn poll_source(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, StdError>>> {
        let pieces = match &mut self.source {
            Source::Pieces(pieces) => pieces,
            Source::S3(body) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                let bytes = |frame: Frame<Bytes>| frame.into_data().unwrap_or_default();
                return Poll::Ready(frame.map(|frame| frame.map(bytes)));
            }
        };
        loop {
            let bytes = match pieces.front_mut() {
                None => return Poll::Ready(None),
                Some(Piece::Bytes(bytes)) => std::mem::take(bytes),
                Some(Piece::Stream(stream)) => match ready!(Pin::new(stream).poll_frame(context)) {
                    Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                    Some(Ok(frame)) => {
                        return Poll::Ready(Some(Ok(frame.into_data().unwrap_or_default())));
                    }
                    None => Bytes::new(),
                },
            };
            pieces.pop_front();
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }

    /// Delays bytes until the link has transferred them, and truncates them if the faults require
    /// it.
    fn shape(&mut self, mut bytes: Bytes) -> Option<Result<Bytes, StdError>> {
        let Some(shaping) = &mut self.shaping else { return Some(Ok(bytes)) };
        if let Some(remaining) = &mut shaping.remaining {
            bytes.truncate(usize::try_from(*remaining).unwrap_or(usize::MAX));
            *remaining -= bytes.len() as u64;
        }
        let Some(pacer) = &shaping.pacer else { return Some(Ok(bytes)) };
        let sleep = tokio::time::sleep(pacer.outgoing(bytes.len()));
        shaping.waiting = Some((Box::pin(sleep), bytes));
        None
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        loop {
            if let Some(shaping) = &mut self.shaping
                && let Some((sleep, bytes)) = &mut shaping.waiting
            {
                ready!(sleep.as_mut().poll(context));
                let bytes = std::mem::take(bytes);
                shaping.waiting = None;
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Some(shaping) = &mut self.shaping
                && shaping.remaining == Some(0)
            {
                let breaking = shaping
                    .breaking
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(FLUSH_TIME)));
                ready!(breaking.as_mut().poll(context));
                return Poll::Ready(Some(Err("broken off on request".into())));
            }
            match ready!(self.poll_source(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(bytes)) => {
                    if let Some(shaped) = self.shape(bytes) {
                        return Poll::Ready(Some(shaped.map(Frame::data)));
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_waiting = self
            .shaping
            .as_ref()
            .is_some_and(|shaping| shaping.waiting.is_some() || shaping.remaining == Some(0));
        let is_through = match &self.source {
            Source::Pieces(pieces) => pieces.is_empty(),
            Source::S3(body) => body.is_end_stream(),
        };
        is_through && !is_waiting
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::S3(body) => body.size_hint(),
            Source::Pieces(pieces) => SizeHint::with_exact(
                pieces
                    .iter()
                    .map(|piece| match piece {
                        Piece::Bytes(bytes) => bytes.len() as u64,
                        Piece::Stream(stream) => stream.size_hint().exact().unwrap_or(0),
                    })
                    .sum(),
            ),
        }
    }
}
