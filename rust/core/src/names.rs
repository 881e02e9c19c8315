//! A table that assigns consecutive integers, called numbers, to names. A fold works with columns of these numbers
//! instead of columns of texts.
//!
//! Representation: the bytes of all names in one array, an array with the end of each name (as in Arrow), and an
//! open-addressing hash table. A slot of the table has 32 bits of a name's hash, and the number of the name. So looking
//! up a known name costs one hash of its bytes, one table access and one comparison. Invariants: all names differ; the
//! n-th new name has number n; at most half of the slots are taken.

use std::hash::Hasher;

use crate::error::{Error, InvalidArgument, Result, Validity, invariant};
use crate::partials::Mix;

/// Names by number, and numbers by name.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// The end of each name in `bytes`.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    /// The slots of the hash table. The length is 0 or a power of two.
    slots: Vec<TextSlot>,
    /// The number that was returned last. A search tries it first, because consecutive rows often have the same name.
    last: u32,
}

#[derive(Debug, Clone, Copy)]
struct TextSlot {
    hash: u32,
    number: u32,
}

const FREE: TextSlot = TextSlot { hash: 0, number: u32::MAX };

/// A text to look up, and a known name that is probably equal to the text, if there is one. The caller must compare the
/// two.
#[derive(Clone, Copy)]
struct Guess<'a> {
    text: &'a [u8],
    hash: u32,
    number: u32,
    /// The start of the name in [`Names::bytes`].
    start: usize,
}

impl Default for Guess<'_> {
    fn default() -> Self {
        Self { text: &[], hash: 0, number: FREE.number, start: 0 }
    }
}

/// The number of texts that are looked up together.
const BLOCK: usize = 64;

const SLOTS_MIN: usize = 16;

/// The maximum number of names. Their numbers must fit into int32 columns.
const NAMES_MAX: usize = i32::MAX as usize;

impl Names {
    /// Returns the number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the name that has this number; `None` if no name has it.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<&str> {
        self.bytes_of(number).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Returns the number that identifies a name. A new name gets the next free number.
    ///
    /// # Panics
    /// For more than 2^31 - 1 names, which take 50 GB at least.
    pub fn number(&mut self, name: &str) -> i32 {
        self.number_of(name.as_bytes()).expect("a text is UTF-8")
    }

    /// Returns the number that identifies each text. The n-th text is `bytes[offsets[n]..offsets[n + 1]]`.
    ///
    /// # Errors
    /// [`Error::Value`] for offsets that decrease or exceed the bytes, and for bytes that are not UTF-8. Names
    /// before the error keep their new numbers.
    ///
    /// # Panics
    /// As [`Self::number`].
    pub fn number_many(&mut self, offsets: &[i32], bytes: &[u8]) -> Result<Vec<i32>> {
        let count = offsets.len().saturating_sub(1);
        let mut numbers = Vec::with_capacity(count);
        let mut guesses = [Guess::default(); BLOCK];
        for start in (0..count).step_by(BLOCK) {
            let guesses = &mut guesses[..BLOCK.min(count - start)];
            for (guess, bounds) in guesses.iter_mut().zip(offsets[start..].windows(2)) {
                let text = usize::try_from(bounds[0]).ok().zip(usize::try_from(bounds[1]).ok());
                let text = text.and_then(|(start, end)| bytes.get(start..end));
                let text = text.ok_or(Error::Value(InvalidArgument::NameBounds))?;
                *guess = Guess { text, hash: hash(text), ..Guess::default() };
            }
            self.guess(guesses);
            for Guess { text, hash, number, start } in guesses {
                let known = self.bytes.get(*start..*start + text.len());
                let is_known =
                    *number != FREE.number && self.ends[*number as usize] == *start + text.len();
                numbers.push(match is_known && known == Some(*text) {
                    true => number.cast_signed(),
                    false => self.find(text, *hash).or_else(|_| self.add(text))?.cast_signed(),
                });
            }
        }
        Ok(numbers)
    }

