//! Answers, and what they carry.

use crate::Progress;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::Receiver;

/// What an answer carries: nothing, bytes, or a stream of pieces.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// No bytes.
pub fn empty() -> Body {
    Empty::new().boxed_unsync()
}

/// These bytes.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// An answer of this type, which nobody keeps.
pub fn file(status: StatusCode, content_type: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A line of text, which nobody keeps.
pub fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    file(status, "text/plain; charset=utf-8", text)
}

/// The pieces that come from a channel, until its other end is dropped. They are taken as the client reads: a slow one leaves the channel full.
pub fn stream(pieces: Receiver<Bytes>, progress: Progress) -> Body {
    // From now on the connection is one of a stream, which makes no room for others.
    progress.advance();
    Pieces { pieces, progress }.boxed_unsync()
}

struct Pieces {
    pieces: Receiver<Bytes>,
    progress: Progress,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.poll_recv(context);
        piece.map(|piece| {
            piece.map(|bytes| {
                self.progress.advance();
                Ok(Frame::data(bytes))
            })
        })
    }
}
