//! An unsorted collection of messages that grows by whole chunks.
//!
//! Messages are collected in one small vector that stays in cache. A full vector is packed (`packing.rs`) and reused.
//! So each message is written to memory once, as 8 bytes, and growing copies nothing.

use super::packing::{Extent, Messages};
use crate::delayed::DelayedMessage;

/// The number of messages in a chunk. Before it is packed, a chunk takes 24 KiB.
const CHUNK: usize = 1024;

#[derive(Debug, Clone, Default)]
pub(super) struct Chunks {
    full: Vec<(Extent, Messages)>,
    open: Vec<DelayedMessage>,
}

impl Chunks {
    #[inline]
    pub(super) fn push(&mut self, message: DelayedMessage) {
        if self.open.len() == CHUNK {
            self.pack();
        }
        self.open.push(message);
    }

    #[cold]
    fn pack(&mut self) {
        let extent = Extent::of(&self.open);
        if self.full.len() == self.full.capacity() {
            // Grow by a quarter. The header of a chunk takes a hundredth of the bytes of its messages.
            self.full.reserve_exact((self.full.len() / 4).max(4));
        }
        self.full.push((extent, Messages::new(&self.open, &extent)));
        self.open.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.full.len() * CHUNK + self.open.len()
    }

    pub(super) fn extent(&self) -> Extent {
        self.full.iter().fold(Extent::of(&self.open), |all, (extent, _)| all.and(*extent))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = DelayedMessage> + Clone + '_ {
        let full = self.full.iter().flat_map(|(_, messages)| messages.iter());
        full.chain(self.open.iter().copied())
    }

    pub(super) fn capacity(&self) -> usize {
        self.full.len() * CHUNK + self.open.capacity()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.full.iter().map(|(_, messages)| messages.heap_bytes()).sum::<usize>()
            + self.open.capacity() * size_of::<DelayedMessage>()
            + self.full.capacity() * size_of::<(Extent, Messages)>()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.open.shrink_to_fit();
        self.full.shrink_to_fit();
    }
}
