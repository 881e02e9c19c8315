//! The cursor that a subscription's partial leads to, by the mark-delete rule.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::{Batch, Ledger, Pair, Partials, TOPIC};
use crate::error::{Error, Result};
use crate::ledgers::Ledgers;
use crate::position::Position;
use crate::position_info::PositionInfo;
use crate::range_set::PositionRangeSet;

/// One subscription once all its events are folded.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// The state as it is persisted.
    pub info: PositionInfo,
    /// The topic's ledgers.
    pub ledgers: Ledgers,
    /// Messages of each entry that holds a batch, by position.
    pub sizes: Vec<(Position, i64)>,
}

impl Cursor {
    /// Entries not wholly acknowledged.
    #[must_use]
    pub fn backlog_entries(&self) -> i64 {
        let mark_delete = self.info.mark_delete;
        let last = self.ledgers.last_position().unwrap_or(mark_delete);
        let beyond = self.ledgers.entries_between(mark_delete, last);
        beyond - self.info.individually_deleted.cardinality() as i64
    }

    /// Messages not acknowledged: an entry is one, a batch as many as are left of it.
    #[must_use]
    pub fn unacked_messages(&self) -> i64 {
        let mut partly = self.info.batch_deleted.iter().peekable();
        let mut left = self.backlog_entries();
        for (position, size) in self.sizes_beyond() {
            // Both are in order. A set without a size is one that an ack set brought.
            while let Some((_, words)) = partly.next_if(|(at, _)| *at < position) {
                left += ones(words) - 1;
            }
            let Position { ledger_id, entry_id } = *position;
            if partly.peek().is_none_or(|(at, _)| *at != position)
                && !self.info.individually_deleted.contains(ledger_id, entry_id)
                && self.ledgers.contains(*position)
            {
                left += size - 1;
            }
        }
        left + partly.map(|(_, words)| ones(words) - 1).sum::<i64>()
    }

    /// The batches beyond the mark-delete position: columns of ledger ids, first entry ids, counts of entries that
    /// follow each other, and the size of each of them, little-endian int64, compressed with zlib; none without any.
    #[must_use]
    pub fn packed_sizes(&self) -> Option<Vec<u8>> {
        let mut columns: [Vec<i64>; 4] = Default::default();
        let mut next = None;
        for (Position { ledger_id, entry_id }, size) in self.sizes_beyond() {
            if next == Some((*ledger_id, *entry_id, *size)) {
                *columns[2].last_mut().expect("a run began") += 1;
            } else {
                for (column, value) in columns.iter_mut().zip([*ledger_id, *entry_id, 1, *size]) {
                    column.push(value);
                }
            }
            next = Some((*ledger_id, entry_id + 1, *size));
        }
        next?;
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        for column in columns {
            let bytes: Vec<u8> = column.iter().flat_map(|value| value.to_le_bytes()).collect();
            packed.write_all(&bytes).expect("a vector takes all");
        }
        Some(packed.finish().expect("a vector takes all"))
    }

    /// How many messages of each ack set's batch are acknowledged. At least that many, and perhaps more, where the
    /// batch's size is not known, or not beyond the ack set: then the number is negative, less 1 (-4: 3 at least).
    pub fn acked_in_batches(&self) -> impl Iterator<Item = i64> + '_ {
        let mut sizes = self.sizes_beyond().iter().peekable();
        self.info.batch_deleted.iter().map(move |(position, words)| {
            while sizes.next_if(|(at, _)| at < position).is_some() {}
            let size = sizes.peek().filter(|(at, _)| at == position).map_or(1, |(_, size)| *size);
            let last = words.last().map_or(0, |word| i64::from(word.leading_zeros()));
            // The index of the last message that is not acknowledged, -1 without one.
            let last_left = 64 * words.len() as i64 - 1 - last;
            match size > last_left.max(1) {
                true => size - ones(words),
                false => -(last_left + 1 - ones(words)).max(1) - 1,
            }
        })
    }

    /// The sizes of the batches beyond the mark-delete position.
    #[must_use]
    pub fn sizes_beyond(&self) -> &[(Position, i64)] {
        let start = self.sizes.partition_point(|(at, _)| *at <= self.info.mark_delete);
        &self.sizes[start..]
    }
}

fn ones(words: &[i64]) -> i64 {
    words.iter().map(|word| i64::from(word.count_ones())).sum()
}

