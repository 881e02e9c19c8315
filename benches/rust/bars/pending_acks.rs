//! `PendingAcks` on the operations that the peers' `AMain` times, with the same names.

use std::hint::black_box;
use std::sync::Mutex;

use ackwell_core::PendingAcks;

use crate::window::{once_each, print, windows};
use crate::workloads::Acks;

const CALLS: usize = 1_000;

fn populate(workload: &Acks) -> PendingAcks {
    let mut acks = PendingAcks::new();
    for (&(ledger, entry), &value) in workload.positions.iter().zip(&workload.values) {
        acks.add(ledger, entry, value);
    }
    acks
}

/// Returns the position in the middle of the middle ledger. The cleanup removes all entries up to this position.
fn middle(workload: &Acks) -> (i64, i64) {
    let ledger = (workload.positions[workload.positions.len() - 1].0 + 1) / 2;
    let of_ledger: Vec<_> = workload.positions.iter().filter(|at| at.0 == ledger).collect();
    *of_ledger[of_ledger.len() / 2]
}

pub(crate) fn measure(name: &str) {
    let workload = Acks::named(name);
    let mut acks = populate(&workload);
    let bytes = acks.heap_bytes() as f64 / acks.len() as f64;
    println!(r#"{{"dataset":"{name}","bytesPerEntry":{bytes:.4}}}"#);

    let in_order: Vec<usize> = (0..workload.positions.len()).collect();
    let orders = [("Seq", in_order), ("Random", workload.shuffled())];
    for (suffix, order) in &orders {
        // The keys are in the order of use, as the peers' do.
        let keys: Vec<(i64, i64)> = order.iter().map(|&i| workload.positions[i]).collect();
        let time = |operation: &str, call: &mut dyn FnMut(i64, i64)| {
            let mut at = 0;
            let figures = windows(|| {
                for _ in 0..CALLS {
                    call(keys[at].0, keys[at].1);
                    at = if at + 1 == keys.len() { 0 } else { at + 1 };
                }
                CALLS
            });
            print(name, operation, &figures);
        };
        time(&format!("get{suffix}"), &mut |l, e| _ = black_box(acks.get(l, e)));
        time(&format!("contains{suffix}"), &mut |l, e| _ = black_box(acks.contains(l, e)));
        let locked = Mutex::new(acks.clone());
        time(&format!("get{suffix}Locked"), &mut |l, e| {
            _ = black_box(locked.lock().unwrap().get(l, e))
        });
        let operation = if *suffix == "Seq" { "removeAdd" } else { "removeAddRandom" };
        time(operation, &mut |l, e| {
            let value = acks.remove(l, e).expect("it is pending");
            acks.add(l, e, value);
        });
    }
    let mut i = 0;
    print(
        name,
        "addOrReplace",
        &windows(|| {
            for _ in 0..CALLS {
                let (ledger, entry) = workload.positions[i];
                acks.add(ledger, entry, workload.values[i]);
                i = if i + 1 == workload.positions.len() { 0 } else { i + 1 };
            }
            CALLS
        }),
    );
    // One message is subtracted and added in turn, so that no count reaches its end.
    let (mut i, mut acked) = (0, 1);
    print(
        name,
        "updateRemaining",
        &windows(|| {
            for _ in 0..CALLS {
                let (ledger, entry) = workload.positions[i];
                acks.update_remaining(ledger, entry, acked);
                i += 1;
                if i == workload.positions.len() {
                    (i, acked) = (0, -acked);
                }
            }
            CALLS
        }),
    );
    print(
        name,
        "forEachAll",
        &windows(|| {
            let mut total = 0_i64;
            acks.for_each(|_, _, value| {
                total += i64::from(value.remaining.wrapping_add(value.sticky_key_hash));
            });
            black_box(total);
            1
        }),
    );
    print(name, "populate", &once_each(|| (), |()| _ = black_box(populate(&workload))));
    let (ledger, entry) = middle(&workload);
    let cleanup = once_each(
        || populate(&workload),
        |acks| _ = black_box(acks.remove_all_up_to(ledger, entry)),
    );
    print(name, "removeAllUpTo", &cleanup);
}
