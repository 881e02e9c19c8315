//! Benches of the core, a module a structure, in thread CPU time.

mod cpu_time;
mod workloads;
mod long_map;
mod bit_set;
mod pending_acks;

fn main() {
    let mut criterion = cpu_time::criterion();
    long_map::benches(&mut criterion);
    bit_set::benches(&mut criterion);
    pending_acks::benches(&mut criterion);
    criterion.final_summary();
}
