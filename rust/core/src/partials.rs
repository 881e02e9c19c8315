//! The combined effect of events on many subscriptions. The results of several folds can be merged in any order.
//!
//! Merging takes the maximum of ledger lengths, the union of acknowledged entries, the maximum of cumulative positions,
//! and the AND of ack sets. It is commutative, associative and idempotent. So events may come in any order, from many
//! files and tasks, and twice. The mark-delete position, the ranges and the encoded bytes are computed from the merged
//! state ([`Partials::cursor`]).
//!
//! A seek is the exception: it voids the earlier acknowledgments. So a subscription stores its last seek, and the
//! places ([`Order`]) of its first and its last acknowledgment. If a seek is merged after the acknowledgments, these
//! places decide. A seek before all acknowledgments voids none, and a seek after all of them voids all. A seek between
//! them is a [`Flaw`] of the subscription.
//!
//! Representation: flat arrays. Each pair (topic, subscription) has a number, and each ledger of a pair has a number. A
//! row needs one look-up to find its ledger, for any number of subscriptions. The caller stores the names of topics and
//! subscriptions, and assigns a number to each. The subscription number [`TOPIC`] means the topic itself, whose entries
//! belong to all its subscriptions.
//!
//! An invalid event becomes the flaw of its subscription; the first flaw by (file, sequence) is kept. Other
//! subscriptions are not affected.

mod batches;
mod bytes;
mod columns;
mod cursor;
mod events;
mod joining;
mod rows;
mod batched_rows;
mod sorted_columns;
mod transactions;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Deref, DerefMut};

pub use bytes::VERSION;
pub use columns::{CursorColumns, INTEGERS, Texts};
pub use cursor::{Cursor, SizeRun};
pub use events::{ACKS, Action, Codes, EXISTS, POSITION, Rows, SUBSCRIPTION};
pub use transactions::TransactionRows;

use crate::ledgers::Ledgers;
use crate::position::Position;
use crate::position_info::PositionInfo;
use crate::range_set::EntrySet;
use batches::{Batch, Batches};
use rows::Memory;
use transactions::CommittedTransactions;

/// The null of a column. Valid ids, indexes, sizes and sequences are not negative.
pub const NULL: i64 = i64::MIN;

/// The number of the subscription without a name. Its events belong to the topic and apply to all subscriptions of the
/// topic.
pub const TOPIC: i32 = 0;

/// The place of an event in the order of events: the number of its file, and its sequence there. Files are ordered by
/// name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// The number of the file, as returned by [`Partials::file`].
    pub file: u32,
    /// The sequence of the event in its file.
    pub sequence: i64,
}

/// A place before every event.
const FIRST: Order = Order { file: 0, sequence: NULL };

/// The reason why a subscription has no cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// An event whose kind or sequence is null, or an event that needs a subscription and has none.
    Incomplete = 0,
    /// The kind is unknown.
    UnknownKind = 1,
    /// An event without the position that its kind requires.
    NoPosition = 2,
    /// A negative id, sequence, batch index or batch size, or an entry id above 2^63 - 2.
    Negative = 3,
    /// A batch index, batch size or ack set beyond the limit.
    BatchTooLarge = 4,
    /// A seek that was folded after two acknowledgments, although it happened between them.
    SeekBetween = 5,
    /// A cleared backlog without a position. The fold does not have the earlier events, so the position is unknown.
    ClearedBlindly = 6,
    /// An acknowledgment in a transaction. The fold does not have the commits, so the outcome is unknown.
    InTransaction = 7,
}

