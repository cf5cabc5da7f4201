//! The C++ members of the static record as libstdc++ lays them out on x86-64: a vector is three
//! pointers, a map is a red-black tree whose header node lies inside the object
//! (`facts/config/substructs.tsv`). Rust owns the elements and the nodes.

use super::record::{Addr, IntMap, IntVec, MapNode, Zero};
use std::{collections::BTreeMap, mem::offset_of, mem::size_of};

const RED: u32 = 0;
const BLACK: u32 = 1;

impl IntVec {
    /// The vector whose elements are `list`, which must outlive every reader of the record.
    pub(crate) fn over(list: &[i32]) -> IntVec {
        if list.is_empty() {
            return IntVec::ZERO;
        }
        let begin = Addr::of(list.as_ptr());
        let end = begin.plus(size_of_val(list));
        IntVec { begin, end, end_of_storage: end }
    }
}

impl IntMap {
    /// The map at address `place` with the entries of `from`, and the nodes it points to. The
    /// nodes must outlive every reader of the record.
    ///
    /// A sorted list halved at its middle is a search tree whose levels are full but for the last;
    /// red on an incomplete last level and black elsewhere then satisfies all red-black rules.
    pub(crate) fn at(place: Addr, from: &BTreeMap<u32, u32>) -> (IntMap, Box<[MapNode]>) {
        let header = place.plus(offset_of!(IntMap, color));
        let mut nodes: Box<[MapNode]> =
            from.iter().map(|(&key, &value)| MapNode { key, value, ..MapNode::ZERO }).collect();
        let base = Addr::of(nodes.as_ptr());
        let last_level = nodes.len().checked_ilog2().unwrap_or(0);
        let root = link(&mut nodes, base, 0, header, last_level);
        let first = if nodes.is_empty() { header } else { base };
        let last = if nodes.is_empty() { header } else { base.plus((nodes.len() - 1) * size_of::<MapNode>()) };
        let map = IntMap {
            color: RED,
            parent: root,
            left: first,
            right: last,
            node_count: nodes.len() as u64,
            ..IntMap::ZERO
        };
        (map, nodes)
    }
}

/// Link `nodes`, which start at address `base`, below `parent`; answers the address of their root.
fn link(nodes: &mut [MapNode], base: Addr, depth: u32, parent: Addr, last_level: u32) -> Addr {
    if nodes.is_empty() {
        return Addr(0);
    }
    let middle = nodes.len() / 2;
    let address = base.plus(middle * size_of::<MapNode>());
    let (left, rest) = nodes.split_at_mut(middle);
    let (node, right) = rest.split_first_mut().expect("a list that is not empty has a middle");
    node.parent = parent;
    node.color = if depth == last_level && depth > 0 { RED } else { BLACK };
    node.left = link(left, base, depth + 1, address, last_level);
    node.right = link(right, address.plus(size_of::<MapNode>()), depth + 1, address, last_level);
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Walks by address as a C++ reader does; answers the black height.
    fn walk(nodes: &[MapNode], base: usize, at: Addr, parent: Addr, red_above: bool, out: &mut Vec<(u32, u32)>) -> u32 {
        if at == Addr(0) {
            return 0;
        }
        assert_eq!((at.0 - base) % size_of::<MapNode>(), 0);
        let node = nodes[(at.0 - base) / size_of::<MapNode>()];
        assert_eq!(node.parent, parent);
        assert!(!(red_above && node.color == RED), "two red nodes in a row");
        let left = walk(nodes, base, node.left, at, node.color == RED, out);
        out.push((node.key, node.value));
        let right = walk(nodes, base, node.right, at, node.color == RED, out);
        assert_eq!(left, right, "black heights differ");
        left + node.color
    }

    proptest! {
        #[test]
        fn a_map_of_any_size_is_a_red_black_tree(entries in proptest::collection::btree_map(any::<u32>(), any::<u32>(), 0..70)) {
            let place = Addr(0x1000);
            let (map, nodes) = IntMap::at(place, &entries);
            let base = nodes.as_ptr().expose_provenance();
            let mut found = Vec::new();
            walk(&nodes, base, map.parent, Addr(0x1008), false, &mut found);
            prop_assert_eq!(&found, &entries.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(map.node_count as usize, entries.len());
            if let Some(root) = (map.parent.0 != 0).then(|| nodes[(map.parent.0 - base) / 40]) {
                prop_assert_eq!(root.color, BLACK);
                prop_assert_eq!(nodes[(map.left.0 - base) / 40].key, found[0].0);
                prop_assert_eq!(nodes[(map.right.0 - base) / 40].key, found[found.len() - 1].0);
            } else {
                prop_assert_eq!((map.left, map.right), (Addr(0x1008), Addr(0x1008)));
            }
        }

        #[test]
        fn a_vector_has_begin_end_and_capacity(list in proptest::collection::vec(any::<i32>(), 0..9)) {
            let vec = IntVec::over(&list);
            prop_assert_eq!((vec.end.0 - vec.begin.0) / 4, list.len());
            prop_assert_eq!(vec.end, vec.end_of_storage);
            prop_assert_eq!(vec.begin.0 == 0, list.is_empty());
        }
    }
}
