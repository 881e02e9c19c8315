//! `TimeWheel`: adding and popping messages of a steady rate, and of scattered times.

use ackwell_core::TimeWheel;
use criterion::Criterion;

use crate::cpu_time::CpuTime;
use crate::delayed::{MESSAGES, WEEK_MS, at_random, fill_and_drain, names, steady};

pub(crate) fn benches(criterion: &mut Criterion<CpuTime>) {
    for (name, _, messages) in steady() {
        let wheel = || TimeWheel::new(1).expect("a tick");
        fill_and_drain(criterion, &format!("time_wheel, {name}"), wheel, &messages);
    }
    for name in names("scattered") {
        let tick = name.trim_start_matches("rand,").parse().expect("a tick");
        let wheel = || TimeWheel::new(tick).expect("a tick");
        let messages = at_random(MESSAGES, WEEK_MS);
        fill_and_drain(criterion, &format!("time_wheel, {name}"), wheel, &messages);
    }
}
