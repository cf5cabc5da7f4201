//! A machine behind a mount: what `run` and `serve` have in common.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::control;
use crate::fuse::mount::{self, MountError};
use crate::fuse::pool;
use crate::machine::Machine;
use crate::mapped::Mapped;
use crate::server::{Server, Sharing};
use crate::waiting::Waiting;

/// Why a machine is not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Nothing can be mounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The system refuses something else.
    #[error("cannot serve {path}: {error}")]
    System {
        /// Where.
        path: String,
        /// Why not.
        error: io::Error,
    },
}

/// Said at the start when memory cannot be shared.
pub const NO_SHARING: &str = "shared mappings of device memory do not work here (they need Linux 6.9 and \
     CAP_SYS_ADMIN outside of a user namespace); everything else does";

/// A machine that processes see under [`Published::root`].
pub struct Published {
    /// The server.
    pub server: Arc<Server>,
    /// Where it is mounted.
    pub root: PathBuf,
}

/// Mounts on `root`, an existing directory, and serves: `dev`, `sys` and the control socket. At
/// most `threads` calls block at a time ([`pool::MAX_THREADS`]).
///
/// # Errors
/// See [`PublishError`].
pub fn publish(machine: Machine, root: &Path, threads: usize) -> Result<Published, PublishError> {
    let connection = Arc::new(mount::mount(root)?);
    let failed = |error| {
        // The first failure is the one to report.
        let _ = mount::unmount(root);
        PublishError::System { path: root.display().to_string(), error }
    };
    let serve = || -> io::Result<Published> {
        let features = connection.negotiate()?;
        let sharing = if features.passthrough { share(&connection, &machine)? } else { None };
        let waiting = Waiting::new(machine.clock.clone())?;
        let server = Arc::new(Server::new(machine, waiting, sharing));
        pool::start(connection.clone(), server.clone(), threads)?;
        let number = std::fs::metadata(root)?.dev();
        let published = Published { server, root: root.to_owned() };
        published.server.device_number.set(number).expect("set once");
        control::listen(&published)?;
        Ok(published)
    };
    serve().map_err(failed)
}

/// Registers the memory of every device; `None` without the right to.
fn share(connection: &crate::fuse::Connection, machine: &Machine) -> io::Result<Option<Sharing>> {
    let mut backing = HashMap::new();
    for device in machine.driver.devices() {
        match connection.register_backing(device.silicon.space().file()) {
            Ok(id) => backing.insert(device.index, id),
            Err(e) if e.raw_os_error() == Some(libc::EPERM) => return Ok(None),
            Err(e) => return Err(e),
        };
    }
    Ok(Some(Sharing { backing, mapped: Mapped::new()? }))
}

impl Published {
    /// Stops the driver and takes the mount away.
    pub fn end(&self) {
        self.server.machine.driver.unload();
        // Somebody else may have taken it away already.
        let _ = mount::unmount(&self.root);
    }
}
