//! Model tests.

mod long_map;
mod bit_set;
mod pending_acks;
mod delayed;
mod triple_heap;
mod time_buckets;
