//! Numbers of 64 bits in groups of seven bits, the lowest first (LEB128). The highest bit of each byte is set if
//! another byte follows.

/// Writes a number: calls `push` with each byte.
#[inline]
pub(crate) fn write(mut value: u64, mut push: impl FnMut(u8)) {
    while value >= 0x80 {
        push(value as u8 | 0x80);
        value >>= 7;
    }
    push(value as u8);
}

/// Reads a number from the bytes that `next` returns; `None` if it has more than 64 bits.
#[inline]
pub(crate) fn read<E>(mut next: impl FnMut() -> Result<u8, E>) -> Result<Option<u64>, E> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = next()?;
        if shift == 63 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Converts a signed number to an unsigned one, so that numbers near 0 become small numbers: 0, -1, 1, -2 become 0, 1,
/// 2, 3.
#[inline]
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Returns the signed number for a result of [`zigzag`].
#[inline]
pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
