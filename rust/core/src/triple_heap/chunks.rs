//! An unsorted bag of messages that grows by whole chunks.
//!
//! One vector that doubles would hold three times its messages while it grows; chunks of a sixteenth of
//! what is there waste at most a sixteenth and never copy.

use crate::delayed::Delayed;

/// The first chunk, 6 KiB.
const CHUNK_MIN: usize = 256;
/// The largest chunk, 768 KiB: large enough to be mapped apart and returned to the system when dropped.
const CHUNK_MAX: usize = 32_768;

#[derive(Debug, Clone, Default)]
pub(super) struct Chunks {
    full: Vec<Vec<Delayed>>,
    open: Vec<Delayed>,
    length: usize,
}

impl Chunks {
    #[inline]
    pub(super) fn push(&mut self, message: Delayed) {
        if self.open.len() == self.open.capacity() {
            self.grow();
        }
        self.open.push(message);
        self.length += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.length / 16).clamp(CHUNK_MIN, CHUNK_MAX);
        let full = std::mem::replace(&mut self.open, Vec::with_capacity(size));
        if !full.is_empty() {
            self.full.push(full);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn chunks(&self) -> impl Iterator<Item = &[Delayed]> + Clone {
        self.full.iter().map(Vec::as_slice).chain(std::iter::once(self.open.as_slice()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Delayed> + '_ {
        self.chunks().flatten().copied()
    }

    pub(super) fn capacity(&self) -> usize {
        self.full.iter().map(Vec::capacity).sum::<usize>() + self.open.capacity()
    }

    pub(super) fn nbytes(&self) -> usize {
        self.capacity() * size_of::<Delayed>() + self.full.capacity() * size_of::<Vec<Delayed>>()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.open.shrink_to_fit();
        self.full.shrink_to_fit();
    }
}
