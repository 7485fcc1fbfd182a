//! Drives that live in this process.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use host::{Addr, Endpoint, Host, Identity, IoQueue, local_nqn, namespace_create, retry};
use live::{LocalQueue, LocalTransport, Options, Running, Shape};
use nvme::{
    NSID_ALL, Nqn, Nsid,
    admin::{FaultInjection, PowerCut},
};
use pyo3::{buffer::PyBuffer, exceptions::PyValueError, prelude::*, types::PyBytes};

use crate::{
    error::{ArgumentError, Error, command_failed, failed},
    fault,
    integer::Whole,
    profile::Profile,
};

/// How long a drive may be without power, beyond the time that a cut asks for.
const POWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Commands of one read or write at the same time.
const DEPTH: u16 = 32;

/// This process as a host of the drive.
pub struct Connection {
    pub host: Host<LocalTransport>,
    pub queue: IoQueue<LocalQueue>,
}

impl Connection {
    fn open(running: &Running, patience: Duration) -> Result<Self, host::Error> {
        let identity = Identity::new(local_nqn()?);
        retry(patience, || {
            let mut host = Host::connect(LocalTransport::new(running.handle()), &identity)?;
            let queue = host.io_queue(DEPTH)?;
            Ok(Self { host, queue })
        })
    }
}

/// A drive and its host. Nobody waits for it with Python's lock: its holder may need that. A host that lost its connection, as by a power cut, makes a new one for the next command.
struct State {
    running: Option<Running>,
    connection: Option<Connection>,
}

/// A namespace: its identifier, logical blocks, bytes of a block, NVM Set, and whether this process has it attached.
type NamespaceRow = (Nsid, u64, u32, u16, bool);

/// A drive that lives in this process.
#[pyclass(frozen, module = "tranche")]
pub struct LiveDrive {
    state: Mutex<State>,
    /// Where hosts reach it.
    #[pyo3(get)]
    urls: Vec<String>,
    /// The NQN of its subsystem.
    #[pyo3(get)]
    nqn: String,
    /// What the user should know about how an image was opened.
    #[pyo3(get)]
    notes: Vec<String>,
}

fn stopped() -> PyErr {
    Error::new_err("the drive was stopped")
}

impl LiveDrive {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does this as a host of the drive, without Python's lock.
    pub fn ask<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Connection) -> Result<T, host::Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let State { running, connection } = &mut *self.state();
            let running = running.as_ref().ok_or_else(stopped)?;
            let mut host = match connection.take() {
                Some(host) => host,
                None => Connection::open(running, POWER_TIMEOUT).map_err(failed)?,
            };
            let done = work(&mut host);
            // A program hears of each power cut once: by the command that is under way, or else by the next one.
            if !done.as_ref().is_err_and(host::Error::is_lost) {
                *connection = Some(host);
            }
            done.map_err(command_failed)
        })
    }
}

/// The index of the drive's LBA format of so many bytes, without metadata.
pub fn format_of(host: &mut Host<LocalTransport>, block: u32) -> Result<u8, host::Error> {
    let common = host.identify_namespace(NSID_ALL)?;
    let count = (usize::from(common.nlbaf_z) + 1).min(common.lbaf.len());
    let formats = &common.lbaf[..count];
    let sizes = |format: &nvme::identify::LbaFormat| (format.data_bytes(), format.ms.get());
    let found = formats.iter().position(|format| sizes(format) == (Some(block), 0));
    found.and_then(|index| u8::try_from(index).ok()).ok_or_else(|| {
        let plain = formats.iter().filter(|format| format.ms.get() == 0).filter_map(|f| f.data_bytes());
        let all: Vec<String> = plain.map(|bytes| bytes.to_string()).collect();
        host::Error::Usage(format!("the drive has no blocks of {block} bytes, but of {}", all.join(", ")))
    })
}

/// The controllers of a host, or of all, that have a namespace attached, or have not.
fn controllers(
    host: &mut Host<LocalTransport>,
    nsid: Nsid,
    of: Option<&str>,
    attached: bool,
) -> Result<Vec<u16>, host::Error> {
    let nqn = of
        .map(Nqn::new)
        .transpose()
        .map_err(|error| host::Error::Usage(format!("{}: {error}", of.unwrap_or_default())))?;
    let holders = host.namespace_controllers(nsid)?;
    let all = host.controllers_and_hosts()?;
    let theirs = |host: &Nqn| nqn.as_ref().is_none_or(|nqn| nqn == host);
    if !all.iter().any(|(_, host)| theirs(host)) {
        return Err(host::Error::Usage(format!("no host {} is connected", of.unwrap_or_default())));
    }
    let chosen = all.into_iter().filter(|(id, host)| theirs(host) && holders.contains(id) == attached);
    Ok(chosen.map(|(id, _)| id).collect())
}

