//! The packing of each message into one integer. The integers have the same order as the messages.
//!
//! Times, ledgers and entries of neighbouring messages differ in few bits. A packed message is three concatenated
//! numbers: the differences of its time, ledger id and entry id from the least value of each column. They mostly fit
//! into 64 bits. A packed message takes a third of the memory, and sorting compares integers instead of triples.

use crate::delayed::DelayedMessage;

/// The least and the greatest value of each column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) least: DelayedMessage,
    pub(super) greatest: DelayedMessage,
}

impl Extent {
    /// The extent of an empty collection of messages.
    pub(super) const NONE: Self = Self {
        least: DelayedMessage::new(i64::MAX, i64::MAX, i64::MAX),
        greatest: DelayedMessage::new(i64::MIN, i64::MIN, i64::MIN),
    };

    pub(super) fn of(messages: &[DelayedMessage]) -> Self {
        messages.iter().fold(Self::NONE, |extent, &message| {
            extent.and(Self { least: message, greatest: message })
        })
    }

    pub(super) fn and(self, other: Self) -> Self {
        let least = |of: fn(&DelayedMessage) -> i64| of(&self.least).min(of(&other.least));
        let greatest = |of: fn(&DelayedMessage) -> i64| of(&self.greatest).max(of(&other.greatest));
        let columns: [fn(&DelayedMessage) -> i64; 3] =
            [|m| m.deliver_at_ms, |m| m.ledger_id, |m| m.entry_id];
        let [time, ledger, entry] = columns;
        Self {
            least: DelayedMessage::new(least(time), least(ledger), least(entry)),
            greatest: DelayedMessage::new(greatest(time), greatest(ledger), greatest(entry)),
        }
    }
}

/// The layout of packed messages whose values are in one extent. The highest bits are the time, the lowest bits are the
/// entry id.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packing {
    least: DelayedMessage,
    ledger_shift: u32,
    time_shift: u32,
}

impl Packing {
    /// Returns the layout for an extent; `None` if the differences of all columns need more than 64 bits.
    pub(super) fn of(extent: &Extent) -> Option<Self> {
        let bits = |least: i64, greatest: i64| {
            u64::BITS - (greatest.wrapping_sub(least) as u64).leading_zeros()
        };
        let Extent { least, greatest } = extent;
        let ledger_shift = bits(least.entry_id, greatest.entry_id);
        let time_shift = ledger_shift + bits(least.ledger_id, greatest.ledger_id);
        let whole = time_shift + bits(least.deliver_at_ms, greatest.deliver_at_ms);
        // A shift by 64 bits would overflow, so it is not allowed.
        (whole <= u64::BITS && time_shift < u64::BITS).then_some(Self {
            least: *least,
            ledger_shift,
            time_shift,
        })
    }

    #[inline]
    pub(super) fn pack(&self, message: &DelayedMessage) -> u64 {
        let above = |value: i64, least: i64| value.wrapping_sub(least) as u64;
        above(message.deliver_at_ms, self.least.deliver_at_ms) << self.time_shift
            | above(message.ledger_id, self.least.ledger_id) << self.ledger_shift
            | above(message.entry_id, self.least.entry_id)
    }

    #[inline]
    pub(super) fn unpack(&self, key: u64) -> DelayedMessage {
        let low = |value: u64, bits: u32| (value & ((1 << bits) - 1)) as i64;
        let ledger = low(key >> self.ledger_shift, self.time_shift - self.ledger_shift);
        DelayedMessage::new(
            self.least.deliver_at_ms.wrapping_add((key >> self.time_shift) as i64),
            self.least.ledger_id.wrapping_add(ledger),
            self.least.entry_id.wrapping_add(low(key, self.ledger_shift)),
        )
    }
}

/// A list of messages. Each message takes 8 bytes if the messages can be packed, otherwise 24 bytes.
#[derive(Debug, Clone)]
pub(super) enum Messages {
    Packed(Packing, Vec<u64>),
    Plain(Vec<DelayedMessage>),
}

impl Messages {
    pub(super) fn new(messages: &[DelayedMessage], extent: &Extent) -> Self {
        match Packing::of(extent) {
            Some(packing) => {
                Self::Packed(packing, messages.iter().map(|m| packing.pack(m)).collect())
            }
            None => Self::Plain(messages.to_vec()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Packed(_, keys) => keys.len(),
            Self::Plain(messages) => messages.len(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = DelayedMessage> + Clone + '_ {
        self.iter_from(0)
    }

    pub(super) fn iter_from(
        &self,
        start: usize,
    ) -> impl Iterator<Item = DelayedMessage> + Clone + '_ {
        let (packed, plain) = match self {
            Self::Packed(packing, keys) => (Some((packing, &keys[start..])), &[][..]),
            Self::Plain(messages) => (None, &messages[start..]),
        };
        let packed = packed.into_iter();
        let unpacked = packed.flat_map(|(packing, keys)| keys.iter().map(|&k| packing.unpack(k)));
        unpacked.chain(plain.iter().copied())
    }

    /// Removes the messages from index `start` to the end, and appends them to `into`, sorted with the earliest last.
    pub(super) fn take_descending(&mut self, start: usize, into: &mut Vec<DelayedMessage>) {
        match self {
            Self::Packed(packing, keys) => {
                keys[start..].sort_unstable();
                into.extend(keys[start..].iter().rev().map(|&key| packing.unpack(key)));
            }
            Self::Plain(messages) => {
                messages[start..].sort_unstable();
                into.extend(messages[start..].iter().rev());
            }
        }
        self.truncate(start);
    }

    /// Removes the messages from index `length` to the end, and releases most of their memory.
    pub(super) fn truncate(&mut self, length: usize) {
        fn cut<T>(vector: &mut Vec<T>, length: usize) {
            vector.truncate(length);
            if length < vector.capacity() / 4 {
                vector.shrink_to(length * 2);
            }
        }
        match self {
            Self::Packed(_, keys) => cut(keys, length),
            Self::Plain(messages) => cut(messages, length),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Packed(_, keys) => keys.capacity(),
            Self::Plain(messages) => messages.capacity(),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let each = match self {
            Self::Packed(..) => size_of::<u64>(),
            Self::Plain(_) => size_of::<DelayedMessage>(),
        };
        self.capacity() * each
    }

    pub(super) fn shrink_to_fit(&mut self) {
        match self {
            Self::Packed(_, keys) => keys.shrink_to_fit(),
            Self::Plain(messages) => messages.shrink_to_fit(),
        }
    }
}

/// Sorts by all three columns, the earliest last.
pub(super) fn sort_descending(messages: &mut Vec<DelayedMessage>) {
    if messages.len() > 1 {
        let mut packed = Messages::new(messages, &Extent::of(messages));
        messages.clear();
        packed.take_descending(0, messages);
    }
}
