//! Pulsar's compression types as functions on whole byte strings. Bytes with a wrong declared size, or with a huge
//! decompressed size, cannot exhaust the memory.
//!
//! The functions do not stream. They decompress directly into the output, so the decompressor needs no window. With a
//! zstd stream, a few hostile bytes can request a window of 128 MB.

use std::fmt;

use crate::error::{Error, LimitReached, Result};

/// Pulsar's compression types, each with Pulsar's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// 0: stored as it is.
    None,
    /// 1: an LZ4 block.
    Lz4,
    /// 2: a zlib stream.
    Zlib,
    /// 3: a zstd frame.
    Zstd,
    /// 4: a raw Snappy block.
    Snappy,
}

/// The initial size of the output, in bytes. Most states fit into it. If damaged bytes declare a far larger size, only
/// this much memory is wasted.
const FIRST_OUTPUT: usize = 16 << 10;

/// The compression level of zstd. For states, level 1 is faster than level 3 and gives the same size.
const ZSTD_LEVEL: i32 = 1;

/// Compresses many byte strings with zstd. The memory of the compressor is allocated once, because the allocation takes
/// longer than the compression of a small state.
#[derive(Default)]
pub(crate) struct ZstdCompressor(Option<zstd::bulk::Compressor<'static>>);

impl fmt::Debug for ZstdCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ZstdCompressor")
    }
}

impl ZstdCompressor {
    /// Compresses `bytes` to a frame. The frame does not depend on previous calls.
    ///
    /// # Errors
    /// [`Error::Limit`] if the library cannot compress that many bytes.
    pub(crate) fn compress(&mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        let too_large = |error| Compression::Zstd.too_large(bytes, &error);
        if self.0.is_none() {
            self.0 = Some(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(too_large)?);
        }
        let compressor = self.0.as_mut().expect("it was created");
        compressor.compress(bytes).map_err(too_large)
    }
}

/// The reason why decompressed bytes do not have the declared size.
enum Failure {
    TooShort,
    Corrupt(String),
}

