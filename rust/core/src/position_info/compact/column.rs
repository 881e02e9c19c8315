//! A code for a column of numbers. Each number is the least number of the column plus a rest. The rests either have the
//! same width (0 for a constant column, which then takes no bits) or are Rice coded.
//!
//! A Rice code of width `w` writes `rest >> w` in unary, and the `w` low bits unchanged. Gaps between random positions
//! have a geometric distribution. For these gaps, the code takes 1 to 4 percent more bits than the entropy. Reading a
//! number takes a shift and a count of zeros.

use super::bits::{BitReader, BitWriter};
use crate::error::Result;

/// The code of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code {
    base: u64,
    width: u32,
    rice: bool,
}

/// The number of bits that [`Code::put_header`] writes in addition to the base, the least number of the column.
const HEADER_BITS: u64 = 15;

impl Code {
    /// Returns the code that takes the fewest bits for these numbers, and how many bits it takes.
    pub(super) fn cheapest(numbers: impl Iterator<Item = u64> + Clone) -> (Self, u64) {
        let (mut base, mut most, mut count, mut sum) = (u64::MAX, 0, 0u64, 0u128);
        for number in numbers.clone() {
            base = base.min(number);
            most = most.max(number);
            count += 1;
            sum += u128::from(number);
        }
        if count == 0 {
            return (Self { base: 0, width: 0, rice: false }, HEADER_BITS);
        }
        let mut code = Self { base, width: bits_of(most - base), rice: false };
        let mut cost = u128::from(count) * u128::from(code.width);
        // The best width is near the logarithm of the mean rest; the exact cost of three widths decides.
        let mean = ((sum - u128::from(base) * u128::from(count)) / u128::from(count)) as u64;
        let middle = bits_of(mean).saturating_sub(1);
        if code.width > 0 {
            let widths = [middle.saturating_sub(1), middle, (middle + 1).min(63)];
            let mut unary = [0u128; 3];
            for number in numbers {
                for (total, width) in unary.iter_mut().zip(widths) {
                    *total += u128::from((number - base) >> width);
                }
            }
            for (unary, width) in unary.into_iter().zip(widths) {
                let rice = unary + u128::from(count) * u128::from(width + 1);
                if rice < cost {
                    cost = rice;
                    code = Self { base, width, rice: true };
                }
            }
        }
        let header = HEADER_BITS + u64::from(bits_of(base));
        (code, u64::try_from(cost).unwrap_or(u64::MAX).saturating_add(header))
    }

    /// Writes the parameters of the encoding. They precede the numbers of the column.
    pub(super) fn put_header(self, bits: &mut BitWriter) {
        bits.put(u64::from(self.rice), 1);
        bits.put(u64::from(self.width), 7);
        bits.put(u64::from(bits_of(self.base)), 7);
        bits.put(self.base, bits_of(self.base));
    }

    /// Reads the parameters that [`Code::put_header`] wrote.
    pub(super) fn take_header(bits: &mut BitReader<'_>) -> Result<Self> {
        let rice = bits.take(1)? == 1;
        let width = bits.take(7)? as u32;
        let base_width = bits.take(7)? as u32;
        if width > 64 - u32::from(rice) || base_width > 64 {
            return Err(bits.refuse("a column of more than 64 bits"));
        }
        Ok(Self { base: bits.take(base_width)?, width, rice })
    }

    /// Writes a number of the column.
    #[inline]
    pub(super) fn put(self, bits: &mut BitWriter, number: u64) {
        let rest = number - self.base;
        if self.rice {
            bits.put_unary(rest >> self.width);
            bits.put(rest & ((1 << self.width) - 1), self.width);
        } else {
            bits.put(rest, self.width);
        }
    }

    /// Reads a number of the column.
    #[inline]
    pub(super) fn take(self, bits: &mut BitReader<'_>) -> Result<u64> {
        let rest = if self.rice {
            let high = bits.take_unary()?;
            if high.leading_zeros() < self.width {
                return Err(bits.refuse("a number of more than 64 bits"));
            }
            high << self.width | bits.take(self.width)?
        } else {
            bits.take(self.width)?
        };
        rest.checked_add(self.base).ok_or_else(|| bits.refuse("a number of more than 64 bits"))
    }
}

/// Returns how many bits a number takes without its leading zeros.
fn bits_of(number: u64) -> u32 {
    64 - number.leading_zeros()
}
