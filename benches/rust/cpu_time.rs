//! CPU time of the thread as a criterion measurement: on a busy machine, wall time includes other processes.

use cpu_time::ThreadTime;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput};
use std::time::Duration;

pub(crate) struct CpuTime;

/// Returns a `Criterion` that measures CPU time. Its samples are short, for operations of nanoseconds.
pub(crate) fn criterion() -> Criterion<CpuTime> {
    Criterion::default()
        .with_measurement(CpuTime)
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args()
}

impl Measurement for CpuTime {
    type Intermediate = ThreadTime;
    type Value = Duration;

    fn start(&self) -> ThreadTime {
        ThreadTime::now()
    }

    fn end(&self, start: ThreadTime) -> Duration {
        start.elapsed()
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        // Both are nanoseconds, so they are written alike.
        WallTime.formatter()
    }
}

/// Returns the number of elements that a bench processes, so that criterion prints a rate.
pub(crate) fn elements(count: usize) -> Throughput {
    Throughput::Elements(count as u64)
}
