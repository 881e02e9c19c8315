//! ackwell's side of the bars: `bars AREA WORKLOAD` prints its measurements as JSON lines, in the form of the peers.
//! `benches/bars` runs it in turn with the peers.

mod ack_sets;
mod delayed;
mod long_map;
mod pending_acks;
mod position_info;
#[path = "../range_acks.rs"]
mod range_acks;
mod range_set;
mod window;
#[path = "../workloads.rs"]
mod workloads;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ack_sets", workload] => ack_sets::measure(workload),
        ["pending_acks", workload] => pending_acks::measure(workload),
        ["long_map", workload] => long_map::measure(workload),
        ["delayed", workload] => delayed::measure(workload),
        ["position_info", workload] => position_info::measure(workload),
        ["range_set", workload] => range_set::measure(workload),
        // `cargo bench` runs every bench target with criterion's filters and flags. Without an area and a workload
        // this target does nothing.
        _ => eprintln!("no area and workload named; run by `make lab-bench-peers`"),
    }
}
