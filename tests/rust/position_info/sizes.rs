//! Upper bounds of encoded sizes. A broker of today loses each of these states on a restart, in part or whole, or
//! writes it at many times the size.

use ackwell_core::position_info::{Limits, RESULT_BYTES_MAX};
use ackwell_core::{Form, Position, PositionInfo};

/// xorshift64*, so that the states are the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound
    }
}

/// log2 of the binomial coefficient of `n` of `m`, in bytes: what any code needs on average.
fn bound_bytes(m: u64, n: u64) -> f64 {
    let entropy = |k: u64| {
        let p = k as f64 / m as f64;
        if p == 0.0 { 0.0 } else { -p * p.log2() }
    };
    let bits = m as f64 * (entropy(n) + entropy(m - n));
    (bits - 0.5 * (std::f64::consts::TAU * n as f64 * (m - n) as f64 / m as f64).log2()) / 8.0
}

fn compact(info: &PositionInfo) -> usize {
    let bytes = info.encode(Form::Compact).unwrap();
    let (decoded, form) = PositionInfo::decode(&bytes, RESULT_BYTES_MAX).unwrap();
    assert_eq!(Form::Compact, form);
    assert!(decoded == *info, "compact gives back what was written");
    bytes.len()
}

/// A backlog over `ledgers` ledgers of `length` entries, of which the entries that `acked` accepts are acknowledged;
/// returns the number of entries and of unacknowledged ones.
fn backlog(ledgers: i64, length: i64, mut acked: impl FnMut() -> bool) -> (PositionInfo, u64, u64) {
    let mut info = PositionInfo::new(Position::new(10, -1));
    let (mut holes, mut columns) = (0, [Vec::new(), Vec::new()]);
    for ledger_id in 10..10 + ledgers {
        columns.iter_mut().for_each(Vec::clear);
        for entry_id in 0..length {
            if acked() {
                columns[0].push(ledger_id);
                columns[1].push(entry_id);
            } else {
                holes += 1;
            }
        }
        info.individually_deleted.add_many(&columns[0], &columns[1]).unwrap();
    }
    (info, (ledgers * length) as u64, holes)
}

fn random_holes(ledgers: i64, length: i64, holes: u64) -> (PositionInfo, u64) {
    let mut random = Random(7);
    let mut info = PositionInfo::new(Position::new(10, -1));
    for ledger_id in 10..10 + ledgers {
        info.individually_deleted.add_range(ledger_id, -1, length - 1).unwrap();
    }
    for _ in 0..holes {
        let at = random.below((ledgers * length) as u64) as i64;
        info.individually_deleted.remove(10 + at / length, at % length);
    }
    let total = (ledgers * length) as u64;
    (info, total)
}

fn within(info: &PositionInfo, total: u64, holes: u64, ledgers: u64, most: usize) {
    let bytes = compact(info);
    let bound = bound_bytes(total, holes);
    println!("{bytes} B, at most {most}, bound {bound:.0}: {:.4}", bytes as f64 / bound);
    assert!(bytes <= most, "{bytes} bytes, at most {most}");
    assert!(
        bytes as f64 <= 1.25 * bound + 16.0 * ledgers as f64,
        "{bytes} bytes, bound {bound:.0}"
    );
}

#[test]
fn only_the_oldest_of_fifty_million_unacknowledged() {
    let oldest = |id_gap: &mut dyn FnMut() -> i64, length: &mut dyn FnMut() -> i64| {
        let mut info = PositionInfo::new(Position::new(10, -1));
        let mut ledger_id = 10;
        for index in 0..1000 {
            let lower = if index == 0 { 0 } else { -1 };
            info.individually_deleted.add_range(ledger_id, lower, length() - 1).unwrap();
            ledger_id += id_gap();
        }
        info
    };
    let equal = oldest(&mut || 1, &mut || 50_000);
    let bytes = compact(&equal);
    println!("equal ledgers: {bytes} B");
    assert!(bytes <= 2_000, "{bytes}");
    let (mut gaps, mut lengths) = (Random(3), Random(5));
    let random =
        oldest(&mut || 1 + gaps.below(1000) as i64, &mut || 2 + lengths.below(100_000) as i64);
    let bytes = compact(&random);
    println!("random ledgers: {bytes} B");
    assert!(bytes <= 5_000, "{bytes}");
    for info in [equal, random] {
        let form = info.smaller_pulsar_form(4);
        let (bytes, loss) = info.encode_within(form, Limits::default()).unwrap();
        println!("pulsar-auto: {form}, {} B", bytes.len());
        assert!(loss.reasons.is_empty() && bytes.len() <= 35_000, "{}", bytes.len());
    }
}

#[test]
fn one_in_a_thousand_of_a_hundred_million_unacknowledged() {
    let (info, total) = random_holes(2_000, 50_000, 100_000);
    within(&info, total, total - info.individually_deleted.cardinality() as u64, 2_000, 180_000);
}

#[test]
fn ten_thousand_of_ten_million_unacknowledged() {
    let (info, total) = random_holes(200, 50_000, 10_000);
    within(&info, total, total - info.individually_deleted.cardinality() as u64, 200, 18_000);
}

#[test]
fn seventy_percent_of_two_million_acknowledged_at_random() {
    let mut random = Random(9);
    let (info, total, holes) = backlog(40, 50_000, || random.below(10) < 7);
    within(&info, total, holes, 40, (1.05 * bound_bytes(total, holes)) as usize);
}

#[test]
fn every_second_of_two_million_acknowledged() {
    let mut odd = false;
    let (info, ..) = backlog(40, 50_000, || {
        odd = !odd;
        !odd
    });
    assert_eq!(1_000_000, info.individually_deleted.len());
    let bytes = compact(&info);
    println!("alternating: {bytes} B");
    assert!(bytes <= 1_000, "{bytes}");
}

#[test]
fn any_share_acknowledged_at_random_is_near_the_entropy() {
    let mut random = Random(11);
    for per_mille in [1, 10, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 950, 990, 999] {
        let (info, total, holes) = backlog(4, 50_000, || random.below(1000) < per_mille);
        print!("{per_mille} per mille acknowledged: ");
        within(&info, total, holes, 4, usize::MAX);
    }
}
