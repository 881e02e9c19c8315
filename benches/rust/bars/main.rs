//! Our side of the bars: `bars AREA WORKLOAD` prints what it measures as JSON lines, in the peers' form.
//! `benches/bars` runs it beside them.

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
        ["pending_acks", workload] => pending_acks::measure(workload),
        ["long_map", workload] => long_map::measure(workload),
        ["delayed", workload] => delayed::measure(workload),
        ["position_info", workload] => position_info::measure(workload),
        ["range_set", workload] => range_set::measure(workload),
        // `cargo bench` runs every bench target, with the filters and flags meant for criterion; without an
        // area and a workload there is nothing to compare with.
        _ => eprintln!("no area and workload named; run by `make lab-bench-peers`"),
    }
}
