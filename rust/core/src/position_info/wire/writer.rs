//! The writer of the wire format, which appends to a vector. Lengths are computed first, so no bytes are moved.

use crate::varint;

/// Appends a base-128 varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, value: u64) {
    varint::write(value, |byte| out.push(byte));
}

/// Returns the number of bytes that [`put_varint`] appends for `value`.
#[inline]
pub(crate) const fn varint_length(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Returns the number of bytes of a tag.
pub(crate) const fn tag_length(number: u32) -> usize {
    varint_length((number as u64) << 3)
}

/// Appends an `int64` field; negative values take ten bytes.
pub(crate) fn put_int_field(out: &mut Vec<u8>, number: u32, value: i64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value as u64);
}

/// Appends the tag and the length of a field whose `length` bytes the caller appends next.
pub(crate) fn put_length(out: &mut Vec<u8>, number: u32, length: usize) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, length as u64);
}

/// Appends a string, bytes or an encoded message.
pub(crate) fn put_bytes_field(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_length(out, number, bytes.len());
    out.extend_from_slice(bytes);
}
