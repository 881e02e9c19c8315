//! The bit encoding of the compact form. Bits fill each byte from its lowest bit.

use crate::error::{Error, Result};
use crate::varint;

/// A writer that appends bits to a vector of bytes.
#[derive(Default)]
pub(super) struct BitWriter {
    out: Vec<u8>,
    pending: u64,
    count: u32,
}

impl BitWriter {
    /// Creates a writer that appends to these bytes.
    pub(super) fn appending_to(out: Vec<u8>) -> Self {
        Self { out, ..Self::default() }
    }

    /// Appends the `width` lowest bits of `value`. The other bits must be 0.
    #[inline]
    pub(super) fn put(&mut self, value: u64, width: u32) {
        debug_assert!(width == 64 || value >> width == 0);
        if width == 0 {
            return;
        }
        self.pending |= value << self.count;
        let filled = self.count + width;
        if filled < 64 {
            self.count = filled;
            return;
        }
        self.out.extend_from_slice(&self.pending.to_le_bytes());
        let taken = 64 - self.count;
        self.pending = if taken == 64 { 0 } else { value >> taken };
        self.count = filled - 64;
    }

    /// Appends `zeros` zeros and a one.
    pub(super) fn put_unary(&mut self, zeros: u64) {
        let mut zeros = zeros;
        while zeros >= 63 {
            self.put(0, 63);
            zeros -= 63;
        }
        self.put(1 << zeros, zeros as u32 + 1);
    }

    /// Appends zeros up to the next byte boundary.
    pub(super) fn align(&mut self) {
        let bytes = self.count.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.pending.to_le_bytes()[..bytes]);
        self.pending = 0;
        self.count = 0;
    }

    /// Appends whole bytes after [`BitWriter::align`].
    pub(super) fn put_bytes(&mut self, bytes: &[u8]) {
        self.align();
        self.out.extend_from_slice(bytes);
    }

    /// Appends a 64-bit number as the bytes of a [`varint`]. The first byte may begin at any bit.
    pub(super) fn put_varint(&mut self, value: u64) {
        varint::write(value, |byte| self.put(u64::from(byte), 8));
    }

    /// Returns the written bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.align();
        self.out
    }
}

/// A reader of bits. Reading after the end is an error.
#[derive(Clone)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// The index of the next bit.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Creates an error at the offset of the next byte.
    pub(super) fn refuse(&self, message: impl Into<String>) -> Error {
        Error::corrupt(self.at / 8, message)
    }

    /// Returns the next bits, at least 57. After the end of the input, they are zeros.
    #[inline]
    fn peek(&self) -> u64 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(eight) => u64::from_le_bytes(eight.try_into().expect("eight bytes")),
            None => self.peek_end(byte),
        };
        word >> (self.at % 8)
    }

    #[cold]
    fn peek_end(&self, byte: usize) -> u64 {
        let mut eight = [0; 8];
        let rest = self.bytes.get(byte..).unwrap_or_default();
        eight[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(eight)
    }

    #[inline]
    fn advance(&mut self, bits: u32) -> Result<()> {
        let at = self.at + bits as usize;
        if at > 8 * self.bytes.len() {
            return Err(self.refuse("the input ends inside a number"));
        }
        self.at = at;
        Ok(())
    }

    /// Reads the next `width` bits, at most 64.
    #[inline]
    pub(super) fn take(&mut self, width: u32) -> Result<u64> {
        if width > 56 {
            let low = self.take(32)?;
            return Ok(low | self.take(width - 32)? << 32);
        }
        let value = self.peek() & ((1 << width) - 1);
        self.advance(width)?;
        Ok(value)
    }

    /// Reads zeros up to and including the next one; returns the number of zeros.
    #[inline]
    pub(super) fn take_unary(&mut self) -> Result<u64> {
        let mut zeros = 0;
        loop {
            let run = self.peek().trailing_zeros();
            if run < 57 {
                self.advance(run + 1)?;
                return Ok(zeros + u64::from(run));
            }
            self.advance(56)?;
            zeros += 56;
        }
    }

    /// Skips to the next byte boundary. The skipped bits must be zero.
    pub(super) fn align(&mut self) -> Result<()> {
        let width = (8 - self.at as u32 % 8) % 8;
        match self.take(width)? {
            0 => Ok(()),
            _ => Err(self.refuse("bits behind the end of a section")),
        }
    }

    /// Reads `count` whole bytes after [`BitReader::align`].
    pub(super) fn take_bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        self.align()?;
        let start = self.at / 8;
        let left = self.bytes.len() - start;
        if count > left {
            return Err(self.refuse(format!("{count} bytes announced, {left} bytes are left")));
        }
        self.at += 8 * count;
        Ok(&self.bytes[start..start + count])
    }

    /// Reads a number that [`BitWriter::put_varint`] wrote.
    pub(super) fn take_varint(&mut self) -> Result<u64> {
        varint::read(|| Ok(self.take(8)? as u8))?
            .ok_or_else(|| self.refuse("a number of more than 64 bits"))
    }

    /// Returns an error if anything follows the last number.
    pub(super) fn finish(mut self) -> Result<()> {
        self.align()?;
        match self.bytes.len() - self.at / 8 {
            0 => Ok(()),
            left => Err(self.refuse(format!("{left} bytes behind the end"))),
        }
    }
}
