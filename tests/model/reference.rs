//! What tensors are, in plain byte arrays.

use std::collections::BTreeMap;

/// An instance the sequences run on.
pub struct Backend {
    pub product: &'static str,
    /// Physical cores of one logical core, given as `NEURON_LOGICAL_NC_CONFIG`.
    pub lnc: u32,
    /// Logical cores.
    pub cores: u32,
    /// Physical cores of a device.
    pub cores_per_device: u32,
    /// HBMs of a device.
    pub hbms: u32,
    /// Bytes of an HBM.
    pub hbm_bytes: usize,
    /// Pinned host memory can be had by its own number.
    pub pinned_by_name: bool,
    /// The driver has a mapping of a whole HBM.
    pub windows: bool,
    /// Device files, and not the simulated instance.
    pub devices: bool,
}

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Hbm { device: u32, hbm: i32 },
    Pinned,
    Plain,
}

/// The bytes behind one or more tensors.
pub struct Storage {
    pub bytes: Vec<u8>,
    pub place: Place,
    /// The core whose memory it is counted in.
    pub core: u32,
    /// Physical address.
    pub physical: u64,
    /// Address in this process, once told.
    pub va: Option<usize>,
    /// Number of the init that made it.
    pub cycle: u32,
    /// Memory of the program, by attaching.
    pub callers: bool,
}

impl Storage {
    /// Whole pages are counted.
    pub fn pages(&self) -> usize {
        self.bytes.len().next_multiple_of(4096)
    }

    /// Where they are on the device.
    pub fn pages_at(&self) -> std::ops::Range<u64> {
        self.physical..self.physical + self.pages() as u64
    }
}

/// Which bytes of which storage.
#[derive(Clone, Copy)]
pub struct Span {
    pub storage: usize,
    pub start: usize,
    pub len: usize,
}

pub struct Tensor {
    pub handle: usize,
    pub live: bool,
    pub name: String,
    pub span: Option<Span>,
}

impl Tensor {
    pub fn len(&self) -> usize {
        self.span.map_or(0, |span| span.len)
    }

    /// The same bytes in the storage, if they are inside.
    pub fn range(&self, offset: usize, size: usize) -> Option<(usize, std::ops::Range<usize>)> {
        let span = self.span?;
        let end = offset.checked_add(size)?;
        (end <= span.len).then(|| (span.storage, span.start + offset..span.start + end))
    }
}

pub struct Set {
    pub handle: usize,
    pub live: bool,
    /// Tensors by their number, whether alive or not.
    pub members: BTreeMap<String, usize>,
}

/// Bytes that look like nothing else.
pub fn pattern(seed: u8, size: usize) -> Vec<u8> {
    (0..size).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ seed).collect()
}

/// Where two arrays differ first, as a sentence.
pub fn difference(what: &str, have: &[u8], want: &[u8]) -> Result<(), String> {
    match have.iter().zip(want).position(|(a, b)| a != b) {
        None if have.len() == want.len() => Ok(()),
        None => Err(format!("{what}: {} bytes instead of {}", have.len(), want.len())),
        Some(at) => Err(format!("{what}: byte {at} is {:#04x}, expected {:#04x}", have[at], want[at])),
    }
}
