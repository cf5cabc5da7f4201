//! Attaching and detaching.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::mount::{MountFlags, UnmountFlags};

use super::Connection;

/// Name of the file system type, as `mount` shows it.
pub const TYPE: &str = "fuse.neuron-emu";

/// The way without root, for messages that say what to do.
pub const ROOTLESS: &str = "work in a shell started with `unshare -Urm`, where everything but shared mappings works";

/// Why nothing can be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// No `/dev/fuse`, or no right to it.
    #[error(
        "cannot open /dev/fuse: {0}; load the fuse module and run as root, or give yourself access to it and {ROOTLESS}"
    )]
    Device(io::Error),
    /// No right to mount.
    #[error("cannot mount on {path}: {error}; run as root, or {ROOTLESS}")]
    Mount {
        /// Where.
        path: String,
        /// Why not.
        error: io::Error,
    },
}

/// Mounts on a directory.
///
/// # Errors
/// See [`MountError`].
pub fn mount(target: &Path) -> Result<Connection, MountError> {
    let device: File = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC)
        .open("/dev/fuse")
        .map_err(MountError::Device)?;
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let options = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid},allow_other,default_permissions",
        device.as_raw_fd()
    );
    let options = CString::new(options).expect("no NUL in numbers");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    rustix::mount::mount("neuron-emu", target, TYPE, flags, &*options)
        .map_err(|e| MountError::Mount { path: target.display().to_string(), error: e.into() })?;
    Ok(Connection(device))
}

/// Takes the mount off its directory; files that are open stay until they are closed.
///
/// # Errors
/// What the system says.
pub fn unmount(target: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(target, UnmountFlags::DETACH)?)
}

/// Whether something of this program is mounted exactly here, alive or not.
pub fn mounted(target: &Path) -> bool {
    let Ok(mounts) = std::fs::read("/proc/self/mountinfo") else { return false };
    mounts.split(|b| *b == b'\n').any(|line| {
        let mut fields = line.split(|b| *b == b' ');
        fields.nth(4).is_some_and(|point| unescape(point) == target.as_os_str().as_bytes())
            && fields.skip_while(|f| *f != b"-").nth(1) == Some(TYPE.as_bytes())
    })
}

/// `mountinfo` writes blanks and backslashes as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|d| u8::from_str_radix(d, 8).ok()).filter(|_| *first == b'\\') {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_with_blanks_are_read_back() {
        assert_eq!(unescape(br"/a\040b\134c"), b"/a b\\c");
        assert_eq!(unescape(br"/a\04"), br"/a\04");
    }
}