#[pymethods]
impl LiveDrive {
    #[new]
    #[pyo3(signature = (profile, *, tcp, image, timing, network_faults))]
    fn new(
        py: Python<'_>,
        profile: &Profile,
        tcp: Vec<String>,
        image: Option<PathBuf>,
        timing: Option<bool>,
        network_faults: bool,
    ) -> PyResult<Self> {
        let mut config = profile.config().map_err(PyValueError::new_err)?;
        config.timing = timing.unwrap_or(config.timing);
        config.allow_fault_commands_from_network |= network_faults;
        let shape = Shape { config, toml: profile.toml.clone() };
        let tcp = tcp.iter().map(|address| address.as_str().into()).collect();
        let options = Options { image, tcp, ..Options::default() };
        let running = py.detach(|| live::start(Some(shape), &options, &mut |_| ())).map_err(failed)?;
        let url = |port: &live::PortInfo| {
            let (host, port) = (port.address.ip().to_string(), port.address.port());
            Addr { endpoint: Endpoint::Tcp { host, port }, subnqn: None }.to_string()
        };
        let urls = running.ports().iter().map(url).collect();
        let (nqn, notes) = (running.handle().subsystem_nqn().to_owned(), running.notes().to_vec());
        Ok(Self { state: State { running: Some(running), connection: None }.into(), urls, nqn, notes })
    }

