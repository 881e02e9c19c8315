//! The batches of one ledger: how many messages each entry holds, and which of them are not acknowledged.
//!
//! An acknowledgment by index says nothing of the indexes beyond it, so a set begins as ones without end; an
//! ack set from the broker ends where its words end. Joining is AND.
//!
//! Representation: a table with open addressing, an entry a slot. The slot holds a set of one word itself, so a message
//! costs one look-up and one AND. Longer sets are in `words`: a header, then the words, with room for more behind
//! them; a set that outgrows its room moves to the end. The four lowest bits of an entry id stay together in the place
//! of its slot, so that a batch's neighbours share its cache lines, and the others are mixed, so that no pattern of
//! entry ids makes a queue.
//! Invariants: at most seven eighths of the slots are taken; each slot holds a size, a set or both.

use std::hash::Hasher;

use super::Mix;

#[derive(Debug, Clone, Default)]
pub(super) struct Batches {
    /// As many as a power of two, or none.
    slots: Vec<Slot>,
    len: usize,
    words: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// [`FREE`] of a slot that is not taken.
    entry_id: i64,
    /// The word of a set of one word, or where a longer one begins in `words`.
    left: u64,
    /// Messages of the batch; 0 if no event says how many.
    size: u32,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nothing is acknowledged.
    Nothing,
    /// One word, and ones without end.
    Endless,
    /// One word, and nothing beyond it.
    Ended,
    /// Several words.
    Long,
}

const FREE: i64 = -1;
const EMPTY: Slot = Slot { entry_id: FREE, left: u64::MAX, size: 0, form: Form::Nothing };
const SLOTS_MIN: usize = 4;
/// Entry ids whose slots are neighbours.
const NEIGHBOURS: usize = 16;

/// What a ledger holds of one entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch<'a> {
    pub(super) entry_id: i64,
    /// How many messages it holds, if an event says it.
    pub(super) size: Option<i64>,
    /// The messages that are not acknowledged, if some are.
    pub(super) left: Option<Left<'a>>,
}

/// The batch indexes of one entry that are not acknowledged: words, least significant bit first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left<'a> {
    words: Words<'a>,
    /// Whether what lies beyond the words is ones, not zeros.
    pub(super) is_endless: bool,
}

#[derive(Debug, Clone, Copy)]
enum Words<'a> {
    One([u64; 1]),
    Many(&'a [u64]),
}

impl<'a> Left<'a> {
    /// Of these words.
    pub(super) fn new(words: &'a [u64], is_endless: bool) -> Self {
        Self { words: Words::Many(words), is_endless }
    }

    /// The words without those at the end that say nothing.
    pub(super) fn words(&self) -> &[u64] {
        let words = match &self.words {
            Words::One(word) => word,
            Words::Many(words) => *words,
        };
        let beyond = if self.is_endless { u64::MAX } else { 0 };
        &words[..words.iter().rposition(|word| *word != beyond).map_or(0, |last| last + 1)]
    }

    /// The greatest index that is acknowledged, if a set without end has one.
    pub(super) fn greatest_acked(&self) -> Option<i64> {
        let words = self.words();
        let last = words.last().filter(|_| self.is_endless)?;
        Some(64 * words.len() as i64 - 1 - i64::from((!last).leading_zeros()))
    }

    /// Puts the words of a batch of `size` messages behind `out`, without trailing zero words.
    pub(super) fn write(&self, size: i64, out: &mut Vec<i64>) {
        let start = out.len();
        out.extend(self.words().iter().map(|word| word.cast_signed()));
        if self.is_endless {
            let (whole, rest) = (start + size as usize / 64, size % 64);
            out.resize(whole + 1, -1);
            out[whole] &= !(-1 << rest);
        }
        while out.len() > start && out.last() == Some(&0) {
            out.pop();
        }
    }
}

impl Batches {
    /// Whether nothing is known of any batch.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The batch holds so many messages at least.
    #[inline]
    pub(super) fn has_size(&mut self, entry_id: i64, size: i64) {
        if size > 0 {
            self.sized(entry_id, size);
        }
    }

