//! The frame of a saved index: magic, version byte, content, and a CRC-32 of all bytes before it. The content consists
//! of varints and blocks of bytes.
//!
//! A reader checks magic, version and checksum before it reads anything else. It then checks every length against the
//! remaining bytes. So hostile bytes can allocate at most a small multiple of their size.

use crate::error::{Error, Result};
use crate::varint;

/// A writer of a frame. [`FrameWriter::finish`] appends the checksum.
pub(crate) struct FrameWriter {
    bytes: Vec<u8>,
}

impl FrameWriter {
    pub(crate) fn new(magic: [u8; 4], version: u8) -> Self {
        let mut bytes = magic.to_vec();
        bytes.push(version);
        Self { bytes }
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Writes a number as LEB128: seven bits in each byte, the least significant bits first.
    pub(crate) fn varint(&mut self, value: u64) {
        varint::write(value, |byte| self.bytes.push(byte));
    }

    /// Writes a signed number as a varint, after the conversion with [`varint::zigzag`].
    pub(crate) fn zigzag(&mut self, value: i64) {
        self.varint(varint::zigzag(value));
    }

    pub(crate) fn words(&mut self, words: &[u64]) {
        self.bytes.reserve(words.len() * 8);
        words.iter().for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
    }

    /// Writes `length`, and then the bytes that `write` appends. `write` must append `length` bytes.
    pub(crate) fn block(&mut self, length: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.varint(length as u64);
        self.bytes.reserve(length);
        let start = self.bytes.len();
        write(&mut self.bytes);
        assert_eq!(length, self.bytes.len() - start, "a block is as long as it says");
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let checksum = crc32fast::hash(&self.bytes);
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
        self.bytes
    }
}

/// A reader of a frame with a correct checksum.
pub(crate) struct FrameReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> FrameReader<'a> {
    /// Checks magic, version and checksum; `name` names the expected format in errors.
    pub(crate) fn open(bytes: &'a [u8], magic: [u8; 4], version: u8, name: &str) -> Result<Self> {
        if !bytes.starts_with(&magic) {
            return Err(Error::corrupt(0, format!("not a saved {name}: magic {magic:?} missing")));
        }
        match bytes.get(4) {
            None => return Err(Error::corrupt(4, "ends before the version")),
            Some(&found) if found != version => {
                return Err(Error::corrupt(
                    4,
                    format!("{name} of version {found}; this ackwell reads version {version}"),
                ));
            }
            Some(_) => {}
        }
        let Some((body, checksum)) =
            bytes.split_last_chunk::<4>().filter(|(body, _)| body.len() >= 5)
        else {
            return Err(Error::corrupt(bytes.len(), "ends before the checksum"));
        };
        if crc32fast::hash(body) != u32::from_le_bytes(*checksum) {
            return Err(Error::corrupt(body.len(), "the checksum does not match"));
        }
        Ok(Self { bytes: body, offset: 5 })
    }

    /// Creates an [`Error::Corrupt`] at the offset of the next byte to read.
    pub(crate) fn refuse(&self, message: impl Into<String>) -> Error {
        Error::corrupt(self.offset, message)
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn varint(&mut self) -> Result<u64> {
        varint::read(|| self.byte())?.ok_or_else(|| self.refuse("a varint longer than 64 bits"))
    }

    pub(crate) fn zigzag(&mut self) -> Result<i64> {
        self.varint().map(varint::unzigzag)
    }

    /// Reads a varint that must fit into an int64, such as an id.
    pub(crate) fn natural(&mut self) -> Result<i64> {
        i64::try_from(self.varint()?).map_err(|_| self.refuse("a number outside int64"))
    }

    /// Reads a number of items. Returns an error if the remaining bytes cannot contain that number of items, each of at
    /// least `least` bytes. So the caller may allocate memory for the items.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize> {
        let count = self.varint()?;
        if count > (self.left() / least) as u64 {
            return Err(self.refuse(format!("{count} announced, {} bytes left", self.left())));
        }
        Ok(count as usize)
    }

    pub(crate) fn words(&mut self, count: usize) -> Result<Vec<u64>> {
        let bytes = self.take(count.saturating_mul(8))?;
        let word = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        Ok(bytes.chunks_exact(8).map(word).collect())
    }

    pub(crate) fn block(&mut self) -> Result<&'a [u8]> {
        let length = self.count(1)?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        if length > self.left() {
            return Err(self.refuse(format!("{length} bytes expected, {} left", self.left())));
        }
        let start = self.offset;
        self.offset += length;
        Ok(&self.bytes[start..self.offset])
    }

    /// Returns an error if unread bytes remain.
    pub(crate) fn end(&self) -> Result<()> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.refuse(format!("{left} bytes too many"))),
        }
    }
}
