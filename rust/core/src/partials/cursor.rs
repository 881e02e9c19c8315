//! The computation of a subscription's cursor from its partial (the folded effect of its events), by the mark-delete
//! rule. A pair is a (topic, subscription).

use std::cmp::Ordering;
use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::{Batch, Ledger, Pair, Partials, TOPIC};
use crate::ack_sets::{AckSet, AckSets};
use crate::error::{Error, Result};
use crate::ledgers::Ledgers;
use crate::position::Position;
use crate::position_info::PositionInfo;
use crate::range_set::PositionRangeSet;

/// Consecutive entries of one ledger whose batches have the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeRun {
    /// The ledger.
    pub ledger_id: i64,
    /// The first entry.
    pub first_entry_id: i64,
    /// The number of entries.
    pub count: i64,
    /// The number of messages of each entry.
    pub size: i64,
}

impl SizeRun {
    /// Returns the entry id after the last entry.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.first_entry_id.saturating_add(self.count)
    }

    fn contains(&self, Position { ledger_id, entry_id }: Position) -> bool {
        self.ledger_id == ledger_id && (self.first_entry_id..self.end()).contains(&entry_id)
    }

    /// Returns whether all entries of the run are before a position.
    fn is_before(&self, position: Position) -> bool {
        Position::new(self.ledger_id, self.end() - 1) < position
    }
}

/// The cursor of a subscription after all its events.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// The cursor state that a broker persists.
    pub info: PositionInfo,
    /// The topic's ledgers.
    pub ledgers: Ledgers,
    /// The sizes of all batches, as runs of entries with the same size, in order of position.
    pub sizes: Vec<SizeRun>,
}

impl Cursor {
    /// Returns the number of entries that are not acknowledged as a whole.
    #[must_use]
    pub fn backlog_entries(&self) -> i64 {
        let mark_delete = self.info.mark_delete;
        let last = self.ledgers.last_position().unwrap_or(mark_delete);
        let beyond = self.ledgers.entries_between(mark_delete, last);
        beyond - self.info.individually_deleted.cardinality() as i64
    }

    /// Returns the number of unacknowledged messages. An entry that is not a batch counts as one message.
    #[must_use]
    pub fn unacked_messages(&self) -> i64 {
        let partly = self.info.batch_deleted.iter();
        let mut left = self.backlog_entries();
        left += partly.clone().map(|(_, set)| ones(set) - 1).sum::<i64>();
        let mut partly = partly.map(|(position, _)| position).peekable();
        let mut acked = self.info.individually_deleted.ranges().peekable();
        for run in self.sizes_beyond() {
            let (ledger_id, first) = (run.ledger_id, run.first_entry_id);
            let end = run.end().min(self.ledgers.entries(ledger_id).unwrap_or(0)).max(first);
            // Skip the ack sets before the run. They belong to batches of unknown size, which are in no run.
            while partly.next_if(|at| *at < Position::new(ledger_id, first)).is_some() {}
            let mut open = end - first;
            while partly.next_if(|at| *at < Position::new(ledger_id, end)).is_some() {
                open -= 1;
            }
            while let Some(range) = acked.peek().copied() {
                let upper = range.upper_entry_inclusive;
                if range.ledger_id == ledger_id {
                    let lower = range.lower_entry_exclusive.max(first - 1);
                    open -= (upper.min(end - 1) - lower).max(0);
                }
                // A range that reaches the end of the run may continue in the next run, so it is not consumed.
                if (range.ledger_id, upper) >= (ledger_id, end) {
                    break;
                }
                acked.next();
            }
            left += (run.size - 1) * open;
        }
        left
    }

    /// Returns the sizes of the batches after the mark-delete position as four columns of little-endian int64,
    /// compressed with zlib. The columns are ledger id, first entry id, number of consecutive entries, and their batch
    /// size. `None` without batches.
    #[must_use]
    pub fn packed_sizes(&self) -> Option<Vec<u8>> {
        let runs = self.sizes_beyond();
        runs.clone().next()?;
        let columns: [fn(SizeRun) -> i64; 4] =
            [|run| run.ledger_id, |run| run.first_entry_id, |run| run.count, |run| run.size];
        let bytes = columns.iter().flat_map(|column| runs.clone().map(column));
        let bytes: Vec<u8> = bytes.flat_map(i64::to_le_bytes).collect();
        Some(zlib(&bytes))
    }

    /// Returns, for each batch with an ack set, the number of its acknowledged messages. If only a lower bound n is
    /// known, the value is -n - 1 (-4 means at least 3). Only a lower bound is known if the batch size is unknown, or
    /// is not greater than the last batch index in the ack set.
    pub fn acked_in_batches(&self) -> impl Iterator<Item = i64> + '_ {
        let mut sizes = self.sizes_beyond().peekable();
        self.info.batch_deleted.iter().map(move |(position, set)| {
            while sizes.next_if(|run| run.is_before(position)).is_some() {}
            let size = sizes.peek().filter(|run| run.contains(position)).map_or(1, |run| run.size);
            let last_left = set.last_message();
            match size > last_left.max(1) {
                true => size - ones(set),
                false => -(last_left + 1 - ones(set)).max(1) - 1,
            }
        })
    }

    /// Returns the sizes of the batches after the mark-delete position.
    pub fn sizes_beyond(&self) -> impl Iterator<Item = SizeRun> + Clone + '_ {
        let Position { ledger_id, entry_id } = self.info.mark_delete;
        let start = self.sizes.partition_point(|run| run.is_before(self.info.mark_delete));
        self.sizes[start..].iter().filter_map(move |run| {
            let cut = match run.ledger_id == ledger_id {
                true => (entry_id + 1 - run.first_entry_id).clamp(0, run.count),
                false => 0,
            };
            let first_entry_id = run.first_entry_id + cut;
            (cut < run.count).then_some(SizeRun { first_entry_id, count: run.count - cut, ..*run })
        })
    }
}