    /// Acknowledges one index of a batch of `size` messages, if that is more than 0.
    #[inline]
    pub(super) fn acknowledge(&mut self, entry_id: i64, index: i64, size: i64) {
        let slot = self.sized(entry_id, size);
        if index < 64 && slot.form != Form::Long {
            slot.left &= !(1 << index);
            slot.form = if slot.form == Form::Nothing { Form::Endless } else { slot.form };
        } else {
            let place = index as usize / 64;
            if let Some(word) = self.reach(entry_id, place + 1).get_mut(place) {
                *word &= !(1 << (index % 64));
            }
        }
    }

    /// Acknowledges every index up to this one.
    pub(super) fn acknowledge_up_to(&mut self, entry_id: i64, index: i64, size: i64) {
        self.sized(entry_id, size);
        let last = index as usize / 64;
        let words = self.reach(entry_id, last + 1);
        let whole = words.len().min(last);
        words[..whole].fill(0);
        if let Some(word) = words.get_mut(last) {
            *word &= (u64::MAX << (index % 64)) << 1;
        }
    }

    /// Joins the words of an ack set, beyond which everything is acknowledged.
    #[inline]
    pub(super) fn join_words(&mut self, entry_id: i64, words: &[i64], size: i64) {
        let slot = self.sized(entry_id, size);
        let is_short = words.iter().skip(1).all(|word| *word == 0) || slot.form == Form::Ended;
        if slot.form != Form::Long && is_short {
            slot.left &= words.first().map_or(0, |word| word.cast_unsigned());
            slot.form = Form::Ended;
        } else {
            self.join_long(entry_id, words);
        }
    }

    /// Joins what another ledger of the same id holds of an entry.
    pub(super) fn join(&mut self, other: Batch<'_>) {
        self.has_size(other.entry_id, other.size.unwrap_or(0));
        let Some(left) = other.left else { return };
        let words = left.words();
        if !left.is_endless {
            let words: Vec<i64> = words.iter().map(|word| word.cast_signed()).collect();
            self.join_words(other.entry_id, &words, 0);
        } else {
            let own = self.reach(other.entry_id, words.len());
            own.iter_mut().zip(words).for_each(|(own, word)| *own &= word);
        }
    }

    pub(super) fn forget_acknowledgments(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        *self = Self::default();
        for slot in slots.iter().filter(|slot| slot.size > 0) {
            self.has_size(slot.entry_id, i64::from(slot.size));
        }
    }

