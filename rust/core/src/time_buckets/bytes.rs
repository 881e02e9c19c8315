//! The encoding of `TimeBuckets` as bytes.
//!
//! ```text
//! "AKTB" · version 1 · bits u8 · rounding u8 (0 down, 1 up, 2 bucket end) · varint bucket count · buckets · CRC-32
//! bucket   varint: the zigzag of the first key, then the difference from the previous key
//!          varint number of ledgers · ledgers
//! ledger   varint: the first id, then the difference from the previous id · kind u8 · entry ids of this kind:
//!          0  one range: varint first id, varint last id - first id
//!          1  varint length in bytes, portable 32-bit roaring bitmap
//!          2  varint length in bytes, portable 64-bit roaring bitmap
//! CRC-32   of all previous bytes, little-endian
//! ```

use super::{Entries, Error, Result, Rounding, TimeBuckets, insert};
use crate::delayed::RESTORED_MAX;
use crate::error::LimitReached;
use crate::frame::{FrameReader, FrameWriter};

const MAGIC: [u8; 4] = *b"AKTB";
const VERSION: u8 = 1;

impl TimeBuckets {
    /// Encodes the index for [`TimeBuckets::from_bytes`].
    pub fn to_bytes(&mut self) -> Vec<u8> {
        self.close_run();
        let mut out = FrameWriter::new(MAGIC, VERSION);
        out.byte(self.bits as u8);
        out.byte(self.rounding as u8);
        out.varint(self.buckets.len() as u64);
        let mut before: Option<i64> = None;
        let sets = self.buckets.values_mut().flatten();
        sets.for_each(|held| held.entries.optimize());
        for (bucket, ledgers) in &self.buckets {
            let key = self.key_of(*bucket);
            match before {
                None => out.zigzag(key),
                Some(before) => out.varint(key.wrapping_sub(before) as u64),
            }
            before = Some(key);
            out.varint(ledgers.len() as u64);
            let mut before = 0;
            for held in ledgers {
                out.varint((held.ledger - before) as u64);
                before = held.ledger;
                if let Entries::Range(first, last) = held.entries {
                    out.byte(0);
                    out.varint(first);
                    out.varint(last - first);
                } else {
                    let (bytes, wide) = held.entries.to_roaring();
                    out.byte(if wide { 2 } else { 1 });
                    out.block(bytes.len(), |into| into.extend_from_slice(&bytes));
                }
            }
        }
        out.finish()
    }

    /// Decodes the bytes of [`TimeBuckets::to_bytes`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the offset; [`Error::Limit`] for more than 2^32 messages.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut input = FrameReader::open(bytes, MAGIC, VERSION, "TimeBuckets")?;
        let bits = u32::from(input.byte()?);
        let rounding = match input.byte()? {
            0 => Rounding::Down,
            1 => Rounding::Up,
            2 => Rounding::BucketEnd,
            other => return Err(input.refuse(format!("rounding {other}"))),
        };
        let mut index =
            Self::new(bits, rounding).map_err(|error| input.refuse(error.to_string()))?;
        let (mut key, mut length) = (0i64, 0u64);
        for place in 0..input.count(5)? {
            key = match place {
                0 => input.zigzag()?,
                _ => match input.varint()? {
                    0 => None,
                    step => key.checked_add_unsigned(step),
                }
                .ok_or_else(|| input.refuse("buckets do not ascend"))?,
            };
            let bucket =
                index.bucket_from_key(key).ok_or_else(|| input.refuse("no such bucket"))?;
            let mut ledgers = Vec::new();
            let mut ledger = 0i64;
            for place in 0..input.count(4)? {
                let step = input.natural()?;
                ledger = ledger
                    .checked_add(step)
                    .filter(|_| place == 0 || step > 0)
                    .ok_or_else(|| input.refuse("ledgers do not ascend"))?;
                let entries = read_entries(&mut input)?;
                length += entries.len();
                if length > RESTORED_MAX {
                    return Err(Error::Limit(LimitReached::RestoredMessages { max: RESTORED_MAX }));
                }
                let at = ledgers.len();
                insert(&mut ledgers, at, ledger, entries);
            }
            if ledgers.is_empty() {
                return Err(input.refuse("a bucket without messages"));
            }
            index.buckets.insert(bucket, ledgers);
        }
        input.end()?;
        index.length = length as usize;
        Ok(index)
    }

    /// Returns the key that identifies a bucket in the encoding: its time divided by `2^bits`, rounded down. With
    /// [`Rounding::Up`], there can also be a bucket `i64::MAX`, whose time is not a multiple of `2^bits`. Its key is
    /// one more than the key of the greatest multiple.
    fn key_of(&self, bucket: i64) -> i64 {
        let saturated = bucket == i64::MAX && self.saturates();
        (bucket >> self.bits) + i64::from(saturated)
    }

    fn saturates(&self) -> bool {
        self.bits > 0 && self.rounding == Rounding::Up
    }

    fn bucket_from_key(&self, key: i64) -> Option<i64> {
        let (least, greatest) = (i64::MIN >> self.bits, i64::MAX >> self.bits);
        if (least..=greatest).contains(&key) {
            return Some(self.bucket_of(key << self.bits));
        }
        (self.saturates() && key == greatest + 1).then_some(i64::MAX)
    }
}

fn read_entries(input: &mut FrameReader<'_>) -> Result<Entries> {
    match input.byte()? {
        0 => {
            let first = input.natural()?;
            let last = first.checked_add(input.natural()?);
            let last = last.ok_or_else(|| input.refuse("a range past int64"))?;
            Ok(Entries::Range(first as u64, last as u64))
        }
        kind @ (1 | 2) => {
            let bytes = input.block()?;
            Entries::from_roaring(bytes, kind == 2).ok_or_else(|| input.refuse("no roaring bitmap"))
        }
        kind => Err(input.refuse(format!("entries of kind {kind}"))),
    }
}
