//! Rows of events into partials: one pass, one look-up a row.

use super::by_pair::ByPair;
use super::{Flaw, NULL, Order, Partials, TOPIC};
use crate::error::{Error, Result};
use crate::position::Position;

/// What a kind of event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing to a cursor.
    Nothing,
    /// Nothing either, but the event must have a position.
    Placed,
    /// The entry exists.
    Exists,
    /// The entry, or a part of it, is acknowledged.
    Ack,
    /// Everything up to the entry, or to a part of it, is acknowledged.
    UpTo,
    /// The same, or everything published so far where there is no position.
    Clear,
    /// The position is the next to be read; acknowledgments before it are void.
    Seek,
    /// The topic has no ledger before the position's any more.
    Trim,
    /// The subscription is deleted.
    Delete,
    /// An acknowledgment that may or may not count.
    InTransaction,
    /// The kind is not known.
    Unknown,
    /// The kind is null.
    Missing,
    /// An acknowledgment that does not count, for its transaction was not committed; it says how large its batch is.
    Void,
    /// Nothing to a cursor, but the event must name a subscription.
    Named,
    /// The entry exists, for the subscription got it.
    Delivered,
}

impl Action {
    /// The actions in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Nothing,
        Self::Placed,
        Self::Exists,
        Self::Ack,
        Self::UpTo,
        Self::Clear,
        Self::Seek,
        Self::Trim,
        Self::Delete,
        Self::InTransaction,
        Self::Unknown,
        Self::Missing,
        Self::Void,
        Self::Named,
        Self::Delivered,
    ];

    /// Whether it happens to a subscription, not to a topic.
    fn needs_subscription(self) -> bool {
        !matches!(self, Self::Nothing | Self::Exists | Self::Trim | Self::Unknown | Self::Missing)
    }

    fn needs_position(self) -> bool {
        !matches!(self, Self::Nothing | Self::Named | Self::Clear | Self::Delete)
    }
}

/// A column of names: a code a row, and the number of each code.
#[derive(Debug, Clone, Copy)]
pub struct Codes<'a> {
    /// A code a row; none where each row has code 0.
    pub codes: Option<&'a [i32]>,
    /// The number of each code.
    pub numbers: &'a [i32],
}

/// Columns of events, all of one length; [`NULL`] for null.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The topic.
    pub topics: Codes<'a>,
    /// The subscription.
    pub subscriptions: Codes<'a>,
    /// What happened: numbers are those of [`Action::ALL`].
    pub kinds: Codes<'a>,
    /// The position's ledger.
    pub ledger_ids: &'a [i64],
    /// The position's entry.
    pub entry_ids: &'a [i64],
    /// The message's index in its batch.
    pub batch_indexes: Option<&'a [i64]>,
    /// How many messages the batch holds.
    pub batch_sizes: Option<&'a [i64]>,
    /// Where each row's ack set begins and ends in `words`; bit set = not acknowledged.
    pub ack_sets: Option<(&'a [i64], &'a [i64])>,
    /// The words of all ack sets.
    pub words: &'a [i64],
    /// Orders the events of one file; without it no row is ordered.
    pub sequences: Option<&'a [i64]>,
    /// The file; without it all rows are of the file without a name.
    pub files: Option<Codes<'a>>,
}

/// What an acknowledgment of a part of an entry says of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) index: i64,
    pub(super) size: i64,
    pub(super) words: Option<&'a [i64]>,
}

/// Pairs by the codes of their names, where few enough codes meet; else each row asks the table of all.
struct PairsOfBatch {
    width: usize,
    pairs: Vec<u32>,
}

const UNMET: u32 = u32::MAX;
/// Codes are looked up in an array if there are at most so many for each row.
const CODES_PER_ROW: usize = 4;

