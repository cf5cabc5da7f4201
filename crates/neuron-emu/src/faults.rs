//! What a device can be told to do: `KIND[:ARGS][@DEVICES]`.

use std::str::FromStr;
use std::time::Duration;

use neuron_hw::Fault;

/// A fault and the devices it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// The words it was made from.
    pub text: String,
    /// What to do.
    pub fault: Fault,
    /// Device numbers in bus order; `None` means all.
    pub devices: Option<Vec<u32>>,
}

/// A kind of fault.
struct Kind {
    name: &'static str,
    /// Arguments as the help shows them.
    args: &'static str,
    /// Whether it acts only while a driver is being loaded.
    at_load: bool,
    effect: &'static str,
    make: fn(&[u64]) -> Option<Fault>,
    /// What undoes it, for `KIND:off`.
    off: Option<Fault>,
}

/// All kinds, by name.
static KINDS: &[Kind] = &[
    Kind {
        name: "clear",
        args: "",
        at_load: false,
        effect: "everything back to normal; an acknowledgement that is held is given",
        make: |args| args.is_empty().then_some(Fault::Clear),
        off: None,
    },
    Kind {
        name: "dead-registers",
        args: "",
        at_load: false,
        effect: "every register reads as dead",
        make: |args| args.is_empty().then_some(Fault::DeadRegisters(true)),
        off: Some(Fault::DeadRegisters(false)),
    },
    Kind {
        name: "dma-stuck",
        args: "",
        at_load: false,
        effect: "DMA engines ignore doorbells",
        make: |args| args.is_empty().then_some(Fault::DmaStuck(true)),
        off: Some(Fault::DmaStuck(false)),
    },
    Kind {
        name: "hbm-ue",
        args: "[:CHANNEL[,COUNT]]",
        at_load: false,
        effect: "adds uncorrectable errors to a memory channel (default channel 0, 1 error)",
        make: |args| {
            let channel = u32::try_from(args.first().copied().unwrap_or(0)).ok().filter(|c| *c < 4)?;
            let count = u16::try_from(args.get(1).copied().unwrap_or(1)).ok()?;
            (args.len() <= 2).then_some(Fault::HbmUncorrectable { channel, count })
        },
        off: None,
    },
    Kind {
        name: "mailbox-silent",
        args: "",
        at_load: false,
        effect: "the firmware answers no mailbox request",
        make: |args| args.is_empty().then_some(Fault::MailboxSilent(true)),
        off: Some(Fault::MailboxSilent(false)),
    },
    Kind {
        name: "misc-register",
        args: ":OFFSET,VALUE",
        at_load: false,
        effect: "writes a word of the firmware mailbox",
        make: |args| match *args {
            [offset, value] if offset < 4096 && offset % 4 == 0 => {
                Some(Fault::MiscRegister { offset, value: u32::try_from(value).ok()? })
            }
            _ => None,
        },
        off: None,
    },
    Kind {
        name: "no-dram-bar",
        args: "",
        at_load: true,
        effect: "the memory window is missing",
        make: |args| args.is_empty().then_some(Fault::NoDramBar),
        off: None,
    },
    Kind {
        name: "reset-busy",
        args: "[:READS]",
        at_load: false,
        effect: "the status stays busy after a reset, for so many reads or for ever",
        make: |args| match *args {
            [] => Some(Fault::StatusStuck(true)),
            [reads] => Some(Fault::StatusBusyReads(u32::try_from(reads).ok()?)),
            _ => None,
        },
        off: Some(Fault::StatusStuck(false)),
    },
    Kind {
        name: "reset-busy-ms",
        args: ":MILLISECONDS",
        at_load: false,
        effect: "the status stays busy this long after a reset was acknowledged",
        make: |args| milliseconds(args).map(Fault::StatusBusyAfterAck),
        off: Some(Fault::StatusBusyAfterAck(Duration::ZERO)),
    },
    Kind {
        name: "reset-hold",
        args: ":MILLISECONDS",
        at_load: false,
        effect: "a reset is acknowledged this late",
        make: |args| milliseconds(args).map(Fault::AckHold),
        off: Some(Fault::AckHold(Duration::ZERO)),
    },
    Kind {
        name: "reset-no-ack",
        args: "",
        at_load: false,
        effect: "a reset is never acknowledged",
        make: |args| args.is_empty().then_some(Fault::NeverAck(true)),
        off: Some(Fault::NeverAck(false)),
    },
    Kind {
        name: "routing-id-busy",
        args: "[:READS]",
        at_load: true,
        effect: "the routing id is busy for so many reads, or for ever",
        make: |args| match *args {
            [] => Some(Fault::RoutingIdBusyReads(u32::MAX)),
            [reads] => Some(Fault::RoutingIdBusyReads(u32::try_from(reads).ok()?)),
            _ => None,
        },
        off: Some(Fault::RoutingIdBusyReads(0)),
    },
    Kind {
        name: "routing-id-wrong",
        args: "[:ID]",
        at_load: true,
        effect: "the routing id is this one (default 64, the first that no driver takes)",
        make: |args| match *args {
            [] => Some(Fault::RoutingId(neuron_abi::kernel::pci::MAX_ROUTING_ID)),
            [id] => Some(Fault::RoutingId(u32::try_from(id).ok()?)),
            _ => None,
        },
        off: None,
    },
];

fn milliseconds(args: &[u64]) -> Option<Duration> {
    match *args {
        [time] => Some(Duration::from_millis(time)),
        _ => None,
    }
}

