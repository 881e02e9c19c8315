//! The fast reader of lines in the form that recorders write: texts without escapes, integers, true and false, and no
//! nested values except arrays of integers.
//!
//! It makes one pass over the bytes. A recorder always writes its keys in the same order. So after each key, the reader
//! first tries the keys that followed it in earlier lines. Each try is one comparison of a few words. In the same way,
//! a name is first compared with the names of earlier lines. [`LineFields`](super::LineFields) handles all other JSON
//! (escapes, text beyond ASCII, fractions, nested values). Both readers return the same fields for a line that this
//! reader accepts.

use super::fields::{FIELD_COUNT, Fields, Key, NAMES, Name, Value, ValueType};

/// The maximum length of a predicted key in bytes. The length includes the comma before the key, the quotes, and the
/// colon.
const BYTES: usize = 32;

/// The maximum number of different keys that are predicted after a given key.
const CANDIDATES: usize = 4;

/// Used as the number of the previous key when the first key of a line is predicted. No key has this number.
const START: usize = FIELD_COUNT + 1;

/// A predictor of the next key and the next name. It uses the keys and names of earlier lines.
#[derive(Debug, Clone)]
pub(super) struct KeyPredictor {
    after: [[Follower; CANDIDATES]; START + 1],
    names: [[PredictedName; CANDIDATES]; NAMES],
}

/// A name of an earlier line.
#[derive(Debug, Clone, Default)]
struct PredictedName {
    /// The name with its quotes; empty if no name is stored.
    quoted: Vec<u8>,
    number: i32,
}

/// A predicted key: the bytes up to its value.
#[derive(Debug, Clone, Copy)]
struct Follower {
    bytes: [u64; BYTES / 8],
    mask: [u64; BYTES / 8],
    /// The number of bytes; 0 if no key is stored.
    length: usize,
    key: Key,
}

const NONE: Follower =
    Follower { bytes: [0; BYTES / 8], mask: [0; BYTES / 8], length: 0, key: Key::UNKNOWN };

impl Default for KeyPredictor {
    fn default() -> Self {
        Self { after: [[NONE; CANDIDATES]; START + 1], names: Default::default() }
    }
}

impl KeyPredictor {
    /// If the key at the start of `rest` is one of the predicted keys, returns it and the number of bytes up to its
    /// value. `before` is the number of the previous key, or `START`.
    #[inline]
    fn next(&self, before: usize, rest: &[u8]) -> Option<(Key, usize)> {
        let found = words_of(rest.first_chunk()?);
        let is_next = |known: &&Follower| {
            let differs = |at: usize| (found[at] & known.mask[at]) ^ known.bytes[at];
            differs(0) | differs(1) | differs(2) | differs(3) == 0 && known.length > 0
        };
        self.after[before].iter().find(is_next).map(|known| (known.key, known.length))
    }

    /// Stores a name and its number for predictions. `place` is the index of the name in [`Fields::names`].
    pub(super) fn note_name(&mut self, place: usize, name: &[u8], number: i32) {
        let candidates = &mut self.names[place];
        candidates.rotate_right(1);
        let PredictedName { quoted, number: known } = &mut candidates[0];
        quoted.clear();
        quoted.push(b'"');
        quoted.extend_from_slice(name);
        quoted.push(b'"');
        *known = number;
    }

    /// If the name at the start of `rest` is one of the predicted names, returns it.
    #[inline]
    fn name(&self, place: usize, rest: &[u8]) -> Option<&PredictedName> {
        let begins =
            |known: &&PredictedName| !known.quoted.is_empty() && rest.starts_with(&known.quoted);
        self.names[place].iter().find(begins)
    }

    fn note_key(&mut self, before: usize, bytes: &[u8], key: Key) {
        let (mut padded, mut mask) = ([0; BYTES], [0; BYTES]);
        let Some(start) = padded.get_mut(..bytes.len()) else { return };
        start.copy_from_slice(bytes);
        mask[..bytes.len()].fill(u8::MAX);
        let candidates = &mut self.after[before];
        candidates.rotate_right(1);
        candidates[0] =
            Follower { bytes: words_of(&padded), mask: words_of(&mask), length: bytes.len(), key };
    }
}

#[inline]
fn words_of(bytes: &[u8; BYTES]) -> [u64; BYTES / 8] {
    let (words, _) = bytes.as_chunks();
    std::array::from_fn(|at| u64::from_le_bytes(words[at]))
}

