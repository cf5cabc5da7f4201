//! Any sequence of calls does what it would do on plain vectors.

use super::*;
use proptest::{prelude::*, sample::Index};

#[derive(Clone, Debug)]
enum Op {
    Allocate { placement: u32, vnc: i32, size: usize },
    Empty,
    Attach { tensor: Index, size: usize },
    Slice { tensor: Index, offset: usize, size: usize },
    Free { tensor: Index },
    Write { tensor: Index, offset: usize, data: Vec<u8>, split: usize, wait: bool },
    Fill { tensor: Index, offset: usize, value: i32, size: usize },
    Copy { from: Index, from_offset: usize, to: Index, to_offset: usize, size: usize },
    Read { tensor: Index, offset: usize, size: usize, split: usize, wait: bool },
}

const MOST: usize = 300;

fn op() -> impl Strategy<Value = Op> {
    let tensor = || any::<Index>();
    let number = || 0..MOST;
    prop_oneof![
        3 => (0u32..4, -1i32..5, number()).prop_map(|(placement, vnc, size)| Op::Allocate { placement, vnc, size }),
        1 => Just(Op::Empty),
        1 => (tensor(), number()).prop_map(|(tensor, size)| Op::Attach { tensor, size }),
        3 => (tensor(), 0..MOST / 2, 0..MOST / 2)
            .prop_map(|(tensor, offset, size)| Op::Slice { tensor, offset, size }),
        1 => tensor().prop_map(|tensor| Op::Free { tensor }),
        5 => (tensor(), 0..MOST / 2, prop::collection::vec(any::<u8>(), 0..MOST / 2), 0..MOST, any::<bool>())
            .prop_map(|(tensor, offset, data, split, wait)| Op::Write { tensor, offset, data, split, wait }),
        2 => (tensor(), number(), any::<i32>(), 0..MOST / 2)
            .prop_map(|(tensor, offset, value, size)| Op::Fill { tensor, offset, value, size }),
        5 => (tensor(), 0..MOST / 2, tensor(), 0..MOST / 2, 0..MOST / 2)
            .prop_map(|(from, from_offset, to, to_offset, size)| Op::Copy { from, from_offset, to, to_offset, size }),
        3 => (tensor(), number(), number(), 0..MOST, any::<bool>())
            .prop_map(|(tensor, offset, size, split, wait)| Op::Read { tensor, offset, size, split, wait }),
    ]
}

/// Bytes, and the driver memory they are in: `Some(number of the HBM)`, pinned host memory as -1.
struct Plain {
    bytes: Vec<u8>,
    dma: Option<i32>,
}

/// A tensor of the model: which storage, from where, how long.
#[derive(Clone, Copy)]
struct ViewOf {
    handle: usize,
    span: Option<(usize, usize, usize)>,
}

impl ViewOf {
    /// The same bytes in the storage, if they are inside.
    fn range(self, offset: usize, size: usize) -> Option<(usize, std::ops::Range<usize>)> {
        let (storage, start, len) = self.span?;
        (offset + size <= len).then(|| (storage, start + offset..start + offset + size))
    }
}