/// The maximum number of bytes that are written to the zlib stream without compression. Creating an encoder takes
/// longer than all other work for a cursor, so it is avoided for short inputs.
const STORED_MAX: usize = 256;

fn zlib(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() > STORED_MAX {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(bytes).expect("a vector takes all");
        return packed.finish().expect("a vector takes all");
    }
    // RFC 1950 and 1951: one final stored block, then Adler-32.
    let length = bytes.len() as u16;
    let (low, high) = bytes.iter().fold((1_u32, 0_u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65_521;
        (low, (high + low) % 65_521)
    });
    let mut stored = vec![0x78, 0x01, 0x01];
    stored.extend(length.to_le_bytes());
    stored.extend((!length).to_le_bytes());
    stored.extend_from_slice(bytes);
    stored.extend((high << 16 | low).to_be_bytes());
    stored
}

fn ones(set: AckSet<'_>) -> i64 {
    set.message_count() as i64
}

impl Partials {
    /// Returns the cursor of a pair. If `batch_index_acks` is false, acknowledgments of parts of a batch are ignored,
    /// as by a broker with `acknowledgmentAtBatchIndexLevelEnabled=false`.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a flaw, for an acknowledgment of an entry that was never published, and for batch
    /// indexes outside their batch or in a batch of unknown size; [`Error::Limit`] for more entries than int64 can
    /// count.
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
        let mut ledgers = match &known.rare.directory {
            Some(directory) => directory.clone(),
            None => ledgers_of(&parts)?,
        };
        let trimmed_before =
            known.rare.trimmed_before.max(topic.map_or(0, |topic| topic.rare.trimmed_before));
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
        let (mut partly, sizes) = batches_of(&parts, &mut acked)?;

        let mut mark_delete = ledgers.first_position().unwrap_or(Position::new(0, -1));
        if let Some((_, position)) = known.rare.seek {
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
            let is_open = |position: Position| {
                position > mark_delete && !acked.contains(position.ledger_id, position.entry_id)
            };
            partly.retain(|position, _| is_open(position));
            info.batch_deleted = partly;
        }
        info.individually_deleted = acked;
        Ok(Cursor { info, sizes, ledgers })
    }

    /// Returns the ledgers of a pair and of its topic, in order of id. If both have a ledger with the same id, one
    /// [`Part`] contains the data of both.
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

/// One ledger: the data of the subscription and the data of its topic.
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

    /// Returns the batches in order of entry id. The size of a batch is the larger of the two sizes that the
    /// subscription and the topic have.
    fn batches(&self) -> impl Iterator<Item = Batch<'a>> + use<'a> {
        let mut own = self.own.batches.sorted().peekable();
        let topic = self.topic.into_iter().flat_map(|topic| topic.batches.sorted());
        let mut told = topic.map(|batch| Batch { left: None, ..batch }).peekable();
        std::iter::from_fn(move || {
            let order = match (own.peek(), told.peek()) {
                (Some(own), Some(told)) => own.entry_id.cmp(&told.entry_id),
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
            };
            match order {
                Ordering::Less => own.next(),
                Ordering::Greater => told.next(),
                Ordering::Equal => own
                    .next()
                    .zip(told.next())
                    .map(|(own, told)| Batch { size: own.size.max(told.size), ..own }),
            }
        })
    }
}

/// Returns the ledgers that appear in the events. The ledger with the greatest id is open.
///
/// A topic can already have entries when its recording begins. So acknowledged entries count as existing if their
/// ledger is before the first ledger with a published entry.
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

/// Checks that every acknowledged position is an existing entry. The error contains an acknowledged position that does
/// not exist, in the first ledger with such a position.
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

/// Returns the entries with an ack set, in an undefined order.
fn partly_acked(part: &Ledger) -> impl Iterator<Item = i64> + '_ {
    part.batches.iter().filter(|batch| batch.left.is_some()).map(|batch| batch.entry_id)
}

/// Returns the ack sets of partly acknowledged entries, and the sizes of all batches. An entry whose ack set has no
/// unacknowledged message is added to `acked` instead.
fn batches_of(parts: &[Part<'_>], acked: &mut PositionRangeSet) -> Result<(AckSets, Vec<SizeRun>)> {
    let first_published = parts.iter().find(|part| part.entries() > 0).map(|part| part.ledger_id);
    let (mut partly, mut sizes) = (AckSets::default(), Vec::new());
    let mut words = Vec::new();
    for part in parts {
        let is_published = first_published.is_some_and(|first| part.ledger_id >= first);
        for batch in part.batches() {
            let position = Position::new(part.ledger_id, batch.entry_id);
            if let Some(size) = batch.size {
                put_size(&mut sizes, position, size);
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
                // The entry was published before the recording began. The size of its batch is unknown, so the set is
                // extended to whole words.
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
                partly.insert(position, &words);
            }
        }
    }
    Ok((partly, sizes))
}

/// Appends the batch size of an entry to `sizes`. The entry must be after all entries in `sizes`.
fn put_size(sizes: &mut Vec<SizeRun>, Position { ledger_id, entry_id }: Position, size: i64) {
    match sizes.last_mut() {
        Some(run) if run.ledger_id == ledger_id && run.end() == entry_id && run.size == size => {
            run.count += 1;
        }
        _ => sizes.push(SizeRun { ledger_id, first_entry_id: entry_id, count: 1, size }),
    }
}

/// Advances the mark-delete position over the acknowledged ranges that directly follow it, across ledgers.
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
