//! The structures and the codec of a message subscription's acknowledgment state.
//!
//! This crate uses no Python, no files, no clocks and no threads. Every function only changes values in memory. So
//! model tests, fuzzing and benches need no interpreter, and a test can simulate a crash between any two calls.
//!
//! The modules are in the order in which the data flows (see `docs/architecture.md`); the binding,
//! the Python reference, the tests and the benches follow the same order and use the same names.
#![forbid(unsafe_code)]

pub mod error;
pub mod position;
pub mod ledgers;
pub mod long_map;
pub mod bit_set;
pub mod pending_acks;
pub mod range_set;
pub mod ack_sets;
pub mod delayed;
mod frame;
mod nbytes;
mod radix;
mod varint;
pub mod triple_heap;
pub mod time_buckets;
pub mod time_wheel;
pub mod position_info;
pub mod command_ack;
pub mod names;
pub mod partials;
pub mod trace;
pub mod crc32c;

pub use ack_sets::{AckSet, AckSets};
pub use bit_set::BitSet;
pub use command_ack::CommandAck;
pub use delayed::{DelayedColumns, DelayedIndex, DelayedMessage};
pub use error::{Error, Result, Validity};
pub use ledgers::{LedgerState, Ledgers};
pub use long_map::LongMap;
pub use names::Names;
pub use partials::Partials;
pub use pending_acks::{PendingAck, PendingAcks};
pub use position::Position;
pub use position_info::{Compression, Form, ManagedCursorInfo, PositionInfo};
pub use range_set::{PositionRange, PositionRangeSet};
pub use time_buckets::{Rounding, TimeBuckets};
pub use time_wheel::TimeWheel;
pub use triple_heap::{HoleHeap, TripleLongHeap};
