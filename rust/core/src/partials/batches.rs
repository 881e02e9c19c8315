//! The batches of one ledger: the number of messages of each entry, and the messages that are not acknowledged.
//!
//! An acknowledgment of one batch index does not contain the size of the batch. So the set of unacknowledged messages
//! begins as an unlimited number of ones. The ack set of a broker ends with its last word: all messages after that word
//! are acknowledged. Two sets of the same batch are merged by AND.
//!
//! Representation: pages of [`PAGE`] consecutive entries, in order of first use. If there are more than
//! [`PAGES_SCANNED_MAX`] pages, a hash table maps page numbers to pages. If an entry is in the page that was used last,
//! one comparison finds the page. A set of one word is stored in the slot of its entry, so a message costs a look-up
//! and an AND, and an entry takes 14 bytes. A longer set is in the vector `words`: a header, the words of the set, and
//! spare room. If a set needs more words than its room, it is moved to the end of the vector. Invariant: each page has
//! an entry with a size, a set or both.

use std::collections::HashMap;

use super::MixBuilder;

/// The number of entries in a page. It is small, so that a page with a single entry takes only 220 bytes.
const PAGE: usize = 16;

/// The maximum number of pages that are searched one by one, without a hash table. So small ledgers need no hash table.
const PAGES_SCANNED_MAX: usize = 4;

#[derive(Debug, Clone, Default)]
pub(super) struct Batches {
    pages: Vec<Page>,
    /// A map from page number (entry id divided by [`PAGE`]) to the index of the page in `pages`. It is empty if there
    /// are at most [`PAGES_SCANNED_MAX`] pages.
    places: HashMap<i64, u32, MixBuilder>,
    /// The index of the page used last.
    last: u32,
    words: Vec<u64>,
}

#[derive(Debug, Clone)]
struct Page {
    number: i64,
    /// For each entry, the word of a set of one word, or the start of a longer set in [`Batches::words`].
    left: [u64; PAGE],
    /// The number of messages of each batch; 0 if it is unknown.
    sizes: [u32; PAGE],
    forms: [Form; PAGE],
}

/// The location of an entry: its page, and its index in the page.
#[derive(Debug, Clone, Copy)]
struct Slot {
    page: usize,
    at: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// Nothing is acknowledged.
    Nothing,
    /// One word, followed by an unlimited number of ones.
    Endless,
    /// One word, followed by zeros.
    Ended,
    /// Several words.
    Long,
}

/// The batch of one entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch<'a> {
    pub(super) entry_id: i64,
    /// The number of messages; `None` if no event contains it.
    pub(super) size: Option<i64>,
    /// The unacknowledged messages; `None` if no message is acknowledged.
    pub(super) left: Option<UnackedIndexes<'a>>,
}

/// The batch indexes of one entry that are not acknowledged: words, least significant bit first.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnackedIndexes<'a> {
    words: Words<'a>,
    /// Whether the bits beyond the words are ones, not zeros.
    pub(super) is_endless: bool,
}

#[derive(Debug, Clone, Copy)]
enum Words<'a> {
    One([u64; 1]),
    Many(&'a [u64]),
}

impl<'a> UnackedIndexes<'a> {
    /// Creates the view of `words`.
    pub(super) fn new(words: &'a [u64], is_endless: bool) -> Self {
        Self { words: Words::Many(words), is_endless }
    }

    /// Returns the words of the set without unnecessary words at the end: words of ones in an endless set, words of
    /// zeros in other sets.
    pub(super) fn words(&self) -> &[u64] {
        let words = match &self.words {
            Words::One(word) => word,
            Words::Many(words) => *words,
        };
        let beyond = if self.is_endless { u64::MAX } else { 0 };
        &words[..words.iter().rposition(|word| *word != beyond).map_or(0, |last| last + 1)]
    }

    /// Returns the greatest acknowledged batch index. Returns `None` if the set is not endless, or if no message is
    /// acknowledged.
    pub(super) fn greatest_acked(&self) -> Option<i64> {
        let words = self.words();
        let last = words.last().filter(|_| self.is_endless)?;
        Some(64 * words.len() as i64 - 1 - i64::from((!last).leading_zeros()))
    }

