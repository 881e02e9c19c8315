//! One column of a page: the remaining counts or the hashes of up to 64 entries. For each value, only the low bytes in
//! which the values differ are stored.
//!
//! Sticky-key hashes of a topic are in 0..65,536, batch sizes are often below 256, and on Shared subscriptions all
//! hashes are equal. So a column stores the common high bits once (`prefix`), and the `width` low bytes of each value.
//! A column of equal values takes no bytes.

/// The number of entries in a page. So one 64-bit word has a bit for each entry.
pub(super) const SLOTS: usize = 64;
/// The number of unused bytes after the last column. With them, four bytes can be read from the start of the last
/// value, for any width.
pub(super) const PADDING: usize = 4;

/// The number of stored low bytes of each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Width {
    Zero = 0,
    One = 1,
    Two = 2,
    Four = 4,
}

impl Width {
    /// Returns the minimum width for values that differ only in the bits that are set in `bits`.
    pub(super) const fn of_difference(bits: i32) -> Self {
        match bits.cast_unsigned() {
            0 => Self::Zero,
            1..0x100 => Self::One,
            0x100..0x1_0000 => Self::Two,
            0x1_0000.. => Self::Four,
        }
    }

    #[inline]
    pub(super) const fn bytes(self) -> usize {
        self as usize
    }

    /// Returns a mask of the low bits that are stored for each value.
    #[inline]
    const fn mask(self) -> i32 {
        ((1_u64 << (8 * self.bytes())) - 1) as i32
    }
}

/// The layout of a column. Its bytes are stored in the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// The high bits, which are equal in all values. The low `width` bytes are 0.
    pub(super) prefix: i32,
    pub(super) width: Width,
}

impl Column {
    /// Returns a column of this width that can hold `value`.
    #[inline]
    pub(super) const fn holding(value: i32, width: Width) -> Self {
        Self { prefix: value & !width.mask(), width }
    }

    #[inline]
    pub(super) const fn fits(self, value: i32) -> bool {
        value & !self.width.mask() == self.prefix
    }

    /// Returns the value at index `at` of the column, whose bytes begin at `start`.
    ///
    /// Four bytes are read and masked for any width, so there is no branch. [`PADDING`] makes this possible for the
    /// last value.
    #[inline]
    pub(super) fn read(self, bytes: &[u8], start: usize, at: usize) -> i32 {
        let low = i32::from_le_bytes(word(bytes, start + at * self.width.bytes()));
        self.prefix | (low & self.width.mask())
    }

    /// Stores `value` at index `at` of the column, whose bytes begin at `start`. The value must fit into the column.
    #[inline]
    pub(super) fn write(self, bytes: &mut [u8], start: usize, at: usize, value: i32) {
        let place = &mut bytes[start + at * self.width.bytes()..];
        match self.width {
            Width::Zero => {}
            Width::One => place[0] = value as u8,
            Width::Two => place[..2].copy_from_slice(&(value as u16).to_le_bytes()),
            Width::Four => place[..4].copy_from_slice(&value.to_le_bytes()),
        }
    }

    /// Reads all values. The `match` on the width is outside the loops, so that the loops are vectorised.
    #[inline]
    pub(super) fn read_all(self, bytes: &[u8], values: &mut [i32; SLOTS]) {
        match self.width {
            Width::Zero => values.fill(self.prefix),
            Width::One => {
                for (value, &low) in values.iter_mut().zip(bytes) {
                    *value = self.prefix | i32::from(low);
                }
            }
            Width::Two => {
                for (value, low) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = self.prefix | i32::from(u16::from_le_bytes(*low));
                }
            }
            Width::Four => {
                for (value, low) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = i32::from_le_bytes(*low);
                }
            }
        }
    }

    /// Makes room for a value at index `at`: moves each value at the indexes `at..count` to the next index.
    pub(super) fn open(self, bytes: &mut [u8], at: usize, count: usize) {
        let width = self.width.bytes();
        bytes.copy_within(at * width..count * width, (at + 1) * width);
    }

    /// Removes the value at index `at`: moves each value at the indexes `at + 1..count` to the previous index.
    pub(super) fn close(self, bytes: &mut [u8], at: usize, count: usize) {
        let width = self.width.bytes();
        bytes.copy_within((at + 1) * width..count * width, at * width);
    }
}

/// Calls `visit` with the values of two columns of a full page, slot by slot.
///
/// There is a separate loop for each pair of widths, because most pages are full.
#[inline]
pub(super) fn zip(
    (first, bytes): (Column, &[u8]),
    second: (Column, &[u8]),
    visit: impl FnMut(u32, i32, i32),
) {
    match first.width {
        Width::Zero => zip_with(|_| first.prefix, second, visit),
        Width::One => {
            let low: &[u8; SLOTS] = bytes.first_chunk().expect("a place for every slot");
            zip_with(|slot| first.prefix | i32::from(low[slot]), second, visit);
        }
        Width::Two | Width::Four => {
            let mut values = [0; SLOTS];
            first.read_all(bytes, &mut values);
            zip_with(|slot| values[slot], second, visit);
        }
    }
}

#[inline]
fn zip_with(
    first: impl Fn(usize) -> i32,
    (second, bytes): (Column, &[u8]),
    mut visit: impl FnMut(u32, i32, i32),
) {
    match second.width {
        Width::Zero => each_slot(first, |_| second.prefix, &mut visit),
        Width::One => {
            let low: &[u8; SLOTS] = bytes.first_chunk().expect("a place for every slot");
            each_slot(first, |slot| second.prefix | i32::from(low[slot]), &mut visit);
        }
        Width::Two => {
            let low: &[[u8; 2]; SLOTS] =
                bytes.as_chunks().0.first_chunk().expect("a place for every slot");
            let value = |slot: usize| second.prefix | i32::from(u16::from_le_bytes(low[slot]));
            each_slot(first, value, &mut visit);
        }
        Width::Four => {
            let mut values = [0; SLOTS];
            second.read_all(bytes, &mut values);
            each_slot(first, |slot| values[slot], &mut visit);
        }
    }
}

#[inline]
fn each_slot(
    first: impl Fn(usize) -> i32,
    second: impl Fn(usize) -> i32,
    visit: &mut impl FnMut(u32, i32, i32),
) {
    for slot in 0..SLOTS {
        visit(slot as u32, first(slot), second(slot));
    }
}

/// Returns four bytes at `offset`, or zeros if the page has no bytes because all its values are equal.
#[inline]
fn word(bytes: &[u8], offset: usize) -> [u8; 4] {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}
