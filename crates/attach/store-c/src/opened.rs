//! Stores that this process has open. All users of a namespace share one.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabric::auth::{ChapKeys, TlsPsk};
use host::{Addr, DriveQueue, DriveTransport, Host, Identity};
use nvme::Nsid;
use store::{Claim, Ino, NamespaceZones, Store};

use crate::appender::Appender;
use crate::failure::{Code, Failure};
use crate::place::Place;

/// Commands under way at once, for each queue.
const DEPTH: u16 = 32;
/// For each step of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What was written becomes durable after this time, also if nobody asks for it.
const SYNC_EVERY: Duration = Duration::from_secs(5);

/// A namespace as the store's device.
pub(crate) type Device = NamespaceZones<DriveQueue>;

/// The store, and what belongs to it.
pub(crate) struct Inner {
    pub(crate) store: Store<Device>,
    /// Bytes of a block.
    pub(crate) block: u64,
    /// Files that somebody appends to.
    pub(crate) appenders: RwLock<BTreeMap<Ino, Weak<Mutex<Appender>>>>,
    /// Paths that are locked.
    pub(crate) locks: Mutex<BTreeSet<Vec<u8>>>,
    /// The controller that the queues belong to.
    _host: Mutex<Host<DriveTransport>>,
    claim: Mutex<Option<Claim>>,
}

/// A store that this process has open. When the last user drops it, everything becomes durable.
pub struct Opened {
    pub(crate) inner: Arc<Inner>,
    key: Key,
    end: Arc<(Mutex<bool>, Condvar)>,
    syncer: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Tells stores apart: which one it is, and by which address.
type Key = ([u8; 16], String);

/// Those that are open or being closed.
static OPEN_STORES: Mutex<BTreeMap<Key, Weak<Opened>>> = Mutex::new(BTreeMap::new());
/// One of them has gone.
static CLOSE_NOTICE: Condvar = Condvar::new();

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time in nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A key of the environment, or of a file that it names.
fn secret<K: FromStr<Err: std::fmt::Display>>(variable: &str) -> Result<Option<K>, Failure> {
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    let is_key = value.starts_with("DHHC-1:") || value.starts_with("NVMeTLSkey-1:");
    let text = if is_key { Ok(value) } else { std::fs::read_to_string(&value) };
    let wrong = |problem: String| Failure::invalid(format!("{variable}: {problem}"));
    let text = text.map_err(|error| wrong(format!("cannot read the file that it names: {error}")))?;
    // The text is not repeated.
    text.trim().parse().map(Some).map_err(|error: K::Err| wrong(error.to_string()))
}

fn identity(place: &Place) -> Result<Identity, Failure> {
    let nqn = match place.hostnqn {
        Some(nqn) => nqn,
        None => host::local_nqn()?,
    };
    let mut identity = Identity::new(nqn);
    let controller = secret("TRANCHE_DHCHAP_CTRL_SECRET")?;
    identity.chap = secret("TRANCHE_DHCHAP_SECRET")?.map(|host| ChapKeys { host, controller });
    identity.tls = secret::<TlsPsk>("TRANCHE_TLS_PSK")?;
    Ok(identity)
}

fn choose(host: &mut Host<DriveTransport>, place: &Place) -> Result<Nsid, Failure> {
    if let Some(nsid) = place.nsid {
        return Ok(nsid);
    }
    let attached = host.active_namespaces()?;
    match host.zoned_among(&attached)?.as_slice() {
        [(nsid, _)] => Ok(*nsid),
        [] => Err(Failure::new(Code::NotFound, "no zoned namespace is attached to this host")),
        several => {
            let nsids: Vec<Nsid> = several.iter().map(|(nsid, _)| *nsid).collect();
            let nsids = host::nsid_list(&nsids);
            Err(Failure::invalid(format!("the place must say which namespace: {nsids} have zones")))
        }
    }
}

impl Opened {
    /// Opens the store of a place, or shares it if this process has it open.
    ///
    /// # Errors
    /// The drive cannot be reached, there is no store, another program has it open, or this process has it open and it failed.
    pub fn open(place: &Place) -> Result<Arc<Self>, Failure> {
        let about =
            |failure: Failure| Failure { text: format!("{}: {}", place.addr, failure.text), ..failure };
        Self::open_at(place).map_err(about)
    }

