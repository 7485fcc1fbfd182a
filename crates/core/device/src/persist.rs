//! The non-volatile state of the controller: as a record on every change, and within what is saved.
//!
//! Saved bytes: `TDRV`, version (u32), length of the controller's section (u64), that section, and then what
//! [`ftl::Ftl::save`] writes; little endian. The section is JSON: small, rarely written, readable in an
//! image, and tolerant of fields that are added later.

use crate::contents::Contents;
use crate::core::{Core, Namespace, Namespaces, SECTION_VERSION, SavedState};
use crate::drive::Drive;
use crate::keys;
use drive_config::{Config, ConfigError};
use ftl::{Ftl, Record, Section};
use media::Nanos;

const MAGIC: [u8; 4] = *b"TDRV";

/// Version of the saved bytes: that of the section.
const VERSION: u32 = SECTION_VERSION;

/// Why saved state cannot be used.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum LoadError {
    /// The configuration cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The translation layer's part does not fit.
    #[error(transparent)]
    Ftl(#[from] ftl::LoadError),
    /// The controller's part is not what it should be.
    #[error("saved state of the controller: {0}")]
    Malformed(String),
}

fn malformed(what: impl Into<String>) -> LoadError {
    LoadError::Malformed(what.into())
}

impl Drive {
    /// The whole non-volatile state: what a power cut now would leave. [`Drive::restore`] opens it.
    pub fn save(&self) -> Vec<u8> {
        let mut out = head(&self.core.section());
        self.core.ftl.save(&mut out);
        out
    }

    /// The state that is left when the power is switched off now, with capacitors that work. It can be kept, copied, and opened again.
    /// After [`Output::ShutDown`](crate::Output::ShutDown) the drive was switched off in order.
    pub fn park(self, now: Nanos) -> Restorer {
        Restorer { section: self.core.section(), config: self.core.config, ftl: self.core.ftl.park(now) }
    }

    /// Begins to open a drive from what [`save`](Drive::save) wrote. Apply the records that came after, in
    /// order, then [`Restorer::finish`].
    ///
    /// # Errors
    /// If the bytes are not the state of a drive of this configuration.
    pub fn restore(config: Config, bytes: &[u8]) -> Result<Restorer, LoadError> {
        config.check()?;
        let short = || malformed("it ends too early");
        let (magic, rest) = bytes.split_at_checked(4).ok_or_else(short)?;
        if magic != MAGIC {
            return Err(malformed("it does not begin with TDRV"));
        }
        let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        check_version(u32::from_le_bytes(*version))?;
        let (len, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| short())?;
        let (section, rest) = rest.split_at_checked(len).ok_or_else(short)?;
        let ftl = Ftl::restore(config.effective_ftl(), rest)?;
        Ok(Restorer { section: section.to_vec(), config, ftl })
    }
}

/// What comes before the translation layer's part.
fn head(section: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(section.len() + 4096);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&(section.len() as u64).to_le_bytes());
    out.extend_from_slice(section);
    out
}

fn check_version(version: u32) -> Result<(), LoadError> {
    if version == VERSION {
        Ok(())
    } else {
        Err(malformed(format!(
            "version {version}; this program knows version {VERSION}: use the program that wrote it"
        )))
    }
}

/// A drive without power.
#[derive(Clone)]
pub struct Restorer {
    config: Config,
    section: Vec<u8>,
    ftl: ftl::Restorer,
}

impl Restorer {
    /// What [`Drive::restore`] reads.
    pub fn save(&self) -> Vec<u8> {
        let mut out = head(&self.section);
        self.ftl.save(&mut out);
        out
    }

    /// What it was built from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Applies the next record.
    ///
    /// # Errors
    /// If it does not fit this drive.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<(), LoadError> {
        match record {
            Record::Section { kind: Section::Controller, bytes } => self.section = bytes.to_vec(),
            _ => self.ftl.apply(record)?,
        }
        Ok(())
    }

    /// Opens the drive: it recovers, and is powered on.
    ///
    /// # Errors
    /// If the state that was reached contradicts itself or the configuration.
    pub fn finish<S: Contents>(self, now: Nanos, storage: &mut S) -> Result<Drive, LoadError> {
        let Restorer { config, section, ftl } = self;
        let contents: SavedState<Namespace> =
            serde_json::from_slice(&section).map_err(|e| malformed(e.to_string()))?;
        check_version(contents.version)?;
        let mut ftl = ftl.finish(now, storage)?;
        let mut namespaces = Namespaces::new(config.max_namespaces);
        for (nsid, mut namespace) in contents.namespaces {
            check_namespace(nsid, &namespace, &config, &ftl, &namespaces)?;
            if let Some(format) = config.lba_formats.get(usize::from(namespace.format)) {
                namespace.set_format(namespace.format, *format);
            }
            namespace.zones = ftl.zone_layout(namespace.volume);
            namespaces.insert(nsid, namespace);
        }
        // A volume without a namespace would be lost capacity.
        let used = |volume| namespaces.iter().any(|(_, ns)| ns.volume == volume);
        let orphans: Vec<_> = ftl.volumes().map(|(id, ..)| id).filter(|id| !used(*id)).collect();
        for volume in orphans {
            ftl.delete(now, volume, storage);
        }
        if !contents.persistent.firmware.check() {
            return Err(malformed("firmware slots contradict each other"));
        }
        let mut drive = Drive::from(Core::new(config, ftl, namespaces, contents.persistent));
        drive.core.tick(now);
        keys::open(&mut drive.core, storage);
        drive.started(now);
        drive.windows.power_came(&mut drive.core, now, storage);
        drive.core.record(storage);
        Ok(drive)
    }
}

fn check_namespace(
    nsid: u32,
    ns: &Namespace,
    config: &Config,
    ftl: &Ftl,
    before: &Namespaces,
) -> Result<(), LoadError> {
    if !before.is_valid(nsid) || before.get(nsid).is_some() {
        let max = config.max_namespaces;
        return Err(malformed(format!(
            "namespace identifier {nsid} is there twice or not within 1 to {max}"
        )));
    }
    let format = config.lba_formats.get(usize::from(ns.format));
    if format.is_none_or(|format| format.shift() != ns.shift) {
        let formats: Vec<String> = config.lba_formats.iter().map(ToString::to_string).collect();
        return Err(malformed(format!(
            "namespace {nsid} has LBA format {}; the drive has {formats:?}",
            ns.format
        )));
    }
    if ns.protection_type > 3 || (ns.protection_type != 0 && format.is_none_or(|f| !f.can_protect())) {
        return Err(malformed(format!(
            "namespace {nsid} has protection information that its format has no room for"
        )));
    }
    let fits =
        |(id, set, bytes)| id == ns.volume && set == ns.set && bytes == ns.bytes.next_multiple_of(4096);
    if ns.bytes == 0 || ns.bytes > u64::MAX - 4096 || !ftl.volumes().any(fits) {
        return Err(malformed(format!("namespace {nsid} and its volume do not agree")));
    }
    if !ns.quota.are_allowed() {
        return Err(malformed(format!("namespace {nsid} has a quota that no host could have set")));
    }
    if let Some(Err(what)) = ns.reservations.as_ref().map(|r| r.check()) {
        return Err(malformed(format!("namespace {nsid} {what}")));
    }
    if before.iter().any(|(_, other)| other.volume == ns.volume) {
        return Err(malformed(format!("namespace {nsid} has the volume of another")));
    }
    Ok(())
}
