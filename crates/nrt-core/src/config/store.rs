//! The process-wide records: where they live, who owns what they point to, when they appear.
//!
//! The static record is written by each parse. The heap record appears by one pointer store after
//! everything else is in place, and goes at close.
//!
//! In a forked child a lock that another thread held at the fork is never released. Queries must
//! work there and, in a child forked before any init, an init must work too, so no query takes the
//! lock: counts read atomics, and what a query has to store it leaves in atomics, from which the
//! record is brought up to date when somebody asks for it.

use super::{
    draft::Draft,
    record::{Addr, HeapRecord, IntMap, IntVec, MapNode, StaticRecord, Zero},
};
use crate::device::product::Product;
use parking_lot::Mutex;
use std::{
    mem::{offset_of, size_of},
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicU32, Ordering},
    },
};

/// The static record and everything it points to.
#[repr(C)]
struct State {
    record: StaticRecord,
    /// Texts and lists of the last parse.
    draft: Option<Arc<Draft>>,
    nodes: Option<Box<[MapNode]>>,
    visible: Vec<i32>,
    /// The published heap record.
    heap: Option<Arc<Heap>>,
}

/// The heap record and everything it points to.
struct Heap {
    record: HeapRecord,
    _draft: Arc<Draft>,
}

const _: () = assert!(offset_of!(State, record) == 0);

static STATE: Mutex<State> =
    Mutex::new(State { record: StaticRecord::ZERO, draft: None, nodes: None, visible: Vec::new(), heap: None });

static HEAP: AtomicPtr<HeapRecord> = AtomicPtr::new(std::ptr::null_mut());

static VISIBLE: AtomicU32 = AtomicU32::new(0);

/// Size of a logical core as a query found it since the last parse; 0 for none did.
static LNC: AtomicU32 = AtomicU32::new(0);

/// The simulated product, as the first query found it; null for none.
static FAKE: AtomicPtr<Product> = AtomicPtr::new(std::ptr::null_mut());

/// The records as bytes. Valid as long as the library is loaded (`cfg`) or until the next close (`gcfg`).
#[derive(Clone, Copy, Debug)]
pub struct RawRecords {
    /// The static record; never NULL.
    pub cfg: *const u8,
    /// 656.
    pub cfg_len: usize,
    /// The heap record; NULL outside init.
    pub gcfg: *const u8,
    /// 296.
    pub gcfg_len: usize,
}

/// The two records as a reader with the vendor's layout finds them.
pub fn raw_records() -> RawRecords {
    // Before the first parse the vendor's constructor has made the map an empty one.
    if let Some(mut state) = STATE.try_lock() {
        if state.nodes.is_none() {
            state.place_map(&Draft::new());
        }
        state.catch_up();
    }
    RawRecords {
        cfg: STATE.data_ptr().cast_const().cast(),
        cfg_len: size_of::<StaticRecord>(),
        gcfg: HEAP.load(Ordering::Acquire).cast_const().cast(),
        gcfg_len: size_of::<HeapRecord>(),
    }
}

impl State {
    /// Rebuild the map member, whose header holds addresses inside the record itself.
    fn place_map(&mut self, draft: &Draft) {
        let (map, nodes) =
            IntMap::at(Addr::of(&raw const self.record.profile_buf_sizes), &draft.held.profile_buf_sizes);
        self.record.profile_buf_sizes = map;
        self.nodes = Some(nodes);
    }

    /// Write what queries have found.
    fn catch_up(&mut self) {
        match LNC.load(Ordering::Acquire) {
            0 => {}
            size => self.record.virtual_core_size = size,
        }
        // SAFETY: null or from a reference that lives for ever.
        if let Some(product) = unsafe { FAKE.load(Ordering::Acquire).as_ref() } {
            self.record.funtime = true;
            self.record.fake_family = product.family as u32;
            self.record.fake_size = product.size as u32;
        }
    }
}

/// Write the static record of a parse.
pub(super) fn install(draft: &Arc<Draft>) {
    let state = &mut *STATE.lock();
    state.record = draft.cfg;
    LNC.store(0, Ordering::Release);
    state.place_map(draft);
    VISIBLE.store(draft.lists.visible_virtual_cores.0.len() as u32, Ordering::Release);
    state.draft = Some(Arc::clone(draft));
}

/// Make the heap record of `draft` appear.
pub(super) fn publish(draft: Arc<Draft>) {
    let state = &mut *STATE.lock();
    let heap = state.heap.insert(Arc::new(Heap { record: draft.gcfg, _draft: draft }));
    HEAP.store((&raw const heap.record).cast_mut(), Ordering::Release);
}

/// Make the heap record disappear and free it.
pub(super) fn unpublish() {
    let state = &mut *STATE.lock();
    HEAP.store(std::ptr::null_mut(), Ordering::Release);
    state.heap = None;
}

/// Fill the vector of claimed logical cores.
pub(super) fn set_visible(cores: &[u32]) {
    let state = &mut *STATE.lock();
    state.visible = cores.iter().map(|core| *core as i32).collect();
    state.record.visible_virtual_cores = IntVec::over(&state.visible);
    VISIBLE.store(cores.len() as u32, Ordering::Release);
}

/// Length of the vector of claimed logical cores, without a lock.
pub(super) fn visible_len() -> u32 {
    VISIBLE.load(Ordering::Acquire)
}

/// Note the resolved size of a logical core, as a count query does.
pub(super) fn note_lnc(size: u32) {
    LNC.store(size, Ordering::Release);
}

/// Note the simulated product, as the first query does before init.
pub(super) fn note_fake(product: &'static Product) {
    FAKE.store(std::ptr::from_ref(product).cast_mut(), Ordering::Release);
}

/// The last parse, if there was one.
pub(super) fn draft() -> Option<Arc<Draft>> {
    STATE.lock().draft.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state of a child that was forked while another thread held the lock.
    #[test]
    fn count_queries_do_not_wait_for_a_lock_that_is_never_released() {
        let held = STATE.lock();
        note_lnc(4);
        note_fake(&crate::device::product::PRODUCTS[0]);
        let _ = visible_len();
        assert!(!raw_records().cfg.is_null());
        drop(held);
        assert!(!raw_records().cfg.is_null());
        let record = STATE.lock().record;
        assert_eq!((record.virtual_core_size, record.funtime), (4, true));
    }
}
