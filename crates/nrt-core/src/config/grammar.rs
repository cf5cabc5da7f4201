//! The texts that are neither plain numbers nor plain words: CPU sets, the histogram, algorithm
//! lists, per-priority arrays and the named choices (`facts/config/rules.md` sections 3 and 6 to 10).

use super::{
    parse::{Ints, Reason, Value, excerpt, number, show_ints, utf8},
    record::{Histogram, Zero},
};
use crate::device::product::{self, PRODUCTS, Product};
use std::borrow::Cow;

/// Refuse a number that a set names twice.
fn distinct(list: &[i32]) -> Result<(), Reason> {
    let mut sorted = list.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Reason::new(format!("names {} twice", pair[0]))),
        None => Ok(()),
    }
}

/// The numbers of a set, each below `limit` and named once.
fn set(text: &[u8], limit: i32, what: &str) -> Result<Vec<i32>, Reason> {
    let Ints(list) = Ints::parse(text)?;
    if let Some(big) = list.iter().find(|&&number| number >= limit) {
        return Err(Reason::rule(
            format!("names {what} {big}"),
            format!("{what} numbers from 0 to {}, as in 0,2,4-7", limit - 1),
        ));
    }
    distinct(&list)?;
    Ok(list)
}

/// CPUs as a `cpu_set_t`: bit n is CPU n, 1024 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct CpuSet(pub(crate) [u64; 16]);

impl Value for CpuSet {
    fn form() -> Cow<'static, str> {
        "CPU numbers from 0 to 1023, as in 40-47,88-95".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let mut mask = [0; 16];
        for cpu in set(text, 1024, "CPU")? {
            mask[cpu as usize / 64] |= 1 << (cpu % 64);
        }
        Ok(CpuSet(mask))
    }

    fn show(&self) -> String {
        let cpus: Vec<i32> = (0..1024).filter(|cpu| self.0[*cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect();
        show_ints(&cpus)
    }
}

impl Value for Histogram {
    fn form() -> Cow<'static, str> {
        "bucket_usecs num_buckets per_neff_warmup warmup output_path, split by spaces or by commas".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let text = utf8(text)?;
        let tokens: Vec<&str> = if text.contains(',') {
            text.split(',').map(str::trim_ascii).collect()
        } else {
            text.split_ascii_whitespace().collect()
        };
        let [bucket, buckets, per_neff, warmup, path] = tokens[..] else {
            return Err(Reason::new(format!("has {} items in place of five", tokens.len())));
        };
        if path.is_empty() || path.contains(|c: char| c.is_ascii_whitespace()) {
            return Err(Reason::new("has an output path that is empty or holds a space"));
        }
        let mut record = Histogram { enable: true, ..Histogram::ZERO };
        // One byte stays for the NUL.
        if path.len() >= record.output_path.len() {
            return Err(Reason::rule(
                format!("is refused: Output path too long ({} bytes)", path.len()),
                "a path of at most 127 bytes",
            ));
        }
        record.output_path[..path.len()].copy_from_slice(path.as_bytes());
        let count = |text: &str| {
            number(text.as_bytes(), 0, u64::MAX.into()).map(|value| value as u64).map_err(|_| {
                Reason::new(format!("has the item \"{}\", which is not a count", excerpt(text.as_bytes())))
            })
        };
        record.bucket_usecs = count(bucket)?;
        record.num_buckets = count(buckets)?;
        record.per_neff_warmup = count(per_neff)?;
        record.warmup = count(warmup)?;
        Ok(record)
    }

    fn show(&self) -> String {
        if !self.enable {
            return "(off)".into();
        }
        let path = self.output_path.split(|byte| *byte == 0).next().unwrap_or_default();
        let Histogram { bucket_usecs, num_buckets, per_neff_warmup, warmup, .. } = self;
        format!("{bucket_usecs} {num_buckets} {per_neff_warmup} {warmup} {}", excerpt(path))
    }
}

