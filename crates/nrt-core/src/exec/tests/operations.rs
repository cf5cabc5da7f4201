//! What a schedule call checks, and operations on tensors whose device fails.

use super::*;
use crate::tensor::{
    self, Source, TensorStore,
    memory::{AllocError, Block, Bytes, DeviceMemory, Place, Spec, Usage},
};
use neuron_abi::Arch;
use std::os::fd::OwnedFd;

/// Each row is wrong in one way more than the next.
#[test]
fn checks_come_in_the_order_of_the_facts() {
    let (explicit, implicit) = (scheduler(8, 0), scheduler(8, 1));
    let broken = scheduler(8, 0);
    broken.cores[0].broken.store(true, Ordering::Release);
    let (null, given) = ([("a", false), ("b", true)], [("a", false), ("b", false)]);
    let table = [
        (&implicit, &null, -1, 2, Err(Status::Failure)),
        (&explicit, &null, -1, 2, Err(Status::Invalid)),
        (&explicit, &given, -1, 2, Err(Status::Invalid)),
        (&explicit, &given, 0, -1, Err(Status::Invalid)),
        (&explicit, &given, 0, i32::MAX, Err(Status::Invalid)),
        (&explicit, &given, 2, 1, Err(Status::Invalid)),
        (&explicit, &given, -1, 1, Err(Status::Invalid)),
        (&broken, &given, 2, 1, Err(Status::Invalid)),
        (&broken, &given, 0, 1, Err(Status::ExecUnitUnrecoverable)),
        (&broken, &given, 1, 1, Ok(())),
        (&explicit, &given, 0, 1, Ok(())),
    ];
    for (row, (scheduler, arguments, core, queue, expected)) in table.into_iter().enumerate() {
        let entered = scheduler.enter(API, Unit::TensorOp, core, queue, arguments).map(drop);
        assert_eq!(entered, expected, "row {row}");
    }
}

/// Device memory that fails.
struct Failing(Status);

impl Bytes for Failing {
    fn size(&self) -> usize {
        4096
    }
    fn addr(&self) -> Option<usize> {
        None
    }
    fn read_at(&self, _: usize, _: &mut [u8]) -> Result<()> {
        Err(self.0)
    }
    fn write_at(&self, _: usize, _: &[u8]) -> Result<()> {
        Err(self.0)
    }
    fn fill(&self, _: usize, _: u8, _: usize) -> Result<()> {
        Err(self.0)
    }
}

impl Block for Failing {
    fn physical_address(&self) -> u64 {
        0
    }
}

impl DeviceMemory for Failing {
    fn alloc(&self, _: Place, _: usize) -> std::result::Result<Box<dyn Block>, AllocError> {
        Ok(Box::new(Failing(self.0)))
    }
    fn alloc_pinned(&self, _: u32, _: usize) -> std::result::Result<Box<dyn Bytes>, AllocError> {
        Ok(Box::new(Failing(self.0)))
    }
    fn usage(&self, _: Place) -> Usage {
        Usage { limit: 1 << 20, used: 0, largest_free: 1 << 20 }
    }
    fn window(&self, _: Place) -> std::result::Result<Option<(usize, usize)>, AllocError> {
        Ok(None)
    }
    fn export(&self, _: u64, _: u64) -> Result<OwnedFd> {
        Err(self.0)
    }
}

struct Data(&'static [u8]);

impl Source for Data {
    fn bytes(&self) -> &[u8] {
        self.0
    }
}

#[test]
fn a_failing_device_fails_the_write_and_then_its_core() {
    let spec = Spec {
        arch: Arch::Sunda,
        devices: vec![0],
        cores_per_device: 2,
        core_map: Default::default(),
        lnc: 1,
        visible: vec![0, 1],
        hbm_bytes_per_device: 1 << 20,
        p2p: true,
        funtime: false,
    };
    for (status, next) in [(Status::HwError, Some(Status::ExecUnitUnrecoverable)), (Status::Resource, None)] {
        let store = TensorStore::with_backend(spec.clone(), Box::new(Failing(status))).unwrap();
        let scheduler = Scheduler::new(store.cores(), Settings { compute_depth: 8, in_flight: 0 });
        let handle = store.allocate(0, 1, 64, None).unwrap();
        let enter = || scheduler.enter(API, Unit::TensorOp, 1, 0, &[]);
        let entry = enter().unwrap();
        let tensor = entry.tensor(handle).unwrap();
        let (done, answers) = told();
        let id = entry.write(&tensor, 0, Box::new(Data(b"data")), done()).unwrap();
        assert_eq!(answers.recv(), Ok((1, status)));
        wait_for(&scheduler, id);
        assert_eq!(enter().err(), next);
        tensor::free(handle).unwrap();
    }
}
