//! The encoding of partials. Each subscription has one byte string for each of its ledgers, and one for the values that
//! do not belong to a ledger.
//!
//! ```text
//! magic "AKPT" · version 2 · flags · seek · order · settings · flaw · deleted · trimmed · ledger · CRC-32 of the rest
//! seek      file, sequence, ledger id, entry id
//! order     file and sequence of the first acknowledgment, file and sequence of the last
//! settings  file, sequence, JSON text
//! flaw      file, sequence + 1 (0: no sequence), number of the flaw
//! deleted   file, sequence
//! trimmed   the least ledger id that is not deleted
//! ledger    number of entries, last cumulatively acknowledged entry + 2 (0: none), acknowledged entries, batch sizes,
//!           ack sets
//! ```
//!
//! Each field after the flags is present if its flag is set. Numbers are varints. A text follows its length. A pair is
//! a (topic, subscription). Acknowledged entries are ranges, or words of 64 bits if these are shorter.

use super::batches::{Batch, Batches, UnackedIndexes};
use super::joining::Part;
use super::{Flaw, Ledger, NULL, Order, Pair, Partials};
use crate::error::{Error, Result};
use crate::frame::{FrameReader, FrameWriter};
use crate::position::Position;
use crate::range_set::EntrySet;

const MAGIC: [u8; 4] = *b"AKPT";

/// The version of the encoding. Only this version can be read.
pub const VERSION: u8 = 2;

const SEEK: u8 = 1;
const ORDER: u8 = 2;
const SETTINGS: u8 = 4;
const FLAW: u8 = 8;
const DELETED: u8 = 16;
const TRIMMED: u8 = 32;
const LEDGER: u8 = 64;

const NOTHING: u8 = 0;
const RANGES: u8 = 1;
const WORDS: u8 = 2;

impl Partials {
    /// Returns the encoded state of a pair as parts, one for each ledger. A part is the id of the ledger and the
    /// encoded bytes. If the pair has values that do not belong to a ledger, or if it has no ledgers, the first part
    /// has no id.
    pub fn encode(&self, pair: u32) -> Vec<(Option<i64>, Vec<u8>)> {
        let known = &self.pairs[pair as usize];
        let mut ledgers: Vec<&Ledger> =
            known.ledgers.iter().map(|ledger| &self.ledgers[*ledger as usize]).collect();
        ledgers.sort_unstable_by_key(|ledger| ledger.ledger_id);
        let mut states = Vec::with_capacity(ledgers.len() + 1);
        let more = known.rare.settings.is_some()
            || known.rare.flaw.is_some()
            || known.rare.deleted.is_some();
        if more || known.rare.trimmed_before > 0 || ledgers.is_empty() {
            states.push((None, self.encode_part(known, None)));
        }
        for ledger in ledgers {
            states.push((Some(ledger.ledger_id), self.encode_part(known, Some(ledger))));
        }
        states
    }

    /// Merges one part of a pair's encoded state into this object. `ledger_id` and `state` are one part from
    /// [`Self::encode`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] for invalid bytes, [`Error::NewerVersion`] for bytes of a newer release. Nothing is changed
    /// then.
    pub fn merge(&mut self, pair: u32, ledger_id: Option<i64>, state: &[u8]) -> Result<()> {
        let part = self.decode(ledger_id, state)?;
        self.join(pair, part);
        Ok(())
    }

    fn encode_part(&self, pair: &Pair, ledger: Option<&Ledger>) -> Vec<u8> {
        let mut out = FrameWriter::new(MAGIC, VERSION);
        let whole = ledger.is_none();
        let flags = [
            (pair.rare.seek.is_some(), SEEK),
            (pair.acked.is_some(), ORDER),
            (whole && pair.rare.settings.is_some(), SETTINGS),
            (whole && pair.rare.flaw.is_some(), FLAW),
            (whole && pair.rare.deleted.is_some(), DELETED),
            (whole && pair.rare.trimmed_before > 0, TRIMMED),
            (!whole, LEDGER),
        ];
        out.byte(flags.iter().filter(|flag| flag.0).fold(0, |all, flag| all | flag.1));
        if let Some((order, position)) = pair.rare.seek {
            self.put_order(&mut out, order);
            out.varint(position.ledger_id.cast_unsigned());
            out.varint(position.entry_id.cast_unsigned());
        }
        if let Some((first, last)) = pair.acked {
            self.put_order(&mut out, first);
            self.put_order(&mut out, last);
        }
        if let (true, Some((order, detail))) = (whole, &pair.rare.settings) {
            self.put_order(&mut out, *order);
            put_text(&mut out, detail);
        }
        if let (true, Some((order, flaw))) = (whole, pair.rare.flaw) {
            self.put_order(&mut out, order);
            out.byte(flaw as u8);
        }
        if let (true, Some(order)) = (whole, pair.rare.deleted) {
            self.put_order(&mut out, order);
        }
        if whole && pair.rare.trimmed_before > 0 {
            out.varint(pair.rare.trimmed_before.cast_unsigned());
        }
        if let Some(ledger) = ledger {
            out.varint(ledger.entries.cast_unsigned());
            out.varint(ledger.up_to.map_or(0, |entry_id| entry_id.cast_unsigned().wrapping_add(2)));
            put_entries(&mut out, &ledger.acked);
            put_batches(&mut out, &ledger.batches);
        }
        out.finish()
    }