impl Partials {
    /// Takes rows in. Gives the first row that is no event, whose subscription then has a flaw; the others are
    /// taken.
    ///
    /// # Errors
    /// [`Error::Value`] for columns of different lengths, and codes or offsets that are out of range; then no
    /// row is taken.
    pub fn feed(&mut self, rows: &Rows<'_>) -> Result<Option<usize>> {
        rows.check(self.files.len())?;
        let mut pairs = PairsOfBatch::new(rows);
        if !self.resets_known && rows.kinds.numbers.contains(&(Action::Seek as i32)) {
            self.feed_seeks(rows, &mut pairs);
        }
        let mut first_flawed = None;
        let mut refused = |row: usize| {
            first_flawed = Some(first_flawed.map_or(row, |first: usize| first.min(row)));
        };
        let mut memory = std::mem::take(&mut self.memory);
        pairs.of_rows(self, rows, &mut memory.pairs);
        let Memory { pairs, by_pair } = &mut memory;
        let together = self.takes_together(rows);
        let is_mixed = runs(pairs) >= pairs.len() / RUN;
        if together && !is_mixed {
            self.take_together(rows, pairs, |partials, pair, row| {
                if !partials.take_one(rows, pair, row) {
                    refused(row);
                }
            });
        } else if together && self.pairs.len() <= pairs.len() / RUN {
            by_pair.take(rows, pairs, self.pairs.len());
            let rows = &by_pair.rows(rows);
            self.take_together(rows, &by_pair.pairs, |partials, pair, row| {
                if !partials.take_one(rows, pair, row) {
                    refused(by_pair.given[row] as usize);
                }
            });
        } else if self.pairs.len() <= 2 * PAIRS_NEAR || !is_mixed {
            for (row, pair) in pairs.iter().enumerate() {
                if !self.take_one(rows, *pair, row) {
                    refused(row);
                }
            }
        } else {
            for row in near(pairs, self.pairs.len()) {
                if !self.take_one(rows, pairs[row as usize], row as usize) {
                    refused(row as usize);
                }
            }
        }
        if memory.pairs.len() <= ROWS_KEPT_MAX {
            self.memory = memory;
        }
        Ok(first_flawed)
    }

    /// Takes one row; returns whether it is an event.
    #[inline]
    fn take_one(&mut self, rows: &Rows<'_>, pair: u32, row: usize) -> bool {
        let action = rows.action(row);
        let taken = match rows.flaw(row, action, self.batch_size_max) {
            Some(flaw) => Err(flaw),
            None => self.take(pair, row, action, rows),
        };
        if let Err(flaw) = taken {
            self.refuse(pair, rows.order(row), flaw);
        }
        taken.is_ok()
    }

    /// Takes the seeks of a batch first, for they make its earlier acknowledgments void.
    fn feed_seeks(&mut self, rows: &Rows<'_>, pairs: &mut PairsOfBatch) {
        for row in 0..rows.ledger_ids.len() {
            let is_seek = rows.action(row) == Action::Seek;
            if is_seek && rows.flaw(row, Action::Seek, self.batch_size_max).is_none() {
                let codes = (rows.topics.code(row), rows.subscriptions.code(row));
                let pair = pairs.get(self, rows, codes);
                self.seek(pair, rows.order(row), rows.position(row), rows.ack_set(row));
            }
        }
    }

