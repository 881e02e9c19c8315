//! The notation of `pulsar-admin topics stats-internal`: `[(3:-1..3:5],(3:7..3:9]]`.

use std::fmt;

use super::{PositionRange, PositionRangeSet, checked_run};
use crate::error::{Error, Result};

impl fmt::Display for PositionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ledger_id, lower_entry_exclusive: lower, upper_entry_inclusive: upper } = self;
        write!(f, "({ledger_id}:{lower}..{ledger_id}:{upper}]")
    }
}

impl fmt::Display for PositionRangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, range) in self.ranges().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            range.fmt(f)?;
        }
        f.write_str("]")
    }
}

impl PositionRangeSet {
    /// Parses the text that [`fmt::Display`] writes. Also accepts the text of Guava's range set, which some Pulsar
    /// configurations write. In that text, spaces separate the ranges, and `‥` replaces `..`. Ranges may have any order
    /// and may overlap.
    ///
    /// # Errors
    /// [`Error::Corrupt`] at the first invalid byte, or at an invalid range.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = TextReader { text: text.as_bytes(), at: 0 };
        let mut set = Self::new();
        reader.skip_spaces();
        reader.expect("[")?;
        reader.skip_spaces();
        if !reader.accept("]") {
            loop {
                reader.range(&mut set)?;
                reader.skip_spaces();
                if reader.accept("]") {
                    break;
                }
                reader.expect(",")?;
                reader.skip_spaces();
            }
        }
        reader.skip_spaces();
        match reader.text.len() - reader.at {
            0 => Ok(set),
            more => Err(Error::corrupt(reader.at, format!("{more} bytes after the last ']'"))),
        }
    }
}

struct TextReader<'a> {
    text: &'a [u8],
    at: usize,
}

impl TextReader<'_> {
    fn range(&mut self, set: &mut PositionRangeSet) -> Result<()> {
        let start = self.at;
        self.expect("(")?;
        let (ledger_id, lower) = self.position()?;
        if !self.accept("‥") {
            self.expect("..")?;
        }
        let (upper_ledger_id, upper) = self.position()?;
        self.expect("]")?;
        if ledger_id != upper_ledger_id {
            let message = format!("a range from ledger {ledger_id} to ledger {upper_ledger_id}");
            return Err(Error::corrupt(start, message));
        }
        match checked_run(ledger_id, lower, upper) {
            Ok(Some(run)) => set.change(ledger_id, |acks| acks.add_run(run)),
            Ok(None) => 0,
            Err(error) => return Err(Error::corrupt(start, error.to_string())),
        };
        Ok(())
    }

    fn position(&mut self) -> Result<(i64, i64)> {
        let ledger_id = self.integer()?;
        self.expect(":")?;
        Ok((ledger_id, self.integer()?))
    }

    fn integer(&mut self) -> Result<i64> {
        let start = self.at;
        let negative = self.accept("-");
        let digits = self.at;
        let mut value = 0i64;
        while let Some(digit) = self.text.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            let digit = i64::from(digit - b'0');
            // The value is accumulated as a negative number, because the least int64 has no positive counterpart.
            value = value
                .checked_mul(10)
                .and_then(|value| value.checked_sub(digit))
                .ok_or_else(|| Error::corrupt(start, "an integer outside int64"))?;
            self.at += 1;
        }
        if self.at == digits {
            return Err(self.unexpected("a digit"));
        }
        if negative {
            return Ok(value);
        }
        value.checked_neg().ok_or_else(|| Error::corrupt(start, "an integer outside int64"))
    }

    fn skip_spaces(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn accept(&mut self, token: &str) -> bool {
        let found = self.text[self.at..].starts_with(token.as_bytes());
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.accept(token) { Ok(()) } else { Err(self.unexpected(&format!("'{token}'"))) }
    }

    fn unexpected(&self, expected: &str) -> Error {
        let rest = String::from_utf8_lossy(&self.text[self.at..]);
        let found = rest.chars().next().map_or("the end".into(), |found| format!("{found:?}"));
        Error::corrupt(self.at, format!("expected {expected}, found {found}"))
    }
}