    /// For each text, looks only at the first slot for its hash. The name in this slot becomes the guess if its hash
    /// and its first byte are equal to those of the text. Each of the three loops reads memory for all texts, so that
    /// the processor can overlap the memory accesses.
    fn guess(&self, guesses: &mut [Guess<'_>]) {
        if self.slots.is_empty() {
            return;
        }
        let mask = self.slots.len() - 1;
        for guess in &mut *guesses {
            let slot = self.slots[guess.hash as usize & mask];
            guess.number = if slot.hash == guess.hash { slot.number } else { FREE.number };
        }
        for guess in guesses.iter_mut().filter(|guess| guess.number != FREE.number) {
            guess.start = self.start(guess.number as usize);
        }
        for guess in guesses.iter_mut() {
            if self.bytes.get(guess.start) != guess.text.first() {
                guess.number = FREE.number;
            }
        }
    }

    /// Returns the names whose numbers are at least `start`, as offsets and bytes. The offsets are the start of each
    /// name in the returned bytes, followed by the end of the last name.
    pub fn from(&self, start: usize) -> (impl Iterator<Item = usize> + '_, &[u8]) {
        let start = start.min(self.len());
        let first = self.start(start);
        let ends = self.ends[start..].iter().map(move |end| end - first);
        (std::iter::once(0).chain(ends), &self.bytes[first..])
    }

    /// Returns the size of the heap memory in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.ends.capacity() * size_of::<usize>()
            + self.bytes.capacity()
            + self.slots.capacity() * size_of::<TextSlot>()
    }

    /// Checks the invariants.
    ///
    /// # Errors
    /// A sentence that names the broken invariant.
    pub fn validate(&self) -> Validity {
        invariant!(self.ends.is_sorted(), "ends never decrease");
        invariant!(self.start(self.len()) == self.bytes.len(), "all bytes belong to a name");
        invariant!(
            self.slots.is_empty() || self.slots.len().is_power_of_two(),
            "a table of 2^n slots"
        );
        invariant!(2 * self.len() <= self.slots.len(), "at most half of the slots are taken");
        let taken = self.slots.iter().filter(|slot| slot.number != FREE.number);
        invariant!(taken.count() == self.len(), "one slot a name");
        for number in 0..self.len() {
            let name = self.bytes_of(number).expect("a number that was given");
            invariant!(std::str::from_utf8(name).is_ok(), "name {number} is UTF-8");
            invariant!(self.find(name, hash(name)).ok() == Some(number as u32), "name {number}");
        }
        Ok(())
    }

    fn start(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn bytes_of(&self, number: usize) -> Option<&[u8]> {
        self.bytes.get(self.start(number.min(self.len()))..*self.ends.get(number)?)
    }

    /// Does the same as [`Self::number`] for bytes that may not be UTF-8.
    pub(crate) fn number_of(&mut self, name: &[u8]) -> Result<i32> {
        if self.bytes_of(self.last as usize) != Some(name) {
            let hash = hash(name);
            self.last = match self.find(name, hash) {
                Ok(number) => number,
                Err(_) => self.add(name)?,
            };
        }
        Ok(self.last.cast_signed())
    }

    /// Returns the number of a name. If the name is unknown, the error is the index of the free slot for it.
    #[inline]
    fn find(&self, name: &[u8], hash: u32) -> std::result::Result<u32, usize> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut place = hash as usize & mask;
        loop {
            let Some(slot) = self.slots.get(place) else { return Err(0) };
            if slot.number == FREE.number {
                return Err(place);
            }
            if slot.hash == hash && self.bytes_of(slot.number as usize) == Some(name) {
                return Ok(slot.number);
            }
            place = (place + 1) & mask;
        }
    }

    fn add(&mut self, name: &[u8]) -> Result<u32> {
        // Another thread may change the caller's bytes, so a copy is checked and stored.
        let name = name.to_vec();
        if std::str::from_utf8(&name).is_err() {
            return Err(Error::Value(InvalidArgument::NameEncoding));
        }
        assert!(self.len() < NAMES_MAX, "more than 2^31 - 1 names");
        if 2 * (self.len() + 1) > self.slots.len() {
            self.grow();
        }
        let hash = hash(&name);
        let place = match self.find(&name, hash) {
            Ok(number) => return Ok(number),
            Err(place) => place,
        };
        let number = self.len() as u32;
        self.slots[place] = TextSlot { hash, number };
        self.bytes.extend_from_slice(&name);
        self.ends.push(self.bytes.len());
        Ok(number)
    }

    fn grow(&mut self) {
        let count = (2 * self.slots.len()).max(SLOTS_MIN);
        let mut slots = vec![FREE; count];
        for slot in self.slots.iter().filter(|slot| slot.number != FREE.number) {
            let mut place = slot.hash as usize & (count - 1);
            while slots[place].number != FREE.number {
                place = (place + 1) & (count - 1);
            }
            slots[place] = *slot;
        }
        self.slots = slots;
    }
}

fn hash(name: &[u8]) -> u32 {
    let mut mix = Mix::default();
    mix.write(name);
    mix.write_usize(name.len());
    (mix.finish() >> 32) as u32
}