/// Collective algorithms, `enc_alg_type` in order; a text adds `_ALG` to the name.
const ALGORITHMS: [&str; 11] = [
    "RING",
    "HIER",
    "MESH",
    "KANGARING",
    "SINGLE_CYCLE_RING",
    "INTRA_RDH",
    "SINGLE_STEP_MESH",
    "INTER_RDH",
    "TWO_STEP_POD_MESH",
    "LATENCY_OPT_MESH",
    "BW_OPT_MESH",
];

/// Allowed collective algorithms: bit `algorithm + 11 * communicator`, two communicators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct AlgMask(pub(crate) u32);

impl AlgMask {
    /// Every algorithm on both communicators: 22 bits.
    pub(crate) const ALL: AlgMask = AlgMask(0x3F_FFFF);
}

impl Value for AlgMask {
    fn form() -> Cow<'static, str> {
        format!("names to allow, or names each after ^ to exclude, split by commas: {}_ALG", ALGORITHMS.join("_ALG, "))
            .into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let mut named = AlgMask(0);
        let mut excluding = None;
        for item in utf8(text)?.split(',').map(str::trim_ascii) {
            let (caret, name) = item.strip_prefix('^').map_or((false, item), |name| (true, name));
            let found = ALGORITHMS.iter().position(|known| {
                let stem = name.len().checked_sub("_ALG".len()).and_then(|at| name.split_at_checked(at));
                stem.is_some_and(|(stem, tail)| stem.eq_ignore_ascii_case(known) && tail.eq_ignore_ascii_case("_ALG"))
            });
            let bit = found
                .ok_or_else(|| Reason::new(format!("names \"{}\", which is no algorithm", excerpt(item.as_bytes()))))?;
            if *excluding.get_or_insert(caret) != caret {
                return Err(Reason::new("mixes names to allow with names to exclude"));
            }
            named.0 |= 1 << bit | 1 << (bit + ALGORITHMS.len());
        }
        Ok(if excluding == Some(true) { AlgMask(AlgMask::ALL.0 & !named.0) } else { named })
    }

    fn show(&self) -> String {
        if *self == AlgMask::ALL {
            return "all".into();
        }
        let allowed: Vec<&str> =
            (0..ALGORITHMS.len()).filter(|bit| self.0 >> bit & 1 == 1).map(|bit| ALGORITHMS[bit]).collect();
        if allowed.is_empty() { "none".into() } else { allowed.join(",") }
    }
}

/// Five numbers, one per DMA priority (or per engine): a single one fills all.
fn five(text: &[u8]) -> Result<[i32; 5], Reason> {
    let Ints(list) = Ints::parse(text)?;
    match list[..] {
        [one] => Ok([one; 5]),
        [a, b, c, d, e] => Ok([a, b, c, d, e]),
        _ => Err(Reason::new(format!("has {} numbers", list.len()))),
    }
}

impl Value for [u32; 5] {
    fn form() -> Cow<'static, str> {
        "one number for all, or five split by commas".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        five(text).map(|list| list.map(|number| number as u32))
    }

    fn show(&self) -> String {
        self.map(|number| number.to_string()).join(",")
    }
}

/// Instruction block bytes per engine; the text is in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct IramBlocks(pub(crate) [u64; 5]);

impl Value for IramBlocks {
    fn form() -> Cow<'static, str> {
        "one size in KiB for all engines, or five split by commas, each a power of two".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let sizes = five(text)?.map(|kib| (kib as u64) << 10);
        match sizes.iter().find(|size| !size.is_power_of_two()) {
            Some(size) => Err(Reason::new(format!("has the size {}, which is no power of two", size >> 10))),
            None => Ok(IramBlocks(sizes)),
        }
    }

    fn show(&self) -> String {
        self.0.map(|bytes| bytes.to_string()).join(",")
    }
}

/// Instruction fetch over host-to-device rings: a switch, or a list of bit numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct FetchBits(pub(crate) u32);