/// Reads the fields of the first line of `text`. Also returns the length of the line, with its line end. Returns `None`
/// if the line has another form. The words of an ack set are appended to `words`.
pub(super) fn read<'a>(
    text: &'a [u8],
    words: &mut Vec<i64>,
    predictor: &mut KeyPredictor,
) -> Option<(Fields<'a>, usize)> {
    let mut line = Line { text, at: 0 };
    let mut fields = Fields::default();
    let (mut seen, mut before) = (0, START);
    loop {
        let key = match predictor.next(before, &text[line.at..]) {
            Some((key, length)) => {
                line.at += length;
                key
            }
            None => {
                let start = line.at;
                match line.next()? {
                    b'{' if before == START => {}
                    b',' if before != START => line.skip_spaces(),
                    b'}' if before != START => break,
                    _ => return None,
                }
                line.take(b'"')?;
                let key = Key::of(line.rest_of_text()?);
                line.take(b':')?;
                predictor.note_key(before, &text[start..line.at], key);
                key
            }
        };
        if seen & key.bit() != 0 {
            return None;
        }
        seen |= key.bit();
        line.skip_spaces();
        let known = match key.value {
            ValueType::Name(place) => predictor.name(usize::from(place), &text[line.at..]),
            _ => None,
        };
        let value = match known {
            Some(known) => {
                line.at += known.quoted.len();
                Value::Text(Name::Known(known.number))
            }
            None => line.value(words)?,
        };
        fields.put(key.value, value)?;
        before = usize::from(key.place);
    }
    line.end()?;
    Some((fields, line.at))
}

struct Line<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Line<'a> {
    /// Reads a text without escapes, an integer, true, false, null or an array of integers.
    #[inline]
    fn value(&mut self, words: &mut Vec<i64>) -> Option<Value<'a>> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.rest_of_text().map(|text| Value::Text(Name::Plain(text)))
            }
            b'n' => self.take_word(b"null").map(|()| Value::Null),
            b't' => self.take_word(b"true").map(|()| Value::Truth(true)),
            b'f' => self.take_word(b"false").map(|()| Value::Truth(false)),
            b'[' => self.words(words).map(|()| Value::Words),
            _ => self.integer().map(Value::Integer),
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = *self.text.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn take_word(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Skips the end of the line. Returns `None` if neither the line nor the text ends here.
    fn end(&mut self) -> Option<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r') => self.at += 1,
                Some(b'\n') => {
                    self.at += 1;
                    return Some(());
                }
                Some(_) => return None,
                None => return Some(()),
            }
        }
    }

    /// Reads the rest of a text, after its opening quotes, up to the closing quotes. The text must be ASCII and have no
    /// escapes.
    fn rest_of_text(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        while let Some(bytes) = self.text.get(self.at..self.at + 8) {
            let found = ends(u64::from_le_bytes(bytes.try_into().ok()?));
            self.at += (found.trailing_zeros() / 8) as usize;
            if found != 0 {
                break;
            }
        }
        while !matches!(self.peek()?, b'"' | b'\\' | ..0x20 | 0x80..) {
            self.at += 1;
        }
        let end = self.at;
        self.take(b'"')?;
        Some(&self.text[start..end])
    }

    /// Reads an integer of at most 19 digits, which may be negative.
    fn integer(&mut self) -> Option<i64> {
        let negative = self.peek()? == b'-';
        self.at += usize::from(negative);
        let start = self.at;
        let mut value = 0_u64;
        while let Some(bytes) = self.text.get(self.at..self.at + 8) {
            let (digits, part) = digits(u64::from_le_bytes(bytes.try_into().ok()?));
            value = value.wrapping_mul(TENS[digits]).wrapping_add(part);
            self.at += digits;
            if digits < 8 {
                break;
            }
        }
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let digits = self.at - start;
        let led_by_zero = self.text[start..].first() == Some(&b'0') && (digits > 1 || negative);
        if !(1..=19).contains(&digits) || led_by_zero || matches!(self.peek()?, b'.' | b'e' | b'E')
        {
            return None;
        }
        match negative {
            true => 0_i64.checked_sub_unsigned(value),
            false => i64::try_from(value).ok(),
        }
    }

    /// Reads an array of integers into `words`.
    fn words(&mut self, words: &mut Vec<i64>) -> Option<()> {
        self.take(b'[')?;
        self.skip_spaces();
        if self.peek()? == b']' {
            return self.take(b']');
        }
        loop {
            words.push(self.integer()?);
            match self.next()? {
                b',' => self.skip_spaces(),
                b']' => return Some(()),
                _ => return None,
            }
        }
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// Searches eight bytes for the first byte that may end a plain text: a quote, a backslash, a control character or a
/// byte that is not ASCII. Returns a word in which the highest bit of that byte is set, and all bits of earlier bytes
/// are clear. The bits of later bytes have no meaning.
fn ends(bytes: u64) -> u64 {
    let less = |bytes: u64, bound: u64| bytes.wrapping_sub(ONES * bound) & !bytes;
    let quotes = bytes ^ (ONES * u64::from(b'"'));
    let backslashes = bytes ^ (ONES * u64::from(b'\\'));
    (less(quotes, 1) | less(backslashes, 1) | less(bytes, 0x20) | bytes) & (ONES * 0x80)
}

const TENS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Returns the number of digits at the start of eight bytes, and the value of these digits.
#[inline]
fn digits(bytes: u64) -> (usize, u64) {
    let values = bytes ^ (ONES * u64::from(b'0'));
    let others = (values.wrapping_add(ONES * 0x76) | values) & (ONES * 0x80);
    let count = (others.trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // Shifts out the bytes after the digits. The digits then have leading zeros.
    let values = values << (8 * (8 - count));
    let pairs = (values.wrapping_mul((10 << 8) + 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul((100 << 16) + 1) >> 16) & 0x0000_ffff_0000_ffff;
    (count, fours.wrapping_mul((10_000 << 32) + 1) >> 32)
}
