//! Heap bytes of types that do not report them.

/// The bytes of std's B-tree of `length` pairs, as filled in order: nodes of eleven, of which six are used.
///
/// A tree filled at random uses more of each node, so this is an upper estimate.
pub(crate) const fn btree_bytes<K, V>(length: usize) -> usize {
    let leaf = 11 * (size_of::<K>() + size_of::<V>()) + 16;
    let leaves = if length <= 11 { (length > 0) as usize } else { length.div_ceil(6) };
    // Above the leaves a seventh as many inner nodes, which also hold twelve pointers.
    leaves * leaf + leaves / 7 * (leaf + 12 * size_of::<usize>())
}

/// Like [`btree_bytes`], for a tree that is filled in order or at random: seven of eleven places are used, which is
/// right within a fifth.
pub(crate) const fn mixed_btree_bytes<K, V>(length: usize) -> usize {
    length.div_ceil(7) * (11 * (size_of::<K>() + size_of::<V>()) + 16)
}
