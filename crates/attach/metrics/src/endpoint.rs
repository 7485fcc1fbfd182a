//! The HTTP endpoint that answers scrapes: one page, which can only be read.

use crate::exposition::{self, Format};
use live::Handle;
use std::io;
use std::net::SocketAddr;
use web::header::{ACCEPT, ALLOW, HeaderValue};
use web::{Body, Incoming, Limits, Listener, Method, Progress, Request, Response, StatusCode, file, plain};

/// What clients may take.
pub const LIMITS: Limits = Limits::of(16);

const WRONG_HOST: &str =
    "The request is for a host of another name (DNS rebinding?): ask at 127.0.0.1 or localhost.\n";
const PAGE: &str = "<!DOCTYPE html><title>Tranche</title><p>Tranche: <a href=\"/metrics\">metrics</a></p>\n";

/// An endpoint that answers. Dropping it ends it, and closes its connections.
#[derive(Debug)]
pub struct Endpoint(web::Endpoint);

impl Endpoint {
    /// Answers scrapes of this drive from here on.
    ///
    /// # Errors
    /// The system refuses an event queue or a thread.
    pub fn start(listener: Listener, drive: Handle) -> io::Result<Endpoint> {
        let scrapes = Scrapes { drive, is_loopback: listener.is_loopback() };
        web::Endpoint::start(listener, "tranche-metrics", LIMITS, scrapes).map(Endpoint)
    }

    /// The address, with the port that it really has.
    pub fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

#[derive(Clone)]
struct Scrapes {
    drive: Handle,
    /// Only this machine can connect. Then requests name it: a page elsewhere reads nothing through a browser here.
    is_loopback: bool,
}

impl web::Service for Scrapes {
    async fn answer(&self, request: Request<Incoming>, _: Progress) -> Response<Body> {
        if self.is_loopback && !web::is_for_this_machine(request.headers()) {
            return plain(StatusCode::FORBIDDEN, WRONG_HOST);
        }
        answer(&request, &self.drive)
    }
}

fn answer(request: &Request<Incoming>, drive: &Handle) -> Response<Body> {
    let path = request.uri().path();
    if path != "/metrics" && path != "/" {
        return plain(StatusCode::NOT_FOUND, "There is /metrics here, and nothing else.\n");
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Metrics can only be read.\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    if path == "/" {
        return file(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    }
    let accept = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(&accept.collect::<Vec<_>>().join(","));
    match drive.snapshot().map(|snapshot| exposition::write(snapshot, format)) {
        Ok(Ok(text)) => file(StatusCode::OK, format.content_type(), text),
        Ok(Err(_)) => plain(StatusCode::INTERNAL_SERVER_ERROR, "The metrics cannot be written.\n"),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "The drive has stopped.\n"),
    }
}
