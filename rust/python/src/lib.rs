//! `ackwell._native`: the core's structures as Python classes, one file for each class.
//!
//! Each method parses its arguments, detaches from the interpreter if the call is a batch, calls the core, and wraps
//! the result. The rules of the domain are in the core.

mod convert;
mod methods;
mod forks;
mod shared;
mod arrays;
mod ledgers;
mod long_map;
mod bit_set;
mod positions;
mod pending_acks;
mod range_set;
mod ack_sets;
mod delayed;
mod triple_heap;
mod time_buckets;
mod time_wheel;
mod position_info;
mod command_ack;
mod names;
mod partials;
mod trace;
mod crc32c;

#[pyo3::pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::forks::register(module.py())
    }

    #[pymodule_export]
    use crate::ack_sets::AckSets;
    #[pymodule_export]
    use crate::bit_set::BitSet;
    #[pymodule_export]
    use crate::command_ack::decode_command_ack;
    #[pymodule_export]
    use crate::crc32c::crc32c;
    #[pymodule_export]
    use crate::ledgers::Ledgers;
    #[pymodule_export]
    use crate::long_map::LongMap;
    #[pymodule_export]
    use crate::names::Names;
    #[pymodule_export]
    use crate::partials::Partials;
    #[pymodule_export]
    use crate::pending_acks::PendingAcks;
    #[pymodule_export]
    use crate::position_info::PositionInfo;
    #[pymodule_export]
    use crate::position_info::compression::{compress, decompress};
    #[pymodule_export]
    use crate::position_info::managed_cursor_info::ManagedCursorInfo;
    #[pymodule_export]
    use crate::range_set::PositionRangeSet;
    #[pymodule_export]
    use crate::time_buckets::TimeBuckets;
    #[pymodule_export]
    use crate::time_wheel::TimeWheel;
    #[pymodule_export]
    use crate::trace::TraceReader;
    #[pymodule_export]
    use crate::triple_heap::TripleLongHeap;
}
