//! Rules of the tensor calls, one test each; the names follow `facts/runtime/tensor_api.tsv`.

use std::ffi::CStr;

use neuron_abi::Arch;

use super::{
    memory::{Bytes, Place, Spec, fake::PINNED_LIMIT},
    *,
};

mod fork;
mod gate;
mod lifetime;
mod order;
mod threads;
mod waiting;

const MIB: usize = 1 << 20;

/// An instance of two devices, all cores visible.
fn spec(arch: Arch, lnc: u32) -> Spec {
    let cores_per_device = if arch == Arch::Sunda { 2 } else { 8 };
    Spec {
        arch,
        devices: vec![0, 1],
        cores_per_device,
        core_map: Default::default(),
        lnc,
        visible: (0..2 * cores_per_device / lnc).collect(),
        hbm_bytes_per_device: 64 * MIB as u64,
        p2p: true,
        funtime: true,
    }
}

fn trn1() -> TensorStore {
    TensorStore::fake(spec(Arch::Sunda, 1)).unwrap()
}

fn trn2() -> TensorStore {
    TensorStore::fake(spec(Arch::Cayman, 2)).unwrap()
}

const DEVICE: u32 = 0;
const HOST: u32 = 1;
const VIRTUAL: u32 = 2;

fn made(store: &TensorStore, placement: u32, vnc: i32, size: usize) -> TensorRef {
    resolve("test", store.allocate(placement, vnc, size, Some(c"t")).unwrap()).unwrap()
}

fn bytes(tensor: &Tensor) -> Vec<u8> {
    let mut out = vec![0; tensor.size()];
    tensor.read(0, &mut out).unwrap();
    out
}

/// A buffer of the caller.
#[derive(Clone)]
struct Buffer(Arc<parking_lot::Mutex<Vec<u8>>>);

impl Buffer {
    fn new(size: usize) -> Buffer {
        Buffer(Arc::new(parking_lot::Mutex::new(vec![0; size])))
    }
}