    /// The drive ends in order; again does nothing.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            let mut state = self.state();
            if let Some(connection) = state.connection.take() {
                // The drive itself stops now, whatever it says to this.
                let _ = connection.host.shutdown();
            }
            if let Some(running) = state.running.take() {
                running.stop();
            }
        });
    }

    #[getter]
    fn running(&self, py: Python<'_>) -> bool {
        py.detach(|| self.state().running.as_ref().is_some_and(|running| !running.has_stopped()))
    }

    fn namespaces(&self, py: Python<'_>) -> PyResult<Vec<NamespaceRow>> {
        self.ask(py, |Connection { host, .. }| {
            let attached = host.active_namespaces()?;
            let mut rows = Vec::new();
            for nsid in host.allocated_namespaces()? {
                let ns = host.identify_allocated(nsid)?;
                let block = ns.format().data_bytes().unwrap_or(0);
                rows.push((nsid, ns.nsze.get(), block, ns.nvmsetid.get(), attached.contains(&nsid)));
            }
            Ok(rows)
        })
    }

    #[pyo3(signature = (size, *, block_size, nvm_set))]
    fn create_namespace(
        &self,
        py: Python<'_>,
        size: Whole<u64>,
        block_size: Whole<u32>,
        nvm_set: Whole<u16>,
    ) -> PyResult<Nsid> {
        let size = size.named("size")?;
        let block_size = block_size.named("block_size")?;
        let nvm_set = nvm_set.named("nvm_set")?;
        if block_size == 0 || size == 0 || !size.is_multiple_of(block_size.into()) {
            let why = format!("{size} bytes are no whole number of blocks of {block_size}");
            return Err(PyValueError::new_err(why));
        }
        self.ask(py, |Connection { host, .. }| {
            let index = format_of(host, block_size)?;
            host.create_namespace(&namespace_create(size / u64::from(block_size), index, nvm_set))
        })
    }

    fn delete_namespace(&self, py: Python<'_>, nsid: Whole<Nsid>) -> PyResult<()> {
        let nsid = nsid.named("nsid")?;
        self.ask(py, |Connection { host, .. }| host.delete_namespace(nsid))
    }

    #[pyo3(signature = (nsid, *, attach, host))]
    fn change_attachment(
        &self,
        py: Python<'_>,
        nsid: Whole<Nsid>,
        attach: bool,
        host: Option<String>,
    ) -> PyResult<()> {
        let nsid = nsid.named("nsid")?;
        self.ask(py, |connection| {
            let ids = controllers(&mut connection.host, nsid, host.as_deref(), !attach)?;
            match (ids.is_empty(), attach) {
                (true, _) => Ok(()),
                (false, true) => connection.host.attach_namespace(nsid, &ids),
                (false, false) => connection.host.detach_namespace(nsid, &ids),
            }
        })
    }

    fn read<'py>(
        &self,
        py: Python<'py>,
        nsid: Whole<Nsid>,
        lba: Whole<u64>,
        blocks: Whole<u32>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let nsid = nsid.named("nsid")?;
        let lba = lba.named("lba")?;
        let blocks = blocks.named("blocks")?;
        let data = self.ask(py, |Connection { host, queue }| {
            let namespace = host.namespace(nsid)?;
            let bytes = u64::from(blocks) * u64::from(namespace.block_size);
            let mut data = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
            queue.read(&namespace, lba, &mut data)?;
            Ok(data)
        })?;
        Ok(PyBytes::new(py, &data))
    }

    #[pyo3(signature = (nsid, lba, data, *, fua))]
    fn write(
        &self,
        py: Python<'_>,
        nsid: Whole<Nsid>,
        lba: Whole<u64>,
        data: PyBuffer<u8>,
        fua: bool,
    ) -> PyResult<()> {
        let nsid = nsid.named("nsid")?;
        let lba = lba.named("lba")?;
        // Others may change a buffer while Python's lock is free.
        let data = data.to_vec(py)?;
        let partial = self.ask(py, |Connection { host, queue }| {
            let namespace = host.namespace(nsid)?;
            let block = namespace.block_size;
            if !data.len().is_multiple_of(usize::try_from(block).unwrap_or(usize::MAX)) {
                return Ok(Some(block));
            }
            queue.write(&namespace, lba, &data, fua).map(|()| None)
        })?;
        match partial {
            None => Ok(()),
            Some(block) => Err(ArgumentError::new_err(format!(
                "data has {} bytes: no whole number of blocks of {block} bytes",
                data.len()
            ))),
        }
    }

    fn flush(&self, py: Python<'_>, nsid: Whole<Nsid>) -> PyResult<()> {
        let nsid = nsid.named("nsid")?;
        self.ask(py, |Connection { queue, .. }| queue.flush(nsid))
    }

    fn deallocate(
        &self,
        py: Python<'_>,
        nsid: Whole<Nsid>,
        lba: Whole<u64>,
        blocks: Whole<u64>,
    ) -> PyResult<()> {
        let nsid = nsid.named("nsid")?;
        let lba = lba.named("lba")?;
        let blocks = blocks.named("blocks")?;
        self.ask(py, |Connection { host, queue }| {
            let namespace = host.namespace(nsid)?;
            queue.deallocate(&namespace, lba, blocks)
        })
    }

    #[pyo3(signature = (*, after, off_ms, seed, capacitors_fail))]
    fn power_cut(
        &self,
        py: Python<'_>,
        after: Whole<u32>,
        off_ms: Whole<u32>,
        seed: Whole<u32>,
        capacitors_fail: bool,
    ) -> PyResult<()> {
        let after = after.named("after")?;
        let off_ms = off_ms.named("off in ms")?;
        let seed = seed.named("seed")?;
        let cut = PowerCut { after_media_ops: after, off_ms, seed, no_plp: capacitors_fail };
        self.ask(py, |connection| connection.host.power_cut(cut))?;
        if after > 0 {
            return Ok(());
        }
        py.detach(|| {
            let mut state = self.state();
            state.connection = None;
            let running = state.running.as_ref().ok_or_else(stopped)?;
            let patience = POWER_TIMEOUT + Duration::from_millis(off_ms.into());
            state.connection = Some(Connection::open(running, patience).map_err(failed)?);
            Ok(())
        })
    }

    #[pyo3(signature = (kind, *, nvm_set, count, one_in, parameter))]
    fn inject_fault(
        &self,
        py: Python<'_>,
        kind: &str,
        nvm_set: Whole<u16>,
        count: Whole<u32>,
        one_in: Whole<u32>,
        parameter: Whole<u32>,
    ) -> PyResult<()> {
        let nvm_set = nvm_set.named("nvm_set")?;
        let count = count.named("count")?;
        let one_in = one_in.named("one_in")?;
        let parameter = parameter.named("parameter")?;
        let kind = fault::kind(kind)?;
        // Of a count, every one is hit.
        let one_in = if count == 0 { one_in } else { 0 };
        let fault =
            FaultInjection { nsid: 0, kind, nvmsetid: nvm_set, count, one_in, param: parameter, lba: None };
        self.ask(py, |connection| connection.host.inject_fault(fault))
    }

    /// The faults that are active, as JSON.
    fn faults(&self, py: Python<'_>) -> PyResult<String> {
        let (_, faults) = self.ask(py, |connection| connection.host.injected_faults())?;
        let faults: Vec<_> = faults.iter().map(host::view::ActiveFault::from).collect();
        serde_json::to_string(&faults).map_err(failed)
    }

    /// The log SMART, as JSON with the keys of nvme-cli.
    fn smart(&self, py: Python<'_>) -> PyResult<String> {
        let log = self.ask(py, |connection| connection.host.smart())?;
        serde_json::to_string(&host::view::SmartLog::from(&log)).map_err(failed)
    }

    /// Everything that the drive counts, as JSON.
    fn counts(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| {
            let handle = self.state().running.as_ref().ok_or_else(stopped)?.handle();
            serde_json::to_string(&handle.snapshot().map_err(failed)?).map_err(failed)
        })
    }
}
