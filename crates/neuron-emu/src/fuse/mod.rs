//! The FUSE protocol, spoken directly: no library hands out the raw argument of an `ioctl`.
//!
//! Structs are those of the crate `fuse-abi` (kernel interface 7.40). [`mount`] attaches a file
//! system, [`Connection::negotiate`] answers the first request, [`pool`] runs the others.

pub mod mount;
pub mod pool;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use fuse_abi::linux as abi;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes a request can have: the largest write, plus the room the kernel wants for headers.
pub const BUFFER: usize = MAX_WRITE as usize + 4096;

const MAX_WRITE: u32 = 128 << 10;

/// What the kernel asks.
pub struct Request<'a> {
    /// Number, user and thread of the caller, inode.
    pub header: abi::fuse_in_header,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a request out of what the device gave.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, body) = abi::fuse_in_header::read_from_prefix(bytes).ok()?;
        let length = (header.len as usize).checked_sub(size_of::<abi::fuse_in_header>())?;
        Some(Self { header, body: body.get(..length)? })
    }

    /// The argument struct and what follows it.
    ///
    /// # Errors
    /// `EIO` for a request that is too short.
    pub fn argument<T: FromBytes>(&self) -> Result<(T, &'a [u8]), i32> {
        T::read_from_prefix(self.body).map_err(|_| libc::EIO)
    }

    /// The name that ends a body.
    pub fn name(body: &[u8]) -> &OsStr {
        let end = body.iter().position(|b| *b == 0).unwrap_or(body.len());
        OsStr::from_bytes(&body[..end])
    }

    /// The whole body.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// What the kernel and the user's rights allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whether files can be passed through to another one, if the rights suffice as well.
    pub passthrough: bool,
}

/// The device a mount is served through.
pub struct Connection(File);

impl Connection {
    /// Reads one request; `None` when the mount is gone.
    ///
    /// # Errors
    /// What the system says.
    pub fn receive<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<Request<'a>>> {
        loop {
            match (&self.0).read(buffer) {
                Ok(bytes) => {
                    let request = Request::parse(&buffer[..bytes]);
                    return request.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into());
                }
                Err(e) => match e.raw_os_error() {
                    // The caller went away between the wake-up and the read.
                    Some(libc::ENOENT | libc::EINTR | libc::EAGAIN) => {}
                    Some(libc::ENODEV) => return Ok(None),
                    _ => return Err(e),
                },
            }
        }
    }

    fn send(&self, unique: u64, error: i32, body: &[&[u8]]) {
        let length = size_of::<abi::fuse_out_header>() + body.iter().map(|b| b.len()).sum::<usize>();
        let header = abi::fuse_out_header { len: length as u32, error, unique };
        let mut parts = vec![IoSlice::new(header.as_bytes())];
        parts.extend(body.iter().map(|b| IoSlice::new(b)));
        // A caller that was killed, or a mount that is gone, takes no answer: nothing to do.
        let _ = (&self.0).write_vectored(&parts);
    }

    /// Answers with bytes.
    pub fn answer(&self, unique: u64, body: &[u8]) {
        self.send(unique, 0, &[body]);
    }

    /// Answers with a struct.
    pub fn answer_with(&self, unique: u64, body: &(impl IntoBytes + Immutable)) {
        self.send(unique, 0, &[body.as_bytes()]);
    }

    /// Answers with an error number below 512; the kernel takes no other.
    pub fn fail(&self, unique: u64, errno: i32) {
        self.send(unique, -errno, &[]);
    }

    /// Answers the first request of the kernel.
    ///
    /// # Errors
    /// When the kernel is too old (below 7.31) or goes away.
    pub fn negotiate(&self) -> io::Result<Features> {
        let mut buffer = vec![0; BUFFER];
        let gone = || io::Error::other("the mount went away before it was used");
        let request = self.receive(&mut buffer)?.ok_or_else(gone)?;
        let header = request.header;
        if header.opcode != abi::fuse_opcode::FUSE_INIT as u32 {
            return Err(io::Error::other("the kernel does not begin with FUSE_INIT"));
        }
        // Kernels before 7.36 send a shorter struct: the second flag word reads as zero.
        let mut bytes = [0; size_of::<abi::fuse_init_in>()];
        let given = request.body().len().min(bytes.len());
        bytes[..given].copy_from_slice(&request.body()[..given]);
        let init = abi::fuse_init_in::read_from_bytes(&bytes).expect("the size is right");
        if (init.major, init.minor) < (7, 31) {
            self.fail(header.unique, libc::EPROTO);
            return Err(io::Error::other(format!(
                "this kernel speaks FUSE {}.{}; use Linux 5.4 or later",
                init.major, init.minor
            )));
        }
        let offered = u64::from(init.flags) | u64::from(init.flags2) << 32;
        let wanted = u64::from(
            abi::FUSE_ASYNC_READ
                | abi::FUSE_ATOMIC_O_TRUNC
                | abi::FUSE_BIG_WRITES
                | abi::FUSE_PARALLEL_DIROPS
                | abi::FUSE_MAX_PAGES
                | abi::FUSE_INIT_EXT,
        ) | abi::FUSE_PASSTHROUGH;
        let flags = offered & wanted;
        let passthrough = flags & abi::FUSE_PASSTHROUGH != 0;
        let out = abi::fuse_init_out {
            major: abi::FUSE_KERNEL_VERSION,
            minor: abi::FUSE_KERNEL_MINOR_VERSION.min(init.minor),
            flags: flags as u32,
            flags2: (flags >> 32) as u32,
            max_write: MAX_WRITE,
            max_pages: (MAX_WRITE / 4096) as u16,
            max_background: 64,
            congestion_threshold: 48,
            time_gran: 1,
            // Files are passed through to memory files, which are not stacked themselves.
            max_stack_depth: u32::from(passthrough),
            ..Default::default()
        };
        self.answer_with(header.unique, &out);
        Ok(Features { passthrough })
    }

    /// Registers a file that opens can be passed through to; the number goes into the answer.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN` outside of user namespaces.
    pub fn register_backing(&self, file: BorrowedFd<'_>) -> io::Result<i32> {
        let map = abi::fuse_backing_map { fd: file.as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: the request takes a pointer to this struct and only reads it.
        let id = unsafe { libc::ioctl(self.0.as_raw_fd(), BACKING_OPEN, &raw const map) };
        if id < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
    }
}

/// `FUSE_DEV_IOC_BACKING_OPEN`, `_IOW(229, 1, struct fuse_backing_map)`.
const BACKING_OPEN: libc::c_ulong = 1 << 30 | 16 << 16 | (abi::FUSE_DEV_IOC_MAGIC as libc::c_ulong) << 8 | 1;

// The layouts the kernel reads and writes; the crate is checked against its own header only.
const _: () = {
    assert!(size_of::<abi::fuse_in_header>() == 40 && size_of::<abi::fuse_out_header>() == 16);
    assert!(size_of::<abi::fuse_init_in>() == 64 && size_of::<abi::fuse_init_out>() == 64);
    assert!(size_of::<abi::fuse_open_out>() == 16 && size_of::<abi::fuse_ioctl_in>() == 32);
    assert!(size_of::<abi::fuse_attr>() == 88 && size_of::<abi::fuse_backing_map>() == 16);
};