    fn open_at(place: &Place) -> Result<Arc<Self>, Failure> {
        let identity = identity(place)?;
        let attempt = || Host::connect(DriveTransport::new(place.addr.clone(), CONNECT_TIMEOUT), &identity);
        let mut host = host::retry(place.wait, attempt)?;
        let nsid = choose(&mut host, place)?;
        let zoned = host.zoned_namespace(nsid)?;
        let queues = (0..usize::from(place.queues) + store::APPEND_QUEUES)
            .map(|_| host.io_queue(DEPTH))
            .collect::<Result<_, _>>()?;
        let device = NamespaceZones::new(zoned, queues);
        let id = store::identify(&device)?;
        let key = (id, Addr { subnqn: None, ..place.addr.clone() }.to_string());
        let mut open = locked(&OPEN_STORES);
        while let Some(known) = open.get(&key).map(Weak::upgrade) {
            match known {
                Some(opened) => {
                    // Whoever drops the last of its users needs the list.
                    drop(open);
                    return opened.if_usable();
                }
                // Another thread closes it.
                None => open = CLOSE_NOTICE.wait(open).unwrap_or_else(PoisonError::into_inner),
            }
        }
        let claim = Claim::take(&id, &place.addr)?;
        let store = Store::open(device, place.placement)?;
        let inner = Arc::new(Inner {
            block: store.usage().block,
            store,
            appenders: RwLock::default(),
            locks: Mutex::default(),
            _host: Mutex::new(host),
            claim: Mutex::new(Some(claim)),
        });
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let syncer = {
            let (inner, end) = (Arc::clone(&inner), Arc::clone(&end));
            std::thread::Builder::new().name("tranche-sync".into()).spawn(move || keep_syncing(&inner, &end))
        };
        let syncer =
            syncer.map_err(|error| Failure::new(Code::Failed, format!("starting a thread: {error}")))?;
        let opened = Arc::new(Self { inner, key: key.clone(), end, syncer: Some(syncer) });
        open.insert(key, Arc::downgrade(&opened));
        Ok(opened)
    }

    /// This, unless the store has failed. The method asks the drive: it may have gone, or another program may have the store.
    fn if_usable(self: Arc<Self>) -> Result<Arc<Self>, Failure> {
        let asked = self.sync().and_then(|()| Ok(self.inner.store.ask_device()?));
        match asked {
            Ok(()) => Ok(self),
            Err(failure) => {
                let why = failure.text;
                let text = format!(
                    "this process still has the store open, and it failed ({why}): all its users must let go of it first"
                );
                Err(Failure { text, ..failure })
            }
        }
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// The drive failed, or the store takes no changes any more.
    pub fn sync(&self) -> Result<(), Failure> {
        self.inner.sync()
    }

    /// Makes all changes of names durable.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn sync_names(&self) -> Result<(), Failure> {
        Ok(self.inner.store.sync_names()?)
    }

    /// Bytes that files may have, and those of them that no file has.
    #[must_use]
    pub fn space(&self) -> (u64, u64) {
        let usage = self.inner.store.usage();
        (usage.blocks * usage.block, usage.free_blocks * usage.block)
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block(&self) -> u64 {
        self.inner.block
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        *locked(&self.end.0) = true;
        self.end.1.notify_all();
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
        // Who must know whether it is durable has synced it.
        let _ = self.inner.sync();
        // Who waits for the end takes the claim.
        locked(&self.inner.claim).take();
        locked(&OPEN_STORES).remove(&self.key);
        CLOSE_NOTICE.notify_all();
    }
}

impl Inner {
    /// Gives the store what is collected for a file, so that others see it.
    pub(crate) fn drain(&self, ino: Ino) -> Result<(), Failure> {
        let appender = {
            let appenders = self.appenders.read().unwrap_or_else(PoisonError::into_inner);
            appenders.get(&ino).and_then(Weak::upgrade)
        };
        match appender {
            Some(appender) => Ok(locked(&appender).drain(&self.store, now())?),
            None => Ok(()),
        }
    }

    /// Makes everything durable.
    fn sync(&self) -> Result<(), Failure> {
        let all: Vec<_> = {
            let appenders = self.appenders.read().unwrap_or_else(PoisonError::into_inner);
            appenders.values().filter_map(Weak::upgrade).collect()
        };
        // A file that cannot be written keeps no other from being durable.
        let mut failed = None;
        for appender in all {
            failed = failed.or(locked(&appender).drain(&self.store, now()).err());
        }
        self.store.sync_all()?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }
}

/// Makes what was written durable now and then.
fn keep_syncing(inner: &Inner, end: &(Mutex<bool>, Condvar)) {
    let mut ended = locked(&end.0);
    while !*ended {
        let (waited, result) = end.1.wait_timeout(ended, SYNC_EVERY).unwrap_or_else(PoisonError::into_inner);
        ended = waited;
        if !result.timed_out() || *ended {
            continue;
        }
        drop(ended);
        if inner.store.failure().is_none() {
            // The store keeps what went wrong, and tells it to the next who asks for a change.
            let _ = inner.sync();
        }
        ended = locked(&end.0);
    }
}
