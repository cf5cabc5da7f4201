//! Shared mappings: the server runs in the test, so that both sides of the memory can be looked at.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{Client, can_emulate, kill, raw_client};
use neuron_abi::kernel::args::{MemAllocV2MemType64, MemBufCopy64, MemCopy64, MemGetInfo, Wire};
use neuron_abi::kernel::ioctl::{IOCTLS, Op};
use neuron_emu::fuse::pool::MAX_THREADS;
use neuron_emu::machine::{Machine, Wanted};
use neuron_emu::publish::{Published, publish};
use neuron_kmd::Profile;

struct Served {
    published: Published,
    _dir: tempfile::TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.published.end();
    }
}

/// Serves two devices; `None` when memory cannot be shared here.
fn serve(test: &str) -> Option<Served> {
    if !can_emulate(test) {
        return None;
    }
    let wanted = Wanted {
        instance: "inf2.24xlarge".into(),
        driver: Profile::default(),
        hbm_mib: Some(8192),
        faults: Vec::new(),
        params: String::new(),
    };
    let machine = Machine::new(&wanted).expect("a machine");
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let root = dir.path().join("instance");
    std::fs::create_dir(&root).expect("the folder is ours");
    let served = Served { published: publish(machine, &root, MAX_THREADS).expect("published"), _dir: dir };
    if served.published.server.sharing.is_none() {
        // Linux before 6.9.
        common::skip(test, "this kernel has no FUSE passthrough");
        return None;
    }
    Some(served)
}

impl Served {
    fn client(&self) -> Client {
        Client::start(Command::new(raw_client()), self.dev())
    }

    fn dev(&self) -> PathBuf {
        self.published.root.join("dev")
    }

    fn memory(&self, device: usize) -> &neuron_hw::memory::AddressSpace {
        self.published.server.machine.bus[device].space()
    }

    fn open_count(&self, device: u32) -> u32 {
        self.published.server.machine.driver.device(device).expect("a device").attach.open_count()
    }

    fn kept(&self) -> usize {
        self.published.server.sharing.as_ref().expect("shared").mapped.len()
    }

    /// Waits until a closed file is kept for its mapping: the kernel tells of a close when it likes.
    fn until_something_is_kept(&self) {
        while self.kept() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Waits until the device is given back; then nothing is kept for a mapping any more.
    fn until_given_back(&self, device: u32) {
        while self.open_count(device) != 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(self.kept(), 0);
    }
}

/// Where device and host memory lie: offset in the file is the address on the device side.
const DEVICE_MEMORY: u64 = 0x10_0000_0000 + 0x3000_0000;

fn host_memory() -> u64 {
    neuron_hw::regs::Layout::of(2).expect("modelled").geometry.pci_host_base + 0x1234_5000
}

#[test]
fn mappings_show_the_memory_of_the_device_in_both_directions() {
    let Some(served) = serve("coherent mappings") else { return };
    let (mut one, mut two) = (served.client(), served.client());
    for client in [&mut one, &mut two] {
        assert_eq!(client.open('f', libc::O_RDWR, 3), "ok");
    }
    for address in [DEVICE_MEMORY, host_memory()] {
        assert_eq!(one.ask(&format!("mmap a f {address:#x} 8192 rw")), "ok");
        assert_eq!(two.ask(&format!("mmap a f {address:#x} 8192 rw")), "ok");
        assert_eq!(one.ask("poke a 4090 0102030405060708090a"), "ok");
        let mut bytes = [0; 10];
        served.memory(3).read(address + 4090, &mut bytes).expect("inside");
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "what a client writes is there");
        assert_eq!(two.ask("peek a 4090 10"), "0102030405060708090a");
        served.memory(3).fill(address, 4096, 0x5a).expect("inside");
        assert_eq!(one.ask("peek a 4090 10"), "5a5a5a5a5a5a0708090a", "what the device writes is seen");
        assert_eq!(one.ask("munmap a"), "ok");
        assert_eq!(two.ask("munmap a"), "ok");
    }
    // Another device is other memory.
    assert_eq!(one.open('g', libc::O_RDWR, 4), "ok");
    assert_eq!(one.ask(&format!("mmap b g {DEVICE_MEMORY:#x} 4096 r")), "ok");
    assert_eq!(one.ask("peek b 0 4"), "00000000");
}

/// Calls with a struct; returns it as it is after the call.
fn call<T: Wire>(client: &mut Client, op: Op, value: T) -> T {
    let mut bytes = vec![0; T::SIZE];
    value.put(&mut bytes);
    let row = IOCTLS.iter().find(|row| row.op == op).expect("a row");
    let called = client.ioctl('f', row.cmd, &bytes);
    assert_eq!((called.ret, called.errno), (0, 0), "{op:?}");
    T::get(&called.bytes)
}

/// Puts bytes into the buffer of the client; returns its address there.
fn buffer(client: &mut Client, bytes: &[u8]) -> u64 {
    client.ask(&format!("buffer {}", common::hex(bytes))).parse().expect("an address")
}

