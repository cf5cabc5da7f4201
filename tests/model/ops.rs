//! The calls a sequence is made of. What they are about is a choice among what is there when they run, so that any
//! part of a sequence is a sequence.

use proptest::prelude::*;
use proptest::sample::Index;

/// Which object a call is about.
#[derive(Clone, Debug)]
pub enum Pick {
    /// One that is alive.
    Live(Index),
    /// Any that was ever made, freed ones included.
    Ever(Index),
    /// NULL.
    Null,
    /// An address that never was a handle.
    Bogus(Index),
}

/// Which bytes of a tensor.
#[derive(Clone, Debug)]
pub enum Extent {
    /// All of them.
    Whole,
    /// Some of them, as parts of what is there.
    Part(Index, Index),
    /// From a place inside to so many bytes behind the end.
    Past(Index, usize),
    /// These numbers, whatever the tensor's size is.
    Wild(usize, usize),
}

/// A text argument.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    Null,
    /// A short name, one of few.
    Short(u8),
    /// The longest text that is taken.
    Longest,
    /// One byte more.
    TooLong,
}

/// A logical core.
#[derive(Clone, Copy, Debug)]
pub enum Core {
    Some(u8),
    Last,
    Behind,
    Number(i32),
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub struct Piece {
    pub extent: Extent,
    pub seed: u8,
}

/// Work for a queue.
#[derive(Clone, Debug)]
pub enum Work {
    Read { tensor: Pick, extent: Extent },
    Write { tensor: Pick, extent: Extent, seed: u8 },
    Copy { from: Pick, extent: Extent, to: Pick, at: Extent },
}

/// A place that a call is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Buffer,
    Status,
    Sequence,
}

/// The sequence a question is about.
#[derive(Clone, Debug)]
pub enum Sequence {
    /// One that was given out, perhaps in an earlier init.
    Given(Index),
    /// Any, by its parts.
    Parts { core: u8, unit: u8, queue: u8, number: u64 },
}

/// One call, or a look at memory that C code takes without a call.
#[derive(Clone, Debug)]
pub enum Op {
    Init,
    Close,
    Allocate {
        placement: u32,
        core: Core,
        size: usize,
        name: Text,
    },
    Empty {
        name: Text,
    },
    Slice {
        of: Pick,
        extent: Extent,
        name: Text,
    },
    /// `again`: a part of a buffer that some tensor was attached to before.
    Attach {
        tensor: Pick,
        size: usize,
        again: Option<(Index, Extent)>,
    },
    AttachNull {
        tensor: Pick,
        size: usize,
    },
    Free {
        tensor: Pick,
    },
    FreeNull,
    Read {
        tensor: Pick,
        extent: Extent,
    },
    Write {
        tensor: Pick,
        extent: Extent,
        seed: u8,
    },
    ReadBatch {
        parts: Vec<(Pick, Vec<Piece>)>,
        skip_wait: bool,
    },
    WriteBatch {
        parts: Vec<(Pick, Vec<Piece>)>,
        skip_wait: bool,
    },
    /// A NULL array, with that length.
    NullBatch {
        write: bool,
        len: u64,
    },
    Copy {
        from: Pick,
        extent: Extent,
        to: Pick,
        at: Extent,
    },
    /// Bytes of a tensor to a place some bytes further in the same tensor, or back.
    Shift {
        tensor: Pick,
        by: Index,
        back: bool,
    },
    Memset {
        tensor: Pick,
        extent: Extent,
        value: i32,
    },
    Size {
        tensor: Pick,
    },
    Va {
        tensor: Pick,
    },
    /// A program writes where `nrt_tensor_get_va` says, with memcpy or `nrt_memcpy_to_device`.
    WriteVa {
        tensor: Pick,
        extent: Extent,
        seed: u8,
        by_call: bool,
    },
    MemcpyNull {
        size: usize,
    },
    Info {
        tensor: Pick,
        null: bool,
    },
    Completion {
        tensor: Pick,
        expected: u64,
    },
    ResetCompletion {
        tensor: Pick,
    },
    Stats {
        core: Core,
        room: usize,
        tell: bool,
    },
    Window {
        device: i32,
        hbm: i32,
    },
    Dmabuf {
        tensor: Pick,
    },
    NewSet,
    Add {
        set: Pick,
        name: Text,
        tensor: Pick,
    },
    Get {
        set: Pick,
        name: Text,
    },
    DestroySet {
        set: Pick,
    },
    Queue {
        work: Work,
        /// None for the one the tensor was made for.
        core: Option<Core>,
        queue: i32,
        missing: Option<Missing>,
        /// Tensors the call takes, as long as some are there.
        likely: bool,
        times: u8,
    },
    /// Wait until some of what is queued is completed.
    Settle {
        which: Index,
    },
    IsCompleted {
        sequence: Sequence,
        null: bool,
    },
    LastCompleted {
        core: Core,
        unit: u32,
        queue: i32,
        null: bool,
    },
}

