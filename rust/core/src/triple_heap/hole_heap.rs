//! The plain binary heap on one flat vector: hole-based sifts, the moved value kept in registers.
//!
//! It is the usual fast heap (apache/pulsar#26010 in 24-byte tuples) and has two uses: [`super::TripleLongHeap`]
//! keeps its few near messages in one, and it is the baseline of the ladder in the benches. A d-ary heap does not
//! help tuples of 24 bytes.

use crate::delayed::Delayed;
use crate::error::Validity;

/// A binary min-heap; `messages[i]` is at most `messages[2i + 1]` and `messages[2i + 2]`.
#[derive(Debug, Clone, Default)]
pub struct HoleHeap {
    messages: Vec<Delayed>,
}

impl HoleHeap {
    /// Adds a message: the hole rises, and each parent is written once, nothing twice.
    #[inline]
    pub fn push(&mut self, message: Delayed) {
        let mut hole = self.messages.len();
        self.messages.push(message);
        while hole > 0 {
            let parent = (hole - 1) / 2;
            if self.messages[parent] <= message {
                break;
            }
            self.messages[hole] = self.messages[parent];
            hole = parent;
        }
        self.messages[hole] = message;
    }

    /// Takes the least message.
    #[inline]
    pub fn pop(&mut self) -> Option<Delayed> {
        let last = self.messages.pop()?;
        let Some(&least) = self.messages.first() else {
            return Some(last);
        };
        self.sift_down(0, last);
        Some(least)
    }

    /// Fills the hole at `hole` with `message` or, first, with the lesser children below it.
    fn sift_down(&mut self, mut hole: usize, message: Delayed) {
        let messages = &mut self.messages[..];
        loop {
            let mut child = 2 * hole + 1;
            if child >= messages.len() {
                break;
            }
            if child + 1 < messages.len() && messages[child + 1] < messages[child] {
                child += 1;
            }
            if message <= messages[child] {
                break;
            }
            messages[hole] = messages[child];
            hole = child;
        }
        messages[hole] = message;
    }

    /// The least message.
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Option<Delayed> {
        self.messages.first().copied()
    }

    /// The number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Delayed> + '_ {
        self.messages.iter().copied()
    }

    pub(super) fn take(&mut self) -> Vec<Delayed> {
        std::mem::take(&mut self.messages)
    }

    pub(super) fn capacity(&self) -> usize {
        self.messages.capacity()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.messages.capacity() * size_of::<Delayed>()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.messages.shrink_to_fit();
    }

    pub(super) fn validate(&self) -> Validity {
        match (1..self.messages.len()).find(|&i| self.messages[i] < self.messages[(i - 1) / 2]) {
            Some(index) => Err(format!("heap order broken at {index}")),
            None => Ok(()),
        }
    }
}

impl From<Vec<Delayed>> for HoleHeap {
    /// Heapifies in O(n).
    fn from(messages: Vec<Delayed>) -> Self {
        let mut heap = Self { messages };
        for hole in (0..heap.messages.len() / 2).rev() {
            heap.sift_down(hole, heap.messages[hole]);
        }
        heap
    }
}
