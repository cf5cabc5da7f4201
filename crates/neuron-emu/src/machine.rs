//! The machine that is published: a product, its devices, the driver loaded on them.

use std::io;
use std::sync::Arc;

use neuron_abi::product::{self, PRODUCTS, Product};
use neuron_hw::Silicon;
use neuron_kmd::time::{Clock, RealClock};
use neuron_kmd::{Driver, LoadConfig, Profile, instance};

use crate::faults::{FaultError, Order};

/// What to publish.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Product name, such as `trn1.32xlarge`.
    pub instance: String,
    /// Driver release.
    pub driver: Profile,
    /// Memory of one device; `None` is what the product has.
    pub hbm_mib: Option<u32>,
    /// Faults from the start.
    pub faults: Vec<Order>,
    /// Module parameters, `name=value` words.
    pub params: String,
}

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No such product.
    #[error("there is no instance type {0:?}; use one of {1}")]
    Instance(String, String),
    /// A size that cannot be had.
    #[error(
        "{asked} MiB of device memory cannot be had on {instance}; use {low} to {high} MiB with --hbm-gib or OPENNRT_HBM_MIB"
    )]
    Memory {
        /// MiB asked for.
        asked: u32,
        /// Product.
        instance: &'static str,
        /// Smallest size, MiB.
        low: u32,
        /// Largest size, MiB.
        high: u32,
    },
    /// The driver does not know the devices.
    #[error("driver {driver} does not know the devices of {instance}; use --driver 2.26.5 or 2.27.4")]
    Unknown {
        /// Release.
        driver: &'static str,
        /// Product.
        instance: &'static str,
    },
    /// A fault for a device that is not there.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The system refuses.
    #[error(
        "the memory of {instance} cannot be set up: {error}; raise the limits on address space or use --hbm-gib with a smaller size"
    )]
    System {
        /// Product.
        instance: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The driver does not load.
    #[error("the driver does not load: {0}")]
    Load(String),
}

/// A product with a loaded driver.
pub struct Machine {
    /// The product.
    pub product: &'static Product,
    /// Its devices, in bus order.
    pub bus: Vec<Arc<Silicon>>,
    /// The driver.
    pub driver: Arc<Driver>,
    /// Its time.
    pub clock: Arc<dyn Clock>,
}

/// Smallest device memory, MiB: the reserved part, the small pool and some room for each channel.
const SMALLEST_MIB: u32 = 1 << 10;

/// The product of this name, when its devices can have that much memory.
pub(crate) fn product(name: &str, hbm_mib: Option<u32>) -> Result<&'static Product, MachineError> {
    let product = product::find(name).ok_or_else(|| {
        let names: Vec<_> = PRODUCTS.iter().map(|p| p.name).collect();
        MachineError::Instance(name.chars().take(60).collect(), names.join(", "))
    })?;
    match hbm_mib.filter(|mib| !(SMALLEST_MIB..=product.hbm_mib).contains(mib)) {
        Some(asked) => {
            let (low, high) = (SMALLEST_MIB, product.hbm_mib);
            Err(MachineError::Memory { asked, instance: product.name, low, high })
        }
        None => Ok(product),
    }
}

impl Machine {
    /// Makes the devices, gives them their faults and loads the driver. Takes as long as the
    /// probes do: at once, unless a fault keeps them waiting.
    ///
    /// # Errors
    /// See [`MachineError`].
    pub fn new(wanted: &Wanted) -> Result<Self, MachineError> {
        let product = product(&wanted.instance, wanted.hbm_mib)?;
        let id = neuron_abi::kernel::pci::VENDOR;
        if neuron_abi::kernel::pci::find(id, product.pci_device(), wanted.driver.release()).is_none() {
            return Err(MachineError::Unknown { driver: wanted.driver.version(), instance: product.name });
        }
        let clock: Arc<dyn Clock> = RealClock::new();
        let bus = instance::bus(product, wanted.hbm_mib, &clock)
            .map_err(|error| MachineError::System { instance: product.name, error })?;
        for order in &wanted.faults {
            inject(&bus, order)?;
        }
        let config =
            LoadConfig { profile: wanted.driver, params: wanted.params.clone(), product: product.name.to_owned() };
        let driver =
            Driver::load(&config, &bus, clock.clone()).map_err(|stop| MachineError::Load(format!("{stop:?}")))?;
        Ok(Self { product, bus, driver, clock })
    }

    /// Gives a fault to the devices it is for, at run time.
    ///
    /// # Errors
    /// [`FaultError::NoDevice`], [`FaultError::TooLate`].
    pub fn fault(&self, order: &Order) -> Result<(), FaultError> {
        if order.only_at_load() {
            return Err(FaultError::TooLate(order.text.clone()));
        }
        inject(&self.bus, order)
    }
}

/// Gives a fault to the devices it is for.
pub(crate) fn inject(bus: &[Arc<Silicon>], order: &Order) -> Result<(), FaultError> {
    for target in order.targets(bus.len())? {
        bus[target].inject(order.fault);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(instance: &str) -> Wanted {
        let faults = Vec::new();
        Wanted { instance: instance.into(), driver: Profile::default(), hbm_mib: None, faults, params: String::new() }
    }

    #[test]
    fn what_cannot_be_published_is_refused_with_the_next_step() {
        let error = |wanted: &Wanted| Machine::new(wanted).err().expect("refused").to_string();
        assert!(error(&wanted("trn9.xlarge")).contains("use one of inf2.xlarge, "));
        let old = Wanted { driver: Profile::V2_24_7, ..wanted("trn3.48xlarge") };
        assert!(error(&old).contains("use --driver 2.26.5 or 2.27.4"));
        let small = Wanted { hbm_mib: Some(1), ..wanted("trn1.2xlarge") };
        assert!(error(&small).contains("use 1024 to 32768"));
        let elsewhere = Wanted { faults: vec!["dma-stuck@1".parse().expect("a fault")], ..wanted("trn1.2xlarge") };
        assert!(error(&elsewhere).contains("devices 0 to 0"));
        let params = Wanted { params: "no_reset=x".into(), ..wanted("trn1.2xlarge") };
        assert!(error(&params).contains("EINVAL"));
    }

    #[test]
    fn a_fault_of_the_probe_comes_too_late_at_run_time() {
        let machine = Machine::new(&wanted("trn1.2xlarge")).expect("a machine");
        let order = |text: &str| text.parse::<Order>().expect("a fault");
        assert_eq!(machine.fault(&order("no-dram-bar")), Err(FaultError::TooLate("no-dram-bar".into())));
        assert_eq!(machine.fault(&order("reset-no-ack")), Ok(()));
        machine.driver.unload();
    }
}
