//! The encoding of a set for pickles, and for other exchange between processes that use the same version.
//!
//! The bytes are a version byte 1, and then numbers as LEB128. First comes the number of ledgers. For each ledger, in
//! order, two numbers and the entries follow. The first of the two numbers is the distance from the previous ledger id.
//! The second is twice the number of runs, plus 1 if the entries are written as words. The entries are written in one
//! of two ways:
//!
//! - as runs: for each run, the distance from the previous run, and its length;
//! - as words: the index of the first word, the number of words, and the words in eight little-endian bytes each.
//!
//! The durable forms of a cursor are in `position_info`.

use super::window::Window;
use super::{LedgerAcks, PositionRangeSet, Run, window};
use crate::error::{Error, Result};
use crate::varint;

const VERSION: u8 = 1;

impl PositionRangeSet {
    /// Encodes the set in the form that [`Self::from_bytes`] decodes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put(&mut bytes, self.ledgers.len() as u64);
        let mut next_ledger_id = 0;
        for (ledger_id, acks) in &self.ledgers {
            put(&mut bytes, ledger_id.abs_diff(next_ledger_id));
            next_ledger_id = *ledger_id;
            match acks {
                LedgerAcks::Window(window) => {
                    put(&mut bytes, acks.len() as u64 * 2 + 1);
                    write_words(&mut bytes, window);
                }
                _ => {
                    put(&mut bytes, acks.len() as u64 * 2);
                    let mut last = -1;
                    for run in acks.runs() {
                        put(&mut bytes, run.lower.abs_diff(last));
                        put(&mut bytes, run.len());
                        last = run.upper;
                    }
                }
            }
        }
        bytes
    }

    /// Decodes the bytes of [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] for any other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = BytesReader { bytes, at: 0 };
        let mut set = Self::new();
        match reader.take(1)? {
            [VERSION] => {}
            other => return Err(Error::corrupt(0, format!("version {}, expected 1", other[0]))),
        }
        let mut ledger_id = 0i64;
        for _ in 0..reader.number()? {
            ledger_id = reader.step(ledger_id)?;
            let form = reader.number()?;
            let mut acks = LedgerAcks::default();
            if form & 1 == 0 {
                let mut last = -1;
                for _ in 0..form / 2 {
                    let lower = reader.step(last)?;
                    last = reader.step(lower)?;
                    if lower < last {
                        acks.add_run(Run { lower, upper: last });
                    }
                }
            } else {
                let first_word = reader.number()?;
                let count = reader.number()?;
                let words = usize::try_from(count).ok().and_then(|count| count.checked_mul(8));
                if first_word.checked_add(count).is_none_or(|end| end > 1 << 57) {
                    return Err(reader.error("words past the last entry there can be"));
                }
                let words = reader.take(words.unwrap_or(usize::MAX))?;
                let words = words.chunks_exact(8).map(|word| {
                    u64::from_le_bytes(word.try_into().expect("chunks of eight bytes"))
                });
                for run in window::runs_from(first_word.cast_signed(), words) {
                    acks.add_run(run);
                }
            }
            if !acks.is_empty() {
                set.change(ledger_id, |mine| *mine = acks);
            }
        }
        if reader.at < bytes.len() {
            return Err(reader.error("bytes after the last ledger"));
        }
        Ok(set)
    }
}

fn write_words(bytes: &mut Vec<u8>, window: &Window) {
    let (first_word, words) = window.words();
    put(bytes, first_word.cast_unsigned());
    put(bytes, words.len() as u64);
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

#[inline]
fn put(bytes: &mut Vec<u8>, number: u64) {
    varint::write(number, |byte| bytes.push(byte));
}

struct BytesReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> BytesReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let taken = self.bytes[self.at..].get(..count).ok_or_else(|| self.error("cut short"))?;
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64> {
        varint::read(|| Ok(self.take(1)?[0]))?
            .ok_or_else(|| self.error("a number of more than 64 bits"))
    }

    /// Reads a distance and returns `from` plus the distance.
    fn step(&mut self, from: i64) -> Result<i64> {
        let distance = self.number()?;
        from.checked_add_unsigned(distance).ok_or_else(|| self.error("an id outside int64"))
    }

    fn error(&self, message: &str) -> Error {
        Error::corrupt(self.at, message)
    }
}