/// Allocates memory and returns its handle and where to map it.
fn allocate(client: &mut Client, size: u64, host: bool) -> (u64, u64) {
    let at = buffer(client, &[0; 8]);
    let wanted = MemAllocV2MemType64 { size, host_memory: u32::from(host), mem_handle: at, ..Default::default() };
    call(client, Op::MemAllocV2mt64, wanted);
    let number = |text: String| u64::from_le_bytes(common::unhex(&text).try_into().expect("8 bytes"));
    let handle = number(client.ask("show 8"));
    call(client, Op::MemGetInfo, MemGetInfo { mem_handle: handle, mmap_offset: at, pa: at + 8 });
    (handle, number(client.ask("show 8")))
}

#[test]
fn memory_of_the_driver_is_the_same_through_copies_and_through_mappings() {
    let Some(served) = serve("copies and mappings") else { return };
    let mut client = served.client();
    assert_eq!(client.open('f', libc::O_RDWR, 0), "ok");
    let size = 65536;
    let (device, at) = allocate(&mut client, size, false);
    assert_eq!(client.ask(&format!("mmap d f {at:#x} {size} rw")), "ok");
    let (host, at) = allocate(&mut client, size, true);
    assert_eq!(client.ask(&format!("mmap h f {at:#x} {size} rw")), "ok");
    // A store into device memory, a copy by DMA, a load from host memory.
    assert_eq!(client.ask("poke d 40000 cafebabe"), "ok");
    let copy = MemCopy64 { src_mem_handle: device, dst_mem_handle: host, size, ..Default::default() };
    call(&mut client, Op::MemCopy64, copy);
    assert_eq!(client.ask("peek h 39998 8"), "0000cafebabe0000");
    // A copy from the caller's memory, and one to it.
    let data: Vec<u8> = (0..6000_u32).map(|i| (i % 251) as u8).collect();
    let address = buffer(&mut client, &data);
    let copy = |offset, size, copy_to_mem_handle| MemBufCopy64 {
        mem_handle: device,
        buffer: address,
        size,
        offset,
        copy_to_mem_handle,
    };
    call(&mut client, Op::MemBufCopy64, copy(10, 6000, 1));
    assert_eq!(client.ask("peek d 10 6000"), common::hex(&data));
    call(&mut client, Op::MemBufCopy64, copy(40000, 4, 0));
    assert_eq!(client.ask("show 6"), format!("cafebabe{}", common::hex(&data[4..6])));
}

#[test]
fn a_mapping_needs_a_file_that_is_open_for_it() {
    let Some(served) = serve("access of mappings") else { return };
    let mut client = served.client();
    let denied = format!("errno {}", libc::EACCES);
    assert_eq!(client.open('r', libc::O_RDONLY, 0), "ok");
    assert_eq!(client.ask(&format!("mmap a r {DEVICE_MEMORY:#x} 4096 rw")), denied);
    assert_eq!(client.ask(&format!("mmap a r {DEVICE_MEMORY:#x} 4096 r")), "ok");
    assert_eq!(client.open('w', libc::O_WRONLY, 0), "ok");
    assert_eq!(client.ask(&format!("mmap b w {DEVICE_MEMORY:#x} 4096 w")), denied);
}

#[test]
fn a_file_that_is_closed_but_mapped_counts_as_open_until_the_mapping_goes() {
    let Some(served) = serve("closed but mapped") else { return };
    let mut client = served.client();
    let mut other = served.client();
    assert_eq!(client.open('f', libc::O_RDWR, 1), "ok");
    assert_eq!(client.ask(&format!("mmap a f {DEVICE_MEMORY:#x} 4096 rw")), "ok");
    assert_eq!(client.ask("close f"), "ok");
    served.until_something_is_kept();
    assert_eq!((served.published.server.open_files(), served.open_count(1)), (0, 1));
    // A file of another device, and one without a mapping, are released at once.
    assert_eq!(other.open('f', libc::O_RDWR, 2), "ok");
    assert_eq!(other.ask("close f"), "ok");
    assert_eq!(served.kept(), 1);
    assert_eq!(client.ask("munmap a"), "ok");
    // Unmapping makes no event; the next open or close looks.
    assert_eq!(other.open('f', libc::O_RDWR, 2), "ok");
    assert_eq!((served.kept(), served.open_count(1)), (0, 0));
}

#[test]
fn a_killed_client_gives_its_mapped_files_back() {
    let Some(served) = serve("killed while mapped") else { return };
    let mut client = served.client();
    assert_eq!(client.open('f', libc::O_RDWR, 5), "ok");
    assert_eq!(client.ask(&format!("mmap a f {DEVICE_MEMORY:#x} 4096 rw")), "ok");
    assert_eq!(client.ask("close f"), "ok");
    served.until_something_is_kept();
    kill(client.pid(), libc::SIGKILL);
    assert_eq!(client.ended_by(), Some(libc::SIGKILL));
    served.until_given_back(5);
}
