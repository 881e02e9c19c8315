//! The fields of one line as recorders write them: plain texts, integers, true and false, nothing nested.
//!
//! One pass over the bytes, a third of what a general parser takes. Whatever else JSON allows (escapes, text beyond
//! ASCII, fractions, nested values) is left to [`Fields::read`], which knows all of it; both give the same fields of
//! what this takes.

use std::borrow::Cow;

use super::fields::{Fields, Key};
use crate::partials::NULL;

/// The fields of the first line of `text`, and how many bytes it takes, its end included; none if it is not of this
/// form. Words of an ack set go to the end of `words`.
pub(super) fn read<'a>(text: &'a [u8], words: &mut Vec<i64>) -> Option<(Fields<'a>, usize)> {
    let mut line = Line { text, at: 0 };
    line.take(b'{')?;
    let mut fields = Fields { counts: [NULL; 6], ..Fields::default() };
    let mut seen = 0;
    loop {
        line.take(b'"')?;
        let key = Key::of(line.rest_of_text()?);
        if seen & key.bit() != 0 {
            return None;
        }
        seen |= key.bit();
        line.take(b':')?;
        line.skip_spaces();
        line.value(key, &mut fields, words)?;
        match line.next()? {
            b',' => line.skip_spaces(),
            b'}' => break,
            _ => return None,
        }
    }
    line.end()?;
    Some((fields, line.at))
}

struct Line<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Line<'a> {
    fn value(&mut self, key: Key, fields: &mut Fields<'a>, words: &mut Vec<i64>) -> Option<()> {
        match key {
            Key::Kind => fields.kind = self.text()?,
            Key::Topic => fields.topic = self.text()?,
            Key::Subscription => fields.subscription = self.text()?,
            Key::Transaction => fields.transaction = self.text()?,
            Key::Count(place) => fields.counts[usize::from(place)] = self.count()?,
            Key::Integer(_) => drop(self.count()?),
            Key::Text(_) => drop(self.bytes()?),
            Key::AckSet => fields.has_set = self.words(words)?,
            Key::Ok => fields.refused = !self.truth()?,
            Key::Other => self.any()?,
        }
        Some(())
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

    /// Goes past the end of the line, or to the end of all.
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

    /// A text to its closing quotes: ASCII without escapes.
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

    /// A text, or null.
    fn bytes(&mut self) -> Option<Option<&'a [u8]>> {
        match self.next()? {
            b'"' => self.rest_of_text().map(Some),
            b'n' => self.take_word(b"ull").map(|()| None),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<Option<Cow<'a, str>>> {
        Some(match self.bytes()? {
            Some(bytes) => Some(Cow::Borrowed(str::from_utf8(bytes).ok()?)),
            None => None,
        })
    }

    /// An integer that is no count, of at most 19 digits.
    fn integer(&mut self) -> Option<i64> {
        let negative = self.peek()? == b'-';
        self.at += usize::from(negative);
        let start = self.at;
        let mut value = 0_u64;
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

    /// An integer that may be null, but not the number that means null.
    fn count(&mut self) -> Option<i64> {
        if self.peek()? == b'n' {
            return self.take_word(b"null").map(|()| NULL);
        }
        self.integer().filter(|value| *value != NULL)
    }

    /// An array of integers; false for null.
    fn words(&mut self, words: &mut Vec<i64>) -> Option<bool> {
        if self.peek()? == b'n' {
            return self.take_word(b"null").map(|()| false);
        }
        self.take(b'[')?;
        self.skip_spaces();
        if self.peek()? == b']' {
            return self.take(b']').map(|()| true);
        }
        loop {
            words.push(self.integer()?);
            match self.next()? {
                b',' => self.skip_spaces(),
                b']' => return Some(true),
                _ => return None,
            }
        }
    }

    fn truth(&mut self) -> Option<bool> {
        match self.peek()? {
            b't' => self.take_word(b"true").map(|()| true),
            _ => self.take_word(b"false").map(|()| false),
        }
    }

    fn any(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' | b'n' => drop(self.bytes()?),
            b't' | b'f' => drop(self.truth()?),
            _ => drop(self.integer()?),
        }
        Some(())
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;

/// Marks the first of eight bytes that is a quote, a backslash, a control character or not ASCII; maybe later ones.
fn ends(bytes: u64) -> u64 {
    let less = |bytes: u64, bound: u64| bytes.wrapping_sub(ONES * bound) & !bytes;
    let quotes = bytes ^ (ONES * u64::from(b'"'));
    let backslashes = bytes ^ (ONES * u64::from(b'\\'));
    (less(quotes, 1) | less(backslashes, 1) | less(bytes, 0x20) | bytes) & (ONES * 0x80)
}