fn index() -> impl Strategy<Value = Index> {
    any::<Index>()
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        40 => index().prop_map(Pick::Live),
        2 => index().prop_map(Pick::Ever),
        1 => Just(Pick::Null),
        1 => index().prop_map(Pick::Bogus),
    ]
}

/// Sizes around words, pages and the steps of long copies, and those of no memory.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        16 => 1usize..300,
        2 => Just(0),
        4 => 4090usize..4102,
        3 => 65_530usize..70_000,
        1 => prop::sample::select(vec![1 << 47, isize::MAX as usize, isize::MAX as usize + 1, usize::MAX]),
    ]
}

fn wild() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![0, 1, 300, isize::MAX as usize, isize::MAX as usize + 1, usize::MAX - 1, usize::MAX])
}

fn extent() -> impl Strategy<Value = Extent> {
    prop_oneof![
        2 => Just(Extent::Whole),
        12 => (index(), index()).prop_map(|(a, b)| Extent::Part(a, b)),
        1 => (index(), 1usize..9).prop_map(|(at, over)| Extent::Past(at, over)),
        1 => (wild(), wild()).prop_map(|(offset, size)| Extent::Wild(offset, size)),
    ]
}

/// As [`extent`], but never longer than memory can be: no batch is asked to look at such a buffer.
fn piece() -> impl Strategy<Value = Piece> {
    let extent = prop_oneof![
        2 => Just(Extent::Whole),
        20 => (index(), index()).prop_map(|(a, b)| Extent::Part(a, b)),
        1 => (index(), 1usize..9).prop_map(|(at, over)| Extent::Past(at, over)),
    ];
    (extent, any::<u8>()).prop_map(|(extent, seed)| Piece { extent, seed })
}

fn parts() -> impl Strategy<Value = Vec<(Pick, Vec<Piece>)>> {
    prop::collection::vec((pick(), prop::collection::vec(piece(), 0..4)), 0..4)
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        1 => Just(Text::Null),
        20 => (0u8..4).prop_map(Text::Short),
        1 => Just(Text::Longest),
        1 => Just(Text::TooLong),
    ]
}

fn core() -> impl Strategy<Value = Core> {
    prop_oneof![
        12 => (0u8..4).prop_map(Core::Some),
        3 => Just(Core::Last),
        1 => Just(Core::Behind),
        2 => Just(Core::Number(-1)),
        1 => prop::sample::select(vec![-2, i32::MIN, i32::MAX]).prop_map(Core::Number),
    ]
}

fn queues() -> impl Strategy<Value = Op> {
    let work = prop_oneof![
        3 => (pick(), extent()).prop_map(|(tensor, extent)| Work::Read { tensor, extent }),
        4 => (pick(), extent(), any::<u8>()).prop_map(|(tensor, extent, seed)| Work::Write { tensor, extent, seed }),
        4 => (pick(), extent(), pick(), extent())
            .prop_map(|(from, extent, to, at)| Work::Copy { from, extent, to, at }),
    ];
    let missing = prop::sample::select(vec![Missing::Buffer, Missing::Status, Missing::Sequence]);
    let number = prop_oneof![3 => 0u64..9, 1 => Just((1 << 48) - 1)];
    let sequence = prop_oneof![
        3 => index().prop_map(Sequence::Given),
        1 => (prop::sample::select(vec![0u8, 0, 1, 127, 255]), 0u8..5, 0u8..4, number)
            .prop_map(|(core, unit, queue, number)| Sequence::Parts { core, unit, queue, number }),
    ];
    let null = || prop::bool::weighted(0.05);
    prop_oneof![
        30 => (
            work,
            prop::option::weighted(0.15, core()),
            prop_oneof![40 => 0..2, 1 => prop::sample::select(vec![-1, 2, i32::MIN, i32::MAX])],
            prop::option::weighted(0.03, missing),
            prop::bool::weighted(0.9),
            // Several at once keep a queue busy for a while.
            prop_oneof![4 => Just(1), 1 => 2u8..30],
        )
            .prop_map(|(work, core, queue, missing, likely, times)| Op::Queue {
                work,
                core,
                queue,
                missing,
                likely,
                times
            }),
        3 => index().prop_map(|which| Op::Settle { which }),
        3 => (sequence, null()).prop_map(|(sequence, null)| Op::IsCompleted { sequence, null }),
        3 => (core(), prop_oneof![5 => 0u32..3, 1 => Just(3), 1 => Just(u32::MAX)], -1i32..4, null())
            .prop_map(|(core, unit, queue, null)| Op::LastCompleted { core, unit, queue, null }),
    ]
}

