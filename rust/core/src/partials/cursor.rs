//! The cursor that a subscription's partial leads to, by the mark-delete rule.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::{Ledger, Pair, Partials, TOPIC};
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
    /// Messages of each entry that holds a batch.
    pub sizes: BTreeMap<Position, i64>,
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
        let partly = &self.info.batch_deleted;
        let left = partly
            .values()
            .map(|words| words.iter().map(|word| i64::from(word.count_ones())).sum::<i64>() - 1);
        let whole = self.sizes.range(self.after_mark_delete()..).filter(|(position, _)| {
            let Position { ledger_id, entry_id } = **position;
            !partly.contains_key(position)
                && !self.info.individually_deleted.contains(ledger_id, entry_id)
                && self.ledgers.contains(**position)
        });
        let more = left.sum::<i64>() + whole.map(|(_, size)| size - 1).sum::<i64>();
        self.backlog_entries() + more
    }

    /// The batches beyond the mark-delete position: columns of ledger ids, entry ids and sizes, little-endian int64,
    /// compressed with zlib; none without any.
    #[must_use]
    pub fn packed_sizes(&self) -> Option<Vec<u8>> {
        let beyond: Vec<_> = self.sizes.range(self.after_mark_delete()..).collect();
        if beyond.is_empty() {
            return None;
        }
        let ledger_ids = beyond.iter().map(|(position, _)| position.ledger_id);
        let entry_ids = beyond.iter().map(|(position, _)| position.entry_id);
        let values = ledger_ids.chain(entry_ids).chain(beyond.iter().map(|(_, size)| **size));
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        for value in values {
            packed.write_all(&value.to_le_bytes()).expect("a vector takes all");
        }
        Some(packed.finish().expect("a vector takes all"))
    }

    fn after_mark_delete(&self) -> Position {
        let Position { ledger_id, entry_id } = self.info.mark_delete;
        Position::new(ledger_id, entry_id.saturating_add(1))
    }
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
        let partly = partly_acked(&parts, &mut acked)?;

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
        for (position, words) in partly {
            let is_acked =
                position <= mark_delete || acked.contains(position.ledger_id, position.entry_id);
            if batch_index_acks && !is_acked {
                info.insert_batch(position, words.into_iter().map(u64::cast_signed).collect());
            }
        }
        info.individually_deleted = acked;
        let sizes = parts.iter().flat_map(Part::sizes);
        Ok(Cursor { info, sizes: sizes.collect(), ledgers })
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

impl Part<'_> {
    fn entries(&self) -> i64 {
        self.own.entries.max(self.topic.map_or(0, |topic| topic.entries))
    }

    fn size_of(&self, entry_id: i64) -> Option<i64> {
        let told = self.topic.and_then(|topic| topic.sizes.get(&entry_id));
        self.own.sizes.get(&entry_id).max(told).copied()
    }

    fn sizes(&self) -> impl Iterator<Item = (Position, i64)> + '_ {
        let told = self.topic.into_iter().flat_map(|topic| topic.sizes.keys());
        let entries = self.own.sizes.keys().chain(told);
        entries.filter_map(|entry_id| {
            Some((Position::new(self.own.ledger_id, *entry_id), self.size_of(*entry_id)?))
        })
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
    let partly = part.ack_sets.keys().copied().max();
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
        let partly = part.ack_sets.keys().copied().filter(|entry| *entry >= entries).min();
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

/// The ack sets of partly acknowledged entries, by position; those of which nothing is left join `acked`.
fn partly_acked(
    parts: &[Part<'_>],
    acked: &mut PositionRangeSet,
) -> Result<BTreeMap<Position, Vec<u64>>> {
    let first_published = parts.iter().find(|part| part.entries() > 0).map(|part| part.ledger_id);
    let mut partly = BTreeMap::new();
    for part in parts {
        // Sorted, so that what is refused first is always the same.
        let mut entries: Vec<i64> = part.ack_sets.keys().copied().collect();
        entries.sort_unstable();
        for entry_id in entries {
            let set = &part.ack_sets[&entry_id];
            let position = Position::new(part.ledger_id, entry_id);
            let size = match (
                set.greatest_cleared().filter(|_| set.is_endless()),
                part.size_of(entry_id),
            ) {
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
                (Some(index), None)
                    if first_published.is_none_or(|first| part.ledger_id < first) =>
                {
                    (index / 64 + 1) * 64
                }
                (Some(_), None) => {
                    return Err(Error::protocol_at(
                        position,
                        format!(
                            "acknowledgment of a part of {position}, but no event says how many messages it holds"
                        ),
                    ));
                }
            };
            let words = set.within(size);
            if words.is_empty() {
                acked.add(position.ledger_id, position.entry_id)?;
            } else {
                partly.insert(position, words);
            }
        }
    }
    Ok(partly)
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
