//! Cache tiers that are served with a drive: `[[cache]]` of its TOML.

use crate::cache_tier::{new_start, open, socket_of};
use crate::options::Credentials;
use anyhow::{Context, Result};
use cache::control::Server;
use cache::table::Entry;
use cache::{BlockFiles, Devices, LiveTier, Place, Role, Source};
use export::Attached;
use export::drive::{Drive, DriveNotice, Reports};
use host::Addr;
use live::Handle;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, mpsc};
use tier::{Config, Start};

/// Tiers that run beside a drive.
#[derive(Default)]
pub struct ServedTiers {
    tiers: Vec<Tier>,
    /// Namespaces of the drive that the tiers use.
    hidden: BTreeSet<u32>,
    /// Where to say that a file is to vanish.
    news: Arc<OnceLock<mpsc::Sender<DriveNotice>>>,
}

struct Tier {
    live: Arc<LiveTier>,
    server: Server,
    /// What was said of its failure.
    told: Option<String>,
}

impl ServedTiers {
    /// Opens the tiers, and makes those whose metadata device is blank. Others know the drive by these addresses.
    ///
    /// # Errors
    /// One of them cannot be opened. None runs then.
    pub fn start(entries: &[Entry], handle: &Handle, known_as: &[Addr]) -> Result<Self> {
        let mut all = ServedTiers::default();
        for entry in entries {
            let begun = all.begin(entry, handle, known_as);
            if let Err(error) = begun.with_context(|| format!("the [[cache]] {:?}", entry.name)) {
                all.stop();
                return Err(error);
            }
        }
        Ok(all)
    }

    fn begin(&mut self, entry: &Entry, handle: &Handle, known_as: &[Addr]) -> Result<()> {
        let Entry { name, origin, cache, metadata, chunk, mode, policy, set } = entry;
        cache::check_apart([(Role::Origin, origin), (Role::Cache, cache), (Role::Metadata, metadata)])?;
        let source = |role, place: &Place| match place {
            Place::Own(nsid) => Ok(Source::own(role, handle, *nsid, known_as)?),
            elsewhere => open(role, elsewhere, &Credentials::default()),
        };
        let mut devices = Devices {
            origin: source(Role::Origin, origin)?,
            cache: source(Role::Cache, cache)?,
            metadata: source(Role::Metadata, metadata)?,
        };
        let start = match cache::recorded_or_blank(&mut devices.metadata.device)? {
            Some(_) => Start::Open,
            None => new_start(false),
        };
        let config = Config { chunk: *chunk, mode: *mode, policy: *policy, ..Config::default() };
        let live = LiveTier::open(name, config, start, devices)?;
        let settings = set.iter().try_for_each(|(key, value)| live.set(key, &value.to_string()));
        let server = socket_of(name).and_then(|path| Ok(Server::start(&live, &path)?));
        let server = settings.map_err(anyhow::Error::from).and(server).inspect_err(|_| close(&live))?;
        if start != Start::Open {
            tracing::info!("the cache tier {name} was made: its metadata device held none");
        }
        for place in [origin, cache, metadata] {
            if let Place::Own(nsid) = place {
                self.hidden.insert(*nsid);
            }
        }
        self.tiers.push(Tier { live, server, told: None });
        Ok(())
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }

    /// What has block files: the drive without the namespaces of tiers, and the tiers.
    pub fn beside(&self, handle: &Handle, reports: Reports) -> Result<Arc<dyn Drive>, String> {
        let _ = self.news.set(reports.news.clone());
        let drive = Attached::connect(handle, reports.clone())?;
        let tiers = self.tiers.iter().map(|tier| tier.live.clone()).collect();
        Ok(BlockFiles::new(Some(drive), self.hidden.clone(), tiers, reports))
    }

    /// Says which have failed since it was asked last. Their files vanish, and the drive goes on.
    pub fn look(&mut self) {
        for tier in &mut self.tiers {
            let failed = tier.live.failure();
            let words = failed.clone().or_else(|| tier.live.warning());
            if words == tier.told {
                continue;
            }
            tier.told = words;
            if let Some(words) = &tier.told {
                tracing::error!("{words}");
            }
            if let (Some(_), Some(news)) = (failed, self.news.get()) {
                // The export has ended.
                let _ = news.send(DriveNotice::Namespaces);
            }
        }
    }

    /// Shuts all of them down in order, before the drive.
    pub fn stop(self) {
        for Tier { live, server, .. } in self.tiers {
            close(&live);
            drop(server);
            // Its devices are hosts of the drive, which ends after them.
            if LiveTier::into_metadata(live).is_none() {
                tracing::warn!("a cache tier is in use still, though it is closed");
            }
        }
    }
}

fn close(tier: &LiveTier) {
    if let Err(error) = tier.close() {
        let name = tier.name();
        tracing::error!(
            "the cache tier {name} was not shut down in order, its next start is as after a crash: {error}"
        );
    }
}