impl Value for FetchBits {
    fn form() -> Cow<'static, str> {
        "0, 1, true or false, or a list of bit numbers from 0 to 31, as in 0,2-4".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        if let Ok(on) = bool::parse(text) {
            return Ok(FetchBits(on.into()));
        }
        Ok(FetchBits(set(text, 32, "bit")?.iter().fold(0, |bits, bit| bits | 1 << bit)))
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// Whether models of an older architecture may load: officially a switch, stored as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct LegacyNeff(pub(crate) u32);

impl Value for LegacyNeff {
    fn form() -> Cow<'static, str> {
        "true, false or a whole number".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        match bool::parse(text) {
            Ok(on) => Ok(LegacyNeff(on.into())),
            Err(_) => u32::parse(text).map(LegacyNeff).map_err(|_| Reason::new("is neither a switch nor a number")),
        }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A value with a short list of names, matched in any letter case.
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $ty:ident : $($(#[$item:meta])* $variant:ident = $number:literal as $($name:literal)|+,)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u32)]
        $vis enum $ty { $($(#[$item])* $variant = $number,)+ }

        impl Value for $ty {
            fn form() -> Cow<'static, str> {
                let names: &[&str] = &[$($($name,)+)+];
                format!("one of {}", names.join(", ")).into()
            }

            fn parse(text: &[u8]) -> Result<Self, Reason> {
                $($(if text.eq_ignore_ascii_case($name.as_bytes()) { return Ok($ty::$variant); })+)+
                Err(Reason::new("is not a known name"))
            }

            fn show(&self) -> String {
                let name = match self { $($ty::$variant => [$($name),+][0],)+ };
                let number = (*self as u32).to_string();
                if name == number { number } else { format!("{name} ({number})") }
            }
        }
    };
}

named! {
    /// Which numerical notices are reported (`numerical_error_notification_verbosity_t`).
    pub(crate) enum Verbosity:
    None = 0 as "none",
    Critical = 1 as "critical",
    Debug = 2 as "debug",
    Verbose = 3 as "verbose",
}

named! {
    /// Device profile mode of an inspection (`nrt_inspect_device_profile_mode_t`).
    pub enum DeviceProfile:
    /// No device profile.
    Disabled = 0 as "0",
    /// One profile per model.
    Model = 1 as "1" | "model",
    /// One profile for the whole session.
    Session = 2 as "session",
}

/// Shape of an UltraServer (`neuron_ultraserver_mode`), given as its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u32)]
pub(crate) enum UltraserverMode {
    Unset = 0,
    X4 = 1,
    X2H = 2,
    X2V = 3,
    X1 = 4,
}

impl Value for UltraserverMode {
    fn form() -> Cow<'static, str> {
        "0 (unset), 1 (four nodes), 2 or 3 (two nodes, horizontal or vertical links) or 4 (one node)".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let number = u32::parse(text)?;
        UltraserverMode::from_repr(number).ok_or(Reason::new("is no UltraServer mode"))
    }

    fn show(&self) -> String {
        (*self as u32).to_string()
    }
}

/// The simulated product; an empty text means not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fake(pub(crate) Option<&'static Product>);

impl Value for Fake {
    fn form() -> Cow<'static, str> {
        let names: Vec<&str> = PRODUCTS.iter().map(|product| product.name).collect();
        format!("one of {}", names.join(", ")).into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        if text.is_empty() {
            return Ok(Fake(None));
        }
        let found = std::str::from_utf8(text).ok().and_then(product::find);
        found.map(|product| Fake(Some(product))).ok_or(Reason::new("is no instance type that can be simulated"))
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| super::parse::UNSET.into(), |product| product.name.into())
    }
}

/// A log level. The log reads the variable by itself; this knows which texts it understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLevel(pub(crate) &'static str);

impl Value for LogLevel {
    fn form() -> Cow<'static, str> {
        "ERROR, WARN, INFO, DEBUG or TRACE".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let text = text.to_ascii_uppercase();
        ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"]
            .into_iter()
            .find(|level| holds(&text, level))
            .map(LogLevel)
            .ok_or(Reason::new("names no log level, so ERROR holds"))
    }

    fn show(&self) -> String {
        self.0.into()
    }
}

/// Where the log goes. As [`LogLevel`], read by the log itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLocation(pub(crate) &'static str);

