//! HTTP endpoints of a program that does something else: metrics and the live view of a drive.
//!
//! An [`Endpoint`] has a thread of its own, and answers a few requests at a time: one request a connection, with little patience ([`Limits`]). A slow client
//! takes nothing from the rest of the program, and makes room when others come. An answer may be a stream without end: then its reader must go on
//! taking it ([`Progress`]).

mod answer;
mod host_name;
mod places;

pub use answer::{Body, empty, file, full, plain, stream};
pub use host_name::{is_for_this_machine, name_of};
pub use hyper::body::{Bytes, Incoming};
pub use hyper::{Method, Request, Response, StatusCode, header};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use places::Places;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// What clients may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at a time. One more takes the place of the oldest that is no stream, of the network that has most of these.
    pub connections: usize,
    /// From the begin of a connection to the end of a request's head.
    pub head_patience: Duration,
    /// From the begin of a connection to its end; of a stream, from one look for [`Progress`] to the next.
    pub patience: Duration,
    /// Bytes of a request's head, at most.
    pub head: usize,
}

impl Limits {
    /// For so many connections: 5 s for a head of 16 KiB, 10 s for everything.
    pub const fn of(connections: usize) -> Limits {
        Limits {
            connections,
            head_patience: Duration::from_secs(5),
            patience: Duration::from_secs(10),
            head: 16 << 10,
        }
    }
}

/// After a connection could not be accepted, as when there are no descriptors.
const PAUSE: Duration = Duration::from_millis(100);

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

    /// Whether only programs of this machine can connect.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }
}

/// How far an answer is that has no end. Each piece of it that its reader takes counts. A connection whose count stands still for as long as an endpoint's
/// patience is closed. Answers with an end do not count: they have to be taken within that time.
#[derive(Clone, Default, Debug)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// A piece was taken.
    pub fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the answer is a stream: a piece of it was taken, or could be.
    fn is_stream(&self) -> bool {
        self.pieces() > 0
    }

    fn pieces(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What answers requests, on the endpoint's thread: it must not block it.
pub trait Service: Clone + 'static {
    /// Answers a request.
    fn answer(&self, request: Request<Incoming>, progress: Progress) -> impl Future<Output = Response<Body>>;
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
    /// Answers requests from here on, on a thread of this name.
    ///
    /// # Errors
    /// The system refuses an event queue or a thread.
    pub fn start(
        listener: Listener,
        name: &str,
        limits: Limits,
        service: impl Service + Send,
    ) -> io::Result<Endpoint> {
        let address = listener.address;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let (end, ended) = oneshot::channel();
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener.listener)?
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&runtime, listener, limits, service, ended))?;
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

fn run(
    runtime: &Runtime,
    listener: TcpListener,
    limits: Limits,
    service: impl Service,
    ended: oneshot::Receiver<()>,
) {
    let local = tokio::task::LocalSet::new();
    local.block_on(runtime, async {
        tokio::task::spawn_local(accept(listener, limits, service));
        // Its sender is dropped at the end.
        let _ = ended.await;
    });
}

async fn accept(listener: TcpListener, limits: Limits, service: impl Service) {
    let places = Places::default();
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let progress = Progress::default();
        let Some(place) = places.take(limits.connections, address.ip().into(), progress.clone()) else {
            continue;
        };
        let service = service.clone();
        let task = tokio::task::spawn_local(async move {
            serve(stream, limits, service, progress).await;
            drop(place);
        });
        places.runs_in(task.abort_handle());
    }
}

/// A client that breaks HTTP or takes too long gets no more than what it has got.
async fn serve(stream: TcpStream, limits: Limits, service: impl Service, progress: Progress) {
    let counted = progress.clone();
    let service = service_fn(move |request| {
        let (service, progress) = (service.clone(), counted.clone());
        async move { Ok::<_, Infallible>(service.answer(request, progress).await) }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_patience)
            .max_buf_size(limits.head)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service)
    );
    let mut seen = 0;
    while timeout(limits.patience, connection.as_mut()).await.is_err() {
        let pieces = progress.pieces();
        if pieces == seen {
            break;
        }
        seen = pieces;
    }
}