    #[inline]
    fn take(
        &mut self,
        pair: u32,
        row: usize,
        action: Action,
        rows: &Rows<'_>,
    ) -> std::result::Result<(), Flaw> {
        match action {
            Action::Exists | Action::Delivered => {
                let ledger = self.ledger(pair, rows.ledger_ids[row]);
                let ledger = &mut self.ledgers[ledger as usize];
                let entry_id = rows.entry_ids[row];
                ledger.has_entry(entry_id);
                let (index, size) = rows.batch(row);
                if size != NULL {
                    ledger.batches.has_size(entry_id, size);
                } else if index != NULL {
                    ledger.batches.has_size(entry_id, index + 1);
                }
                Ok(())
            }
            Action::Ack | Action::UpTo => {
                self.acknowledge(pair, row, action, rows);
                Ok(())
            }
            Action::Clear if rows.ledger_ids[row] != NULL && rows.entry_ids[row] != NULL => {
                self.acknowledge(pair, row, Action::UpTo, rows);
                Ok(())
            }
            Action::Clear if !self.resets_known => Err(Flaw::ClearedBlindly),
            Action::InTransaction => Err(Flaw::InTransaction),
            Action::Void => {
                self.tell_size(pair, row, rows);
                Ok(())
            }
            Action::Trim => {
                let known = &mut self.pairs[pair as usize];
                known.trimmed_before = known.trimmed_before.max(rows.ledger_ids[row]);
                Ok(())
            }
            Action::Delete => {
                self.delete(pair, rows.order(row));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn tell_size(&mut self, pair: u32, row: usize, rows: &Rows<'_>) {
        let (_, size) = rows.batch(row);
        if size != NULL {
            let ledger = self.ledger(pair, rows.ledger_ids[row]);
            self.ledgers[ledger as usize].batches.has_size(rows.entry_ids[row], size);
        }
    }

    #[inline]
    fn acknowledge(&mut self, pair: u32, row: usize, action: Action, rows: &Rows<'_>) {
        let entry_id = rows.entry_ids[row];
        let known = &self.pairs[pair as usize];
        if self.ordered || known.seek.is_some() {
            let order = rows.order(row);
            if self.voiding_seek(known, order).is_some() {
                return self.tell_size(pair, row, rows);
            }
            if self.ordered {
                self.cover(pair, order, order);
            }
        }
        let ledger = self.ledger(pair, rows.ledger_ids[row]);
        let ledger = &mut self.ledgers[ledger as usize];
        let up_to = action != Action::Ack;
        match rows.is_whole(row) {
            true => {
                ledger.batches.has_size(entry_id, rows.batch(row).1);
                match up_to {
                    true => ledger.acknowledge_up_to(entry_id),
                    false => ledger.acked.add(entry_id),
                }
            }
            false => {
                ledger.take_part(entry_id, rows.part(row), up_to);
                if up_to {
                    ledger.acknowledge_up_to(entry_id - 1);
                }
            }
        }
    }
}

/// Memory of one batch of rows that the next uses again: new memory costs more than what is written to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// The pair of each row.
    pairs: Vec<u32>,
    by_pair: ByPair,
}

/// Rows whose memory is kept for the next batch: some tens of MB.
const ROWS_KEPT_MAX: usize = 1 << 20;

/// Pairs whose ledgers fit the second-level cache together.
const PAIRS_NEAR: usize = 256;

/// Rows of one pair after the other that are worth no reordering.
const RUN: usize = 8;

/// How many times the pair changes from row to row.
fn runs(pairs: &[u32]) -> usize {
    pairs.windows(2).filter(|two| two[0] != two[1]).count()
}

/// The rows in an order that visits few pairs at a time; those of one pair stay in order.
///
/// Where the events of many subscriptions are mixed, each row would wait for memory several times.
fn near(pairs: &[u32], count: usize) -> Vec<u32> {
    let part = |pair: &u32| *pair as usize / PAIRS_NEAR;
    let mut ends = vec![0_u32; count / PAIRS_NEAR + 2];
    for pair in pairs {
        ends[part(pair) + 1] += 1;
    }
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    let mut rows = vec![0; pairs.len()];
    for (row, pair) in pairs.iter().enumerate() {
        let end = &mut ends[part(pair)];
        rows[*end as usize] = row as u32;
        *end += 1;
    }
    rows
}

impl PairsOfBatch {
    /// The pair of each row.
    fn of_rows(&mut self, partials: &mut Partials, rows: &Rows<'_>, pairs: &mut Vec<u32>) {
        let count = rows.ledger_ids.len();
        pairs.clear();
        if count == 0 {
            return;
        }
        if rows.topics.codes.is_none() && rows.subscriptions.codes.is_none() {
            return pairs.resize(count, self.get(partials, rows, (0, 0)));
        }
        let mut last = (usize::MAX, usize::MAX, 0);
        pairs.extend((0..count).map(|row| {
            let codes = (rows.topics.code(row), rows.subscriptions.code(row));
            if (last.0, last.1) != codes {
                last = (codes.0, codes.1, self.get(partials, rows, codes));
            }
            last.2
        }));
    }

    fn new(rows: &Rows<'_>) -> Self {
        let width = rows.subscriptions.numbers.len();
        let all = width.saturating_mul(rows.topics.numbers.len());
        let few = all <= CODES_PER_ROW * rows.ledger_ids.len();
        Self { width, pairs: vec![UNMET; if few { all } else { 0 }] }
    }

    #[inline]
    fn get(&mut self, partials: &mut Partials, rows: &Rows<'_>, codes: (usize, usize)) -> u32 {
        let place = self.pairs.get_mut(codes.0 * self.width + codes.1);
        if let Some(&mut pair) = place
            && pair != UNMET
        {
            return pair;
        }
        let topic = rows.topics.numbers[codes.0];
        let pair = partials.pair(topic, rows.subscriptions.numbers[codes.1]);
        if let Some(place) = place {
            *place = pair;
        }
        pair
    }
}

impl Rows<'_> {
    fn check(&self, files: usize) -> Result<()> {
        let length = self.ledger_ids.len();
        let optional = [self.batch_indexes, self.batch_sizes, self.sequences];
        let codes = [Some(self.topics), Some(self.subscriptions), Some(self.kinds), self.files];
        let mut lengths = vec![self.entry_ids.len()];
        lengths.extend(optional.iter().flatten().map(|column| column.len()));
        lengths.extend(codes.iter().flatten().filter_map(|column| column.codes).map(<[i32]>::len));
        if let Some((starts, ends)) = self.ack_sets {
            lengths.extend([starts.len(), ends.len()]);
        }
        if lengths.iter().any(|other| *other != length) {
            return Err(Error::Value("columns of different lengths".into()));
        }
        for column in codes.into_iter().flatten() {
            column.check()?;
        }
        within(self.kinds.numbers, Action::ALL.len(), "an action")?;
        within(self.files.map_or(&[], |column| column.numbers), files, "a file")?;
        if let Some((starts, ends)) = self.ack_sets {
            let fits = |(start, end): (&i64, &i64)| {
                *start == NULL || (0 <= *start && start <= end && *end <= self.words.len() as i64)
            };
            if !starts.iter().zip(ends).all(fits) {
                return Err(Error::Value("an ack set outside its words".into()));
            }
        }
        Ok(())
    }

    #[inline]
    fn action(&self, row: usize) -> Action {
        Action::ALL[self.kinds.number(row) as usize]
    }

    fn position(&self, row: usize) -> Position {
        Position::new(self.ledger_ids[row], self.entry_ids[row])
    }

    #[inline]
    pub(super) fn batch(&self, row: usize) -> (i64, i64) {
        let index = self.batch_indexes.map_or(NULL, |column| column[row]);
        (index, self.batch_sizes.map_or(NULL, |column| column[row]))
    }

    #[inline]
    fn ack_set(&self, row: usize) -> Option<&[i64]> {
        let (starts, ends) = self.ack_sets?;
        (starts[row] != NULL).then(|| &self.words[starts[row] as usize..ends[row] as usize])
    }

    /// Whether an acknowledgment is one of the entry, not of a part of it.
    #[inline]
    pub(super) fn is_whole(&self, row: usize) -> bool {
        match self.ack_set(row) {
            Some(words) => words.iter().all(|word| *word == 0),
            None => self.batch(row).0 == NULL,
        }
    }

    /// The part of its entry that an acknowledgment is one of.
    #[inline]
    pub(super) fn part(&self, row: usize) -> Part<'_> {
        let (index, size) = self.batch(row);
        Part { index, size, words: self.ack_set(row) }
    }

