//! Model tests.

mod delayed;
mod triple_heap;