    /// Appends the words of the set to `out`. An endless set is cut at `size`, the number of messages of the batch.
    /// Zero words at the end are omitted.
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
    /// Returns whether the ledger has no batches.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Records that the batch has at least `size` messages.
    #[inline]
    pub(super) fn note_size(&mut self, entry_id: i64, size: i64) {
        if size > 0 {
            self.slot_with_size(entry_id, size);
        }
    }

    /// Acknowledges one index of a batch. `size` is the number of messages of the batch; 0 or less means that it is
    /// unknown.
    #[inline]
    pub(super) fn acknowledge(&mut self, entry_id: i64, index: i64, size: i64) {
        let slot = self.slot_with_size(entry_id, size);
        let page = &mut self.pages[slot.page];
        let form = &mut page.forms[slot.at];
        if index < 64 && *form != Form::Long {
            page.left[slot.at] &= !(1 << index);
            *form = Form::Endless.max(*form);
        } else {
            let place = index as usize / 64;
            if let Some(word) = self.reach(slot, place + 1).get_mut(place) {
                *word &= !(1 << (index % 64));
            }
        }
    }

    /// Acknowledges every index of a batch up to and including `index`.
    pub(super) fn acknowledge_up_to(&mut self, entry_id: i64, index: i64, size: i64) {
        let slot = self.slot_with_size(entry_id, size);
        let last = index as usize / 64;
        let words = self.reach(slot, last + 1);
        let whole = words.len().min(last);
        words[..whole].fill(0);
        if let Some(word) = words.get_mut(last) {
            *word &= (u64::MAX << (index % 64)) << 1;
        }
    }

    /// Applies an ack set to a batch: acknowledges each message whose bit in `words` is 0, and all messages after the
    /// last word.
    #[inline]
    pub(super) fn join_words(&mut self, entry_id: i64, words: &[i64], size: i64) {
        let slot = self.slot_with_size(entry_id, size);
        let page = &mut self.pages[slot.page];
        let form = &mut page.forms[slot.at];
        let is_short = words.iter().skip(1).all(|word| *word == 0) || *form == Form::Ended;
        if *form != Form::Long && is_short {
            page.left[slot.at] &= words.first().map_or(0, |word| word.cast_unsigned());
            *form = Form::Ended;
        } else {
            self.join_long(slot, words);
        }
    }

    /// Merges the state of a batch that another fold computed from events of the same ledger.
    pub(super) fn join(&mut self, other: Batch<'_>) {
        self.note_size(other.entry_id, other.size.unwrap_or(0));
        let Some(left) = other.left else { return };
        let words = left.words();
        if !left.is_endless {
            let words: Vec<i64> = words.iter().map(|word| word.cast_signed()).collect();
            self.join_words(other.entry_id, &words, 0);
        } else {
            let slot = self.slot(other.entry_id);
            let own = self.reach(slot, words.len());
            own.iter_mut().zip(words).for_each(|(own, word)| *own &= word);
        }
    }

    pub(super) fn forget_acknowledgments(&mut self) {
        let known = std::mem::take(self);
        for batch in known.iter() {
            self.note_size(batch.entry_id, batch.size.unwrap_or(0));
        }
    }

