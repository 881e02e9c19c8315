//! Model tests.

mod delayed;
mod triple_heap;
mod time_buckets;