impl Value for LogLocation {
    fn form() -> Cow<'static, str> {
        "CONSOLE, SYSLOG or both".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let text = text.to_ascii_uppercase();
        match (holds(&text, "SYSLOG"), holds(&text, "CONSOLE")) {
            (true, true) => Ok(LogLocation("SYSLOG,CONSOLE")),
            (true, false) => Ok(LogLocation("SYSLOG")),
            (false, true) => Ok(LogLocation("CONSOLE")),
            (false, false) => Err(Reason::new("names no log location, so CONSOLE holds")),
        }
    }

    fn show(&self) -> String {
        self.0.into()
    }
}

fn holds(text: &[u8], word: &str) -> bool {
    text.windows(word.len()).any(|window| window == word.as_bytes())
}

/// The cores an inspection traces, by logical core number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreFilter(pub [bool; 256]);

impl Value for CoreFilter {
    fn form() -> Cow<'static, str> {
        "core numbers from 0 to 255, as in 0,2,4 or 0-3".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let mut cores = [false; 256];
        for core in set(text, 256, "core")? {
            cores[core as usize] = true;
        }
        Ok(CoreFilter(cores))
    }

    fn show(&self) -> String {
        if self.0.iter().all(|on| *on) {
            return "all".into();
        }
        show_ints(&(0..256).filter(|core| self.0[*core as usize]).collect::<Vec<_>>())
    }
}

/// The 46 kinds of system trace events in number order (`facts/abi/enums.tsv`).
pub(crate) const EVENT_TYPES: [&str; 46] = [
    "generic",
    "model_load",
    "post_request",
    "execute_api",
    "runtime_execute",
    "cc_load",
    "cc_exec_barrier",
    "device_exec",
    "cc_exec",
    "tensor_read",
    "tensor_write",
    "tensor_read_batch",
    "tensor_write_batch",
    "num_err",
    "enc_barrier_recv",
    "enc_barrier_send",
    "enc_barrier",
    "exec_pre",
    "exec_core",
    "exec_wait",
    "exec_post",
    "model_switch",
    "model_submit",
    "async_sema_wait",
    "hw_notify",
    "timestamp_sync",
    "nc_model_switch",
    "tensor_alloc",
    "tensor_free",
    "tensor_block_while_exec",
    "dmem_buf_copyin",
    "dmem_buf_copyout",
    "dmem_buf_batch_copyin",
    "dmem_buf_batch_copyout",
    "dma_mem_alloc",
    "dma_mem_dealloc",
    "consume_tpb_status_notifications",
    "consume_topsp_cc_notifications",
    "consume_error_notifications",
    "consume_pool_stdio",
    "cc_prepare",
    "cc_schedule",
    "hostcc_build_context",
    "hostcc_load",
    "hostcc_exec",
    "hostcc_wait",
];

/// The event numbers the hardware makes; all others are software events.
pub(crate) const HARDWARE_EVENTS: [usize; 7] = [6, 7, 8, 13, 24, 25, 26];

/// The kinds of events an inspection keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter(pub [bool; 46]);

impl Value for EventFilter {
    fn form() -> Cow<'static, str> {
        "event names, hardware or software, split by commas, each after ^ to exclude it".into()
    }

    fn parse(text: &[u8]) -> Result<Self, Reason> {
        let text = utf8(text)?;
        // A list that starts by excluding something excludes it from everything.
        let mut kept = [text.trim_ascii_start().starts_with('^'); 46];
        for item in text.split(',').map(str::trim_ascii) {
            let (keep, name) = item.strip_prefix('^').map_or((true, item), |name| (false, name));
            let mut found = false;
            for (number, known) in EVENT_TYPES.iter().enumerate() {
                let group = if HARDWARE_EVENTS.contains(&number) { "hardware" } else { "software" };
                if name.eq_ignore_ascii_case(known) || name.eq_ignore_ascii_case(group) {
                    kept[number] = keep;
                    found = true;
                }
            }
            if !found {
                return Err(Reason::new(format!("names \"{}\", which is no event", excerpt(item.as_bytes()))));
            }
        }
        Ok(EventFilter(kept))
    }

    fn show(&self) -> String {
        if self.0.iter().all(|on| *on) {
            return "all".into();
        }
        let kept: Vec<&str> = (0..46).filter(|&number| self.0[number]).map(|number| EVENT_TYPES[number]).collect();
        if kept.is_empty() { "none".into() } else { kept.join(",") }
    }
}
