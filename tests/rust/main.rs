//! Model tests.

mod ledgers;
mod long_map;
mod bit_set;
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