    /// What is known of an entry.
    pub(super) fn get(&self, entry_id: i64) -> Option<Batch<'_>> {
        let place = self.find(entry_id)?;
        (self.slots[place].entry_id == entry_id).then(|| self.batch(&self.slots[place]))
    }

    /// The batches, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Batch<'_>> + '_ {
        self.slots.iter().filter(|slot| slot.entry_id != FREE).map(|slot| self.batch(slot))
    }

    /// The batches by entry.
    pub(super) fn sorted(&self) -> Vec<Batch<'_>> {
        let mut batches = Vec::with_capacity(self.len);
        batches.extend(self.iter());
        batches.sort_unstable_by_key(|batch| batch.entry_id);
        batches
    }

    fn batch(&self, slot: &Slot) -> Batch<'_> {
        let left = match slot.form {
            Form::Nothing => None,
            Form::Endless => Some(Left { words: Words::One([slot.left]), is_endless: true }),
            Form::Ended => Some(Left { words: Words::One([slot.left]), is_endless: false }),
            Form::Long => {
                let header = Header::of(self.words[slot.left as usize]);
                let start = slot.left as usize + 1;
                let words = Words::Many(&self.words[start..start + header.len]);
                Some(Left { words, is_endless: header.is_endless })
            }
        };
        let size = (slot.size > 0).then_some(i64::from(slot.size));
        Batch { entry_id: slot.entry_id, size, left }
    }

    /// The place of an entry's slot, or of the free one where it belongs.
    #[inline]
    fn find(&self, entry_id: i64) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut mix = Mix::default();
        mix.write_i64(entry_id / NEIGHBOURS as i64);
        let mut place = (mix.finish() as usize ^ entry_id as usize) & mask;
        while self.slots[place].entry_id != entry_id && self.slots[place].entry_id != FREE {
            place = (place + 1) & mask;
        }
        Some(place)
    }

    /// The slot of an entry, a new one if it was not known.
    #[inline]
    fn slot(&mut self, entry_id: i64) -> &mut Slot {
        let place = match self.find(entry_id) {
            Some(place) if self.slots[place].entry_id == entry_id => place,
            Some(place) if 8 * (self.len + 1) <= 7 * self.slots.len() => self.take(place, entry_id),
            _ => {
                self.grow();
                let place = self.find(entry_id).expect("there are slots");
                self.take(place, entry_id)
            }
        };
        &mut self.slots[place]
    }

    /// The same, of a batch of `size` messages at least.
    #[inline]
    fn sized(&mut self, entry_id: i64, size: i64) -> &mut Slot {
        let slot = self.slot(entry_id);
        slot.size = slot.size.max(size.max(0) as u32);
        slot
    }

    fn take(&mut self, place: usize, entry_id: i64) -> usize {
        self.len += 1;
        self.slots[place] = Slot { entry_id, ..EMPTY };
        place
    }

    #[cold]
    fn grow(&mut self) {
        let slots = vec![EMPTY; (2 * self.slots.len()).max(SLOTS_MIN)];
        for slot in std::mem::replace(&mut self.slots, slots) {
            if slot.entry_id != FREE {
                let place = self.find(slot.entry_id).expect("there are slots");
                self.slots[place] = slot;
            }
        }
    }

    /// The words of a set, made explicit up to `count` of them; fewer if the set ends before.
    fn reach(&mut self, entry_id: i64, count: usize) -> &mut [u64] {
        let Slot { form, left, size, .. } = *self.slot(entry_id);
        if form == Form::Ended || (form != Form::Long && count <= 1) {
            let slot = self.slot(entry_id);
            slot.form = if form == Form::Nothing { Form::Endless } else { form };
            return std::slice::from_mut(&mut slot.left);
        }
        let known = match form {
            Form::Long => Header::of(self.words[left as usize]),
            _ => Header { len: 1, room: 0, is_endless: true },
        };
        let mut start = left as usize;
        if known.is_endless && known.len < count {
            if count > known.room {
                let most = (size as usize).div_ceil(64);
                let room = count.max(most.min(2 * known.room));
                start = self.words.len();
                self.words.resize(start + 1 + room, u64::MAX);
                match form {
                    Form::Long => {
                        let from = left as usize + 1;
                        self.words.copy_within(from..from + known.len, start + 1);
                    }
                    _ => self.words[start + 1] = left,
                }
                self.words[start] = Header { len: count, room, is_endless: true }.word();
                let slot = self.slot(entry_id);
                (slot.form, slot.left) = (Form::Long, start as u64);
            } else {
                self.words[start] = Header { len: count, ..known }.word();
            }
        }
        let len = Header::of(self.words[start]).len;
        &mut self.words[start + 1..=start + len]
    }

    /// Joins the words of an ack set where one word does not hold the outcome.
    fn join_long(&mut self, entry_id: i64, words: &[i64]) {
        let own = self.reach(entry_id, words.len().max(2));
        for (index, own) in own.iter_mut().enumerate() {
            *own &= words.get(index).map_or(0, |word| word.cast_unsigned());
        }
        let start = self.slot(entry_id).left as usize;
        let header = Header::of(self.words[start]);
        let len = header.len.min(words.len());
        self.words[start] = Header { len, is_endless: false, ..header }.word();
    }
}

/// What stands before the words of a long set. Words beyond `len` are ones as long as the set has no end.
#[derive(Debug, Clone, Copy)]
struct Header {
    len: usize,
    room: usize,
    is_endless: bool,
}

impl Header {
    fn of(word: u64) -> Self {
        Self {
            len: (word as u32 >> 1) as usize,
            room: (word >> 32) as usize,
            is_endless: word & 1 != 0,
        }
    }

    fn word(self) -> u64 {
        (self.room as u64) << 32 | (self.len as u64) << 1 | u64::from(self.is_endless)
    }
}