impl Compression {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Lz4, Self::Zlib, Self::Zstd, Self::Snappy];

    /// Returns Pulsar's number of the type.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Returns the type of this number.
    #[must_use]
    pub fn numbered(number: u64) -> Option<Self> {
        usize::try_from(number).ok().and_then(|number| Self::ALL.get(number).copied())
    }

    /// Returns Pulsar's name of the type, as in Pulsar's settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Lz4 => "LZ4",
            Self::Zlib => "ZLIB",
            Self::Zstd => "ZSTD",
            Self::Snappy => "SNAPPY",
        }
    }

    /// Returns the type of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|compression| compression.name() == name)
    }

    /// Compresses `bytes`.
    ///
    /// # Errors
    /// [`Error::Limit`] if the library cannot compress that many bytes.
    pub fn compress(self, bytes: &[u8]) -> Result<Vec<u8>> {
        let too_large = |error: &dyn fmt::Display| self.too_large(bytes, error);
        match self {
            Self::None => Ok(bytes.to_vec()),
            Self::Lz4 => Ok(lz4_flex::block::compress(bytes)),
            Self::Zlib => {
                let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
                let mut zlib = flate2::Compress::new(flate2::Compression::default(), true);
                loop {
                    let read = zlib.total_in() as usize;
                    let status = zlib
                        .compress_vec(&bytes[read..], &mut out, flate2::FlushCompress::Finish)
                        .map_err(|error| too_large(&error))?;
                    if status == flate2::Status::StreamEnd {
                        return Ok(out);
                    }
                    out.reserve(out.capacity().max(64));
                }
            }
            Self::Zstd => ZstdCompressor::default().compress(bytes),
            Self::Snappy => {
                snap::raw::Encoder::new().compress_vec(bytes).map_err(|error| too_large(&error))
            }
        }
    }

    fn too_large(self, bytes: &[u8], error: &dyn fmt::Display) -> Error {
        let (compression, bytes, error) = (self.name(), bytes.len(), error.to_string());
        Error::Limit(LimitReached::Compression { compression, bytes, error })
    }

    /// Decompresses `bytes`, which must give exactly `size` bytes.
    ///
    /// The output buffer grows as it fills, up to `size`. So it takes less than twice the memory of the bytes that were
    /// decompressed so far.
    ///
    /// # Errors
    /// [`Error::Limit`] if `size` is more than `max_bytes`; [`Error::Corrupt`] for invalid bytes or another size.
    pub fn decompress(self, bytes: &[u8], size: usize, max_bytes: usize) -> Result<Vec<u8>> {
        if size > max_bytes {
            return Err(Error::Limit(LimitReached::DecompressedBytes { bytes: size, max_bytes }));
        }
        // With room for one byte more than declared, a longer output is detected.
        let most = size.saturating_add(1);
        let mut length = most.min(FIRST_OUTPUT.max(bytes.len()));
        loop {
            let mut out = vec![0; length];
            match self.decompress_into(bytes, &mut out) {
                Ok(written) if written == size => {
                    out.truncate(size);
                    return Ok(out);
                }
                Ok(written) => return Err(self.corrupt(format!("{written} bytes, not {size}"))),
                Err(Failure::TooShort) if length < most => length = most.min(2 * length),
                Err(Failure::TooShort) => {
                    return Err(self.corrupt(format!("more than {size} bytes")));
                }
                Err(Failure::Corrupt(message)) => return Err(self.corrupt(message)),
            }
        }
    }

    fn corrupt(self, message: impl fmt::Display) -> Error {
        Error::corrupt(0, format!("{self}: {message}"))
    }

    fn decompress_into(self, bytes: &[u8], out: &mut [u8]) -> std::result::Result<usize, Failure> {
        let corrupt = |error: &dyn fmt::Display| Failure::Corrupt(error.to_string());
        match self {
            Self::None if bytes.len() > out.len() => Err(Failure::TooShort),
            Self::None => {
                out[..bytes.len()].copy_from_slice(bytes);
                Ok(bytes.len())
            }
            Self::Lz4 => {
                lz4_flex::block::decompress_into(bytes, out).map_err(|error| match error {
                    lz4_flex::block::DecompressError::OutputTooSmall { .. } => Failure::TooShort,
                    other => corrupt(&other),
                })
            }
            Self::Zlib => {
                // Pulsar flushes its zlib streams but does not write their end. So the stream may also end at the end
                // of the input.
                let mut zlib = flate2::Decompress::new(true);
                let status = zlib
                    .decompress(bytes, out, flate2::FlushDecompress::Sync)
                    .map_err(|error| corrupt(&error))?;
                let all_read = zlib.total_in() as usize == bytes.len();
                match status {
                    flate2::Status::StreamEnd if !all_read => {
                        Err(Failure::Corrupt("bytes behind the end of the stream".to_owned()))
                    }
                    flate2::Status::StreamEnd => Ok(zlib.total_out() as usize),
                    _ if zlib.total_out() as usize == out.len() => Err(Failure::TooShort),
                    _ if all_read => Ok(zlib.total_out() as usize),
                    _ => Err(Failure::Corrupt("the stream stops".to_owned())),
                }
            }
            Self::Zstd => {
                use zstd::zstd_safe::{DCtx, get_error_name};
                const TOO_SMALL: &str = "Destination buffer is too small";
                DCtx::create().decompress(out, bytes).map_err(|code| match get_error_name(code) {
                    TOO_SMALL => Failure::TooShort,
                    name => Failure::Corrupt(name.to_owned()),
                })
            }
            Self::Snappy => {
                let size = snap::raw::decompress_len(bytes).map_err(|error| corrupt(&error))?;
                if size > out.len() {
                    return Err(Failure::TooShort);
                }
                snap::raw::Decoder::new().decompress(bytes, out).map_err(|error| corrupt(&error))
            }
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
