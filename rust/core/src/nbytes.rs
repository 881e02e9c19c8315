//! The heap bytes of what does not report them.

/// The bytes of std's B-tree of `length` pairs, as filled in order: leaves of eleven places, of which six are used.
///
/// Each leaf but one has a pair in a node above it. Filled at random it uses more of each node, so this errs upwards.
pub(crate) const fn btree_bytes<K, V>(length: usize) -> usize {
    let leaf = 11 * (size_of::<K>() + size_of::<V>()) + 16;
    let leaves = length.div_ceil(if length > 11 { 7 } else { 11 });
    // Above the leaves a seventh as many inner nodes, which also hold twelve pointers.
    let inner = if leaves > 1 { leaves.div_ceil(7) } else { 0 };
    leaves * leaf + inner * (leaf + 12 * size_of::<usize>())
}