    /// Whether a column says anything of batches.
    pub(super) fn has_batches(&self) -> bool {
        self.batch_indexes.is_some() || self.batch_sizes.is_some() || self.ack_sets.is_some()
    }

    /// Whether no batch index, size or ack set is negative or beyond the limit.
    pub(super) fn has_sound_batches(&self, size_max: i64) -> bool {
        let within = |column: Option<&[i64]>, most: i64| {
            let column = column.unwrap_or_default();
            // Bits that no value but null has, and the sign of others: processors do this with several at a time.
            let (values, negative) = column.iter().fold((0, 0), |(values, negative), value| {
                (values | (value & i64::MAX), negative | ((value >> 63) & value & i64::MAX))
            });
            negative == 0 && values <= most
                || column.iter().all(|value| (0..=most).contains(value) || *value == NULL)
        };
        let (starts, ends) = self.ack_sets.unwrap_or_default();
        let sets = starts.iter().zip(ends);
        within(self.batch_indexes, size_max - 1)
            && within(self.batch_sizes, size_max)
            && sets.fold(true, |all, (start, end)| {
                all & ((*start == NULL) | (end.wrapping_sub(*start) <= size_max / 64))
            })
    }

    #[inline]
    pub(super) fn order(&self, row: usize) -> Order {
        let file = self.files.map_or(0, |files| files.number(row) as u32);
        Order { file, sequence: self.sequences.map_or(NULL, |column| column[row]) }
    }

