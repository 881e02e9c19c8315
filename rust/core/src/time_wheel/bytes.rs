//! `TimeWheel` as bytes.
//!
//! ```text
//! "AKTW" · version 1 · varint tick_ms
//! slots    varint number of slots, then each slot:
//!          zigzag first tick · bits u8 · varint number of messages in the stream ·
//!          varint number of bits of the stream · the words of the stream, little-endian ·
//!          varint number of late messages · the late messages, ascending, each as
//!          varint ledger · varint entry · varint tick in the slot
//! CRC-32   of all bytes before it, little-endian
//! ```
//!
//! The stream has the same bits as in memory (see `stream.rs`). Saving copies these bits. Restoring copies them too,
//! and decodes them once to check them.

use super::bits::Bits;
use super::slot::{Message, Slot};
use super::stream::Stream;
use super::{Error, Result, TimeWheel, last, low_bits};
use crate::delayed::RESTORED_MAX;
use crate::error::LimitReached;
use crate::frame::{FrameReader, FrameWriter};

const MAGIC: [u8; 4] = *b"AKTW";
const VERSION: u8 = 1;
/// A slot is at most 2^`BITS_MAX` ticks wide. So the difference of two ticks in a slot always fits into an int64.
const BITS_MAX: u32 = 60;

impl TimeWheel {
    /// Encodes the wheel in the form that [`TimeWheel::from_bytes`] decodes.
    pub fn to_bytes(&mut self) -> Vec<u8> {
        self.close_front();
        let mut out = FrameWriter::new(MAGIC, VERSION);
        out.varint(self.tick_ms as u64);
        out.varint(self.slots.len() as u64);
        for (&start, slot) in &mut self.slots {
            slot.seal();
            out.zigzag(start);
            out.byte(slot.bits as u8);
            out.varint(slot.len() - slot.late().len() as u64);
            let bits = slot.stream().bits();
            out.varint(bits.len());
            out.words(bits.words());
            out.varint(slot.late().len() as u64);
            for (ledger, entry, tick) in slot.late() {
                out.varint(ledger as u64);
                out.varint(entry as u64);
                out.varint(tick);
            }
        }
        out.finish()
    }

    /// Decodes the bytes of [`TimeWheel::to_bytes`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the offset; [`Error::Limit`] for more than 2^32 messages.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut input = FrameReader::open(bytes, MAGIC, VERSION, "TimeWheel")?;
        let tick_ms = input.natural()?;
        let mut wheel = Self::new(tick_ms).map_err(|error| input.refuse(error.to_string()))?;
        let (mut end, mut length) = (None, 0);
        for _ in 0..input.count(6)? {
            let (start, slot) = read_slot(&mut input)?;
            if end.is_some_and(|end| end >= start) {
                return Err(input.refuse("slots overlap"));
            }
            end = Some(last(start, slot.bits));
            length += slot.len();
            if length > RESTORED_MAX {
                return Err(Error::Limit(LimitReached::RestoredMessages { max: RESTORED_MAX }));
            }
            wheel.slots.insert(start, Box::new(slot));
        }
        input.end()?;
        wheel.length = length as usize;
        Ok(wheel)
    }
}

fn read_slot(input: &mut FrameReader<'_>) -> Result<(i64, Slot)> {
    let start = input.zigzag()?;
    let bits = u32::from(input.byte()?);
    if bits > BITS_MAX || start & low_bits(bits) != 0 {
        return Err(input.refuse(format!("slot at {start} of {bits} bits")));
    }
    let announced = input.varint()?;
    let length = input.varint()?;
    let words = input.words(usize::try_from(length.div_ceil(64)).unwrap_or(usize::MAX))?;
    let (mut count, mut least) = (0u64, u64::MAX);
    let stream = Bits::from_words(words, length).and_then(|words| {
        Stream::restore(words, bits, |run| {
            count = count.saturating_add(run.count);
            least = least.min(run.tick);
        })
    });
    let stream = stream.ok_or_else(|| input.refuse("no stream of messages"))?;
    if count != announced {
        return Err(input.refuse(format!("{announced} messages announced, {count} found")));
    }
    let late = (0..input.count(3)?)
        .map(|_| Ok((input.natural()?, input.natural()?, input.varint()?)))
        .collect::<Result<Vec<Message>>>()?;
    let slot = Slot::from_parts(bits, stream, count, least, late).ok_or_else(|| {
        input.refuse("a late message outside its slot, out of order, or there twice")
    })?;
    if slot.len() == 0 {
        return Err(input.refuse("a slot without messages"));
    }
    Ok((start, slot))
}
