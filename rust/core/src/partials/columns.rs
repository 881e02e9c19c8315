//! Cursors as columns in the layout of Arrow: the columns of the table `CURSORS`, with one row for each pair. A pair is
//! a (topic, subscription).

use std::io::Write;

use super::{Cursor, NULL, Partials};
use crate::error::Result;
use crate::position_info::ZstdCompressor;

/// Concatenated texts or byte strings. Text n is `bytes[offsets[n]..offsets[n + 1]]`.
#[derive(Debug, Clone)]
pub struct Texts {
    /// The start of each text, and the end of the last.
    pub offsets: Vec<i32>,
    /// The bytes of all texts.
    pub bytes: Vec<u8>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: vec![] }
    }
}

impl Texts {
    /// Adds a text.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.end();
    }

    /// Appends bytes to the last text. If all texts are empty, `bytes` is moved without a copy.
    fn append(&mut self, bytes: Vec<u8>) {
        append(&mut self.bytes, bytes);
    }

    fn end(&mut self) {
        self.offsets.push(self.bytes.len() as i32);
    }
}

/// Appends values to a column. If the column is empty, the vector is moved without a copy, because the values of one
/// subscription may take 100 MB.
fn append<T: Clone>(all: &mut Vec<T>, values: Vec<T>) {
    match all.is_empty() {
        true => *all = values,
        false => all.extend_from_slice(&values),
    }
}

/// The names of the integer columns. A row without a cursor has nulls.
pub const INTEGERS: [&str; 9] = [
    "mark_delete_ledger_id",
    "mark_delete_entry_id",
    "range_count",
    "individually_deleted_entries",
    "backlog_entries",
    "unacked_messages",
    "pulsar_ranges_bytes",
    "pulsar_long_array_bytes",
    "compact_bytes",
];

/// The columns of cursors. A row without a cursor has nulls and empty values.
#[derive(Debug)]
pub struct CursorColumns {
    /// The number of rows.
    pub rows: usize,
    /// The rows that have no cursor because of an invalid event: the index of each row, and the error.
    pub errors: Vec<(usize, String)>,
    /// The indexes of the rows whose subscription is deleted.
    pub deleted: Vec<usize>,
    /// The integer columns, in the order of [`INTEGERS`].
    pub integers: [Vec<i64>; INTEGERS.len()],
    /// The acknowledged ranges as Pulsar prints them.
    pub individually_deleted: Texts,
    /// The state in the smaller of the two forms that Pulsar writes.
    pub position_info: Texts,
    /// The state in the compact form of ackwell.
    pub compact: Texts,
    /// The sizes of batches, packed; see [`Cursor::packed_sizes`].
    pub batch_sizes: Texts,
    /// The index of the first ack set of each row, and the end of the last row's ack sets.
    pub batch_offsets: Vec<i32>,
    /// The position of each ack set, as Pulsar prints it.
    pub batch_keys: Texts,
    /// The index of the first word of each ack set, and the end of the last set's words.
    pub word_offsets: Vec<i32>,
    /// The words of all ack sets.
    pub words: Vec<i64>,
    /// The number of acknowledged messages of each ack set; see [`Cursor::acked_in_batches`].
    pub batch_acked: Vec<i64>,
    /// The index of the first ledger of each row, and the end of the last row's ledgers.
    pub ledger_offsets: Vec<i32>,
    /// The id of each ledger.
    pub ledger_ids: Vec<i64>,
    /// The number of entries of each ledger.
    pub entries: Vec<i64>,
    zstd: ZstdCompressor,
}

impl Default for CursorColumns {
    fn default() -> Self {
        Self {
            rows: 0,
            errors: vec![],
            deleted: vec![],
            integers: Default::default(),
            individually_deleted: Texts::default(),
            position_info: Texts::default(),
            compact: Texts::default(),
            batch_sizes: Texts::default(),
            batch_offsets: vec![0],
            batch_keys: Texts::default(),
            word_offsets: vec![0],
            words: vec![],
            batch_acked: vec![],
            ledger_offsets: vec![0],
            ledger_ids: vec![],
            entries: vec![],
            zstd: ZstdCompressor::default(),
        }
    }
}

impl CursorColumns {
    /// Appends the cursor of a pair as one row. If `batch_index_acks` is false, acknowledgments of parts of batches are
    /// ignored.
    pub fn push(&mut self, partials: &Partials, pair: u32, batch_index_acks: bool) {
        if partials.is_deleted(pair) {
            self.deleted.push(self.rows);
            self.put_empty();
        } else {
            let found = partials.cursor(pair, batch_index_acks);
            if let Err(error) = found.and_then(|cursor| self.put(cursor)) {
                self.errors.push((self.rows, error.to_string()));
                self.put_empty();
            }
        }
        self.rows += 1;
        self.individually_deleted.end();
        self.position_info.end();
        self.compact.end();
        self.batch_sizes.end();
        self.batch_offsets.push(self.batch_acked.len() as i32);
        self.ledger_offsets.push(self.ledger_ids.len() as i32);
    }

    fn put(&mut self, cursor: Cursor) -> Result<()> {
        let info = &cursor.info;
        let compact = info.encode_compact(&mut self.zstd)?;
        let compact_bytes = compact.len() as i64;
        self.compact.append(compact);
        let (ranges_bytes, long_array_bytes) = info.put_smaller(&mut self.position_info.bytes);
        let deleted = &info.individually_deleted;
        let integers = [
            info.mark_delete.ledger_id,
            info.mark_delete.entry_id,
            deleted.len() as i64,
            i64::try_from(deleted.cardinality()).unwrap_or(i64::MAX),
            cursor.backlog_entries(),
            cursor.unacked_messages(),
            ranges_bytes as i64,
            long_array_bytes.map_or(NULL, |bytes| bytes as i64),
            compact_bytes,
        ];
        for (column, value) in self.integers.iter_mut().zip(integers) {
            column.push(value);
        }
        write!(self.individually_deleted.bytes, "{deleted}").expect("a vector takes all");
        if let Some(packed) = cursor.packed_sizes() {
            self.batch_sizes.append(packed);
        }
        self.batch_acked.extend(cursor.acked_in_batches());
        for (position, set) in info.batch_deleted.iter() {
            let keys = &mut self.batch_keys;
            put_decimal(&mut keys.bytes, position.ledger_id);
            keys.bytes.push(b':');
            put_decimal(&mut keys.bytes, position.entry_id);
            keys.end();
            self.words.extend(set.words());
            self.word_offsets.push(self.words.len() as i32);
        }
        for (ledger_id, entries) in cursor.ledgers.iter() {
            self.ledger_ids.push(ledger_id);
            self.entries.push(entries);
        }
        Ok(())
    }

    fn put_empty(&mut self) {
        for column in &mut self.integers {
            column.push(NULL);
        }
    }

    /// Returns the approximate size of all columns in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let texts =
            [&self.individually_deleted, &self.position_info, &self.compact, &self.batch_sizes];
        let texts: usize = texts.iter().map(|texts| texts.bytes.len()).sum();
        texts
            + self.batch_keys.bytes.len()
            + 8 * (self.words.len() + self.batch_acked.len())
            + 16 * self.ledger_ids.len()
            + 100 * self.rows
    }
}

/// Appends a number, which is at least 0, in decimal digits. This takes a tenth of the time of `format!`.
fn put_decimal(out: &mut Vec<u8>, number: i64) {
    let mut digits = [0; 20];
    let (mut start, mut rest) = (digits.len(), number.cast_unsigned());
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}