impl Partials {
    /// The cursor of a pair. Without `batch_index_acks`, acknowledgments of parts of a batch are ignored, as by a
    /// broker with `acknowledgmentAtBatchIndexLevelEnabled=false`.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a flaw, for an acknowledgment of what was never published, and for batch indexes
    /// beyond their batch or in one of unknown size; [`Error::Limit`] for more entries than int64 counts.
    pub fn cursor(&self, pair: u32, batch_index_acks: bool) -> Result<Cursor> {
        if let Some(flaw) = self.flaw_text(pair) {
            return Err(Error::protocol(flaw));
        }
        let known = &self.pairs[pair as usize];
        let topic = self.pair_numbers.get(&(known.topic, TOPIC)).filter(|topic| **topic != pair);
        if let Some(flaw) = topic.and_then(|topic| self.flaw_text(*topic)) {
            return Err(Error::protocol(flaw));
        }
        let topic = topic.map(|topic| &self.pairs[*topic as usize]);
        let mut parts = self.parts(known, topic);
        let mut ledgers = match &known.directory {
            Some(directory) => directory.clone(),
            None => ledgers_of(&parts)?,
        };
        let trimmed_before =
            known.trimmed_before.max(topic.map_or(0, |topic| topic.trimmed_before));
        let last = ledgers.last_position().map_or(0, |last| last.ledger_id);
        ledgers.trim_before(trimmed_before.min(last))?;
        parts.retain(|part| part.own.ledger_id >= ledgers.trimmed_before());
        let mut acked = PositionRangeSet::new();
        let mut up_to = None;
        for part in &parts {
            acked.add_entries(part.ledger_id, &part.acked);
            if let Some(entry_id) = part.up_to {
                up_to = Some(Position::new(part.ledger_id, entry_id));
            }
        }
        refuse_unpublished(&parts, &ledgers, up_to)?;
        let (partly, sizes) = batches_of(&parts, &mut acked)?;

        let mut mark_delete = ledgers.first_position().unwrap_or(Position::new(0, -1));
        if let Some((_, position)) = known.seek {
            mark_delete = ledgers.previous_valid(position);
        }
        if let Some(position) = up_to {
            let reached = match position.entry_id {
                -1 => ledgers.previous_valid(Position::new(position.ledger_id, 0)),
                _ => position,
            };
            mark_delete = mark_delete.max(reached);
        }
        advance(&mut mark_delete, &mut acked, &ledgers);
        let mut info = PositionInfo::new(mark_delete);
        if batch_index_acks {
            let is_open = |position: &Position| {
                *position > mark_delete && !acked.contains(position.ledger_id, position.entry_id)
            };
            let partly = partly.into_iter().filter(|(position, _)| is_open(position));
            info.batch_deleted = partly.collect();
        }
        info.individually_deleted = acked;
        Ok(Cursor { info, sizes, ledgers })
    }

    /// The ledgers of a pair, by id, with what is known for its whole topic.
    fn parts<'a>(&'a self, pair: &'a Pair, topic: Option<&'a Pair>) -> Vec<Part<'a>> {
        let ledgers =
            |pair: &'a Pair| pair.ledgers.iter().map(|ledger| &self.ledgers[*ledger as usize]);
        let mut parts: Vec<Part<'a>> = ledgers(pair).map(|own| Part { own, topic: None }).collect();
        parts.sort_unstable_by_key(|part| part.own.ledger_id);
        for told in topic.into_iter().flat_map(ledgers) {
            match parts.binary_search_by_key(&told.ledger_id, |part| part.own.ledger_id) {
                Ok(at) => parts[at].topic = Some(told),
                Err(at) => parts.insert(at, Part { own: told, topic: None }),
            }
        }
        parts
    }
}

/// What is known of one ledger, for the subscription and for its topic.
#[derive(Clone, Copy)]
struct Part<'a> {
    own: &'a Ledger,
    topic: Option<&'a Ledger>,
}

impl std::ops::Deref for Part<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        self.own
    }
}

impl<'a> Part<'a> {
    fn entries(&self) -> i64 {
        self.own.entries.max(self.topic.map_or(0, |topic| topic.entries))
    }

    /// The batches by entry, of which the size is the larger of both.
    fn batches(&self) -> Vec<Batch<'a>> {
        let mut batches = self.own.batches.sorted();
        let Some(topic) = self.topic.filter(|topic| !topic.batches.is_empty()) else {
            return batches;
        };
        for batch in &mut batches {
            let told = topic.batches.get(batch.entry_id);
            batch.size = batch.size.max(told.and_then(|told| told.size));
        }
        let is_new = |batch: &Batch<'_>| self.own.batches.get(batch.entry_id).is_none();
        let told = topic.batches.iter().filter(is_new);
        batches.extend(told.map(|batch| Batch { left: None, ..batch }));
        batches.sort_unstable_by_key(|batch| batch.entry_id);
        batches
    }
}

