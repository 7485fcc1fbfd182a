//! The HTTP endpoint that answers scrapes.
//!
//! It has a thread of its own, and answers a few requests at a time: one request a connection, with little patience. A slow client takes places
//! from other clients, and nothing from the drive.

use crate::exposition::{self, Format};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use run::Handle;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

/// Connections at a time. Others wait in the listener's queue.
pub const CONNECTIONS: usize = 16;
/// From the begin of a connection to the end of a request's head.
pub const HEAD_PATIENCE: Duration = Duration::from_secs(5);
/// From the begin of a connection to its end.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a request's head, at most.
pub const HEAD: usize = 16 << 10;

/// After a connection could not be accepted, as when there are no descriptors.
const PAUSE: Duration = Duration::from_millis(100);

const PAGE: &str = "<!DOCTYPE html><title>Tranche</title><p>Tranche: <a href=\"/metrics\">metrics</a></p>\n";

/// An address that is listened on, before there is anything to tell.
#[derive(Debug)]
pub struct Listener {
    listener: StdListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `address`, as `127.0.0.1:9420` or `[::1]:9420`; port 0 is any that is free.
    ///
    /// # Errors
    /// What the system says: no address, none of this machine, taken, or not allowed.
    pub fn bind(address: &str) -> io::Result<Listener> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Listener { listener, address })
    }

    /// The address, with the port that it really has.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// An endpoint that answers. Dropping it ends it, and closes its connections.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    /// Closed to end the thread.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Endpoint {
    /// Answers scrapes of this drive from here on.
    ///
    /// # Errors
    /// The system refuses an event queue or a thread.
    pub fn start(listener: Listener, drive: Handle) -> io::Result<Endpoint> {
        let address = listener.address;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (end, ended) = oneshot::channel();
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener.listener)?
        };
        let thread = std::thread::Builder::new()
            .name("tranche-metrics".to_owned())
            .spawn(move || run(&runtime, listener, drive, ended))?;
        Ok(Endpoint { address, end: Some(end), thread: Some(thread) })
    }

    /// The address, with the port that it really has.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A panic of it is told by the panic itself.
            let _ = thread.join();
        }
    }
}

fn run(runtime: &Runtime, listener: TcpListener, drive: Handle, ended: oneshot::Receiver<()>) {
    runtime.block_on(async {
        tokio::spawn(accept(listener, drive));
        // Its sender is dropped at the end.
        let _ = ended.await;
    });
}

async fn accept(listener: TcpListener, drive: Handle) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(place) = places.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let drive = drive.clone();
                tokio::spawn(async move {
                    // A client that breaks HTTP or takes too long gets no more than what it has got.
                    let _ = timeout(PATIENCE, serve(stream, drive)).await;
                    drop(place);
                });
            }
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn serve(stream: TcpStream, drive: Handle) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let response = answer(&request, &drive);
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(request: &Request<Incoming>, drive: &Handle) -> Response<Full<Bytes>> {
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
        return page(StatusCode::OK, "text/html; charset=utf-8", PAGE.into());
    }
    let accept = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(&accept.collect::<Vec<_>>().join(","));
    match drive.snapshot().map(|snapshot| exposition::write(snapshot, format)) {
        Ok(Ok(text)) => page(StatusCode::OK, format.content_type(), text.into()),
        Ok(Err(_)) => plain(StatusCode::INTERNAL_SERVER_ERROR, "The metrics cannot be written.\n"),
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "The drive has stopped.\n"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    page(status, "text/plain; charset=utf-8", text.into())
}

fn page(status: StatusCode, content_type: &'static str, text: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
