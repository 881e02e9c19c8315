//! The reader of the wire format. It has the whole input, so that every error has an absolute offset.

use crate::error::{Error, Result};

/// The maximum depth of nested groups. Protocol Buffers has the same limit, so only hostile bytes have deeper nesting.
const GROUP_DEPTH_MAX: usize = 100;

/// A reader of one message in the input: the next byte to read, and the end of the message.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// One field of a message.
pub(crate) struct Field<'a> {
    /// The offset of the field's tag.
    pub(crate) start: usize,
    /// The field number, ≥ 1.
    pub(crate) number: u32,
    /// The value.
    pub(crate) value: Value<'a>,
}

/// The value of a field, by wire type.
pub(crate) enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 2: a string, bytes, a message or packed numbers.
    Bytes(Reader<'a>),
    /// Fixed32, fixed64 or a group. It is skipped, because no known field has these types.
    Other,
}

impl<'a> Field<'a> {
    /// Returns the unsigned value of a varint field, or an error for another wire type.
    #[inline]
    pub(crate) fn varint(&self) -> Result<u64> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(self.expected("a varint")),
        }
    }

    /// Returns a reader of the content of a length-delimited field, or an error for another wire type.
    #[inline]
    pub(crate) fn message(&self) -> Result<Reader<'a>> {
        match self.value {
            Value::Bytes(reader) => Ok(reader),
            _ => Err(self.expected("length-delimited bytes")),
        }
    }

    #[cold]
    fn expected(&self, what: &str) -> Error {
        Error::corrupt(self.start, format!("field {}: expected {what}", self.number))
    }
}

impl<'a> Reader<'a> {
    /// Creates a reader from the start of `bytes`.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, end: bytes.len() }
    }

    /// Creates a reader of `bytes` from offset `at`.
    pub(crate) fn starting_at(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, end: bytes.len() }
    }

    /// Returns the offset of the next byte in the whole input.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Returns whether this message has been read to its end.
    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.end
    }

    /// Returns the unread bytes of this message.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..self.end]
    }

    /// Returns the bytes of the input from `start` up to, but not including, the next byte to read. Used to store an
    /// unknown field.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    /// Creates an error at the offset of the next byte.
    pub(crate) fn refuse(&self, message: impl Into<String>) -> Error {
        Error::corrupt(self.at, message)
    }

    /// Skips bytes that the caller has read from [`Reader::rest`].
    pub(crate) fn advance(&mut self, length: usize) {
        debug_assert!(length <= self.end - self.at, "what was read is there");
        self.at += length;
    }

    /// Reads the next `length` bytes.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let rest = self.rest();
        if length > rest.len() {
            return Err(
                self.refuse(format!("{length} bytes announced, {} bytes are left", rest.len()))
            );
        }
        self.at += length;
        Ok(&rest[..length])
    }

    /// Reads a base-128 varint of at most ten bytes.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64> {
        if let Some(&byte) = self.bytes[..self.end].get(self.at)
            && byte < 0x80
        {
            self.at += 1;
            return Ok(u64::from(byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest().iter().take(10).enumerate() {
            if index == 9 && byte > 1 {
                return Err(self.refuse("a varint of more than 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.at += index + 1;
                return Ok(value);
            }
        }
        Err(self.refuse("the input ends inside a varint"))
    }

    /// Reads the next field; `None` at the end of the message.
    #[inline]
    pub(crate) fn field(&mut self) -> Result<Option<Field<'a>>> {
        if self.is_empty() {
            return Ok(None);
        }
        let start = self.at;
        let (number, wire_type) = self.tag()?;
        let value = match wire_type {
            0 => Value::Varint(self.varint()?),
            2 => Value::Bytes(self.message()?),
            _ => {
                self.skip(start, number, wire_type)?;
                Value::Other
            }
        };
        Ok(Some(Field { start, number, value }))
    }

    /// Reads a length and returns a reader of that many bytes.
    #[inline]
    pub(crate) fn message(&mut self) -> Result<Reader<'a>> {
        let length = self.varint()?;
        let left = self.end - self.at;
        if length > left as u64 {
            return Err(self.refuse(format!("{length} bytes announced, {left} bytes are left")));
        }
        let inner = Reader { bytes: self.bytes, at: self.at, end: self.at + length as usize };
        self.at = inner.end;
        Ok(inner)
    }

    /// Returns a reader of the next `length` bytes, and skips them.
    pub(crate) fn slice(&mut self, length: usize) -> Result<Reader<'a>> {
        let at = self.at;
        self.take(length)?;
        Ok(Reader { bytes: self.bytes, at, end: self.at })
    }

    fn tag(&mut self) -> Result<(u32, u32)> {
        let start = self.at;
        let tag = self.varint()?;
        let number = tag >> 3;
        if !(1..=0x1fff_ffff).contains(&number) {
            return Err(Error::corrupt(start, format!("field number {number} does not exist")));
        }
        Ok((number as u32, (tag & 7) as u32))
    }

    /// Skips fixed-width fields and groups. Nested groups use a bounded stack instead of recursion.
    fn skip(&mut self, start: usize, number: u32, wire_type: u32) -> Result<()> {
        let mut open = Vec::new();
        let (mut start, mut number, mut wire_type) = (start, number, wire_type);
        loop {
            match wire_type {
                0 => drop(self.varint()?),
                1 => drop(self.take(8)?),
                2 => drop(self.message()?),
                3 if open.len() == GROUP_DEPTH_MAX => {
                    return Err(Error::corrupt(
                        start,
                        format!("more than {GROUP_DEPTH_MAX} groups inside each other"),
                    ));
                }
                3 => open.push(number),
                4 if open.pop() == Some(number) => {}
                4 => return Err(Error::corrupt(start, "the end of a group that is not open")),
                5 => drop(self.take(4)?),
                _ => return Err(Error::corrupt(start, format!("wire type {wire_type}"))),
            }
            if open.is_empty() {
                return Ok(());
            }
            start = self.at;
            if self.is_empty() {
                return Err(self.refuse("the input ends inside a group"));
            }
            (number, wire_type) = self.tag()?;
        }
    }
}