/// The ledgers as far as the events show them; the greatest is open.
///
/// A recording begins in the middle of a topic's life: what was acknowledged in ledgers before the first one
/// that something was published in, existed.
fn ledgers_of(parts: &[Part<'_>]) -> Result<Ledgers> {
    let mut ledgers = Ledgers::new();
    let mut published = false;
    for part in parts {
        published |= part.entries() > 0;
        let entries = if published {
            part.entries()
        } else {
            last_acked(part).map_or(0, |last| last.saturating_add(1))
        };
        if entries > 0 {
            ledgers.add(part.ledger_id, entries)?;
        }
    }
    Ok(ledgers)
}

fn last_acked(part: &Ledger) -> Option<i64> {
    let partly = partly_acked(part).max();
    part.acked.last_entry().max(part.up_to).max(partly).filter(|entry_id| *entry_id >= 0)
}

/// Refuses an acknowledgment of what no ledger holds: the first one by position.
fn refuse_unpublished(
    parts: &[Part<'_>],
    ledgers: &Ledgers,
    up_to: Option<Position>,
) -> Result<()> {
    for part in parts {
        let entries = ledgers.entries(part.ledger_id).unwrap_or(0);
        let beyond = part.acked.ranges().map(|(_, upper)| upper).find(|upper| *upper >= entries);
        let cumulative = up_to.filter(|up_to| up_to.ledger_id == part.ledger_id);
        let cumulative = cumulative.map(|up_to| up_to.entry_id).filter(|entry| *entry >= entries);
        let partly = partly_acked(part).filter(|entry| *entry >= entries).min();
        let first = [beyond, cumulative, partly].into_iter().flatten().min();
        if let Some(entry_id) = first {
            let last = ledgers.last_position();
            let position = Position::new(part.ledger_id, entry_id);
            let last = last.map_or("none".to_owned(), |last| last.to_string());
            return Err(Error::protocol_at(
                position,
                format!(
                    "acknowledgment of {position}, which was never published; last position: {last}"
                ),
            ));
        }
    }
    Ok(())
}

/// The entries that have an ack set, in no order.
fn partly_acked(part: &Ledger) -> impl Iterator<Item = i64> + '_ {
    part.batches.iter().filter(|batch| batch.left.is_some()).map(|batch| batch.entry_id)
}

type Partly = Vec<(Position, Vec<i64>)>;
type Sizes = Vec<(Position, i64)>;

/// The ack sets of partly acknowledged entries and the sizes of all batches, by position; entries of which
/// nothing is left join `acked`.
fn batches_of(parts: &[Part<'_>], acked: &mut PositionRangeSet) -> Result<(Partly, Sizes)> {
    let first_published = parts.iter().find(|part| part.entries() > 0).map(|part| part.ledger_id);
    let (mut partly, mut sizes) = (Partly::new(), Sizes::new());
    let mut words = Vec::new();
    for part in parts {
        let batches = part.batches();
        sizes.reserve_exact(batches.len());
        let is_published = first_published.is_some_and(|first| part.ledger_id >= first);
        for batch in batches {
            let position = Position::new(part.ledger_id, batch.entry_id);
            if let Some(size) = batch.size {
                sizes.push((position, size));
            }
            let Some(left) = batch.left else { continue };
            let size = match (left.greatest_acked(), batch.size) {
                (None, size) => size.unwrap_or(0),
                (Some(index), Some(size)) if index < size => size,
                (Some(index), Some(size)) => {
                    return Err(Error::protocol_at(
                        position,
                        format!(
                            "acknowledgment of batch index {index} of {position}, which holds {size} messages"
                        ),
                    ));
                }
                // Published before the recording began: it holds one message more at least, nobody knows how
                // many, so the set is filled up to whole words.
                (Some(index), None) if !is_published => (index / 64 + 1) * 64,
                (Some(_), None) => {
                    return Err(Error::protocol_at(
                        position,
                        format!(
                            "acknowledgment of a part of {position}, but no event says how many messages it holds"
                        ),
                    ));
                }
            };
            words.clear();
            left.write(size, &mut words);
            if words.is_empty() {
                acked.add(position.ledger_id, position.entry_id)?;
            } else {
                partly.push((position, words.clone()));
            }
        }
    }
    Ok((partly, sizes))
}

/// Moves the mark-delete position over connected ranges and over the borders of ledgers.
fn advance(mark_delete: &mut Position, acked: &mut PositionRangeSet, ledgers: &Ledgers) {
    acked.remove_up_to(mark_delete.ledger_id, mark_delete.entry_id);
    while let Some(first) = acked.first_range() {
        let start = Position::new(first.ledger_id, first.lower_entry_exclusive);
        if start > *mark_delete && ledgers.entries_between(*mark_delete, start) > 0 {
            return;
        }
        *mark_delete = Position::new(first.ledger_id, first.upper_entry_inclusive);
        acked.remove_up_to(mark_delete.ledger_id, mark_delete.entry_id);
    }
}
