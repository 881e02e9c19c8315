//! Benches of the core in thread CPU time, with one module for each structure.

mod cpu_time;
mod delayed;
mod range_acks;
mod workloads;
mod ledgers;
mod long_map;
mod bit_set;
mod pending_acks;
mod range_set;
mod ack_sets;
mod triple_heap;
mod time_buckets;
mod time_wheel;
mod position_info;
mod command_ack;
mod names;
mod partials;
mod trace;

fn main() {
    let mut criterion = cpu_time::criterion();
    ledgers::benches(&mut criterion);
    long_map::benches(&mut criterion);
    bit_set::benches(&mut criterion);
    pending_acks::benches(&mut criterion);
    range_set::benches(&mut criterion);
    ack_sets::benches(&mut criterion);
    triple_heap::benches(&mut criterion);
    time_buckets::benches(&mut criterion);
    time_wheel::benches(&mut criterion);
    position_info::benches(&mut criterion);
    command_ack::benches(&mut criterion);
    names::benches(&mut criterion);
    partials::benches(&mut criterion);
    trace::benches(&mut criterion);
    criterion.final_summary();
}
