//! All sections of the compact form except the acknowledged entries. Numbers are in columns. A text or a byte string
//! follows its length.

use std::collections::BTreeMap;

use super::bits::{BitReader, BitWriter};
use super::column::Code;
use crate::ack_sets::AckSets;
use crate::error::Result;
use crate::position::Position;
use crate::position_info::budget::Budget;
use crate::position_info::messages::MAP_ENTRY_BYTES;
use crate::varint;

/// Returns two numbers for each position: the ledger id minus the previous ledger id, and the entry id. If the previous
/// position is in the same ledger, the second number is the entry id minus the previous entry id minus 1. The positions
/// must ascend.
fn position_numbers(
    positions: impl Iterator<Item = Position> + Clone,
) -> impl Iterator<Item = [u64; 2]> + Clone {
    let mut before: Option<Position> = None;
    positions.map(move |position| {
        let ledger = position.ledger_id.abs_diff(before.map_or(0, |before| before.ledger_id));
        let entry = match before {
            Some(before) if ledger == 0 => position.entry_id.abs_diff(before.entry_id + 1),
            _ => position.entry_id as u64,
        };
        before = Some(position);
        [ledger, entry]
    })
}

/// Returns the position that the two numbers encode. `before` is the previous position.
fn position_after(before: Option<Position>, numbers: [u64; 2]) -> Option<Position> {
    let [ledger, entry] = numbers;
    let ledger_id = before.map_or(0, |before| before.ledger_id).checked_add_unsigned(ledger)?;
    let first = match before {
        Some(before) if ledger == 0 => before.entry_id.checked_add(1)?,
        _ => 0,
    };
    Some(Position::new(ledger_id, first.checked_add_unsigned(entry)?))
}

/// Writes rows of numbers, row by row, with a code for each column.
fn put_rows<const N: usize>(
    bits: &mut BitWriter,
    count: usize,
    rows: impl Iterator<Item = [u64; N]> + Clone,
) {
    bits.put_varint(count as u64);
    let codes: [Code; N] =
        std::array::from_fn(|column| Code::cheapest(rows.clone().map(move |row| row[column])).0);
    codes.iter().for_each(|code| code.put_header(bits));
    for row in rows {
        codes.iter().zip(row).for_each(|(code, number)| code.put(bits, number));
    }
    bits.align();
}