    fn put_order(&self, out: &mut FrameWriter, order: Order) {
        put_text(out, self.file_name(order.file));
        out.varint(match order.sequence {
            NULL => 0,
            sequence => sequence.cast_unsigned().wrapping_add(1),
        });
    }

    fn decode(&mut self, ledger_id: Option<i64>, state: &[u8]) -> Result<Part> {
        refuse_other_versions(state)?;
        let mut reader = FrameReader::open(state, MAGIC, VERSION, "partial")?;
        let flags = reader.byte()?;
        let has = |flag| flags & flag != 0;
        if has(!(SEEK | ORDER | SETTINGS | FLAW | DELETED | TRIMMED | LEDGER))
            || has(LEDGER) != ledger_id.is_some()
        {
            return Err(reader.refuse(format!("flags {flags:#b} of ledger {ledger_id:?}")));
        }
        let mut part = Part::default();
        if has(SEEK) {
            let order = self.take_order(&mut reader)?;
            part.seek = Some((order, Position::new(reader.natural()?, reader.natural()?)));
        }
        if has(ORDER) {
            part.acked = Some((self.take_order(&mut reader)?, self.take_order(&mut reader)?));
        }
        if has(SETTINGS) {
            part.settings = Some((self.take_order(&mut reader)?, take_text(&mut reader)?));
        }
        if has(FLAW) {
            let order = self.take_order(&mut reader)?;
            let code = reader.byte()?;
            let flaw = Flaw::numbered(code);
            let flaw = flaw.ok_or_else(|| reader.refuse(format!("flaw {code}")))?;
            part.flaw = Some((order, flaw));
        }
        if has(DELETED) {
            part.deleted = Some(self.take_order(&mut reader)?);
        }
        if has(TRIMMED) {
            part.trimmed_before = reader.natural()?;
        }
        if let Some(ledger_id) = ledger_id {
            let entries = reader.natural()?;
            let up_to = match reader.varint()? {
                0 => None,
                more => Some(i64::try_from(more - 1).map_err(|_| reader.refuse("no entry"))? - 1),
            };
            let acked = take_entries(&mut reader)?;
            let batches = take_batches(&mut reader, self.batch_size_max)?;
            part.ledgers = vec![Ledger { ledger_id, entries, up_to, acked, batches }];
        }
        reader.end()?;
        Ok(part)
    }

    fn take_order(&mut self, reader: &mut FrameReader<'_>) -> Result<Order> {
        let file = self.file(&take_text(reader)?);
        let sequence = match reader.varint()? {
            0 => NULL,
            more => i64::try_from(more - 1).map_err(|_| reader.refuse("no sequence"))?,
        };
        Ok(Order { file, sequence })
    }
}

/// Returns [`Error::NewerVersion`] for bytes of a newer version that are not damaged: the checksum at their end is
/// right.
fn refuse_other_versions(state: &[u8]) -> Result<()> {
    let Some((body, checksum)) = state.split_last_chunk::<4>() else { return Ok(()) };
    let version = state.get(4).copied().unwrap_or(VERSION);
    let is_whole = crc32fast::hash(body) == u32::from_le_bytes(*checksum);
    if !state.starts_with(&MAGIC) || version <= VERSION || !is_whole {
        return Ok(());
    }
    Err(Error::NewerVersion {
        offset: 4,
        message: format!("a partial of version {version}, newer than {VERSION}; update ackwell"),
    })
}

