//! Fast reading and writing of ranges that have the layout of the previous range: the same ledger, and entry ids with
//! the same number of bytes.
//!
//! Such ranges differ only in their entry ids. So they are read and written by comparing and copying the *frame*, the
//! bytes around the entry ids, in whole words. The general reader and writer handle all other ranges: if an entry id
//! needs one more byte, if the ledger changes, or if the layout differs (a large ledger or entry id, an unknown field,
//! the last bytes of the input). The next ranges then use the frame of that range.

use super::wire::varint_length;
use crate::varint;

/// The number of bytes in a window, the array from which a range is read and to which it is written. Reads and writes
/// with a frame touch at most the first 34 bytes, so they need no check for the end of the window.
pub(super) const WINDOW: usize = 64;

/// Frames exist only for entry ids below this number. Both entry ids of a range then fit into one word.
const ENTRY_LIMIT: u64 = 1 << 28;

/// A mask of the low seven bits of each of four bytes.
const SEVENS: u64 = 0x7f7f_7f7f;

/// The bytes of an encoded range without its two entry ids.
///
/// ```text
/// head     tag, length, 0A, length, 08, ledger, 10   up to 12 bytes
/// lower    the entry                                 1 to 4
/// middle   12, length, 08, ledger, 10                up to 10
/// upper    the entry                                 1 to 4
/// ```
///
/// The *body* is the lower entry and the middle. Of an entry id's bytes, the frame contains only the continuation bits.
/// The default frame matches no range.
#[derive(Clone, Copy, Default)]
pub(super) struct Frame {
    head: Part<u128>,
    body: Part<u128>,
    upper: Part<u64>,
    /// The mask of the lower entry id in the body. `upper_bits` is the mask of the upper entry id in the upper part.
    lower_bits: u64,
    upper_bits: u64,
    body_at: usize,
    upper_at: usize,
    length: usize,
    lowers: VarintInterval,
    uppers: VarintInterval,
}

/// The fixed bits of a part of the frame: their values, and a mask of their places.
#[derive(Clone, Copy, Default)]
struct Part<T> {
    bits: T,
    mask: T,
}

/// An interval of numbers whose varints have the same number of bytes.
#[derive(Clone, Copy, Default)]
struct VarintInterval {
    first: u64,
    count: u64,
}

impl VarintInterval {
    fn of_length(length: usize) -> Self {
        let end = 1 << (7 * length);
        let first = if length == 1 { 0 } else { end >> 7 };
        Self { first, count: end - first }
    }

    #[inline]
    fn holds(self, number: i64) -> bool {
        (number as u64).wrapping_sub(self.first) < self.count
    }
}

impl Frame {
    /// Returns the frame of this range in a field with this number. Other ranges with the same layout have the same
    /// frame. `None` if ranges of this layout cannot have a frame.
    pub(super) fn like(number: u32, ledger_id: i64, lower: i64, upper: i64) -> Option<Self> {
        let prefix_length = 2 + varint_length(ledger_id as u64);
        if (lower | upper) as u64 >= ENTRY_LIMIT || prefix_length > 8 || number > 15 {
            return None;
        }
        let (lower_length, upper_length) =
            (varint_length(lower as u64), varint_length(upper as u64));
        let middle_length = 2 + prefix_length;
        let body_at = 4 + prefix_length;
        let upper_at = body_at + lower_length + middle_length;
        let length = upper_at + upper_length;
        let prefix = |position: &mut Bytes| {
            position.push(1 << 3);
            position.push_varint(ledger_id as u64);
            position.push(2 << 3);
        };
        let mut head = Bytes::default();
        head.push((number << 3 | 2) as u8);
        head.push((length - 2) as u8);
        head.push(1 << 3 | 2);
        head.push((prefix_length + lower_length) as u8);
        prefix(&mut head);
        let mut body = Bytes::default();
        body.push_continuation(lower_length);
        body.push(2 << 3 | 2);
        body.push((prefix_length + upper_length) as u8);
        prefix(&mut body);
        let mut last = Bytes::default();
        last.push_continuation(upper_length);
        Some(Self {
            head: Part { bits: head.bits, mask: head.mask },
            body: Part { bits: body.bits, mask: body.mask },
            upper: Part { bits: last.bits as u64, mask: last.mask as u64 },
            lower_bits: SEVENS >> (32 - 8 * lower_length),
            upper_bits: SEVENS >> (32 - 8 * upper_length),
            body_at,
            upper_at,
            length,
            lowers: VarintInterval::of_length(lower_length),
            uppers: VarintInterval::of_length(upper_length),
        })
    }

