//! Estimates of the heap memory, in bytes, of types that do not report it.

/// Returns the estimated size in bytes of a `BTreeMap` of `length` pairs that were inserted in order. After such
/// insertions, a node uses six of its eleven places.
///
/// If the pairs were inserted in random order, the nodes use more of their places, and the tree is smaller than this
/// estimate.
pub(crate) const fn btree_bytes<K, V>(length: usize) -> usize {
    let leaf = 11 * (size_of::<K>() + size_of::<V>()) + 16;
    let leaves = if length <= 11 { (length > 0) as usize } else { length.div_ceil(6) };
    // There is one inner node for about seven leaves. An inner node also has twelve pointers.
    leaves * leaf + leaves / 7 * (leaf + 12 * size_of::<usize>())
}

/// Does the same as [`btree_bytes`] for a tree that is filled in any order. It assumes that a node uses seven of its
/// eleven places. The error is at most 20 %.
pub(crate) const fn mixed_btree_bytes<K, V>(length: usize) -> usize {
    length.div_ceil(7) * (11 * (size_of::<K>() + size_of::<V>()) + 16)
}
