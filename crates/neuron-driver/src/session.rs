//! The descriptors of one process.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;

use crate::{Cause, Driver, File, Mode, Result};

/// A device that is open for everything, until the session ends.
///
/// Whoever holds it keeps no descriptor open: after the end of the session each use says
/// [`Cause::Closed`], and calls that are at work finish first.
pub struct Device {
    index: u32,
    file: ArcSwapOption<Box<dyn File>>,
}

impl Device {
    /// Its number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The open file.
    ///
    /// # Errors
    /// [`Cause::Closed`].
    pub fn file(&self) -> Result<Arc<Box<dyn File>>> {
        self.file.load_full().ok_or(Cause::Closed.at(self.index, "use"))
    }
}

/// All descriptors a process has of its devices: one misc descriptor on the first device, and of
/// each device that was asked for one for queries or for everything.
///
/// Dropping it closes all of them, the misc descriptor, and with it the claims, last.
pub struct Session {
    driver: Arc<dyn Driver>,
    devices: Mutex<BTreeMap<u32, Arc<Device>>>,
    info: Mutex<BTreeMap<u32, Arc<Box<dyn File>>>>,
    misc: Box<dyn File>,
}

impl Session {
    /// Opens the misc descriptor on device `first`, which must be the lowest this process can use.
    /// There must be one session in a process at most: the end of any gives back all core claims.
    ///
    /// # Errors
    /// Those of opening.
    pub fn new(driver: Arc<dyn Driver>, first: u32) -> Result<Session> {
        let misc = driver.open(first, Mode::Misc)?;
        Ok(Session { driver, devices: Mutex::default(), info: Mutex::default(), misc })
    }

    /// The machine.
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// The descriptor for claims and identity.
    pub fn misc(&self) -> &dyn File {
        &*self.misc
    }

    /// A descriptor for queries on device `index`; stays open.
    ///
    /// # Errors
    /// Those of opening.
    pub fn info(&self, index: u32) -> Result<Arc<Box<dyn File>>> {
        if let Some(device) = self.devices.lock().get(&index) {
            return device.file();
        }
        let mut info = self.info.lock();
        if let Some(file) = info.get(&index) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.driver.open(index, Mode::Info)?);
        info.insert(index, Arc::clone(&file));
        Ok(file)
    }

    /// Device `index`, open for everything.
    ///
    /// # Errors
    /// Those of opening.
    pub fn open(&self, index: u32) -> Result<Arc<Device>> {
        let mut devices = self.devices.lock();
        if let Some(device) = devices.get(&index) {
            return Ok(Arc::clone(device));
        }
        let file = ArcSwapOption::from_pointee(self.driver.open(index, Mode::Full)?);
        let device = Arc::new(Device { index, file });
        devices.insert(index, Arc::clone(&device));
        Ok(device)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for device in self.devices.get_mut().values() {
            device.file.store(None);
        }
    }
}