/// Reads rows and calls `each` for every row. Each row spends `bytes` of the budget.
fn each_row<const N: usize>(
    bits: &mut BitReader<'_>,
    budget: &mut Budget,
    bytes: usize,
    mut each: impl FnMut(&BitReader<'_>, [u64; N]) -> Result<()>,
) -> Result<()> {
    let count = bits.take_varint()?;
    budget.spend(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(bytes))?;
    let mut codes = [None; N];
    for code in &mut codes {
        *code = Some(Code::take_header(bits)?);
    }
    let codes: [Code; N] = codes.map(|code| code.expect("each was read"));
    for _ in 0..count {
        let mut row = [0; N];
        for (number, code) in row.iter_mut().zip(&codes) {
            *number = code.take(bits)?;
        }
        each(bits, row)?;
    }
    bits.align()
}

/// Writes partly acknowledged entries: rows of positions and word counts, then all words as one column.
pub(super) fn put_batches(bits: &mut BitWriter, batches: &AckSets) {
    let rows = position_numbers(batches.iter().map(|(position, _)| position))
        .zip(batches.iter())
        .map(|([ledger, entry], (_, set))| [ledger, entry, set.word_count() as u64]);
    put_rows(bits, batches.len(), rows);
    let words = batches.iter().flat_map(|(_, set)| set.words());
    put_rows(bits, words.clone().count(), words.map(|word| [word.cast_unsigned()]));
}

/// Reads partly acknowledged entries.
pub(super) fn take_batches(bits: &mut BitReader<'_>, budget: &mut Budget) -> Result<AckSets> {
    let (mut positions, mut words) = (Vec::new(), Vec::new());
    let mut before = None;
    each_row(bits, budget, MAP_ENTRY_BYTES, |bits, [ledger, entry, length]| {
        let position = position_after(before, [ledger, entry])
            .ok_or_else(|| bits.refuse("a position of more than 63 bits"))?;
        before = Some(position);
        positions.push((position, length));
        Ok(())
    })?;
    each_row(bits, budget, size_of::<i64>(), |_, [word]| {
        words.push(word.cast_signed());
        Ok(())
    })?;
    let (mut batches, mut left) = (AckSets::default(), words.as_slice());
    for (position, length) in positions {
        let set = usize::try_from(length).ok().and_then(|length| left.split_at_checked(length));
        match set {
            Some((own, rest)) if own.last() != Some(&0) => {
                batches.insert(position, own);
                left = rest;
            }
            _ => return Err(bits.refuse("words are missing or end in zeros")),
        }
    }
    match left.is_empty() {
        true => Ok(batches),
        false => Err(bits.refuse("words of no position")),
    }
}

/// Writes redelivery counts.
pub(super) fn put_counts(bits: &mut BitWriter, counts: &BTreeMap<Position, i64>) {
    let rows = position_numbers(counts.keys().copied())
        .zip(counts.values())
        .map(|([ledger, entry], count)| [ledger, entry, count.cast_unsigned()]);
    put_rows(bits, counts.len(), rows);
}

/// Reads redelivery counts.
pub(super) fn take_counts(
    bits: &mut BitReader<'_>,
    budget: &mut Budget,
) -> Result<BTreeMap<Position, i64>> {
    let mut counts = BTreeMap::new();
    let mut before = None;
    each_row(bits, budget, MAP_ENTRY_BYTES, |bits, [ledger, entry, count]| {
        let position = position_after(before, [ledger, entry]);
        let (Some(position), Ok(count)) = (position, i64::try_from(count)) else {
            return Err(bits.refuse("a position or a count of more than 63 bits"));
        };
        before = Some(position);
        counts.insert(position, count);
        Ok(())
    })?;
    Ok(counts)
}

/// Writes ranges that begin in one ledger and end in a later one, in their order. Entry ids are written plus 1, because
/// they can be −1.
pub(super) fn put_spanning(bits: &mut BitWriter, ranges: &[(Position, Position)]) {
    let entry = |entry_id: i64| entry_id.wrapping_add(1).cast_unsigned();
    let rows: Vec<_> = ranges
        .iter()
        .map(|(lower, upper)| {
            let ledgers = upper.ledger_id.abs_diff(lower.ledger_id);
            [lower.ledger_id as u64, entry(lower.entry_id), ledgers, entry(upper.entry_id)]
        })
        .collect();
    put_rows(bits, ranges.len(), rows.iter().copied());
}

/// Reads ranges that begin in one ledger and end in a later one.
pub(super) fn take_spanning(
    bits: &mut BitReader<'_>,
    budget: &mut Budget,
) -> Result<Vec<(Position, Position)>> {
    let mut ranges = Vec::new();
    let bytes = size_of::<(Position, Position)>();
    each_row(bits, budget, bytes, |bits, [ledger, lower, ledgers, upper]| {
        let ids = i64::try_from(ledger).ok().and_then(|lower_ledger| {
            Some((lower_ledger, lower_ledger.checked_add_unsigned(ledgers)?))
        });
        let (
            Some((lower_ledger, upper_ledger)),
            1..,
            0..=0x8000_0000_0000_0000,
            0..=0x8000_0000_0000_0000,
        ) = (ids, ledgers, lower, upper)
        else {
            return Err(bits.refuse("a range that spans no ledgers"));
        };
        let entry = |number: u64| number.wrapping_sub(1).cast_signed();
        ranges.push((
            Position::new(lower_ledger, entry(lower)),
            Position::new(upper_ledger, entry(upper)),
        ));
        Ok(())
    })?;
    Ok(ranges)
}

/// Writes a length, then the bytes.
pub(super) fn put_bytes(bits: &mut BitWriter, bytes: &[u8]) {
    bits.put_varint(bytes.len() as u64);
    bits.put_bytes(bytes);
}

/// Reads a length, then the bytes.
pub(super) fn take_bytes<'a>(bits: &mut BitReader<'a>, budget: &mut Budget) -> Result<&'a [u8]> {
    let length = usize::try_from(bits.take_varint()?).unwrap_or(usize::MAX);
    let bytes = bits.take_bytes(length)?;
    budget.spend(length)?;
    Ok(bytes)
}

/// Writes an int64. Numbers near 0, positive or negative, take few bytes.
pub(super) fn put_int(bits: &mut BitWriter, value: i64) {
    bits.put_varint(varint::zigzag(value));
}

/// Reads an int64.
pub(super) fn take_int(bits: &mut BitReader<'_>) -> Result<i64> {
    bits.take_varint().map(varint::unzigzag)
}

/// Writes the client's properties in the order of their names.
pub(super) fn put_properties(bits: &mut BitWriter, properties: &BTreeMap<String, i64>) {
    bits.put_varint(properties.len() as u64);
    for (name, &value) in properties {
        put_bytes(bits, name.as_bytes());
        put_int(bits, value);
    }
}

/// Reads the client's properties.
pub(super) fn take_properties(
    bits: &mut BitReader<'_>,
    budget: &mut Budget,
) -> Result<BTreeMap<String, i64>> {
    let count = bits.take_varint()?;
    let mut properties = BTreeMap::new();
    for _ in 0..count {
        budget.spend(MAP_ENTRY_BYTES)?;
        let name = std::str::from_utf8(take_bytes(bits, budget)?)
            .map_err(|_| bits.refuse("a name that is not UTF-8"))?;
        properties.insert(name.to_owned(), take_int(bits)?);
    }
    Ok(properties)
}
