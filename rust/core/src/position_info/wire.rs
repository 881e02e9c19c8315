//! The wire format of Protocol Buffers: tags, varints, lengths and groups.
//!
//! This module implements the format itself for three reasons: unknown fields must be kept byte for byte, errors must
//! have an offset, and a million small messages must be read without an object for each.

mod reader;
mod writer;

pub(crate) use reader::{Field, Reader, Value};
pub(crate) use writer::{
    put_bytes_field, put_int_field, put_length, put_varint, tag_length, varint_length,
};
