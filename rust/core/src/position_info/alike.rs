//! Ranges that follow one of the same ledger: they differ in their entries alone, and a million of them
//! are read and written by comparing and copying the bytes around those.
//!
//! Whatever is not laid out exactly so (a far ledger or entry, an unknown field, an overlong varint, the last
//! bytes of the input) is left to the reader and writer of every message.

use super::wire::varint_length;

/// A range takes at most 38 bytes here; a window of 64 needs no check of its length at every step.
pub(super) const WINDOW: usize = 64;

/// The low seven bits of each byte.
const SEVENS: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// The bytes of one ledger's ranges before each entry: tag and id of the ledger, and the tag of the entry.
#[derive(Clone, Copy)]
pub(super) struct Alike {
    tag: u8,
    prefix: u64,
    mask: u64,
    length: usize,
}

impl Alike {
    /// For ranges of this ledger as field `number`; `None` when the bytes before an entry do not fit a word.
    pub(super) fn of(number: u32, ledger_id: i64) -> Option<Self> {
        let length = 2 + varint_length(ledger_id as u64);
        if length > 8 || number > 15 {
            return None;
        }
        let ledger = 1 << 3 | spread(ledger_id as u64) << 8;
        let prefix = ledger | 2 << 3 << (8 * (length - 1));
        Some(Self {
            tag: (number << 3 | 2) as u8,
            prefix,
            mask: u64::MAX >> (64 - 8 * length),
            length,
        })
    }

    /// The lower and upper entry of the range that begins the window, and how many bytes it takes.
    #[inline]
    pub(super) fn read(self, window: &[u8; WINDOW]) -> Option<(i64, i64, usize)> {
        let (lower, lower_length) = self.endpoint(window, 4)?;
        let middle = 4 + self.length + lower_length;
        let (upper, upper_length) = self.endpoint(window, middle + 2)?;
        let length = middle + 2 + self.length + upper_length;
        let expected = [self.tag, length as u8 - 2, 1 << 3 | 2, (self.length + lower_length) as u8];
        let between = [2 << 3 | 2, (self.length + upper_length) as u8];
        let alike = window[..4] == expected && window[middle..middle + 2] == between;
        (alike && lower <= upper).then_some((lower as i64, upper as i64, length))
    }

    /// An entry behind the prefix at `at`, and the bytes of its varint.
    #[inline]
    fn endpoint(self, window: &[u8; WINDOW], at: usize) -> Option<(u64, usize)> {
        if word(window, at) & self.mask != self.prefix {
            return None;
        }
        let bytes = word(window, at + self.length);
        let ends = !bytes & !SEVENS;
        if ends == 0 {
            return None;
        }
        let length = ends.trailing_zeros() as usize / 8 + 1;
        let last = bytes >> (8 * length - 8) & 0x7f;
        if last == 0 && length > 1 {
            return None;
        }
        Some((gather(bytes & SEVENS & u64::MAX >> (64 - 8 * length)), length))
    }

    /// Lays a range into the window and gives how many bytes it takes; `None` for a far or negative entry.
    #[inline]
    pub(super) fn write(self, window: &mut [u8; WINDOW], lower: i64, upper: i64) -> Option<usize> {
        if (lower | upper) as u64 >> 56 != 0 {
            return None;
        }
        let lower_length = self.length + varint_length(lower as u64);
        let upper_length = self.length + varint_length(upper as u64);
        let middle = 4 + lower_length;
        let length = middle + 2 + upper_length;
        window[..4].copy_from_slice(&[self.tag, length as u8 - 2, 1 << 3 | 2, lower_length as u8]);
        self.put(window, 4, lower);
        window[middle..middle + 2].copy_from_slice(&[2 << 3 | 2, upper_length as u8]);
        self.put(window, middle + 2, upper);
        Some(length)
    }

    #[inline]
    fn put(self, window: &mut [u8; WINDOW], at: usize, entry: i64) {
        window[at..at + 8].copy_from_slice(&self.prefix.to_le_bytes());
        let at = at + self.length;
        window[at..at + 8].copy_from_slice(&spread(entry as u64).to_le_bytes());
    }
}

#[inline]
fn word(window: &[u8; WINDOW], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&window[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// A number below 2^56 as the bytes of its varint.
#[inline]
fn spread(number: u64) -> u64 {
    let pairs = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x0fff_c000_0fff_c000) << 2;
    let eights = fours & 0x007f_007f_007f_007f | (fours & 0x3f80_3f80_3f80_3f80) << 1;
    let continued = (varint_length(number) as u32 - 1) * 8;
    eights | !SEVENS & ((1 << continued) - 1)
}

/// The number whose groups of seven bits are these bytes, all below 0x80.
#[inline]
fn gather(eights: u64) -> u64 {
    let fours = eights & 0x007f_007f_007f_007f | (eights & 0x7f00_7f00_7f00_7f00) >> 1;
    let pairs = fours & 0x0000_3fff_0000_3fff | (fours & 0x3fff_0000_3fff_0000) >> 2;
    pairs & 0x0fff_ffff | (pairs & 0x0fff_ffff_0000_0000) >> 4
}
