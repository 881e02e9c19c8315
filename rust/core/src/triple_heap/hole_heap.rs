//! A binary heap on one flat vector. While a message is moved to its place, the vector has a hole instead of the
//! message. So each other message that moves is written only once.
//!
//! It is the usual fast heap (apache/pulsar#26010 with 24-byte tuples). [`super::TripleLongHeap`] uses it for messages
//! that are added before the end of its earliest bucket. The benches compare the ladder queue with this heap. A d-ary
//! heap is not faster for tuples of 24 bytes.

use crate::delayed::DelayedMessage;
use crate::error::Validity;

/// A binary min-heap; `messages[i]` is at most `messages[2i + 1]` and `messages[2i + 2]`.
#[derive(Debug, Clone, Default)]
pub struct HoleHeap {
    messages: Vec<DelayedMessage>,
}

impl HoleHeap {
    /// Adds a message. Each parent that is greater than the message moves down, and then the message is written once.
    #[inline]
    pub fn push(&mut self, message: DelayedMessage) {
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

    /// Removes and returns the least message.
    #[inline]
    pub fn pop(&mut self) -> Option<DelayedMessage> {
        let last = self.messages.pop()?;
        let Some(&least) = self.messages.first() else {
            return Some(last);
        };
        self.sift_down(0, last);
        Some(least)
    }

    /// Stores `message` at or below the hole at index `hole`. While a child of the hole is less than `message`, the
    /// lesser child moves up and its place becomes the hole.
    fn sift_down(&mut self, mut hole: usize, message: DelayedMessage) {
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

    /// Returns the least message.
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Option<DelayedMessage> {
        self.messages.first().copied()
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns whether the collection is empty.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = DelayedMessage> + '_ {
        self.messages.iter().copied()
    }

    pub(super) fn take(&mut self) -> Vec<DelayedMessage> {
        std::mem::take(&mut self.messages)
    }

    pub(super) fn capacity(&self) -> usize {
        self.messages.capacity()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.messages.capacity() * size_of::<DelayedMessage>()
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

impl From<Vec<DelayedMessage>> for HoleHeap {
    /// Builds a heap of these messages. O(n).
    fn from(messages: Vec<DelayedMessage>) -> Self {
        let mut heap = Self { messages };
        for hole in (0..heap.messages.len() / 2).rev() {
            heap.sift_down(hole, heap.messages[hole]);
        }
        heap
    }
}
