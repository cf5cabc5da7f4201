//! The texts with a grammar of their own: CPU sets, the histogram, algorithm lists and the arrays
//! with one number per priority or engine (`facts/config/rules.md` sections 3 and 6 to 8).

use super::{
    parse::{Ints, Reason, Value, excerpt, number, show_ints, utf8},
    record::{Histogram, Zero},
};
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
pub(crate) fn set(text: &[u8], limit: i32, what: &str) -> Result<Vec<i32>, Reason> {
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
