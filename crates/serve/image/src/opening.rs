//! An image becomes a drive with its store: a new one, or one that recovers.

use crate::image::{BackgroundWork, ImageError, ImageOptions, ImageState, Locked, slot_count};
use crate::keys::{DriveKey, Keyring};
use crate::store::{Store, pages};
use device::{Config, Drive};
use media::Nanos;

/// Where the drive's shape comes from.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The parsed configuration.
    pub config: Config,
    /// Its text, which an image keeps.
    pub toml: String,
}

/// A drive that nobody runs yet.
pub struct Opened {
    /// The drive.
    pub drive: Drive,
    /// Its contents.
    pub store: Store,
    /// Its time.
    pub time: Nanos,
    /// What the user should know about how the image was opened.
    pub notes: Vec<String>,
}

impl Locked {
    /// Makes an image of a new drive with the configuration `toml`, which has come to `time`, and takes it into use.
    ///
    /// # Errors
    /// The host's disk fails, or refuses a thread.
    pub fn make(
        self,
        toml: &str,
        drive: Drive,
        time: Nanos,
        keys: Keyring,
        options: ImageOptions,
        background: BackgroundWork,
    ) -> Result<Opened, ImageError> {
        self.create(toml, &drive.save(), time)?;
        let found = self.find()?;
        let mut image = self.start(&found, pages(drive.config()), options, background)?;
        image.opened(&found, &found.state, time)?;
        let store = Store::in_image(image).with_keys(keys);
        Ok(Opened { drive, store, time, notes: found.notes })
    }

    /// Recovers the drive of an image, and takes the image into use. Of a `shape` that is given, how the drive is run counts; what it
    /// is must be the same.
    ///
    /// # Errors
    /// The image is damaged or another drive's, or the host's disk fails.
    pub fn open(
        self,
        shape: Option<Shape>,
        key: Option<DriveKey>,
        options: ImageOptions,
        background: BackgroundWork,
    ) -> Result<Opened, ImageError> {
        let found = self.find()?;
        let (mut opened, found) = self.recover(found, shape, key, options, background)?;
        if let Some(image) = opened.store.image() {
            image.opened(&found, &opened.drive.save(), opened.time)?;
        }
        Ok(opened)
    }

    /// Recovers the drive of an image whose disk nothing is written to, and leaves it at that.
    pub(crate) fn look(self, found: ImageState, key: Option<DriveKey>) -> Result<Opened, ImageError> {
        let background = BackgroundWork::unheard();
        self.recover(found, None, key, ImageOptions::default(), background).map(|(opened, _)| opened)
    }

    /// Recovers the drive of an image from what was found in its files.
    fn recover(
        self,
        mut found: ImageState,
        shape: Option<Shape>,
        key: Option<DriveKey>,
        options: ImageOptions,
        background: BackgroundWork,
    ) -> Result<(Opened, ImageState), ImageError> {
        let path = self.path().to_owned();
        let bad = |reason: String| ImageError::State { path: path.clone(), reason };
        let mut config = Config::from_toml(&self.config()?).map_err(|e| bad(format!("drive.toml: {e}")))?;
        if let Some(shape) = shape {
            // How the drive is run may change from one time to the next; what it is may not.
            config.timing = shape.config.timing;
            config.allow_fault_commands_from_network = shape.config.allow_fault_commands_from_network;
            if config != shape.config {
                let difference = difference(&config, &shape.config);
                return Err(ImageError::OtherDrive { path, difference });
            }
        }
        config.ftl.durable = true;
        let slots = pages(&config);
        let mut restorer = Drive::restore(config, &found.state).map_err(|e| bad(e.to_string()))?;
        found
            .replay(slot_count(slots, options), |record| restorer.apply(record).map_err(|e| e.to_string()))?;
        // Up to here nothing was changed on disk; recovery counts references and records.
        let time = found.time;
        let image = self.start(&found, slots, options, background)?;
        let mut store = Store::in_image(image).with_keys(Keyring::new(key));
        let drive = restorer.finish(time, &mut store).map_err(|e| bad(e.to_string()))?;
        let notes = std::mem::take(&mut found.notes);
        Ok((Opened { drive, store, time, notes }, found))
    }
}

/// The first line in which two configurations differ.
fn difference(stored: &Config, given: &Config) -> String {
    let (stored, given) = (format!("{stored:#?}"), format!("{given:#?}"));
    let mut pairs = stored.lines().zip(given.lines());
    match pairs.find(|(a, b)| a != b) {
        Some((a, b)) => {
            let line = |line: &str| line.trim().trim_end_matches(',').to_owned();
            format!("the image has {}, the given drive {}", line(a), line(b))
        }
        None => "one has more than the other".to_owned(),
    }
}