    /// Returns the batches in an undefined order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Batch<'_>> + Clone + '_ {
        self.pages.iter().flat_map(|page| self.batches_of(page))
    }

    /// Returns the batches in order of entry id.
    pub(super) fn sorted(&self) -> impl Iterator<Item = Batch<'_>> + Clone + '_ {
        let mut pages: Vec<&Page> = self.pages.iter().collect();
        pages.sort_unstable_by_key(|page| page.number);
        pages.into_iter().flat_map(|page| self.batches_of(page))
    }

    fn batches_of<'a>(&'a self, page: &'a Page) -> impl Iterator<Item = Batch<'a>> + Clone + 'a {
        let is_known = |at: &usize| page.sizes[*at] > 0 || page.forms[*at] != Form::Nothing;
        (0..PAGE).filter(is_known).map(|at| self.batch(page, at))
    }

    fn batch<'a>(&'a self, page: &'a Page, at: usize) -> Batch<'a> {
        let left = page.left[at];
        let left = match page.forms[at] {
            Form::Nothing => None,
            Form::Endless => Some(UnackedIndexes { words: Words::One([left]), is_endless: true }),
            Form::Ended => Some(UnackedIndexes { words: Words::One([left]), is_endless: false }),
            Form::Long => {
                let header = Header::of(self.words[left as usize]);
                let start = left as usize + 1;
                let words = Words::Many(&self.words[start..start + header.len]);
                Some(UnackedIndexes { words, is_endless: header.is_endless })
            }
        };
        let size = (page.sizes[at] > 0).then_some(i64::from(page.sizes[at]));
        Batch { entry_id: page.number * PAGE as i64 + at as i64, size, left }
    }

    /// Returns the slot of an entry. Adds a page if necessary.
    #[inline]
    fn slot(&mut self, entry_id: i64) -> Slot {
        let (number, at) = (entry_id >> PAGE.trailing_zeros(), entry_id as usize % PAGE);
        let page = self.last as usize;
        match self.pages.get(page) {
            Some(known) if known.number == number => Slot { page, at },
            _ => Slot { page: self.page(number), at },
        }
    }

    fn page(&mut self, number: i64) -> usize {
        let found = match self.pages.len() <= PAGES_SCANNED_MAX {
            true => self.pages.iter().position(|page| page.number == number),
            false => self.places.get(&number).map(|place| *place as usize),
        };
        let place = found.unwrap_or_else(|| self.add_page(number));
        self.last = place as u32;
        place
    }

    fn add_page(&mut self, number: i64) -> usize {
        let place = self.pages.len();
        let (left, sizes, forms) = ([u64::MAX; PAGE], [0; PAGE], [Form::Nothing; PAGE]);
        if place == self.pages.capacity() {
            // Doubles the room, but begins with room for one page, because most ledgers have only one.
            self.pages.reserve_exact(place.max(1));
        }
        self.pages.push(Page { number, left, sizes, forms });
        if place == PAGES_SCANNED_MAX {
            let numbers = self.pages.iter().map(|page| page.number);
            self.places = numbers.zip(0..).collect();
        } else if place > PAGES_SCANNED_MAX {
            self.places.insert(number, place as u32);
        }
        place
    }

    /// Does the same as [`Self::slot`], and records that the batch has at least `size` messages.
    #[inline]
    fn slot_with_size(&mut self, entry_id: i64, size: i64) -> Slot {
        let slot = self.slot(entry_id);
        let known = &mut self.pages[slot.page].sizes[slot.at];
        *known = (*known).max(size.max(0) as u32);
        slot
    }

    /// Returns the words of a set. An endless set is first extended to at least `count` words. A set that is not
    /// endless may have fewer words.
    fn reach(&mut self, slot: Slot, count: usize) -> &mut [u64] {
        let page = &mut self.pages[slot.page];
        let (form, left) = (&mut page.forms[slot.at], &mut page.left[slot.at]);
        if *form == Form::Ended || (*form != Form::Long && count <= 1) {
            *form = Form::Endless.max(*form);
            return std::slice::from_mut(left);
        }
        let known = match *form {
            Form::Long => Header::of(self.words[*left as usize]),
            _ => Header { len: 1, room: 0, is_endless: true },
        };
        let mut start = *left as usize;
        if known.is_endless && known.len < count {
            if count > known.room {
                let most = (page.sizes[slot.at] as usize).div_ceil(64);
                let room = count.max(most.min(2 * known.room));
                start = self.words.len();
                self.words.resize(start + 1 + room, u64::MAX);
                match *form {
                    Form::Long => {
                        let from = *left as usize + 1;
                        self.words.copy_within(from..from + known.len, start + 1);
                    }
                    _ => self.words[start + 1] = *left,
                }
                self.words[start] = Header { len: count, room, is_endless: true }.word();
                (*form, *left) = (Form::Long, start as u64);
            } else {
                self.words[start] = Header { len: count, ..known }.word();
            }
        }
        let len = Header::of(self.words[start]).len;
        &mut self.words[start + 1..=start + len]
    }

    /// Does the same as [`Self::join_words`], for a set of more than one word.
    fn join_long(&mut self, slot: Slot, words: &[i64]) {
        let own = self.reach(slot, words.len().max(2));
        for (index, own) in own.iter_mut().enumerate() {
            *own &= words.get(index).map_or(0, |word| word.cast_unsigned());
        }
        let start = self.pages[slot.page].left[slot.at] as usize;
        let header = Header::of(self.words[start]);
        let len = header.len.min(words.len());
        self.words[start] = Header { len, is_endless: false, ..header }.word();
    }
}

/// The header of a set of several words. If `is_endless` is true, all bits after the first `len` words are ones.
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