/// Lines for the help: a kind with its arguments and what it does.
pub fn help() -> String {
    let line = |kind: &Kind| {
        let when = if kind.at_load { "; only at the start" } else { "" };
        format!("  {:<30} {}{when}\n", format!("{}{}", kind.name, kind.args), kind.effect)
    };
    let kinds: String = KINDS.iter().map(line).collect();
    format!(
        "Faults, KIND[:ARGS][@DEVICES]; DEVICES is a list like 0,3 (default all), KIND:off takes one back:\n{kinds}"
    )
}

/// A fault that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No such kind.
    #[error("there is no fault {0:?}; use one of {1}")]
    Kind(String, String),
    /// Wrong arguments.
    #[error("fault {0:?} has arguments that cannot be used; write it as {1}")]
    Arguments(String, String),
    /// Wrong devices.
    #[error("fault {0:?} has a bad device list; write @ and device numbers with commas, as in @0,3")]
    Devices(String),
    /// A device that is not there.
    #[error("fault {0:?} names device {1}, but the instance has devices 0 to {2}")]
    NoDevice(String, u32, usize),
    /// It would have no effect any more.
    #[error("fault {0:?} acts only while the driver looks for its devices; give it with --fault at the start")]
    TooLate(String),
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl FromStr for Order {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let short = || text.chars().take(60).collect::<String>();
        let (what, devices) = match text.split_once('@') {
            Some((what, list)) => {
                let devices: Option<Vec<u32>> = list.split(',').map(|d| d.parse().ok()).collect();
                (what, Some(devices.ok_or_else(|| FaultError::Devices(short()))?))
            }
            None => (text, None),
        };
        let (name, args) = what.split_once(':').map_or((what, None), |(name, args)| (name, Some(args)));
        let kind = KINDS.iter().find(|k| k.name == name).ok_or_else(|| {
            let names: Vec<_> = KINDS.iter().map(|k| k.name).collect();
            FaultError::Kind(short(), names.join(", "))
        })?;
        let wrong = || {
            let off = if kind.off.is_some() { format!(" or {name}:off") } else { String::new() };
            FaultError::Arguments(short(), format!("{name}{}{off}", kind.args))
        };
        let fault = match args {
            Some("off") => kind.off,
            None => (kind.make)(&[]),
            Some(args) => {
                let args: Option<Vec<u64>> = args.split(',').map(number).collect();
                args.and_then(|args| (kind.make)(&args))
            }
        };
        Ok(Self { text: text.to_owned(), fault: fault.ok_or_else(wrong)?, devices })
    }
}

impl Order {
    /// Whether it acts only while a driver is being loaded.
    pub fn only_at_load(&self) -> bool {
        let name = self.text.split([':', '@']).next().unwrap_or_default();
        KINDS.iter().any(|k| k.name == name && k.at_load)
    }

    /// The devices it is for, of `count`.
    ///
    /// # Errors
    /// [`FaultError::NoDevice`].
    pub fn targets(&self, count: usize) -> Result<Vec<usize>, FaultError> {
        let Some(devices) = &self.devices else { return Ok((0..count).collect()) };
        match devices.iter().find(|d| **d as usize >= count) {
            Some(missing) => Err(FaultError::NoDevice(self.text.clone(), *missing, count.saturating_sub(1))),
            None => Ok(devices.iter().map(|d| *d as usize).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sorted_and_every_one_of_the_contract_is_there() {
        assert!(KINDS.windows(2).all(|w| w[0].name < w[1].name));
        for name in ["reset-no-ack", "reset-busy", "routing-id-busy", "dma-stuck", "no-dram-bar", "hbm-ue"] {
            assert!(name.parse::<Order>().is_ok(), "{name}");
        }
    }

    #[test]
    fn arguments_and_devices_are_read() {
        let order = |text: &str| text.parse::<Order>().map(|o| (o.fault, o.devices));
        assert_eq!(order("reset-busy"), Ok((Fault::StatusStuck(true), None)));
        assert_eq!(order("reset-busy:7@0,3"), Ok((Fault::StatusBusyReads(7), Some(vec![0, 3]))));
        assert_eq!(order("reset-no-ack:off@1"), Ok((Fault::NeverAck(false), Some(vec![1]))));
        assert_eq!(order("hbm-ue:2,9"), Ok((Fault::HbmUncorrectable { channel: 2, count: 9 }, None)));
        assert_eq!(order("misc-register:0x64,1"), Ok((Fault::MiscRegister { offset: 0x64, value: 1 }, None)));
        assert_eq!(order("reset-hold:250"), Ok((Fault::AckHold(Duration::from_millis(250)), None)));
    }

    #[test]
    fn bad_faults_are_refused_with_what_to_write() {
        for (text, part) in [
            ("", "use one of clear, dead-registers"),
            ("reset", "there is no fault"),
            ("reset-hold", "write it as reset-hold:MILLISECONDS or reset-hold:off"),
            ("reset-busy:x", "reset-busy[:READS]"),
            ("reset-busy:1,2", "reset-busy[:READS]"),
            ("clear:off", "write it as clear"),
            ("hbm-ue:4", "hbm-ue[:CHANNEL[,COUNT]]"),
            ("misc-register:2,1", "misc-register:OFFSET,VALUE"),
            ("dma-stuck@", "bad device list"),
            ("dma-stuck@1,", "bad device list"),
        ] {
            let error = text.parse::<Order>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let order: Order = "dma-stuck@2".parse().expect("a fault");
        assert_eq!(order.targets(2), Err(FaultError::NoDevice("dma-stuck@2".into(), 2, 1)));
        assert_eq!(order.targets(3), Ok(vec![2]));
    }
}
