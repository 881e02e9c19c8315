//! A sequence of bits in 64-bit words. The first bit of the sequence is the lowest bit of the first word.

/// A growing sequence of bits. It grows by a sixteenth, not by doubling, because unused memory would be a large part of
/// the index.
#[derive(Debug, Clone, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    length: u64,
}

impl Bits {
    /// Appends the low `count` ≤ 64 bits of `value`. The other bits of `value` must be 0.
    #[inline]
    pub(super) fn put(&mut self, value: u64, count: u32) {
        let offset = (self.length % 64) as u32;
        if offset == 0 {
            if count == 0 {
                return;
            }
            self.grow();
            self.words.push(value);
        } else {
            *self.words.last_mut().expect("a word is begun") |= value << offset;
            if offset + count > 64 {
                self.grow();
                self.words.push(value >> (64 - offset));
            }
        }
        self.length += u64::from(count);
    }

    #[inline]
    fn grow(&mut self) {
        if self.words.len() == self.words.capacity() {
            self.words.reserve_exact(self.words.len() / 16 + 4);
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.length
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.words.shrink_to_fit();
    }

    /// Creates a sequence of `length` bits from saved words; `None` if `length` bits need more or fewer words.
    pub(super) fn from_words(words: Vec<u64>, length: u64) -> Option<Self> {
        (length.div_ceil(64) == words.len() as u64).then_some(Self { words, length })
    }
}

/// A reader of bits. Bits after the end read as 0, and [`BitReader::overrun`] is then true.
#[derive(Debug, Clone)]
pub(super) struct BitReader<'a> {
    words: &'a [u64],
    length: u64,
    at: u64,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bits: &'a Bits, at: u64) -> Self {
        Self { words: &bits.words, length: bits.length, at }
    }

    /// Returns the next 64 bits without skipping them.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        let (index, offset) = ((self.at / 64) as usize, self.at % 64);
        let low = self.words.get(index).copied().unwrap_or(0) >> offset;
        // Two shifts, because the offset 0 needs a shift by 64.
        low | (self.words.get(index + 1).copied().unwrap_or(0) << 1) << (63 - offset)
    }

    #[inline]
    pub(super) fn skip(&mut self, count: u32) {
        self.at += u64::from(count);
    }

    /// Returns the next `count` ≤ 64 bits.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> u64 {
        let value = self.peek() & low_mask(count);
        self.skip(count);
        value
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn done(&self) -> bool {
        self.at >= self.length
    }

    pub(super) fn overrun(&self) -> bool {
        self.at > self.length
    }
}

/// Returns a mask of `count` ≤ 64 ones.
#[inline]
pub(super) fn low_mask(count: u32) -> u64 {
    u64::MAX.checked_shr(64 - count).unwrap_or(0)
}
