//! TLS 1.3 with pre-shared keys, as NVMe/TCP uses it (TCP 3.6.1), over any stream that may say "would block".
//!
//! [`Acceptor`] and [`Connector`] make a [`Session`] of a stream; the handshake is part of reading and writing. There are no
//! certificates, no older versions, no session tickets (a kernel's record layer cannot take them) and no early
//! data. Cipher suites: TLS_AES_128_GCM_SHA256 for keys with SHA-256, TLS_AES_256_GCM_SHA384 for those with
//! SHA-384.
//!
//! Not here: time limits, which are the caller's, and the kernel's TLS record layer.

mod ffi;

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::{Arc, OnceLock};

use fabric::auth::TlsKey;
use nvme::Nqn;
use nvme::auth::HashId;
use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::ssl::{
    ClientHelloResponse, ErrorCode, Ssl, SslAlert, SslContext, SslContextBuilder, SslMethod, SslMode,
    SslStream, SslVerifyMode, SslVersion,
};

/// Plaintext of one record at most (RFC 8446, 5.1).
const RECORD: usize = 16_384;

/// OpenSSL does not do what is needed.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up TLS: {0}")]
pub struct SetupError(#[from] ErrorStack);

/// A key, and whose it is.
#[derive(Clone, Debug)]
struct Known {
    key: TlsKey,
    host: Nqn,
}

/// Extra data of a server's connection: all keys, and which one the client has shown.
struct ServerKeys {
    known: Arc<BTreeMap<Vec<u8>, Known>>,
    chosen: Option<Nqn>,
}

impl ServerKeys {
    /// The key of an identity. The handshake succeeds only if the client has it.
    fn choose(&mut self, identity: &[u8]) -> Option<TlsKey> {
        let known = self.known.get(identity)?;
        self.chosen = Some(known.host);
        Some(known.key.clone())
    }
}

/// Extra data of a client's connection.
struct ClientKey(TlsKey);

fn server_index() -> Option<Index<Ssl, ServerKeys>> {
    static INDEX: OnceLock<Option<Index<Ssl, ServerKeys>>> = OnceLock::new();
    *INDEX.get_or_init(|| Ssl::new_ex_index().ok())
}

fn client_index() -> Option<Index<Ssl, ClientKey>> {
    static INDEX: OnceLock<Option<Index<Ssl, ClientKey>>> = OnceLock::new();
    *INDEX.get_or_init(|| Ssl::new_ex_index().ok())
}

fn context() -> Result<SslContextBuilder, ErrorStack> {
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    context.set_min_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_max_proto_version(Some(SslVersion::TLS1_3))?;
    context.set_ciphersuites("TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256")?;
    context.set_mode(SslMode::ACCEPT_MOVING_WRITE_BUFFER | SslMode::RELEASE_BUFFERS);
    // Without certificates there is nothing to verify: a handshake without a key fails.
    context.set_verify(SslVerifyMode::NONE);
    Ok(context)
}

/// The one cipher suite that goes with a key.
fn suite(hash: HashId) -> &'static CStr {
    if hash == HashId::SHA384 { c"TLS_AES_256_GCM_SHA384" } else { c"TLS_AES_128_GCM_SHA256" }
}

/// The server's side: takes connections of hosts whose keys it knows.
#[derive(Clone)]
pub struct Acceptor {
    context: SslContext,
    known: Arc<BTreeMap<Vec<u8>, Known>>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Acceptor({} keys)", self.known.len())
    }
}

impl Acceptor {
    /// For these keys, each with the host that has it.
    ///
    /// # Errors
    /// OpenSSL does not do what is needed.
    pub fn new(keys: impl IntoIterator<Item = (TlsKey, Nqn)>) -> Result<Self, SetupError> {
        let known: BTreeMap<_, _> = keys
            .into_iter()
            .map(|(key, host)| (key.identity.clone().into_bytes(), Known { key, host }))
            .collect();
        let known = Arc::new(known);
        let mut context = context()?;
        context.set_num_tickets(0)?;
        ffi::find_keys(&mut context);
        // OpenSSL chooses the cipher suite before it looks at keys, and then finds that they do not fit.
        let hello = known.clone();
        context.set_client_hello_callback(move |ssl, alert| {
            let chosen = ffi::pre_shared_keys(ssl)
                .and_then(|extension| identities(extension).find_map(|identity| hello.get(identity)))
                .map(|known| suite(known.key.hash));
            match chosen {
                Some(suite) if ffi::set_ciphersuites(ssl, suite) => Ok(ClientHelloResponse::SUCCESS),
                _ => {
                    *alert = SslAlert::HANDSHAKE_FAILURE;
                    Err(ErrorStack::get())
                }
            }
        });
        Ok(Self { context: context.build(), known })
    }

    /// Makes a session of a stream on which nothing has come yet.
    ///
    /// # Errors
    /// OpenSSL has no memory.
    pub fn accept<S: Read + Write>(&self, stream: S) -> Result<Session<S>, SetupError> {
        let mut ssl = Ssl::new(&self.context)?;
        if let Some(index) = server_index() {
            ssl.set_ex_data(index, ServerKeys { known: self.known.clone(), chosen: None });
        }
        ssl.set_accept_state();
        Session::new(ssl, stream)
    }
}