fn order(wait: bool) -> Wait {
    if wait { Wait::InFlight } else { Wait::Skip }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn calls_act_as_on_plain_vectors(ops in prop::collection::vec(op(), 1..80)) {
        let store = trn1();
        let mut plain: Vec<Plain> = Vec::new();
        let mut tensors: Vec<ViewOf> = Vec::new();
        for op in ops {
            let tensor = |index: &Index| *index.get(&tensors);
            match &op {
                Op::Allocate { .. } | Op::Empty => {}
                _ if tensors.is_empty() => continue,
                _ => {}
            }
            match op {
                Op::Allocate { placement, vnc, size } => {
                    let answer = store.allocate(placement, vnc, size, Some(c"model"));
                    let core = (0..4).contains(&vnc) || (vnc == -1 && placement != DEVICE);
                    prop_assert_eq!(answer.is_ok(), core && size > 0);
                    if let Ok(handle) = answer {
                        // New memory holds anything.
                        resolve("test", handle).unwrap().memset(0, 0, size).unwrap();
                        let dma = match placement { 0 => Some(vnc), 2 => None, _ => Some(-1) };
                        tensors.push(ViewOf { handle, span: Some((plain.len(), 0, size)) });
                        plain.push(Plain { bytes: vec![0; size], dma });
                    }
                }
                Op::Empty => tensors.push(ViewOf { handle: allocate_empty(None).unwrap(), span: None }),
                Op::Attach { tensor, size } => {
                    let chosen = tensor.index(tensors.len());
                    let view = &mut tensors[chosen];
                    resolve("test", view.handle).unwrap().attach(Box::new(Buffer::new(size)));
                    view.span = Some((plain.len(), 0, size));
                    plain.push(Plain { bytes: vec![0; size], dma: None });
                }
                Op::Slice { tensor: index, offset, size } => {
                    let source = tensor(&index);
                    let answer = allocate_slice(&resolve("test", source.handle).unwrap(), offset, size, None);
                    let expected = source.range(offset, size);
                    prop_assert_eq!(answer.ok().is_some(), expected.is_some());
                    if let (Ok(handle), Some((storage, range))) = (answer, expected) {
                        tensors.push(ViewOf { handle, span: Some((storage, range.start, size)) });
                    }
                }
                Op::Free { tensor } => {
                    let chosen = tensor.index(tensors.len());
                    let view = tensors.swap_remove(chosen);
                    // Keeps the address from being given out again.
                    let _kept = resolve("test", view.handle).unwrap();
                    prop_assert_eq!(free(view.handle), Ok(()));
                    prop_assert_eq!(free(view.handle), Err(Status::InvalidHandle));
                }
                Op::Write { tensor: index, offset, data, split, wait } => {
                    let view = tensor(&index);
                    // Two operations that together cover the data.
                    let split = split.min(data.len());
                    let ops = [(offset, &data[..split]), (offset + split, &data[split..])];
                    let answer = resolve("test", view.handle).unwrap().write_batch(ops, order(wait));
                    prop_assert_eq!(answer.is_ok(), view.range(offset, data.len()).is_some());
                    for (offset, data) in ops {
                        match view.range(offset, data.len()) {
                            Some((storage, range)) => plain[storage].bytes[range].copy_from_slice(data),
                            None => break,
                        }
                    }
                }
                Op::Fill { tensor: index, offset, value, size } => {
                    let view = tensor(&index);
                    let answer = resolve("test", view.handle).unwrap().memset(offset, value, size);
                    let expected = view.range(offset, size);
                    prop_assert_eq!(answer.is_ok(), expected.is_some());
                    if let Some((storage, range)) = expected {
                        plain[storage].bytes[range].fill(value as u8);
                    }
                }
                Op::Copy { from, from_offset, to, to_offset, size } => {
                    let (from, to) = (tensor(&from), tensor(&to));
                    let tensor = |view: ViewOf| resolve("test", view.handle).unwrap();
                    let answer = copy(&tensor(from), from_offset, &tensor(to), to_offset, size);
                    let expected = from.range(from_offset, size).zip(to.range(to_offset, size)).filter(|(from, to)| {
                        let (from, to) = (plain[from.0].dma, plain[to.0].dma);
                        from.is_none() || to.is_none() || from == to
                    });
                    prop_assert_eq!(answer.is_ok(), expected.is_some());
                    if let Some(((source, from), (target, to))) = expected {
                        let data = plain[source].bytes[from].to_vec();
                        plain[target].bytes[to].copy_from_slice(&data);
                    }
                }
                Op::Read { tensor: index, offset, size, split, wait } => {
                    let view = tensor(&index);
                    let mut out = vec![0; size];
                    let (first, second) = out.split_at_mut(split.min(size));
                    let after = offset + first.len();
                    let ops = [(offset, first), (after, second)];
                    let answer = resolve("test", view.handle).unwrap().read_batch(ops, order(wait));
                    let expected = view.range(offset, size);
                    prop_assert_eq!(answer.is_ok(), expected.is_some());
                    if let Some((storage, range)) = expected {
                        prop_assert_eq!(&out, &plain[storage].bytes[range]);
                    }
                }
            }
        }
        let used: usize = (0..4).map(|vnc| store.memory_stats(vnc).unwrap().bytes_used).sum();
        let mut on_device: Vec<usize> = tensors.iter().filter_map(|view| view.span).map(|span| span.0).collect();
        on_device.sort_unstable();
        on_device.dedup();
        on_device.retain(|&storage| plain[storage].dma.is_some_and(|hbm| hbm >= 0));
        prop_assert_eq!(used, on_device.len() * 4096, "one page for each storage with a view left");
        for view in tensors {
            let tensor = resolve("test", view.handle).unwrap();
            match view.span {
                Some((storage, start, size)) => prop_assert_eq!(bytes(&tensor), &plain[storage].bytes[start..start + size]),
                None => prop_assert_eq!(tensor.size(), 0),
            }
            free(view.handle).unwrap();
        }
    }
}
