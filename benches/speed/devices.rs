//! The library on the device files of a published instance, and the same requests without the library.

use crate::cases::{allocate, close, free, init, write};
use crate::emu::{self, Served};
use crate::library::Nrt;
use crate::ratios::{Judge, Ratios, time};
use crate::shared::Shared;
use neuron_abi::kernel::args::{MemBufCopy64zc, Wire};
use neuron_abi::kernel::ioctl::{Op, row};
use neuron_abi::kernel::values::H2T_DEFAULT_QID;
use neuron_driver::requests::Kind;
use neuron_driver::{Driver, File, InProcess, KernelBackend, Mode};
use neuron_kmd::time::RealClock;
use neuron_kmd::{LoadConfig, instance};
use std::fs;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

/// 16 devices.
const PRODUCT: &str = "trn2.48xlarge";
/// Bytes of a copy.
const COPIED: usize = 64 << 10;
/// Bytes of a large one, and how often it is measured: each takes tens of milliseconds.
const LARGE: usize = 64 << 20;
const LARGE_ROUNDS: usize = 51;

/// The instance, published as device files and modelled in this process.
pub struct Machine {
    nrt: Nrt,
    files: KernelBackend,
    model: InProcess,
    served: Served,
}

impl Machine {
    /// Publish the instance; from here on new copies of the library find it. `None`, with a remark, where nothing can
    /// be mounted.
    pub fn publish(library: &Path, folder: &Path) -> Option<Machine> {
        let Some(served) = Served::start(&emu::program(), PRODUCT, &[]) else {
            println!("The ratios on device files are left out: run as root where /dev/fuse is.");
            return None;
        };
        // SAFETY: no other thread of this process uses the environment.
        unsafe {
            std::env::remove_var("NEURON_RT_FAKE_INSTANCE_TYPE");
            std::env::set_var("NEURON_RT_RESET_CORES", "0");
            served.variables().iter().for_each(|(name, value)| std::env::set_var(name, value));
        }
        // A library that has simulated an instance once does so to the end of its process, hence a second copy of it.
        let copy = folder.join("libnrt-devices.so");
        fs::copy(library, &copy).expect("the folder is ours");
        let nrt = Nrt::of(Shared::open(&copy));
        let files = KernelBackend::new(served.dev(), served.sys());
        Some(Machine { nrt, files, model: model(), served })
    }

    /// Hand all cases to `judge`. Both copies of the library are down before and after.
    pub fn all(&self, simulated: &Nrt, judge: &mut impl Judge) {
        self.ioctl(judge);
        // With the end, without which there is no second init.
        let cycle = |nrt| {
            init(nrt);
            close(nrt);
        };
        judge.case("nrt_init_16_devices_fuse_vs_simulated", None, || cycle(&self.nrt), || cycle(simulated));
        init(&self.nrt);
        self.copy(judge);
        close(&self.nrt);
    }

    /// 64 MiB to and from the memory of a device, against copying them from one warm buffer to another. The library is
    /// down before and after.
    pub fn large(&self, ratios: &mut Ratios) {
        init(&self.nrt);
        let mut tensor = allocate(&self.nrt, LARGE);
        let (data, mut out) = (vec![0x5au8; LARGE], vec![0u8; LARGE]);
        write(&self.nrt, tensor, &data);
        let read = |out: &mut [u8]| {
            // SAFETY: the buffer has the length that is told.
            let status = unsafe { (self.nrt.nrt_tensor_read)(tensor, out.as_mut_ptr().cast(), 0, out.len()) };
            assert_eq!(status, 0, "a call that is measured failed");
        };
        read(&mut out);
        assert!(out == data, "what was written is read");
        let mut copied = vec![0u8; LARGE];
        let mut memcpy = || time(&mut || copied.copy_from_slice(black_box(&data)), 1);
        memcpy();
        let written = || time(&mut || write(&self.nrt, tensor, &data), 1);
        ratios.add("emulated_write_64MiB_vs_memcpy", Some(2.0), LARGE_ROUNDS, written, &mut memcpy);
        let read = || time(&mut || read(&mut out), 1);
        ratios.add("emulated_read_64MiB_vs_memcpy", None, LARGE_ROUNDS, read, &mut memcpy);
        free(&self.nrt, &mut tensor);
        close(&self.nrt);
    }

    /// DEVICE_BASIC_INFO, the smallest request there is.
    fn ioctl(&self, judge: &mut impl Judge) {
        let file = self.files.open(0, Mode::Full).expect("the instance is published");
        let model = self.model.open(0, Mode::Full).expect("the model is loaded");
        let ask = |file: &dyn File| {
            black_box(file.identity().expect("every device knows who it is"));
        };
        let getppid = || {
            // SAFETY: no precondition.
            black_box(unsafe { libc::getppid() });
        };
        judge.case("ioctl_fuse_vs_getppid", None, || ask(&*file), getppid);
        judge.case("ioctl_fuse_vs_in_process", None, || ask(&*file), || ask(&*model));
    }

    /// What the library adds to the one command a write to a tensor is.
    fn copy(&self, judge: &mut impl Judge) {
        let data = vec![0x5au8; COPIED];
        let file = self.files.open(0, Mode::Full).expect("the instance is published");
        let mem_handle = file.allocate(Kind::Device, 0, 0, COPIED as u64).expect("the device has memory");
        let raw = fs::File::options().read(true).write(true).open(self.served.dev().join("neuron0"));
        let raw = raw.expect("the instance is published");
        let mut image = [0; MemBufCopy64zc::SIZE];
        let buffer = data.as_ptr().expose_provenance() as u64;
        MemBufCopy64zc {
            mem_handle,
            buffer,
            size: COPIED as u64,
            is_copy_to_device: 1,
            h2t_qid: H2T_DEFAULT_QID,
            ..Default::default()
        }
        .put(&mut image);
        let command = row(Op::MemBufZerocopy64Zc).cmd;
        let ioctl = || {
            // SAFETY: the image is the argument of the command, and the address in it that of as many bytes.
            assert_eq!(unsafe { libc::ioctl(raw.as_raw_fd(), command.into(), black_box(image.as_mut_ptr())) }, 0);
        };
        let mut tensor = allocate(&self.nrt, COPIED);
        judge.case("libnrt_write_vs_raw_ioctls", Some(1.1), || write(&self.nrt, tensor, &data), ioctl);
        free(&self.nrt, &mut tensor);
        file.free(mem_handle).expect("it was just taken");
    }
}

/// The same instance without device files.
fn model() -> InProcess {
    let (clock, product) = (RealClock::new(), neuron_abi::product::find(PRODUCT).expect("a product of the table"));
    let bus = instance::bus(product, None, &(clock.clone() as Arc<_>)).expect("memory for the devices");
    let config = LoadConfig { product: product.name.into(), ..LoadConfig::default() };
    InProcess::new(neuron_kmd::Driver::load(&config, &bus, clock).expect("a driver"))
}