    /// Returns the number of bytes of a range with this frame.
    #[inline]
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Returns the lower and the upper entry of the range at the start of the window; `None` if the range has another
    /// layout.
    #[inline]
    pub(super) fn read(&self, window: &[u8; WINDOW]) -> Option<(i64, i64)> {
        let head = u128::from_le_bytes(bytes_at(window, 0));
        let body = u128::from_le_bytes(bytes_at(window, self.body_at));
        let upper = u64::from_le_bytes(bytes_at(window, self.upper_at));
        let other = (head & self.head.mask ^ self.head.bits)
            | (body & self.body.mask ^ self.body.bits)
            | u128::from(upper & self.upper.mask ^ self.upper.bits);
        if other != 0 {
            return None;
        }
        let (lower, upper) = join_bits(body as u64 & self.lower_bits, upper & self.upper_bits);
        (lower <= upper).then_some((lower, upper))
    }

    /// Writes a range into the window; returns false if the entry ids do not fit the layout.
    #[inline]
    pub(super) fn write(&self, window: &mut [u8; WINDOW], lower: i64, upper: i64) -> bool {
        if !self.lowers.holds(lower) || !self.uppers.holds(upper) {
            return false;
        }
        let (lower, upper) = spread(lower, upper);
        let body = self.body.bits | u128::from(lower);
        window[..16].copy_from_slice(&self.head.bits.to_le_bytes());
        window[self.body_at..self.body_at + 16].copy_from_slice(&body.to_le_bytes());
        let upper = self.upper.bits | upper;
        window[self.upper_at..self.upper_at + 8].copy_from_slice(&upper.to_le_bytes());
        true
    }
}

/// A builder of a [`Part`]: the bytes that were appended so far. The first byte is in the lowest bits.
#[derive(Default)]
struct Bytes {
    bits: u128,
    mask: u128,
    length: usize,
}

impl Bytes {
    fn push_masked(&mut self, byte: u8, mask: u8) {
        self.bits |= u128::from(byte) << (8 * self.length);
        self.mask |= u128::from(mask) << (8 * self.length);
        self.length += 1;
    }

    fn push(&mut self, byte: u8) {
        self.push_masked(byte, 0xff);
    }

    fn push_varint(&mut self, number: u64) {
        varint::write(number, |byte| self.push(byte));
    }

    /// Appends the bytes of a varint of `length` bytes. Only their continuation bits are fixed.
    fn push_continuation(&mut self, length: usize) {
        (1..length).for_each(|_| self.push_masked(0x80, 0x80));
        self.push_masked(0, 0x80);
    }
}

#[inline]
fn bytes_at<const LENGTH: usize>(window: &[u8; WINDOW], at: usize) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes.copy_from_slice(&window[at..at + LENGTH]);
    bytes
}

/// Splits two numbers below [`ENTRY_LIMIT`] into groups of seven bits. Returns each number's groups as bytes of one
/// word.
#[inline]
fn spread(lower: i64, upper: i64) -> (u64, u64) {
    let both = lower as u64 | (upper as u64) << 32;
    let twos = both & 0x0000_3fff_0000_3fff | (both & 0x0fff_c000_0fff_c000) << 2;
    let ones = twos & 0x007f_007f_007f_007f | (twos & 0x3f80_3f80_3f80_3f80) << 1;
    (ones & 0xffff_ffff, ones >> 32)
}

/// Returns the two numbers that [`spread`] splits into these words.
#[inline]
fn join_bits(lower: u64, upper: u64) -> (i64, i64) {
    let ones = lower | upper << 32;
    let twos = ones & 0x007f_007f_007f_007f | (ones & 0x7f00_7f00_7f00_7f00) >> 1;
    let both = twos & 0x0000_3fff_0000_3fff | (twos & 0x3fff_0000_3fff_0000) >> 2;
    ((both & 0xffff_ffff) as i64, (both >> 32) as i64)
}