    /// What is wrong with a row.
    #[inline]
    fn flaw(&self, row: usize, action: Action, batch_size_max: i64) -> Option<Flaw> {
        let (ledger_id, entry_id) = (self.ledger_ids[row], self.entry_ids[row]);
        let (index, size) = self.batch(row);
        let sequence = self.sequences.map_or(0, |column| column[row]);
        let set = self.ack_set(row).map_or(0, <[i64]>::len) as i64;
        if (ledger_id | entry_id | sequence) >= 0
            && entry_id < i64::MAX
            && action != Action::Unknown
            && action != Action::Missing
            && index < batch_size_max
            && size <= batch_size_max
            && set <= batch_size_max / 64
            && (index >= 0 || index == NULL)
            && (size >= 0 || size == NULL)
            && (self.subscriptions.number(row) != TOPIC || !action.needs_subscription())
        {
            return None;
        }
        let negative = |value: i64| value < 0 && value != NULL;
        let unplaced = ledger_id == NULL || entry_id == NULL;
        let nameless = self.subscriptions.number(row) == TOPIC && action.needs_subscription();
        if action == Action::Missing || sequence == NULL || nameless {
            Some(Flaw::Incomplete)
        } else if action == Action::Unknown {
            Some(Flaw::UnknownKind)
        } else if unplaced && action.needs_position() {
            Some(Flaw::NoPosition)
        } else if [ledger_id, entry_id, sequence, index, size].into_iter().any(negative)
            || entry_id == i64::MAX
        {
            Some(Flaw::Negative)
        } else if index >= batch_size_max || size > batch_size_max || set > batch_size_max / 64 {
            Some(Flaw::BatchTooLarge)
        } else {
            None
        }
    }
}

impl Codes<'_> {
    #[inline]
    pub(super) fn code(&self, row: usize) -> usize {
        self.codes.map_or(0, |codes| codes[row] as usize)
    }

    #[inline]
    fn number(&self, row: usize) -> i32 {
        self.numbers[self.code(row)]
    }

    fn check(self) -> Result<()> {
        match self.codes {
            Some(codes) => within(codes, self.numbers.len(), "a code"),
            None => within(&[0], self.numbers.len(), "a code"),
        }
    }
}

fn within(values: &[i32], end: usize, what: &str) -> Result<()> {
    match values.iter().all(|value| usize::try_from(*value).is_ok_and(|value| value < end)) {
        true => Ok(()),
        false => Err(Error::Value(format!("{what} that is not known"))),
    }
}
