//! Errors in a response.

/// Why the received bytes are not a complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The first bytes do not start a response.
    #[error("the answer is not HTTP/1")]
    NotHttp,
    /// The status line or a header line is malformed.
    #[error("the answer's head is malformed")]
    BadHead,
    /// The head, or the trailers, are too large.
    #[error("the answer's head is longer than 64 KiB or has more than 128 lines")]
    HeadTooLarge,
    /// A content-length that is not a number, or two that differ.
    #[error("the answer's content-length is malformed or contradicts itself")]
    BadContentLength,
    /// A transfer coding other than `chunked`.
    #[error("the answer's transfer-encoding is not \"chunked\"")]
    BadTransferEncoding,
    /// The framing of a chunked body is invalid.
    #[error("the answer's chunked framing is broken")]
    BadChunk,
    /// A chunk-size line that is too long.
    #[error("a chunk-size line of the answer is longer than 4 KiB")]
    ChunkLineTooLong,
    /// More interim responses than [`INTERIM_MAX`](super::INTERIM_MAX).
    #[error("more than 32 interim answers in a row")]
    TooManyInterim,
    /// A switch of protocols that was not requested.
    #[error("the server switched protocols, which was not asked for")]
    UnexpectedUpgrade,
    /// The connection ended before the first byte of the response.
    #[error("the connection was closed before the answer")]
    Closed,
    /// The connection ended within the response.
    #[error("the connection was closed in the middle of the answer")]
    Truncated,
}