impl Bytes for Buffer {
    fn size(&self) -> usize {
        self.0.lock().len()
    }
    fn addr(&self) -> Option<usize> {
        Some(self.0.lock().as_ptr().addr())
    }
    fn read_at(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(&self.0.lock()[offset..offset + out.len()]);
        Ok(())
    }
    fn write_at(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.0.lock()[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn fill(&self, offset: usize, value: u8, len: usize) -> Result<()> {
        self.0.lock()[offset..offset + len].fill(value);
        Ok(())
    }
}

fn kind(tensor: &Tensor) -> &'static str {
    match tensor.storage().unwrap().backing() {
        Backing::Device(_) => "device",
        Backing::Pinned(_) => "pinned",
        Backing::Malloc(_) => "malloc",
    }
}

#[test]
fn allocate_answers_by_placement_core_and_size() {
    use Status::{FailHostMemAlloc as HostFull, Invalid, Resource};
    const HUGE: usize = usize::MAX;
    const MOST: usize = isize::MAX as usize;
    let (trn1, trn2) = (trn1(), trn2());
    let trn3 = TensorStore::fake(spec(Arch::Mariana, 2)).unwrap();
    type Row<'a> = (&'a TensorStore, u32, i32, usize, Result<&'static str>);
    let table: &[Row] = &[
        (&trn1, DEVICE, 0, 1, Ok("device")),
        (&trn1, DEVICE, 3, 4097, Ok("device")),
        (&trn1, DEVICE, 4, 1, Err(Invalid)),
        (&trn1, DEVICE, i32::MAX, 1, Err(Invalid)),
        (&trn1, DEVICE, -1, 1, Err(Invalid)),
        (&trn1, DEVICE, i32::MIN, 1, Err(Invalid)),
        (&trn1, HOST, -1, 1, Ok("pinned")),
        (&trn1, HOST, 0, PINNED_LIMIT, Ok("pinned")),
        (&trn1, HOST, 0, PINNED_LIMIT + 1, Err(HostFull)),
        (&trn1, HOST, 4, 1, Err(Invalid)),
        (&trn1, HOST, -2, 1, Err(Invalid)),
        (&trn1, VIRTUAL, -1, 1, Ok("malloc")),
        (&trn1, VIRTUAL, 3, 1, Ok("malloc")),
        (&trn1, VIRTUAL, 4, 1, Err(Invalid)),
        (&trn1, VIRTUAL, -2, 1, Err(Invalid)),
        // Every other number is pinned host memory.
        (&trn1, 3, -1, 1, Ok("pinned")),
        (&trn1, u32::MAX, 0, 1, Ok("pinned")),
        // Trn2 refuses the number 1, and only it.
        (&trn2, HOST, 0, 1, Err(Resource)),
        (&trn2, HOST, -1, 1, Err(Resource)),
        (&trn2, HOST, 8, 1, Err(Invalid)),
        (&trn2, 3, 0, 1, Ok("pinned")),
        (&trn2, DEVICE, 7, 1, Ok("device")),
        (&trn2, DEVICE, 8, 1, Err(Invalid)),
        (&trn2, VIRTUAL, -1, 1, Ok("malloc")),
        (&trn3, HOST, 0, 1, Ok("pinned")),
        // No tensor without bytes.
        (&trn1, DEVICE, 0, 0, Err(Invalid)),
        (&trn1, HOST, 0, 0, Err(Invalid)),
        (&trn1, VIRTUAL, 0, 0, Err(Invalid)),
        // More than any memory has; more than this one has.
        (&trn1, DEVICE, 0, HUGE, Err(Resource)),
        (&trn1, HOST, 0, HUGE, Err(Resource)),
        (&trn1, VIRTUAL, 0, HUGE, Err(Resource)),
        (&trn1, DEVICE, 0, HUGE - 4095, Err(Resource)),
        (&trn1, DEVICE, 0, MOST, Err(Resource)),
        (&trn1, HOST, 0, MOST, Err(HostFull)),
        (&trn1, VIRTUAL, 0, MOST, Err(HostFull)),
        (&trn1, DEVICE, 0, 32 * MIB + 1, Err(Resource)),
    ];
    for &(store, placement, vnc, size, expected) in table {
        let handle = store.allocate(placement, vnc, size, None);
        let answer = handle.map(|handle| kind(&resolve("test", handle).unwrap()));
        assert_eq!(answer, expected, "placement {placement} core {vnc} size {size}");
        if let Ok(handle) = handle {
            assert_eq!(resolve("test", handle).unwrap().size(), size);
            free(handle).unwrap();
        }
    }
    for vnc in 0..4 {
        assert_eq!(trn1.memory_stats(vnc).unwrap().bytes_used, 0, "neither a refusal nor a free leaves anything");
    }
}

#[test]
fn texts_are_the_vendors() {
    let core = memory::Core { device: 0, first_core: 0, first_hbm: 0, hbms: 1 };
    assert_eq!(
        store::exhausted(core, 13 * MIB + MIB / 2),
        "Failed to allocate 13.500MB (alignment: none, usage: tensors) on ND 0:NC 0"
    );
    assert!(store::no_such_core(4, 4).starts_with("Cannot allocate a tensor on Logical NeuronCore 4"));
    assert_eq!(store::host_refused("w", 3), "Can not allocate tensor (name:w) on Host for NC:3");
    let place = |device, hbm| Some(Place { device, hbm });
    assert_eq!(different_hbms(place(0, 1), place(0, 2)), "Tensors must be allocated on same HBM (SRC: 1) (DST: 2)");
    assert_eq!(different_hbms(None, place(0, 2)), "Tensors must be allocated on same HBM (SRC: 4294967295) (DST: 2)");
    assert!(different_hbms(place(0, 1), place(3, 1)).ends_with("(SRC: 1) (DST: 1) of one device, not of 0 and 3"));
}

// B08: core numbers are positions in the visible set.
#[test]
fn cores_are_counted_in_the_visible_set() {
    let store = TensorStore::fake(Spec { visible: vec![2, 3], ..spec(Arch::Sunda, 1) }).unwrap();
    let place = |vnc| match made(&store, DEVICE, vnc, 1).storage().unwrap().backing() {
        Backing::Device(allocation) => (allocation.place(), allocation.vnc()),
        _ => panic!("not on a device"),
    };
    assert_eq!(place(0), (Place { device: 1, hbm: 0 }, 0));
    assert_eq!(place(1), (Place { device: 1, hbm: 1 }, 1));
    assert_eq!(store.allocate(DEVICE, 2, 1, None), Err(Status::Invalid));
    let beyond = TensorStore::fake(Spec { visible: vec![0, 4], ..spec(Arch::Sunda, 1) });
    assert_eq!(beyond.err(), Some(Status::Invalid));
}

// B10: used-up device memory is NRT_RESOURCE, leaves nothing behind and ends with a free.
#[test]
fn exhaustion_is_exact_and_ends_with_a_free() {
    let store = trn1();
    let mut handles: Vec<usize> = Vec::new();
    let last = loop {
        match store.allocate(DEVICE, 1, 8 * MIB, Some(c"cache")) {
            Ok(handle) => handles.push(handle),
            Err(status) => break status,
        }
    };
    assert_eq!((last, handles.len()), (Status::Resource, 4));
    let stats = store.memory_stats(1).unwrap();
    assert_eq!((stats.bytes_used, stats.bytes_limit), (32 * MIB, 32 * MIB));
    assert!(store.allocate(DEVICE, 0, 8 * MIB, None).is_ok(), "the other core has memory of its own");
    assert!(store.allocate(VIRTUAL, 1, 8 * MIB, None).is_ok(), "so has the host");
    free(handles.swap_remove(1)).unwrap();
    assert_eq!(store.memory_stats(1).unwrap().bytes_used, 24 * MIB);
    handles.push(store.allocate(DEVICE, 1, 8 * MIB, None).unwrap());
    assert_eq!(store.allocate(DEVICE, 1, 1, None), Err(Status::Resource));
    handles.into_iter().for_each(|handle| free(handle).unwrap());
    assert!(store.allocate(DEVICE, 1, 32 * MIB, None).is_ok(), "freed neighbours are one block again");
}

#[test]
fn memory_stats_count_pages_of_one_core_and_limit_its_hbms() {
    let store = TensorStore::fake(spec(Arch::Cayman, 1)).unwrap();
    let _kept = [made(&store, DEVICE, 2, 1), made(&store, DEVICE, 2, 4097), made(&store, DEVICE, 3, 1)];
    let stats = |vnc| store.memory_stats(vnc).map(|stats| (stats.bytes_used, stats.bytes_limit));
    // Cores 2 and 3 share HBM 1: the use is each one's own, the limit is the HBM.
    assert_eq!(stats(2), Ok((3 * 4096, 16 * MIB)));
    assert_eq!(stats(3), Ok((4096, 16 * MIB)));
    assert_eq!(stats(4), Ok((0, 16 * MIB)));
    assert_eq!(stats(16), Err(Status::Invalid));

    // A logical core of four physical ones is wired to two HBMs and may fill both.
    let store = TensorStore::fake(spec(Arch::Cayman, 4)).unwrap();
    let both = [made(&store, DEVICE, 1, 12 * MIB), made(&store, DEVICE, 1, 12 * MIB)];
    assert_eq!(both.map(|tensor| tensor.device_allocation().unwrap().hbm_index), [2, 3]);
    assert_eq!(store.memory_stats(1).unwrap().bytes_limit, 32 * MIB);
    assert_eq!(store.memory_stats(1).unwrap().bytes_used, 24 * MIB);
}

#[test]
fn the_view_lies_at_the_handle() {
    let store = trn2();
    let parent = made(&store, VIRTUAL, 0, 64);
    let handle = allocate_slice(&parent, 8, 24, Some(c"part")).unwrap();
    // SAFETY: a live handle is the address of 192 bytes of view; slots are never unmapped.
    let peek = || unsafe { std::ptr::with_exposed_provenance::<[usize; 24]>(handle).read() };
    let view = peek();
    // SAFETY: the first word of a live view points to its name, a C string.
    assert_eq!(unsafe { CStr::from_ptr(std::ptr::with_exposed_provenance(view[0])) }, c"part");
    assert_eq!(view[1], Arc::as_ptr(&parent.storage().unwrap()).addr());
    assert_eq!((view[2], view[3], view[8], view[16]), (8, 24, 1, 0));
    resolve("test", handle).unwrap().complete_output();
    assert_eq!(peek()[16], 1);
}

#[test]
fn a_missing_name_is_unknown() {
    let store = trn1();
    assert_eq!(resolve("test", store.allocate(VIRTUAL, -1, 1, None).unwrap()).unwrap().name(), "_unknown_");
    assert_eq!(resolve("test", allocate_empty(None).unwrap()).unwrap().name(), "_unknown_");
    assert_eq!(resolve("test", allocate_empty(Some(c"e")).unwrap()).unwrap().name(), "e");
}

#[test]
fn null_bogus_and_freed_handles_are_told_apart() {
    let handle = allocate_empty(None).unwrap();
    // Keeps the address from being given out again.
    let _kept = resolve("test", handle).unwrap();
    assert_eq!((free(0), free(handle), free(handle)), (Ok(()), Ok(()), Err(Status::InvalidHandle)));
    assert_eq!(free(0xdead_beef), Err(Status::InvalidHandle));
    let status = |handle| resolve("test", handle).err();
    assert_eq!((status(0), status(handle)), (Some(Status::Invalid), Some(Status::InvalidHandle)));
    assert_eq!(check_output_completion(0, 0, 0), Err(Status::Invalid));
    assert_eq!(check_output_completion(handle, 0, 0), Err(Status::InvalidHandle));
    assert_eq!(reset_output_completion(0), Err(Status::Invalid));
    assert_eq!(reset_output_completion(handle), Err(Status::InvalidHandle));
}

#[test]
fn an_empty_tensor_has_no_bytes_until_a_buffer_is_attached() {
    let tensor = resolve("test", allocate_empty(Some(c"e")).unwrap()).unwrap();
    assert_eq!((tensor.size(), tensor.va()), (0, None));
    assert_eq!(tensor.read(0, &mut []), Err(Status::Invalid));
    assert_eq!(tensor.write(0, &[]), Err(Status::Invalid));
    assert_eq!(tensor.memset(0, 0, 0), Err(Status::Invalid));
    assert_eq!(allocate_slice(&tensor, 0, 0, None), Err(Status::Invalid));
    assert_eq!(tensor.device_allocation(), Err(Status::Invalid));
    let buffer = Buffer::new(10);
    tensor.attach(Box::new(buffer.clone()));
    assert_eq!((tensor.size(), tensor.va(), kind(&tensor)), (10, buffer.addr(), "malloc"));
    tensor.write(3, &[1, 2, 3]).unwrap();
    assert_eq!(*buffer.0.lock(), [0, 0, 0, 1, 2, 3, 0, 0, 0, 0]);
}

#[test]
fn attaching_releases_the_old_storage_except_to_its_slices() {
    let store = trn1();
    let tensor = made(&store, DEVICE, 0, 100);
    tensor.write(0, &[9; 100]).unwrap();
    let slice = resolve("test", allocate_slice(&tensor, 50, 10, None).unwrap()).unwrap();
    tensor.attach(Box::new(Buffer::new(20)));
    assert_eq!((tensor.size(), bytes(&tensor)), (20, vec![0; 20]));
    assert_eq!((bytes(&slice), store.memory_stats(0).unwrap().bytes_used), (vec![9; 10], 4096));
    let handle = slice.handle();
    drop(slice);
    free(handle).unwrap();
    assert_eq!(store.memory_stats(0).unwrap().bytes_used, 0);
}

#[test]
fn ranges_end_at_the_view() {
    let store = trn1();
    let whole = made(&store, DEVICE, 0, 100);
    let slice = resolve("test", allocate_slice(&whole, 10, 50, None).unwrap()).unwrap();
    let table = [(0, 50), (50, 0), (49, 1), (0, 51), (50, 1), (51, 0), (usize::MAX, 1), (1, usize::MAX)];
    for (n, (offset, size)) in table.into_iter().enumerate() {
        let expected = if n < 3 { Ok(()) } else { Err(Status::Invalid) };
        assert_eq!(slice.memset(offset, 1, size), expected, "{offset} {size}");
        assert_eq!(allocate_slice(&slice, offset, size, None).map(drop), expected, "{offset} {size}");
        assert_eq!(copy(&slice, offset, &slice, offset, size), expected, "{offset} {size}");
        assert_eq!(
            copy(&whole, 0, &slice, offset, size.min(100)),
            if size > 100 { Err(Status::Invalid) } else { expected }
        );
        if size <= 100 {
            assert_eq!(slice.read(offset, &mut vec![0; size]), expected, "{offset} {size}");
            assert_eq!(slice.write(offset, &vec![2; size]), expected, "{offset} {size}");
        }
    }
    let all = bytes(&whole);
    assert!(all[..10].iter().chain(&all[60..]).all(|byte| *byte == 0), "the neighbours are untouched");
}

#[test]
fn memset_takes_the_low_byte() {
    let tensor = made(&trn1(), VIRTUAL, -1, 4);
    tensor.memset(1, 0x1_02ff - 0x1_0300, 2).unwrap();
    assert_eq!(bytes(&tensor), [0, 0xff, 0xff, 0]);
    tensor.memset(0, 0x1234, 1).unwrap();
    assert_eq!(bytes(&tensor)[0], 0x34);
}

#[test]
fn batches_stop_at_the_first_failure() {
    let tensor = made(&trn1(), DEVICE, 0, 10);
    for wait in [Wait::InFlight, Wait::Skip] {
        tensor.memset(0, 0, 10).unwrap();
        let ops: [(usize, &[u8]); 3] = [(0, &[1, 2]), (9, &[3, 4]), (5, &[5])];
        assert_eq!(tensor.write_batch(ops, wait), Err(Status::Invalid));
        assert_eq!(bytes(&tensor), [1, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        let (mut a, mut b, mut c) = ([7; 2], [7; 2], [7; 1]);
        let ops: [(usize, &mut [u8]); 3] = [(0, &mut a), (9, &mut b), (1, &mut c)];
        assert_eq!(tensor.read_batch(ops, wait), Err(Status::Invalid));
        assert_eq!((a, b, c), ([1, 2], [7; 2], [7; 1]));
    }
}

#[test]
fn driver_memory_is_copied_within_one_hbm_only() {
    let store = trn1();
    let tensors = [
        made(&store, DEVICE, 0, 8),
        made(&store, DEVICE, 1, 8),
        made(&store, DEVICE, 2, 8), // HBM 0 of the other device
        made(&store, HOST, -1, 8),
        made(&store, VIRTUAL, -1, 8),
        resolve("test", allocate_empty(None).unwrap()).unwrap(),
    ];
    tensors[5].attach(Box::new(Buffer::new(8)));
    // Driver memories by HBM; the last two are plain and go with everything.
    let group = [0, 1, 2, 3, 9, 9];
    for (i, from) in tensors.iter().enumerate() {
        for (j, to) in tensors.iter().enumerate() {
            from.write(0, &[i as u8 + 1; 8]).unwrap();
            to.write(4, &[0x55; 4]).unwrap();
            let fits = group[i] == group[j] || group[i] == 9 || group[j] == 9;
            let expected = if fits { Ok(()) } else { Err(Status::Invalid) };
            assert_eq!(copy(from, 0, to, 4, 4), expected, "{i} to {j}");
            let now = bytes(to)[4];
            assert_eq!(now, if fits { i as u8 + 1 } else { 0x55 }, "{i} to {j}");
        }
    }
    let same = made(&store, DEVICE, 0, 8);
    assert_eq!(copy(&tensors[0], 0, &same, 0, 8), Ok(()));
    let pinned = made(&store, HOST, 0, 8);
    assert_eq!(copy(&tensors[3], 0, &pinned, 0, 8), Ok(()));
}

#[test]
fn allocation_info_is_for_device_memory() {
    let store = TensorStore::fake(spec(Arch::Cayman, 2)).unwrap();
    let tensor = made(&store, DEVICE, 6, 5000);
    let info = tensor.device_allocation().unwrap();
    let base = memory::HbmMap::of(Arch::Cayman).bases[2];
    let expected = DeviceAllocation { physical_address: base + memory::fake::RESERVED, size: 8192, hbm_index: 2 };
    assert_eq!(info, expected);
    let slice = resolve("test", allocate_slice(&tensor, 100, 10, None).unwrap()).unwrap();
    let part = slice.device_allocation().unwrap();
    assert_eq!((part.physical_address - info.physical_address, part.size), (100, 8092));
    assert_eq!(slice.va().unwrap() - tensor.va().unwrap(), 100);
    assert_eq!(made(&store, VIRTUAL, 0, 8).device_allocation(), Err(Status::Invalid));
    assert_eq!(made(&trn1(), HOST, 0, 8).device_allocation(), Err(Status::Invalid));
}

#[test]
fn the_address_of_a_tensor_shows_its_bytes() {
    let store = trn1();
    for placement in [DEVICE, HOST, VIRTUAL] {
        let tensor = made(&store, placement, 0, 64);
        tensor.write(0, &[1, 2, 3, 4]).unwrap();
        let va = std::ptr::with_exposed_provenance_mut::<u8>(tensor.va().unwrap());
        // SAFETY: the address of a live tensor of 64 bytes, used by this thread only.
        unsafe {
            assert_eq!(va.cast::<[u8; 4]>().read_unaligned(), [1, 2, 3, 4]);
            va.add(3).write(0xcc);
        }
        assert_eq!(bytes(&tensor)[..4], [1, 2, 3, 0xcc]);
    }
}

#[test]
fn hbm_windows_end_with_invalid_handle() {
    let store = trn2();
    let sizes: Vec<_> = (0..).map_while(|hbm| store.hbm_window(1, hbm).ok()).map(|window| window.1).collect();
    assert_eq!(sizes, [16 * MIB + memory::fake::RESERVED as usize; 4]);
    assert_eq!(store.hbm_window(1, 4), Err(Status::InvalidHandle));
    assert_eq!(store.hbm_window(1, i32::MAX), Err(Status::InvalidHandle));
    assert_eq!(store.hbm_window(1, -1), Err(Status::Invalid));
    assert_eq!(store.hbm_window(2, 0), Err(Status::Invalid));
    assert_eq!(store.hbm_window(-1, 0), Err(Status::Invalid));
    // The V2 driver maps no HBM as a whole.
    assert_eq!(trn1().hbm_window(0, 0), Err(Status::InvalidHandle));
}

#[test]
fn a_device_without_a_core_of_this_process_has_no_window() {
    let store = |arch| TensorStore::fake(Spec { visible: vec![0], ..spec(arch, 1) }).unwrap();
    let trn2 = store(Arch::Cayman);
    assert!(trn2.hbm_window(0, 3).is_ok());
    assert_eq!(trn2.hbm_window(1, 0), Err(Status::Failure));
    assert_eq!(trn2.hbm_window(1, 4), Err(Status::InvalidHandle), "the end comes first");
    assert_eq!(store(Arch::Sunda).hbm_window(1, 0), Err(Status::InvalidHandle));
}

#[test]
fn dmabuf_needs_peer_to_peer_and_a_real_device() {
    for (p2p, funtime) in [(true, true), (false, true), (false, false), (true, false)] {
        let store = TensorStore::fake(Spec { p2p, funtime, ..spec(Arch::Cayman, 2) }).unwrap();
        let tensor = made(&store, DEVICE, 0, 4096);
        assert_eq!(store.dmabuf_fd(tensor.va().unwrap() as u64, 4096).err(), Some(Status::Invalid));
    }
}

#[test]
fn sets_name_tensors_and_own_none() {
    let handle = allocate_set().unwrap();
    let set = resolve_set("test", handle).unwrap();
    let store = trn1();
    let (a, b) = (made(&store, VIRTUAL, -1, 1).handle(), made(&store, VIRTUAL, -1, 2).handle());
    assert_eq!(set.get(c"x"), Err(Status::Failure));
    assert_eq!(set.add(c"x", 0), Err(Status::Invalid));
    assert_eq!(set.add(c"x", 12345), Err(Status::InvalidHandle));
    assert_eq!((set.add(c"x", a), set.get(c"x")), (Ok(()), Ok(a)));
    assert_eq!((set.add(c"x", b), set.get(c"x")), (Ok(()), Ok(b)), "a name names the last one added");
    assert_eq!((set.add(c"\xff\xfe", a), set.get(c"\xff\xfe")), (Ok(()), Ok(a)), "names are bytes");
    assert_eq!(set.get(c"X"), Err(Status::Failure));
    assert_eq!(set.members().iter().map(|(name, _)| &**name).collect::<Vec<_>>(), [c"x", c"\xff\xfe"]);

    free(b).unwrap();
    assert_eq!(set.get(c"x"), Err(Status::InvalidHandle), "freed meanwhile");
    assert!(set.members()[0].1.is_none());

    assert_eq!((destroy_set(0), destroy_set(handle)), (Ok(()), Ok(())));
    assert_eq!(destroy_set(handle), Err(Status::InvalidHandle));
    assert_eq!(resolve_set("test", handle).err(), Some(Status::InvalidHandle));
    assert_eq!(resolve_set("test", 0).err(), Some(Status::Invalid));
    assert_eq!(resolve_set("test", a).err(), Some(Status::InvalidHandle), "a tensor is no set");
    assert_eq!(resolve("test", a).unwrap().size(), 1, "the tensors stay");
}
