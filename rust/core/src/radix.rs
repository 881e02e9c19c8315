//! A stable radix sort of keys of up to 32 bits. It sorts 8-byte pairs, which consist of a key and an index.
//!
//! The time wheel groups new messages by slot with it, and sorts the runs of a slot by tick. These keys have only a few
//! bits. Two or three passes over the pairs take a quarter of the time of a comparison sort of the messages. One more
//! pass then moves the messages.

/// The maximum number of bits of a key. Larger keys need a comparison sort.
pub(crate) const KEY_BITS_MAX: u32 = 32;

/// Returns the indexes of `keys` in ascending order of key. Equal keys keep their order. Keys are below `2^bits`.
///
/// `bits` is at most [`KEY_BITS_MAX`], and there are at most `u32::MAX` keys.
pub(crate) fn order(keys: impl ExactSizeIterator<Item = u64>, bits: u32) -> Vec<u64> {
    assert!(bits <= KEY_BITS_MAX && keys.len() <= u32::MAX as usize);
    let mut pairs: Vec<u64> =
        keys.enumerate().map(|(index, key)| key << 32 | index as u64).collect();
    if pairs.len() < 64 {
        pairs.sort_unstable();
    } else {
        // If there are many more pairs than counters, wider digits need one pass less.
        let digit = if pairs.len() < 4096 { 8 } else { 11 };
        let mut spare = vec![0; pairs.len()];
        for shift in (32..32 + bits).step_by(digit) {
            scatter(&pairs, &mut spare, shift, digit);
            std::mem::swap(&mut pairs, &mut spare);
        }
    }
    pairs.iter_mut().for_each(|pair| *pair &= u64::from(u32::MAX));
    pairs
}

fn scatter(from: &[u64], to: &mut [u64], shift: u32, digit: usize) {
    let mask = (1 << digit) - 1;
    let mut places = vec![0u32; 1 << digit];
    from.iter().for_each(|pair| places[(pair >> shift) as usize & mask] += 1);
    let mut next = 0;
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    for &pair in from {
        let place = &mut places[(pair >> shift) as usize & mask];
        to[*place as usize] = pair;
        *place += 1;
    }
}