fn put_text(out: &mut FrameWriter, text: &str) {
    out.block(text.len(), |bytes| bytes.extend_from_slice(text.as_bytes()));
}

fn take_text(reader: &mut FrameReader<'_>) -> Result<String> {
    let bytes = reader.block()?;
    String::from_utf8(bytes.to_vec()).map_err(|_| reader.refuse("not UTF-8"))
}

fn put_entries(out: &mut FrameWriter, entries: &EntrySet) {
    let mut ranges = entries.ranges();
    let (Some((lower, _)), Some(last)) = (ranges.next(), entries.last_entry()) else {
        return out.byte(NOTHING);
    };
    let first_word = (lower + 1) / 64;
    let words = (last / 64 - first_word + 1) as usize;
    // A range takes at least two bytes.
    if words.saturating_mul(4) <= entries.len() {
        let mut bits = vec![0; words];
        entries.write_words(first_word, &mut bits);
        out.byte(WORDS);
        out.varint(first_word.cast_unsigned());
        out.varint(words as u64);
        return out.words(&bits);
    }
    out.byte(RANGES);
    out.varint(entries.len() as u64);
    let mut end = -1;
    for (lower, upper) in entries.ranges() {
        out.varint((lower - end).cast_unsigned());
        out.varint(upper.wrapping_sub(lower).cast_unsigned());
        end = upper;
    }
}

fn take_entries(reader: &mut FrameReader<'_>) -> Result<EntrySet> {
    let mut entries = EntrySet::default();
    match reader.byte()? {
        NOTHING => {}
        RANGES => {
            let mut end = -1i64;
            for _ in 0..reader.count(2)? {
                let lower = reader.varint()?;
                let length = reader.varint()?;
                let lower = end.checked_add_unsigned(lower);
                let upper = lower.and_then(|lower| lower.checked_add_unsigned(length));
                match (lower, upper) {
                    (Some(lower), Some(upper)) if lower < upper => {
                        entries.add_range(lower, upper);
                        end = upper;
                    }
                    _ => return Err(reader.refuse("a range outside int64, or an empty one")),
                }
            }
        }
        WORDS => {
            let first_word = reader.natural()?;
            let count = reader.count(8)?;
            if first_word.saturating_add(count as i64) > 1 << 57 {
                return Err(reader.refuse("a word outside int64"));
            }
            entries.add_words(first_word, &reader.words(count)?);
        }
        other => return Err(reader.refuse(format!("entries in form {other}"))),
    }
    Ok(entries)
}

fn put_batches(out: &mut FrameWriter, batches: &Batches) {
    let sizes = batches.sorted().filter_map(|batch| Some((batch.entry_id, batch.size?)));
    out.varint(sizes.clone().count() as u64);
    let mut before = 0;
    for (entry_id, size) in sizes {
        out.varint((entry_id - before).cast_unsigned());
        out.varint(size.cast_unsigned());
        before = entry_id;
    }
    let sets = batches.sorted().filter_map(|batch| Some((batch.entry_id, batch.left?)));
    out.varint(sets.clone().count() as u64);
    before = 0;
    for (entry_id, left) in sets {
        out.varint((entry_id - before).cast_unsigned());
        out.byte(u8::from(left.is_endless));
        out.varint(left.words().len() as u64);
        out.words(left.words());
        before = entry_id;
    }
}

fn take_batches(reader: &mut FrameReader<'_>, max: i64) -> Result<Batches> {
    let mut batches = Batches::default();
    let mut entry_id = 0;
    for _ in 0..reader.count(2)? {
        entry_id = take_entry(reader, entry_id)?;
        let size = reader.natural()?;
        if size > max {
            return Err(reader.refuse(format!("a batch of {size} messages; at most {max}")));
        }
        batches.note_size(entry_id, size);
    }
    entry_id = 0;
    for _ in 0..reader.count(3)? {
        entry_id = take_entry(reader, entry_id)?;
        let is_endless = reader.byte()? != 0;
        let count = reader.count(8)?;
        let words = reader.words(count)?;
        let left = Some(UnackedIndexes::new(&words, is_endless));
        batches.join(Batch { entry_id, size: None, left });
    }
    Ok(batches)
}

fn take_entry(reader: &mut FrameReader<'_>, before: i64) -> Result<i64> {
    let entry_id = before.checked_add_unsigned(reader.varint()?);
    entry_id.ok_or_else(|| reader.refuse("an entry outside int64"))
}