pub fn op() -> impl Strategy<Value = Op> {
    let placement = prop_oneof![6 => Just(0), 2 => Just(1), 3 => Just(2), 1 => Just(7), 1 => Just(u32::MAX)];
    let tensors = prop_oneof![
        12 => (placement, core(), size(), text())
            .prop_map(|(placement, core, size, name)| Op::Allocate { placement, core, size, name }),
        // One byte more than pinned memory gives.
        1 => (core(), prop::sample::select(vec![1, 7])).prop_map(|(core, placement)| Op::Allocate {
            placement,
            core,
            size: (4 << 20) + 1,
            name: Text::Null,
        }),
        2 => text().prop_map(|name| Op::Empty { name }),
        8 => (pick(), extent(), text()).prop_map(|(of, extent, name)| Op::Slice { of, extent, name }),
        4 => (pick(), 1usize..5000, prop::option::of((index(), extent())))
            .prop_map(|(tensor, size, again)| Op::Attach { tensor, size, again }),
        1 => (pick(), 0usize..2).prop_map(|(tensor, size)| Op::AttachNull { tensor, size }),
        5 => pick().prop_map(|tensor| Op::Free { tensor }),
        1 => Just(Op::FreeNull),
    ];
    let bytes = prop_oneof![
        8 => (pick(), extent()).prop_map(|(tensor, extent)| Op::Read { tensor, extent }),
        12 => (pick(), extent(), any::<u8>()).prop_map(|(tensor, extent, seed)| Op::Write { tensor, extent, seed }),
        4 => (parts(), any::<bool>()).prop_map(|(parts, skip_wait)| Op::ReadBatch { parts, skip_wait }),
        4 => (parts(), any::<bool>()).prop_map(|(parts, skip_wait)| Op::WriteBatch { parts, skip_wait }),
        1 => (any::<bool>(), prop::sample::select(vec![0, 1, u64::MAX / 24, u64::MAX]))
            .prop_map(|(write, len)| Op::NullBatch { write, len }),
        10 => (pick(), extent(), pick(), extent()).prop_map(|(from, extent, to, at)| Op::Copy { from, extent, to, at }),
        4 => (pick(), index(), any::<bool>()).prop_map(|(tensor, by, back)| Op::Shift { tensor, by, back }),
        4 => (pick(), extent(), any::<i32>()).prop_map(|(tensor, extent, value)| Op::Memset { tensor, extent, value }),
        4 => (pick(), extent(), any::<u8>(), any::<bool>())
            .prop_map(|(tensor, extent, seed, by_call)| Op::WriteVa { tensor, extent, seed, by_call }),
        1 => (0usize..2).prop_map(|size| Op::MemcpyNull { size }),
    ];
    let questions = prop_oneof![
        1 => pick().prop_map(|tensor| Op::Size { tensor }),
        1 => pick().prop_map(|tensor| Op::Va { tensor }),
        2 => (pick(), prop::bool::weighted(0.1)).prop_map(|(tensor, null)| Op::Info { tensor, null }),
        1 => (pick(), 0u64..2).prop_map(|(tensor, expected)| Op::Completion { tensor, expected }),
        1 => pick().prop_map(|tensor| Op::ResetCompletion { tensor }),
        3 => (core(), prop::sample::select(vec![16usize, 16, 16, 0, 8, 100]), any::<bool>())
            .prop_map(|(core, room, tell)| Op::Stats { core, room, tell }),
        1 => (prop::sample::select(vec![0, 0, 0, -1, 64, i32::MIN]), -1i32..6)
            .prop_map(|(device, hbm)| Op::Window { device, hbm }),
        1 => pick().prop_map(|tensor| Op::Dmabuf { tensor }),
    ];
    let sets = prop_oneof![
        2 => Just(Op::NewSet),
        4 => (pick(), text(), pick()).prop_map(|(set, name, tensor)| Op::Add { set, name, tensor }),
        4 => (pick(), text()).prop_map(|(set, name)| Op::Get { set, name }),
        1 => pick().prop_map(|set| Op::DestroySet { set }),
    ];
    // Boxed: the whole of it is too large for the stack of a test.
    prop_oneof![
        30 => tensors.boxed(),
        50 => bytes.boxed(),
        10 => questions.boxed(),
        10 => sets.boxed(),
        40 => queues().boxed(),
        2 => Just(Op::Init).boxed(),
        1 => Just(Op::Close).boxed(),
    ]
}