impl Flaw {
    /// The flaws in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Incomplete,
        Self::UnknownKind,
        Self::NoPosition,
        Self::Negative,
        Self::BatchTooLarge,
        Self::SeekBetween,
        Self::ClearedBlindly,
        Self::InTransaction,
    ];

    /// Returns the error message for the flaw. The message does not contain the file and the sequence of the event.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Incomplete => "the event has no kind, no sequence or no subscription",
            Self::UnknownKind => "unknown event kind",
            Self::NoPosition => "no position; this kind needs a ledger id and an entry id",
            Self::Negative => {
                "a negative ledger id, entry id, sequence, batch index or batch size, or an entry id above 2^63 - 2"
            }
            Self::BatchTooLarge => {
                "the batch index, batch size or ack set is beyond the largest batch"
            }
            Self::SeekBetween => {
                "a seek between acknowledgments that were folded together; fold these events again, with the seek"
            }
            Self::ClearedBlindly => {
                "backlog cleared without a position; record the last position published before it"
            }
            Self::InTransaction => {
                "an acknowledgment in a transaction; whether it was committed is not known here"
            }
        }
    }

    /// Returns the flaw whose number is `code`.
    #[must_use]
    pub fn numbered(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// The state of one pair (topic, subscription). The struct is small, because there may be many pairs.
#[derive(Debug, Clone)]
struct Pair {
    topic: i32,
    subscription: i32,
    ledgers: Vec<u32>,
    /// The id and the number of the ledger that was used last. Most subscriptions stay in one ledger for a long time.
    last_ledger: (i64, u32),
    /// The places of the first and the last acknowledgment in the order of events.
    acked: Option<(Order, Order)>,
    rare: OptionalFields,
}

impl Pair {
    fn new(topic: i32, subscription: i32) -> Self {
        let (ledgers, last_ledger) = (vec![], (NULL, 0));
        Self { topic, subscription, ledgers, last_ledger, acked: None, rare: OptionalFields(None) }
    }
}

/// Fields that most pairs do not have. They take memory only if they are set.
#[derive(Debug, Clone)]
struct OptionalFields(Option<Box<RareFields>>);

#[derive(Debug, Clone, Default)]
struct RareFields {
    seek: Option<(Order, Position)>,
    settings: Option<(Order, String)>,
    flaw: Option<(Order, Flaw)>,
    /// The place of the last deletion of the subscription.
    deleted: Option<Order>,
    /// Every ledger below this id is deleted.
    trimmed_before: i64,
    /// The ledgers of the topic, if the caller gave them.
    directory: Option<Ledgers>,
}

static NOTHING: RareFields = RareFields {
    seek: None,
    settings: None,
    flaw: None,
    deleted: None,
    trimmed_before: 0,
    directory: None,
};

impl Deref for OptionalFields {
    type Target = RareFields;

    #[inline]
    fn deref(&self) -> &RareFields {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl DerefMut for OptionalFields {
    fn deref_mut(&mut self) -> &mut RareFields {
        self.0.get_or_insert_default()
    }
}

/// One ledger of a pair.
#[derive(Debug, Clone, Default)]
struct Ledger {
    ledger_id: i64,
    /// The minimum number of entries of the ledger, according to the events.
    entries: i64,
    /// The last entry that a cumulative acknowledgment includes: this entry and everything before it are acknowledged.
    /// -1 means that only the entries of earlier ledgers are acknowledged. `None` without a cumulative acknowledgment.
    up_to: Option<i64>,
    acked: EntrySet,
    batches: Batches,
}

impl Ledger {
    fn note_entry(&mut self, entry_id: i64) {
        self.entries = self.entries.max(entry_id.saturating_add(1));
    }

    fn acknowledge_up_to(&mut self, entry_id: i64) {
        self.up_to = self.up_to.max(Some(entry_id));
    }

    /// Applies an acknowledgment row: records the batch size, and acknowledges the messages of the row. If `up_to` is
    /// true, also acknowledges everything before these messages. One case is left to the caller: if the row
    /// acknowledges a whole entry and `up_to` is false, returns true, and the caller must add the entry to the
    /// acknowledged entries.
    #[inline]
    fn take_acknowledgment(&mut self, rows: &Rows<'_>, row: usize, up_to: bool) -> bool {
        let entry_id = rows.entry_ids[row];
        let (index, size) = rows.batch(row);
        let is_whole = match rows.ack_set(row) {
            Some(words) if words.iter().any(|word| *word != 0) => {
                self.batches.join_words(entry_id, words, size);
                false
            }
            None if index != NULL && up_to => {
                self.batches.acknowledge_up_to(entry_id, index, size);
                false
            }
            None if index != NULL => {
                self.batches.acknowledge(entry_id, index, size);
                false
            }
            _ => {
                self.batches.note_size(entry_id, size);
                true
            }
        };
        if up_to {
            self.acknowledge_up_to(entry_id - i64::from(!is_whole));
        }
        is_whole && !up_to
    }

    fn forget_acknowledgments(&mut self) {
        self.up_to = None;
        self.acked = EntrySet::default();
        self.batches.forget_acknowledgments();
    }

    fn merge(&mut self, other: Self) {
        self.entries = self.entries.max(other.entries);
        self.up_to = self.up_to.max(other.up_to);
        match self.acked.is_empty() {
            true => self.acked = other.acked,
            false => self.acked.union_with(&other.acked),
        }
        match self.batches.is_empty() {
            true => self.batches = other.batches,
            false => other.batches.iter().for_each(|batch| self.batches.join(batch)),
        }
    }
}

/// The partials of many subscriptions. The module documentation describes them.
#[derive(Debug, Clone, Default)]
pub struct Partials {
    /// Whether the places of acknowledgments are stored. If a seek is folded after acknowledgments, their places decide
    /// whether the seek voids them.
    ordered: bool,
    /// Whether the caller applies every seek ([`Partials::seek`]) and every cleared backlog ([`Partials::clear`])
    /// before it feeds events.
    resets_known: bool,
    /// The number of messages in the largest accepted batch.
    batch_size_max: i64,
    files: Vec<String>,
    file_numbers: HashMap<String, u32>,
    pairs: Vec<Pair>,
    pair_numbers: HashMap<(i32, i32), u32, MixBuilder>,
    ledgers: Vec<Ledger>,
    ledger_numbers: HashMap<(u32, i64), u32, MixBuilder>,
    committed: CommittedTransactions,
    memory: Memory,
}

impl Partials {
    /// Creates an object without subscriptions. With `ordered`, the places of acknowledgments are stored. With
    /// `resets_known`, the caller applies every seek ([`Self::seek`]) and every cleared backlog ([`Self::clear`])
    /// before it feeds events.
    #[must_use]
    pub fn new(ordered: bool, resets_known: bool, batch_size_max: i64) -> Self {
        let batch_size_max = batch_size_max.clamp(0, i32::MAX.into());
        let mut partials = Self { ordered, resets_known, batch_size_max, ..Self::default() };
        partials.file("");
        partials
    }

    /// Returns the number that identifies a pair (topic, subscription). A new pair gets a new number.
    pub fn pair(&mut self, topic: i32, subscription: i32) -> u32 {
        let pairs = &mut self.pairs;
        *self.pair_numbers.entry((topic, subscription)).or_insert_with(|| {
            pairs.push(Pair::new(topic, subscription));
            pairs.len() as u32 - 1
        })
    }

    /// Returns the topic number and the subscription number of each pair.
    pub fn names(&self) -> impl ExactSizeIterator<Item = (i32, i32)> + '_ {
        self.pairs.iter().map(|pair| (pair.topic, pair.subscription))
    }

    /// Returns the number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether there are no pairs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the number that identifies a file. A new file gets a new number.
    pub fn file(&mut self, name: &str) -> u32 {
        if let Some(number) = self.file_numbers.get(name) {
            return *number;
        }
        let number = self.files.len() as u32;
        self.files.push(name.to_owned());
        self.file_numbers.insert(name.to_owned(), number);
        number
    }

    /// Returns the number of known files.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the name of the file with this number.
    #[must_use]
    pub fn file_name(&self, file: u32) -> &str {
        &self.files[file as usize]
    }

    /// Applies a seek, if it is later than the known seek. `position` is the next position to read, and acknowledgments
    /// before the seek are void. A set bit in `ack_set` marks a message of the entry at `position` that is not
    /// acknowledged.
    pub fn seek(&mut self, pair: u32, order: Order, position: Position, ack_set: Option<&[i64]>) {
        let known = self.pairs[pair as usize].rare.seek;
        if known.is_some_and(|(known, _)| self.compare(known, order) != Ordering::Less) {
            return;
        }
        self.pairs[pair as usize].rare.seek = Some((order, position));
        if let Some((first, last)) = self.pairs[pair as usize].acked
            && self.compare(last, order) == Ordering::Greater
        {
            if self.compare(first, order) != Ordering::Greater {
                self.note_flaw(pair, order, Flaw::SeekBetween);
            }
        } else if order != FIRST {
            // A start state (`FIRST`) voids no acknowledgments, because no event precedes it, and events without an
            // order follow it.
            self.forget_acknowledgments(pair);
        }
        if let Some(words) = ack_set.filter(|words| words.iter().any(|word| *word != 0)) {
            let ledger = self.ledger(pair, position.ledger_id);
            self.ledgers[ledger as usize].batches.join_words(position.entry_id, words, NULL);
            if self.ordered {
                self.widen_acked(pair, order, order);
            }
        }
    }

    /// Returns the place of the pair's seek if the seek voids an event at the place `order`. A seek voids the events
    /// that are not after it. The seek of a start state voids no event, because all events follow it, including the
    /// events without a place.
    fn voiding_seek(&self, known: &Pair, order: Order) -> Option<Order> {
        let (seek, _) = known.rare.seek?;
        (seek != FIRST && self.compare(order, seek) != Ordering::Greater).then_some(seek)
    }

    /// Returns whether the caller must pass the places of a pair's acknowledgments to [`Self::admit_acknowledgments`].
    /// This is so if places are stored, or if the pair has a seek.
    #[inline]
    fn needs_places(&self, pair: u32) -> bool {
        self.ordered || self.pairs[pair as usize].rare.seek.is_some()
    }

    /// Returns whether acknowledgments at the places from `first` to `last` take effect, and records these places if
    /// they do. Returns false if a seek voids all these acknowledgments, and `None` if it voids only a part of them.
    #[inline]
    fn admit_acknowledgments(&mut self, pair: u32, first: Order, last: Order) -> Option<bool> {
        let known = &self.pairs[pair as usize];
        let takes_first = self.voiding_seek(known, first).is_none();
        let takes_last =
            if first == last { takes_first } else { self.voiding_seek(known, last).is_none() };
        if self.ordered && takes_first && takes_last {
            self.widen_acked(pair, first, last);
        }
        (takes_first == takes_last).then_some(takes_first)
    }

    /// Applies the deletion of a subscription. A later seek means that the subscription was created again.
    pub fn delete(&mut self, pair: u32, order: Order) {
        let known = self.pairs[pair as usize].rare.deleted;
        if known.is_none_or(|known| self.compare(known, order) == Ordering::Less) {
            self.pairs[pair as usize].rare.deleted = Some(order);
        }
    }

    /// Applies the deletion of all ledgers before `ledger_id`.
    fn trim(&mut self, pair: u32, ledger_id: i64) {
        let rare = &mut self.pairs[pair as usize].rare;
        if ledger_id > rare.trimmed_before {
            rare.trimmed_before = ledger_id;
        }
    }

    /// Returns whether the subscription was deleted and not created again.
    #[must_use]
    pub fn is_deleted(&self, pair: u32) -> bool {
        let known = &self.pairs[pair as usize];
        let Some(deleted) = known.rare.deleted else { return false };
        known.rare.seek.is_none_or(|(seek, _)| self.compare(seek, deleted) == Ordering::Less)
    }

    /// Returns the greatest position that exists, according to the events of the subscription and of its topic.
    #[must_use]
    pub fn last_published(&self, pair: u32) -> Option<Position> {
        let topic = self.pair_numbers.get(&(self.pairs[pair as usize].topic, TOPIC));
        let pairs = topic.into_iter().chain([&pair]).map(|pair| &self.pairs[*pair as usize]);
        let ledgers =
            pairs.flat_map(|pair| &pair.ledgers).map(|number| &self.ledgers[*number as usize]);
        let has_entries = ledgers.filter(|ledger| ledger.entries > 0);
        has_entries.map(|ledger| Position::new(ledger.ledger_id, ledger.entries - 1)).max()
    }

    /// Applies a cleared backlog: acknowledges everything up to `last`, the last position that was published before the
    /// backlog was cleared.
    pub fn clear(&mut self, pair: u32, order: Order, last: Position) {
        let ledger = self.ledger(pair, last.ledger_id);
        self.ledgers[ledger as usize].acknowledge_up_to(last.entry_id);
        self.widen_acked(pair, order, order);
    }

    /// Applies `info`, the state that the subscription had before its first event, and adds the known ledgers of its
    /// topic. If a seek is already known, the acknowledgments in `info` are void and are not applied.
    pub fn start(&mut self, pair: u32, info: &PositionInfo, ledgers: &[(i64, i64)]) {
        for (ledger_id, entries) in ledgers {
            let ledger = self.ledger(pair, *ledger_id);
            self.ledgers[ledger as usize].note_entry(entries - 1);
        }
        let Position { ledger_id, entry_id } = info.mark_delete;
        if ledgers.is_empty() {
            let ledger = self.ledger(pair, ledger_id);
            self.ledgers[ledger as usize].note_entry(entry_id);
        }
        if self.pairs[pair as usize].rare.seek.is_some() {
            return;
        }
        let next = Position::new(ledger_id, entry_id.saturating_add(1));
        self.seek(pair, FIRST, next, None);
        self.widen_acked(pair, FIRST, FIRST);
        for range in info.individually_deleted.ranges() {
            let ledger = self.ledger(pair, range.ledger_id);
            let ledger = &mut self.ledgers[ledger as usize];
            let (lower, upper) = (range.lower_entry_exclusive, range.upper_entry_inclusive);
            if ledgers.is_empty() {
                ledger.note_entry(upper);
            }
            if upper < ledger.entries {
                ledger.acked.add_range(lower, upper);
            }
        }
        let mut words = Vec::new();
        for (position, set) in info.batch_deleted.iter() {
            words.clear();
            words.extend(set.words());
            let ledger = self.ledger(pair, position.ledger_id);
            let ledger = &mut self.ledgers[ledger as usize];
            if ledgers.is_empty() {
                ledger.note_entry(position.entry_id);
            }
            if position.entry_id < ledger.entries {
                ledger.batches.join_words(position.entry_id, &words, NULL);
            }
        }
    }

    /// Sets the settings of a subscription, unless settings with a later (file, sequence) are known.
    pub fn set_settings(&mut self, pair: u32, order: Order, detail: String) {
        let known = self.pairs[pair as usize].rare.settings.as_ref().map(|settings| settings.0);
        if known.is_none_or(|known| self.compare(known, order) == Ordering::Less) {
            self.pairs[pair as usize].rare.settings = Some((order, detail));
        }
    }

    /// Returns each pair that has settings, with the settings.
    pub fn settings(&self) -> impl Iterator<Item = (u32, &str)> + '_ {
        self.pairs.iter().enumerate().filter_map(|(pair, known)| {
            Some((pair as u32, known.rare.settings.as_ref()?.1.as_str()))
        })
    }

    /// Sets the ledgers of the topic of a pair. The cursor is then computed with these ledgers instead of the ledgers
    /// in the events.
    pub fn set_ledgers(&mut self, pair: u32, ledgers: Ledgers) {
        self.pairs[pair as usize].rare.directory = Some(ledgers);
    }

    /// Returns the flaw of a pair, and the place of the event that caused it.
    #[must_use]
    pub fn flaw(&self, pair: u32) -> Option<(Order, Flaw)> {
        self.pairs[pair as usize].rare.flaw
    }

    /// Returns the flaw of a pair as one sentence.
    #[must_use]
    pub fn flaw_text(&self, pair: u32) -> Option<String> {
        let (Order { file, sequence }, flaw) = self.flaw(pair)?;
        Some(match (self.file_name(file), sequence) {
            (_, NULL) => flaw.text().to_owned(),
            ("", sequence) => format!("sequence {sequence}: {}", flaw.text()),
            (file, sequence) => format!("{file}, sequence {sequence}: {}", flaw.text()),
        })
    }

    /// Returns the pair whose flaw comes first by (file, sequence).
    #[must_use]
    pub fn first_flawed(&self) -> Option<u32> {
        let flawed = self
            .pairs
            .iter()
            .enumerate()
            .filter_map(|(pair, known)| Some((pair, known.rare.flaw?)));
        flawed.min_by(|(_, a), (_, b)| self.compare_flaws(*a, *b)).map(|(pair, _)| pair as u32)
    }

    /// Records a flaw of a pair, unless a flaw with an earlier (file, sequence) is known.
    pub fn note_flaw(&mut self, pair: u32, order: Order, flaw: Flaw) {
        let known = self.pairs[pair as usize].rare.flaw;
        let found = (order, flaw);
        if known.is_none_or(|known| self.compare_flaws(found, known) == Ordering::Less) {
            self.pairs[pair as usize].rare.flaw = Some(found);
        }
    }

    fn compare_flaws(&self, a: (Order, Flaw), b: (Order, Flaw)) -> Ordering {
        self.compare(a.0, b.0).then(a.1.cmp(&b.1))
    }

    fn compare(&self, a: Order, b: Order) -> Ordering {
        match a.file == b.file {
            true => a.sequence.cmp(&b.sequence),
            false => self.files[a.file as usize].cmp(&self.files[b.file as usize]),
        }
    }

    /// Extends the stored span of a pair, from its first to its last acknowledgment, so that the span includes the
    /// places `first` and `last`.
    fn widen_acked(&mut self, pair: u32, first: Order, last: Order) {
        let known = self.pairs[pair as usize].acked;
        let (mut from, mut to) = known.unwrap_or((first, last));
        if self.compare(first, from) == Ordering::Less {
            from = first;
        }
        if self.compare(last, to) == Ordering::Greater {
            to = last;
        }
        self.pairs[pair as usize].acked = Some((from, to));
    }

    fn forget_acknowledgments(&mut self, pair: u32) {
        let pair = &mut self.pairs[pair as usize];
        pair.acked = None;
        for ledger in &pair.ledgers {
            self.ledgers[*ledger as usize].forget_acknowledgments();
        }
    }

    /// Returns the number that identifies a ledger of a pair. A new ledger gets a new number.
    #[inline]
    fn ledger(&mut self, pair: u32, ledger_id: i64) -> u32 {
        match self.pairs[pair as usize].last_ledger {
            (known, number) if known == ledger_id => number,
            _ => self.find_ledger(pair, ledger_id),
        }
    }

    fn find_ledger(&mut self, pair: u32, ledger_id: i64) -> u32 {
        let ledgers = &mut self.ledgers;
        let known = &mut self.pairs[pair as usize];
        let number = *self.ledger_numbers.entry((pair, ledger_id)).or_insert_with(|| {
            ledgers.push(Ledger { ledger_id, ..Ledger::default() });
            known.ledgers.push(ledgers.len() as u32 - 1);
            ledgers.len() as u32 - 1
        });
        known.last_ledger = (ledger_id, number);
        number
    }
}

/// The builder of [`Mix`], which hashes ids and names of events.
pub(crate) type MixBuilder = BuildHasherDefault<Mix>;

/// A hasher of a few integers by folded multiplication. The standard hasher would take more time than all other work
/// for a row. The keys are numbers from this module, ids and names. If keys collide, only the replay that contains them
/// is slower.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15)
            * u128::from(word.rotate_left(32) ^ 0xd6e8_feb8_6659_fd93);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word.cast_unsigned());
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_i32(&mut self, word: i32) {
        self.write_u64(u64::from(word.cast_unsigned()));
    }
}
