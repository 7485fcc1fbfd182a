//! The devices of a tier that runs, of whichever kind.

use crate::local_device::{OwnDevice, OwnError};
use crate::socket::SocketDevice;
use blockdev::{BlockDevice, Completed, Flushes, Geometry, Nanos, Operation, Status};
use host::FileDevice;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is behind a device.
pub enum Kind {
    /// A namespace elsewhere.
    Socket(Box<SocketDevice>),
    /// A namespace of the drive in this process.
    Own(Box<OwnDevice>),
    /// A file or a block device.
    File(FileDevice),
}

/// Why a device cannot be opened, or is of no more use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Of a namespace.
    #[error("{0}")]
    Host(#[from] host::Error),
    /// Of a connection.
    #[error("{0}")]
    Transport(#[from] host::TransportError),
    /// Of the drive in this process.
    #[error(transparent)]
    Own(#[from] OwnError),
    /// Of a file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A request alone.
    #[error("{0}")]
    Status(Status),
    /// A flush.
    #[error("a flush failed ({0}): what was written since the last one may be lost")]
    Flush(Status),
    /// The connecting program says why.
    #[error("{0}")]
    Other(String),
}

/// A device of a tier.
pub struct Backing {
    kind: Kind,
    shown: String,
    trouble: Trouble,
    flushes: Flushes,
}

/// Why a device is of no more use, once it is.
#[derive(Clone, Default, Debug)]
pub struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    /// The device and the reason.
    pub fn words(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Backing {
    /// A device that messages call so.
    pub fn new(kind: Kind, shown: String) -> Self {
        Backing { kind, shown, trouble: Trouble::default(), flushes: Flushes::default() }
    }

    /// What is behind it.
    pub fn kind(&mut self) -> &mut Kind {
        &mut self.kind
    }

    /// Where it says why it is of no more use.
    pub fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }

    /// Notes the first error.
    fn noted<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        if let Err(error) = &result {
            let mut trouble = self.trouble.0.lock().unwrap_or_else(PoisonError::into_inner);
            if trouble.is_none() {
                tracing::error!("{}: {error}", self.shown);
                *trouble = Some(format!("{}: {error}", self.shown));
            }
        }
        result
    }
}

impl BlockDevice for Backing {
    type Error = DeviceError;

    fn geometry(&self) -> Geometry {
        match &self.kind {
            Kind::Socket(device) => device.geometry(),
            Kind::Own(device) => device.geometry(),
            Kind::File(device) => device.geometry(),
        }
    }

    fn room(&self) -> usize {
        match &self.kind {
            Kind::Socket(device) => device.room(),
            Kind::Own(device) => device.room(),
            Kind::File(device) => device.room(),
        }
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), DeviceError> {
        self.flushes.submitted(tag, part.verb);
        let result = match &mut self.kind {
            Kind::Socket(device) => device.submit(now, tag, part, data).map_err(DeviceError::from),
            Kind::Own(device) => device.submit(now, tag, part, data).map_err(DeviceError::from),
            Kind::File(device) => device.submit(now, tag, part, data).map_err(DeviceError::from),
        };
        self.noted(result)
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, DeviceError> {
        let result = match &mut self.kind {
            Kind::Socket(device) => device.poll(now).map_err(DeviceError::from),
            Kind::Own(device) => device.poll(now).map_err(DeviceError::from),
            Kind::File(device) => device.poll(now).map_err(DeviceError::from),
        };
        let mut done = self.noted(result)?;
        if let Some(done) = &mut done
            && self.flushes.ended(done)
        {
            let _ = self.noted::<()>(Err(DeviceError::Flush(done.status)));
        }
        Ok(done)
    }

    fn next_event(&self) -> Nanos {
        match &self.kind {
            Kind::Socket(device) => device.next_event(),
            Kind::Own(device) => device.next_event(),
            Kind::File(device) => device.next_event(),
        }
    }
}

/// Carries out one request alone, and waits for it: on a device that no tier has yet, or no more.
///
/// # Errors
/// It fails, or the device is of no more use.
pub fn execute(device: &mut Backing, part: &Operation, data: Vec<u8>) -> Result<Vec<u8>, DeviceError> {
    let begin = Instant::now();
    let now = || begin.elapsed().as_nanos() as Nanos;
    device.submit(now(), 0, part, data)?;
    loop {
        if let Some(done) = device.poll(now())? {
            return done.status.ok().map(|()| done.data).map_err(DeviceError::Status);
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}