/// The identities in the extension `pre_shared_key` (RFC 8446, 4.2.11); ends where it makes no sense.
fn identities(extension: &[u8]) -> impl Iterator<Item = &[u8]> {
    let list = match extension {
        [a, b, rest @ ..] => rest.get(..usize::from(u16::from_be_bytes([*a, *b]))).unwrap_or_default(),
        _ => &[],
    };
    let mut left = list;
    std::iter::from_fn(move || {
        let (len, rest) = left.split_first_chunk::<2>()?;
        let (identity, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        // The obfuscated ticket age says nothing about an external key.
        left = rest.get(4..)?;
        Some(identity)
    })
}

/// The client's side.
#[derive(Clone)]
pub struct Connector {
    context: SslContext,
    key: TlsKey,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connector({:?})", self.key)
    }
}

impl Connector {
    /// With this key.
    ///
    /// # Errors
    /// OpenSSL does not do what is needed.
    pub fn new(key: TlsKey) -> Result<Self, SetupError> {
        let mut context = context()?;
        context.set_ciphersuites(&suite(key.hash).to_string_lossy())?;
        ffi::use_key(&mut context);
        Ok(Self { context: context.build(), key })
    }

    /// Makes a session of a connected stream.
    ///
    /// # Errors
    /// OpenSSL has no memory.
    pub fn connect<S: Read + Write>(&self, stream: S) -> Result<Session<S>, SetupError> {
        let mut ssl = Ssl::new(&self.context)?;
        if let Some(index) = client_index() {
            ssl.set_ex_data(index, ClientKey(self.key.clone()));
        }
        ssl.set_connect_state();
        Session::new(ssl, stream)
    }
}

/// A stream under TLS. It reads and writes as the stream does, blocking or not.
pub struct Session<S> {
    stream: SslStream<S>,
    established: bool,
    /// Accepted for writing, and not yet taken by the stream.
    held: Vec<u8>,
}

impl<S> fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("established", &self.established).finish_non_exhaustive()
    }
}

impl<S: Read + Write> Session<S> {
    fn new(ssl: Ssl, stream: S) -> Result<Self, SetupError> {
        Ok(Self { stream: SslStream::new(ssl, stream)?, established: false, held: Vec::new() })
    }

    /// The stream beneath.
    pub fn get_ref(&self) -> &S {
        self.stream.get_ref()
    }

    /// Whether the handshake is over: each side has shown that it has the key.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// The host whose key the client has shown (server's side, once established).
    pub fn host(&self) -> Option<&Nqn> {
        let state = self.stream.ssl().ex_data(server_index()?)?;
        state.chosen.as_ref().filter(|_| self.established)
    }

    /// Goes on with the handshake, which reading and writing do as well. Nothing happens once it is over.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn handshake(&mut self) -> io::Result<()> {
        if !self.established {
            self.stream.do_handshake().map_err(|error| translate("TLS handshake", error))?;
            self.established = true;
        }
        Ok(())
    }

    /// Reads; 0 at the end. A short read does not mean that nothing more is there.
    ///
    /// # Errors
    /// Those of the stream (`WouldBlock`); a failed handshake or a broken record is `InvalidData`, an end
    /// without TLS's own closing `ConnectionAborted`.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.handshake()?;
        match self.stream.ssl_read(bytes) {
            Ok(count) => Ok(count),
            Err(error) if error.code() == ErrorCode::ZERO_RETURN => Ok(0),
            Err(error) => Err(translate("TLS", error)),
        }
    }

    /// Takes bytes for sending: at most one record's, and none as long as some are [held](Session::is_holding).
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush()?;
        for slice in slices {
            let room = RECORD - self.held.len();
            self.held.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        let taken = self.held.len();
        match self.flush() {
            // They are ours now.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(taken),
            done => done.map(|()| taken),
        }
    }

    /// Sends what is held.
    ///
    /// # Errors
    /// As [`Session::read`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.handshake()?;
        while !self.held.is_empty() {
            let count = self.stream.ssl_write(&self.held).map_err(|error| translate("TLS", error))?;
            self.held.drain(..count);
        }
        Ok(())
    }

    /// Whether bytes that were taken have not gone yet: [`Session::flush`] when the stream can be written.
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }
}

fn translate(what: &str, error: openssl::ssl::Error) -> io::Error {
    match error.code() {
        ErrorCode::WANT_READ | ErrorCode::WANT_WRITE => ErrorKind::WouldBlock.into(),
        _ => match error.into_io_error() {
            Ok(error) => error,
            Err(error) => {
                let reasons: Vec<&str> = error
                    .ssl_error()
                    .iter()
                    .flat_map(|stack| stack.errors())
                    .filter_map(|e| e.reason())
                    .collect();
                let reasons = reasons.join(", ");
                if reasons.is_empty() || reasons.contains("unexpected eof") {
                    let words = format!("{what}: the other side closed the connection");
                    return io::Error::new(ErrorKind::ConnectionAborted, words);
                }
                // OpenSSL names what it stumbled over, which is seldom what is wrong.
                let meaning = match reasons.as_str() {
                    // Our callback for ClientHello.
                    r if r.contains("callback failed") => "none of the client's keys is known here",
                    r if r.contains("handshake failure") => {
                        "the other side does not know this key, or knows it for other NQNs than these"
                    }
                    r if r.contains("wrong version number") || r.contains("http request") => {
                        "the other side does not speak TLS"
                    }
                    r => r,
                };
                io::Error::new(ErrorKind::InvalidData, format!("{what}: {meaning}"))
            }
        },
    }
}
