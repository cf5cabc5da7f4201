//! The bus of a product: which devices an instance has, and what their firmware says.

use std::io;
use std::sync::Arc;

use neuron_abi::kernel::pci;
use neuron_abi::kernel::sysfs::DMI_PLATFORMS;
use neuron_abi::kernel::values::Platform;
use neuron_abi::product::Product;
use neuron_hw::pci::Bdf;
use neuron_hw::regs::misc;
use neuron_hw::{Fault, Host, Silicon, SiliconSpec};

use crate::time::Clock;

/// Host memory each device can address, sparse: more than any host gives to one device's pool.
const HOST_BYTES: u64 = 1 << 36;

/// Makes the devices of a product and places their windows. A driver that is loaded on them
/// numbers them 0 to `devices - 1`, in bus order.
///
/// `hbm_mib` is the memory of one device; `None` is what the product has, and more than that
/// cannot be had.
///
/// # Errors
/// What the system says when the memory cannot be set up.
pub fn bus(product: &Product, hbm_mib: Option<u32>, clock: &Arc<dyn Clock>) -> io::Result<Vec<Arc<Silicon>>> {
    let bus = devices(product, hbm_mib, clock, |_| Host::Ram(HOST_BYTES))?;
    neuron_hw::pci::assign(&bus);
    Ok(bus)
}

/// Makes the devices of a product, with the host memory that `host` gives for each device index
/// and with no place for their windows: a virtual machine places them itself.
///
/// # Errors
/// As [`bus`].
pub fn devices(
    product: &Product,
    hbm_mib: Option<u32>,
    clock: &Arc<dyn Clock>,
    mut host: impl FnMut(u32) -> Host,
) -> io::Result<Vec<Arc<Silicon>>> {
    let device = product.pci_device();
    let base = SiliconSpec::product(device).expect("every product has a modelled device");
    let channels = (u64::from(product.hbm_mib) << 20) / base.channel_bytes;
    let channel_bytes = hbm_mib.map_or(base.channel_bytes, |mib| (u64::from(mib) << 20) / channels);
    let platform =
        DMI_PLATFORMS.iter().find(|(name, ..)| product.name.starts_with(name)).map(|(_, platform, _)| *platform);
    let mut bus = Vec::new();
    for index in 0..product.devices {
        let routing_id = pci::routing_id(device, index);
        let spec = SiliconSpec {
            bdf: Bdf { slot: index as u8 + 1, ..Bdf::default() },
            routing_id,
            serial: base.serial + u64::from(index),
            channel_bytes,
            ..base
        };
        let clock: Arc<dyn neuron_hw::Clock> = clock.clone();
        let silicon = Silicon::new(spec, host(index), clock)?;
        if platform == Some(Platform::Pds) {
            // Firmware of a switched pod publishes the id elsewhere, with a valid bit.
            silicon.inject(Fault::MiscRegister { offset: misc::SERVER_INFO, value: 0x8000 | routing_id });
        }
        bus.push(Arc::new(silicon));
    }
    Ok(bus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::RealClock;
    use crate::{Driver, LoadConfig, Profile};
    use neuron_abi::product::PRODUCTS;

    #[test]
    fn every_product_gives_devices_without_holes_and_its_own_topology() {
        for product in PRODUCTS {
            let clock: Arc<dyn Clock> = RealClock::new();
            let bus = bus(product, Some(256), &clock).expect("memory");
            assert_eq!(bus.len(), product.devices as usize, "{}", product.name);
            let config =
                LoadConfig { profile: Profile::default(), params: "no_reset=1".into(), product: product.name.into() };
            let driver = Driver::load(&config, &bus, clock).expect("load");
            let found: Vec<_> = driver.devices().iter().map(|d| d.index).collect();
            assert_eq!(found, (0..product.devices).collect::<Vec<_>>(), "{}: {:?}", product.name, driver.failures());
            for device in driver.devices() {
                assert_eq!(device.dhal.core_count(), product.cores_per_device, "{}", product.name);
            }
            driver.unload();
        }
    }

    #[test]
    fn memory_is_split_over_the_channels() {
        let clock: Arc<dyn Clock> = RealClock::new();
        for (name, mib, channel) in [
            ("trn1.2xlarge", None, 16 << 30),
            ("trn2.3xlarge", Some(4096), 1 << 30),
            ("trn3pd98.3xlarge", None, 36 << 30),
        ] {
            let product = neuron_abi::product::find(name).expect("a product");
            let bus = bus(product, mib, &clock).expect("memory");
            assert_eq!(bus[0].channel_bytes(), channel, "{name}");
        }
    }
}
